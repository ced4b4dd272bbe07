"""Interrupts of a session's programs: turns `SIGINT` into `KeyboardInterrupt` in the program, and nowhere else."""

from __future__ import annotations

import signal
import threading
from types import FrameType

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class NoInterrupts:
    """Takes the place of `Interrupts` in an ordinary run, which has no interrupts."""

    def __enter__(self) -> None:
        """Begin work that must not be left half done."""

    def __exit__(self, *exc_info: Any) -> None:
        """End that work."""

    def check(self) -> None:
        """Raise `KeyboardInterrupt` now if an interrupt was kept back."""

    def listen(self) -> None:
        """Note that the next program is about to be read: interrupts from now on may be meant for it."""

    def wait(self, function: Callable[[], Any]) -> Any:
        """Call a function that waits, and that may be interrupted although the block around it may not."""
        return function()


class Interrupts(NoInterrupts):
    """Decides what an interrupt does when it comes.

    While no program runs, an interrupt does nothing. As a context manager this keeps interrupts back until the end of
    the block, for work that must not be left half done. Each run is told how many interrupts the host had sent before
    it, so that a late one is not taken for this run's. Must be created in the main thread.
    """

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._running = False
        self._held = 0
        self._kept_back = False
        self._seen = 0
        self._earlier = 0
        self._seen_before = 0
        self.elsewhere: Callable[[Optional[FrameType]], bool] = lambda frame: False
        """Called first, with the running frame; may handle the interrupt in another way, and then returns true."""
        self.forbid()

    def allow(self, earlier: int) -> None:
        """Let the program be interrupted; `earlier` is the number of interrupts meant for programs before it.

        Raises `KeyboardInterrupt` if one has come since the program was read.
        """
        self._earlier = earlier
        self._kept_back = False
        # A program may have set its own signal handler; it does not outlast its run.
        signal.signal(signal.SIGINT, self._on_signal)
        self._running = True
        if self._seen > max(earlier, self._seen_before):
            raise KeyboardInterrupt

    def listen(self) -> None:
        """See `NoInterrupts`. The host interrupts no program that has not been read."""
        self._seen_before = self._seen

    def forbid(self) -> None:
        """Ignore interrupts from now on, including one that was kept back."""
        self._running = False
        self._kept_back = False
        signal.signal(signal.SIGINT, self._on_signal)

    def become_copy(self) -> None:
        """In a forked copy, reset the counts: no interrupt was meant for it yet."""
        self._seen = self._earlier = self._seen_before = 0

    def __enter__(self) -> None:
        if threading.get_ident() == self._main:
            self._held += 1

    def __exit__(self, *exc_info: Any) -> None:
        if threading.get_ident() == self._main:
            self._held = max(self._held - 1, 0)
            if not self._held:
                self.check()

    def check(self) -> None:
        """Raise the interrupt that was kept back, if there is one."""
        if self._kept_back and threading.get_ident() == self._main:
            self._kept_back = False
            raise KeyboardInterrupt

    def wait(self, function: Callable[[], Any]) -> Any:
        """Allow interrupts while `function` waits; the function must lose nothing if interrupted."""
        if threading.get_ident() != self._main:
            return function()
        held, self._held = self._held, 0
        try:
            self.check()
            return function()
        finally:
            self._held = held

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        self._seen += 1
        if not self._running or self._seen <= self._earlier or self.elsewhere(frame):
            return
        if self._held:
            self._kept_back = True
        else:
            raise KeyboardInterrupt
