"""An agent that was given no sandbox: nothing of this package takes its machine for one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

from actbox.integrations.strands import (
    CodeActPlugin,
    LocalEnvironment,
    StrandsSandbox,
    file_editor,
    file_read,
    file_write,
    make_file_read,
    python,
    python_session,
    shell,
)
from tests.integrations.strands_agents.acting import acting, block, observations
from tests.integrations.strands_agents.places import Foreign, agent_of, answers, sandbox_on, statuses
from tests.integrations.strands_agents.scripted import Call

ALL = (shell, python, python_session, file_read, file_write, file_editor)


@pytest.fixture
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this machine that is its working folder, in which nothing must happen."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("of the host")
    return tmp_path


def calls_at(folder: Path) -> list[Call]:
    """Return calls of all tools that would show on this machine."""
    made = str(folder / "made")
    return [
        ("shell", {"command": f"cat secret; echo 1 > {made}"}),
        ("python", {"code": f"open({made!r}, 'w')\nprint(open('secret').read())"}),
        ("python_session", {"code": f"open({made!r}, 'w')\nprint(open('secret').read())"}),
        ("file_read", {"path": str(folder / "secret")}),
        ("file_write", {"path": made, "content": "1"}),
        ("file_editor", {"command": "create", "path": made, "file_text": "1"}),
        ("file_editor", {"command": "view", "path": str(folder / "secret")}),
    ]


@pytest.mark.parametrize("given", [None, NotASandboxLocalEnvironment()])
async def test_tools_refuse_and_say_what_to_write(untouched: Path, given: Any) -> None:
    agent = agent_of(*calls_at(untouched), tools=ALL, sandbox=given)
    await agent.invoke_async("go")
    assert statuses(agent) == ["error"] * 7
    for answer in answers(agent):
        assert "Agent(sandbox=StrandsSandbox())" in answer
        assert "LocalEnvironment()" in answer
        assert "of the host" not in answer
    assert os.listdir(untouched) == ["secret"]


@pytest.mark.slow
async def test_tools_that_programs_call_work_where_the_programs_run(untouched: Path) -> None:
    program = "\n".join(
        [
            "shell('echo hi > made; echo 1 > from_shell')",
            "file_write('written', 'text')",
            "print(file_editor('view', '/workspace/written'))",
            "print(file_read('made'), python('import os; print(sorted(os.listdir()))'))",
            "print(sorted(__import__('os').listdir()))",
            "try:",
            f"    file_read({str(untouched / 'secret')!r})",
            "except ToolError as error:",
            "    print('refused')",
        ]
    )
    for given in ("linux", sandbox_on("linux"), sandbox_on("linux").box):
        agent = acting(given, block(program), "done", tools=ALL)
        await agent.invoke_async("go")
        (said,) = observations(agent)
        assert said.count("['from_shell', 'input', 'made', 'output', 'written']") == 2
        assert "1  text\n\nhi\n" in said
        assert said.endswith("\nrefused")
    assert os.listdir(untouched) == ["secret"]


@pytest.mark.slow
async def test_sessions_of_tools_live_where_programs_run() -> None:
    program = "python_session('x = 20')\nprint(python_session('x + 1'))"
    agent = acting("linux", block(program), "done", tools=ALL)
    await agent.invoke_async("go")
    assert "21" in observations(agent)[0]


@pytest.mark.slow
async def test_what_was_given_on_purpose_is_used(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("here")
    read = ("file_read", {"path": str(tmp_path / "f")})
    async with LocalEnvironment(tmp_path) as machine:
        for given in (machine, Foreign()):
            agent = agent_of(read, tools=ALL, sandbox=given)
            await agent.invoke_async("go")
            assert answers(agent) == ["here"]
    bound = make_file_read(sandbox=NotASandboxLocalEnvironment())
    agent = agent_of(read, tools=[bound])
    await agent.invoke_async("go")
    assert answers(agent) == ["here"]


@pytest.mark.slow
async def test_the_sandbox_of_the_agent_comes_before_that_of_its_programs(linux: StrandsSandbox) -> None:
    await linux.write_file("f", b"of the agent")
    agent = acting("linux", block("print(file_read('f'))"), "done", tools=ALL, agent={"sandbox": linux})
    await agent.invoke_async("go")
    assert "of the agent" in observations(agent)[0]


def test_programs_do_not_run_beside_a_foreign_sandbox_that_was_given() -> None:
    with pytest.raises(ValueError, match="the agent's is a Foreign"):
        Agent(plugins=[CodeActPlugin()], sandbox=Foreign())
