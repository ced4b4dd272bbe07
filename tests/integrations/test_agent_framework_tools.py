"""Tools of the framework inside programs: called by the framework's own `invoke`, on the very object that was given."""

from __future__ import annotations

import asyncio
import datetime
from contextvars import ContextVar
from typing import Annotated, Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import (
    Agent,
    AgentSession,
    Content,
    FunctionInvocationContext,
    FunctionTool,
    MiddlewareFailure,
    tool,
)
from pydantic import BaseModel, Field

import actbox
from actbox import InvalidValue
from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_scripted import ScriptedClient, agent_of, code, run_program


async def value_of(tools: Any, program: str, **given: Any) -> str:
    """Return what a model reads of a program that these tools are given to."""
    async with LinuxCodeActProvider(tools=tools) as codeact:
        return (await run_program(codeact, program, **given)).read()


class Order(BaseModel):
    """An order."""

    number: int
    at: datetime.date


async def test_functions_and_tools_and_actbox_tools_are_taken() -> None:
    def plain(n: int) -> int:
        """Plain."""
        return n + 1

    @tool(name="decorated", description="Decorated.")
    def other(n: Annotated[int, Field(description="A number.")]) -> int:
        return n + 10

    @actbox.tool
    def ours(n: int) -> int:
        """Ours."""
        return n + 100

    async with LinuxCodeActProvider(tools=[plain, other, ours]) as codeact:
        client = await run_program(codeact, "print(plain(1), decorated(1), ours(1), call_tool('decorated', n=2))")
        assert [type(each) for each in codeact.get_tools()] == [FunctionTool, FunctionTool, actbox.Tool]
    assert "2 11 101 12" in client.read()
    assert "A number." in client.tool().description


async def test_results_are_json_with_the_types_that_are_annotated() -> None:
    def order(number: int) -> Order:
        """Return an order."""
        return Order(number=number, at=datetime.date(2026, 1, 2))

    async with LinuxCodeActProvider(tools=order) as codeact:
        client = await run_program(codeact, "order(7)['at']")
    assert "datetime.date(2026, 1, 2)" in client.read()
    assert "class Order(TypedDict)" in client.tool().description


@pytest.mark.slow
async def test_arguments_are_converted_and_checked_by_the_framework_itself() -> None:
    def ship(order: Order, express: bool = False) -> str:
        """Ship it."""
        return f"{order['at'].year} {express}"  # type: ignore[index]

    assert "2026 True" in await value_of(ship, "ship({'number': '7', 'at': '2026-01-02'}, express='yes')")
    wrong = await value_of(ship, "ship({'number': 'x', 'at': '2026-01-02'})")
    assert "Invalid arguments for 'ship'" in wrong
    assert "order.number" in wrong
    assert "Field required" in await value_of(ship, "ship()")


async def test_a_json_schema_tool_is_checked_by_the_framework_and_called() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = FunctionTool(
        name="weather", description="The weather.", func=lambda city: f"sun in {city}", input_model=schema
    )
    assert "sun in Rome" in await value_of(weather, "weather('Rome')")
    assert "Missing required argument" in await value_of(weather, "weather()")


@pytest.mark.slow
async def test_an_exception_of_a_tool_is_told_with_its_type() -> None:
    def find(key: str) -> str:
        """Find."""
        return {"a": "b"}[key]

    def add(a: Any, b: Any) -> Any:
        """Add."""
        return a + b

    assert "KeyError: 'x'" in await value_of(find, "find('x')")
    assert "TypeError: can only concatenate" in await value_of(add, "add('x', 1)")
    assert "caught" in await value_of(find, "try:\n    find('x')\nexcept ToolError:\n    print('caught')")


async def test_limits_on_invocations_are_counted_on_the_object_that_was_given() -> None:
    limited = FunctionTool(name="limited", description="Twice at most.", func=lambda: "called", max_invocations=2)
    async with LinuxCodeActProvider(tools=limited) as codeact:
        await run_program(codeact, "limited()")
        assert limited.invocation_count == 1
        second = await run_program(codeact, "print(limited()); limited()")
    assert limited.invocation_count == 2
    assert "called" in second.read()
    assert "maximum invocation limit" in second.read()


async def test_a_tool_gets_the_session_and_the_arguments_of_the_run() -> None:
    def whose(what: str, ctx: FunctionInvocationContext) -> str:
        """Say whose."""
        assert ctx.session is not None
        return f"{what} of {ctx.kwargs['user']} in {ctx.session.session_id}"

    session = AgentSession(session_id="talk-1")
    client = ScriptedClient([code("whose('cart')")], ["done"])
    async with LinuxCodeActProvider(tools=whose) as codeact:
        agent = agent_of(client, codeact)
        await agent.run("go", session=session, function_invocation_kwargs={"user": "Ada"})
        assert "ctx" not in client.tool().description
    assert "cart of Ada in talk-1" in client.read()


async def test_context_variables_of_the_run_reach_tools() -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")

    async def asynchronous() -> str:
        """Say who."""
        return tenant.get()

    def synchronous() -> str:
        """Say who."""
        return tenant.get()

    tenant.set("acme")
    assert "acme acme" in await value_of([asynchronous, synchronous], "print(asynchronous(), synchronous())")


@pytest.mark.slow
async def test_calls_that_are_gathered_go_on_at_once() -> None:
    barrier = asyncio.Barrier(3)

    async def meet() -> str:
        """Wait for the others."""
        await barrier.wait()
        return "met"

    program = "import asyncio\nprint(await asyncio.gather(meet(), meet(), meet()))"
    assert "['met', 'met', 'met']" in await asyncio.wait_for(value_of(meet, program), 60)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([Content.from_text("a text")], "'a text'"),
        (Content.from_text("a text"), "'a text'"),
        (Content.from_data(b"\x00\xff", "application/x-thing"), r"b'\x00\xff'"),
        ([Content.from_uri("https://example.com/a.png", media_type="image/png")], "'https://example.com/a.png'"),
        (
            [Content.from_text("seen"), Content.from_data(b"\x00\xff", "image/png")],
            "[{'text': 'seen', 'type': 'text'}, {'base64': 'AP8=', 'media_type': 'image/png', 'type': 'data'}]",
        ),
        ([], "[]"),
        (None, "None"),
    ],
)
async def test_content_that_a_tool_returns_arrives_as_data(returned: Any, expected: str) -> None:
    given = FunctionTool(name="give", description="Give.", func=lambda: returned)
    program = "got = give()\nprint([dict(sorted(i.items())) for i in got] if isinstance(got, list) else repr(got))"
    assert expected in await value_of(given, program)


async def test_an_error_item_that_a_tool_returns_is_its_failure() -> None:
    given = FunctionTool(
        name="give",
        description="Give.",
        func=lambda: [Content.from_error(message="out of stock", error_details="until May")],
    )
    assert "out of stock: until May" in await value_of(given, "give()")


async def test_another_agent_as_a_tool_works() -> None:
    inner = Agent(client=ScriptedClient(["it is sunny"]), name="weather")  # type: ignore[arg-type]
    assert "it is sunny" in await value_of(inner.as_tool(arg_name="task"), "weather(task='now?')")


async def test_a_tool_that_ends_the_run_of_the_agent_ends_it() -> None:
    calls: list[str] = []

    def forbidden() -> str:
        """Not to be called."""
        calls.append("forbidden")
        raise MiddlewareFailure("a rule was broken")

    def other() -> str:
        """Allowed."""
        calls.append("other")
        return ""

    client = ScriptedClient([code("try:\n    forbidden()\nexcept ToolError:\n    other()")])
    async with LinuxCodeActProvider(tools=[forbidden, other]) as codeact:
        with pytest.raises(MiddlewareFailure, match="a rule was broken"):
            await agent_of(client, codeact).run("go")
    assert calls == ["forbidden"]


def test_labels_that_no_middleware_sees_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    labelled = FunctionTool(
        name="read_mail",
        description="Read.",
        func=lambda: "",
        additional_properties={"source_integrity": "untrusted"},
    )
    LinuxCodeActProvider(tools=[labelled, len])
    (record,) = [record for record in caplog.records if record.name == "actbox"]
    assert "'read_mail' has labels" in record.getMessage()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (FunctionTool(name="picker", description="A picker.", func=None), "'picker' is only declared"),
        ({"type": "code_interpreter"}, "'code_interpreter' is a specification for a model's provider"),
        ({"type": "function", "name": "f"}, "'f' is a specification"),
        ("double", "a program cannot call"),
        (5, "a program cannot call"),
    ],
)
def test_what_a_program_cannot_call_is_refused_with_a_sentence(given: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        LinuxCodeActProvider(tools=[given])
    codeact = LinuxCodeActProvider()
    with pytest.raises(InvalidValue, match=said):
        codeact.add_tools([len, given])
    assert codeact.get_tools() == []
