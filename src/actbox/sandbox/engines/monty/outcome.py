"""Turns the library's report of a failed program into an error that a model can act on."""

from __future__ import annotations

import builtins
import re
import signal
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, Literal

from actbox.core.counted import counted
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.limits import Limits
from actbox.sandbox.embedded import Outcome
from actbox.sandbox.run_end import EXIT_SANDBOX_FAILED, EXIT_TIMEOUT
from actbox.tools.problems import suggestion

from .declarations import compiles
from .lacking import lacking
from .steps import Failed, IllTyped, Lost, findings_in

_KILLED: Final = 137
_MAX_MESSAGE = 20_000
_MAX_TRACEBACK = 50_000
_FILE = re.compile(r'^(  File )"<python-input-(\d+)>"', re.MULTILINE)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_NAME = re.compile(r"name '(\w+)' is not defined")
_TOO_LARGE = re.compile(r"frame of \d+ bytes exceeds the maximum")
_NOT_YET = re.compile(r"(not|n't) yet support|not supported in this environment|mode is not supported")

Failure = Literal["tool", "refused", "network"]
"""How a call failed: in the tool, by a refused approval, or as a refused or failed HTTP request."""

_OF_FAILURES: Final[Mapping[Failure, tuple[ErrorKind, str]]] = {
    "tool": (ErrorKind.TOOL, "change the call, or catch ToolError and go on without it"),
    "refused": (
        ErrorKind.TOOL,
        "the call was refused approval; do not try it again unless asked to, go on without it",
    ),
    "network": (ErrorKind.NETWORK, "only hosts that the policy allows can be reached, and as it allows"),
}
_IN_LINUX = "run the program in the linux engine, which is full CPython"
_INSTEAD = f"; write it otherwise, or {_IN_LINUX}"
_NOT_HERE = f"the monty engine runs a part of Python, which has not this{_INSTEAD}"


def failed(
    error: Failed,
    names: Mapping[int, str],
    current: int,
    limits: Limits,
    failures: Mapping[str, tuple[Failure, str]],
    functions: Collection[str],
    source: str,
) -> Outcome:
    """Return the outcome of a failed program.

    `names` maps feeds to file names; `current` is this program's feed. `failures` maps messages of failed calls to the
    kind of failure and the exception raised; `functions` are the program's tools, and `source` is its code.
    """
    type_, message = error.type, error.message
    failure, raised = failures.get(message, (None, ""))
    if failure == "network" and type_ not in ("OSError", "PermissionError"):
        failure = None
    elif failure in ("tool", "refused"):
        failure = failure if type_ == raised else None
        type_ = "ToolError" if failure else type_
    lines = [frame.line for frame in error.frames if frame.feed == current]
    info = ErrorInfo(
        kind=ErrorKind.RUNTIME,
        type=type_,
        message=_cut(message, _MAX_MESSAGE),
        line=lines[-1] if lines else None,
        traceback=_cut(_traceback(error, names, type_), _MAX_TRACEBACK),
    )
    if error.is_syntax and compiles(source):
        return _one(replace(info, kind=ErrorKind.UNSUPPORTED, hint=_NOT_HERE))
    if error.is_syntax:
        hint = f"correct line {info.line} and send the whole program again" if info.line else "correct it"
        return _one(replace(info, kind=ErrorKind.SYNTAX, hint=hint))
    if failure is not None:
        kind, hint = _OF_FAILURES[failure]
        return _one(replace(info, kind=kind, hint=hint))
    if type_ == "SystemExit":
        return _exit(info)
    if (limited := _limited(info, limits)) is not None:
        return limited
    return _one(_classified(info, functions))


def ill_typed(error: IllTyped) -> Outcome:
    """Return the outcome of a program that failed the type check."""
    findings = findings_in(error)
    line = findings[0].line if findings else None
    wrong = next((finding for finding in findings if finding.rule == "invalid-syntax"), None)
    if wrong is not None:
        line, _, words = wrong
        hint = f"correct line {line} and send the whole program again"
        return _one(ErrorInfo(kind=ErrorKind.SYNTAX, type="SyntaxError", message=words, line=line, hint=hint))
    said = "; ".join(f"line {line}: {words} [{rule}]" for line, rule, words in findings) or str(error)
    return _one(
        ErrorInfo(
            kind=ErrorKind.TYPE,
            message=_cut(said, _MAX_MESSAGE),
            line=line,
            traceback=_cut(str(error), _MAX_TRACEBACK),
            hint="the program did not begin; correct these lines and send the whole program again",
        )
    )


def lost(error: Lost) -> Outcome:
    """Return the outcome of a program whose interpreter has ended."""
    if not error.signal:
        info = ErrorInfo(kind=ErrorKind.SANDBOX, message=f"the interpreter failed: {error}")
        return Outcome(exit_code=EXIT_SANDBOX_FAILED, error=info)
    try:
        name = signal.Signals(error.signal).name
    except ValueError:
        name = f"signal {error.signal}"
    message = f"the interpreter was ended by {name} while it ran the program"
    hint = f"the program is too much for the interpreter{_INSTEAD}"
    info = ErrorInfo(kind=ErrorKind.CRASH, type=name, message=message, hint=hint)
    return Outcome(exit_code=128 + error.signal, error=info)


def unsupported(message: str, hint: str, line: int | None = None) -> Outcome:
    """Return the outcome of a program that this engine does not support."""
    return _one(ErrorInfo(kind=ErrorKind.UNSUPPORTED, message=message, hint=hint, line=line))


def not_called(method: str, line: int) -> Outcome:
    """Return the outcome of a program whose class defines a special method that the interpreter ignores."""
    return unsupported(f"the monty engine takes no notice of {method}", f"do without it, or {_IN_LINUX}", line)


def _one(info: ErrorInfo) -> Outcome:
    return Outcome(exit_code=1, error=info)


def _exit(info: ErrorInfo) -> Outcome:
    if not info.message:
        return Outcome()
    code = int(info.message) & 0xFF if info.message.lstrip("-").isdecimal() else 1
    if code == 0:
        return Outcome()
    info = replace(info, kind=ErrorKind.EXIT, message=f"the program ended itself with exit code {code}")
    return Outcome(exit_code=code, error=info)


def _limited(info: ErrorInfo, limits: Limits) -> Outcome | None:
    """Return the outcome of a program that exceeded the interpreter's time or memory limit; else `None`."""
    if info.type == "TimeoutError" and info.message.startswith("feed time limit exceeded"):
        message = f"the program used more than {counted(float(limits.cpu_seconds), 'second')} of processor time"
        hint = "use a faster algorithm, or run it in the linux engine, whose CPython is faster and has NumPy"
        kind, limit, code = ErrorKind.TIMEOUT, "cpu_seconds", EXIT_TIMEOUT
    elif info.type == "MemoryError" and ("memory limit" in info.message or not info.message):
        message = f"the program used more than {limits.memory_mib} MiB of memory"
        hint = "work on less at a time"
        kind, limit, code = ErrorKind.MEMORY, "memory_mib", _KILLED
    else:
        return None
    where, found, _ = info.traceback.rpartition(f"{info.type}: {info.message}")
    text = f"{where}{message}\n" if found and "  File " in where else ""
    error = ErrorInfo(kind=kind, message=message, line=info.line, traceback=text, hint=hint, limit=limit)
    return Outcome(exit_code=code, error=error)


def _classified(info: ErrorInfo, functions: Collection[str]) -> ErrorInfo:
    missing = _NO_MODULE.match(info.message) if info.type == "ModuleNotFoundError" else None
    if missing is not None:
        whose = "Python's standard library" if missing[1].partition(".")[0] in sys.stdlib_module_names else "packages"
        hint = f"the monty engine has no module {missing[1]}; the linux engine has {whose}"
        return replace(info, kind=ErrorKind.UNSUPPORTED, hint=hint)
    if info.type == "ImportError" or info.type == "NotImplementedError" or _NOT_YET.search(info.message):
        return replace(info, kind=ErrorKind.UNSUPPORTED, hint=_NOT_HERE)
    if info.type == "RuntimeError" and info.message.startswith("Internal error in monty"):
        return replace(info, kind=ErrorKind.UNSUPPORTED, hint=f"the monty engine has a fault here{_INSTEAD}")
    if missed := lacking(info.type, info.message):
        return replace(info, kind=ErrorKind.UNSUPPORTED, hint=f"the monty engine's {missed}{_INSTEAD}")
    name = _NO_NAME.match(info.message) if info.type == "NameError" else None
    if name is not None:
        return _no_name(info, name[1], functions)
    if info.type == "OSError" and info.message.startswith("[Errno 28]"):
        hint = "write less, or remove files that are no longer needed"
        return replace(info, kind=ErrorKind.DISK, limit="workspace_mib", hint=hint)
    if info.type == "OSError" and info.message.startswith("[Errno 12]"):
        hint = "the file is larger than all the memory that the program may use: read a smaller one"
        return replace(info, kind=ErrorKind.MEMORY, limit="memory_mib", hint=hint)
    if info.type == "OSError" and info.message.startswith("[Errno 27]"):
        return replace(info, kind=ErrorKind.DISK, limit="file_mib", hint="write smaller files")
    if info.message.startswith(("[Errno 30]", "[Errno 13]")):
        return replace(info, kind=ErrorKind.POLICY, hint="the sandbox does not allow this; write below /workspace only")
    if _TOO_LARGE.search(info.message):
        return replace(info, hint="give less at once: a summary, or a file below output/ for what is long")
    if info.type == "RecursionError":
        return replace(info, hint="calls are nested too deeply; use a loop")
    return info


def _no_name(info: ErrorInfo, name: str, functions: Collection[str]) -> ErrorInfo:
    if hasattr(builtins, name) or name in ("exit", "quit"):
        hint = f"the monty engine has no {name}(){_INSTEAD}"
        if name == "input":
            hint = "there is no keyboard: put the values into the program, or pass them as inputs"
        return replace(info, kind=ErrorKind.UNSUPPORTED, hint=hint)
    if name == "http_request":
        return replace(info, kind=ErrorKind.NETWORK, hint="this sandbox has no network; use the tools or the files")
    meant = suggestion(name, functions)
    return replace(info, hint=f"there is a tool named {meant}" if meant else "")


def _traceback(error: Failed, names: Mapping[int, str], type_: str) -> str:
    def named(found: re.Match[str]) -> str:
        return f'{found[1]}"{names.get(int(found[2]), "program.py")}"'

    text = _FILE.sub(named, error.text)
    if type_ != error.type:  # the traceback's last line names the library's type
        start = text.rfind(f"{error.type}: {error.message}")
        text = text[:start] + type_ + text[start + len(error.type) :] if start >= 0 else text
    return text if text.endswith("\n") else text + "\n"


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n… {len(text) - most} characters left out …\n{text[-most // 2 :]}"
