"""Arguments of the framework's tools: made once by the framework's own model, shown as that, and passed as that."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Annotated, Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import FunctionTool
from pydantic import AfterValidator, BaseModel, ConfigDict

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_payments import Conversation
from tests.integrations.af_scripted import about, answers, code, run_program

Calls = list[Any]


def asking(function: Callable[..., Any], **given: Any) -> FunctionTool:
    return FunctionTool(name=function.__name__, description="", func=function, approval_mode="always_require", **given)


async def shown_and_passed(tool: FunctionTool, program: str) -> dict[str, Any]:
    """Return the arguments that somebody was shown before the call, which is then approved."""
    async with LinuxCodeActProvider(tools=tool, approval_style="nested") as codeact:
        talk = Conversation(codeact, [code(program)], ["done"])
        asked = await talk.say("go")
        (request,) = asked.user_input_requests
        assert (await talk.say(answers(asked))).text == "done"
    arguments: dict[str, Any] = about(request)["arguments"]
    return arguments


async def test_what_is_asked_about_is_what_the_tool_gets() -> None:
    calls: Calls = []

    def order(count: int, day: datetime.date, note: str | None = None, express: bool = False) -> str:
        calls.append((count, day, note, express))
        return "ordered"

    shown = await shown_and_passed(asking(order), "order('7', day='2026-01-02')")
    assert shown == {"count": 7, "day": "2026-01-02", "note": None, "express": False}
    assert calls == [(7, datetime.date(2026, 1, 2), None, False)]


converted: Calls = []


def taxed(amount: int) -> int:
    converted.append(amount)
    return amount * 2


def broken(value: int) -> int:
    raise RuntimeError("the list of rates is not there")


async def test_arguments_are_converted_once_also_where_somebody_is_asked() -> None:
    calls: Calls = []
    converted.clear()

    def pay(amount: Annotated[int, AfterValidator(taxed)], rounds: Annotated[int, AfterValidator(taxed)] = 1) -> str:
        calls.append((amount, rounds))
        return "paid"

    assert await shown_and_passed(asking(pay), "pay(5)") == {"amount": 10, "rounds": 1}
    assert calls == [(10, 1)]
    assert converted == [5]


async def test_defaults_of_a_json_schema_are_shown_and_passed() -> None:
    calls: Calls = []
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
    }

    def forecast(**arguments: Any) -> str:
        calls.append(arguments)
        return "sun"

    shown = await shown_and_passed(asking(forecast, input_model=schema), "forecast('Rome')")
    assert shown == {"city": "Rome", "days": 3} == calls[0]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("refund('many')", "Invalid arguments for 'refund'"),
        ("refund()", "Field required"),
        ("refund(1, reson='late')", "there is no argument 'reson'; did you mean 'reason'?"),
        ("lend(amount='many')", "Invalid type for 'amount' in 'lend'"),
        ("lend()", "Missing required argument"),
    ],
)
async def test_a_call_that_cannot_fit_asks_nobody(program: str, said: str) -> None:
    calls: Calls = []

    def refund(euros: int, reason: str = "") -> str:
        calls.append(euros)
        return "refunded"

    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    lend = FunctionTool(
        name="lend", description="", func=calls.append, input_model=schema, approval_mode="always_require"
    )
    async with LinuxCodeActProvider(tools=[asking(refund), lend], approval_style="nested") as codeact:
        client = await run_program(codeact, program)
    assert said in client.read()
    assert calls == []


async def test_a_name_that_the_tool_does_not_have_is_refused_and_told() -> None:
    calls: Calls = []

    def find(city: str, limit: int = 10) -> str:
        calls.append((city, limit))
        return "found"

    async with LinuxCodeActProvider(tools=find) as codeact:
        client = await run_program(codeact, "try:\n    find('Rome', limt=3)\nexcept ToolError as e:\n    print(e)")
    assert "there is no argument 'limt'; did you mean 'limit'?" in client.read()
    assert calls == []


async def test_a_tool_whose_schema_allows_more_gets_more() -> None:
    class Anything(BaseModel):
        model_config = ConfigDict(extra="allow")
        city: str

    calls: Calls = []

    def keep(**arguments: Any) -> str:
        calls.append(arguments)
        return "kept"

    tool = FunctionTool(name="keep", description="", func=keep, input_model=Anything)
    async with LinuxCodeActProvider(tools=tool) as codeact:
        await run_program(codeact, "keep(city='Rome', colour='red')")
    assert calls == [{"city": "Rome", "colour": "red"}]


async def test_a_validator_that_fails_fails_the_call_and_not_the_program() -> None:
    def rate(value: Annotated[int, AfterValidator(broken)]) -> int:
        return value

    async with LinuxCodeActProvider(tools=rate) as codeact:
        client = await run_program(codeact, "try:\n    rate(1)\nexcept ToolError as e:\n    print('told', e)")
    assert "told RuntimeError: the list of rates is not there" in client.read()


async def test_a_tool_without_parameters_is_declared_without() -> None:
    def who() -> str:
        """Say who."""
        return "Ada"

    async with LinuxCodeActProvider(tools=who) as codeact:
        client = await run_program(codeact, "who(), who(name='x')")
    assert "def who() -> str:" in client.tool().description
    assert "there is no argument 'name'" in client.read()


async def test_a_call_that_the_framework_would_check_for_seconds_is_refused_before_it_does() -> None:
    """The framework checks, compares and traces a call's arguments whole, in the event loop."""
    calls: Calls = []

    def look(a: list[int]) -> int:
        calls.append(len(a))
        return len(a)

    program = "print(look(list(range(15_000))))\ntry: look(['x'] * 25_000)\nexcept ToolError as error: print(error)"
    async with LinuxCodeActProvider(tools=look) as codeact:
        read = (await run_program(codeact, program)).read()
    assert "15000\nthe call of 'look' has more than 20,000 values" in read
    assert calls == [15_000]
