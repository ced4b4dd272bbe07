"""`CodeActConfig`: tools and settings, changed between runs, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import InvalidValue, Limits, Tool
from actbox.codeact import CodeActConfig, ToolEntry
from tests.codeact.configs import named, names, targets

# Tools


def look(thing: str) -> str:
    """Look something up."""
    return thing


def test_one_tool_or_several_or_functions_can_be_given() -> None:
    config = CodeActConfig(tools=look)
    config.add_tools(named("weigh"))
    config.add_tools([named("count"), named("sort")])
    config.add_tools(actbox.Toolset.of([named("last")]))
    assert names(config) == ["look", "weigh", "count", "sort", "last"]
    assert all(isinstance(tool, Tool) for tool in config.get_tools())


def test_nothing_is_given_as_none_or_as_nothing() -> None:
    for nothing in (None, (), []):
        config = CodeActConfig(tools=nothing, file_mounts=nothing, allowed_domains=nothing)
        assert (config.get_tools(), config.get_file_mounts(), config.get_allowed_domains()) == ([], [], [])


def test_a_tool_of_the_same_name_takes_the_place_of_the_first() -> None:
    config = CodeActConfig(tools=[named("a"), named("b"), named("c")])
    other = named("b")
    config.add_tools(other)
    assert names(config) == ["a", "b", "c"]
    assert config.get_tools()[1] is other
    config.remove_tool("b")
    config.add_tools(other)
    assert names(config) == ["a", "c", "b"]


def test_tools_that_differ_in_case_only_are_two() -> None:
    config = CodeActConfig(tools=[named("Look"), named("look")])
    config.remove_tool("look")
    assert names(config) == ["Look"]


def test_removing_a_tool_that_is_not_there_says_what_is() -> None:
    config = CodeActConfig(tools=[named("a"), named("b")])
    with pytest.raises(KeyError) as raised:
        config.remove_tool("z")
    assert raised.value.args == ("there is no tool 'z'; there are: 'a', 'b'",)
    with pytest.raises(KeyError, match="there are: none"):
        CodeActConfig().remove_tool("z")


def test_several_tools_are_removed_together_or_not_at_all() -> None:
    config = CodeActConfig(tools=[named("a"), named("b"), named("c")])
    with pytest.raises(KeyError, match="no tool 'y', 'z'; there are"):
        config.remove_tools("a", "y", "b", "z")
    assert names(config) == ["a", "b", "c"]
    config.remove_tools("c", "a", "c")
    assert names(config) == ["b"]
    config.clear_tools()
    assert config.get_tools() == []


@pytest.mark.parametrize("wrong", [7, "look", {"look": look}, None, b"look"])
def test_what_cannot_be_a_tool_is_refused_and_nothing_else_of_the_list_is_added(wrong: Any) -> None:
    config = CodeActConfig(tools=[named("a")])
    with pytest.raises(InvalidValue):
        config.add_tools([named("b"), wrong])
    with pytest.raises(InvalidValue):
        config.add_tools(wrong)
    assert names(config) == ["a"]


def test_a_list_that_raises_while_it_is_read_adds_nothing() -> None:
    def tools() -> Iterator[Tool]:
        yield named("b")
        raise OSError("the server is gone")

    config = CodeActConfig()
    with pytest.raises(OSError, match="the server is gone"):
        config.add_tools(tools())
    assert config.get_tools() == []


def test_a_tool_cannot_have_the_name_by_which_the_model_runs_programs() -> None:
    with pytest.raises(InvalidValue, match=r"'execute_code'.*tool_name"):
        CodeActConfig(tools=[named("execute_code")])
    config = CodeActConfig(tools=[named("execute_code")], tool_name="run_python")
    with pytest.raises(InvalidValue, match="'run_python'"):
        config.add_tools([named("fine"), named("run_python")])
    assert names(config) == ["execute_code"]


def test_nor_can_a_tool_whose_name_in_programs_is_that_one() -> None:
    schema = {"type": "object", "properties": {}}
    odd = Tool.from_schema("execute-code", "Do it.", schema, lambda: None)
    with pytest.raises(InvalidValue, match="cannot be called 'execute-code'"):
        CodeActConfig(tools=[odd])
    server = CodeActConfig(adapt=lambda given: ToolEntry(name="s", given=given, tools=lambda: (odd,)))
    server.add_tools([object()])
    with pytest.raises(InvalidValue, match="'execute_code'"):
        server.freeze()


@pytest.mark.parametrize("name", ["call_tool", "ToolError"])
def test_a_tool_that_would_hide_what_programs_have_is_refused_when_it_is_added(name: str) -> None:
    config = CodeActConfig(tools=[named("a")])
    with pytest.raises(InvalidValue, match=name):
        config.add_tools([named("b"), named(name)])
    assert names(config) == ["a"]


def test_a_name_that_several_servers_give_their_tools_is_refused_when_a_run_is_frozen() -> None:
    def server(given: Any) -> ToolEntry:
        tools = (named("find"),)
        return ToolEntry(name=given, given=given, tools=lambda: tools)

    config = CodeActConfig(adapt=server)
    config.add_tools(["crm"])
    config.freeze()
    config.add_tools(["shop"])
    with pytest.raises(InvalidValue, match="two tools are called 'find'"):
        config.freeze()
    config.remove_tool("shop")
    assert config.freeze().toolset.names == ("find",)


def test_a_server_can_have_no_tool_that_is_called_like_the_one_that_runs_programs() -> None:
    config = CodeActConfig(adapt=lambda given: ToolEntry(name="s", given=given, tools=lambda: (named("execute_code"),)))
    config.add_tools([object()])
    with pytest.raises(InvalidValue, match="'execute_code'"):
        config.freeze()


# All of them


def test_what_is_returned_are_lists_of_the_callers_own(folder: Path) -> None:
    config = CodeActConfig(tools=[named("a")], file_mounts=["data"], allowed_domains=["a.com"])
    for got in (config.get_tools, config.get_file_mounts, config.get_allowed_domains):
        kept = got()
        kept.clear()  # type: ignore[attr-defined]
        assert len(got()) == 1


def test_everything_can_be_cleared(folder: Path) -> None:
    config = CodeActConfig(tools=[named("a")], file_mounts=["data"], allowed_domains=["a.com"])
    config.clear_tools()
    config.clear_file_mounts()
    config.clear_allowed_domains()
    run = config.freeze()
    assert (len(run.toolset), run.policy.mounts, run.policy.domains, run.file_surface) == (0, (), (), False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"approval_mode": "sometimes"}, "approval must be one of"),
        ({"approval_style": "later"}, "approval_style must be one of"),
        ({"only_named_tools": True}, "goes with approval_style='inspected'"),
        ({"only_named_tools": 1, "approval_style": "inspected"}, "only_named_tools is True or False"),
        ({"tool_name": "run code"}, "tool_name must be an identifier"),
        ({"tool_name": 7}, "tool_name must be an identifier"),
        ({"clear_output": "yes"}, "clear_output is True or False"),
        ({"file_surface": "yes"}, "file_surface is True, False or None"),
        ({"max_chars": 0}, "max_chars must be a whole number of at least 2000"),
        ({"max_output_files": True}, "max_output_files must be a whole number"),
        ({"max_output_file_bytes": 1.5}, "max_output_file_bytes must be a whole number"),
        ({"search_above": -1}, "search_above must be a whole number of at least 0"),
        ({"limits": {"wall_seconds": 5}}, r"limits must be Limits"),
        ({"preload": "numpy"}, "preload is a list"),
        ({"variables": {"A=B": "x"}}, "environment variable"),
        ({"approval_mode": ""}, "approval must be one of"),
        ({"workspace_root": "no such folder"}, "no such folder"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        CodeActConfig(**given)


def test_an_option_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(TypeError, match=r"no argument 'max_tokens'; there are: limits,"):
        CodeActConfig(max_tokens=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("attribute", ["approval_mode", "tool_name", "workspace_root", "settings"])
def test_what_is_given_once_cannot_be_changed_behind_the_frozen_runs(attribute: str) -> None:
    config = CodeActConfig()
    with pytest.raises(AttributeError):
        setattr(config, attribute, getattr(config, attribute))


def test_no_approval_mode_is_never_require_and_limits_are_kept() -> None:
    run = CodeActConfig(approval_mode=None, limits=Limits(wall_seconds=5)).freeze()
    assert run.approval == "never_require"
    assert run.policy.limits.wall_seconds == 5


def test_a_dict_of_variables_that_is_changed_later_changes_no_run() -> None:
    variables = {"LANG": "C"}
    config = CodeActConfig(variables=variables)
    variables["LANG"] = "de"
    assert config.freeze().policy.variables == {"LANG": "C"}


# Threads


def in_threads(*functions: Callable[[], None]) -> None:
    """Run functions at once, and raise what one of them raises."""
    failed: list[BaseException] = []
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], None]) -> None:
        try:
            barrier.wait(30)
            function()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failed:
        raise failed[0]


def test_every_frozen_run_is_one_state_that_there_was() -> None:
    # A change replaces two tools at once: a run that had one of before and one of after would be torn.
    states = [[named("one"), named("two")] for _ in range(2)]
    pairs = {(id(one), id(two)) for one, two in states}
    config = CodeActConfig(tools=states[0])

    def change() -> None:
        for turn in range(60):
            config.add_tools(states[turn % 2])
            config.add_allowed_domains(["a.com", "b.com"])
            config.remove_allowed_domains("b.com", "a.com")

    def freeze() -> None:
        for _ in range(60):
            run = config.freeze()
            assert tuple(map(id, run.own_tools)) in pairs
            assert tuple(map(id, run.toolset)) in pairs
            assert [str(domain) for domain in run.policy.domains] in ([], ["a.com", "b.com"])

    in_threads(change, freeze, freeze)
    assert targets(config) == []


def test_of_many_that_remove_the_same_exactly_one_succeeds() -> None:
    config = CodeActConfig(tools=[named("a")])
    won: list[int] = []

    def remove() -> None:
        try:
            config.remove_tool("a")
            won.append(1)
        except KeyError:
            return

    in_threads(*[remove] * 8)
    assert won == [1]


def test_a_run_that_is_frozen_while_something_changes_is_not_kept_for_later_ones() -> None:
    asked, go_on = threading.Event(), threading.Event()
    first, second = named("find"), named("find")
    current = [first]

    def tools() -> tuple[Tool, ...]:
        seen = tuple(current)
        asked.set()
        assert go_on.wait(30)
        return seen

    config = CodeActConfig(adapt=lambda given: ToolEntry(name="server", given=given, tools=tools))
    config.add_tools([object()])
    frozen: list[Any] = []
    thread = threading.Thread(target=lambda: frozen.append(config.freeze()))
    thread.start()
    assert asked.wait(30)
    current[0] = second
    config.add_allowed_domains("a.com")  # nobody has to wait for the server
    go_on.set()
    thread.join(30)
    (before,) = frozen
    after = config.freeze()
    assert (before.own_tools, before.policy.domains) == ((first,), ())
    assert after.own_tools == (second,)
    assert [str(domain) for domain in after.policy.domains] == ["a.com"]
