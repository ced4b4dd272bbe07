"""A session's event loop, shared by all programs that use `await`, so that tasks go on from one to the next."""

from __future__ import annotations

import os
import selectors
import sys
from types import FrameType

from .fork import CannotFork
from .interrupts import NoInterrupts

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Coroutine, Optional, Tuple

_MAY_LOSE_ONE = sys.version_info < (3, 12)
_AGAIN_SECONDS = 0.15
_OF_A_SELECTOR_LOOP = ("_selector", "_close_self_pipe", "_make_self_pipe")


class SessionLoop:
    """The session's loop: made at the first program that awaits, and again if a program has closed it."""

    def __init__(self, interrupts: NoInterrupts) -> None:
        self._interrupts = interrupts
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._program: Optional[asyncio.Task[None]] = None
        self._cancelled = False

    @property
    def open(self) -> Optional[asyncio.AbstractEventLoop]:
        """The loop, or `None`."""
        return None if self._loop is None or self._loop.is_closed() else self._loop

    def run(self, program: Coroutine[Any, Any, None]) -> None:
        """Run a program to its end. Raises `KeyboardInterrupt` if it was interrupted while it waited."""
        import asyncio

        loop = self._loop = self.open or asyncio.new_event_loop()
        asyncio.set_event_loop(loop)  # `asyncio.run` in an earlier program leaves none set
        self._cancelled = False
        task: Optional[asyncio.Task[None]] = None
        try:
            with self._interrupts:  # otherwise an unknown task could remain and go on between programs
                task = self._program = loop.create_task(program)
            loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            if self._cancelled:  # raised as in code that does not wait, with the line where it waited
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise
        except (KeyboardInterrupt, SystemExit):
            # It may have been raised in another task; that also ends the program.
            while task is not None and not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.wait([task], timeout=_AGAIN_SECONDS if _MAY_LOSE_ONE else None))
            program.close() if task is None else task.cancelled() or task.exception()
            raise
        finally:
            self._program = None

    def interrupt(self, frame: Optional[FrameType]) -> bool:
        """Interrupt a waiting program, and return whether it was waiting; called by a signal handler with its frame.

        An event loop interrupted in the middle of its own work can lose a task for ever. So the loop is asked to raise
        `KeyboardInterrupt` itself or, if it runs our program, to cancel the program.
        """
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if not _is_loops_own(frame):
            return False
        if loop is self._loop and self._program is not None and not self._program.done():
            self._cancelled = True
            self._program.cancel()
            loop.call_soon_threadsafe(self._insist, loop, self._program)  # and wakes the loop
        else:
            loop.call_soon_threadsafe(_raise_interrupt)
        return True

    def _insist(self, loop: asyncio.AbstractEventLoop, program: asyncio.Task[None]) -> None:
        """Cancel a program again until it ends: before CPython 3.12 `asyncio.wait_for` may lose a cancellation."""
        if _MAY_LOSE_ONE and not program.done():
            program.cancel()
            loop.call_later(_AGAIN_SECONDS, self._insist, loop, program)

    @property
    def descriptors(self) -> Tuple[int, ...]:
        """The descriptors of the sockets by which the loop wakes itself."""
        pair = (getattr(self.open, name, None) for name in ("_ssock", "_csock"))
        return tuple(end.fileno() for end in pair if end is not None)

    def check_copyable(self) -> None:
        """Raise `CannotFork` if the loop is of a kind that `become_copy` does not know."""
        loop = self.open
        if loop is not None and not all(hasattr(loop, name) for name in _OF_A_SELECTOR_LOOP):
            raise CannotFork("its event loop is a %s, which cannot be copied" % type(loop).__name__)

    def become_copy(self) -> None:
        """In a forked copy, wait for the same things as the original, but with an own selector and wake-up socket."""
        loop: Any = self.open
        if loop is None:
            return
        old, own = loop._selector, selectors.DefaultSelector()
        for key in list(old.get_map().values()):
            own.register(key.fileobj, key.events, key.data)
        loop._selector = own
        old.close()
        loop._close_self_pipe()
        loop._make_self_pipe()

    def close(self) -> None:
        """Cancel the remaining tasks and let them clean up, as `asyncio.run` does at its end."""
        loop = self.open
        if loop is None:
            return
        import asyncio

        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _is_loops_own(frame: Optional[FrameType]) -> bool:
    """Return whether the running frame is the event loop's own work, not code of a task or callback."""
    import asyncio

    folder = os.path.dirname(asyncio.__file__)
    others = False
    while frame is not None:
        if frame.f_code is asyncio.BaseEventLoop._run_once.__code__:  # type: ignore[attr-defined]
            return True
        if frame.f_code is asyncio.Handle._run.__code__:  # a task's step calls the loop's methods too
            return not others
        others = others or not frame.f_code.co_filename.startswith(folder)
        frame = frame.f_back
    return False


def _raise_interrupt() -> None:
    raise KeyboardInterrupt
