"""A person decides about a call that a program of an agent in CodeAct makes; the program waits in its sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, ToolContext, tool
from strands.hooks import BeforeToolCallEvent, BeforeToolsEvent
from strands.session import FileSessionManager

from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.paused_runs import paused_runs
from tests.integrations.strands_agents.acting import acting, block, observations, roles, seen, told
from tests.integrations.strands_agents.programs import answers

PAID: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    PAID.clear()


@tool(context=True)
def pay(order: str, tool_context: ToolContext) -> str:
    """Pay an order, if somebody agrees."""
    said = tool_context.interrupt("agree", reason=order)
    if said == "yes":
        PAID.append(order)
    return f"{order}: {said}"


@tool
def note(text: str) -> str:
    """Note something."""
    PAID.append(f"noted {text}")
    return text


@pytest.mark.slow
async def test_the_program_goes_on_where_it_waited(sandbox: StrandsSandbox) -> None:
    program = "kept = 41\nnote('first')\nprint(pay('A-17'))\nkept += 1"
    agent = acting(sandbox, block(program), block("final_answer(kept)"), tools=[pay, note])
    asked = await agent.invoke_async("go")
    assert asked.stop_reason == "interrupt"
    assert [item.reason for item in asked.interrupts or ()] == ["A-17"]
    assert asked.state["codeact"] == {"stopped": "interrupt", "answer": None, "turns": 1, "programs": 1}
    assert roles(agent) == ["user", "assistant"]
    result = await agent.invoke_async(answers(asked))
    assert PAID == ["noted first", "A-17"]
    assert observations(agent)[0] == "[stdout]\nA-17: yes"
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": 42, "turns": 2, "programs": 2}
    assert roles(agent) == ["user", "assistant"] * 3


@pytest.mark.slow
def test_the_answer_may_come_in_another_event_loop(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("print(pay('A-17'))"), "done", tools=[pay])
    asked = agent("go")
    assert agent(answers(asked, "no")).state["codeact"]["answer"] == "done"
    assert observations(agent) == ["[stdout]\nA-17: no"]
    assert PAID == []


async def test_calls_at_once_are_asked_about_together_and_only_once(linux: StrandsSandbox) -> None:
    program = "import asyncio\nprint(await asyncio.gather(pay('a'), pay('b'), note('c')))"
    agent = acting(linux, block(program), "done", tools=[pay, note])
    asked = await agent.invoke_async("go")
    assert sorted(str(item.reason) for item in asked.interrupts or ()) == ["a", "b"]
    await agent.invoke_async(answers(asked, a="yes", b="no"))
    assert observations(agent) == ["[stdout]\n['a: yes', 'b: no', 'c']"]
    assert PAID == ["noted c", "a"]


@pytest.mark.slow
async def test_several_questions_come_one_after_the_other(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("print(pay('a'))\nprint(pay('b'))"), block("print(pay('c'))"), "done", tools=[pay])
    asked = await agent.invoke_async("go")
    for expected in ("a", "b", "c"):
        assert [item.reason for item in asked.interrupts or ()] == [expected]
        asked = await agent.invoke_async(answers(asked))
    assert asked.stop_reason == "end_turn"
    assert PAID == ["a", "b", "c"]
    assert len(seen(agent)) == 3


async def test_a_hook_may_ask_about_a_call(linux: StrandsSandbox) -> None:
    def asks(event: BeforeToolCallEvent) -> None:
        if event.interrupt("may it", reason=event.tool_use["name"]) != "yes":
            event.cancel_tool = "somebody said no"

    agent = acting(linux, block("note('x')"), "done", tools=[note])
    agent.add_hook(asks, BeforeToolCallEvent)
    asked = await agent.invoke_async("go")
    assert [item.reason for item in asked.interrupts or ()] == ["note"]
    await agent.invoke_async(answers(asked, "no"))
    assert "ToolError: somebody said no" in observations(agent)[0]
    assert PAID == []


@pytest.mark.slow
async def test_a_call_that_only_waited_is_told_as_not_made_where_the_agent_is_cancelled(linux: StrandsSandbox) -> None:
    def asks(event: BeforeToolCallEvent) -> None:
        event.interrupt("may it")

    agent = acting(linux, block("print('begun')\nnote('x')"), tools=[note])
    agent.add_hook(asks, BeforeToolCallEvent)
    asked = await agent.invoke_async("go")
    agent.cancel()
    assert (await agent.invoke_async(answers(asked))).stop_reason == "cancelled"
    (told_it,) = observations(agent)
    assert told_it.startswith("[stdout]\nbegun")
    assert 'note({"text": "x"}) → failed: the program ended before the tool was called' in told_it
    assert PAID == []


async def test_variables_stay_while_somebody_is_asked_about_something_else(linux: StrandsSandbox) -> None:
    def asks(event: BeforeToolsEvent) -> None:
        event.interrupt("may it")

    agent = acting(linux, block("kept = 1"), [("note", {"text": "x"})], block("final_answer(kept + 1)"), tools=[note])
    agent.add_hook(asks, BeforeToolsEvent)
    asked = await agent.invoke_async("go")
    assert asked.stop_reason == "interrupt"
    result = await agent.invoke_async(answers(asked))
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": 2, "turns": 3, "programs": 2}
    assert PAID == []


async def test_a_question_about_calls_of_the_last_turn_leaves_it_the_last(linux: StrandsSandbox) -> None:
    def asks(event: BeforeToolsEvent) -> None:
        event.interrupt("may it")

    agent = acting(linux, [("note", {"text": "x"})], tools=[note], max_turns=1)
    agent.add_hook(asks, BeforeToolsEvent)
    asked = await agent.invoke_async("go")
    assert asked.stop_reason == "interrupt"
    result = await agent.invoke_async(answers(asked))
    assert (result.stop_reason, result.state["codeact"]["stopped"]) == ("limit_turns", "max_turns")
    assert PAID == []


async def test_a_program_that_is_gone_is_told_and_not_run_again(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("note('once')\npay('A-17')"), "I see.", tools=[pay, note])
    asked = await agent.invoke_async("go")
    token = [*paused_runs._approvals._open][-1]
    paused_runs._expire(token)
    result = await agent.invoke_async(answers(asked))
    assert str(result) == "I see.\n"
    (observed,) = observations(agent)
    assert "nothing was run again" in observed
    assert 'note({"text": "once"}) → returned' in observed
    assert PAID == ["noted once"]


@pytest.mark.slow
def test_an_agent_that_comes_back_from_storage_is_told_that_its_program_and_what_it_defined_are_gone(
    linux: StrandsSandbox, tmp_path: Path
) -> None:
    def made(*turns: Any) -> Agent:
        manager = FileSessionManager(session_id="s", storage_dir=str(tmp_path))
        return acting(linux, *turns, tools=[pay, note], agent={"session_manager": manager})

    asked = made(block("kept = 1"), block("note('once')\npay('A-17')"))("go")
    for token in list(paused_runs._approvals._open):  # as where the process was another
        paused_runs._expire(token)
    back = made(block("print(kept)"), block("new = 2"), block("print(new)"), "I see.")
    assert str(back(answers(asked))) == "I see.\n"
    _, gone, failed, *others = observations(back)
    assert 'note({"text": "once"}) → returned' in gone
    assert (
        "[warnings]\nthe session of this program and those before has ended, and what they had defined is lost" in gone
    )
    assert "NameError" in failed
    assert all("has ended" not in text for text in (failed, *others))
    assert others[-1] == "[stdout]\n2"
    assert PAID == ["noted once"]


@pytest.mark.slow
def test_a_session_that_is_kept_is_told_as_lost_where_its_agent_comes_back_from_storage(
    linux: StrandsSandbox, tmp_path: Path
) -> None:
    def made(*turns: Any) -> Agent:
        manager = FileSessionManager(session_id="s", storage_dir=str(tmp_path))
        return acting(linux, *turns, keep_session=True, agent={"session_manager": manager})

    made(block("kept = 1"), block("print(kept)"), "done")("go")
    back = made(block("print(kept)"), block("print(2)"), "done")
    back("go on")
    lost = "[warnings]\nthe session of the programs before has ended, and what they had defined is lost"
    assert [lost in text for text in observations(back)] == [False, False, True, False]


# Ids


async def ids_of(agent: Agent) -> list[str]:
    """Invoke an agent, and return the ids of the calls that its programs make."""
    events = [event async for event in agent.stream_async("go")]
    return [use["toolUseId"] for use in told(events, "tool_use")]


@pytest.mark.slow
async def test_ids_of_calls_are_the_same_where_the_run_is_and_no_others(linux: StrandsSandbox, tmp_path: Path) -> None:
    program = block("note('x')\nnote('x')")

    def made(kept: str, *turns: Any, **agent: Any) -> Agent:
        manager = FileSessionManager(session_id=kept, storage_dir=str(tmp_path))
        return acting(linux, *turns, tools=[note], agent={"session_manager": manager, **agent})

    agent = made("one", program, program, "done", program, "done")
    first = await ids_of(agent)
    assert first == await ids_of(made("two", program, program, "done"))
    assert first != await ids_of(made("three", program, program, "done", name="another"))
    assert first != await ids_of(made("four", block("note('x')\nnote('x')\n"), program, "done"))
    ids = first + await ids_of(agent) + await ids_of(made("one", program, program, "done"))
    assert len(ids) == len(set(ids)) == 10
    assert all(len(item) <= 64 for item in ids)


@pytest.mark.slow
async def test_a_conversation_that_was_shortened_has_no_id_twice(linux: StrandsSandbox) -> None:
    agent = acting(linux, lambda messages: block("note('x')\nfinal_answer(1)"), tools=[note])
    ids = await ids_of(agent)
    agent.messages.clear()
    ids += await ids_of(agent)
    assert len(ids) == len(set(ids)) == 2


@pytest.mark.slow
async def test_agents_that_ask_the_same_at_once_are_asked_about_each(linux: StrandsSandbox) -> None:
    agents = [acting(linux, block("print(pay('A-17'))"), "done", tools=[pay]) for _ in range(2)]
    asked = [await agent.invoke_async("go") for agent in agents]
    first, second = [item.id for result in asked for item in result.interrupts or ()]
    assert first != second
    for agent, result, answer in zip(agents, asked, ("yes", "no"), strict=True):
        await agent.invoke_async(answers(result, answer))
    assert [observations(agent) for agent in agents] == [["[stdout]\nA-17: yes"], ["[stdout]\nA-17: no"]]
