"""Sandboxes for one program each, with untouched workspaces."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from actbox.core.errors import SandboxStopped
from actbox.core.events import Event
from actbox.core.program import Program
from actbox.core.result import ExecutionResult

from .cancellation import whole
from .contract import NOT_RUNNING, Sandbox, Tools

if TYPE_CHECKING:
    from .mapping import RunAlone

MOST_UNTOUCHED: Final = 8
"""The most siblings kept for the next programs, if the last ones left their workspaces untouched."""
UNTOUCHED_SECONDS: Final = 1.0
"""How long they are kept."""
# How often, and how many times, a program looks whether a sibling is ready whose program is over.
_LOOK_SECONDS = 0.001
_MOST_LOOKS = 50


class OneCall:
    """One call of `map`, whose programs may follow one another in what an engine keeps from run to run."""

    def __init__(self, at_once: int | None) -> None:
        """`at_once` is the most siblings that are made at once; `None` is for any number."""
        self.making = None if at_once is None else asyncio.Semaphore(at_once)


class Sibling(Protocol):
    """The methods that a sandbox needs to have siblings."""

    async def start(self) -> None:
        """Make the sandbox ready; a second call does nothing."""

    async def stop(self) -> None:
        """End the sandbox's programs, and remove it; a second call does nothing."""

    def trace(self) -> object:
        """Return a change marker of the workspace. Equal markers mean it is untouched; `None` means unknown."""

    @property
    def is_quiet(self) -> bool:
        """True if no process of an earlier run is left."""

    def go_on(self, is_untouched: bool) -> bool:
        """Go on after a program; return whether the sandbox will be as good as new once it `is_quiet`."""


S = TypeVar("S", bound=Sibling)


class _Idle(NamedTuple, Generic[S]):
    """A sibling that no program has."""

    sibling: S
    trace: object
    """The change marker that its workspace must still have; `None` for a new workspace, which no program has seen."""
    call: OneCall | None
    """The call that its programs are of."""


class Siblings(Generic[S]):
    """Makes siblings of a sandbox, lends each to one program at a time, and stops them.

    A sibling with an untouched workspace is as good as new, and is lent again, within a second or so, because making
    and removing a workspace takes longer than most programs. The programs of one call of `map` may follow one another
    in what an engine keeps from run to run (`Traits.lanes`), so their siblings are lent to no other programs; a sibling
    of theirs may also get a new workspace instead of one that was touched. Where a call may make few siblings at once,
    its other programs wait for the first that is ready, new or used: so a hundred short programs need few siblings, and
    a hundred long ones get one each, as fast as they can be made.
    """

    def __init__(self, make: Callable[[], S], make_of_one_call: Callable[[], S] | None = None) -> None:
        """`make_of_one_call` makes the siblings whose programs are all of one call, if these differ."""
        self._make = make
        self._make_of_one_call = make_of_one_call or make
        self._lock = threading.Lock()  # event loops of several threads may want one at once
        self._all: set[S] = set()
        self._untouched: list[_Idle[S]] = []
        """The idle siblings with untouched or new workspaces, the latest last."""
        self._endings: set[asyncio.Task[None]] = set()
        self._stops = 0

    @asynccontextmanager
    async def one(self, call: OneCall | None = None) -> AsyncGenerator[S]:
        """Lend a sibling for a block, to a program of this call or of none. Raises the errors of starting it."""
        stops = self._stops
        taken = self._take(call)
        turn = call.making if call is not None and taken is None else None
        async with turn or nullcontext():
            if turn is not None:
                taken = await self._take_soon(call, stops)
            sibling, trace, _ = taken or _Idle(self._made(call), None, call)
            self._all.add(sibling)
            if taken is None:
                try:
                    await sibling.start()
                except BaseException:
                    await self._end(sibling)
                    raise
        try:
            if trace is None:
                trace = sibling.trace()
            yield sibling
        finally:
            is_untouched = trace is not None and sibling.trace() == trace
            idle = _Idle(sibling, trace if is_untouched else None, call)
            ends = self._keep(idle) if self._stops == stops and sibling.go_on(is_untouched) else sibling
            if ends is not sibling:
                asyncio.get_running_loop().call_later(UNTOUCHED_SECONDS, self._let_go, idle)
            if ends is not None:
                await self._end(ends)

    def _made(self, call: OneCall | None) -> S:
        return self._make() if call is None else self._make_of_one_call()

    async def stop(self) -> None:
        """Stop all siblings; new ones can be made afterwards."""
        with self._lock:
            self._stops += 1
            self._untouched.clear()
        there = list(self._all)
        await asyncio.gather(*(sibling.stop() for sibling in there))
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(task for task in self._endings if task.get_loop() is loop))
        self._all.difference_update(there)

    def _keep(self, idle: _Idle[S]) -> S | None:
        """Keep a sibling for the next program; return the one that has to end, as there may be no more."""
        with self._lock:
            if len(self._untouched) < MOST_UNTOUCHED:
                self._untouched.append(idle)
                return None
            for place, other in enumerate(self._untouched):
                if other.call is not idle.call:  # a call that may be over
                    del self._untouched[place]
                    self._untouched.append(idle)
                    return other.sibling
        return idle.sibling

    async def _take_soon(self, call: OneCall | None, stops: int) -> _Idle[S] | None:
        """Take an idle sibling of this call; wait a moment for one whose program has just ended. Else return `None`.

        `stops` is how often the siblings had been stopped when the caller began to wait. Raises `SandboxStopped`.
        """
        for _ in range(_MOST_LOOKS):
            if self._stops != stops:
                raise SandboxStopped(NOT_RUNNING)
            with self._lock:
                ending = [idle for idle in self._untouched if idle.call is call and not idle.sibling.is_quiet]
            taken = self._take(call)
            if taken is not None or not ending:
                return taken
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    def _take(self, call: OneCall | None) -> _Idle[S] | None:
        """Return an idle sibling of this call with an untouched workspace and no processes, or `None`."""
        with self._lock:
            for place, idle in enumerate(self._untouched):
                sibling = idle.sibling
                if idle.call is call and sibling.is_quiet and idle.trace in (None, sibling.trace()):
                    del self._untouched[place]
                    return idle
        return None

    async def _end(self, sibling: S) -> None:
        await whole(sibling.stop())
        self._all.discard(sibling)

    def _let_go(self, idle: _Idle[S]) -> None:
        """Stop a sibling, unless a program has taken it meanwhile."""
        with self._lock:
            others = [other for other in self._untouched if other is not idle]
            is_there = len(others) < len(self._untouched)
            self._untouched = others
        if is_there:
            task = asyncio.get_running_loop().create_task(self._end(idle.sibling))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)


class AloneInSiblings(Sandbox):
    """A sandbox whose `run_alone` programs each run in their own sibling."""

    _siblings: Siblings[Any]
    _siblings_at_once: int | None = None
    """How many siblings of one call are made at once: as many as the processors make fastest. `None` is for any."""

    @abstractmethod
    def _running(self) -> object:
        """Raise `SandboxStopped` where the sandbox is not running."""

    def go_on(self, is_untouched: bool) -> bool:
        """See `Sibling.go_on`."""
        return is_untouched

    async def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """See `Sandbox.stream_alone`."""
        self._running()
        async with self._siblings.one() as sibling:
            async with aclosing(sibling.stream(program, tools=tools, timeout=timeout)) as run:
                async for event in run:
                    yield event

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """See `Sandbox.run_alone`."""
        return await self._run_in_sibling(None, program, tools=tools, timeout=timeout)

    def run_alone_of_one_call(self) -> RunAlone:
        """See `Sandbox.run_alone_of_one_call`."""
        return partial(self._run_in_sibling, OneCall(self._siblings_at_once))

    async def _run_in_sibling(
        self, call: OneCall | None, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        self._running()
        async with self._siblings.one(call) as sibling:
            result: ExecutionResult = await sibling.run(program, tools=tools, timeout=timeout)
            return result
