"""`on_event`: a person watches a program while it runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession

from actbox import ApprovalRequested, Completed, InvalidValue, Output, ToolFinished, ToolStarted
from actbox.codeact import ProgramEvent
from actbox.integrations.agent_framework import LinuxCodeActProvider, LinuxExecuteCodeTool
from tests.integrations.af_payments import Conversation, payment_tools
from tests.integrations.af_scripted import ScriptedClient, agent_of, answers, code, run_program


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_program_does_is_told_while_it_runs(is_async: bool) -> None:
    seen: list[ProgramEvent] = []
    printed = asyncio.Event()

    def watch(event: ProgramEvent) -> None:
        seen.append(event)
        if isinstance(event.event, Output):
            printed.set()

    async def watch_later(event: ProgramEvent) -> None:
        await asyncio.sleep(0)
        watch(event)

    async def wait() -> str:
        """Return when the output of the program was seen."""
        await asyncio.wait_for(printed.wait(), 30)
        return "seen"

    program = "print('first', flush=True)\nwait()"
    async with LinuxCodeActProvider(tools=[wait], on_event=watch_later if is_async else watch) as provider:
        session = AgentSession(session_id="watched")
        client = await run_program(provider, program, session=session)
    assert "seen" in client.read()
    kinds = [type(each.event) for each in seen]
    assert [kind for kind in kinds if kind is not Output] == [ToolStarted, ToolFinished, Completed]
    assert {each.scope for each in seen} == {"watched"}
    assert {each.program for each in seen} == {program}
    assert len({each.call_id for each in seen}) == 1


async def test_a_program_that_waits_for_an_answer_is_watched_to_its_end() -> None:
    seen: list[Any] = []
    ledger: list[str] = []
    async with LinuxCodeActProvider(
        tools=payment_tools(ledger), approval_style="nested", on_event=lambda told: seen.append(type(told.event))
    ) as provider:
        talk = Conversation(provider, [code("pay('a')")], ["done"])
        asked = await talk.say("go")
        assert ApprovalRequested in seen and Completed not in seen
        await talk.say(answers(asked))
    assert seen[-1] is Completed


async def test_a_watcher_that_fails_ends_no_program(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: ProgramEvent) -> None:
        raise RuntimeError("the page was closed")

    with caplog.at_level(logging.ERROR, "actbox"):
        async with LinuxCodeActProvider(on_event=fail) as provider:
            client = await run_program(provider, "print('still here')")
    assert "still here" in client.read()
    assert "on_event failed at the event Completed" in caplog.text


async def test_a_tool_that_stands_alone_is_watched_too() -> None:
    seen: list[ProgramEvent] = []
    async with LinuxExecuteCodeTool(on_event=seen.append) as tool:
        client = ScriptedClient([code("print(1)")], ["done"])
        await agent_of(client, tools=[tool]).run("go")
    assert isinstance(seen[-1].event, Completed)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidValue, match="on_event is a function"):
        LinuxCodeActProvider(on_event="print")  # type: ignore[arg-type]
