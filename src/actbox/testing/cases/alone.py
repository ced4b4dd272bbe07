"""Cases of `run_alone`, `stream_alone` and `map`: many programs, each in its own throwaway workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from actbox.core.errors import ErrorKind, InvalidValue
from actbox.core.events import Completed, Output, ToolFinished, ToolStarted
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases, failed, ran_out_of_time
from .needs import FILES, PARTIAL, TOOLS, case, word


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class AloneCases(Cases):
    """`run_alone` and `stream_alone`."""

    @case()
    async def test_a_program_alone_runs_as_any_other(self, box: Sandbox) -> None:
        """`run_alone` runs a program as `run` does, under the same policy."""
        result = await box.run_alone(self.program(self.words.answer(self.words.plus("40", "2"))))
        assert (self.words.answered(result), result.sandbox) == (42, self.traits.engine)
        failed(await box.run_alone(self.program(self.words.fail("boom"))))

    @case(FILES, word("write"))
    async def test_its_files_are_its_own_and_gone_afterwards(self, box: Sandbox) -> None:
        """A program run alone sees neither files of other programs nor this sandbox's files; its own files are gone
        afterwards.
        """
        await box.write_text("mine.txt", "x")
        failed(await box.run_alone(self.program(self.words.answer(self.words.read("mine.txt")))))
        assert (await box.run_alone(self.program(self.words.write("left.txt", "x")))).success
        failed(await box.run_alone(self.program(self.words.answer(self.words.read("left.txt")))))
        assert [entry.path for entry in await box.list_files()] == ["input", "mine.txt", "output"]

    @case(FILES, word("write"))
    async def test_what_it_puts_into_output_comes_back(self, box: Sandbox) -> None:
        """The artifacts of a program run alone come back, and nothing else of it remains."""
        result = await box.run_alone(self.program(self.words.write("output/a.txt", "x"), files={"given": b"1"}))
        assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("a.txt", b"x")]

    @case(TOOLS)
    async def test_its_events_come_as_those_of_a_stream(self, box: Sandbox) -> None:
        """`stream_alone` yields its events as `stream` does."""
        program = self.program(self.words.answer(self.words.call("add", 1, 2)))
        events = [event async for event in box.stream_alone(program, tools=[add])]
        kinds = [type(event) for event in events if not isinstance(event, Output)]
        assert kinds == [ToolStarted, ToolFinished, Completed]


class MapCases(Cases):
    """`map` and `map_indexed`: no result is lost, and none comes twice."""

    def _plus_one(self, number: int) -> Program:
        return self.program(self.words.answer(self.words.plus(str(number), "1")))

    @case()
    async def test_each_program_has_its_result_in_its_place(self, box: Sandbox) -> None:
        """With `ordered` results come in the order of the programs."""
        programs = [self._plus_one(n) for n in range(12)]
        answers = [self.words.answered(result) async for result in box.map(programs)]
        assert answers == [n + 1 for n in range(12)]

    @case()
    async def test_the_index_says_which_is_whose(self, box: Sandbox) -> None:
        """The index counts the programs from 0."""
        programs = [self._plus_one(n) for n in range(8)]
        found = {index: self.words.answered(result) async for index, result in box.map_indexed(programs)}
        assert found == {n: n + 1 for n in range(8)}

    @case()
    async def test_one_that_fails_has_its_place_and_the_rest_goes_on(self, box: Sandbox) -> None:
        """A program that cannot be run has a failed result in its place with `UNSUPPORTED`."""
        programs = [
            self._plus_one(1),
            self.program(self.words.fail("boom")),
            Program("x", language="cobol"),
            5,
            self._plus_one(2),
        ]
        results = [result async for result in box.map(programs)]  # type: ignore[arg-type]
        assert [result.success for result in results] == [True, False, False, False, True]
        kinds = [result.error.kind for result in results if result.error is not None]
        assert kinds[1:] == [ErrorKind.UNSUPPORTED, ErrorKind.UNSUPPORTED]

    @case(TOOLS)
    async def test_all_have_the_tools(self, box: Sandbox) -> None:
        """The tools are frozen when `map` is called."""
        program = self.program(self.words.answer(self.words.call("add", 1, 2)))
        assert [self.words.answered(result) async for result in box.map([program] * 3, tools=[add])] == [3, 3, 3]

    @case()
    async def test_an_endless_iterable_is_read_as_results_are_taken(self, box: Sandbox) -> None:
        """`map` reads an iterable at most 8 × `concurrency` programs ahead."""
        read = 0

        def endless() -> Iterator[Program]:
            nonlocal read
            while True:
                read += 1
                yield self._plus_one(read)

        results = box.map(endless(), concurrency=2)
        for number in range(1, 4):
            assert self.words.answered(await anext(results)) == number + 1
        await results.aclose()
        assert read <= 3 + 8 * 2 + 2
        await self.still_works(box)

    @case()
    async def test_an_asynchronous_iterable_is_as_good(self, box: Sandbox) -> None:
        """`programs` may be an asynchronous iterable."""

        async def some() -> AsyncIterator[Program]:
            for number in range(3):
                await asyncio.sleep(0)
                yield self._plus_one(number)

        assert [self.words.answered(result) async for result in box.map(some())] == [1, 2, 3]

    @pytest.mark.parametrize("given", [{"concurrency": 0}, {"concurrency": "2"}, {"timeout": -1}], ids=str)
    @case()
    async def test_arguments_that_make_no_sense_are_refused_at_once(
        self, box: Sandbox, given: dict[str, float]
    ) -> None:
        """`map` raises `InvalidValue` at once for invalid arguments."""
        with pytest.raises(InvalidValue):
            async for _ in box.map([self._plus_one(1)], **given):  # type: ignore[arg-type]
                pass

    @case()
    async def test_a_timeout_is_for_each_program(self, box: Sandbox) -> None:
        """`timeout`, in seconds, is for each program."""
        programs = [self._plus_one(1), self.program(self.words.forever()), self._plus_one(2)]

        async def attempt(seconds: float) -> list[ExecutionResult]:
            return [result async for result in box.map(programs, timeout=seconds, concurrency=1)]

        results = await self.with_enough_time(attempt, lambda results: not any(map(ran_out_of_time, results[::2])))
        assert [result.success for result in results] == [True, False, True]
        assert results[1].error is not None, NO_ERROR
        assert results[1].error.kind is ErrorKind.TIMEOUT

    @case(PARTIAL, word("say"))
    async def test_each_has_its_own_output(self, box: Sandbox) -> None:
        """Programs that run at once do not mix their output."""
        programs = [self.program(*(self.words.say(f"{n}") for _ in range(20))) for n in range(6)]
        results = [result async for result in box.map(programs, concurrency=3)]
        assert [set(result.stdout.split()) for result in results] == [{str(n)} for n in range(6)]
