"""The outcome of a program, from its guest's result and its worker's report."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.limits import Limits
from actbox.sandbox.embedded import Outcome
from actbox.sandbox.embedded.http_request import NAME as HTTP_REQUEST
from actbox.sandbox.run_end import EXIT_SANDBOX_FAILED, Ending, lost_value, verdict

from .program import Ended

_ABORTED: Final = 134  # the code for SIGABRT
_KILLED: Final = 137  # and for SIGKILL
_NO_NETWORK = "networking not enabled"
_NOT_UTF_8: Final = "Illegal byte sequence"
_ONLY_STANDARD: Final = (
    "the wasm engine has the standard library only, without what needs processes, threads or compiled packages;"
    " the linux engine has {name} where it is installed"
)
# Names in `os` and `signal` for processes on other systems.
_OF_PROCESSES: Final = (
    r"fork\w*|register_at_fork|exec[lv]\w*|spawn\w+|posix_spawn\w*|system|wait\w*|W[A-Z]+|P_[A-Z]+|POSIX_SPAWN_\w+"
    r"|kill\w*|getppid|[gs]etpgid|[gs]etpgrp|[gs]etsid|nice|pidfd_\w+|pipe2?|startfile|openpty"
)
_KINDS: Final = (
    ("no threads; use asyncio, or an engine of full CPython:", re.compile(r"can't start new thread")),
    (
        "no processes;",
        re.compile(
            r"does not support processes|lacks multiprocessing\.synchronize"
            r"|^No module named '(_multiprocessing|_posixsubprocess|_posixshmem)'"
            rf"|^module 'os' has no attribute '({_OF_PROCESSES})'$"
            rf"|^cannot import name '({_OF_PROCESSES})' from 'os'"
            r"|^name 'execve?' is not defined$"  # which os.execl and its like call
        ),
    ),
    ("no time zones by name;", re.compile(r"^'No time zone found with key ")),
    ("no links in the file system;", re.compile(r"no links can be made in this sandbox")),
    ("no sockets;", re.compile(r"^'_DummySocket' object has no attribute")),
)
_NO_ATTRIBUTE: Final = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'$")
_NO_NAME: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_ERRORS: Final = (
    *("AttributeError", "ImportError", "ModuleNotFoundError", "NameError"),
    *("NotImplementedError", "OSError", "RuntimeError", "ZoneInfoNotFoundError"),
)


def outcome_of(ended: Ended, limits: Limits) -> Outcome:
    """Return the outcome of a program that ended by itself, or with its worker."""
    report = ended.report or {}
    cpu_ms = max(0.0, float(report.get("cpu_ms", 0.0)))
    peak = int(report.get("peak_bytes", 0))
    if ended.broke_rules:
        error = ErrorInfo(
            kind=ErrorKind.PROTOCOL,
            message=f"the guest broke the rules of the channel: {ended.broke_rules}",
            hint="do not use what belongs to the sandbox itself",
        )
        return Outcome(error=error, exit_code=EXIT_SANDBOX_FAILED, cpu_ms=cpu_ms)
    if ended.limit == "workspace_mib":
        most = f"{limits.workspace_mib} MiB to /workspace or /tmp"
        if limits.full_disk == "disk_mib":
            most = f"{limits.disk_mib} MiB to /workspace and /tmp together"
        error = ErrorInfo(
            kind=ErrorKind.DISK,
            message=f"the program has written more than {most}",
            limit=ended.limit,
            hint="write less, or remove files that are no longer needed",
        )
        return Outcome(error=error, exit_code=_KILLED, cpu_ms=cpu_ms)
    if ended.limit:
        code, stopped = verdict(None, Ending(limit=ended.limit), None, limits)
        return Outcome(error=stopped, exit_code=code, cpu_ms=limits.cpu_seconds * 1000)
    if ended.done is None:
        code, failure = _without_result(ended)
        return Outcome(error=failure, exit_code=code, cpu_ms=cpu_ms)
    done = ended.done
    return Outcome(
        value=done.value,
        value_text=done.value_text,
        value_forms=done.forms,
        warnings=lost_value(done.lost),
        error=None if done.error is None else _adapted(done.error, ended.unreached),
        exit_code=done.exit_code,
        cpu_ms=cpu_ms,
        max_rss_bytes=peak,
    )


def _adapted(error: ErrorInfo, unreached: Collection[str]) -> ErrorInfo:
    """Return an error with a kind and a hint that fit this engine."""
    if hint := lacking(error.type or "", error.message):
        return replace(error, kind=ErrorKind.UNSUPPORTED, hint=hint, limit="")
    if error.type == "OSError" and _NOT_UTF_8 in error.message:
        return replace(error, hint="the names of files are UTF-8 in this sandbox: choose another name")
    if error.type in ("OSError", "PermissionError") and error.message in unreached:
        hint = "only hosts that the policy allows can be reached, and as it allows"
        return replace(error, kind=ErrorKind.NETWORK, hint=hint)
    no_network = _NO_NETWORK in error.message or (error.type == "NameError" and f"'{HTTP_REQUEST}'" in error.message)
    if error.kind is ErrorKind.RUNTIME and no_network:
        hint = "this sandbox has no network; use the tools or the files that it was given"
        return replace(error, kind=ErrorKind.NETWORK, hint=hint)
    if error.kind is ErrorKind.MISSING_DEPENDENCY:
        name = error.message.partition("'")[2].partition("'")[0].partition(".")[0] or "it"
        return replace(error, hint=_ONLY_STANDARD.format(name=name))
    return error


def _without_result(ended: Ended) -> tuple[int, ErrorInfo]:
    """Return the exit code and error of a program for which there is no result."""
    if not ended.has_begun:
        message = "the worker process had ended before the program could begin"
        return EXIT_SANDBOX_FAILED, ErrorInfo(kind=ErrorKind.SANDBOX, message=message, hint="run it again")
    if ended.report is None:
        message = "the interpreter crashed, as it does where values or calls are nested very deeply"
        error = ErrorInfo(kind=ErrorKind.CRASH, message=message, hint="nest and recurse less deeply")
        return 128 - ended.exit_code if -64 < ended.exit_code < 0 else _ABORTED, error
    if path := ended.report.get("replaced"):
        message = f"{path} is another than when the sandbox was opened: something has come to lie in its place"
        error = ErrorInfo(kind=ErrorKind.SANDBOX, message=message, hint="make the policy and the sandbox anew")
        return EXIT_SANDBOX_FAILED, error
    failure = str(ended.report.get("failure", "")) or "it ended without a result"
    if "Exited with i32 exit status" in failure:
        message = "the program ended itself at once, with os._exit() or a fatal error"
        return 1, ErrorInfo(
            kind=ErrorKind.EXIT, message=message, hint="sys.exit(code) ends a program and keeps its code"
        )
    if "exceeds memory limits" in failure:
        message = "the interpreter alone takes more memory than the program may"
        hint = "Limits.memory_mib must be 16 at least"
        return _KILLED, ErrorInfo(kind=ErrorKind.MEMORY, message=message, limit="memory_mib", hint=hint)
    if "call stack exhausted" in failure:
        message = "the program is nested too deeply: the interpreter's stack is used up"
        return 1, ErrorInfo(kind=ErrorKind.RUNTIME, type="RecursionError", message=message, hint="recurse less deeply")
    first = failure.strip().splitlines()[0][:300]
    return _ABORTED, ErrorInfo(kind=ErrorKind.CRASH, message=f"the interpreter was ended: {first}")


def lacking(type: str, message: str) -> str:
    """Return a hint if an error means that this engine lacks a feature, naming an engine that has it; else ""."""
    if type not in _ERRORS:
        return ""
    for what, words in _KINDS:
        if words.search(message):
            return f"the wasm engine has {what} the linux engine has them"
    if type == "AttributeError" and (found := _NO_ATTRIBUTE.match(message)):
        module, name = found.groups()
    elif type == "ImportError" and (found := _NO_NAME.match(message)):
        name, module = found.groups()
    else:
        return ""
    return f"the wasm engine has no {module}.{name}; the linux engine has it" if _has(module, name) else ""


def _has(module: str, name: str) -> bool:
    """Return whether CPython has a name in a module, without importing the module."""
    return module.partition(".")[0] in sys.stdlib_module_names and hasattr(sys.modules.get(module), name)
