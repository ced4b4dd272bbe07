"""Cases of tools: host functions that programs call."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from actbox.core.errors import ErrorKind
from actbox.core.events import Completed, ToolFinished, ToolStarted
from actbox.sandbox.contract import Sandbox
from actbox.tools import Toolset

from .ground import NO_ERROR, Cases, failed
from .needs import AWAIT, LINES, TOOLS, case, python, word
from .values import EVERY_VALUE

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def add(a: int, b: int = 10) -> int:
    """Add two numbers."""
    return a + b


async def double(number: int) -> int:
    """Double a number, in its own time."""
    await asyncio.sleep(0)
    return 2 * number


def echo(value: Any) -> Any:
    """Give back what it was given."""
    return value


def boom() -> None:
    """Fail."""
    raise ValueError("it broke")


class ToolCases(Cases):
    """A program calls the host's tools as functions."""

    @case(TOOLS)
    async def test_a_tool_is_a_function_by_its_name(self, box: Sandbox) -> None:
        """A tool is called by its name with positional arguments, and the other parameters have their defaults."""
        program = self.words.answer(self.words.listed(self.words.call("add", 1, 2), self.words.call("add", 1)))
        assert await self.answer(box, program, tools=[add]) == [3, 11]

    @case(TOOLS)
    async def test_a_tool_can_be_called_by_call_tool(self, box: Sandbox) -> None:
        """`call_tool` takes the name, and arguments by name."""
        assert await self.answer(box, self.words.answer(self.words.call_by_name("add", b=2, a=3)), tools=[add]) == 5

    @case(TOOLS, python("subset"))
    async def test_arguments_can_be_given_by_name(self, box: Sandbox) -> None:
        """Arguments can be given by name."""
        assert await self.answer(box, "[add(a=5), add(b=1, a=1), add(2, b=3)]", tools=[add]) == [15, 2, 5]

    @case(TOOLS)
    async def test_an_asynchronous_tool_is_awaited_by_the_host(self, box: Sandbox) -> None:
        """An asynchronous tool is awaited by the host, which the program does not notice."""
        assert await self.answer(box, self.words.answer(self.words.call("double", 21)), tools=[double]) == 42

    @EVERY_VALUE
    @case(TOOLS)
    async def test_every_kind_of_value_survives_both_ways(self, box: Sandbox, value: Any) -> None:
        """Every kind of JSON value survives as an argument and as a result."""
        received: list[Any] = []

        def note(value: Any) -> Any:
            received.append(value)
            return value

        assert await self.answer(box, self.words.answer(self.words.call("note", value)), tools=[note]) == value
        assert received == [value]

    @case(TOOLS, word("beyond_json"))
    async def test_what_json_lacks_crosses_both_ways(self, box: Sandbox) -> None:
        """A program's own values that JSON lacks arrive whole, and come back so."""
        assert self.words.beyond_json, f"{type(self.words).__name__}.beyond_json is empty: `lacks` must name it"
        received: list[Any] = []

        def note(value: Any) -> Any:
            received.append(value)
            return value

        for expression, value in self.words.beyond_json.items():
            first = self.words.let("back", self.words.call_on("note", expression))
            program = self.program(first, self.words.let("again", self.words.call_on("note", "back")))
            result = await box.run(program, tools=[note])
            assert result.success, result
            assert repr(received) == repr([value, value]), expression
            received.clear()

    @case(TOOLS)
    async def test_what_cannot_cross_is_a_failed_call_that_names_the_place(self, box: Sandbox) -> None:
        """A value that cannot cross makes the call fail, and the error names the value's place."""
        expression, place = self.words.uncrossable
        assert expression and place, f"{type(self.words).__name__}.uncrossable must be an expression and a place in it"
        program = (self.words.caught("said", self.words.call_on("echo", expression)), self.words.answer("said"))
        assert place in await self.answer(box, *program, tools=[echo])

    @case(TOOLS, python("subset"))
    async def test_bytes_are_a_result(self, box: Sandbox) -> None:
        """The whole result of a tool may be bytes."""

        def raw() -> bytes:
            return bytes(range(256))

        assert await self.answer(box, "found = raw()\n[len(found), found[0], found[255]]", tools=[raw]) == [256, 0, 255]

    @case(TOOLS)
    async def test_a_failed_call_that_is_not_caught_ends_the_program(self, box: Sandbox) -> None:
        """`TOOL`: a tool call failed and the program did not catch it."""
        result = await box.run(self.program(self.words.let("x", self.words.call("boom"))), tools=[boom])
        failed(result)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.TOOL, result.error
        assert "it broke" in result.error.message
        await self.still_works(box)

    @case(TOOLS, LINES)
    async def test_a_failed_call_has_the_line_that_made_it(self, box: Sandbox) -> None:
        """The error of a failed call has the line of the call, and no frames of the host."""
        program = self.program(self.words.let("x", "1"), self.words.let("y", self.words.call("boom")))
        error = (await box.run(program, tools=[boom])).error
        assert error is not None, NO_ERROR
        assert error.line == 2
        assert __file__ not in error.traceback

    @case(TOOLS)
    async def test_a_failed_call_can_be_caught(self, box: Sandbox) -> None:
        """A program catches `ToolError` and goes on, and has the text of the error."""
        program = (self.words.caught("said", self.words.call("boom")), self.words.answer("said"))
        assert "it broke" in await self.answer(box, *program, tools=[boom])

    @case(TOOLS, python("subset"))
    async def test_what_a_tool_raised_can_be_caught_as_such(self, box: Sandbox) -> None:
        """The error is also the built-in exception that the tool raised."""
        code = "try:\n    boom()\nexcept ValueError as error:\n    said = str(error)\nsaid"
        assert "it broke" in await self.answer(box, code, tools=[boom])

    @case(TOOLS, python("standard library"))
    async def test_an_error_of_the_operating_system_has_its_number(self, box: Sandbox) -> None:
        """The `OSError` of a tool has `errno` and `strerror`, and not the host's file name."""

        def fill() -> None:
            raise OSError(28, "No space", "/host/folder")

        said = "[error.errno, error.strerror, error.filename]"
        code = f"try:\n    fill()\nexcept OSError as error:\n    said = {said}\nsaid"
        assert await self.answer(box, code, tools=[fill]) == [28, "No space", None]

    @case(TOOLS, python("standard library"))
    async def test_an_error_of_decoding_can_be_caught_as_such(self, box: Sandbox) -> None:
        """The error is also the `UnicodeDecodeError` that the tool raised."""

        def decode() -> None:
            b"\xff".decode()

        code = "try:\n    decode()\nexcept UnicodeDecodeError as error:\n    said = str(error)\nsaid"
        assert "can't decode byte 0xff" in str(await self.answer(box, code, tools=[decode]))

    @case(TOOLS, python("full"))
    async def test_type_hints_of_a_tool_can_be_asked_for(self, box: Sandbox) -> None:
        """A program can evaluate a tool's annotations: they contain only names that the program has."""
        code = "import typing\n[typing.get_type_hints(function) for function in (add, call_tool)]"
        assert len(await self.answer(box, code, tools=[add])) == 2
        awaited = f"{code}[0:1] + [await add(1, 2)]"
        assert (await self.answer(box, awaited, tools=[add]))[1] == 3

    @case(TOOLS, python("core"))
    async def test_the_error_of_a_call_has_the_tools_name(self, box: Sandbox) -> None:
        """`ToolError.tool` is the tool's name."""
        code = "try:\n    boom()\nexcept ToolError as error:\n    said = error.tool\nsaid"
        assert await self.answer(box, code, tools=[boom]) == "boom"

    @case(TOOLS)
    async def test_arguments_that_do_not_fit_are_a_failed_call_and_never_reach_the_tool(self, box: Sandbox) -> None:
        """A call whose arguments do not fit is refused before the tool is called."""
        received: list[int] = []

        def pay(amount: int) -> int:
            received.append(amount)
            return amount

        for call in (self.words.call("pay", "much"), self.words.call("pay"), self.words.call("pay", 1, 2)):
            failed(await box.run(self.program(self.words.let("x", call)), tools=[pay]))
        assert received == []

    @case(TOOLS)
    async def test_a_tool_that_there_is_not_fails_by_its_name(self, box: Sandbox) -> None:
        """A call of a tool that the run does not have fails and names the tool."""
        result = await box.run(
            self.program(self.words.let("x", self.words.call_by_name("substract", a=1))), tools=[add]
        )
        failed(result)
        assert result.error is not None, NO_ERROR
        assert "substract" in result.error.message

    @case(TOOLS)
    async def test_without_tools_none_can_be_called(self, box: Sandbox) -> None:
        """A program in a run without tools cannot call any."""
        program = self.program(self.words.answer(self.words.call("add", 1, 2)))
        assert (await box.run(program, tools=[add])).success
        failed(await box.run(program))
        failed(await box.run(self.program(self.words.answer(self.words.call_by_name("add", a=1)))))

    @case(TOOLS)
    async def test_a_result_that_is_no_json_is_a_failed_call_that_names_the_tool(self, box: Sandbox) -> None:
        """A result without a JSON form makes the call fail, and the error names the tool."""

        def no_json() -> Any:
            return {"items": [1, object()]}

        result = await box.run(self.program(self.words.let("x", self.words.call("no_json"))), tools=[no_json])
        failed(result)
        assert result.error is not None, NO_ERROR
        assert "no_json" in result.error.message

    @case(TOOLS)
    async def test_what_a_program_may_call_cannot_change_during_its_run(self, box: Sandbox) -> None:
        """The tools are frozen when the run starts."""
        tools: list[Any] = [add]

        def grow() -> str:
            tools.append(echo)
            return "grown"

        tools.append(grow)
        program = self.program(
            self.words.let("x", self.words.call("grow")), self.words.let("y", self.words.call_by_name("echo", value=1))
        )
        failed(await box.run(program, tools=tools))

    @case(TOOLS)
    async def test_a_tool_sees_the_context_of_the_caller(self, box: Sandbox) -> None:
        """A tool sees the context variables of the caller of `run`."""

        async def ask() -> str:
            return WHO.get()

        def ask_at_once() -> str:
            return WHO.get()

        token = WHO.set("me")
        try:
            program = self.words.listed(self.words.call("ask"), self.words.call("ask_at_once"))
            assert await self.answer(box, self.words.answer(program), tools=[ask, ask_at_once]) == ["me", "me"]
        finally:
            WHO.reset(token)

    @case(TOOLS)
    async def test_calls_are_counted(self, box: Sandbox) -> None:
        """`usage.tool_calls` counts all calls, failed ones included."""
        program = self.program(
            self.words.let("x", self.words.call("add", 1)),
            self.words.caught("y", self.words.call("boom")),
            self.words.let("z", self.words.call("add", 2)),
        )
        assert (await box.run(program, tools=[add, boom])).usage.tool_calls == 3

    @case(TOOLS)
    async def test_calls_are_events_with_what_was_sent_and_what_came_back(self, box: Sandbox) -> None:
        """`ToolStarted` and `ToolFinished` have one `call_id`, counted from 1."""
        program = self.program(
            self.words.let("x", self.words.call("add", 1, 2)), self.words.caught("y", self.words.call("boom"))
        )
        events = [event async for event in box.stream(program, tools=[add, boom])]
        started = [event for event in events if isinstance(event, ToolStarted)]
        finished = [event for event in events if isinstance(event, ToolFinished)]
        assert [(event.call_id, event.tool, dict(event.arguments)) for event in started] == [
            (1, "add", {"a": 1, "b": 2}),
            (2, "boom", {}),
        ]
        assert [(event.call_id, event.success, event.value) for event in finished] == [(1, True, 3), (2, False, None)]
        assert "it broke" in (finished[1].error or "")
        assert isinstance(events[-1], Completed)

    @case(TOOLS)
    async def test_a_tool_that_blocks_does_not_hold_up_the_host(self, box: Sandbox) -> None:
        """A plain function runs beside the event loop."""
        loop, turned = asyncio.get_running_loop(), threading.Event()

        def block() -> bool:
            loop.call_soon_threadsafe(turned.set)
            return turned.wait(self.patience)

        assert await self.answer(box, self.words.answer(self.words.call("block")), tools=[block]) is True

    @case(TOOLS)
    async def test_a_tool_that_is_cancelled_by_itself_is_a_failed_call(self, box: Sandbox) -> None:
        """A tool that cancels itself is a failed call; neither the run nor its caller is cancelled."""

        async def give_up() -> None:
            raise asyncio.CancelledError

        failed(await box.run(self.program(self.words.let("x", self.words.call("give_up"))), tools=[give_up]))
        await self.still_works(box)

    @case(TOOLS)
    async def test_a_thousand_calls_in_a_row_are_all_answered(self, box: Sandbox) -> None:
        """A thousand calls are all made, in their order."""
        made: list[int] = []

        def note(number: int) -> int:
            made.append(number)
            return number

        calls = "".join(self.words.let("x", self.words.call("note", n)) for n in range(1000))
        assert await self.answer(box, calls, self.words.answer("x"), tools=[note]) == 999
        assert made == list(range(1000))

    @case(TOOLS)
    async def test_a_tool_may_run_a_program_in_the_same_sandbox(self, box: Sandbox) -> None:
        """A tool may run a program in the same sandbox."""

        async def inner() -> Any:
            return await self.answer(box, self.words.answer(self.words.plus("20", "1")))

        assert await self.answer(box, self.words.answer(self.words.call("inner")), tools=[inner]) == 21

    @case(TOOLS)
    async def test_a_toolset_is_as_good_as_a_list(self, box: Sandbox) -> None:
        """`tools` may be a `Toolset`, or a list from which one can be made."""
        program = self.words.answer(self.words.call("add", 1, 2))
        assert await self.answer(box, program, tools=Toolset.of([add])) == 3

    @case(TOOLS, AWAIT, python("subset"))
    async def test_a_program_that_awaits_gets_coroutines(self, box: Sandbox) -> None:
        """Tools are coroutines in a program that uses `await`, and plain functions in another one."""
        assert await self.answer(box, "[await add(1, 2), await call_tool('add', a=1)]", tools=[add]) == [3, 11]
        assert await self.answer(box, "add(1, 2)", tools=[add]) == 3
