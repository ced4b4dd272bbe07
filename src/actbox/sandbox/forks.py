"""What one does with copies of a session: keep one frozen, or try several continuations at once and keep the best."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self, overload

from actbox.core.errors import InvalidValue
from actbox.core.program import Program
from actbox.core.result import ExecutionResult

if TYPE_CHECKING:
    from .contract import Session, Tools


class Snapshot:
    """A frozen copy of a session: nothing runs in it, and live copies can be had of it at any time."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def alive(self) -> bool:
        """Whether it could be forked now."""
        return self._session.alive

    async def fork(self) -> Session:
        """Return a live copy of what the session was. Raises what `Session.fork` raises."""
        return await self._session.fork()

    async def close(self) -> None:
        """Let go of it; copies of it live on. A second call does nothing."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


class Branches(Sequence["Session"]):
    """Live copies of a session, to try several continuations of it: `async with session.branches(10) as branches`."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = tuple(sessions)
        self._kept: set[int] = set()

    @classmethod
    async def of(cls, session: Session, count: int) -> Branches:
        """Return so many copies of a session. Raises `InvalidValue`, and what `Session.fork` raises."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidValue(f"branches() takes how many, a whole number above zero, not {count!r}")
        made: list[Session] = []
        try:
            for _ in range(count):
                made.append(await session.fork())
        except BaseException:
            await asyncio.shield(cls(made).close())
            raise
        return cls(made)

    async def run(
        self, programs: Sequence[Program | str], *, tools: Tools = None, timeout: float | None = None
    ) -> list[ExecutionResult]:
        """Run a program in each branch, all at once, and return their results in the same order.

        `timeout` is each program's, in seconds. Raises `InvalidValue` if there are not as many programs as branches.
        """
        if isinstance(programs, (str, Program)) or len(programs) != len(self):
            raise InvalidValue(f"run() takes a sequence of {len(self)} programs, one for each branch")
        pairs = zip(self, programs, strict=True)
        return await asyncio.gather(*(branch.run(program, tools=tools, timeout=timeout) for branch, program in pairs))

    def keep(self, branch: int | Session) -> Session:
        """Return a branch, given by its place or itself, that the end of the block does not close: its user does."""
        if isinstance(branch, int):
            self._kept.add(range(len(self))[branch])
            return self._sessions[branch]
        if branch not in self._sessions:
            raise InvalidValue("keep() takes one of the branches, or its place among them")
        return self.keep(self._sessions.index(branch))

    async def close(self) -> None:
        """Close all that are not kept."""
        await asyncio.gather(
            *(session.close() for place, session in enumerate(self._sessions) if place not in self._kept)
        )

    @overload
    def __getitem__(self, place: int) -> Session: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Session, ...]: ...

    def __getitem__(self, place: int | slice) -> Session | tuple[Session, ...]:
        return self._sessions[place]

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions)
