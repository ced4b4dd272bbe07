"""From an exception to a traceback of the program's own frames: those of the guest and of libraries are left out."""

from __future__ import annotations

import os
import sys
import traceback
import warnings

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List, Optional, Set, Tuple, Type, Union

_GUEST_FOLDER = __file__.rpartition("/")[0]
_LIBRARIES = tuple(
    {prefix + "/lib/" for prefix in (sys.prefix, sys.base_prefix)}
    | {os.path.dirname(os.__file__) + "/", "/usr/lib/", "<frozen "}
)
_PACKAGES = ("/site-packages/", "/dist-packages/")


def leave_out(*folders: str) -> None:
    """Leave out of tracebacks what lies below these folders too, or is called so."""
    global _LIBRARIES
    _LIBRARIES += folders


def is_own(filename: str) -> bool:
    """Return whether a file is neither the guest's nor a library's."""
    if filename.startswith(_GUEST_FOLDER) or filename.startswith(_LIBRARIES):
        return False
    return not any(folder in filename for folder in _PACKAGES)


def trace(error: BaseException, program_name: str) -> Tuple[str, Optional[int]]:
    """Return the traceback, and the line of the program that it leads to."""
    if isinstance(error, MemoryError):
        return _trace_without_memory(error, program_name)
    shown = traceback.TracebackException.from_exception(error)
    _keep_own_frames(shown, set())
    text = "".join(shown.format())
    if isinstance(error, SyntaxError) and error.filename == program_name:
        return text, error.lineno
    lines = [frame.lineno for frame in shown.stack if frame.filename == program_name]
    return text, lines[-1] if lines else None


def _keep_own_frames(shown: Optional[traceback.TracebackException], seen: Set[int]) -> None:
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    shown.stack[:] = [frame for frame in shown.stack if is_own(frame.filename)]
    _keep_own_frames(shown.__cause__, seen)
    _keep_own_frames(shown.__context__, seen)
    for part in getattr(shown, "exceptions", None) or ():
        _keep_own_frames(part, seen)


def _trace_without_memory(error: MemoryError, program_name: str) -> Tuple[str, Optional[int]]:
    """Read the frames with the least of memory, then give back what they hold."""
    frames: List[Tuple[str, int, str]] = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if is_own(code.co_filename):
            frames.append((code.co_filename, entry.tb_lineno, code.co_name))
        entry = entry.tb_next
    traceback.clear_frames(error.__traceback__)
    error.__traceback__ = None
    text = "Traceback (most recent call last):\n"
    text += "".join('  File "%s", line %d, in %s\n' % frame for frame in frames[-50:])
    lines = [line for name, line, _ in frames if name == program_name]
    return text + type(error).__name__ + "\n", lines[-1] if lines else None


def keep_guest_out_of_warnings() -> None:
    """Have warnings that Python puts down to the guest's own lines name no line: it is the program that they are about.

    Such as that of a coroutine which was never awaited: it comes when the guest lets go of the program's variables.
    """
    usual = warnings.formatwarning

    def formatwarning(
        message: Union[Warning, str], category: Type[Warning], filename: str, lineno: int, line: Optional[str] = None
    ) -> str:
        if filename.startswith(_GUEST_FOLDER):
            return "%s: %s\n" % (category.__name__, message)
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = formatwarning
