"""Cases of the events that a run emits."""

from __future__ import annotations

import asyncio

from actbox.core.errors import ErrorKind
from actbox.core.events import Completed, Event, Output, ToolFinished, ToolStarted
from actbox.sandbox.contract import Sandbox, closing

from .ground import Cases
from .needs import PARTIAL, TOOLS, case, word


class EventCases(Cases):
    """The events of a stream."""

    @case()
    async def test_the_last_event_is_completed_and_there_is_one(self, box: Sandbox) -> None:
        """`stream` yields the program's events as they happen; the last event is `Completed`."""
        for program in (self.words.answer("1"), self.words.fail("boom"), self.words.broken, ""):
            events = [event async for event in box.stream(self.program(program))]
            assert [isinstance(event, Completed) for event in events] == [False] * (len(events) - 1) + [True]

    @case(word("say"))
    async def test_the_pieces_of_output_are_the_output_of_the_result(self, box: Sandbox) -> None:
        """The pieces of output in the events together are the output of the result."""
        program = self.program(*(self.words.say(f"line {n} ü") for n in range(50)), self.words.complain("err"))
        events = [event async for event in box.stream(program)]
        assert isinstance(events[-1], Completed)
        result = events[-1].result
        for stream, whole in (("stdout", result.stdout), ("stderr", result.stderr)):
            pieces = [event.text for event in events if isinstance(event, Output) and event.stream == stream]
            assert "".join(pieces) == whole
        assert result.stdout == "".join(f"line {n} ü\n" for n in range(50))
        assert result.stderr == "err\n"

    @case(TOOLS, PARTIAL, word("say"))
    async def test_output_comes_as_it_is_printed(self, box: Sandbox) -> None:
        """Output arrives while the program runs: the program goes on only when its first line was seen."""
        seen = asyncio.Event()

        async def wait_until_seen() -> str:
            async with asyncio.timeout(self.patience):
                await seen.wait()
            return "seen"

        program = self.program(
            self.words.say("first"), self.words.let("x", self.words.call("wait_until_seen")), self.words.say("second")
        )
        async for event in box.stream(program, tools=[wait_until_seen]):
            if isinstance(event, Output) and "first" in event.text:
                seen.set()
            if isinstance(event, Completed):
                assert event.result.stdout == "first\nsecond\n", event.result

    @case(TOOLS, PARTIAL, word("say"))
    async def test_events_come_in_the_order_in_which_it_happened(self, box: Sandbox) -> None:
        """Output printed before a call comes before the call's event."""

        def nothing() -> None:
            pass

        program = self.program(
            self.words.say("a"), self.words.let("x", self.words.call("nothing")), self.words.say("b")
        )
        events = [event async for event in box.stream(program, tools=[nothing])]
        kinds = [type(event) for event in events]
        assert kinds == [Output, ToolStarted, ToolFinished, Output, Completed]

    @case(TOOLS)
    async def test_a_call_is_told_while_it_is_under_way(self, box: Sandbox) -> None:
        """`ToolStarted` comes while the tool is running."""
        told = asyncio.Event()

        async def wait_until_told() -> str:
            async with asyncio.timeout(self.patience):
                await told.wait()
            return "told"

        async for event in box.stream(
            self.program(self.words.answer(self.words.call("wait_until_told"))), tools=[wait_until_told]
        ):
            if isinstance(event, ToolStarted):
                told.set()
            if isinstance(event, Completed):
                assert event.result.success, event.result

    @case(TOOLS)
    async def test_a_call_that_was_cut_off_is_started_and_never_finished(self, box: Sandbox) -> None:
        """A call that was started and has no `ToolFinished` was cut off by the end of its run."""
        cancelled = asyncio.Event()

        async def for_ever() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        program = self.program(self.words.let("x", self.words.call("for_ever")))

        async def attempt(seconds: float) -> list[Event]:
            return [event async for event in box.stream(program, tools=[for_ever], timeout=seconds)]

        events = await self.with_enough_time(
            attempt, lambda events: any(isinstance(event, ToolStarted) for event in events)
        )
        assert [type(event) for event in events if not isinstance(event, Output)] == [ToolStarted, Completed]
        assert isinstance(events[-1], Completed) and events[-1].result.error is not None
        assert events[-1].result.error.kind is ErrorKind.TIMEOUT
        async with asyncio.timeout(self.patience):
            await cancelled.wait()

    @case()
    async def test_a_stream_can_be_closed_after_its_end_and_before_its_beginning(self, box: Sandbox) -> None:
        """Closing a stream twice, or before its first event, does nothing."""
        events = box.stream(self.program(self.words.answer("1")))
        async with closing(events):
            async for _ in events:
                pass
        async with closing(box.stream(self.program(self.words.answer("1")))):
            pass
        await self.still_works(box)

    @case(word("say"))
    async def test_a_slow_reader_gets_everything(self, box: Sandbox) -> None:
        """A slow reader of the stream gets every event."""
        program = self.program(*(self.words.say(f"{n} " + "x" * 200) for n in range(50)))
        text = ""
        async for event in box.stream(program):
            await asyncio.sleep(0.005)
            if isinstance(event, Output):
                text += event.text
        assert [line.split()[0] for line in text.splitlines()] == [str(n) for n in range(50)]
