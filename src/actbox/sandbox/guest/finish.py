"""The steps after a program has ended: flush its files, and send its result."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
import weakref

from . import wire
from .channel import ChannelClosed, HostChannel
from .error_hints import cut
from .figures import save_open_figures
from .program import exit_code_of

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence

    Reference = Callable[[], Optional[Any]]

_FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
# The most characters of each text in a shortened result; they take at most six times as many bytes.
_SHORT_TEXT = 2_000


def note_exit(done: Dict[str, Any], stop: SystemExit) -> None:
    """Set the result's exit code and error from `sys.exit(x)`, and print what Python would print for it."""
    done["exit"], text = exit_code_of(stop)
    if text is not None:
        print(text, file=sys.stderr)
    if done["exit"]:
        said = "the program ended itself with exit code %d" % done["exit"]
        done["error"] = {"kind": "EXIT", "type": "SystemExit", "message": text or said}


def save_anyway() -> None:
    """Save the figures of a program that has failed; an error in saving is only printed."""
    try:
        save_open_figures()
    except Exception as error:
        print("a figure that was open could not be saved: %s" % error, file=sys.stderr)


def wait_for_threads() -> None:
    """Wait for non-daemon threads, then run the `atexit` functions, as Python does before it ends."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        if atexit._ncallbacks():
            atexit._run_exitfuncs()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)


def is_alone() -> bool:
    """Return whether this process has no other thread and never had a child, so that nothing outlives it."""
    import resource  # some platforms of guests lack it

    if threading.active_count() > 1 or signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
        return False
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss:
        return False  # it has waited for a child, which may have left children of its own
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def flush_all(frozen: Sequence[Reference] = ()) -> List[Reference]:
    """Flush every open buffered file, because the process ends without Python's own finalization; return references.

    `frozen` are the files that the collector no longer lists, since `gc.freeze`.
    """
    files = {id(file): file for file in (reference() for reference in frozen) if file is not None}
    # By type() and id(), because an object's `__class__` and the hash of its type may be the program's code.
    present = gc.get_objects()
    types = list(map(type, present))
    known = dict(zip(map(id, types), types))  # noqa: B905 (there is none before CPython 3.10)
    wanted = {number for number, kind in known.items() if issubclass(kind, _FILES)}
    if wanted:
        files.update((id(held), held) for held in present if id(type(held)) in wanted)
    for file in files.values():
        _flush(file)
    flush_output()
    return [weakref.ref(file) for file in files.values()]


def flush_output() -> None:
    """Flush standard output and error."""
    _flush(sys.stdout)
    _flush(sys.stderr)


def _flush(stream: Any) -> None:
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except Exception as error:  # the program may have closed the descriptor below it; harmless
        if stream not in (sys.stdout, sys.stderr):
            print("a file could not be written out: %s" % error, file=sys.stderr)


def send_result(channel: HostChannel, done: Dict[str, Any]) -> bool:
    """Send the result, shortened if it is too long; return whether it was sent."""
    most = channel.max_bytes
    try:
        if _is_sent(channel, done):
            return True
        if done.pop("forms", None) and _is_sent(channel, done):
            return True
        if done.pop("value", None) is not None:
            done["lost"] = "value: it is too long for a message"
        done.pop("tagged", None)
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


def _is_sent(channel: HostChannel, done: Dict[str, Any]) -> bool:
    """Send the result; return false if it was too long."""
    try:
        channel.send(done)
    except (wire.MessageTooLong, ValueError, RecursionError):
        return False
    return True
