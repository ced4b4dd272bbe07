"""A program waits in its sandbox while a person answers an interrupt, and nothing that it has done is done again."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.middleware.stages import ExecuteToolContext, ExecuteToolStage
from strands.session.file_session_manager import FileSessionManager
from strands.tools.executors import SequentialToolExecutor

from actbox.background_loop import background_loop
from actbox.integrations.strands import StrandsSandbox, make_programmatic_tool_caller, programmatic_tool_caller
from actbox.integrations.strands.paused_runs import paused_runs
from actbox.integrations.strands.program_run import Ended, ProgramRun
from actbox.integrations.strands.tool_conversion import nested_id
from tests.integrations.strands_agents.programs import CALLER, agent_with, answers, run, status_of, text_of
from tests.integrations.strands_agents.scripted import ScriptedModel


class Desk:
    """Tools with effects that are counted; `pay` asks a person."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool
        def look(name: str) -> str:
            """Look at an account."""
            self.done.append(f"looked at {name}")
            return f"balance of {name}"

        @tool(context=True)
        def pay(name: str, tool_context: ToolContext) -> str:
            """Pay, if a person says yes."""
            answer = tool_context.interrupt("approval", reason=name)
            if answer != "yes":
                return f"not paid {name}: {answer}"
            self.done.append(f"paid {name}")
            return f"paid {name}"

        self.tools = [look, pay]


@pytest.fixture
def desk() -> Desk:
    return Desk()


PROGRAM = "print(look('a'))\nprint(pay('a'))\nprint(look('b'))"


def test_a_program_goes_on_where_it_was_when_a_person_has_answered(sandbox: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(sandbox, PROGRAM, tools=desk.tools)
    asked = agent("go")
    assert asked.stop_reason == "interrupt"
    assert [(item.name, item.reason) for item in asked.interrupts] == [("approval", "a")]
    assert desk.done == ["looked at a"]
    assert agent(answers(asked)).stop_reason == "end_turn"
    assert desk.done == ["looked at a", "paid a", "looked at b"]
    assert text_of(agent) == "[stdout]\nbalance of a\npaid a\nbalance of b"
    assert len(agent.model.seen) == 2  # type: ignore[attr-defined]


async def test_it_goes_on_in_an_event_loop_that_lives_on_too(sandbox: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(sandbox, PROGRAM, tools=desk.tools)
    asked = await agent.invoke_async("go")
    await agent.invoke_async(answers(asked))
    assert desk.done == ["looked at a", "paid a", "looked at b"]


def test_a_program_without_await_keeps_its_variables_meanwhile(linux: StrandsSandbox, desk: Desk) -> None:
    program = "kept = [number for number in range(3)]\npay('a')\nkept.append(3)\nkept"
    agent = agent_with(linux, program, tools=desk.tools)
    agent(answers(agent("go")))
    assert text_of(agent) == "[value]\n[0, 1, 2, 3]"


def test_a_refusal_is_what_the_tool_makes_of_it(linux: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    agent(answers(agent("go"), "no"))
    assert "not paid a: no" in text_of(agent)
    assert desk.done == ["looked at a", "looked at b"]


def test_a_second_interrupt_after_the_first_is_another_question(sandbox: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(sandbox, "print(pay('a'), pay('a'), pay('c'))", tools=desk.tools)
    result, asked = agent("go"), []
    while result.stop_reason == "interrupt":
        asked += [item.id for item in result.interrupts]
        result = agent(answers(result))
    assert len(set(asked)) == len(asked) == 3
    assert desk.done == ["paid a", "paid a", "paid c"]
    assert text_of(agent) == "[stdout]\npaid a paid a paid c"


GATHER = "import asyncio\nprint(await asyncio.gather(pay('a'), look('x'), pay('b'), pay('c')))"


@pytest.mark.slow
def test_several_calls_at_once_are_asked_about_and_only_those_that_were_answered_go_on(
    sandbox: StrandsSandbox, desk: Desk
) -> None:
    agent = agent_with(sandbox, GATHER, tools=desk.tools)
    result = agent("go")
    asked: dict[str, str] = {}
    while result.stop_reason == "interrupt":
        first = result.interrupts[0]
        assert asked.setdefault(first.id, str(first.reason)) == first.reason
        # One of them is answered; the others are asked about again, under the ids that they had.
        result = agent([{"interruptResponse": {"interruptId": first.id, "response": "yes"}}])
    assert sorted(asked.values()) == ["a", "b", "c"]
    assert sorted(desk.done) == ["looked at x", "paid a", "paid b", "paid c"]
    assert text_of(agent) == "[stdout]\n['paid a', 'balance of x', 'paid b', 'paid c']"


@pytest.mark.slow
def test_answers_to_several_at_once_reach_those_that_they_are_for(linux: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(linux, GATHER, tools=desk.tools)
    result = agent("go")
    while result.stop_reason == "interrupt":
        result = agent(answers(result, b="no"))
    assert "['paid a', 'balance of x', 'not paid b: no', 'paid c']" in text_of(agent)


@pytest.mark.slow
def test_tools_that_run_one_by_one_ask_one_by_one(linux: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(linux, GATHER, tools=desk.tools, tool_executor=SequentialToolExecutor())
    result, rounds = agent("go"), 0
    while result.stop_reason == "interrupt":
        rounds += 1
        assert len(result.interrupts) == 1
        result = agent(answers(result))
    assert rounds == 3
    assert sorted(desk.done) == ["looked at x", "paid a", "paid b", "paid c"]


def test_a_hook_that_interrupts_pauses_the_program_before_the_tool(sandbox: StrandsSandbox, desk: Desk) -> None:
    def approve(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "look" and event.interrupt("hook", reason=event.tool_use["input"]) != "yes":
            event.cancel_tool = "a person has refused"

    agent = agent_with(sandbox, "print(look('a'))\nprint(look('b'))", tools=desk.tools)
    agent.add_hook(approve, BeforeToolCallEvent)
    asked = agent("go")
    assert (asked.interrupts[0].reason, desk.done) == ({"name": "a"}, [])
    asked = agent(answers(asked))
    assert (asked.interrupts[0].reason, desk.done) == ({"name": "b"}, ["looked at a"])
    agent(answers(asked, "no"))
    assert desk.done == ["looked at a"]
    assert "a person has refused" in text_of(agent)


def test_middleware_that_interrupts_pauses_the_program_too(linux: StrandsSandbox, desk: Desk) -> None:
    def gate(context: ExecuteToolContext) -> ExecuteToolContext:
        if context.tool_use["name"] == "look":
            context.interrupt("gate")
        return context

    agent = agent_with(linux, "print(look('a'))", tools=desk.tools)
    agent.add_middleware(ExecuteToolStage.Input, gate)
    agent(answers(agent("go")))
    assert desk.done == ["looked at a"]


def test_a_hook_about_the_caller_itself_asks_before_anything_runs(linux: StrandsSandbox, desk: Desk) -> None:
    def approve(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == CALLER:
            event.interrupt("program", reason=event.tool_use["input"]["code"])

    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    agent.add_hook(approve, BeforeToolCallEvent)
    asked = agent("go")
    assert (asked.interrupts[0].reason, desk.done) == (PROGRAM, [])
    asked = agent(answers(asked))
    assert (asked.interrupts[0].reason, desk.done) == ("a", ["looked at a"])
    agent(answers(asked))
    assert desk.done == ["looked at a", "paid a", "looked at b"]


def test_an_agent_that_a_program_asks_may_ask_a_person(linux: StrandsSandbox, desk: Desk) -> None:
    inner = Agent(model=ScriptedModel([("pay", {"name": "a"})], "paid it"), tools=desk.tools, callback_handler=None)
    agent = agent_with(linux, "print(ask(input='pay'))", tools=[inner.as_tool(name="ask", description="Ask.")])
    asked = agent("go")
    assert asked.stop_reason == "interrupt"
    assert agent(answers(asked)).stop_reason == "end_turn"
    assert desk.done == ["paid a"]
    assert "paid it" in text_of(agent)


@pytest.mark.slow
def test_the_clock_stands_still_while_a_person_thinks(sandbox: StrandsSandbox, desk: Desk, turn: Any) -> None:
    caller = make_programmatic_tool_caller(timeout=60)
    agent = agent_with(sandbox, PROGRAM, tools=desk.tools, caller=caller)
    asked = agent("go")
    turn(90)
    agent(answers(asked))
    assert status_of(agent) == ["success"]


@pytest.mark.slow
def test_two_calls_of_one_turn_wait_each_for_its_own_answer(linux: StrandsSandbox, desk: Desk) -> None:
    turn = [(CALLER, {"code": "print(look('x'), pay('a'))"}), (CALLER, {"code": "print(look('y'), pay('b'))"})]
    agent = agent_with(linux, tools=desk.tools)
    agent.model = ScriptedModel(turn, "done")
    result = agent("go")
    assert sorted(str(item.reason) for item in result.interrupts) == ["a", "b"]
    while result.stop_reason == "interrupt":
        result = agent(answers(result, b="no"))
    assert text_of(agent) == "[stdout]\nbalance of x paid a\n[stdout]\nbalance of y not paid b: no"
    assert sorted(desk.done) == ["looked at x", "looked at y", "paid a"]


@pytest.mark.slow
async def test_two_agents_that_wait_at_once_go_on_with_their_own(linux: StrandsSandbox) -> None:
    desks = [Desk(), Desk()]
    agents = [agent_with(linux, PROGRAM, tools=one.tools) for one in desks]
    asked = await asyncio.gather(*(agent.invoke_async("go") for agent in agents))
    await agents[1].invoke_async(answers(asked[1]))
    assert [one.done for one in desks] == [["looked at a"], ["looked at a", "paid a", "looked at b"]]
    await agents[0].invoke_async(answers(asked[0], "no"))
    assert desks[0].done == ["looked at a", "looked at b"]


@pytest.mark.slow
def test_a_program_that_does_not_wait_for_the_answer_ends_without_it(linux: StrandsSandbox, desk: Desk) -> None:
    program = "import asyncio\nasking = asyncio.create_task(pay('a'))\nawait asyncio.sleep(0)\nprint(await look('x'))"
    agent = agent_with(linux, program, tools=desk.tools)
    assert agent("go").stop_reason == "end_turn"
    assert desk.done == ["looked at x"]
    assert run(linux, "1", tools=desk.tools) == "[value]\n1"


def test_nobody_can_be_asked_in_a_direct_call(linux: StrandsSandbox, desk: Desk) -> None:
    agent = Agent(
        model=ScriptedModel("hi"), tools=[*desk.tools, programmatic_tool_caller], sandbox=linux, callback_handler=None
    )
    result = agent.tool.programmatic_tool_caller(code="print(look('a'))\npay('a')")
    assert result["status"] == "error"
    assert "nobody can be asked here" in result["content"][0]["text"]
    assert desk.done == ["looked at a"]
    assert agent("hello").stop_reason == "end_turn"


# The run is gone


def gone(agent: Agent, desk: Desk) -> None:
    """Check that the model is told that the run is gone, and what it had done; and that nothing ran again."""
    assert desk.done == ["looked at a"]
    assert status_of(agent) == ["error"]
    text = text_of(agent)
    assert "[error CANCELLED" in text
    assert '1. look({"name": "a"}) → returned' in text
    assert "nothing ran, and no tool was called" not in text


@pytest.mark.slow
def test_where_the_process_has_ended_the_result_says_so_and_nothing_is_run_again(
    linux: StrandsSandbox, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def agent_of(*turns: Any) -> Agent:
        return Agent(
            model=ScriptedModel(*turns),
            tools=[*desk.tools, programmatic_tool_caller],
            sandbox=linux,
            session_manager=FileSessionManager("talk", storage_dir=str(tmp_path)),
            callback_handler=None,
        )

    asked = agent_of([(CALLER, {"code": PROGRAM})])("go")
    assert asked.stop_reason == "interrupt"
    monkeypatch.setattr(paused_runs._approvals, "_open", {})  # what another process has of them
    later = agent_of("done")
    assert later(answers(asked)).stop_reason == "end_turn"
    gone(later, desk)
    assert "what it had done before stays done, and nothing was run again" in text_of(later)


def test_an_agent_that_is_made_anew_in_the_same_process_goes_on(
    linux: StrandsSandbox, desk: Desk, tmp_path: Path
) -> None:
    def agent_of(*turns: Any) -> Agent:
        return Agent(
            model=ScriptedModel(*turns),
            tools=[*desk.tools, programmatic_tool_caller],
            sandbox=linux,
            session_manager=FileSessionManager("talk", storage_dir=str(tmp_path)),
            callback_handler=None,
        )

    asked = agent_of([(CALLER, {"code": PROGRAM})])("go")
    later = agent_of("done")
    later(answers(asked))
    assert desk.done == ["looked at a", "paid a", "looked at b"]


def test_a_run_that_waited_too_long_is_gone(linux: StrandsSandbox, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paused_runs._approvals, "_open", {})
    agent = agent_with(linux, PROGRAM, tools=desk.tools, caller=make_programmatic_tool_caller(paused_timeout=0.01))
    asked = agent("go")
    while paused_runs._approvals._open:
        threading.Event().wait(0.01)
    agent(answers(asked))
    gone(agent, desk)


SAYS_MUCH = "import sys\nprint('at the beginning')\nsys.stderr.write('x' * 100_000 + 'at the end')\n" + PROGRAM


@pytest.mark.parametrize("ends", ["expired", "other process"])
def test_what_a_run_had_printed_that_is_gone_is_told(
    linux: StrandsSandbox, desk: Desk, tmp_path: Path, waiting: dict[str, Any], ends: str
) -> None:
    def agent_of(*programs: str) -> Agent:
        manager = FileSessionManager("talk", storage_dir=str(tmp_path))
        return agent_with(linux, *programs, tools=desk.tools, session_manager=manager)

    agent = agent_of(SAYS_MUCH)
    asked = agent("go")
    if ends == "expired":
        paused_runs._expire(*waiting)
    else:
        waiting.clear()
        agent = agent_of()
    agent(answers(asked))
    gone(agent, desk)
    text = text_of(agent)
    assert text.startswith("[stdout]\nat the beginning\nbalance of a\n\n[stderr]\nxxx")
    assert "xat the end\n\n[error CANCELLED" in text
    assert "characters left out" in text


async def test_a_run_whose_sandbox_was_stopped_is_gone(linux: StrandsSandbox, desk: Desk) -> None:
    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    asked = await agent.invoke_async("go")
    await linux.stop()
    await agent.invoke_async(answers(asked))
    gone(agent, desk)
    assert "stopped" in text_of(agent)
    assert text_of(agent).startswith("[stdout]\nbalance of a\n\n[error CANCELLED")


@pytest.mark.slow
async def test_a_call_that_is_approved_once_the_sandbox_was_stopped_is_not_made_though_the_end_was_not_told_yet(
    linux: StrandsSandbox, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    asked = await agent.invoke_async("go")
    # The loop that programs run in is blocked, so that nobody hears of the program's end, until the program is to be
    # ended or its call was made all the same.
    is_blocked, is_free = threading.Event(), threading.Event()

    def block() -> None:
        is_blocked.set()
        is_free.wait()

    end = ProgramRun.end
    monkeypatch.setattr(ProgramRun, "end", lambda run: (is_free.set(), end(run)))
    agent.add_hook(lambda event: is_free.set() if event.tool_use["name"] == "pay" else None, AfterToolCallEvent)
    background_loop().call_soon_threadsafe(block)
    is_blocked.wait()
    await linux.stop()
    await agent.invoke_async(answers(asked))
    gone(agent, desk)
    assert "the sandbox was stopped" in text_of(agent)


def test_another_program_does_not_get_the_answer(linux: StrandsSandbox, desk: Desk) -> None:
    def change(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == CALLER and desk.done:
            event.tool_use = {**event.tool_use, "input": {"code": "pay('mallory')"}}

    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    agent.add_hook(change, BeforeToolCallEvent)
    agent(answers(agent("go")))
    gone(agent, desk)
    assert "another program than the one that waited" in text_of(agent)


def test_what_is_wrong_by_now_with_the_call_does_not_keep_its_run_from_going_on(
    linux: StrandsSandbox, desk: Desk
) -> None:
    caller = make_programmatic_tool_caller(allowed_tools=["look", "pay", "extra"])

    @tool
    def extra() -> None:
        """Be removed meanwhile."""

    agent = agent_with(linux, PROGRAM, tools=[*desk.tools, extra], caller=caller)
    asked = agent("go")
    del agent.tool_registry.registry["extra"]
    agent(answers(asked))
    assert desk.done == ["looked at a", "paid a", "looked at b"]


def test_cancelling_after_the_answer_ends_the_program(linux: StrandsSandbox, desk: Desk) -> None:
    @tool(context=True)
    async def hang(tool_context: ToolContext) -> None:
        """Cancel the agent and never return."""
        tool_context.agent.cancel()
        await asyncio.Event().wait()

    agent = agent_with(linux, "print(pay('a'), flush=True)\nhang()\nlook('b')", tools=[*desk.tools, hang])
    assert agent(answers(agent("go"))).stop_reason == "cancelled"
    assert desk.done == ["paid a"]
    assert text_of(agent).startswith("[stdout]\npaid a")


# Nobody can go on with it


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The runs that wait, of this test alone."""
    monkeypatch.setattr(paused_runs._approvals, "_open", {})
    return paused_runs._approvals._open  # type: ignore[return-value]


@pytest.mark.slow
def test_of_too_many_that_wait_for_one_agent_its_oldest_is_gone(
    linux: StrandsSandbox, waiting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paused_runs._approvals, "_most_of_owner", 1)
    desk, other_desk = Desk(), Desk()
    other = agent_with(linux, PROGRAM, tools=other_desk.tools)
    other_asked = other("go")
    agent = agent_with(linux, tools=desk.tools)
    agent.model = ScriptedModel([(CALLER, {"code": f"pay('{name}')\n'paid'"}) for name in "ab"], "done")
    asked = agent("go")
    assert len(asked.interrupts) == 2
    agent(answers(asked))
    assert text_of(agent).count("nothing was run again") == 1
    assert len(desk.done) == 1
    other(answers(other_asked))
    assert other_desk.done == ["looked at a", "paid a", "looked at b"]


@pytest.mark.slow
def test_of_too_many_that_wait_in_a_process_one_is_gone_of_the_agent_with_the_most(
    linux: StrandsSandbox, waiting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paused_runs._approvals, "_most", 2)
    greedy_desk, desk = Desk(), Desk()
    greedy = agent_with(linux, tools=greedy_desk.tools)
    greedy.model = ScriptedModel([(CALLER, {"code": f"pay('{name}')"}) for name in "ab"], "done")
    greedy_asked = greedy("go")
    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    asked = agent("go")
    assert len(waiting) == 2
    agent(answers(asked))
    assert desk.done == ["looked at a", "paid a", "looked at b"]
    greedy(answers(greedy_asked))
    assert len(greedy_desk.done) == 1


def wait_for_the_end(run: ProgramRun) -> None:
    """Return when its process has ended and nobody was attending to it."""
    while not any(isinstance(said, Ended) for said in run.take()):
        threading.Event().wait(0.01)


def said(agent: Agent) -> list[Any]:
    """Return all blocks of the conversation."""
    return [block for message in agent.messages for block in message["content"]]


def called_off(agent: Agent, desk: Desk) -> None:
    """Check that the model is told that its call was called off, and what the program had done until then."""
    assert desk.done == ["looked at a"]
    assert set(status_of(agent)) == {"error"}
    assert "the program was ended; what it had done before stays done" in text_of(agent)
    assert '1. look({"name": "a"}) → returned' in text_of(agent)
    assert '2. pay({"name": "a"})' in text_of(agent)
    assert "\n\n[stdout]\nbalance of a\n\n[error CANCELLED" in text_of(agent)
    assert all("toolResult" not in block or len(block["toolResult"]["content"]) == 1 for block in said(agent))


def test_cancelling_the_agent_while_a_program_waits_ends_it_and_tells_what_it_had_done(
    linux: StrandsSandbox, desk: Desk, waiting: dict[str, Any]
) -> None:
    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    asked = agent("go")
    (pause,) = waiting.values()
    agent.cancel()
    assert agent(answers(asked)).stop_reason == "cancelled"
    assert not waiting
    called_off(agent, desk)
    wait_for_the_end(pause.waits.paused)
    # Strands takes the answers once more.
    agent(answers(asked))
    called_off(agent, desk)
    assert "what it had done before stays done, and nothing was run again" in text_of(agent)


def test_a_hook_that_calls_the_call_off_ends_the_program_that_waits(
    linux: StrandsSandbox, desk: Desk, waiting: dict[str, Any]
) -> None:
    def refuse(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == CALLER and desk.done:
            event.cancel_tool = "not any more"

    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    agent.add_hook(refuse, BeforeToolCallEvent)
    asked = agent("go")
    (pause,) = waiting.values()
    assert agent(answers(asked)).stop_reason == "end_turn"
    called_off(agent, desk)
    assert text_of(agent).startswith("not any more")
    wait_for_the_end(pause.waits.paused)


@pytest.mark.parametrize("asks", ["hook", "middleware", "tool", "hook after tool"])
@pytest.mark.parametrize("ends", ["called off", "expired"])
def test_a_call_that_only_waited_to_be_approved_is_told_from_one_whose_tool_had_begun(
    linux: StrandsSandbox, desk: Desk, waiting: dict[str, Any], asks: str, ends: str
) -> None:
    name = {"hook": "look", "middleware": "look"}.get(asks, "pay")
    agent = agent_with(linux, f"{name}('a')", tools=desk.tools)
    may_ask: list[str] = []

    def hook(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == name and (asks == "hook" or may_ask):
            event.interrupt("approval by a hook")

    def gate(context: ExecuteToolContext) -> ExecuteToolContext:
        if asks == "middleware" and context.tool_use["name"] == name:
            context.interrupt("approval by middleware")
        return context

    agent.add_hook(hook, BeforeToolCallEvent)
    agent.add_middleware(ExecuteToolStage.Input, gate)
    asked = agent("go")
    if asks == "hook after tool":
        may_ask.append("again")
        asked = agent(answers(asked))
    assert asked.stop_reason == "interrupt"
    if ends == "expired":
        paused_runs._expire(*waiting)
    else:
        agent.cancel()
    agent(answers(asked))
    told = text_of(agent)
    assert ("failed: the program ended before the tool was called" in told) is (name == "look")
    assert ("it may or may not have taken effect" in told) is (name == "pay")
    assert desk.done == []


def test_a_call_that_has_its_result_is_told_nothing_when_another_of_its_turn_is_called_off(
    linux: StrandsSandbox, desk: Desk, waiting: dict[str, Any]
) -> None:
    turn = [(CALLER, {"code": "print(look('a'))"}), (CALLER, {"code": "print(pay('b'))"})]
    agent = agent_with(linux, tools=desk.tools)
    agent.model = ScriptedModel(turn, "done")
    asked = agent("go")
    agent.cancel()
    agent(answers(asked))
    assert not waiting
    assert status_of(agent) == ["success", "error"]
    assert text_of(agent).count("the program was ended") == 1


@pytest.mark.slow
def test_a_program_ends_with_the_agent_that_it_runs_for(
    linux: StrandsSandbox, desk: Desk, waiting: dict[str, Any]
) -> None:
    agent = agent_with(linux, PROGRAM, tools=desk.tools)
    agent("go")
    run = next(iter(waiting.values())).waits.paused
    del agent
    while waiting:
        gc.collect()
        threading.Event().wait(0.01)
    wait_for_the_end(run)


def test_a_program_stays_where_another_agent_may_have_its_answer(
    linux: StrandsSandbox, desk: Desk, waiting: dict[str, Any], tmp_path: Path
) -> None:
    manager = FileSessionManager("talk", storage_dir=str(tmp_path))
    agent = agent_with(linux, PROGRAM, tools=desk.tools, session_manager=manager)
    asked = agent("go")
    is_gone = threading.Event()
    weakref.finalize(agent, is_gone.set)
    del agent
    while not is_gone.is_set():
        gc.collect()
        is_gone.wait(0.01)
    later = agent_with(linux, tools=desk.tools, session_manager=FileSessionManager("talk", storage_dir=str(tmp_path)))
    later(answers(asked))
    assert desk.done == ["looked at a", "paid a", "looked at b"]


# Ids


def test_ids_of_nested_calls_are_the_same_for_the_same_call_and_no_others() -> None:
    first = nested_id("outer", 1, "pay", {"a": 1, "b": 2})
    assert first == nested_id("outer", 1, "pay", {"b": 2, "a": 1})
    others = [
        ("outer", 2, "pay", {"a": 1, "b": 2}),
        ("outer", 1, "pay", {"a": 1}),
        ("outer", 1, "look", {"a": 1, "b": 2}),
    ]
    assert first not in [nested_id(*other) for other in others]
    assert nested_id("outer", 1, "pay", {"raw": b"\xff"}).startswith("outer-1-")


class OneIdForAll(ScriptedModel):
    """A model that gives every call of its turns the same id, as none should."""

    def _block(self, block: Any) -> Any:
        self._calls = 0
        return super()._block(block)


async def test_of_several_calls_with_one_id_none_runs(linux: StrandsSandbox, desk: Desk) -> None:
    programs = [(CALLER, {"code": f"look('{name}'); pay('{name}')"}) for name in ("ann", "bob")]
    tools = [*desk.tools, programmatic_tool_caller]
    agent = Agent(model=OneIdForAll(programs, "sorry"), tools=tools, sandbox=linux, callback_handler=None)
    result = await agent.invoke_async("go")
    assert (result.stop_reason, desk.done) == ("end_turn", [])
    told = [block["toolResult"]["content"][0]["text"] for block in agent.messages[2]["content"]]
    assert len(told) == 2 and all("the same id" in text for text in told)
