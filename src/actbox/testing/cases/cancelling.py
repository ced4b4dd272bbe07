"""Cases of ending a program from outside: by cancelling it, closing its stream, or stopping the sandbox."""

from __future__ import annotations

import asyncio

import pytest

from actbox.core.errors import ErrorKind, SandboxStopped
from actbox.core.events import Completed, Event, Output, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox, closing

from .ground import NO_ERROR, Cases, OpenBox
from .needs import FILES, PARTIAL, SESSIONS, TOOLS, case, python, word


class CancellingCases(Cases):
    """A program that is cancelled ends."""

    @case(TOOLS)
    async def test_cancelling_ends_a_program_that_computes(self, box: Sandbox) -> None:
        """Cancelling the task that waits for a run ends the program."""
        async with self.going_on(box) as task:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await self.still_works(box)

    @case(TOOLS)
    async def test_cancelling_ends_a_program_that_waits_for_a_tool_and_the_tool(self, box: Sandbox) -> None:
        """Cancelling a run also cancels the tool that its program waits for."""
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def for_ever() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        task = asyncio.create_task(
            box.run(self.program(self.words.let("x", self.words.call("for_ever"))), tools=[for_ever])
        )
        async with asyncio.timeout(self.patience):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await cancelled.wait()
        await self.still_works(box)

    @case()
    async def test_cancelling_before_anything_has_begun_is_fine(self, box: Sandbox) -> None:
        """A run may be cancelled at any moment, even before it begins."""
        for turns in range(12):
            task = asyncio.create_task(box.run(self.program(self.words.answer("1"))))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.still_works(box)

    @case(TOOLS)
    async def test_cancelling_one_leaves_the_others(self, box: Sandbox) -> None:
        """Cancelling one run leaves the others alone."""
        release, begun = asyncio.Event(), asyncio.Event()

        async def wait() -> str:
            begun.set()
            async with asyncio.timeout(self.patience):
                await release.wait()
            return "released"

        other = asyncio.create_task(self.answer(box, self.words.answer(self.words.call("wait")), tools=[wait]))
        async with asyncio.timeout(self.patience):
            await begun.wait()
        async with self.going_on(box) as task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        release.set()
        assert await other == "released"

    @case(TOOLS)
    async def test_closing_a_stream_early_ends_the_program(self, box: Sandbox) -> None:
        """Closing the iterator early ends the program, and nothing of it is under way then."""
        cancelled = asyncio.Event()

        async def for_ever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        before = asyncio.all_tasks()
        events = box.stream(self.program(self.words.let("x", self.words.call("for_ever"))), tools=[for_ever])
        async with closing(events):
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
        async with asyncio.timeout(self.patience):
            await cancelled.wait()
            while any("for_ever" in str(task.get_coro()) for task in asyncio.all_tasks() - before):
                await asyncio.sleep(0.01)
        await self.still_works(box)

    @case(PARTIAL, word("say"))
    async def test_closing_a_stream_early_ends_a_program_that_computes(self, box: Sandbox) -> None:
        """Closing a stream early ends even a program that only computes and never checks for cancellation."""
        events = box.stream(self.program(self.words.say("begun"), self.words.forever()))
        async with closing(events):
            async for event in events:
                assert isinstance(event, Output)
                break
        await self.still_works(box)

    @case(FILES, python("full"))
    async def test_nothing_of_a_cancelled_program_goes_on(self, box: Sandbox) -> None:
        """Cancelling a run ends the program and all its processes."""
        code = (
            "import os, subprocess, time\n"
            "subprocess.Popen(['sh', '-c', 'while true; do date +%N > child; sleep 0.02; done'])\n"
            "while True:\n    open('own', 'w').write(str(time.time()))\n    time.sleep(0.02)\n"
        )
        task = asyncio.create_task(box.run(code))
        async with asyncio.timeout(self.patience):
            while not {"child", "own"} <= {entry.path for entry in await box.list_files()}:
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        before = [await box.read_file(name) for name in ("child", "own")]
        await asyncio.sleep(0.3)
        assert [await box.read_file(name) for name in ("child", "own")] == before

    @case(TOOLS)
    async def test_stopping_the_sandbox_ends_what_runs_as_cancelled(self, open_box: OpenBox) -> None:
        """`stop()` ends every run, and each has a result."""
        box = await open_box()
        async with self.going_on(box) as one, self.going_on(box) as other:
            await box.stop()
            async with asyncio.timeout(self.patience):
                for result in await asyncio.gather(one, other):
                    assert result.error is not None, NO_ERROR
                    assert result.error.kind is ErrorKind.CANCELLED
        with pytest.raises(SandboxStopped):
            await box.run(self.program(self.words.answer("1")))

    @case()
    async def test_stopping_while_runs_begin_leaves_nobody_waiting(self, open_box: OpenBox) -> None:
        """Each run that begins during a stop has a result, or is told that the sandbox is stopped."""
        box = await open_box()
        tasks = [asyncio.create_task(box.run(self.program(self.words.forever()))) for _ in range(4)]
        for _ in range(3):
            await asyncio.sleep(0)
        await box.stop()
        async with asyncio.timeout(self.patience):
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(found, ExecutionResult):
                    assert found.error is not None, NO_ERROR
                    assert found.error.kind is ErrorKind.CANCELLED
                else:
                    assert isinstance(found, SandboxStopped), found

    @case(TOOLS)
    async def test_a_timeout_while_a_tool_works_cancels_the_tool(self, box: Sandbox) -> None:
        """The time limit includes time in tools: a timeout cancels a running tool."""
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def for_ever() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        program = self.program(self.words.let("x", self.words.call("for_ever")))
        result = await self.with_enough_time(
            lambda seconds: box.run(program, tools=[for_ever], timeout=seconds), lambda result: begun.is_set()
        )
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.TIMEOUT
        async with asyncio.timeout(self.patience):
            await cancelled.wait()

    @case(SESSIONS, TOOLS)
    async def test_cancelling_a_run_of_a_session_says_by_the_next_what_became_of_the_state(self, box: Sandbox) -> None:
        """After a cancelled run, the session goes on with its state, or answers that it has ended."""
        begun = asyncio.Event()

        async def wait() -> None:
            begun.set()
            await asyncio.Event().wait()

        async with box.session() as session:
            assert (await session.run(self.program(self.words.let("kept", "7")))).success
            task = asyncio.create_task(
                session.run(self.program(self.words.let("x", self.words.call("wait"))), tools=[wait])
            )
            async with asyncio.timeout(self.patience):
                await begun.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                after = await session.run(self.program(self.words.answer("kept")))
            if session.alive:
                assert self.words.answered(after) == 7
            else:
                assert after.error is not None, NO_ERROR
                assert after.error.kind is ErrorKind.SANDBOX

    @case()
    async def test_the_events_of_a_program_that_is_stopped_end_with_completed(self, open_box: OpenBox) -> None:
        """The last event is `Completed`, whatever ended the run, and its result says why."""
        box = await open_box()

        async def last() -> Event:
            return [event async for event in box.stream(self.program(self.words.forever()))][-1]

        task = asyncio.create_task(last())
        await asyncio.sleep(0.3)
        await box.stop()
        async with asyncio.timeout(self.patience):
            event = await task
        assert isinstance(event, Completed)
        assert event.result.error is not None, NO_ERROR
        assert event.result.error.kind is ErrorKind.CANCELLED
