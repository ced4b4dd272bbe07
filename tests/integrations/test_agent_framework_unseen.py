"""What a program did whose question nobody answered in time is told to the model in the next turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.clock import Clock
from tests.integrations.af_payments import Conversation, Ledger, payment_tools, until_nothing_waits
from tests.integrations.af_scripted import answers, code

PROGRAM = "look('a')\ntry:\n    pay('b')\nexcept ToolError as error:\n    print('was told:', error)\nlook('c')"


@pytest.fixture
def ledger() -> Ledger:
    return []


@pytest.fixture(params=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


def nested(ledger: Ledger) -> Any:
    return LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested", approval_timeout=300)


async def test_the_model_reads_of_it_in_the_next_turns_and_after_a_restart(
    ledger: Ledger, streams: bool, clock: Clock
) -> None:
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, [code(PROGRAM)], ["second"], ["third"], streams=streams)
        await talk.say("go")
        await until_nothing_waits(codeact, clock)
        for said in ("second", "third"):
            assert (await talk.say("go on")).text == said
            last = talk.client.messages[-1][-1]
            assert last.role == "user"
            for part in ("nobody gave in time", "was told: the call of 'pay' was not approved in time", 'look({"name"'):
                assert part in last.text
        assert talk.session is not None
        kept = json.loads(json.dumps(talk.session.to_dict()))
    assert "nobody gave in time" not in json.dumps(kept["state"]["in_memory"])
    async with nested(ledger) as codeact:
        later = Conversation(codeact, ["fourth"], streams=streams)
        later.session = AgentSession.from_dict(kept)
        await later.say("and on")
    assert "nobody gave in time" in later.client.messages[-1][-1].text
    assert ledger == ["looked at a", "looked at c"]


async def test_an_answer_that_comes_then_is_told_what_was_done_and_nothing_runs_again(
    ledger: Ledger, clock: Clock
) -> None:
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, [code(PROGRAM)], ["second"], ["third"], ["fourth"])
        asked = await talk.say("go")
        await until_nothing_waits(codeact, clock)
        await talk.say("go on")
        await talk.say(answers(asked))
        assert "nothing was run again" in talk.client.read()
        assert "nobody gave in time" not in talk.client.messages[-1][-1].text
        await talk.say("and on")
    assert "nobody gave in time" not in str([message.text for message in talk.client.messages[-1]])
    assert ledger == ["looked at a", "looked at c"]


async def test_a_refusal_that_comes_then_leaves_the_model_with_what_was_done(ledger: Ledger, clock: Clock) -> None:
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, [code(PROGRAM)], ["second"], ["third"], ["fourth"])
        asked = await talk.say("go")
        await until_nothing_waits(codeact, clock)
        await talk.say("go on")
        await talk.say(answers(asked, approved=False))
        for _ in range(2):
            for part in ("rejected", "nobody gave in time", 'look({"name"'):
                assert part in talk.client.read()
            assert "nobody gave in time" not in str([message.text for message in talk.client.messages[-1]])
            if len(talk.client.messages) == 3:
                await talk.say("and on")


async def test_a_refusal_that_comes_first_does_not_say_that_the_program_was_told_of_it(
    ledger: Ledger, clock: Clock
) -> None:
    async with nested(ledger) as codeact:
        talk = Conversation(codeact, [code(PROGRAM)], ["second"])
        asked = await talk.say("go")
        await until_nothing_waits(codeact, clock)
        await talk.say(answers(asked, approved=False))
    assert "told that its call was not approved" in talk.client.read()
    assert "was not approved in time" in talk.client.read()
    assert "told of the refusal" not in talk.client.read()
