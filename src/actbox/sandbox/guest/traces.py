"""Formats an exception's traceback with the program's own frames only, without those of the guest and of libraries."""

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
_PACKAGES = ("/site-packages/", "/dist-packages/", "/opt/packages/")


def leave_out(*folders: str) -> None:
    """Leave files below these directories, or with these names, out of tracebacks too."""
    global _LIBRARIES
    _LIBRARIES += folders


def is_own(filename: str) -> bool:
    """Return whether a file belongs neither to the guest nor to a library."""
    if filename.startswith(_GUEST_FOLDER) or filename.startswith(_LIBRARIES):
        return False
    return not any(folder in filename for folder in _PACKAGES)


def trace(error: BaseException, program_name: str) -> Tuple[str, Optional[int]]:
    """Return the traceback, and the program's line that it leads to."""
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
    """Format the traceback of a MemoryError using little memory, then free what its frames hold."""
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
    """Leave the line out of warnings that Python attributes to the guest's code, because they are about the program.

    One such warning is for a coroutine that was never awaited: it comes when the guest frees the program's variables.
    """
    usual = warnings.formatwarning

    def formatwarning(
        message: Union[Warning, str], category: Type[Warning], filename: str, lineno: int, line: Optional[str] = None
    ) -> str:
        if filename.startswith(_GUEST_FOLDER):
            return "%s: %s\n" % (category.__name__, message)
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = formatwarning
