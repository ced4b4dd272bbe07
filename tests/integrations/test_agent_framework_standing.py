"""A standing approval covers the calls that were shown and no other: the framework's own middleware and harness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import (
    AgentSession,
    Content,
    FunctionTool,
    Message,
    ToolApprovalMiddleware,
    create_always_approve_tool_response,
    create_always_approve_tool_with_arguments_response,
    create_harness_agent,
)
from pydantic import BaseModel, Field, SecretStr

from actbox import tool
from actbox.integrations.agent_framework import LinuxCodeActProvider
from actbox.integrations.agent_framework.question_forms import MOST_SHOWN
from tests.integrations.af_scripted import ScriptedClient, agent_of, code

Done = list[str]

PROGRAM = "refund(1)\nrefund(1)\nrefund(999999)\ndelete_db('prod')"


@pytest.fixture
def done() -> Done:
    return []


@pytest.fixture
def tools(done: Done) -> list[FunctionTool]:
    def refund(order: int, note: str = "") -> None:
        done.append(f"refunded {order} {note[-3:]}".strip())

    def delete_db(name: str) -> None:
        done.append(f"deleted {name}")

    return [
        FunctionTool(name=function.__name__, description="…", func=function, approval_mode="always_require")
        for function in (refund, delete_db)
    ]


@pytest_asyncio.fixture
async def codeact(tools: list[FunctionTool]) -> AsyncIterator[LinuxCodeActProvider]:
    async with LinuxCodeActProvider(tools=tools, approval_style="nested") as provider:
        yield provider


@pytest.fixture(params=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


class Chat:
    """A conversation with an agent that has the framework's middleware for standing approvals, or is its harness."""

    def __init__(self, agent: Any, *, streams: bool = False) -> None:
        self.agent = agent
        self.session = AgentSession()
        self.streams = streams
        self.response: Any = None

    @classmethod
    def of(cls, provider: Any, *turns: Any, streams: bool = False, **given: Any) -> Chat:
        middleware = [ToolApprovalMiddleware(**given)]
        return cls(agent_of(ScriptedClient(*turns), provider, middleware=middleware), streams=streams)

    async def say(self, message: Any) -> None:
        if not self.streams:
            self.response = await self.agent.run(message, session=self.session)
            return
        stream = self.agent.run(message, session=self.session, stream=True)
        async for _ in stream:
            pass
        self.response = await stream.get_final_response()

    async def answer(self, content: Content) -> None:
        await self.say(Message("user", [content]))

    @property
    def asked(self) -> Content:
        (request,) = self.response.user_input_requests
        assert isinstance(request, Content)
        return request

    @property
    def call(self) -> tuple[str, Any]:
        call = self.asked.function_call
        assert call is not None
        return str(call.name), call.parse_arguments()


@pytest.mark.slow
async def test_always_with_these_arguments_covers_no_other_call(
    codeact: LinuxCodeActProvider, done: Done, streams: bool
) -> None:
    chat = Chat.of(codeact, [code(PROGRAM)], ["done"], streams=streams)
    await chat.say("go")
    await chat.answer(create_always_approve_tool_with_arguments_response(chat.asked))
    assert done == ["refunded 1", "refunded 1"]
    assert chat.call == ("refund", {"order": 999999, "note": ""})
    await chat.answer(chat.asked.to_function_approval_response(True))
    assert chat.call == ("delete_db", {"name": "prod"})
    await chat.answer(chat.asked.to_function_approval_response(False))
    assert done == ["refunded 1", "refunded 1", "refunded 999999"]
    assert chat.response.text == "done"


@pytest.mark.slow
async def test_always_this_tool_covers_no_other_tool(codeact: LinuxCodeActProvider, done: Done, streams: bool) -> None:
    chat = Chat.of(codeact, [code(PROGRAM)], [code("refund(2)\ndelete_db('test')", "call-2")], streams=streams)
    await chat.say("go")
    await chat.answer(create_always_approve_tool_response(chat.asked))
    assert chat.call == ("delete_db", {"name": "prod"})
    assert done == ["refunded 1", "refunded 1", "refunded 999999"]
    await chat.answer(chat.asked.to_function_approval_response(True))
    assert done[3:] == ["deleted prod", "refunded 2"]
    assert chat.call == ("delete_db", {"name": "test"})


async def test_rules_of_the_host_are_asked_about_the_call_of_the_program(
    codeact: LinuxCodeActProvider, done: Done, streams: bool
) -> None:
    def small(call: Content) -> bool:
        return call.name == "refund" and (call.parse_arguments() or {})["order"] < 10

    chat = Chat.of(codeact, [code(PROGRAM)], ["done"], streams=streams, auto_approval_rules=[small])
    await chat.say("go")
    assert done == ["refunded 1", "refunded 1"]
    assert chat.call == ("refund", {"order": 999999, "note": ""})


async def test_arguments_that_are_too_long_to_be_shown_are_told_apart(
    codeact: LinuxCodeActProvider, done: Done
) -> None:
    program = f"for part in 'ab':\n    refund(1, note='x' * {MOST_SHOWN} + part + 'x' * {MOST_SHOWN} + 'end')"
    chat = Chat.of(codeact, [code(program)], ["done"])
    await chat.say("go")
    first = chat.call
    await chat.answer(create_always_approve_tool_with_arguments_response(chat.asked))
    assert done == ["refunded 1 end"]
    assert chat.call != first
    assert len(chat.call[1]["note"]) < 2 * MOST_SHOWN


@pytest.mark.slow
@pytest.mark.parametrize("style", ["bundled", "inspected"])
async def test_an_approved_program_covers_no_other_program(
    tools: list[FunctionTool], done: Done, style: Any, streams: bool
) -> None:
    async with LinuxCodeActProvider(tools=tools, approval_style=style) as provider:
        turns = [code("refund(1)")], [code("refund(1)", "call-2")], [code("refund(2)", "call-3")]
        chat = Chat.of(provider, *turns, streams=streams)
        await chat.say("go")
        assert chat.call == ("execute_code", {"code": "refund(1)"})
        await chat.answer(create_always_approve_tool_with_arguments_response(chat.asked))
        assert done == ["refunded 1", "refunded 1"]
        assert chat.call == ("execute_code", {"code": "refund(2)"})


@pytest.mark.slow
async def test_what_is_approved_of_a_whole_program_says_nothing_of_its_calls(
    tools: list[FunctionTool], done: Done
) -> None:
    provider = LinuxCodeActProvider(tools=tools, approval_style="nested", approval_mode="always_require")
    async with provider:
        chat = Chat.of(provider, [code("refund(1)")], [code("refund(2)", "call-2")])
        await chat.say("go")
        await chat.answer(create_always_approve_tool_response(chat.asked))
        assert chat.call == ("refund", {"order": 1, "note": ""})
        await chat.answer(chat.asked.to_function_approval_response(True))
        assert done == ["refunded 1"]
        assert chat.call == ("refund", {"order": 2, "note": ""})


async def test_a_tool_of_the_agent_with_the_same_name_is_not_called_in_place_of_the_programs(
    codeact: LinuxCodeActProvider, done: Done
) -> None:
    def refund(order: int, note: str = "") -> None:
        done.append(f"the agent's own refund of {order}")

    own = FunctionTool(name="refund", description="…", func=refund, approval_mode="always_require")
    client = ScriptedClient([code("refund(1)")], ["done"])
    chat = Chat(agent_of(client, codeact, middleware=[ToolApprovalMiddleware()], tools=[own]))
    await chat.say("go")
    await chat.answer(chat.asked.to_function_approval_response(True))
    assert done == ["refunded 1"]
    assert chat.response.text == "done"


@pytest.mark.slow
async def test_the_frameworks_harness_agent_asks_about_each_call(
    codeact: LinuxCodeActProvider, done: Done, streams: bool
) -> None:
    client = ScriptedClient([code(PROGRAM)], ["done"])
    agent = create_harness_agent(
        client,  # type: ignore[arg-type]
        context_providers=[codeact],
        disable_web_search=True,
        disable_file_memory=True,  # it is experimental, and warns
    )
    chat = Chat(agent, streams=streams)
    await chat.say("go")
    assert chat.call == ("refund", {"order": 1, "note": ""})
    await chat.answer(create_always_approve_tool_with_arguments_response(chat.asked))
    assert done == ["refunded 1", "refunded 1"]
    assert chat.call == ("refund", {"order": 999999, "note": ""})
    await chat.answer(chat.asked.to_function_approval_response(True))
    await chat.answer(chat.asked.to_function_approval_response(True))
    assert done[2:] == ["refunded 999999", "deleted prod"]
    assert chat.response.text == "done"


@pytest.mark.slow
async def test_questions_that_stay_open_are_kept_beside_a_further_one(
    codeact: LinuxCodeActProvider, done: Done, streams: bool
) -> None:
    both = [code("refund(1)\nrefund(2)", "call-1"), code("delete_db('prod')", "call-2")]
    client = ScriptedClient(both, ["one"], ["two"])
    chat = Chat(agent_of(client, codeact), streams=streams)
    await chat.say("go")
    refund, delete = chat.response.user_input_requests
    await chat.answer(refund.to_function_approval_response(True))
    assert done == ["refunded 1"]
    further = chat.response.user_input_requests[0]
    await chat.answer(further.to_function_approval_response(True))
    await chat.answer(delete.to_function_approval_response(True))
    assert done == ["refunded 1", "refunded 2", "deleted prod"]


class Pay(BaseModel):
    who: str
    amount: int = Field(1, exclude=True)


async def test_what_a_type_hides_is_part_of_what_is_approved_with_these_arguments() -> None:
    paid: list[int] = []

    @tool(approval="always_require")
    def pay(p: Pay) -> None:
        """Pay somebody."""
        paid.append(p.amount)

    program = "pay({'who': 'bob', 'amount': 7})\n" * 2 + "pay({'who': 'bob', 'amount': 999999})"
    async with LinuxCodeActProvider(tools=[pay], approval_style="nested") as codeact:
        chat = Chat.of(codeact, [code(program)], ["done"])
        await chat.say("go")
        name, arguments = chat.call
        assert (name, arguments.pop("p")) == ("pay", {"who": "bob"})
        ((title, digest),) = arguments.items()
        assert title == "p (a part may be hidden)"
        await chat.answer(create_always_approve_tool_with_arguments_response(chat.asked))
        assert paid == [7, 7]
        assert chat.call[1][title] != digest
        await chat.answer(chat.asked.to_function_approval_response(False))
    assert paid == [7, 7]


async def test_a_secret_of_a_tool_of_the_framework_is_part_of_what_is_approved() -> None:
    used: list[str] = []

    def use(key: SecretStr) -> None:
        used.append(key.get_secret_value())

    using = FunctionTool(name="use", description="…", func=use, approval_mode="always_require")
    async with LinuxCodeActProvider(tools=[using], approval_style="nested") as codeact:
        chat = Chat.of(codeact, [code("use('a')\nuse('a')\nuse('b')")], ["done"])
        await chat.say("go")
        await chat.answer(create_always_approve_tool_with_arguments_response(chat.asked))
        assert used == ["a", "a"]
        assert chat.call[0] == "use"


async def test_two_names_that_would_be_spelt_alike_are_never_one_in_a_question(done: Done) -> None:
    def pay(amounts: dict[str, Any]) -> None:
        done.append(str(len(amounts)))

    paying = FunctionTool(name="pay", description="…", func=pay, approval_mode="always_require")
    async with LinuxCodeActProvider(tools=[paying], approval_style="nested") as codeact:
        chat = Chat.of(codeact, [code(r"pay({'\ud800': 999999, '\\ud800': 1})")], ["done"])
        await chat.say("go")
        assert not chat.response.user_input_requests
    assert done == []
