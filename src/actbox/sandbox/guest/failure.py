"""From an exception to an error that a model can act on: kind, message, line, the program's own frames, a hint."""

from __future__ import annotations

import errno
import linecache
import os
import sys
from types import CoroutineType

from .channel import ToolError
from .traces import is_own, trace

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Optional, Set, Tuple

    # From an exception, the program's name and those of its tools to the kind, the limit that was reached (or nothing)
    # and a hint (or nothing).
    Classify = Callable[[BaseException, str, Iterable[str]], Tuple[str, str, str]]

MAX_MESSAGE = 20_000
MAX_TRACEBACK = 50_000


def describe_exception(
    error: BaseException, program_name: str, tool_names: Iterable[str] = (), classify: Optional[Classify] = None
) -> Dict[str, Any]:
    """Return what a result says of an exception that the program did not catch.

    The traceback shows the program's own frames. An exception that cannot even be looked at, since its class runs code
    that raises, is told by the name of its type. A guest that knows other kinds gives a `classify` of its own.
    """
    try:
        return _describe(error, program_name, (classify or classified)(error, program_name, tool_names))
    except Exception as failure:
        message = "(it cannot be shown: looking at it raised %s)" % type(failure).__name__
        return {"kind": "RUNTIME", "type": type(error).__name__, "message": message}


def _describe(error: BaseException, program_name: str, found: Tuple[str, str, str]) -> Dict[str, Any]:
    kind, limit, hint = found
    text, line = trace(error, program_name)
    message = _message(error)
    if isinstance(error, MemoryError) and not message:
        message = "out of memory"
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": cut(message, MAX_MESSAGE),
        "line": line,
        "traceback": cut(text, MAX_TRACEBACK),
        "hint": hint,
        "limit": limit,
    }


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return str(error.msg)
    try:
        return str(error)
    except Exception as failure:
        return "(its message cannot be shown: str() raised %s)" % type(failure).__name__


def cut(text: str, most: int) -> str:
    """Return the beginning and the end of a text that is longer than `most` characters, and how much is missing."""
    if len(text) <= most:
        return text
    return text[: most // 2] + "\n… %d characters left out …\n" % (len(text) - most) + text[-most // 2 :]


_NO_NETWORK = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
_NO_WAY = "this sandbox has no network; use the tools or the files that it was given"
_FEW_WAYS = "only hosts that the policy allows can be reached, by HTTP through the proxy that HTTP_PROXY names"
_TAKE_LESS = "work on less at a time: read in chunks, keep fewer columns, use generators"
_DENIED = {errno.EPERM, errno.EROFS}


def classified(error: BaseException, program_name: str, tool_names: Iterable[str]) -> Tuple[str, str, str]:
    """Return the kind, the limit that was reached (or nothing) and a hint (or nothing)."""
    if isinstance(error, SyntaxError) and error.filename == program_name and _raised_by_compiling(error):
        what = "correct line %d" % error.lineno if error.lineno else "correct it"
        return "SYNTAX", "", what + " and send the whole program again"
    if isinstance(error, ToolError):
        if getattr(error, "refused", False):  # a class of the program's own may lack it
            return "TOOL", "", "the call was refused approval; do not try it again unless asked to, go on without it"
        hint = _await_hint(error, program_name, tool_names)  # an argument may be what another tool has not returned yet
        return "TOOL", "", hint or "correct the call, or catch ToolError and go on without it"
    if isinstance(error, (TypeError, AttributeError)):
        hint = _await_hint(error, program_name, tool_names)
        if hint:
            return "RUNTIME", "", hint
    if isinstance(error, MemoryError):
        return "MEMORY", "memory_mib", _TAKE_LESS
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name not in sys.modules:
            return (
                "MISSING_DEPENDENCY",
                "",
                "%s is not installed in this environment (an editable install is not seen);"
                " use the standard library or a package that is" % name,
            )
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return (
            "RUNTIME",
            "",
            "nobody is there to type: put the values into the program, or pass them as inputs",
        )
    if isinstance(error, OSError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return _classify_system(error)
    if isinstance(error, NameError):
        return "RUNTIME", "", _name_hint(error, tool_names)
    if _has_met_no_network(error):
        return "NETWORK", "", _FEW_WAYS if "HTTP_PROXY" in os.environ else _NO_WAY
    return "RUNTIME", "", ""


def _has_met_no_network(error: BaseException) -> bool:
    """Return whether a missing network is at the bottom of an error: libraries wrap it in exceptions of their own."""
    socket = sys.modules.get("socket")
    seen: Set[int] = set()
    at: Optional[BaseException] = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        if isinstance(at, OSError) and at.errno in _NO_NETWORK:
            return True
        # Every name leads to this loopback where there is a proxy, on which few ports are listened to.
        if isinstance(at, ConnectionRefusedError) and "HTTP_PROXY" in os.environ:
            return True
        if socket is not None and isinstance(at, socket.gaierror):
            return True
        at = at.__cause__ or at.__context__
    return False


def _raised_by_compiling(error: SyntaxError) -> bool:
    entry = error.__traceback__
    while entry is not None:
        if is_own(entry.tb_frame.f_code.co_filename):
            return False
        entry = entry.tb_next
    return True


def _classify_system(error: BaseException) -> Tuple[str, str, str]:
    code = getattr(error, "errno", None)
    if isinstance(error, RuntimeError) or (isinstance(error, BlockingIOError) and code == errno.EAGAIN):
        return "PROCESSES", "processes", "start fewer processes and threads at once, and wait for them"
    if code == errno.EFBIG:
        return "DISK", "file_mib", "write smaller files"
    if code in (errno.ENOSPC, errno.EDQUOT):
        return "DISK", "workspace_mib", "write less, or remove files that are no longer needed"
    if code == errno.EXDEV:  # or a folder in an overlay, which the kernel would have to mark as moved
        return "RUNTIME", "", "a rename ends at a mount, and takes no folder of an overlay mount: use shutil.move"
    if code == errno.ENOMEM:
        return "MEMORY", "memory_mib", _TAKE_LESS
    if code == errno.EMFILE:
        return "RUNTIME", "open_files", "close files when done with them (use `with`)"
    if _has_met_no_network(error):
        return "NETWORK", "", _FEW_WAYS if "HTTP_PROXY" in os.environ else _NO_WAY
    # Of an error of TLS the number is one of OpenSSL's own, of which 1 is the most usual.
    if code == errno.EPERM and _has_mapped(error):
        return "POLICY", "", _SHARE_FILES
    if code in _DENIED and (code != errno.EPERM or isinstance(error, PermissionError)):
        return "POLICY", "", _WRITE_HERE
    if code == errno.EACCES and _is_elsewhere(error):  # as gVisor says it, where another kernel says EROFS
        return "POLICY", "", _WRITE_HERE
    return "RUNTIME", "", ""


_WRITE_HERE = "the sandbox does not allow this; write below /workspace or /tmp only"
_SHARE_FILES = (
    "here anonymous memory cannot be shared: use mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),"
    " or to share it with processes a file in /dev/shm, or multiprocessing.shared_memory"
)


def _is_elsewhere(error: BaseException) -> bool:
    """Return whether an error names a file by an absolute path that is neither below `/workspace` nor below `/tmp`."""
    name = getattr(error, "filename", None)
    if not isinstance(name, (str, bytes)):
        return False
    path = os.path.normpath(os.fsdecode(name))
    return path.startswith("/") and not path.startswith(("/workspace/", "/tmp/"))


def _has_mapped(error: BaseException) -> bool:
    """Return whether an error is one of the code that calls `mmap`, and of no file."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry is not None and "mmap" in entry.tb_frame.f_code.co_names and getattr(error, "filename", None) is None


# How Python words that a coroutine stands where a value was meant; "a coroutine was expected" is another matter.
_COROUTINE = ("'coroutine'", "type coroutine", "coroutine found", "not coroutine")


def _await_hint(error: BaseException, program_name: str, tool_names: Iterable[str]) -> str:
    """Return what to write where a program has used a coroutine as if it were what that returns; else nothing."""
    text = _message(error)
    if not any(words in text for words in _COROUTINE):
        return ""
    name = _not_awaited(error, program_name, {*tool_names, "call_tool"})
    if not name:
        return "a coroutine stands where a value was meant: write `await` before the call that made it"
    return "`%s(…)` returns its value only when it is awaited: write `await %s(…)`" % (name, name)


def _not_awaited(error: BaseException, program_name: str, tool_names: Set[str]) -> str:
    import re

    frame = None
    line = ""
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == program_name:
            frame, line = entry.tb_frame, linecache.getline(program_name, entry.tb_lineno)
        entry = entry.tb_next
    if frame is None:
        return ""
    words = re.findall(r"\w+", line)
    for names in (frame.f_locals, frame.f_globals):
        for word in words:
            if type(names.get(word)) is CoroutineType:
                return str(names[word].__name__)
    if not any("await" in text for text in linecache.getlines(program_name)):
        return ""  # there tools are plain calls
    called = re.findall(r"(?<!await )\b(\w+)\s*\(", line)
    return next((name for name in called if name in tool_names), "")


def _name_hint(error: NameError, tool_names: Iterable[str]) -> str:
    import difflib

    name = getattr(error, "name", None) or str(error).partition("'")[2].partition("'")[0]
    close = difflib.get_close_matches(name, list(tool_names), 1)
    return "there is a tool named %s" % close[0] if close else ""
