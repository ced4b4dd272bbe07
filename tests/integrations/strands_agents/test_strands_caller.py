"""Programs of a Strands agent call its tools from inside the sandbox, through the agent's own executor."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.middleware.stages import ExecuteToolContext, ExecuteToolStage
from strands.tools.executors import SequentialToolExecutor
from strands.tools.tools import PythonAgentTool
from strands.types.exceptions import EventLoopException

import actbox
from actbox.core.errors import InvalidValue
from actbox.core.events import Completed, Event, Output, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.integrations.strands import (
    CodeActPlugin,
    StrandsSandbox,
    make_programmatic_tool_caller,
    programmatic_tool_caller,
    python_session,
    shell,
)
from actbox.integrations.strands.program_run import Ended, PendingCall, ProgramRun
from tests.integrations.strands_agents.places import run_out
from tests.integrations.strands_agents.programs import CALLER, agent_with, run, seen_by, status_of, text_of
from tests.integrations.strands_agents.scripted import ScriptedModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def module_tool(name: str, properties: dict[str, Any], answer: Any, **spec: Any) -> PythonAgentTool:
    """Return a tool as modules define them: a schema, and a function of the whole tool use."""
    schema = {"json": {"type": "object", "properties": properties}}
    said: Any = {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **spec}

    def function(tool_use: Any, **state: Any) -> Any:
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": answer(tool_use["input"])}

    return PythonAgentTool(name, said, function)


# Programs


@pytest.mark.slow
def test_a_program_makes_a_hundred_calls_in_one_turn_of_the_model(sandbox: StrandsSandbox) -> None:
    agent = agent_with(sandbox, "print(sum(add(number, 1) for number in range(100)))", tools=[add])
    agent("go")
    assert text_of(agent) == "[stdout]\n5050"
    assert len(agent.model.seen) == 2  # type: ignore[attr-defined]
    assert agent.event_loop_metrics.tool_metrics["add"].call_count == 100


@pytest.mark.slow
async def test_an_async_program_gathers_calls_which_run_at_once(sandbox: StrandsSandbox) -> None:
    together = threading.Barrier(3)

    @tool
    def meet(who: str) -> str:
        """Wait for the two others."""
        together.wait(60)
        return who.upper()

    program = "import asyncio\nawait asyncio.gather(*[meet(who=name) for name in 'abc'])"
    agent = agent_with(sandbox, program, tools=[meet])
    await agent.invoke_async("go")
    assert text_of(agent) == "[value]\n['A', 'B', 'C']"


@pytest.mark.slow
def test_tools_of_an_agent_that_runs_them_one_by_one_run_one_by_one(linux: StrandsSandbox) -> None:
    under_way: list[str] = []

    @tool
    async def alone(who: str) -> int:
        """Say how many are under way."""
        under_way.append(who)
        for _ in range(20):
            await asyncio.sleep(0)
        count = len(under_way)
        under_way.remove(who)
        return count

    program = "import asyncio\nprint(await asyncio.gather(*[alone(name) for name in 'abc']))"
    text = run(linux, program, tools=[alone], tool_executor=SequentialToolExecutor())
    assert text == "[stdout]\n[1, 1, 1]"


async def test_an_agent_may_be_called_plainly_where_an_event_loop_runs(linux: StrandsSandbox) -> None:
    agent = agent_with(linux, "add(1, 2)", "add(3, 4)", tools=[add])
    agent("go")
    assert text_of(agent) == "[value]\n3\n[value]\n7"


@pytest.mark.slow
async def test_two_agents_at_once_do_not_share_their_runs(sandbox: StrandsSandbox) -> None:
    both = asyncio.Barrier(2)

    def agent_of(name: str) -> Agent:
        @tool
        async def who() -> str:
            """Say whose tool this is, when both agents are here."""
            await both.wait()
            return name

        return agent_with(sandbox, "print(who(), who())", tools=[who])

    first, second = agent_of("first"), agent_of("second")
    await asyncio.gather(first.invoke_async("go"), second.invoke_async("go"))
    assert (text_of(first), text_of(second)) == ("[stdout]\nfirst first", "[stdout]\nsecond second")


def test_a_program_runs_in_the_sandbox_with_its_files_and_not_in_the_host(sandbox: StrandsSandbox) -> None:
    asyncio.run(sandbox.write_file("data.txt", b"of the sandbox"))
    program = "import os\nprint(open('data.txt').read())\nos.getpid()"
    text = run(sandbox, program)
    assert text.startswith("[stdout]\nof the sandbox")


def test_what_was_printed_is_kept_when_a_program_fails_and_so_are_its_calls(sandbox: StrandsSandbox) -> None:
    agent = agent_with(sandbox, "print('before')\nadd(1, 2)\n1 / 0", tools=[add])
    agent("go")
    assert status_of(agent) == ["error"]
    text = text_of(agent)
    assert text.startswith("[stdout]\nbefore")
    assert "ZeroDivisionError" in text
    assert '1. add({"a": 1, "b": 2}) → returned' in text


def test_without_a_sandbox_of_ours_nothing_runs_and_a_sentence_says_what_to_give() -> None:
    model = ScriptedModel([(CALLER, {"code": "open('/tmp/x', 'w')"})], "done")
    agent = Agent(model=model, tools=[programmatic_tool_caller], callback_handler=None)
    agent("go")
    assert status_of(agent) == ["error"]
    assert "Agent(sandbox=StrandsSandbox(…))" in text_of(agent)


@pytest.mark.parametrize("sent", [{}, {"code": ""}, {"code": 7}])
def test_arguments_without_a_program_are_answered_with_how_to_send_it(linux: StrandsSandbox, sent: Any) -> None:
    agent = agent_with(linux)
    agent.model = ScriptedModel([(CALLER, sent)], "done")
    agent("go")
    assert status_of(agent) == ["error"]
    assert '{"code": "…"}' in text_of(agent)


async def test_a_program_over_its_time_is_ended_with_what_it_printed(linux: StrandsSandbox, turn: Any) -> None:
    program = "print('begun', flush=True)\nopen('/workspace/begun', 'w').close()\nwhile True: pass"
    agent = agent_with(linux, program, caller=make_programmatic_tool_caller(timeout=30))
    await run_out(linux, agent.invoke_async("go"), turn, 30)
    text = text_of(agent)
    assert text.startswith("[stdout]\nbegun")
    assert "[error TIMEOUT, exit code 124]" in text


def test_a_program_gets_no_more_calls_than_it_may_make(linux: StrandsSandbox) -> None:
    made: list[int] = []

    @tool
    def once(number: int) -> int:
        """Count."""
        made.append(number)
        return number

    caller = make_programmatic_tool_caller(max_tool_calls=3)
    text = run(linux, "for number in range(9):\n    print(once(number))", tools=[once], caller=caller)
    assert made == [0, 1, 2]
    assert text.startswith("[stdout]\n0\n1\n2")
    assert "a program may make 3 tool calls" in text


@pytest.mark.slow
def test_a_call_that_lasts_longer_than_its_program_is_cancelled(linux: StrandsSandbox, turn: Any) -> None:
    ended: list[str] = []

    @tool
    async def hang() -> None:
        """Never return."""
        turn(30)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    text = run(linux, "hang()", tools=[hang], caller=make_programmatic_tool_caller(timeout=30))
    assert "[error TIMEOUT, exit code 124]" in text
    assert "1. hang() → was still running when the program ended" in text
    assert ended == ["cancelled"]


async def test_the_limit_of_the_policy_on_calls_ends_a_program() -> None:
    policy = actbox.Policy(limits=actbox.Limits(tool_calls=2))
    async with StrandsSandbox("linux", policy=policy) as sandbox:
        agent = agent_with(sandbox, "for number in range(9):\n    print(add(number, 1), flush=True)", tools=[add])
        await agent.invoke_async("go")
    assert text_of(agent).startswith("[stdout]\n1\n2")
    assert "[error BUDGET" in text_of(agent)


def test_what_is_printed_is_cut_for_the_model(linux: StrandsSandbox) -> None:
    text = run(linux, "print('x' * 5_000_000)")
    assert len(text) <= 20_000
    assert "characters left out" in text


@pytest.mark.slow
def test_a_program_and_the_shell_that_it_calls_see_the_same_files(sandbox: StrandsSandbox) -> None:
    program = (
        "open('note.txt', 'w').write('from the program')\n"
        "print(shell(command='cat note.txt; echo from the shell > answer.txt'))\n"
        "print(open('answer.txt').read())"
    )
    text = run(sandbox, program, tools=[shell])
    assert "from the program" in text
    assert text.endswith("from the shell")


# Which tools there are


def test_only_the_allowed_tools_are_there(linux: StrandsSandbox) -> None:
    @tool
    def secret() -> str:
        """Tell."""
        return "told"

    caller = make_programmatic_tool_caller(allowed_tools=["add"])
    program = "print(add(1, 2))\ntry:\n    call_tool('secret')\nexcept ToolError as error:\n    print(error)\nsecret()"
    text = run(linux, program, tools=[add, secret], caller=caller)
    assert "3\nthere is no tool 'secret'" in text
    assert "NameError: name 'secret' is not defined" in text
    assert "told" not in text


def test_an_allowed_tool_that_is_not_there_is_named(linux: StrandsSandbox) -> None:
    text = run(linux, "1", tools=[add], caller=make_programmatic_tool_caller(allowed_tools=["add", "sub"]))
    assert "allowed_tools names 'sub'" in text


@pytest.mark.parametrize("name", [CALLER, "other"])
def test_a_program_cannot_run_programs_by_any_instance_or_name(linux: StrandsSandbox, name: str) -> None:
    other = make_programmatic_tool_caller(name="other")
    program = f"try:\n    call_tool({name!r}, code='1')\nexcept ToolError as error:\n    print(error)"
    text = run(linux, program, tools=[add, other])
    assert text.startswith(f"[stdout]\nthere is no tool {name!r}")


def test_an_agent_that_a_program_asks_cannot_run_programs_either(linux: StrandsSandbox) -> None:
    inner = agent_with(linux, "print('inner')")
    text = run(linux, "ask(input='go')", tools=[inner.as_tool(name="ask", description="Ask.")])
    assert "done" in text
    assert "cannot run programs" in text_of(inner)


def test_a_hook_that_chooses_the_caller_for_a_call_gets_no_program_run(linux: StrandsSandbox) -> None:
    def swap(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "add":
            event.selected_tool = programmatic_tool_caller

    agent = agent_with(linux, "add(a=1, b=2)", tools=[add])
    agent.add_hook(swap, BeforeToolCallEvent)
    agent("go")
    assert "cannot run programs" in text_of(agent)


def test_the_tool_for_structured_output_is_the_model_s_alone(linux: StrandsSandbox) -> None:
    class Answer(BaseModel):
        """The answer."""

        text: str

    agent = agent_with(linux, "print('Answer' in globals(), 'add' in globals())", tools=[add])
    turn = [(CALLER, {"code": "print('Answer' in globals(), 'add' in globals())"})]
    agent.model = ScriptedModel(turn, [("Answer", {"text": "yes"})])
    assert agent("go", structured_output_model=Answer).structured_output == Answer(text="yes")
    assert "False True" in text_of(agent)


def test_names_that_are_no_identifiers_have_aliases(linux: StrandsSandbox) -> None:
    named = [module_tool(name, {}, lambda _, name=name: [{"text": name}]) for name in ("get-weather", "class")]
    text = run(linux, "print(get_weather(), class_(), call_tool('get-weather'))", tools=named)
    assert text == "[stdout]\nget-weather class get-weather"


def test_an_alias_of_two_tools_is_neither(linux: StrandsSandbox) -> None:
    named = [module_tool(name, {}, lambda _, name=name: [{"text": name}]) for name in ("a-b", "a.b")]
    program = "try:\n    a_b()\nexcept ToolError as error:\n    print(error)\nprint(call_tool('a.b'), call_tool('a-b'))"
    text = run(linux, program, tools=named)
    assert text == (
        "[stdout]\n'a_b' could be any of 2 tools: write call_tool('a-b', …) or call_tool('a.b', …)\na.b a-b"
    )


def test_a_tool_that_no_program_can_call_is_left_out_with_a_sentence(linux: StrandsSandbox) -> None:
    odd = module_tool("call_tool", {}, lambda _: [{"text": "odd"}])
    text = run(linux, "print(add(1, 2))", tools=[odd, add])
    assert text.startswith("[stdout]\n3")
    assert "programs cannot call the tool 'call_tool'" in text


def test_a_tool_that_hides_a_function_of_pythons_is_told_with_the_way_to_that(linux: StrandsSandbox) -> None:
    said: list[Any] = []

    @tool(name="print")
    def show(text: str) -> None:
        """Print on paper."""
        said.append(text)

    text = run(linux, "import builtins\nprint(text='paper')\nbuiltins.print('screen')", tools=[show, add])
    assert said == ["paper"]
    assert text.startswith("[stdout]\nscreen")
    assert "print is the tool of that name in programs; Python's own is builtins.print" in text
    assert run(linux, "add(1, 2)", tools=[show, add]) == "[value]\n3"


@pytest.mark.slow
def test_bytes_of_a_function_are_bytes_in_the_program_unless_a_hook_has_changed_them(linux: StrandsSandbox) -> None:
    @tool
    def blob(kind: str) -> Any:
        """Return bytes."""
        return b"\x00\xff" if kind == "bytes" else bytearray(b"\x00\xff")

    program = "print(blob('bytes'), blob('bytearray'))"
    assert run(linux, program, tools=[blob]) == "[stdout]\nb'\\x00\\xff' b'\\x00\\xff'"
    assert run(linux, "print(len(blob('bytes')))", tools=[blob]) == "[stdout]\n2"

    def change(event: AfterToolCallEvent) -> None:
        if event.tool_use["name"] == "blob":
            event.result = {**event.result, "content": [{"text": "secret"}]}

    agent = agent_with(linux, "print(blob('bytes'))", tools=[blob])
    agent.add_hook(change, AfterToolCallEvent)
    agent("go")
    assert text_of(agent) == "[stdout]\nsecret"


async def test_tools_of_the_sandbox_are_called_by_programs_and_hidden_from_the_model() -> None:
    def lookup(key: str) -> dict[str, str]:
        """Look a key up."""
        return {"key": key}

    def blob() -> bytes:
        """Return bytes."""
        return b"\x00\xff"

    seen: list[str] = []
    async with StrandsSandbox("linux", code_tools=[lookup, blob]) as sandbox:
        agent = agent_with(sandbox, "print(lookup('a'), blob())", tools=[add])
        agent.add_hook(lambda event: seen.append(event.tool_use["name"]), BeforeToolCallEvent)
        await agent.invoke_async("go")
    assert text_of(agent) == "[stdout]\n{'key': 'a'} b'\\x00\\xff'"
    assert seen == [CALLER, "lookup", "blob"]
    assert agent.event_loop_metrics.tool_metrics["lookup"].call_count == 1
    told = {spec["name"] for spec in agent.model.seen[0]["tools"]}  # type: ignore[attr-defined]
    assert "add" in told
    assert not told & {"lookup", "blob"}


async def test_a_tool_of_the_sandbox_that_requires_approval_is_asked_about() -> None:
    class Refuses:
        async def decide(self, request: actbox.ApprovalRequest) -> actbox.ApprovalDecision:
            return actbox.ApprovalDecision(False, "not today")

    made: list[str] = []

    @actbox.tool(approval="always_require")
    def wipe() -> None:
        """Wipe."""
        made.append("wiped")

    tools = actbox.Toolset.of([wipe]).asking(Refuses())
    async with StrandsSandbox("linux", code_tools=tools) as sandbox:
        agent = agent_with(sandbox, "wipe()")
        await agent.invoke_async("go")
    assert "was refused: not today" in text_of(agent)
    assert made == []


@pytest.mark.parametrize("name", [CALLER, "python_session"])
async def test_whoever_decides_about_a_code_tool_is_asked_in_the_event_loop_of_the_agent(name: str) -> None:
    class Waits:
        async def decide(self, request: actbox.ApprovalRequest) -> actbox.ApprovalDecision:
            asked.set()
            await agreed.wait()
            return actbox.ApprovalDecision(True)

    @actbox.tool(approval="always_require")
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    async def agree() -> None:
        await asked.wait()
        agreed.set()

    asked, agreed = asyncio.Event(), asyncio.Event()
    async with StrandsSandbox("linux", code_tools=actbox.Toolset.of([wipe]).asking(Waits())) as sandbox:
        model = ScriptedModel([(name, {"code": "print(wipe())"})], "done")
        tools = [programmatic_tool_caller, python_session]
        agent = Agent(model=model, tools=tools, sandbox=sandbox, callback_handler=None)
        await asyncio.gather(agent.invoke_async("go"), agree())
    assert text_of(agent) == "[stdout]\nwiped"


# What tools are given and what they return


@pytest.mark.parametrize("name", ["agent", "record_direct_tool_call", "user_message_override", "name", "self"])
def test_a_parameter_may_have_any_name(linux: StrandsSandbox, name: str) -> None:
    echo = module_tool("echo", {name: {"type": "string"}}, lambda given: [{"json": given}])
    text = run(linux, f"print(echo(**{{{name!r}: 'mine'}}))", tools=[echo])
    assert text == f"[stdout]\n{{{name!r}: 'mine'}}"


def test_a_function_has_a_parameter_of_the_name_of_a_setting_of_direct_calls(linux: StrandsSandbox) -> None:
    @tool
    def note(record_direct_tool_call: bool, user_message_override: str) -> str:
        """Say what came."""
        return f"{record_direct_tool_call} {user_message_override}"

    text = run(linux, "print(note(record_direct_tool_call=True, user_message_override='mine'))", tools=[note])
    assert text == "[stdout]\nTrue mine"


class Point(BaseModel):
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (5, "5"),
        ("5", "'5'"),
        (2.5, "2.5"),
        (True, "True"),
        (None, "None"),
        ("null", "'null'"),
        ('{"a": 1}', "'{\"a\": 1}'"),
        ({"a": [1, None]}, "{'a': [1, None]}"),
        ([1, "2"], "[1, '2']"),
        ((1, 2), "[1, 2]"),
        (Point(x=1, y=2.0), "{'x': 1, 'y': 2.0}"),
        ("", "''"),
        ({1}, "'{1}'"),
    ],
)
def test_a_value_arrives_as_what_the_function_returned(linux: StrandsSandbox, value: Any, arrives: str) -> None:
    @tool
    def plain():  # type: ignore[no-untyped-def]  # nothing says what it returns
        """Return it."""
        return value

    @tool
    async def coroutine() -> Any:
        """Return it."""
        return value

    @tool
    async def generator() -> Any:
        """Yield something and then it."""
        yield "progress"
        yield value

    text = run(linux, "print([plain(), coroutine(), generator()])", tools=[plain, coroutine, generator])
    assert text.removeprefix("[stdout]\n") == f"[{arrives}, {arrives}, {arrives}]"


def test_blocks_arrive_as_what_they_are(linux: StrandsSandbox) -> None:
    tools = [
        module_tool("text", {}, lambda _: [{"text": "5"}]),
        module_tool("data", {}, lambda _: [{"json": {"a": 1}}]),
        module_tool("several", {}, lambda _: [{"text": "one"}, {"json": 2}]),
        module_tool("nothing", {}, lambda _: []),
        module_tool("declared", {}, lambda _: [{"text": '{"n": 5}'}], outputSchema={"json": {"type": "object"}}),
    ]
    text = run(linux, "print([text(), data(), several(), nothing(), declared()])", tools=tools)
    assert text == "[stdout]\n['5', {'a': 1}, ['one', 2], None, {'n': 5}]"


def test_structured_content_arrives_as_data(linux: StrandsSandbox) -> None:
    def answer(tool_use: Any, **state: Any) -> Any:
        result = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": '{"n": 5}'}]}
        return {**result, "structuredContent": {"n": 5}}

    spec: Any = {"name": "mcp", "description": "Answer.", "inputSchema": {"json": {"type": "object", "properties": {}}}}
    assert run(linux, "mcp()['n'] + 1", tools=[PythonAgentTool("mcp", spec, answer)]) == "[value]\n6"


def test_a_hook_that_changes_a_result_is_what_the_program_reads(linux: StrandsSandbox) -> None:
    def redact(event: AfterToolCallEvent) -> None:
        if event.tool_use["name"] == "add":
            event.result = {**event.result, "content": [{"text": "[redacted]"}]}

    agent = agent_with(linux, "print(add(1, 2))", tools=[add])
    agent.add_hook(redact, AfterToolCallEvent)
    agent("go")
    assert text_of(agent) == "[stdout]\n[redacted]"


def test_a_tool_that_raises_is_a_tool_error_with_its_name(sandbox: StrandsSandbox) -> None:
    @tool
    def boom() -> str:
        """Fail."""
        raise ValueError("no such order")

    program = "try:\n    boom()\nexcept ToolError as error:\n    print(error.tool, error)\nboom()"
    text = run(sandbox, program, tools=[boom])
    assert text.startswith("[stdout]\nboom Error: no such order")
    assert "[error TOOL, exit code 1]" in text


@pytest.mark.parametrize("garbage", [None, "text", {"status": "success", "content": 7}])
def test_a_tool_whose_result_is_none_fails_for_the_program(linux: StrandsSandbox, garbage: Any) -> None:
    spec: Any = {"name": "odd", "description": "Odd.", "inputSchema": {"json": {"type": "object", "properties": {}}}}
    odd = PythonAgentTool("odd", spec, lambda tool_use, **state: garbage)
    program = "try:\n    odd()\nexcept ToolError as error:\n    print('failed')\nprint(add(1, 2))"
    assert run(linux, program, tools=[odd, add]) == "[stdout]\nfailed\n3"


def test_arguments_that_do_not_fit_are_told_and_the_tool_is_not_called(linux: StrandsSandbox) -> None:
    seen: list[str] = []
    agent = agent_with(linux, "add(a='x')", tools=[add])
    agent.add_hook(lambda event: seen.append(event.tool_use["name"]), BeforeToolCallEvent)
    agent("go")
    assert "argument 'b' is missing" in text_of(agent)
    assert seen == [CALLER]


def test_a_picture_is_handed_on_and_comes_back_as_a_picture(sandbox: StrandsSandbox) -> None:
    picture = module_tool("picture", {}, lambda _: [{"image": {"format": "png", "source": {"bytes": PNG}}}])
    size = module_tool(
        "size", {"image": {"type": "object"}}, lambda given: [{"json": len(base64.b64decode(given["image"]["base64"]))}]
    )
    program = "shot = picture()\nprint(size(image=shot), shot['format'])\n{'shots': [shot], 'n': 1}"
    agent = agent_with(sandbox, program, tools=[picture, size])
    agent("go")
    text, image = seen_by(agent)
    assert text["text"].startswith(f"[stdout]\n{len(PNG)} png")
    assert base64.b64encode(PNG).decode() not in text["text"]
    assert image == {"image": {"format": "png", "source": {"bytes": PNG}}}


def test_a_picture_among_the_output_files_is_shown(linux: StrandsSandbox) -> None:
    program = (
        f"import base64\nopen('/output/x.png', 'wb').write(base64.b64decode({base64.b64encode(PNG).decode()!r}))\n"
    )
    agent = agent_with(linux, program)
    agent("go")
    assert {"image": {"format": "png", "source": {"bytes": PNG}}} in seen_by(agent)


@pytest.mark.slow
def test_a_tool_that_returns_ten_megabytes_is_read_whole_and_only_what_is_printed_comes_back(
    sandbox: StrandsSandbox,
) -> None:
    @tool
    def much() -> str:
        """Return much."""
        return "x" * 10_000_000

    assert run(sandbox, "print(len(much()))", tools=[much]) == "[stdout]\n10000000"


# What is the agent's own


def test_hooks_and_middleware_see_nested_calls_as_they_see_others(sandbox: StrandsSandbox) -> None:
    seen: list[Any] = []

    def before(event: BeforeToolCallEvent) -> None:
        seen.append(("before", event.tool_use["name"], event.selected_tool.tool_name if event.selected_tool else None))

    def after(event: AfterToolCallEvent) -> None:
        seen.append(("after", event.tool_use["name"], event.result["status"]))

    def within(context: ExecuteToolContext) -> ExecuteToolContext:
        seen.append(("within", context.tool_use["name"], context.tool_use["input"].get("a")))
        return context

    agent = agent_with(sandbox, "add(1, 2)", tools=[add])
    agent.add_hook(before, BeforeToolCallEvent)
    agent.add_hook(after, AfterToolCallEvent)
    agent.add_middleware(ExecuteToolStage.Input, within)
    agent("go")
    assert seen == [
        ("before", CALLER, CALLER),
        ("within", CALLER, None),
        ("before", "add", "add"),
        ("within", "add", 1),
        ("after", "add", "success"),
        ("after", CALLER, "success"),
    ]


def test_a_hook_that_cancels_a_nested_call_is_obeyed(linux: StrandsSandbox) -> None:
    def refuse(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "add":
            event.cancel_tool = "adding is not allowed"

    agent = agent_with(linux, "add(1, 2)", tools=[add])
    agent.add_hook(refuse, BeforeToolCallEvent)
    agent("go")
    assert "adding is not allowed" in text_of(agent)


@pytest.mark.parametrize("kind", [BeforeToolCallEvent, AfterToolCallEvent])
async def test_what_a_hook_raises_ends_the_program_and_the_invocation_as_for_a_direct_call(
    linux: StrandsSandbox, kind: Any
) -> None:
    def fail(event: Any) -> None:
        if event.tool_use["name"] == "add":
            raise PermissionError("the quota is spent")

    program = "try:\n    add(1, 2)\nfinally:\n    open('/workspace/went_on', 'w')"
    ends = []
    for turn in ([("add", {"a": 1, "b": 2})], [(CALLER, {"code": program})]):
        agent = agent_with(linux, tools=[add])
        agent.model = ScriptedModel(turn, "well again")
        agent.add_hook(fail, kind)
        events: list[Any] = []
        with pytest.raises(EventLoopException) as raised:
            async for event in agent.stream_async("go"):
                events.append(event)
        original = raised.value.original_exception
        stops = [event["force_stop_reason"] for event in events if event.get("force_stop")]
        ends.append((type(original), str(original), len(agent.messages), stops))
        assert str(await agent.invoke_async("and now?")) == "well again\n"
    assert ends[0] == ends[1] == (PermissionError, "the quota is spent", 2, ["the quota is spent"])
    assert "went_on" not in [entry.name for entry in await linux.list_files()]


@pytest.mark.slow
async def test_what_a_hook_raises_about_a_call_that_nobody_awaits_ends_the_invocation_too(
    linux: StrandsSandbox,
) -> None:
    def fail(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "add":
            raise PermissionError("the quota is spent")

    program = "import asyncio\ncall = asyncio.create_task(add(1, 2))\nawait asyncio.wait([call])\nprint('on')"
    agent = agent_with(linux, program, tools=[add])
    agent.add_hook(fail, BeforeToolCallEvent)
    with pytest.raises(EventLoopException, match="the quota is spent"):
        await agent.invoke_async("go")


def test_what_a_hook_raises_reaches_whoever_has_called_the_caller_directly(linux: StrandsSandbox) -> None:
    def fail(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "add":
            raise PermissionError("the quota is spent")

    agent = agent_with(linux, tools=[add])
    agent.add_hook(fail, BeforeToolCallEvent)
    with pytest.raises(PermissionError, match="the quota is spent"):
        agent.tool.programmatic_tool_caller(code="add(1, 2)")
    assert agent.tool.programmatic_tool_caller(code="'well again'")["status"] == "success"


def test_a_hook_may_have_a_nested_call_made_again(linux: StrandsSandbox) -> None:
    results = [1, 2, 3]

    @tool
    def number() -> int:
        """Return the next number."""
        return results.pop(0)

    def again(event: AfterToolCallEvent) -> None:
        event.retry = event.tool_use["name"] == "number" and len(results) > 0

    agent = agent_with(linux, "print([number()])", tools=[number])
    agent.add_hook(again, AfterToolCallEvent)
    agent("go")
    assert text_of(agent) == "[stdout]\n[3]"


def test_a_nested_call_has_a_copy_of_the_invocation_state(linux: StrandsSandbox) -> None:
    @tool(context=True)
    def peek(tool_context: ToolContext) -> Any:
        """Say what the caller gave, and try to leave something."""
        tool_context.invocation_state["left"] = True
        return [tool_context.invocation_state["tenant"], tool_context.tool_use["name"], "left" in state]

    state: dict[str, Any] = {"tenant": "blue"}
    agent = agent_with(linux, "print(peek())\nprint(peek())", tools=[peek])
    agent("go", invocation_state=state)
    assert text_of(agent) == "[stdout]\n['blue', 'peek', False]\n['blue', 'peek', False]"


async def test_nested_calls_and_what_is_printed_are_streamed(sandbox: StrandsSandbox) -> None:
    @tool
    async def count(to: int) -> Any:
        """Count."""
        for number in range(to):
            yield number
        yield "counted"

    agent = agent_with(sandbox, "print('one')\nprint(count(2))", tools=[count])
    data = [
        event["tool_stream_event"]["data"] async for event in agent.stream_async("go") if "tool_stream_event" in event
    ]
    kinds = [next(iter(item)) for item in data]
    assert kinds[:2] == ["printed", "tool_use"]
    assert [kind for kind in kinds if kind != "printed"] == ["tool_use", *["tool_stream_event"] * 3, "tool_result"]
    assert "".join(item["printed"]["text"] for item in data if "printed" in item) == "one\ncounted\n"
    (use,) = [item["tool_use"] for item in data if "tool_use" in item]
    assert (use["name"], use["input"]) == ("count", {"to": 2})
    streamed = [item["tool_stream_event"] for item in data if "tool_stream_event" in item]
    assert [item["data"] for item in streamed] == [0, 1, "counted"]
    assert {item["tool_use"]["toolUseId"] for item in streamed} == {use["toolUseId"]}


def test_what_was_printed_before_a_call_is_told_before_it(linux: StrandsSandbox) -> None:
    """A sandbox begins a call at once, and whoever reads its events may be behind."""
    run = ProgramRun("outer", "print('one'); add(1, 2)")

    async def events() -> AsyncIterator[Event]:
        call = asyncio.ensure_future(run.call("add-up", {"a": 1}))
        await asyncio.sleep(0)
        yield Output("stdout", "one")
        yield ToolStarted(1, "add_up", {"a": 1})
        yield Output("stdout", "two")
        await call
        yield Completed(ExecutionResult())

    said: list[Any] = []
    is_called, is_over = threading.Event(), threading.Event()

    def look() -> None:
        said.extend(run.take())
        if any(isinstance(item, PendingCall) for item in said):
            is_called.set()
        if any(isinstance(item, Ended) for item in said):
            is_over.set()

    run.attach(look)
    run.begin(linux, events)
    is_called.wait()
    next(item for item in said if isinstance(item, PendingCall)).answer(3)
    is_over.wait()
    assert [type(item).__name__ for item in said] == ["Printed", "PendingCall", "Printed", "Ended"]


def test_metrics_count_nested_calls_and_failures(linux: StrandsSandbox) -> None:
    @tool
    def sometimes(fails: bool) -> str:
        """Fail, or not."""
        if fails:
            raise ValueError("failed")
        return "fine"

    program = (
        "for fails in (False, True, False):\n    try:\n        sometimes(fails)\n    except ToolError:\n        pass"
    )
    agent = agent_with(linux, program, tools=[sometimes])
    agent("go")
    metrics = agent.event_loop_metrics.tool_metrics["sometimes"]
    assert (metrics.call_count, metrics.success_count, metrics.error_count) == (3, 2, 1)


# Cancelling


def test_cancelling_the_agent_in_the_middle_of_a_nested_call_ends_the_program(sandbox: StrandsSandbox) -> None:
    made: list[str] = []

    @tool(context=True)
    async def hang(tool_context: ToolContext) -> str:
        """Cancel the agent and never return."""
        made.append("hang")
        tool_context.agent.cancel()
        await asyncio.Event().wait()
        return "never"

    @tool
    def later() -> None:
        """Be called after that."""
        made.append("later")

    program = "print('begun', flush=True)\ntry:\n    hang()\nfinally:\n    later()"
    agent = agent_with(sandbox, program, tools=[hang, later])
    assert agent("go").stop_reason == "cancelled"
    assert made == ["hang"]
    assert status_of(agent) == ["error"]
    assert text_of(agent).startswith("[stdout]\nbegun")
    assert "[error CANCELLED" in text_of(agent)
    assert run(sandbox, "print('free again')") == "[stdout]\nfree again"


def test_a_tool_that_watches_the_cancel_signal_ends_by_itself(linux: StrandsSandbox) -> None:
    ended: list[str] = []

    @tool(context=True)
    def watch(tool_context: ToolContext) -> str:
        """Cancel the agent, and wait for the signal in a thread."""
        tool_context.agent.cancel()
        ended.append("seen" if tool_context.cancel_signal.wait(60) else "missed")
        return "ended"

    agent = agent_with(linux, "watch()", tools=[watch])
    assert agent("go").stop_reason == "cancelled"
    assert ended == ["seen"]
    assert agent.event_loop_metrics.tool_metrics["watch"].success_count == 1


async def test_cancelling_whoever_waits_ends_the_program_and_the_nested_call(linux: StrandsSandbox) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> None:
        """Never return."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent = agent_with(linux, "hang()", tools=[hang])
    task = asyncio.create_task(agent.invoke_async("go"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended.wait()


# Direct calls, and what is refused at once


def test_a_direct_call_of_the_caller_works_too(linux: StrandsSandbox) -> None:
    agent = Agent(
        model=ScriptedModel("hi"), tools=[add, programmatic_tool_caller], sandbox=linux, callback_handler=None
    )
    result = agent.tool.programmatic_tool_caller(code="add(2, 3)")
    assert (result["status"], result["content"]) == ("success", [{"text": "[value]\n5"}])


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": "x"},
        {"timeout": True},
        {"timeout": float("nan")},
        {"max_tool_calls": 0},
        {"max_tool_calls": "x"},
        {"max_tool_calls": 1.5},
        {"paused_timeout": -1},
        {"paused_timeout": None},
        {"allowed_tools": "add"},
        {"allowed_tools": 5},
        {"allowed_tools": [add]},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        make_programmatic_tool_caller(**wrong)
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        CodeActPlugin(**wrong)


def test_the_model_is_told_one_argument(linux: StrandsSandbox) -> None:
    spec = make_programmatic_tool_caller(name="run_code", description="Run it.").tool_spec
    assert (spec["name"], spec["description"]) == ("run_code", "Run it.")
    assert json.loads(json.dumps(spec["inputSchema"]))["json"]["required"] == ["code"]
