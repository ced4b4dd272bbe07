"""Turns an exception into an error that a model can act on: kind, message, line, the program's own frames, a hint."""

from __future__ import annotations

import errno
import linecache
import os
import sys
from types import CoroutineType, FrameType

from .failed_expressions import expressions_at, own_entry
from .notebook import is_installed, notebook_hint
from .tool_error import NotInstalled, ToolError
from .traces import is_own, trace

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Dict, Iterable, Optional, Set, Tuple

    # Takes an exception, the program's name and its tools' names; returns the kind, the limit that was reached (or
    # nothing) and a hint (or nothing).
    Classify = Callable[[BaseException, str, Iterable[str]], Tuple[str, str, str]]

MAX_MESSAGE = 20_000
MAX_TRACEBACK = 50_000


def describe_exception(
    error: BaseException, program_name: str, tool_names: Iterable[str] = (), classify: Optional[Classify] = None
) -> Dict[str, Any]:
    """Return a result's description of an exception that the program did not catch.

    The traceback shows the program's own frames. An exception whose class raises when it is inspected is described by
    its type's name only. A guest that knows other kinds passes its own `classify`.
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
    """Return the start and the end of a text longer than `most` characters, with the number of those left out."""
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
        hint = notebook_hint(error.text or "")
        if hint:
            return "SYNTAX", "", hint
        what = "correct line %d" % error.lineno if error.lineno else "correct it"
        return "SYNTAX", "", what + " and send the whole program again"
    if isinstance(error, ToolError):
        if getattr(error, "refused", False):  # a class of the program's own may lack it
            return "TOOL", "", "the call was refused approval; do not try it again unless asked to, go on without it"
        hint = _await_hint(error, program_name, tool_names)  # the argument may be another tool's unawaited call
        return "TOOL", "", hint or "change the call, or catch ToolError and go on without it"
    if isinstance(error, (TypeError, AttributeError)):
        hint = _await_hint(error, program_name, tool_names) or _type_hint(error, program_name)
        if hint:
            return "RUNTIME", "", hint
    if isinstance(error, MemoryError):
        return "MEMORY", "memory_mib", _TAKE_LESS
    if isinstance(error, NotInstalled):
        return error.kind, "", error.hint
    if isinstance(error, ModuleNotFoundError):
        if getattr(error, "blocked_by_policy", False):
            return "POLICY", "", "do without it; copies of it are blocked too"
        name = (error.name or "").partition(".")[0]
        if name not in sys.modules:
            return "MISSING_DEPENDENCY", "", _import_hint(error, name, program_name)
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return (
            "RUNTIME",
            "",
            "there is no keyboard: put the values into the program, or pass them as inputs",
        )
    if isinstance(error, OSError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return _classify_system(error)
    if isinstance(error, NameError):
        return "RUNTIME", "", _name_hint(error, tool_names)
    if _has_met_no_network(error):
        return "NETWORK", "", _FEW_WAYS if "HTTP_PROXY" in os.environ else _NO_WAY
    return "RUNTIME", "", ""


def _has_met_no_network(error: BaseException) -> bool:
    """Return whether a missing network is the root of an error; libraries wrap it in exceptions of their own."""
    socket = sys.modules.get("socket")
    seen: Set[int] = set()
    at: Optional[BaseException] = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        if isinstance(at, OSError) and at.errno in _NO_NETWORK:
            return True
        # With a proxy every host name resolves to this loopback, where few ports listen.
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
    if code == errno.EXDEV:  # or a directory in an overlay, whose move the kernel would have to record
        return "RUNTIME", "", "a rename ends at a mount, and takes no directory of an overlay mount: use shutil.move"
    if code == errno.ENOMEM:
        return "MEMORY", "memory_mib", _TAKE_LESS
    if code == errno.EMFILE:
        return "RUNTIME", "open_files", "close files when done with them (use `with`)"
    if _has_met_no_network(error):
        return "NETWORK", "", _FEW_WAYS if "HTTP_PROXY" in os.environ else _NO_WAY
    # The number in a TLS error is OpenSSL's, most often 1.
    if code == errno.EPERM and isinstance(error, PermissionError) and getattr(error, "filename", None) is None:
        return "POLICY", "", _refused_call_hint(error)
    if code in _DENIED and (code != errno.EPERM or isinstance(error, PermissionError)):
        return "POLICY", "", _WRITE_HERE
    if code == errno.EACCES and _is_elsewhere(error):  # gVisor's errno, where other kernels give EROFS
        return "POLICY", "", _WRITE_HERE
    return "RUNTIME", "", ""


_WRITE_HERE = "the sandbox does not allow this; write below /workspace or /tmp only"
_DO_WITHOUT = "the sandbox does not allow this call; do without it"
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


# Advice by names in a refused call: its function's, or its arguments'.
_INSTEAD_OF = {
    "kill killpg send_signal terminate": "a program may send signals only to processes that it has started",
    "F_SETLEASE F_NOTIFY": (
        "leases and notices of files are refused here: lock with fcntl.flock or fcntl.lockf, and call os.stat again to"
        " see changes"
    ),
    "mmap": _SHARE_FILES,
}


def _refused_call_hint(error: BaseException) -> str:
    """Return what to do instead of a refused system call that names no file."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    called = _names_of_call(entry) if entry is not None else set()
    return next((hint for names, hint in _INSTEAD_OF.items() if not called.isdisjoint(names.split())), _DO_WITHOUT)


def _names_of_call(entry: TracebackType) -> Set[str]:
    """Return the names of the function and of the arguments of the call at a traceback entry."""
    import ast

    names = set()
    for call in expressions_at(entry, (ast.Call,)):
        assert isinstance(call, ast.Call)
        parts = [call.func, *call.args, *(keyword.value for keyword in call.keywords)]
        names |= {getattr(part, "attr", getattr(part, "id", "")) for part in parts}
    return names


# Python's messages for a coroutine used as a value; "a coroutine was expected" means something else.
_COROUTINE = ("'coroutine'", "type coroutine", "coroutine found", "not coroutine")


def _await_hint(error: BaseException, program_name: str, tool_names: Iterable[str]) -> str:
    """Return a hint to add `await` if the program used a coroutine as if it were its result; else nothing."""
    text = _message(error)
    if not any(words in text for words in _COROUTINE):
        return ""
    name = _not_awaited(error, program_name, {*tool_names, "call_tool"})
    if not name:
        return "a coroutine stands where a value was meant: write `await` before the call that made it"
    return "`%s(…)` returns its value only when it is awaited: write `await %s(…)`" % (name, name)


def _not_awaited(error: BaseException, program_name: str, tool_names: Set[str]) -> str:
    import re

    frame, line = _own_line(error, program_name)
    if frame is None:
        return ""
    words = re.findall(r"\w+", line)
    for names in (frame.f_locals, frame.f_globals):
        for word in words:
            if type(names.get(word)) is CoroutineType:
                return str(names[word].__name__)
    if not any("await" in text for text in linecache.getlines(program_name)):
        return ""  # tools are plain calls there
    called = re.findall(r"(?<!await )\b(\w+)\s*\(", line)
    return next((name for name in called if name in tool_names), "")


def _own_line(error: BaseException, program_name: str) -> Tuple[Optional[FrameType], str]:
    """Return the innermost frame of the program in an error's traceback, and that frame's line of source."""
    entry = own_entry(error, program_name)
    return (None, "") if entry is None else (entry.tb_frame, linecache.getline(program_name, entry.tb_lineno))


def _import_hint(error: BaseException, name: str, program_name: str) -> str:
    """Return the hint for a missing module: a program need not import its tools and their types."""
    import re

    frame, line = _own_line(error, program_name)
    found = re.match(r"\s*from\s+[\w.]+\s+import\s+(.*)", line)
    there = [word for word in re.findall(r"\w+", found[1]) if frame and word in frame.f_globals] if found else []
    if there:
        return "%s: there without an import, so leave this line out" % ", ".join(there)
    if is_installed(name, editable=True):
        return "%s is an editable install, which programs do not see: install it as a package, or mount it" % name
    name = name or "the module"
    denied = _denied_directory()
    if denied:
        return "%s was not found, and programs may not read %s: on the host, `chmod -R go+rX` it" % (name, denied)
    return "%s is not installed in this environment; use the standard library or a package that is" % name


def _denied_directory() -> str:
    """Return the first directory of `sys.path` that this user may not read, "" if there is none."""
    for place in sys.path:
        try:
            os.scandir(place).close()
        except PermissionError:
            return place
        except OSError:
            pass
    return ""


def _type_hint(error: BaseException, program_name: str) -> str:
    """Return the hint for a class of a tool's signature: in a program its values are plain data."""
    import re

    found = re.match(r"'(dict|tuple)' object has no attribute '(\w+)'", _message(error))
    if found and found[1] == "tuple" and not hasattr(list, found[2]):
        return "a tuple, also a named one that a tool returns, has items without names here: write [0] for the first"
    if found and found[2] in (getattr(error, "obj", None) or ()):
        return "it is a dict here: write [%r] in place of .%s" % (found[2], found[2])
    entry = own_entry(error, program_name)
    hints = set() if entry is None else _class_hints(entry)
    return hints.pop() if len(hints) == 1 else ""


def _class_hints(entry: TracebackType) -> Set[str]:
    """Return the hints for the class of a tool's signature that a traceback entry's expression uses as on the host.

    There are several hints only before CPython 3.11, where an entry stands for all expressions of its line.
    """
    import ast

    hints = set()
    for used in expressions_at(entry, (ast.Call, ast.Attribute, ast.Subscript)):
        named: Optional[ast.AST] = None
        is_made_by_name = False
        if isinstance(used, ast.Call):
            named = used.func
            is_made_by_name = not used.args and all(keyword.arg for keyword in used.keywords)
            if isinstance(named, ast.Name) and named.id in ("isinstance", "issubclass") and len(used.args) == 2:
                named = used.args[1]  # a class, a tuple of them, or a union
        elif isinstance(used, (ast.Attribute, ast.Subscript)):
            named = used.value.func if isinstance(used.value, ast.Call) else used.value
        parts = ast.walk(named) if isinstance(named, (ast.Name, ast.Tuple, ast.BinOp)) else ()
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        hints.update(
            [hint for hint in (_class_hint(name, entry.tb_frame, is_made_by_name) for name in names) if hint][:1]
        )
    return hints


def _class_hint(name: str, frame: FrameType, is_made_by_name: bool) -> str:
    """Return what to write instead of a class of a tool's signature; nothing for any other name, or a correct call."""
    named: Any = frame.f_locals.get(name, frame.f_globals.get(name))
    fields = list(named.__annotations__) if type(named).__name__ == "_TypedDictMeta" else []
    if fields and not is_made_by_name:
        made = "%s(%s)" % (name, ", ".join("%s=…" % field for field in fields))
        return "%s is a dict here: make it as %s, read o[%r], and ask isinstance(o, dict)" % (name, made, fields[0])
    if type(named).__name__ == "_LiteralGenericAlias":
        return "%s stands for plain values here: write one of %s" % (name, ", ".join(map(repr, named.__args__)))
    if getattr(named, "__origin__", None) is tuple:
        return "%s is a plain tuple here: write its %d items in parentheses" % (name, len(named.__args__))
    return ""


def _name_hint(error: NameError, tool_names: Iterable[str]) -> str:
    import difflib
    import re

    found = re.match(r"name '(\w+)' is not defined", _message(error))
    name = getattr(error, "name", None) or (found[1] if found else "")
    if not name:  # the program's own error, or one that says all of this already
        return ""
    spawned = sys.modules.get("%s.spawned" % __name__.rpartition(".")[0])
    if spawned is not None and spawned.has_children() and "RemoteTraceback" in type(error.__cause__).__name__:
        return str(spawned.ABSENT % name)
    close = difflib.get_close_matches(name, list(tool_names), 1)
    return "there is a tool named %s" % close[0] if close else ""
