"""What a program's calls may take of the host: memory, its event loop, and time after they were cancelled."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, ToolContext, tool

from actbox import InvalidValue
from actbox.integrations.strands import (
    StrandsSandbox,
    make_file_editor,
    make_file_read,
    make_file_write,
    make_programmatic_tool_caller,
)
from actbox.integrations.strands.paused_runs import paused_runs
from tests.integrations.strands_agents.acting import acting, block
from tests.integrations.strands_agents.programs import agent_with, answers, text_of


async def test_what_a_tool_streams_waits_for_whoever_takes_it(linux: StrandsSandbox) -> None:
    made = taken = most = 0

    @tool
    async def pieces() -> AsyncIterator[str]:
        """Stream a lot."""
        nonlocal made
        for _ in range(1000):
            made += 1
            yield "x"
        yield "done"

    async for event in agent_with(linux, "pieces()", tools=[pieces]).stream_async("go"):
        if "tool_stream_event" in event:
            taken += 1
            most = max(most, made - taken)
            await asyncio.sleep(0)
    assert taken >= 1000
    assert most < 200


async def test_what_a_tool_has_begun_and_left_is_no_part_of_the_program(linux: StrandsSandbox) -> None:
    begun: list[asyncio.Task[Any]] = []
    is_over = asyncio.Event()

    async def work() -> str:
        agent = agent_with(linux, "print('inside')")
        await agent.invoke_async("go")
        inside = text_of(agent)
        await is_over.wait()
        agent = agent_with(linux, "print('after')")
        await agent.invoke_async("go")
        return f"{inside}\n{text_of(agent)}"

    @tool
    async def begin() -> None:
        """Begin to work."""
        begun.append(asyncio.create_task(work()))
        await asyncio.sleep(0)

    await agent_with(linux, "begin()", tools=[begin]).invoke_async("go")
    is_over.set()
    assert (await begun[0]).endswith("[stdout]\nafter")


@pytest.mark.slow
async def test_a_tool_that_heeds_no_cancelling_does_not_hold_the_agent(linux: StrandsSandbox, turn: Any) -> None:
    let_go = asyncio.Event()
    over: list[str] = []

    @tool
    async def deaf() -> None:
        """Do not end."""
        turn(30)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await let_go.wait()
            over.append("deaf")

    caller = make_programmatic_tool_caller(timeout=30)
    agent = agent_with(linux, "deaf()", tools=[deaf], caller=caller)
    await agent.invoke_async("go")
    assert over == []
    assert "was stopped after 30 seconds" in text_of(agent)
    let_go.set()
    while not over:
        await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_program_that_has_waited_for_people_leaves_nothing_once_it_is_over(linux: StrandsSandbox) -> None:
    @tool(context=True)
    def pay(tool_context: ToolContext) -> str:
        """Pay, if a person says yes."""
        return str(tool_context.interrupt("approval"))

    def resumed() -> weakref.ref[Any]:
        agent: Agent = agent_with(linux, "pay()", tools=[pay])
        asked = agent("go")
        (pause,) = [entry.waits for entry in paused_runs._approvals.open()]
        run = weakref.ref(pause.paused)
        del pause
        agent(answers(asked))
        return run

    paused_runs._forget()
    run = resumed()
    while run() is not None:  # its sandbox may still be at its end, in the background
        gc.collect()
        threading.Event().wait(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("told, most", [({}, 8), ({"calls_at_once": 2}, 2)])
@pytest.mark.parametrize("acts", [False, True], ids=["programmatic_tool_caller", "CodeActPlugin"])
async def test_calls_that_a_program_makes_at_once_are_bounded(
    linux: StrandsSandbox, acts: bool, told: dict[str, int], most: int
) -> None:
    at_once: list[int] = []
    going = 0
    is_full = asyncio.Event()

    @tool
    async def work() -> None:
        """Work until as many calls as may are inside, and then for some turns of the event loop."""
        nonlocal going
        going += 1
        at_once.append(going)
        if going == most:
            is_full.set()
        await is_full.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        going -= 1

    program = "import asyncio\nawait asyncio.gather(*(work() for _ in range(40)))\nprint('all')"
    if acts:
        agent = acting(linux, block(program), "done", tools=[work], **told)
    else:
        agent = agent_with(linux, program, tools=[work], caller=make_programmatic_tool_caller(**told))
    await agent.invoke_async("go")
    assert len(at_once) == 40
    assert max(at_once) == most


@pytest.mark.parametrize("count", [0, True, 1.5])
def test_a_bound_that_makes_no_sense_is_refused(count: Any) -> None:
    with pytest.raises(InvalidValue, match="calls_at_once must be a whole number"):
        make_programmatic_tool_caller(calls_at_once=count)


async def test_a_direct_call_after_the_agent_was_cancelled_runs_nothing(linux: StrandsSandbox) -> None:
    done: list[int] = []

    @tool
    def pay(amount: int) -> None:
        """Pay."""
        done.append(amount)

    agent = agent_with(linux, "", tools=[pay])
    agent.cancel()
    result = await asyncio.to_thread(agent.tool.programmatic_tool_caller, code="print('ran')\npay(amount=1)")
    assert result["status"] == "error"
    assert "CANCELLED" in result["content"][0]["text"]
    assert "ran" not in result["content"][0]["text"]
    assert done == []


async def test_a_call_that_strands_would_trace_for_seconds_is_refused_before_it_does(linux: StrandsSandbox) -> None:
    seen: list[int] = []

    @tool
    def look(a: list[int]) -> int:
        """Look."""
        seen.append(len(a))
        return len(a)

    code = (
        "print(look(a=list(range(15_000))))\ntry: look(a=list(range(25_000)))\nexcept ToolError as error: print(error)"
    )
    agent = agent_with(linux, "", tools=[look])
    result = await asyncio.to_thread(agent.tool.programmatic_tool_caller, code=code)
    assert "the call of 'look' has more than 20,000 values" in result["content"][0]["text"]
    assert seen == [15_000]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("file_editor", {"command": "create", "path": "late.txt", "file_text": "x"}),
        ("file_write", {"path": "late.txt", "content": "x"}),
        ("file_read", {"path": "early.txt"}),
    ],
)
async def test_a_file_tool_called_after_the_agent_was_cancelled_does_nothing(
    name: str, arguments: dict[str, Any], linux: StrandsSandbox
) -> None:
    await linux.write_file("early.txt", b"early")
    agent = agent_with(linux, tools=[make_file_editor(), make_file_read(), make_file_write()])
    agent.cancel()
    result = await asyncio.to_thread(getattr(agent.tool, name), **arguments)
    assert result["status"] == "error"
    assert "the agent was cancelled, and the tool was not called" in result["content"][0]["text"]
    assert "late.txt" not in {entry.name for entry in await linux.list_files(".")}
