"""`execute_code` as a tool that stands alone: described, changed, called, and kept apart by conversations."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession

from actbox.integrations.agent_framework import LinuxExecuteCodeTool
from tests.integrations.af_scripted import ScriptedClient, agent_of, code


def total(prices: list[float]) -> float:
    """Add up."""
    return sum(prices)


async def test_the_tool_that_stands_alone_describes_itself_and_follows_changes() -> None:
    async with LinuxExecuteCodeTool(tools=[total]) as alone:
        assert "def total(prices: list[float]) -> float:" in alone.description
        assert "total" in alone.build_instructions(tools_visible_to_model=True)
        assert "prices: list[float]" in alone.build_instructions(tools_visible_to_model=False)
        client = ScriptedClient([code("total([1, 2])")], ["done"])
        await agent_of(client, tools=[alone]).run("go")
        assert "3" in client.read()
        kept = alone.create_run_tool()
        alone.clear_tools()
        assert "total" not in alone.description
        assert "total" in kept.description
        assert "3" in (await kept.invoke(arguments={"code": "total([1, 2])"}))[0].text
        assert "NameError" in (await alone.invoke(arguments={"code": "total([1, 2])"}))[0].text
        assert json.loads(json.dumps(alone.build_serializable_state()))["tool_names"] == []


async def test_the_tool_that_stands_alone_can_be_called_by_the_host_itself() -> None:
    async with LinuxExecuteCodeTool(tools=[total]) as alone:
        contents = await alone.invoke(arguments={"code": "total([1, 2.5])"})
        assert [item.type for item in contents] == ["text"]
        assert "3.5" in contents[0].text
        assert "nothing" in (await alone.invoke(arguments={"code": None}))[0].text


async def test_the_tool_that_stands_alone_serialises_and_keeps_its_parameters() -> None:
    alone = LinuxExecuteCodeTool(tools=[total])
    document = json.loads(json.dumps(alone.to_dict()))
    assert document["name"] == "execute_code"
    assert "total" in document["description"]
    with pytest.raises(AttributeError, match="cannot be set"):
        alone.description = "mine"


async def test_the_tool_that_stands_alone_is_called_as_the_framework_calls_functions() -> None:
    async with LinuxExecuteCodeTool(tools=[total]) as alone:
        contents = await alone(code="total([1, 2.5])")
    assert "3.5" in contents[0].text


@pytest.mark.slow
@pytest.mark.parametrize("clear_output", [False, True])
async def test_files_stay_in_a_session_and_the_description_says_when(clear_output: bool) -> None:
    write, look = "open('kept.txt', 'w').write('x')", "import os; os.path.exists('kept.txt')"
    async with LinuxExecuteCodeTool(file_surface=True, clear_output=clear_output) as alone:
        said = "In a session, files in /workspace stay"
        assert said in alone.description
        assert "Without one each call has files of its own." in alone.description
        assert said in alone.build_instructions(tools_visible_to_model=True)
        assert said in alone.create_run_tool().description
        found: list[str] = []
        for session in (AgentSession(), None):
            client = ScriptedClient([code(write)], [code(look, "call-2")], ["done"])
            await agent_of(client, tools=[alone]).run("go", session=session)
            found.append(client.read())
        # Two runs without a session may be two conversations.
        client = ScriptedClient([code(look)], ["done"])
        await agent_of(client, tools=[alone]).run("go")
    assert ["True" in text for text in (*found, client.read())] == [True, False, False]


async def test_without_files_nothing_is_said_of_sessions() -> None:
    async with LinuxExecuteCodeTool() as alone:
        assert "session" not in alone.description


@pytest.mark.slow
async def test_calls_without_a_session_leave_no_sandbox_behind_and_push_none_out() -> None:
    session = AgentSession()
    async with LinuxExecuteCodeTool(file_surface=True, most_environments=1) as alone:
        for program, given in (("open('kept.txt', 'w').write('seen again')", session), ("1", None), ("2", None)):
            client = ScriptedClient([code(program)], ["done"])
            await agent_of(client, tools=[alone]).run("go", session=given)
        assert len(alone._runner._environments._kept) == 1
        client = ScriptedClient([code("print(open('kept.txt').read())")], ["done"])
        await agent_of(client, tools=[alone]).run("go", session=session)
    assert "seen again" in client.read()
