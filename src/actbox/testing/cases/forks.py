"""Cases of copied sessions."""

from __future__ import annotations

import pytest

from actbox.core.errors import InvalidValue, SandboxStopped, Unsupported
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox, Session

from .ground import Cases
from .needs import FILES, FORK, TOOLS, case, word


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class ForkCases(Cases):
    """`fork`, `snapshot` and `branches`."""

    async def _set(self, session: Session, value: int) -> None:
        assert (await session.run(self.program(self.words.let("x", str(value))))).success

    async def _get(self, session: Session) -> object:
        return self.words.answered(await session.run(self.program(self.words.answer("x"))))

    @case(FORK)
    async def test_a_copy_has_the_variables_and_from_then_on_its_own(self, box: Sandbox) -> None:
        """A copy has the variables that the original had at that moment, and changes its own from then on."""
        async with box.session(forkable=True) as origin:
            await self._set(origin, 1)
            async with await origin.fork() as copy:
                assert await self._get(copy) == 1
                await self._set(copy, 2)
                await self._set(origin, 3)
                assert (await self._get(copy), await self._get(origin)) == (2, 3)

    @case(FORK)
    async def test_a_copy_can_be_copied_again(self, box: Sandbox) -> None:
        """A live copy can be forked again."""
        async with box.session(forkable=True) as origin:
            await self._set(origin, 1)
            async with await origin.fork() as copy:
                await self._set(copy, 2)
                async with await copy.fork() as third:
                    assert [await self._get(session) for session in (third, copy, origin)] == [2, 2, 1]

    @case(FORK)
    async def test_closing_one_leaves_the_others(self, box: Sandbox) -> None:
        """Each copy may be closed without the others."""
        origin = box.session(forkable=True)
        await self._set(origin, 1)
        copy = await origin.fork()
        other = await origin.fork()
        await origin.close()
        await other.close()
        assert await self._get(copy) == 1
        await copy.close()

    @case(FORK)
    async def test_a_snapshot_stays_what_the_session_was(self, box: Sandbox) -> None:
        """A snapshot keeps the session's state of that moment, to be forked from later."""
        async with box.session(forkable=True) as origin:
            await self._set(origin, 1)
            snapshot = await origin.snapshot()
            await self._set(origin, 2)
            for _ in range(2):
                async with await snapshot.fork() as copy:
                    assert await self._get(copy) == 1
                    await self._set(copy, 9)
            await snapshot.close()

    @case(FORK)
    async def test_branches_are_copies_for_a_block(self, box: Sandbox) -> None:
        """Branches are closed at the end of the block, except those that were kept."""
        async with box.session(forkable=True) as origin:
            await self._set(origin, 1)
            async with origin.branches(3) as branches:
                sessions = list(branches)
                for number, session in enumerate(sessions):
                    await self._set(session, number)
                assert [await self._get(session) for session in sessions] == [0, 1, 2]
            assert await self._get(origin) == 1
            with pytest.raises(SandboxStopped):
                await sessions[0].run(self.program(self.words.answer("x")))

    @case(FORK)
    async def test_a_count_below_one_is_refused(self, box: Sandbox) -> None:
        """A count of branches below one raises `InvalidValue`."""
        async with box.session(forkable=True) as origin:
            with pytest.raises(InvalidValue):
                async with origin.branches(0):
                    pass
            await self._set(origin, 1)
            assert await self._get(origin) == 1

    @case(FORK)
    async def test_a_session_that_was_not_opened_so_cannot_be_copied(self, box: Sandbox) -> None:
        """Copying a session that was not opened with `forkable` raises `Unsupported`."""
        async with box.session() as session:
            for call in (session.fork, session.snapshot):
                with pytest.raises(Unsupported):
                    await call()

    @case(FORK, TOOLS)
    async def test_tools_answer_in_a_copy(self, box: Sandbox) -> None:
        """A copy is a session like any other."""
        async with box.session(forkable=True) as origin:
            await origin.start()
            async with await origin.fork() as copy:
                program = self.program(self.words.answer(self.words.call("add", 1, 2)))
                assert self.words.answered(await copy.run(program, tools=[add])) == 3

    @case(FORK, FILES, word("write"))
    async def test_a_copy_has_the_files_and_from_then_on_its_own(self, box: Sandbox) -> None:
        """A copy has the files that `/workspace` had at that moment, and changes its own from then on."""
        async with box.session(forkable=True) as origin:
            await origin.run(self.program(self.words.write("a.txt", "origin")))
            async with await origin.fork() as copy:
                read = self.program(self.words.answer(self.words.read("a.txt")))
                assert self.words.answered(await copy.run(read)) == "origin"
                await copy.run(self.program(self.words.write("a.txt", "copy")))
                assert self.words.answered(await origin.run(read)) == "origin"
                assert self.words.answered(await copy.run(read)) == "copy"

    @case(FORK)
    async def test_stopping_the_sandbox_ends_copies_too(self, box: Sandbox) -> None:
        """`stop()` ends the sandbox's sessions, copies included."""
        async with await self.open(Policy()) as other:
            origin = other.session(forkable=True)
            await self._set(origin, 1)
            copy = await origin.fork()
        assert not copy.alive
        assert not origin.alive
