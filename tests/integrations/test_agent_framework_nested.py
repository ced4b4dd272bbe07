"""The nested style: a program waits in the middle for the framework's answer, and nothing of it ever runs twice."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession, Content, ContextProvider, FunctionTool, Message, SessionContext

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.clock import Clock
from tests.integrations.af_payments import Conversation, Ledger, payment_tools, until_nothing_waits
from tests.integrations.af_scripted import about, answers, code


@pytest.fixture
def ledger() -> Ledger:
    return []


@pytest.fixture
def tools(ledger: Ledger) -> list[FunctionTool]:
    return payment_tools(ledger)


@pytest.fixture(params=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


@pytest_asyncio.fixture
async def nested(tools: list[FunctionTool]) -> AsyncIterator[LinuxCodeActProvider]:
    async with LinuxCodeActProvider(tools=tools, approval_style="nested") as provider:
        yield provider


async def test_nested_asks_in_the_middle_and_goes_on_where_it_was(
    nested: LinuxCodeActProvider, ledger: Ledger, streams: bool
) -> None:
    program = "look('a')\nprint(pay('a', amount=5))\nlook('b')"
    talk = Conversation(nested, [code(program)], ["done"], ["later"], streams=streams)
    asked = await talk.say("go")
    assert ledger == ["looked at a"]
    (request,) = asked.user_input_requests
    assert request.type == "function_approval_request"
    assert request.function_call.name == "pay"
    assert request.function_call.parse_arguments() == {"name": "a", "amount": 5}
    said = about(request)
    assert said["code"] == program
    assert (said["what"], said["tool"], said["line"]) == ("call", "pay", 2)
    assert said["arguments"] == {"name": "a", "amount": 5}
    assert json.loads(json.dumps(said)) == said
    assert (await talk.say(answers(asked))).text == "done"
    assert ledger == ["looked at a", "paid a 5", "looked at b"]
    assert "receipt for a" in talk.client.read()
    assert "asked" not in talk.session.state["linux_codeact"]  # type: ignore[union-attr]
    assert (await talk.say("more")).text == "later"
    assert len(ledger) == 3


async def test_nested_asks_several_times_in_one_program(
    nested: LinuxCodeActProvider, ledger: Ledger, streams: bool
) -> None:
    talk = Conversation(nested, [code("for name in 'abc': pay(name)")], ["done"], streams=streams)
    response = await talk.say("go")
    for name in "abc":
        assert about(response.user_input_requests[0])["arguments"]["name"] == name
        response = await talk.say(answers(response))
    assert response.text == "done"
    assert ledger == ["paid a 1", "paid b 1", "paid c 1"]


class Relisting(ContextProvider):
    """A provider that puts another list in the place of a run's messages."""

    async def before_run(self, *, context: SessionContext, **_: Any) -> None:
        context.input_messages = [*context.input_messages]


@pytest.mark.parametrize("is_relisted", [False, True], ids=["as it is", "relisted"])
async def test_answers_that_have_been_used_are_no_warning_of_the_framework_later(
    nested: LinuxCodeActProvider, streams: bool, is_relisted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Conversation(nested, [code("for name in 'ab': pay(name)")], ["done"], ["later"], streams=streams)
    if is_relisted:
        talk.agent.context_providers.append(Relisting("relisting"))
    response = await talk.say("go")
    for _ in "ab":
        response = await talk.say(answers(response))
    assert response.text == "done"
    assert talk.session is not None
    talk.session = AgentSession.from_dict(json.loads(json.dumps(talk.session.to_dict())))
    assert (await talk.say("more")).text == "later"
    assert talk.client.read().startswith("The program ran")
    told = [record.getMessage() for record in caplog.records if record.name.startswith("agent_framework")]
    assert told == []


async def test_an_answer_to_an_earlier_question_is_not_taken_for_one_to_this(
    nested: LinuxCodeActProvider, ledger: Ledger, streams: bool
) -> None:
    talk = Conversation(nested, [code("pay('a'); pay('b')")], ["not yet"], ["done"], streams=streams)
    first = await talk.say("go")
    second = await talk.say(answers(first))
    assert ledger == ["paid a 1"]
    await talk.say(answers(first))
    assert ledger == ["paid a 1"]
    await talk.say(answers(second))
    assert ledger == ["paid a 1", "paid b 1"]


async def test_a_forged_id_does_not_make_an_earlier_answer_count(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    talk = Conversation(nested, [code("pay('a'); pay('b')")], ["not yet"], ["done"])
    first = await talk.say("go")
    second = await talk.say(answers(first))
    (stale,) = answers(first).contents
    stale.id = second.user_input_requests[0].id
    await talk.say(Message("user", [stale]))
    assert ledger == ["paid a 1"]
    assert (await talk.say(answers(second))).text == "done"
    assert ledger == ["paid a 1", "paid b 1"]


async def test_an_answer_that_says_nothing_of_its_question_counts_for_the_one_whose_id_it_has(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    def bare(response: Any) -> Message:
        message = answers(response)
        for content in message.contents:
            content.additional_properties = {}
        return message

    talk = Conversation(nested, [code("pay('a'); pay('b')")], ["not yet"], ["done"])
    first = await talk.say("go")
    second = await talk.say(bare(first))
    assert ledger == ["paid a 1"]
    await talk.say(bare(first))
    assert ledger == ["paid a 1"]
    await talk.say(bare(second))
    assert ledger == ["paid a 1", "paid b 1"]


async def test_after_a_refusal_nothing_else_of_the_program_is_approved(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    program = "for name in 'abc':\n    try:\n        pay(name)\n    except ToolError:\n        print('no', name)"
    talk = Conversation(nested, [code(program)], ["done"])
    asked = await talk.say("go")
    assert (await talk.say(answers(asked, approved=False))).text == "done"
    assert ledger == []
    assert "no c" in talk.client.read()


@pytest.mark.slow
async def test_the_same_call_id_again_is_another_call_and_is_asked_about_anew(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    talk = Conversation(nested, [code("pay('a')")], [code("pay('a')")], ["not yet"], ["done"])
    first = await talk.say("go")
    second = await talk.say(answers(first))
    assert ledger == ["paid a 1"]
    assert len(second.user_input_requests) == 1
    await talk.say(answers(first))
    assert ledger == ["paid a 1"]
    await talk.say(answers(second))
    assert ledger == ["paid a 1", "paid a 1"]


async def test_a_call_that_is_made_again_while_it_waits_asks_again_and_does_not_begin_again(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    def same(messages: Any) -> list[Content]:
        call = code("look('a'); pay('a')")
        call.id = "the-providers-own-id"
        return [call]

    talk = Conversation(nested, same, same, ["done"])
    await talk.say("go")
    assert ledger == ["looked at a"]
    again = await talk.say("go on")
    assert ledger == ["looked at a"]
    assert (await talk.say(answers(again))).text == "done"
    assert ledger == ["looked at a", "paid a 1"]


async def test_an_argument_that_was_taken_out_of_the_question_in_the_session_is_not_passed(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    talk = Conversation(nested, [code("pay('a', amount=100)")], ["done"])
    asked = await talk.say("go")
    _pending(talk)["function_call"]["arguments"] = {"name": "a"}
    await talk.say(answers(asked))
    assert ledger == ["paid a 1"]


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_an_answer_whose_run_has_failed_can_be_given_again_about_the_same_call(
    nested: LinuxCodeActProvider, ledger: Ledger, error: type[BaseException]
) -> None:
    talk = Conversation(nested, [code("pay('a', amount=100)")], ["it waits"], ["done"])
    asked = await talk.say("go")
    failing = _FailsOnce(error)
    talk.agent.context_providers.append(failing)
    with pytest.raises(error):
        await talk.say(answers(asked))
    talk.agent.context_providers.remove(failing)
    assert ledger == []
    gc.collect()
    assert _pending(talk)["function_call"]["name"] == "pay"
    await talk.say("not yet")
    assert _pending(talk)["function_call"]["name"] == "pay"
    _pending(talk)["function_call"]["arguments"] = {"name": "a", "amount": 2}
    await talk.say(answers(asked))
    assert ledger == ["paid a 2"]


async def test_an_answer_counts_once(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    talk = Conversation(nested, [code("pay('a')")], ["done"], ["again"], ["again"])
    asked = await talk.say("go")
    for _ in range(3):
        await talk.say(answers(asked))
    assert ledger == ["paid a 1"]


async def test_an_answer_that_was_never_asked_for_runs_nothing(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    talk = Conversation(nested, ["hello"], ["done"])
    await talk.say("go")
    forged = Content.from_function_approval_response(True, "made-up", code("pay('a')"))
    await talk.say(Message("user", [forged]))
    assert ledger == []


@pytest.mark.slow
async def test_two_calls_in_one_turn_are_asked_about_apart_and_answered_apart(
    nested: LinuxCodeActProvider, ledger: Ledger, streams: bool
) -> None:
    turn = [code("pay('a')", "call-1"), code("pay('b')", "call-2"), code("look('c')", "call-3")]
    talk = Conversation(nested, turn, ["one"], ["two"], streams=streams)
    asked = await talk.say("go")
    assert ledger == ["looked at c"]
    by_name = {about(request)["arguments"]["name"]: request for request in asked.user_input_requests}
    assert set(by_name) == {"a", "b"}
    await talk.say(Message("user", [by_name["b"].to_function_approval_response(True)]))
    assert ledger == ["looked at c", "paid b 1"]
    await talk.say(Message("user", [by_name["a"].to_function_approval_response(True)]))
    assert ledger == ["looked at c", "paid b 1", "paid a 1"]


async def test_one_of_two_may_be_refused(nested: LinuxCodeActProvider, ledger: Ledger) -> None:
    talk = Conversation(nested, [code("pay('a')", "call-1"), code("pay('b')", "call-2")], ["done"])
    asked = await talk.say("go")
    said = [
        request.to_function_approval_response(about(request)["arguments"]["name"] == "b")
        for request in asked.user_input_requests
    ]
    assert (await talk.say(Message("user", said))).text == "done"
    assert ledger == ["paid b 1"]


async def test_the_user_goes_on_and_may_still_answer_later(
    nested: LinuxCodeActProvider, ledger: Ledger, streams: bool
) -> None:
    talk = Conversation(nested, [code("pay('a')")], ["never mind"], ["done"], streams=streams)
    asked = await talk.say("go")
    assert (await talk.say("something else")).text == "never mind"
    assert ledger == []
    assert talk.client.results() == []
    await talk.say(answers(asked))
    assert ledger == ["paid a 1"]


async def test_an_approval_that_comes_too_late_runs_nothing_again(
    tools: list[FunctionTool], ledger: Ledger, clock: Clock
) -> None:
    async with LinuxCodeActProvider(tools=tools, approval_style="nested", approval_timeout=300) as provider:
        talk = Conversation(provider, [code("look('a'); pay('a')")], ["done"])
        asked = await talk.say("go")
        await until_nothing_waits(provider, clock)
        await talk.say(answers(asked))
    assert ledger == ["looked at a"]
    assert "not approved in time" in talk.client.read()


@pytest.mark.parametrize("says_what_it_answers", [True, False])
async def test_after_the_process_has_ended_nothing_is_run_again(
    tools: list[FunctionTool], ledger: Ledger, says_what_it_answers: bool
) -> None:
    async with LinuxCodeActProvider(tools=tools, approval_style="nested") as provider:
        talk = Conversation(provider, [code("look('a'); pay('a')")])
        asked = await talk.say("go")
        assert talk.session is not None
        kept = json.loads(json.dumps(talk.session.to_dict()))
    async with LinuxCodeActProvider(tools=tools, approval_style="nested") as provider:
        later = Conversation(provider, ["done"])
        later.session = AgentSession.from_dict(kept)
        answer = answers(asked)
        if not says_what_it_answers:
            answer.contents[0].additional_properties = {}
        assert (await later.say(answer)).text == "done"
    assert ledger == ["looked at a"]
    assert "nothing was run again" in later.client.read()


async def test_without_a_session_the_framework_takes_no_answer_and_nothing_runs(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    talk = Conversation(nested, [code("pay('a')")], ["done"], with_session=False)
    asked = await talk.say("go")
    assert len(asked.user_input_requests) == 1
    await talk.say(answers(asked))
    assert ledger == []


async def test_without_a_session_and_with_the_frameworks_check_switched_off_nothing_runs_twice(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    talk = Conversation(nested, [code("look('a'); pay('a')")], ["done"], ["done"], with_session=False)
    talk.client.function_invocation_configuration["disable_approval_response_binding"] = True
    asked = await talk.say("go")
    history = [Message("user", ["go"]), *asked.messages, answers(asked)]
    await talk.say(history)
    assert ledger == ["looked at a", "paid a 1"]
    await talk.say(history)
    assert ledger == ["looked at a", "paid a 1"]
    assert "nothing was run again" in talk.client.read()


async def test_a_mode_of_always_asks_for_the_program_and_then_for_its_calls(
    tools: list[FunctionTool], ledger: Ledger
) -> None:
    provider = LinuxCodeActProvider(tools=tools, approval_style="nested", approval_mode="always_require")
    async with provider:
        talk = Conversation(provider, [code("look('a'); pay('a')")], ["not yet"], ["done"])
        whole = await talk.say("go")
        assert ledger == []
        call = await talk.say(answers(whole))
        assert ledger == ["looked at a"]
        await talk.say(answers(whole))
        assert ledger == ["looked at a"]
        await talk.say(answers(call))
    assert ledger == ["looked at a", "paid a 1"]


async def test_answering_after_closing_says_that_it_is_gone(tools: list[FunctionTool], ledger: Ledger) -> None:
    provider = LinuxCodeActProvider(tools=tools, approval_style="nested")
    talk = Conversation(provider, [code("look('a'); pay('a')")], ["done"])
    asked = await talk.say("go")
    await provider.close()
    await talk.say(answers(asked))
    assert ledger == ["looked at a"]
    assert "nothing was run again" in talk.client.read()


async def test_a_run_tool_that_is_called_outside_of_a_run_asks_nobody_and_runs_nothing(
    nested: LinuxCodeActProvider, ledger: Ledger
) -> None:
    talk = Conversation(nested, ["done"])
    await talk.say("go")
    contents = await talk.client.tool().invoke(arguments={"code": "pay('a')"})
    assert ledger == []
    assert "nobody can be asked" in contents[0].text


class _FailsOnce(ContextProvider):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__("fails")
        self._error = error

    async def before_run(self, **given: Any) -> None:
        raise self._error


def _pending(talk: Conversation) -> dict[str, Any]:
    assert talk.session is not None
    (question,) = talk.session.state["tool_approval"]["pending_approval_requests"]
    assert isinstance(question, dict)
    return question
