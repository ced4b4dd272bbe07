"""Arguments that make no sense: a sentence says so where they are given, and no model is left with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from actbox import FileMount, InvalidValue, Policy, SandboxUnavailable, Unsupported
from actbox.integrations.strands import (
    CodeActPlugin,
    DockerSandbox,
    LocalEnvironment,
    StrandsSandbox,
    make_file_editor,
    make_file_read,
    make_file_write,
    make_programmatic_tool_caller,
    make_python,
    make_python_session,
    make_shell,
)
from actbox.sync import SyncSandbox
from tests.conftest import with_marks
from tests.integrations.strands_agents.acting import acting, block
from tests.integrations.strands_agents.places import Foreign, sandbox_on

MAKERS: list[Callable[..., Any]] = [
    make_shell,
    make_python,
    make_python_session,
    make_file_read,
    make_file_write,
    make_file_editor,
]


# Sandboxes


@pytest.mark.slow
@pytest.mark.parametrize("engine", with_marks(["linux", "container", "wasm"]))
@pytest.mark.parametrize("folder", ["/nope", "/etc/passwd"])
async def test_a_working_folder_that_is_missing_is_refused_when_the_sandbox_starts(engine: str, folder: str) -> None:
    sandbox = sandbox_on(engine, working_dir=folder)
    for _ in range(2):
        with pytest.raises(InvalidValue, match=f"working_dir='{folder}' must be a directory that is in the sandbox"):
            await sandbox.start()
    with pytest.raises(InvalidValue, match="working_dir"):
        await sandbox.read_file("f")


@pytest.mark.slow
async def test_a_working_folder_may_be_in_a_mount(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    policy = Policy(mounts=(FileMount(tmp_path, "/data"),))
    async with sandbox_on("linux", policy=policy, working_dir="/data/sub") as sandbox:
        assert (await sandbox.execute("pwd")).stdout == "/data/sub\n"
    with pytest.raises(InvalidValue, match="working_dir='/data/nope'"):
        await sandbox_on("linux", policy=policy, working_dir="/data/nope").start()


@pytest.mark.parametrize("folder", ["/tmp", "/tmp/mine"])
def test_a_working_folder_in_which_nothing_lasts_is_refused(folder: str) -> None:
    with pytest.raises(InvalidValue, match="may be gone for the next one"):
        StrandsSandbox("linux", working_dir=folder)


def test_a_working_folder_is_refused_where_programs_cannot_start_in_one() -> None:
    with pytest.raises(Unsupported, match="leave out working_dir"):
        StrandsSandbox("monty", working_dir="project")


@pytest.mark.parametrize("folder", [3, b"/workspace", "a\0b", Path("project")])
async def test_a_folder_is_named_by_text(linux: StrandsSandbox, folder: Any) -> None:
    with pytest.raises(InvalidValue, match="working_dir is the path of a directory"):
        StrandsSandbox("linux", working_dir=folder)
    with pytest.raises(InvalidValue, match="cwd is the path of a directory"):
        await linux.execute("true", cwd=folder)
    with pytest.raises(InvalidValue, match="cwd is the path of a directory"):
        await linux.execute_code("1", cwd=folder)


@pytest.mark.parametrize("volumes", [["/srv"], "/srv", 3])
def test_volumes_are_a_mapping(volumes: Any) -> None:
    with pytest.raises(InvalidValue, match="volumes maps what is on the host"):
        DockerSandbox(volumes=volumes)


# Tools


@pytest.mark.parametrize("make", MAKERS)
def test_a_tool_is_made_with_a_sandbox_for_agents_and_a_name(make: Callable[..., Any]) -> None:
    for sandbox in ("linux", 3, StrandsSandbox("linux").box, StrandsSandbox):
        with pytest.raises(InvalidValue, match="such as StrandsSandbox"):
            make(sandbox=sandbox)
    for name in ("", "a b", "a" * 65, "größe", 3):
        with pytest.raises(InvalidValue, match="the name of a tool"):
            make(name=name)
    assert make(name="a" * 64).tool_name == "a" * 64
    assert make(sandbox=LocalEnvironment(), name="my-tool_2").tool_name == "my-tool_2"


def test_the_tool_with_sessions_takes_only_sandboxes_that_have_them() -> None:
    with pytest.raises(InvalidValue, match="such as StrandsSandbox"):
        make_python_session(sandbox=Foreign())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", None])
def test_the_caller_has_a_name_that_models_can_write(name: Any) -> None:
    with pytest.raises(InvalidValue, match="the name of a tool"):
        make_programmatic_tool_caller(name=name)


# The plugin


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sandbox": "linx"}, r"no engine 'linx'.*linux"),
        ({"sandbox": 3}, "a sandbox of ours or the name"),
        ({"sandbox": SyncSandbox}, "a sandbox of ours or the name"),
        ({"sandbox": Foreign()}, "a sandbox of ours or the name"),
        ({"max_turns": "3"}, "max_turns must be a whole number"),
        ({"max_turns": 2.5}, "max_turns must be a whole number"),
        ({"max_turns": True}, "max_turns must be a whole number"),
        ({"guidance": 3}, "guidance must be text"),
    ],
)
def test_the_plugin_refuses_what_makes_no_sense_when_it_is_made(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        CodeActPlugin(**arguments)


@pytest.mark.parametrize(("engine", "needs"), [("process", ""), ("ssh", ", host='user@host'")])
def test_the_call_that_opens_what_isolates_nothing_is_named_whole_and_works(engine: str, needs: str) -> None:
    call = f"StrandsSandbox('{engine}'{needs}, allow_unisolated=True)"
    for opener, said in ((CodeActPlugin, f"CodeActPlugin({call})"), (StrandsSandbox, call)):
        with pytest.raises(SandboxUnavailable, match="isolates nothing") as raised:
            opener(engine)
        assert str(raised.value).endswith(f" {said}")
    eval(call)  # which starts nothing yet


def test_the_name_of_a_client_leads_to_the_sandbox_of_strands_that_has_it() -> None:
    with pytest.raises(InvalidValue, match=r": StrandsSandbox\('container', client='docker'\)$"):
        StrandsSandbox("docker")
    with pytest.raises(InvalidValue, match=r": CodeActPlugin\(StrandsSandbox\('container', client='docker'\)\)$"):
        CodeActPlugin("docker")


@pytest.mark.slow
@pytest.mark.parametrize("given", [LocalEnvironment, lambda: StrandsSandbox("process", allow_unisolated=True)])
async def test_what_the_plugin_says_to_give_works(given: Callable[[], StrandsSandbox]) -> None:
    async with given() as sandbox:
        agent = acting(sandbox, block("final_answer(6 * 7)"))
        assert (await agent.invoke_async("go")).state["codeact"]["answer"] == 42
