"""A program that had begun and whose run is gone: the model is told, be the answer no, or none, or yes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_payments import Conversation, Ledger, payment_tools
from tests.integrations.af_scripted import answers, code

PROGRAM = "look('a')\npay('b')\nlook('c')"
GONE = "What it had done stays done; more than this is not known of it here"


def nested(ledger: Ledger) -> Any:
    return LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested")


async def asked_before_a_restart(ledger: Ledger) -> tuple[Any, AgentSession]:
    """Return a question of a program that had begun, and the session as it was stored."""
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, [code(PROGRAM)])
        asked = await talk.say("go")
        assert talk.session is not None
        return asked, AgentSession.from_dict(json.loads(json.dumps(talk.session.to_dict())))


def said(talk: Conversation) -> str:
    return str([message.text for message in talk.client.messages[-1]])


async def test_a_refusal_after_a_restart_tells_that_the_program_had_begun() -> None:
    ledger: Ledger = []
    asked, session = await asked_before_a_restart(ledger)
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, ["refused"], ["later"])
        talk.session = session
        await talk.say(answers(asked, approved=False))
        for _ in range(2):
            for part in ("rejected", "could not be told of the refusal", GONE, "nothing was run again"):
                assert part in talk.client.read()
            assert GONE not in said(talk)
            if len(talk.client.messages) == 1:
                await talk.say("more")
    assert ledger == ["looked at a"]


@pytest.mark.parametrize("approved", [True, False], ids=["approved", "refused"])
async def test_going_on_without_an_answer_after_a_restart_tells_it_once(approved: bool) -> None:
    ledger: Ledger = []
    asked, session = await asked_before_a_restart(ledger)
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, ["second"], ["third"], ["answered"], ["after"])
        talk.session = session
        for text in ("never mind", "and on"):
            await talk.say(text)
            assert talk.client.messages[-1][-1].text.count(GONE) == 1
        await talk.say(answers(asked, approved=approved))
        assert "nothing was run again" in talk.client.read()
        assert GONE not in said(talk)
        await talk.say("after")
        assert GONE not in said(talk)
    assert ledger == ["looked at a"]


def test_in_another_event_loop_the_calls_that_it_had_made_are_told() -> None:
    for approved in (None, False):
        ledger: Ledger = []
        codeact = nested(ledger)
        talk = Conversation(codeact, [code(PROGRAM)], ["later"])
        asked = asyncio.run(talk.say("go"))
        asyncio.run(talk.say("never mind" if approved is None else answers(asked, approved=approved)))
        told = talk.client.messages[-1][-1].text if approved is None else talk.client.read()
        assert GONE in told
        assert 'look({"name"' in told
        assert ledger == ["looked at a"]
        asyncio.run(codeact.close())


async def test_a_question_that_still_waits_is_not_told_as_gone() -> None:
    ledger: Ledger = []
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, [code(PROGRAM)], ["second"], ["done"])
        asked = await talk.say("go")
        await talk.say("never mind")
        assert GONE not in said(talk)
        await talk.say(answers(asked))
    assert ledger == ["looked at a", "paid b 1", "looked at c"]
