"""`FrozenRun`: what one run has, by which rule it needs approval, and what tells it from other runs."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from actbox import FileMount, InvalidValue, Limits, Tool
from actbox.codeact import CodeActConfig, ToolEntry
from actbox.codeact.serial_numbers import new_serial, serial_of


def named(name: str, **given: Any) -> Tool:
    return Tool.from_function(lambda x=1: x, name=name, **given)


def guarded(name: str) -> Tool:
    return named(name, approval="always_require")


# Approval


@pytest.mark.parametrize(
    ("mode", "tools", "approval"),
    [
        ("never_require", [], "never_require"),
        ("never_require", [named("a"), named("b")], "never_require"),
        ("never_require", [named("a"), guarded("pay")], "always_require"),
        ("never_require", [guarded("pay")], "always_require"),
        ("always_require", [], "always_require"),
        ("always_require", [named("a")], "always_require"),
        ("always_require", [guarded("pay")], "always_require"),
    ],
)
def test_a_run_requires_approval_where_its_mode_or_any_of_its_tools_does(mode: Any, tools: Any, approval: str) -> None:
    run = CodeActConfig(tools=tools, approval_mode=mode).freeze()
    assert run.approval == approval
    assert run.state()["approval_mode"] == approval
    assert run.toolset.requiring == tuple(tool.name for tool in tools if tool.approval == "always_require")


@pytest.mark.parametrize("style", ["inspected", "nested"])
def test_in_the_other_styles_the_mode_alone_says_whether_every_run_does(style: Any) -> None:
    assert CodeActConfig(tools=[guarded("pay")], approval_style=style).freeze().approval == "never_require"
    config = CodeActConfig(tools=[named("a")], approval_style=style, approval_mode="always_require")
    assert config.freeze().approval == "always_require"


def test_files_and_hosts_need_no_approval(tmp_path: Path) -> None:
    mounts = [FileMount(tmp_path, "/data", "rw")]
    assert CodeActConfig(file_mounts=mounts, allowed_domains=["a.com"]).freeze().approval == "never_require"


# What it is


def test_a_frozen_run_keeps_what_it_has_whatever_is_changed_later(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    config = CodeActConfig(tools=[named("a"), named("b")], file_mounts=[(tmp_path, "data")], allowed_domains=["a.com"])
    run = config.freeze()
    description, fingerprint = run.description, run.fingerprint
    config.add_tools([named("c"), guarded("b")])
    config.clear_allowed_domains()
    config.add_file_mounts([(tmp_path / "other", "data")])
    assert run.toolset.names == ("a", "b")
    assert [str(domain) for domain in run.policy.domains] == ["a.com"]
    assert [mount.host_path for mount in run.policy.mounts] == [tmp_path]
    assert (run.description, run.fingerprint, run.approval) == (description, fingerprint, "never_require")
    after = config.freeze()
    assert (after.toolset.names, after.approval, after.policy.domains) == (("a", "b", "c"), "always_require", ())


def test_a_frozen_run_cannot_be_changed() -> None:
    run = CodeActConfig().freeze()
    with pytest.raises(FrozenInstanceError):
        run.approval = "never_require"  # type: ignore[misc]
    run.input_schema["properties"]["code"].clear()
    run.input_schema.clear()
    run.state()["limits"].clear()
    assert run.input_schema == {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "description": "Code to execute using the provider's configured backend/runtime behavior.",
            }
        },
        "required": ["code"],
    }


def test_a_schema_that_somebody_has_changed_is_whole_for_the_next_who_asks() -> None:
    run = CodeActConfig().freeze()
    run.input_schema["required"].append("more")
    assert run.input_schema["required"] == ["code"]
    assert CodeActConfig().freeze().input_schema["required"] == ["code"]


def test_files_are_offered_where_there_is_a_mount_or_somebody_says_so(tmp_path: Path) -> None:
    mount = (tmp_path, "data")
    assert not CodeActConfig(allowed_domains=["a.com"]).freeze().file_surface
    assert CodeActConfig(file_mounts=[mount]).freeze().file_surface
    assert CodeActConfig(file_surface=True).freeze().file_surface
    assert not CodeActConfig(file_mounts=[mount], file_surface=False).freeze().file_surface


def test_the_state_is_json_and_says_what_the_run_has(tmp_path: Path) -> None:
    config = CodeActConfig(
        tools=[named("a"), guarded("get-user")],
        file_mounts=[(tmp_path, "data")],
        allowed_domains=["a.com", ("b.com", ["GET"])],
        limits=Limits(wall_seconds=5),
        search_above=1,
    )
    state = config.freeze().state()
    assert json.loads(json.dumps(state)) == state
    assert state["tool_name"] == "execute_code"
    assert state["tool_names"] == ["a", "get-user"]
    assert state["approval_style"] == "bundled"
    assert state["file_mounts"] == [{"host_path": str(tmp_path), "mount_path": "/input/data", "mode": "ro"}]
    assert state["allowed_domains"] == [
        {"target": "a.com", "methods": None},
        {"target": "b.com", "methods": ["GET"]},
    ]
    assert state["limits"]["wall_seconds"] == 5
    assert state["listing"]["groups"] == {"": ["a", "get_user"]}
    assert list(state["listing"]["digests"]) == ["a", "get_user"]
    assert "listing" not in CodeActConfig(tools=[named("a")]).freeze().state()


@pytest.mark.parametrize("wrong", [{}, {"groups": []}, {"groups": {"": ["no name"]}}])
def test_a_listing_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="listing of tools"):
        CodeActConfig(tools=[named("a")]).freeze(listing=wrong)


@pytest.mark.parametrize("name", ["search_tools", "describe_tool"])
def test_tools_that_would_hide_the_search_are_refused_where_there_is_one(name: str) -> None:
    tools = [named(name), named("a")]
    assert CodeActConfig(tools=tools).freeze().toolset.names == (name, "a")
    with pytest.raises(InvalidValue, match=name):
        CodeActConfig(tools=tools, search_above=1).freeze()


# Fingerprints


def test_what_has_not_changed_is_frozen_once() -> None:
    config = CodeActConfig(tools=[named("a")], allowed_domains=["a.com"])
    assert config.freeze() is config.freeze()


def test_a_change_that_is_taken_back_gives_the_same_fingerprint_again() -> None:
    tool = named("a")
    config = CodeActConfig(tools=[tool])
    first = config.freeze()
    config.add_allowed_domains("a.com")
    assert config.freeze().fingerprint != first.fingerprint
    config.remove_allowed_domain("a.com")
    again = config.freeze()
    assert (again.fingerprint, again.environment) == (first.fingerprint, first.environment)


@pytest.fixture
def changes(tmp_path: Path) -> dict[str, Callable[[CodeActConfig], None]]:
    return {
        "tool added": lambda config: config.add_tools(named("b")),
        "tool replaced": lambda config: config.add_tools(named("a")),
        "tool removed": lambda config: config.remove_tool("a"),
        "tool in another group": lambda config: config.add_tools(config.get_tools(), group="crm"),
        "domain": lambda config: config.add_allowed_domains("a.com"),
        "methods": lambda config: config.add_allowed_domains(("kept.com", "GET")),
        "mount": lambda config: config.add_file_mounts((tmp_path, "data")),
        "mode of a mount": lambda config: config.add_file_mounts(FileMount(tmp_path, "/kept", "rw")),
        "host of a mount": lambda config: config.add_file_mounts(FileMount(tmp_path.parent, "/kept")),
    }


NAMES = [
    "tool added",
    "tool replaced",
    "tool removed",
    "tool in another group",
    "domain",
    "methods",
    "mount",
    "mode of a mount",
    "host of a mount",
]


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_changed_changes_the_fingerprint(
    tmp_path: Path, changes: dict[str, Callable[[CodeActConfig], None]], name: str
) -> None:
    assert list(changes) == NAMES
    config = CodeActConfig(tools=[named("a")], file_mounts=[FileMount(tmp_path, "/kept")], allowed_domains=["kept.com"])
    before = config.freeze()
    changes[name](config)
    after = config.freeze()
    assert after.fingerprint != before.fingerprint
    # Tools are given with each program: they need no other sandbox.
    assert (after.environment == before.environment) == name.startswith("tool")


def test_a_folder_that_has_come_to_lie_in_the_place_of_another_is_another_environment(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    config = CodeActConfig(file_mounts=[(folder, "data")])
    before = config.freeze()
    folder.rename(tmp_path / "old")
    folder.mkdir()
    config.add_file_mounts([(folder, "data")])
    assert config.freeze().environment != before.environment


def test_two_configurations_that_say_the_same_share_nothing() -> None:
    tool = named("a")
    one, other = (CodeActConfig(tools=[tool]).freeze() for _ in range(2))
    assert one.fingerprint != other.fingerprint
    assert one.environment != other.environment


def test_another_listing_that_is_told_is_another_fingerprint() -> None:
    config = CodeActConfig(tools=[named("a"), named("b")], search_above=1)
    first = config.freeze()
    config.add_tools(named("c"))
    new, pinned = config.freeze(), config.freeze(listing=first.listing)
    assert new.description != pinned.description
    assert new.fingerprint != pinned.fingerprint
    assert config.freeze(listing=new.listing).fingerprint == new.fingerprint


@pytest.mark.slow
def test_a_tool_that_gets_the_address_of_one_that_was_collected_is_another_tool() -> None:
    there: list[Tool] = []

    class Returning(Tool):
        """Comes back when it is collected, which ends all weak references: as good as another at the same address."""

        def __del__(self) -> None:
            there.append(self)

    there.append(Returning.from_schema("find", "", {"type": "object"}, len))
    vars(there[0])["itself"] = there[0]  # so that the collector, which ends the references first, takes it
    config = CodeActConfig(
        adapt=lambda given: ToolEntry(name="server", given=given, tools=lambda: tuple(there)), tools=[object()]
    )
    first, address = config.freeze().fingerprint, id(there[0])
    assert config.freeze().fingerprint == first
    config._latest = None
    there.clear()
    gc.collect()
    assert [id(tool) for tool in there] == [address]
    assert config.freeze().fingerprint != first


def test_a_serial_number_is_a_things_own_for_as_long_as_it_lives_and_never_given_again() -> None:
    thing = named("a")
    number = serial_of(thing)
    assert serial_of(thing) == number
    assert serial_of(named("a")) != number
    seen = {number}
    for _ in range(100):
        fresh = serial_of(Tool.from_schema("a", "", {"type": "object"}, len))
        assert fresh not in seen
        seen.add(fresh)
    assert new_serial() not in seen
