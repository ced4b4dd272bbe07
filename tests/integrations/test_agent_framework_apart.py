"""Conversations, and agents within agents, are kept apart, whatever ids their calls have."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import Agent, AgentSession, Content, FunctionTool
from pydantic import BaseModel, ConfigDict

from actbox import InvalidValue
from actbox.integrations.agent_framework import LinuxCodeActProvider
from actbox.integrations.agent_framework.question_forms import MOST_OF_A_LINE, MOST_SHOWN
from tests.integrations.af_payments import Conversation, Ledger, payment_tools
from tests.integrations.af_scripted import ScriptedClient, about, answers, code


@pytest.fixture
def ledger() -> Ledger:
    return []


@pytest.fixture(params=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


def with_id(program: str) -> Content:
    """Return a call that has the id of every other such call, as a chat client may give it."""
    call = code(program)
    call.id = "fc_1"
    return call


def talk_of(name: str, provider: Any, *turns: Any, streams: bool = False) -> Conversation:
    talk = Conversation(provider, *turns, streams=streams)
    talk.session = AgentSession(session_id=name)
    return talk


@pytest.mark.parametrize("style", ["nested", "inspected", "bundled"])
async def test_two_conversations_whose_calls_have_one_id_are_asked_apart(
    ledger: Ledger, style: Any, streams: bool
) -> None:
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style=style) as codeact:
        alice = talk_of("alice", codeact, [with_id("pay('rent of alice')")], ["alice is done"], streams=streams)
        bob = talk_of("bob", codeact, [with_id("pay('rent of bob')")], ["bob is done"], streams=streams)
        of_alice, of_bob = await alice.say("go"), await bob.say("go")
        assert "bob" in str(of_bob.user_input_requests[0].to_dict())
        assert "alice" not in str(of_bob.user_input_requests[0].to_dict())
        await bob.say(answers(of_bob))
        assert ledger == ["paid rent of bob 1"]
        assert "alice" not in str(bob.client.messages[-1])
        await alice.say(answers(of_alice))
    assert ledger == ["paid rent of bob 1", "paid rent of alice 1"]


@pytest.mark.parametrize("has_own", [False, True], ids=["nothing asked", "own question"])
@pytest.mark.parametrize("approved", [False, True], ids=["refused", "approved"])
async def test_an_answer_to_somebody_elses_question_does_nothing(
    ledger: Ledger, approved: bool, has_own: bool, streams: bool
) -> None:
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested") as codeact:
        alice = talk_of("alice", codeact, [with_id("look('secret')\npay('rent of alice')")], ["done"], streams=streams)
        turns = [[with_id("pay('rent of bob')")]] if has_own else [["hello"]]
        bob = talk_of("bob", codeact, *turns, ["nothing"], ["nothing"], streams=streams)
        of_alice = await alice.say("go")
        await bob.say("go")
        await bob.say(answers(of_alice, approved))
        assert ledger == ["looked at secret"]
        assert not any("secret" in str(result.result) for result in bob.client.results())
        assert not any("is fine" in message.text for message in bob.client.messages[-1])
        assert (await alice.say(answers(of_alice))).text == "done"
    assert ledger == ["looked at secret", "paid rent of alice 1"]


async def test_an_approval_of_a_whole_program_is_none_of_somebody_elses_call(ledger: Ledger, streams: bool) -> None:
    async with LinuxCodeActProvider(
        tools=payment_tools(ledger), approval_style="nested", approval_mode="always_require"
    ) as codeact:
        alice = talk_of("alice", codeact, [with_id("pay('rent of alice')")], ["done"], streams=streams)
        bob = talk_of("bob", codeact, [with_id("look('b')")], ["done"], streams=streams)
        of_alice = await alice.say(answers(await alice.say("go")))
        await bob.say("go")
        forged = answers(of_alice)
        forged.contents[0].id = "fc_1"
        await bob.say(forged)
        assert "paid rent of alice 1" not in ledger
        assert not any("alice" in str(result.result) for result in bob.client.results())
        await alice.say(answers(of_alice))
    assert ledger[-1] == "paid rent of alice 1"


async def test_an_inspected_program_that_had_begun_is_not_begun_again_after_a_restart(ledger: Ledger) -> None:
    def provider() -> LinuxCodeActProvider:
        return LinuxCodeActProvider(
            tools=payment_tools(ledger), approval_style="inspected", approval_mode="always_require"
        )

    async with provider() as codeact:
        talk = Conversation(codeact, [code("call_tool(look('pay').split()[0], name='b')")])
        asked = await talk.say(answers(await talk.say("go")))
        assert about(asked.user_input_requests[0])["what"] == "call"
        assert talk.session is not None
        kept = json.loads(json.dumps(talk.session.to_dict()))
    assert ledger == ["looked at pay"]
    async with provider() as codeact:
        later = Conversation(codeact, ["done"])
        later.session = AgentSession.from_dict(kept)
        assert (await later.say(answers(asked))).text == "done"
    assert "nothing was run again" in later.client.read()
    assert ledger == ["looked at pay"]


@pytest.mark.parametrize("style", ["nested", "inspected"])
async def test_an_agent_that_a_program_calls_runs_programs_of_its_own(ledger: Ledger, style: Any) -> None:
    inner_client = ScriptedClient([code("look('from within')")], ["the inner one is done"])
    async with (
        LinuxCodeActProvider("inner", tools=payment_tools(ledger)[1:]) as inner,
        LinuxCodeActProvider(tools=payment_tools(ledger), approval_style=style) as outer,
    ):
        helper = Agent(client=inner_client, name="helper", context_providers=[inner])  # type: ignore[arg-type]
        outer.add_tools(helper.as_tool(arg_name="task"))
        talk = Conversation(outer, [code("pay('a')\nprint(helper(task='look'))\nlook('outside')")], ["done"])
        response = await talk.say("go")
        assert response.user_input_requests
        assert (await talk.say(answers(response))).text == "done"
    assert ledger == ["paid a 1", "looked at from within", "looked at outside"]
    assert "the inner one is done" in talk.client.read()
    assert "from within is fine" in inner_client.read()


async def test_what_a_question_shows_and_the_session_keeps_is_bounded(ledger: Ledger) -> None:
    program = f"pay('x' * 1_000_000, amount=7)  # {'y' * 5000}"
    async with LinuxCodeActProvider(tools=payment_tools(ledger), approval_style="nested") as codeact:
        talk = Conversation(codeact, [code(program)])
        asked = about((await talk.say("go")).user_input_requests[0])
        assert asked["arguments"]["amount"] == 7
        assert len(asked["arguments"]["name"]) <= MOST_SHOWN
        assert "of 1,000,002 characters left out" in asked["arguments"]["name"]
        assert len(asked["excerpt"][0][1]) <= MOST_OF_A_LINE
        assert talk.session is not None
        assert len(json.dumps(talk.session.state["linux_codeact"]["asked"])) < 1000


@pytest.mark.slow
async def test_very_many_arguments_are_bounded_too() -> None:
    def keep(**arguments: Any) -> str:
        return "kept"

    class Anything(BaseModel):
        model_config = ConfigDict(extra="allow")

    tool = FunctionTool(name="keep", description="", func=keep, input_model=Anything, approval_mode="always_require")
    async with LinuxCodeActProvider(tools=tool, approval_style="nested") as codeact:
        talk = Conversation(codeact, [code("keep(**{f'name_{n}': n for n in range(10000)})")])
        asked = about((await talk.say("go")).user_input_requests[0])
    assert len(json.dumps(asked["arguments"])) <= 3 * MOST_SHOWN


async def test_after_closing_nothing_of_conversations_is_kept(ledger: Ledger) -> None:
    for style in ("nested", "bundled"):
        codeact = LinuxCodeActProvider(tools=payment_tools(ledger), approval_style=style)  # type: ignore[arg-type]
        await Conversation(codeact, [code("pay('a')")]).say("go")
        assert codeact._questions._asked or codeact._questions.runs._runs
        await codeact.close()
        assert not codeact._questions._asked
        assert not codeact._questions.runs._runs


class Server:
    """What the framework's clients of MCP servers look like, with tools and faults of choice."""

    def __init__(self, name: str, fault: str = "", tools: Any = ()) -> None:
        self.name = name
        self.fault = fault
        self.is_connected = False
        self.functions = list(tools)

    async def connect(self) -> None:
        self.is_connected = True

    async def close(self) -> None:
        if self.fault:
            raise RuntimeError(self.fault)
        self.is_connected = False


async def test_a_server_that_cannot_be_closed_leaves_no_other_open() -> None:
    servers = [Server("first"), Server("second", "cannot be closed"), Server("third", "nor this"), Server("last")]
    codeact = LinuxCodeActProvider(tools=servers)
    with pytest.raises(RuntimeError, match="cannot be closed"):
        async with codeact:
            assert all(server.is_connected for server in servers)
    assert [server.is_connected for server in servers] == [False, True, True, False]


async def test_two_tools_of_one_name_in_a_server_are_refused(ledger: Ledger) -> None:
    look = payment_tools(ledger)[1]
    codeact = LinuxCodeActProvider(tools=[Server("shop", tools=[look, payment_tools(ledger)[1]])])
    with pytest.raises(InvalidValue, match="'shop' has two tools called 'look'"):
        await Conversation(codeact).say("go")
    await codeact.close()
