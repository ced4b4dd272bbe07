"""After a nested refusal the model knows what had happened: in this run, in later ones, and after a restart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession, Message

from actbox.integrations.agent_framework import LinuxCodeActProvider
from actbox.integrations.agent_framework.notes import MOST_CHARACTERS, MOST_KEPT
from tests.integrations.af_payments import Conversation, Ledger, payment_tools
from tests.integrations.af_scripted import ScriptedClient, answers, code

PROGRAM = """
pay('a')
try:
    pay('b')
except ToolError as error:
    print('was told:', error)
look('c')
"""


@pytest.fixture
def ledger() -> Ledger:
    return []


@pytest.fixture(params=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


@pytest_asyncio.fixture
async def nested(ledger: Ledger) -> AsyncIterator[LinuxCodeActProvider]:
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested") as provider:
        yield provider


async def refused(talk: Conversation) -> None:
    """Have a program begin, approve its first call, and refuse its second."""
    first = await talk.say("go")
    second = await talk.say(answers(first))
    assert (await talk.say(answers(second, approved=False))).text == "refused"


async def test_the_model_reads_of_the_calls_of_a_program_that_ended_well(nested: LinuxCodeActProvider) -> None:
    program = "look('a')\ntry:\n    pay('b')\nexcept ToolError:\n    pass"
    talk = Conversation(nested, [code(program)], ["refused"])
    await talk.say(answers(await talk.say("go"), approved=False))
    assert 'look({"name"' in talk.client.read()
    assert "its call was not approved" in talk.client.read()


def check(client: ScriptedClient) -> None:
    """Check what the client was sent: the call, and right after it that it was rejected and what it had done."""
    messages: list[Message] = client.messages[-1]
    kinds = [content.type for message in messages for content in message.contents]
    at = kinds.index("function_result")
    assert kinds[at - 1] == "function_call"
    (result,) = client.results()
    for said in ("rejected", "was told: the call of 'pay' was refused", "c is fine", "had begun"):
        assert said in str(result.result)
    assert str(result.result) in [item.text for item in result.items or []]
    assert "had begun" not in "".join(message.text for message in messages)  # nor anywhere else


async def test_the_model_reads_it_where_it_reads_of_the_refusal_now_and_later(
    nested: LinuxCodeActProvider, ledger: Ledger, streams: bool
) -> None:
    talk = Conversation(nested, [code(PROGRAM)], ["refused"], ["later"], ["at last"], streams=streams)
    await refused(talk)
    check(talk.client)
    assert ledger == ["paid a 1", "looked at c"]
    for said in ("later", "at last"):
        assert (await talk.say("more")).text == said
        check(talk.client)
    assert len(ledger) == 2


async def test_the_model_reads_it_after_the_session_was_stored(ledger: Ledger, streams: bool) -> None:
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested") as provider:
        talk = Conversation(provider, [code(PROGRAM)], ["refused"], streams=streams)
        await refused(talk)
    assert talk.session is not None
    kept = json.loads(json.dumps(talk.session.to_dict()))
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested") as provider:
        later = Conversation(provider, ["later"], streams=streams)
        later.session = AgentSession.from_dict(kept)
        assert (await later.say("more")).text == "later"
    check(later.client)


async def test_the_history_keeps_the_frameworks_own_words(nested: LinuxCodeActProvider) -> None:
    talk = Conversation(nested, [code(PROGRAM)], ["refused"], ["later"])
    await refused(talk)
    await talk.say("more")
    assert talk.session is not None
    assert "had begun" not in json.dumps(talk.session.state["in_memory"], default=lambda value: value.to_dict())


@pytest.mark.slow
async def test_each_of_two_calls_with_one_call_id_has_its_own(nested: LinuxCodeActProvider) -> None:
    turns: list[Any] = [[code(f"print('one')\npay('{name}')")] for name in "ab"]
    talk = Conversation(nested, turns[0], ["refused"], turns[1], ["refused"])
    for _ in turns:
        await talk.say(answers(await talk.say("go"), approved=False))
    one, other = (str(result.result) for result in talk.client.results())
    assert "pay('a')" in one and "pay('b')" not in one
    assert "pay('b')" in other and "pay('a')" not in other


async def test_what_the_state_keeps_of_refusals_is_bounded(nested: LinuxCodeActProvider) -> None:
    program = "print('x' * 10000)\npay('a')"
    turns: list[Any] = []
    for _ in range(2):
        turns += [[code(program)], ["refused"]]
    talk = Conversation(nested, *turns)
    assert talk.session is not None
    state = talk.session.state.setdefault("linux_codeact", {})
    state["refused"] = {str(n): {"call_id": "", "text": ""} for n in range(MOST_KEPT)}
    await talk.say(answers(await talk.say("go"), approved=False))
    kept = talk.session.state["linux_codeact"]["refused"]
    assert len(kept) == MOST_KEPT
    assert "0" not in kept
    assert len(list(kept.values())[-1]["text"]) <= MOST_CHARACTERS + 300


async def test_files_of_a_refused_program_are_named_and_can_be_read_later(ledger: Ledger) -> None:
    write = "open('/output/report.txt', 'w').write('half')\npay('a')"
    read = "print(open('/output/report.txt').read())"
    tools = payment_tools(ledger)
    async with LinuxCodeActProvider(tools=tools, approval_style="nested", file_surface=True) as provider:
        talk = Conversation(provider, [code(write)], ["refused"], [code(read, "call-2")], ["read"])
        await talk.say(answers(await talk.say("go"), approved=False))
        assert "did not come back with this answer: /output/report.txt. They are there" in talk.client.read()
        await talk.say("read it")
    assert "half" in talk.client.read()
