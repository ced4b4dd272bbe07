"""Tools in the `monty` engine."""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
from typing import Literal

import pytest

import actbox
from actbox import Completed, ErrorKind, Policy, Sandbox, ToolFinished, ToolStarted, tool
from actbox.sandbox.engines.monty.evaluating import _EXCEPTIONS
from actbox.tools.approval import ApprovalDecision, ApprovalRequest


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def wait(n: int, times: int = 1) -> int:
    """Wait a little."""
    await asyncio.sleep(0.001)
    return n * times


def boom() -> None:
    raise ValueError("bad thing")


TOOLS = [double, wait, boom]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("double(2) + double(n=3)", 10),
        ("wait(2, times=3)", 6),
        ("call_tool('wait', n=2)", 2),
        ("f = double\nf(4)", 8),
        ("[double(n) for n in range(3)]", [0, 2, 4]),
        ("await wait(5)", 5),
        ("import asyncio\nawait asyncio.gather(wait(1), double(2), call_tool('wait', n=3))", [1, 4, 3]),
        ("import asyncio\nasync def f(n):\n    return await wait(n)\nasyncio.run(f(7))", 7),
        ("# await nothing\n'await' and double(1)", 2),
        ("try:\n    boom()\nexcept ToolError as error:\n    said = str(error)\nsaid", "ValueError: bad thing"),
        (
            "async def f():\n    try:\n        await boom()\n    except ToolError as error:\n        return str(error)"
            "\nawait f()",
            "ValueError: bad thing",
        ),
    ],
)
async def test_tools_are_called(box: Sandbox, code: str, value: object) -> None:
    result = await box.run(code, tools=TOOLS)
    assert result.success, result.error
    assert result.value == value


@pytest.mark.parametrize(
    ("code", "kind", "type_", "said"),
    [
        ("boom()", ErrorKind.TOOL, "ToolError", "ValueError: bad thing"),
        ("await boom()", ErrorKind.TOOL, "ToolError", "ValueError: bad thing"),
        ("double('x')", ErrorKind.TOOL, "ToolError", "'n' should be a valid integer"),
        ("double({1})", ErrorKind.TOOL, "ToolError", "should be a valid integer; got {1}"),
        ("call_tool('nope')", ErrorKind.TOOL, "ToolError", "there is no tool 'nope'"),
        ("double(1, 2)", ErrorKind.RUNTIME, "TypeError", "at most 1 positional argument ("),
        ("double(1, n=2)", ErrorKind.RUNTIME, "TypeError", "two values"),
        ("call_tool(3)", ErrorKind.RUNTIME, "TypeError", "name first"),
        ("call_tool('double', 1)", ErrorKind.RUNTIME, "TypeError", "by their names"),
        ("doubel(1)", ErrorKind.RUNTIME, "NameError", "doubel"),
    ],
)
async def test_a_call_that_fails_ends_a_program_that_does_not_catch_it(
    box: Sandbox, code: str, kind: ErrorKind, type_: str, said: str
) -> None:
    error = (await box.run(code, tools=TOOLS)).error
    assert error is not None
    assert (error.kind, error.type, error.line) == (kind, type_, 1)
    assert said in error.message
    assert f"{type_}: {error.message}" in error.traceback


async def test_a_name_that_is_nearly_a_tools_is_hinted_at(box: Sandbox) -> None:
    error = (await box.run("doubel(1)", tools=TOOLS)).error
    assert error is not None and error.hint == "there is a tool named double"


@pytest.mark.slow
async def test_arguments_that_would_be_too_large_written_out_are_refused(box: Sandbox) -> None:
    error = (await box.run("x = [1] * 10\nfor _ in range(30): x = [x] * 10\ndouble(x)", tools=TOOLS)).error
    assert error is not None and error.kind is ErrorKind.TOOL
    assert "too large" in error.message


async def test_calls_are_under_way_at_once(box: Sandbox) -> None:
    together = asyncio.Barrier(3)

    async def meet() -> int:
        await together.wait()
        return 1

    code = "import asyncio\nsum(await asyncio.gather(meet(), meet(), meet()))"
    async with asyncio.timeout(60):
        assert (await box.run(code, tools=[meet])).value == 3


@pytest.mark.slow
async def test_more_calls_than_the_librarys_default_are_made(box: Sandbox) -> None:
    assert (await box.run("sum([double(1) for _ in range(1500)])", tools=[double])).value == 3000
    code = "import asyncio\nsum(await asyncio.gather(*[double(1) for _ in range(1500)]))"
    assert (await box.run(code, tools=[double])).value == 3000


async def test_calls_are_told_and_counted_against_the_limit() -> None:
    async with actbox.open_sandbox("monty", policy=Policy(limits=actbox.Limits(tool_calls=3))) as box:
        events = [event async for event in box.stream("double(2)", tools=[double])]
        assert [type(event) for event in events] == [ToolStarted, ToolFinished, Completed]
        error = (await box.run("while True: double(1)", tools=[double])).error
    assert error is not None and (error.kind, error.limit) == (ErrorKind.BUDGET, "tool_calls")


async def test_bytes_go_both_ways(box: Sandbox) -> None:
    def turned(data: bytes) -> bytes:
        return data[::-1]

    assert (await box.run("turned(b'\\x00\\xff') == b'\\xff\\x00'", tools=[turned])).value is True


async def test_whoever_approves_a_call_is_told_its_line_and_a_refusal_is_named(box: Sandbox) -> None:
    asked: list[ApprovalRequest] = []

    class NotToday:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            asked.append(request)
            return ApprovalDecision(approved=False, reason="not today")

    tools = actbox.Toolset.of([tool(double, approval="always_require")]).asking(NotToday())
    result = await box.run("x = 'é'\n\ndouble(1)", tools=tools)
    assert result.error is not None
    assert (result.error.kind, result.error.type) == (ErrorKind.TOOL, "ToolError")
    assert "not today" in result.error.message and "refused" in result.error.hint
    assert [request.line for request in asked] == [3]


async def test_without_tools_there_is_no_call_tool(box: Sandbox) -> None:
    error = (await box.run("call_tool('x')")).error
    assert error is not None and error.type == "NameError"


async def test_a_program_that_fails_while_calls_are_under_way_cancels_them(box: Sandbox) -> None:
    cancelled = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    result = await box.run(
        "import asyncio\nasync def f():\n    raise ValueError\nawait asyncio.gather(hang(), f())", tools=[hang]
    )
    assert result.error is not None and result.error.type == "ValueError"
    async with asyncio.timeout(60):
        await cancelled.wait()


@dataclasses.dataclass
class Order:
    id: int
    kind: Literal["a", "b"] = "a"


async def test_types_that_a_stub_names_exist(box: Sandbox) -> None:
    got: list[Order] = []

    def place(order: Order) -> Order:
        got.append(order)
        return order

    code = (
        "x: Order = {'id': 1}\ndef f(o: Order, more: list[Order] = []) -> Order:\n    return place(o)\n"
        "[f(x)['id'], f(Order(id=2, kind='b'))['kind'], place(Order({'id': 3}))]"
    )
    result = await box.run(code, tools=[place])
    assert result.value == [1, "b", {"id": 3, "kind": "a"}], result
    assert (got, result.usage.tool_calls) == ([Order(1), Order(2, "b"), Order(3)], 3)
    assert (await box.run("(await place(Order(id=4)))['id']", tools=[place])).value == 4
    error = (await box.run("Order(1)", tools=[place])).error
    assert error is not None and error.type == "TypeError"
    assert (await box.run("Order = 5\nOrder", tools=[place])).value == 5


CATCHABLE = {name: getattr(builtins, name) for name in sorted(_EXCEPTIONS)} | {
    "LookupError": IndexError,
    "OSError": ConnectionResetError,
    "ArithmeticError": FloatingPointError,
}


@pytest.mark.parametrize("caught", [*CATCHABLE, "ToolError", "Exception"])
async def test_what_a_tool_raises_can_be_caught_as_such(box: Sandbox, caught: str) -> None:
    def fail() -> None:
        raise CATCHABLE.get(caught, KeyError)("no")

    code = f"try:\n    fail()\nexcept {caught} as error:\n    said = error.args[0]\nsaid"
    result = await box.run(code, tools=[fail])
    raised = CATCHABLE.get(caught, KeyError)
    assert result.value == f"{raised.__name__}: {raised('no')}"
    error = (await box.run("fail()", tools=[fail])).error
    assert error is not None and (error.kind, error.type) == (ErrorKind.TOOL, "ToolError"), error


async def test_what_ends_a_program_is_raised_for_no_call(box: Sandbox) -> None:
    def fail() -> None:
        raise MemoryError("no")

    assert (await box.run("try:\n    fail()\nexcept RuntimeError as error:\n    1", tools=[fail])).success
