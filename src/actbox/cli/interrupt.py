"""Interruption of a command by signals or a closed pipe, with a full cleanup."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .errors import BROKEN_PIPE, SIGNALLED

T = TypeVar("T")


class Interrupted(Exception):
    """The work was cancelled before its end. `exit_code` is what this process should report."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"interrupted (exit code {exit_code})")
        self.exit_code = exit_code


class Broken:
    """A thread-safe flag that tells a running command that the reader of its output is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._listener: Callable[[], None] | None = None

    def is_set(self) -> bool:
        """True if the reader is gone."""
        return self._set

    def set(self) -> None:
        """Set the flag, and call the listener at once."""
        with self._lock:
            self._set = True
            listener = self._listener
            if listener is not None:
                listener()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Register the function that `set()` calls; it is called at once if the flag is set. `None` removes it."""
        with self._lock:
            self._listener = listener
            if self._set and listener is not None:
                listener()


def run_interruptibly(work: Callable[[], Coroutine[Any, Any, T]], give_up_when: Broken | None = None) -> T:
    """Run a coroutine in a new event loop, so that it releases its resources however it ends.

    SIGINT, SIGTERM, SIGHUP and a reader that has gone away cancel it; once it has cleaned up, `Interrupted` is raised.
    A second signal ends this process as it would any other. A signal that the caller's caller ignores stays ignored.
    """
    cause: list[int] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        handled = [
            number
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        ]

        def cancel(exit_code: int) -> None:
            while handled:
                loop.remove_signal_handler(handled.pop())
            cause.append(exit_code)
            task.cancel()

        for number in handled:
            loop.add_signal_handler(number, cancel, SIGNALLED + number)
        if give_up_when is not None:
            give_up_when.listen(lambda: _soon(loop, cancel, BROKEN_PIPE))
        try:
            return await work()
        finally:
            if give_up_when is not None:
                give_up_when.listen(None)
            while handled:
                loop.remove_signal_handler(handled.pop())

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not cause:
            raise
        raise Interrupted(cause[0]) from None


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[int], None], exit_code: int) -> None:
    loop.call_soon_threadsafe(call, exit_code)
