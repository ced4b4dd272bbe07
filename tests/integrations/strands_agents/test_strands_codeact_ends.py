"""Where an agent in CodeAct ends: its own cap, limits of Strands', cancelling, exceptions, and all of it cleanly."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

import pytest_asyncio
from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.hooks import AfterInvocationEvent, AfterToolCallEvent, BeforeInvocationEvent, BeforeToolCallEvent
from strands.types.exceptions import EventLoopException, MaxTokensReachedException

from actbox.core.errors import InvalidValue, Unsupported
from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.plugin import CodeActPlugin
from tests.conftest import engine_check
from tests.integrations.strands_agents.acting import acting, block, observations, roles, seen, told
from tests.integrations.strands_agents.programs import answers
from tests.integrations.strands_agents.scripted import ScriptedModel


@pytest_asyncio.fixture
async def linux(linux: StrandsSandbox) -> AsyncIterator[StrandsSandbox]:
    yield linux
    assert not linux._sessions, "a session was left open"


def passes_of(agent: Agent) -> list[str | None]:
    """Have an agent note how each of its passes ends."""
    noted: list[str | None] = []

    def note(event: AfterInvocationEvent) -> None:
        noted.append(None if event.result is None else event.result.stop_reason)

    agent.add_hook(note, AfterInvocationEvent)
    return noted


# Caps


@pytest.mark.slow
async def test_a_model_that_never_stops_is_stopped_by_the_cap(linux: StrandsSandbox) -> None:
    agent = acting(linux, lambda messages: block("print('again')"), max_turns=3)
    result = await agent.invoke_async("go")
    assert len(seen(agent)) == 3
    assert result.stop_reason == "limit_turns"
    assert result.state["codeact"] == {"stopped": "max_turns", "answer": None, "turns": 3, "programs": 3}
    assert observations(agent) == ["[stdout]\nagain"] * 3
    assert result.message == agent.messages[-1]


@pytest.mark.slow
async def test_the_last_turn_may_still_answer(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("1"), block("final_answer('late')"), max_turns=2)
    assert str(await agent.invoke_async("go")) == "late\n"


@pytest.mark.slow
async def test_the_limit_of_an_invocation_ends_it_and_does_not_loop(linux: StrandsSandbox) -> None:
    agent = acting(linux, lambda messages: block("print('again')"))
    passes = passes_of(agent)
    result = await agent.invoke_async("go", limits={"turns": 2})
    assert result.stop_reason == "limit_turns"
    assert result.state["codeact"]["stopped"] == "limit_turns"
    assert len(seen(agent)) == 2
    assert passes == [*["end_turn", "end_turn"] * 2, "limit_turns"]  # each program runs in a pass of its own
    assert observations(agent) == ["[stdout]\nagain"] * 2


@pytest.mark.parametrize("limit", ["total_tokens", "output_tokens"])
async def test_a_limit_on_tokens_ends_it_too(linux: StrandsSandbox, limit: Any) -> None:
    agent = acting(linux, lambda messages: block("print('again')"))
    result = await agent.invoke_async("go", limits={limit: 1})
    assert result.stop_reason == f"limit_{limit}"
    assert result.state["codeact"] == {"stopped": f"limit_{limit}", "answer": None, "turns": 1, "programs": 1}


@pytest.mark.slow
async def test_a_final_answer_within_the_limit_counts(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("final_answer(1)"))
    result = await agent.invoke_async("go", limits={"turns": 1})
    assert (result.stop_reason, result.state["codeact"]["answer"]) == ("end_turn", 1)


async def test_an_answer_that_was_cut_at_the_token_limit_does_not_run(linux: StrandsSandbox) -> None:
    agent = Agent(
        model=ScriptedModel("```python\nopen('/workspace/ran', 'w')", stop_reason="max_tokens"),
        plugins=[CodeActPlugin(linux)],
        callback_handler=None,
    )
    passes = passes_of(agent)
    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("go")
    assert passes == [None]
    assert "ran" not in [entry.name for entry in await linux.list_files()]


@pytest.mark.parametrize("reason", ["content_filtered", "guardrail_intervened", "stop_sequence"])
async def test_nothing_runs_unless_the_model_has_ended_its_turn(linux: StrandsSandbox, reason: str) -> None:
    agent = Agent(
        model=ScriptedModel(block("1"), stop_reason=reason), plugins=[CodeActPlugin(linux)], callback_handler=None
    )
    result = await agent.invoke_async("go")
    assert result.stop_reason == reason
    assert observations(agent) == []


@pytest.mark.slow
async def test_a_program_that_runs_out_of_time_is_told_and_the_loop_goes_on(linux: StrandsSandbox, turn: Any) -> None:
    hangs = block("x = 1\nprint('before', flush=True)\nwhile True: pass")
    agent = acting(linux, hangs, block("x"), "done", timeout=30)
    async for event in agent.stream_async("go"):
        if told([event], "printed"):
            turn(30)
    first, second = observations(agent)
    assert "error TIMEOUT" in first
    assert "before" in first
    assert second == "[value]\n1"


async def test_after_a_crash_programs_go_on_in_a_new_session(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("import os\nos.kill(os.getpid(), 9)"), block("print('alive')"), "done")
    await agent.invoke_async("go")
    first, second = observations(agent)
    assert first.startswith("[error")
    assert "the state of the session is lost" in first
    assert "open a new one" not in first
    assert second.startswith("[stdout]\nalive\n\n[warnings]\nthe session of the programs before has ended")


@pytest.mark.slow
async def test_text_that_can_be_no_program_is_told_as_what_it_is(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("x = '\ud800'"), block("print('well')"), "done")
    await agent.invoke_async("go")
    first, second = observations(agent)
    assert first.startswith("[error")
    assert second == "[stdout]\nwell"


# A model that calls tools all the same


@tool
def price(item: str) -> int:
    """Return the price of an item."""
    return 450


@pytest.mark.slow
async def test_a_tool_that_the_model_calls_itself_is_not_run_and_it_is_told_how(linux: StrandsSandbox) -> None:
    agent = acting(linux, [("price", {"item": "tea"})], block("final_answer(price('tea'))"), tools=[price])
    result = await agent.invoke_async("go")
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": 450, "turns": 2, "programs": 1}
    refused = agent.messages[2]["content"][0]["toolResult"]
    assert refused["status"] == "error"
    assert "There is no tool 'price' to call directly" in refused["content"][0]["text"]
    assert "fenced ```python block" in refused["content"][0]["text"]
    assert agent.event_loop_metrics.tool_metrics["price"].call_count == 1
    sent = [block for message in seen(agent)[1]["messages"] for block in message["content"]]
    assert all("text" in block for block in sent), "a provider refuses tool calls of a model that has no tools"
    assert 'call of the tool price with {"item": "tea"}' in sent[1]["text"]


async def test_calling_tools_for_ever_is_capped_too(linux: StrandsSandbox) -> None:
    agent = acting(linux, lambda messages: ("price", {"item": "tea"}), tools=[price], max_turns=3)
    result = await agent.invoke_async("go")
    assert len(seen(agent)) == 3
    assert result.stop_reason == "limit_turns"
    assert result.state["codeact"]["stopped"] == "max_turns"
    assert str(result) == "No answer was found in 3 turns.\n"
    assert result.message == agent.messages[-1]
    assert not agent.event_loop_metrics.tool_metrics


# Cancelling


@pytest.mark.slow
async def test_cancelling_ends_a_program(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("print('begun', flush=True)\nwhile True: pass"))
    passes = passes_of(agent)
    async for event in agent.stream_async("go"):
        if told([event], "printed"):
            agent.cancel()
    assert event["result"].stop_reason == "cancelled"
    assert passes == ["end_turn", "end_turn", "cancelled"]
    assert len(seen(agent)) == 1
    assert roles(agent) == ["user", "assistant"] * 2
    assert "begun" in observations(agent)[0]


@pytest.mark.slow
async def test_cancelling_in_the_middle_of_a_nested_call_ends_it(linux: StrandsSandbox) -> None:
    @tool
    async def wait_for_ever() -> str:
        """Wait."""
        agent.cancel(message="That is enough.")
        await asyncio.Event().wait()
        raise AssertionError("nobody ends this")

    agent = acting(linux, block("print('begun')\nwait_for_ever()\nprint('on')"), tools=[wait_for_ever])
    result = await agent.invoke_async("go")
    assert result.stop_reason == "cancelled"
    assert str(result) == "That is enough.\n"
    (observed,) = observations(agent)
    assert "begun" in observed
    assert "wait_for_ever() → " in observed
    agent.model = ScriptedModel("still here")
    assert str(await agent.invoke_async("and now?")) == "still here\n"


async def test_a_tool_may_have_the_agent_stop_after_the_program(linux: StrandsSandbox) -> None:
    @tool
    def stop() -> str:
        """Stop."""
        agent.cancel(after_current_tools=True)
        return "soon"

    agent = acting(linux, block("stop()\nprint('to the end')"), tools=[stop])
    result = await agent.invoke_async("go")
    assert result.stop_reason == "cancelled"
    assert "to the end" in observations(agent)[0]
    assert len(seen(agent)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("asks_first", [False, True])
async def test_a_tool_may_stop_the_agent_by_the_flag_that_strands_deprecates(
    linux: StrandsSandbox, asks_first: bool
) -> None:
    @tool(context=True)
    def stop(tool_context: ToolContext) -> str:
        """Stop."""
        if asks_first:
            tool_context.interrupt("may it")
        tool_context.invocation_state["request_state"]["stop_event_loop"] = True
        return "soon"

    agent = acting(linux, block("stop()\nprint('to the end')"), tools=[stop])
    if asks_first:
        asked = await agent.invoke_async("go")
    with pytest.warns(DeprecationWarning, match=r"agent.cancel\(after_current_tools=True\)"):
        result = await agent.invoke_async(answers(asked) if asks_first else "go")
    assert (result.stop_reason, result.state["codeact"]["stopped"]) == ("tool_use", "tool_use")
    assert "to the end" in observations(agent)[0]
    assert result.message == agent.messages[-1]
    assert len(seen(agent)) == 1


async def test_an_answer_counts_though_a_tool_has_stopped_the_agent(linux: StrandsSandbox) -> None:
    @tool(context=True)
    def stop(tool_context: ToolContext) -> None:
        """Stop."""
        tool_context.invocation_state["request_state"]["stop_event_loop"] = True

    agent = acting(linux, block("stop()\nfinal_answer(1)"), tools=[stop])
    result = await agent.invoke_async("go")
    assert (result.stop_reason, result.state["codeact"]["answer"]) == ("end_turn", 1)


@pytest.mark.slow
async def test_a_signal_of_the_callers_cancels_as_well(linux: StrandsSandbox) -> None:
    signal = threading.Event()
    agent = acting(linux, block("print('begun', flush=True)\nwhile True: pass"))
    async for event in agent.stream_async("go", cancel_signal=signal):
        if told([event], "printed"):
            signal.set()
    assert event["result"].stop_reason == "cancelled"


@pytest.mark.parametrize("leave", ["close", "cancel"])
async def test_a_caller_that_goes_away_ends_the_program(linux: StrandsSandbox, leave: str) -> None:
    agent = acting(linux, block("print('begun', flush=True)\nwhile True: pass"))
    begun = asyncio.Event()

    async def listen() -> None:
        events: Any = agent.stream_async("go")
        async for event in events:
            if told([event], "printed"):
                begun.set()
                if leave == "close":
                    await events.aclose()
                    return

    task = asyncio.create_task(listen())
    await begun.wait()
    if leave == "cancel":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
    agent.model = ScriptedModel(block("final_answer('again')"))
    assert str(await agent.invoke_async("go on")) == "again\n"


# Exceptions


@pytest.mark.slow
async def test_what_the_model_raises_is_raised_and_the_agent_can_go_on(linux: StrandsSandbox) -> None:
    def breaks(messages: Any) -> Any:
        raise ConnectionError("the service is away")

    agent = acting(linux, block("x = 1"), breaks)
    with pytest.raises(ConnectionError, match="the service is away"):
        await agent.invoke_async("go")
    agent.model = ScriptedModel(block("x"), "done")
    await agent.invoke_async("go")
    assert "NameError" in observations(agent)[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BeforeToolCallEvent, AfterToolCallEvent])
async def test_what_a_hook_raises_ends_the_program_and_the_invocation(linux: StrandsSandbox, kind: Any) -> None:
    def breaks(event: Any) -> None:
        raise PermissionError("not for you")

    program = "try:\n    price('tea')\nexcept Exception:\n    open('/workspace/went_on', 'w')"
    agent = acting(linux, block(program), tools=[price])
    agent.add_hook(breaks, kind)
    passes = passes_of(agent)
    events: list[Any] = []
    with pytest.raises(EventLoopException) as raised:
        async for event in agent.stream_async("go"):
            events.append(event)
    assert isinstance(raised.value.original_exception, PermissionError)
    assert [event["force_stop_reason"] for event in events if event.get("force_stop")] == ["not for you"]
    assert passes[-1] is None
    assert "went_on" not in [entry.name for entry in await linux.list_files()]
    agent.model = ScriptedModel(block("final_answer(1)"))
    assert str(await agent.invoke_async("and now?")) == "1\n"


@pytest.mark.slow
async def test_what_a_hook_raises_after_people_have_answered_ends_the_invocation_too(linux: StrandsSandbox) -> None:
    def breaks(event: BeforeToolCallEvent) -> None:
        if event.interrupt("may it") == "yes":
            raise PermissionError("not for you")

    agent = acting(linux, block("price('tea')"), tools=[price])
    agent.add_hook(breaks, BeforeToolCallEvent)
    asked = await agent.invoke_async("go")
    with pytest.raises(EventLoopException, match="not for you"):
        await agent.invoke_async(answers(asked))
    agent.model = ScriptedModel(block("final_answer(1)"))
    assert str(await agent.invoke_async("and now?")) == "1\n"


@pytest.mark.slow
async def test_a_hook_may_cancel_a_nested_call(linux: StrandsSandbox) -> None:
    def forbids(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = "the shop is closed"

    agent = acting(linux, block("price('tea')"), "done", tools=[price])
    agent.add_hook(forbids, BeforeToolCallEvent)
    await agent.invoke_async("go")
    assert "ToolError: the shop is closed" in observations(agent)[0]


async def test_a_hook_that_calls_off_the_pass_keeps_the_program_from_running(linux: StrandsSandbox) -> None:
    passes: list[Callable[..., Any]] = []

    def calls_off(event: BeforeInvocationEvent) -> None:
        passes.append(calls_off)
        if len(passes) == 2:
            event.cancel = "no programs today"

    agent = acting(linux, block("open('/workspace/ran', 'w')"))
    agent.add_hook(calls_off, BeforeInvocationEvent)
    result = await agent.invoke_async("go")
    assert str(result) == "no programs today\n"
    assert "ran" not in [entry.name for entry in await linux.list_files()]


async def test_a_program_whose_pass_a_hook_broke_off_is_not_run_by_the_next_invocation(linux: StrandsSandbox) -> None:
    asked: list[str] = []

    def breaks(event: BeforeInvocationEvent) -> None:
        asked.append("")
        if len(asked) == 2:
            raise RuntimeError("broken off")

    state: dict[str, Any] = {}
    agent = acting(linux, block("open('/workspace/ran', 'w')"), "done")
    agent.add_hook(breaks, BeforeInvocationEvent)
    with pytest.raises(RuntimeError, match="broken off"):
        await agent.invoke_async("go", invocation_state=state)
    assert str(await agent.invoke_async("go on", invocation_state=state)) == "done\n"
    assert "ran" not in [entry.name for entry in await linux.list_files()]


@pytest.mark.slow
@pytest.mark.parametrize("replaces", [False, True])
async def test_hooks_see_and_change_what_came_of_a_program_before_the_model_reads_it(
    linux: StrandsSandbox, replaces: bool
) -> None:
    def redacts(event: BeforeInvocationEvent) -> None:
        text = json.dumps(event.messages).replace("secret", "[redacted]")
        if replaces:
            event.messages = json.loads(text)
        else:
            for message, changed in zip(event.messages or [], json.loads(text), strict=True):
                message["content"][:] = changed["content"]

    @tool
    def look() -> str:
        """Look."""
        return "the secret"

    @tool
    def secret() -> None:
        """Be called by JSON in words."""

    turns = [block("print(look())"), '{"name": "secret", "arguments": {}}', block("final_answer(1)")]
    agent = acting(linux, *turns, tools=[look, secret], agent={"hooks": [redacts]})
    await agent.invoke_async("go")
    assert observations(agent) == ["[stdout]\nthe [redacted]", "It gave the final answer."]
    read = [item["text"] for message in seen(agent)[-1]["messages"] for item in message["content"]]
    assert any("There is no tool '[redacted]' to call directly" in text for text in read)
    assert all("secret" not in item["text"] for item in agent.messages[2]["content"] + agent.messages[4]["content"])


@pytest.mark.slow
async def test_another_plugin_may_have_more_to_say_when_a_program_runs(linux: StrandsSandbox) -> None:
    more: list[Any] = ["and say please", [{"text": "and thank you"}], [{"role": "user", "content": [{"text": "bye"}]}]]

    def says_more(event: AfterInvocationEvent) -> None:
        if more and event.result is not None:
            event.resume = more.pop(0)

    turns = [block(f"print({number})") for number in (1, 2, 3)]
    agent = acting(linux, *turns, "done", agent={"hooks": [says_more]})  # which is called after those of plugins
    await agent.invoke_async("go")
    said = [[item["text"] for item in message["content"]] for message in agent.messages if message["role"] == "user"]
    heading = "What came of the program:\n\n[stdout]\n"
    assert said[1:] == [
        [f"{heading}1", "and say please", "and thank you"],  # after the answer, and after the program
        [f"{heading}2", "bye"],
        [f"{heading}3"],
    ]


@pytest.mark.slow
async def test_another_plugin_may_have_the_agent_go_on_after_its_answer(linux: StrandsSandbox) -> None:
    more = ["Are you sure?"]

    def asks(event: AfterInvocationEvent) -> None:
        if more and event.result is not None and event.result.state["codeact"]["stopped"] == "answer":
            event.resume = more.pop()

    agent = acting(linux, block("1"), "It is 1.", block("2"), "Now it is 2.")
    agent.add_hook(asks, AfterInvocationEvent)
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == "Now it is 2."
    assert len(observations(agent)) == 2


# What cannot be


async def test_structured_output_is_refused_with_what_to_do(linux: StrandsSandbox) -> None:
    class Total(BaseModel):
        cents: int

    agent = acting(linux, "done")
    with pytest.raises(InvalidValue, match="final_answer"):
        await agent.invoke_async("go", structured_output_model=Total)
    assert seen(agent) == []
    assert str(await agent.invoke_async("go")) == "done\n"


def test_what_makes_no_sense_is_refused() -> None:
    engine_check("linux")
    for wrong in ({"max_turns": 0}, {"timeout": 0}, {"max_tool_calls": 0}, {"paused_timeout": 0}):
        with pytest.raises(InvalidValue, match="must be"):
            CodeActPlugin("linux", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="list of names"):
        CodeActPlugin("linux", allowed_tools="price")
    with pytest.raises(Unsupported, match="runs Python"):
        Agent(model=ScriptedModel(), plugins=[CodeActPlugin("linux", "javascript")])
    with pytest.raises(InvalidValue, match="a sandbox of ours or the name"):
        Agent(model=ScriptedModel(), plugins=[CodeActPlugin(42)])  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("waits", [False, True])
async def test_an_agent_that_is_gone_leaves_no_session(linux: StrandsSandbox, waits: bool) -> None:
    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask somebody."""
        return str(tool_context.interrupt("what"))

    agent = acting(linux, block("x = ask()" if waits else "x = 1"), "done", tools=[ask], keep_session=not waits)
    result = await agent.invoke_async("go")
    assert result.stop_reason == ("interrupt" if waits else "end_turn")
    assert len(linux._sessions) == 1
    del agent, result
    gc.collect()
    while linux._sessions:
        await asyncio.sleep(0)
