"""Cases of several runs at once."""

from __future__ import annotations

import asyncio

import pytest

from actbox.core.errors import FileError
from actbox.sandbox.contract import Sandbox

from .ground import Cases, OpenBox, failed
from .needs import FILES, TOOLS, case, word


class AtOnceCases(Cases):
    """Several runs of one sandbox, and several sandboxes."""

    @case(TOOLS)
    async def test_two_runs_are_under_way_at_once(self, box: Sandbox) -> None:
        """Two runs are under way at once: each waits in a tool until the other is there."""
        there = asyncio.Barrier(2)

        async def meet(number: int) -> int:
            async with asyncio.timeout(2 * self.patience):
                await there.wait()
            return number

        programs = [self.words.answer(self.words.call("meet", n)) for n in range(2)]
        answers = await asyncio.gather(*(self.answer(box, program, tools=[meet]) for program in programs))
        assert answers == [0, 1]

    @case(word("say"))
    async def test_runs_at_once_do_not_mix_their_output(self, box: Sandbox) -> None:
        """The output of each run stays its own."""
        programs = [self.program(*(self.words.say(f"run {n}") for _ in range(30))) for n in range(6)]
        results = await asyncio.gather(*map(box.run, programs))
        assert [result.stdout for result in results] == [f"run {n}\n" * 30 for n in range(6)]

    @case()
    async def test_more_runs_than_there_is_room_for_wait_their_turn(self, box: Sandbox) -> None:
        """Runs beyond the available room wait; none is refused, and none is lost."""
        programs = [self.program(self.words.answer(self.words.plus(str(n), "1"))) for n in range(30)]
        results = await asyncio.gather(*map(box.run, programs))
        assert [self.words.answered(result) for result in results] == [n + 1 for n in range(30)]

    @case(TOOLS)
    async def test_tools_of_runs_at_once_answer_their_own(self, box: Sandbox) -> None:
        """Toolsets belong to runs, not to the sandbox."""

        def named(name: str) -> object:
            def who() -> str:
                return name

            return who

        program = self.program(self.words.answer(self.words.call("who")))
        results = await asyncio.gather(*(box.run(program, tools=[named(f"tool {n}")]) for n in range(6)))  # type: ignore[list-item]
        assert [self.words.answered(result) for result in results] == [f"tool {n}" for n in range(6)]

    @case()
    async def test_one_that_fails_leaves_the_others(self, box: Sandbox) -> None:
        """The failure of one run leaves the results of the others alone."""
        programs = [self.words.fail("boom") if n % 2 else self.words.answer(str(n)) for n in range(8)]
        results = await asyncio.gather(*(box.run(self.program(program)) for program in programs))
        assert [result.success for result in results] == [True, False] * 4

    @case()
    async def test_one_that_takes_for_ever_does_not_hold_up_another(self, box: Sandbox) -> None:
        """A short run ends while a long one goes on."""
        async with self.going_on(box) as slow:
            await self.still_works(box)
            assert not slow.done()

    @case()
    async def test_the_host_goes_on_while_a_program_computes(self, box: Sandbox) -> None:
        """The host's event loop goes on while a program computes."""
        async with self.going_on(box) as running:
            for _ in range(11):
                await asyncio.sleep(0.01)
                assert not running.done()

    @case(FILES)
    async def test_two_sandboxes_share_no_files(self, open_box: OpenBox) -> None:
        """Each sandbox has its own files."""
        one, other = await open_box(), await open_box()
        await one.write_file("a", b"x")
        with pytest.raises(FileError):
            await other.read_file("a")

    @case()
    async def test_stopping_one_sandbox_leaves_the_other(self, open_box: OpenBox) -> None:
        """Stopping one sandbox does not affect another."""
        one, other = await open_box(), await open_box()
        await one.stop()
        await self.still_works(other)

    @case(FILES, word("write"))
    async def test_file_methods_answer_while_a_program_runs(self, box: Sandbox) -> None:
        """The workspace is shared by runs and file methods, at once."""
        async with self.going_on(box) as running:
            await box.write_text("a.txt", "x")
            assert await box.read_text("a.txt") == "x"
            assert not running.done()

    @case(FILES)
    async def test_many_files_are_written_and_read_at_once(self, box: Sandbox) -> None:
        """File methods that run at once do not interfere with each other."""
        names = [f"folder {n % 3}/file {n}" for n in range(40)]
        await asyncio.gather(*(box.write_text(name, name) for name in names))
        assert await asyncio.gather(*map(box.read_text, names)) == names

    @case()
    async def test_a_failed_run_leaves_nothing_to_the_next(self, box: Sandbox) -> None:
        """A sandbox works after ten failed runs in a row."""
        for program in [self.words.fail("boom"), self.words.broken] * 5:
            failed(await box.run(self.program(program)))
        await self.still_works(box)
