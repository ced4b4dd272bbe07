"""Resets the signal mask and handlers that a process inherited."""

from __future__ import annotations

import contextlib
import signal


def reset_signals() -> None:
    """Unblock all signals and set each to Python's default handling.

    Otherwise a thread that blocks `SIGINT`, or a shell that ignores it for a background job, would keep programs, and
    their children, from ever being interrupted.
    """
    reset_handlers()
    unblock_signals()


def unblock_signals() -> None:
    """Let all signals arrive, those that have come already too."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def reset_handlers() -> None:
    """Set each signal to Python's default handling."""
    for number in range(1, signal.NSIG):
        # Python ignores two of its own: a broken pipe and a file that grows too long raise exceptions.
        if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ):
            continue
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        if signal.getsignal(number) is not usual:
            with contextlib.suppress(OSError, ValueError):  # the C library reserves a few
                signal.signal(number, usual)
