"""The providers in runs of a real agent: what a run gets, what it keeps, and whose files programs see."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession, Content, FunctionTool, SessionContext, tool

from actbox import InvalidValue, Limits, Output
from actbox.codeact import ProgramEvent
from actbox.integrations.agent_framework import LinuxCodeActProvider, MontyFileMount
from tests.clock import Clock
from tests.integrations.af_scripted import ScriptedClient, agent_of, code, kinds, run_program


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def triple(n: int) -> int:
    """Triple a number."""
    return 3 * n


async def test_an_agent_reads_its_failure_and_mends_the_program() -> None:
    client = ScriptedClient([code("doubel(21)")], [code("double(21)", "call-2")], ["It is 42."])
    async with LinuxCodeActProvider(tools=[double]) as codeact:
        response = await agent_of(client, codeact).run("twice 21?")
    assert response.text == "It is 42."
    first, second = client.results()
    assert "NameError: name 'doubel' is not defined" in str(first.result)
    assert "there is a tool named double" in str(first.result)
    assert kinds(first) == ["text", "error"]
    assert "42" in str(second.result)
    assert kinds(second) == ["text"]


async def test_an_agent_streams_the_same() -> None:
    client = ScriptedClient([code("double(21)")], ["It is 42."])
    async with LinuxCodeActProvider(tools=[double]) as codeact:
        stream = agent_of(client, codeact).run("twice 21?", stream=True)
        async for _ in stream:
            pass
        assert (await stream.get_final_response()).text == "It is 42."
    assert "42" in client.read()


async def test_instructions_name_no_tool_and_the_description_has_their_signatures() -> None:
    async with LinuxCodeActProvider(tools=[double]) as codeact:
        client = await run_program(codeact, "1")
    assert "double" not in client.options[0]["instructions"]
    assert "def double(n: int) -> int:" in client.tool().description


async def test_without_tools_there_is_no_call_tool() -> None:
    async with LinuxCodeActProvider() as codeact:
        client = await run_program(codeact, "call_tool('x')")
    assert "NameError" in client.read()
    assert "call_tool" not in client.tool().description


async def test_the_schema_of_the_tool_is_that_of_the_specification() -> None:
    async with LinuxCodeActProvider() as codeact:
        client = await run_program(codeact, "1")
    schema = client.tool().to_json_schema_spec()["function"]["parameters"]
    assert schema["required"] == ["code"]
    assert schema["properties"]["code"]["type"] == "string"
    assert set(schema) == {"type", "properties", "required"}


async def test_tools_of_the_agent_itself_are_not_taken_and_not_touched() -> None:
    direct = tool(triple)
    client = ScriptedClient([code("triple(1)")], ["done"])
    async with LinuxCodeActProvider(tools=[double]) as codeact:
        agent = agent_of(client, codeact, tools=[direct])
        given = list(agent.default_options["tools"])
        await agent.run("go")
        assert agent.default_options["tools"] == given
    assert [each.name for each in client.options[0]["tools"]] == ["triple", "execute_code"]
    assert "NameError" in client.read()
    assert "triple" not in client.tool().description


async def test_a_tool_can_be_both_direct_and_in_programs() -> None:
    both = tool(double)
    client = ScriptedClient(
        [code("double(1)"), Content.from_function_call("call-2", "double", arguments={"n": 4})], ["done"]
    )
    async with LinuxCodeActProvider(tools=[both]) as codeact:
        await agent_of(client, codeact, tools=[both]).run("go")
    in_program, direct = client.results()
    assert "2" in str(in_program.result)
    assert direct.result == "8"


async def test_a_change_in_the_middle_of_a_run_counts_from_the_next_run() -> None:
    async with LinuxCodeActProvider(tools=[double]) as codeact:

        def change(messages: Any) -> list[Content]:
            codeact.remove_tool("double")
            codeact.add_tools(triple)
            return [code("double(21)")]

        client = ScriptedClient(change, ["done"], [code("triple(14)")], ["done"])
        agent = agent_of(client, codeact)
        await agent.run("go")
        assert "42" in client.read()
        await agent.run("go")
        assert "42" in client.read()
        assert "triple" in client.tool().description
        assert "double" not in client.tool().description


async def test_state_is_json_under_the_source_id_and_nested_once() -> None:
    session = AgentSession()
    async with LinuxCodeActProvider("mine", tools=[double], allowed_domains=["example.com"]) as codeact:
        await run_program(codeact, "1", session=session)
    state = session.state["mine"]
    assert json.loads(json.dumps(state)) == state
    assert state["tool_names"] == ["double"]
    assert state["allowed_domains"] == [{"target": "example.com", "methods": None}]
    assert AgentSession.from_dict(session.to_dict()).state["mine"] == state


async def test_several_providers_on_one_agent_have_tool_names_of_their_own() -> None:
    client = ScriptedClient([code("double(1)"), code("triple(1)", "call-2", "run_ledger")], ["done"])
    async with (
        LinuxCodeActProvider(tools=[double]) as one,
        LinuxCodeActProvider("ledger", tools=[triple], tool_name="run_ledger") as other,
    ):
        await agent_of(client, one, other).run("go")
    assert ["2" in str(client.results()[0].result), "3" in str(client.results()[1].result)] == [True, True]
    assert "`run_ledger`" in client.options[0]["instructions"]


async def test_two_providers_with_one_source_id_are_told_of_source_id() -> None:
    one, other = LinuxCodeActProvider(tools=[double]), LinuxCodeActProvider(tools=[triple], tool_name="run_ledger")
    with pytest.raises(InvalidValue, match="source_id 'linux_codeact'"):
        await agent_of(ScriptedClient(), one, other).run("go")


async def test_two_providers_with_one_tool_name_are_told_of_tool_name() -> None:
    async with LinuxCodeActProvider() as one, LinuxCodeActProvider("other") as other:
        with pytest.raises(InvalidValue, match=r"'execute_code' already.*tool_name"):
            await agent_of(ScriptedClient(), one, other).run("go")


async def test_a_tool_may_not_be_called_what_the_model_calls() -> None:
    def execute_code(code: str) -> str:
        """Run it."""
        return code

    with pytest.raises(InvalidValue, match="tool_name"):
        LinuxCodeActProvider(tools=[execute_code])
    LinuxCodeActProvider(tools=[execute_code], tool_name="run_program")


@pytest.mark.slow
async def test_two_conversations_never_see_each_others_files(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("shared")
    first, second = AgentSession(), AgentSession()
    async with LinuxCodeActProvider(workspace_root=tmp_path) as codeact:
        await run_program(codeact, "open('/workspace/mine.txt', 'w').write('first')", session=first)
        other = await run_program(codeact, "import os; os.listdir('/workspace')", session=second)
        again = await run_program(codeact, "open('/workspace/mine.txt').read()", session=first)
        nobody = await run_program(codeact, "import os; os.listdir('/workspace')")
    assert "mine.txt" not in other.read()
    assert "first" in again.read()
    assert "mine.txt" not in nobody.read()


async def test_runs_that_are_given_no_session_at_all_share_no_files() -> None:
    async def run(program: str) -> str:
        context = SessionContext(session_id=None, input_messages=[])
        await codeact.before_run(agent=None, session=None, context=context, state={})
        contents = await context.tools[0].invoke(arguments={"code": program})
        return str(contents[0].text)

    async with LinuxCodeActProvider(file_surface=True) as codeact:
        await run("open('/workspace/mine.txt', 'w').write('x')")
        assert "mine.txt" not in await run("import os; os.listdir('/workspace')")


async def test_runs_of_one_conversation_without_a_session_share_files(tmp_path: Path) -> None:
    client = ScriptedClient(
        [code("open('/workspace/a', 'w').write('kept')")], [code("open('/workspace/a').read()", "call-2")], ["done"]
    )
    async with LinuxCodeActProvider(workspace_root=tmp_path) as codeact:
        await agent_of(client, codeact).run("go")
    assert "kept" in client.read()


@pytest.mark.slow
async def test_the_workspace_root_and_mounts_are_read_only_below_input(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.txt").write_text("from the root")
    (tmp_path / "b.txt").write_text("mounted")
    program = "print(open('/input/a.txt').read(), open('/data/b.txt').read()); open('/input/c', 'w')"
    provider = LinuxCodeActProvider(
        workspace_root=tmp_path / "root", file_mounts=[MontyFileMount(tmp_path / "b.txt", "/data/b.txt", "read-only")]
    )
    async with provider as codeact:
        client = await run_program(codeact, program)
    assert "from the root mounted" in client.read()
    assert "Read-only file system" in client.read()


async def test_without_mounts_no_files_are_offered_or_returned() -> None:
    async with LinuxCodeActProvider() as codeact:
        client = await run_program(codeact, "open('/output/a.txt', 'w').write('x')")
    assert "/output" not in client.tool().description
    assert kinds(client.results()[0]) == ["text"]


async def test_tools_are_kept_by_name_and_replaced_in_their_place() -> None:
    async with LinuxCodeActProvider(tools=[double, triple]) as codeact:
        replacement = FunctionTool(name="double", func=triple, description="Not what it says.")
        codeact.add_tools(replacement)
        assert [each.name for each in codeact.get_tools()] == ["double", "triple"]
        assert codeact.get_tools()[0] is replacement
        codeact.get_tools().clear()
        assert "3" in (await run_program(codeact, "double(1)")).read()
        with pytest.raises(KeyError, match="triple"):
            codeact.remove_tools("double", "quadruple")
        codeact.clear_tools()
        assert codeact.get_tools() == []


@pytest.mark.slow
async def test_a_large_toolset_is_searched_and_its_listing_stays_as_it_was() -> None:
    def numbered(n: int) -> FunctionTool:
        return FunctionTool(name=f"tool_{n}", description=f"Returns {n}.", func=lambda: n)

    session = AgentSession()
    async with LinuxCodeActProvider(tools=[numbered(n) for n in range(60)], search_above=50) as codeact:
        client = ScriptedClient([code("search_tools('tool_7')")], ["done"], [code("late(1)")], ["done"])
        agent = agent_of(client, codeact)
        await agent.run("go", session=session)
        assert "tool_7" in client.read()
        codeact.add_tools(FunctionTool(name="late", description="Came later.", func=lambda n: n * 5))
        await agent.run("go", session=session)
    assert client.tool(turn=0).description == client.tool(turn=2).description
    assert client.options[0]["instructions"] == client.options[2]["instructions"]
    told = [message.text for message in client.messages[2] if "late" in message.text]
    assert len(told) == 1
    assert json.loads(json.dumps(session.state["linux_codeact"]["listing"]))


@pytest.mark.slow
async def test_oddly_sent_programs_run_or_say_how_to_send_them() -> None:
    cases: list[tuple[Any, str]] = [
        ({"code": ["x = 41", "x + 1"]}, "42"),
        ({"code": "```python\n41 + 1\n```"}, "42"),
        (json.dumps({"code": "41 + 1"}), "42"),
        ({"code": "41 + 1", "self": 1, "invocation_context": 2, "other": 3}, "42"),
        ({}, '{"code": "…"}'),
        ({"code": None}, "nothing"),
        ({"script": "1"}, "'script'"),
        ("nonsense", "no JSON"),
        ('["a"]', "a list"),
    ]
    async with LinuxCodeActProvider() as codeact:
        for arguments, expected in cases:
            client = ScriptedClient(
                [Content.from_function_call("call-1", "execute_code", arguments=arguments)], ["done"]
            )
            await agent_of(client, codeact).run("go")
            assert expected in client.read(), arguments


async def test_an_exit_code_without_an_error_is_a_failure_with_text() -> None:
    async with LinuxCodeActProvider() as codeact:
        client = await run_program(codeact, "print('so far'); raise SystemExit(3)")
    assert kinds(client.results()[0]) == ["text", "error"]
    assert "so far" in client.read()
    assert "3" in client.read()


@pytest.mark.slow
async def test_json_results_have_exactly_the_fields_of_dotnet(tmp_path: Path) -> None:
    async with LinuxCodeActProvider(result_format="json") as codeact:
        good = json.loads((await run_program(codeact, "print('a')")).read())
        bad = json.loads((await run_program(codeact, "1/0")).read())
    assert good == {"stdout": "a\n", "stderr": "", "exit_code": 0, "success": True}
    assert set(bad) == {"stdout", "stderr", "exit_code", "success"}
    assert "ZeroDivisionError" in bad["stderr"]
    assert bad["exit_code"] != 0
    async with LinuxCodeActProvider(result_format="json", workspace_root=tmp_path) as codeact:
        files = json.loads((await run_program(codeact, "open('/output/a.txt', 'w').write('x')")).read())
    assert list(files) == ["stdout", "stderr", "exit_code", "success", "output_files"]


@pytest.mark.slow
async def test_a_timeout_is_a_result_that_the_model_reads(clock: Clock) -> None:
    def run_out(event: ProgramEvent) -> None:
        if isinstance(event.event, Output):
            clock.turn(30)

    async with LinuxCodeActProvider(limits=Limits(wall_seconds=30), on_event=run_out) as codeact:
        client = await run_program(codeact, "print('so far', flush=True)\nwhile True: pass")
    assert "TIMEOUT" in client.read()
    assert "so far" in client.read()


@pytest.mark.slow
async def test_a_program_that_is_checked_before_it_runs_does_nothing_where_it_does_not_fit() -> None:
    called: list[int] = []

    def add(a: int, b: int) -> int:
        """Add."""
        called.append(a + b)
        return a + b

    async with LinuxCodeActProvider(tools=[add], static_check="ty") as codeact:
        wrong = await run_program(codeact, "add(1, 2)\nadd('x', 2)")
        assert "TYPE" in wrong.read()
        assert "line 2" in wrong.read() or ":2" in wrong.read()
        assert called == []
        assert "3" in (await run_program(codeact, "add(1, 2)")).read()


async def test_cancelling_the_run_of_the_agent_ends_the_program(tmp_path: Path) -> None:
    began = asyncio.Event()
    ended = asyncio.Event()

    async def wait() -> None:
        """Wait for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with LinuxCodeActProvider(tools=[wait]) as codeact:
        client = ScriptedClient([code("wait()")])
        running = asyncio.create_task(agent_of(client, codeact).run("go"))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(ended.wait(), 30)


async def test_closing_during_a_run_ends_it_as_cancelled() -> None:
    began = asyncio.Event()

    async def wait() -> None:
        """Wait for ever."""
        began.set()
        await asyncio.Event().wait()

    codeact = LinuxCodeActProvider(tools=[wait])
    client = ScriptedClient([code("wait()")], ["done"])
    running = asyncio.create_task(agent_of(client, codeact).run("go"))
    await began.wait()
    await codeact.close()
    assert (await running).text == "done"
    assert "CANCELLED" in client.read()


async def test_a_closed_provider_says_so_to_the_model() -> None:
    codeact = LinuxCodeActProvider(tools=[double], file_mounts=())
    await codeact.close()
    assert "closed" in (await run_program(codeact, "double(1)")).read()


async def test_runs_of_one_provider_go_on_at_once() -> None:
    barrier = asyncio.Barrier(2)

    async def meet() -> str:
        """Wait for the other."""
        await barrier.wait()
        return "met"

    async with LinuxCodeActProvider(tools=[meet]) as codeact:
        clients = await asyncio.wait_for(
            asyncio.gather(run_program(codeact, "meet()"), run_program(codeact, "meet()")), 60
        )
    assert all("met" in client.read() for client in clients)
