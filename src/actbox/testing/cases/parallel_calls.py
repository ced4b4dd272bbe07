"""Cases of several tool calls of one program at once."""

from __future__ import annotations

import asyncio
import threading

from actbox.core.errors import ErrorKind
from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases, failed
from .needs import AWAIT, PARALLEL, TOOLS, case


class ParallelCallCases(Cases):
    """`asyncio.gather` has several calls under way at once."""

    @case(TOOLS, AWAIT, PARALLEL)
    async def test_gathered_calls_of_asynchronous_tools_meet(self, box: Sandbox) -> None:
        """Gathered calls of asynchronous tools run at once: each waits until all of them are there."""
        there = asyncio.Barrier(8)

        async def meet(number: int) -> int:
            async with asyncio.timeout(self.patience):
                await there.wait()
            return number

        program = (self.words.gathered("found", [("meet", (n,)) for n in range(8)]), self.words.answer("found"))
        assert await self.answer(box, *program, tools=[meet]) == list(range(8))

    @case(TOOLS, AWAIT, PARALLEL)
    async def test_gathered_calls_of_plain_tools_meet_too(self, box: Sandbox) -> None:
        """Gathered calls of sync tools run at once, each in its own thread."""
        there = threading.Barrier(4)

        def meet(number: int) -> int:
            there.wait(self.patience)
            return number

        program = (self.words.gathered("found", [("meet", (n,)) for n in range(4)]), self.words.answer("found"))
        assert await self.answer(box, *program, tools=[meet]) == list(range(4))

    @case(TOOLS, AWAIT, PARALLEL)
    async def test_results_find_their_calls_in_whatever_order_they_come(self, box: Sandbox) -> None:
        """Each call gets its own result, even if the last call is answered first."""
        turns = [asyncio.Event() for _ in range(6)]
        turns[5].set()

        async def answer(number: int) -> str:
            async with asyncio.timeout(self.patience):
                await turns[number].wait()
            if number:
                turns[number - 1].set()
            return f"result {number}"

        program = (self.words.gathered("found", [("answer", (n,)) for n in range(6)]), self.words.answer("found"))
        assert await self.answer(box, *program, tools=[answer]) == [f"result {n}" for n in range(6)]

    @case(TOOLS, AWAIT, PARALLEL)
    async def test_hundreds_of_calls_at_once_all_return(self, box: Sandbox) -> None:
        """Hundreds of calls at once all return, each exactly once."""

        async def square(number: int) -> int:
            await asyncio.sleep(0)
            return number * number

        program = (self.words.gathered("found", [("square", (n,)) for n in range(300)]), self.words.answer("found"))
        result = await box.run(self.program(*program), tools=[square])
        assert self.words.answered(result) == [n * n for n in range(300)], result
        assert result.usage.tool_calls == 300

    @case(TOOLS, AWAIT, PARALLEL)
    async def test_one_that_fails_among_several_fails_the_program(self, box: Sandbox) -> None:
        """A failed call among several is the error `TOOL`, like a single one."""

        async def odd(number: int) -> int:
            if number % 2 == 0:
                raise ValueError(f"{number} is even")
            return number

        program = self.program(self.words.gathered("found", [("odd", (n,)) for n in (1, 2, 3)]))
        result = await box.run(program, tools=[odd])
        failed(result)
        assert result.error is not None, NO_ERROR
        assert result.error.kind is ErrorKind.TOOL, result.error
        assert "2 is even" in result.error.message
        await self.still_works(box)

    @case(TOOLS, AWAIT, PARALLEL)
    async def test_large_results_at_once_do_not_block_each_other(self, box: Sandbox) -> None:
        """Ten megabytes of results in forty calls at once arrive whole."""

        async def large(number: int) -> str:
            return str(number % 10) * 250_000

        calls = [("large", (n,)) for n in range(40)]
        program = (self.words.gathered("found", calls), self.words.let("got", "found"), self.words.answer("1"))
        result = await box.run(self.program(*program), tools=[large])
        assert result.success, result
        assert result.usage.tool_calls == 40
