"""What is done when a program has ended: what it left is written out, and what came of it is sent."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading

from . import wire
from .channel import ChannelClosed, HostChannel
from .failure import cut
from .program import exit_code_of

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

# Characters of each text in a result that was too long for a message: six times as many bytes at most.
_SHORT_TEXT = 2_000

EXIT_CHANNEL_LOST = 76  # EX_PROTOCOL of sysexits.h: the program ended, and its result could not be sent


def note_exit(done: Dict[str, Any], stop: SystemExit) -> None:
    """Say in the result what `sys.exit(x)` means, and print what Python would print for it."""
    done["exit"], text = exit_code_of(stop)
    if text is not None:
        print(text, file=sys.stderr)
    if done["exit"]:
        said = "the program ended itself with exit code %d" % done["exit"]
        done["error"] = {"kind": "EXIT", "type": "SystemExit", "message": text or said}


def save_anyway(save_figures: Callable[[], None]) -> None:
    """Save the figures of a program that has failed already: that they cannot be saved is no further failure."""
    try:
        save_figures()
    except Exception as error:
        print("a figure that was open could not be saved: %s" % error, file=sys.stderr)


def wait_for_threads() -> None:
    """Do what Python does before it ends: wait for threads that are no daemons, then call what `atexit` was given."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)


def is_alone() -> bool:
    """Return whether this process has no children and never had one, and no other thread: nothing outlives its end."""
    import resource  # which is not everywhere where a guest runs

    if threading.active_count() > 1 or signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
        return False
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss:
        return False  # one that it has waited for, which may have left children of its own
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def flush_all() -> None:
    """Write out every buffered file that is still alive: the process ends without Python's own finalisation."""
    for held in gc.get_objects():
        # By type(), since asking an object for its class may run the program's code.
        if issubclass(type(held), (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            _flush(held)
    flush_output()


def flush_output() -> None:
    """Write out what was printed."""
    _flush(sys.stdout)
    _flush(sys.stderr)


def _flush(stream: Any) -> None:
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except Exception as error:  # the program may have closed the descriptor below it; nobody else is hurt
        if stream not in (sys.stdout, sys.stderr):
            print("a file could not be written out: %s" % error, file=sys.stderr)


def send_result(channel: HostChannel, done: Dict[str, Any]) -> bool:
    """Send the result, smaller if it must be; return whether the host can have it."""
    most = channel.max_bytes
    try:
        try:
            channel.send(done)
        except (wire.MessageTooLong, ValueError, RecursionError):
            for part in ("forms", "value"):
                done.pop(part, None)
            for holder, part in ((done, "text"), *((done.get("error", {}), key) for key in ("message", "traceback"))):
                if isinstance(holder.get(part), str):
                    holder[part] = cut(holder[part], _SHORT_TEXT)
            channel.max_bytes = most + wire.ENVELOPE_BYTES
            channel.send(done)
    except (ChannelClosed, wire.ProtocolError):
        return False
    finally:
        channel.max_bytes = most
    return True
