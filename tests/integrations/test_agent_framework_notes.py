"""What the model is told of changed tools: at the end of a request, whatever keeps the history, and never kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
)

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_payments import Conversation, payment_tools
from tests.integrations.af_scripted import ScriptedClient, agent_of, answers, code

NOTE = "The tools have changed since they were listed."


def more(number: int) -> FunctionTool:
    return FunctionTool(name=f"more_{number}", description="", func=lambda: number)


def texts(messages: list[Message]) -> list[str]:
    """Return each content of a request as text, in order."""
    return [
        json.dumps([message.role, content.type, content.call_id, content.text or str(content.result or "")])
        for message in messages
        for content in message.contents
    ]


def check_order(client: ScriptedClient, *, noted: int) -> None:
    """Check all requests: from number `noted` on the note is last; without it, each begins with all of the one before.

    A call stands right before its results. System prompt and description are the same in all of them.
    """
    before: list[str] = []
    for number, messages in enumerate(client.messages):
        sent = texts(messages)
        assert [NOTE in text for text in sent] == [False] * (len(sent) - 1) + [number >= noted], sent
        if number >= noted:
            assert messages[-1].role == "user"
            sent.pop()
        assert sent[: len(before)] == before
        before = sent
        kinds = [content.type for message in messages for content in message.contents]
        for at, kind in enumerate(kinds):
            if kind == "function_result":
                assert kinds[at - 1] in ("function_call", "function_result")
    assert len({options["instructions"] for options in client.options}) == 1
    assert len({client.tool(turn=turn).description for turn in range(len(client.options))}) == 1


def histories(kind: str, codeact: LinuxCodeActProvider) -> list[Any]:
    """Return the providers of an agent by where its history is."""
    keeps_all = InMemoryHistoryProvider(store_context_messages=True)
    return {
        "by itself": [codeact],
        "before": [InMemoryHistoryProvider(), codeact],
        "after": [codeact, InMemoryHistoryProvider()],
        "keeps all": [codeact, keeps_all],
    }[kind]


@pytest.mark.parametrize("history", ["by itself", "before", "after", "keeps all"])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_the_note_is_the_last_message_and_all_before_stays_as_it_is(history: str, streams: bool) -> None:
    turns: list[Any] = [[code("1")], ["one"], [code("2", "call-2")], ["two"], [code("3", "call-3")], ["three"]]
    async with LinuxCodeActProvider(tools=payment_tools([])[1:], search_above=0) as codeact:
        talk = Conversation(codeact, *turns, streams=streams)
        talk.agent = agent_of(talk.client, *histories(history, codeact))
        await talk.say("go")
        codeact.add_tools(more(1))
        await talk.say("go on")
        codeact.add_tools(more(2))
        await talk.say("and on")
        check_order(talk.client, noted=2)
        assert "more_2" in talk.client.messages[-1][-1].text
        assert talk.session is not None
        kept = AgentSession.from_dict(json.loads(json.dumps(talk.session.to_dict())))
        assert NOTE not in json.dumps(kept.to_dict())
        later = Conversation(codeact, ["later"], streams=streams)
        later.agent, later.session = agent_of(later.client, *histories(history, codeact)), kept
        await later.say("again")
    talk.client.messages.append(later.client.messages[0])
    talk.client.options.append(later.client.options[0])
    check_order(talk.client, noted=2)


@pytest.mark.parametrize("history", ["by itself", "before", "after", "keeps all"])
@pytest.mark.parametrize("style", ["bundled", "inspected", "nested"])
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "refused"])
async def test_a_question_that_is_answered_after_the_tools_have_changed_keeps_the_order(
    history: str, style: Any, approved: bool
) -> None:
    turns: list[Any] = [[code("pay('a')")], ["paid"], ["later"]]
    async with LinuxCodeActProvider(tools=payment_tools([]), search_above=0, approval_style=style) as codeact:
        talk = Conversation(codeact, *turns)
        talk.agent = agent_of(talk.client, *histories(history, codeact))
        asked = await talk.say("go")
        codeact.add_tools(more(1))
        assert (await talk.say(answers(asked, approved=approved))).text == "paid"
        await talk.say("go on")
    check_order(talk.client, noted=1)
    (result,) = talk.client.results()
    assert ("rejected" in str(result.result)) is not approved
    assert ("had begun" in str(result.result)) is (style == "nested" and not approved)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_a_service_that_keeps_the_history_is_sent_a_note_once_and_another_when_it_is_new(streams: bool) -> None:
    turns: list[Any] = [["one"], [code("2", "call-2")], ["two"], ["three"], ["four"], ["five"]]
    async with LinuxCodeActProvider(tools=payment_tools([])[1:], search_above=0) as codeact:
        talk = Conversation(codeact, *turns, streams=streams, keeps_history=True)
        await talk.say("go")
        codeact.add_tools(more(1))
        await talk.say("go on")
        await talk.say("and on")
        codeact.add_tools(more(2))
        await talk.say("and on")
        assert talk.session is not None
        assert talk.session.service_session_id == "answer-5"
        talk.session = AgentSession.from_dict(json.loads(json.dumps(talk.session.to_dict())))
        talk.session.service_session_id = None  # the user begins anew there
        await talk.say("and on")
    sent = [[text for text in texts(messages) if NOTE in text] for messages in talk.client.messages]
    assert [len(notes) for notes in sent] == [0, 1, 0, 0, 1, 1]
    assert all(len(messages) <= 2 for messages in talk.client.messages)
    assert "more_2" in sent[4][0]


class NoMiddleware(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc, type-arg]
    """A chat client that calls no chat middleware."""

    async def _inner_get_response(self, **request: Any) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", ["said"])])


async def test_a_client_that_calls_no_middleware_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with LinuxCodeActProvider(tools=payment_tools([])) as codeact:
        assert (await Conversation(codeact, ["said"]).say("go")).text == "said"
        assert not [record for record in caplog.records if record.name == "actbox"]
        agent = Agent(client=NoMiddleware(), context_providers=[codeact])
        for _ in range(2):
            assert (await agent.run("go")).text == "said"
    (warning,) = [record for record in caplog.records if record.name == "actbox"]
    assert "NoMiddleware calls no chat middleware" in warning.getMessage()
