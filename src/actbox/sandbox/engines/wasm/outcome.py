"""What a program came to, from what its guest and its worker say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.limits import Limits
from actbox.sandbox.embedded import Outcome
from actbox.sandbox.embedded.http_face import NAME as HTTP_REQUEST
from actbox.sandbox.ending import Ending
from actbox.sandbox.verdict import EXIT_SANDBOX_FAILED, verdict

from .conversation import Ended
from .lacking import lacking

_ABORTED: Final = 134  # as if by SIGABRT
_KILLED: Final = 137  # and by SIGKILL
_NO_NETWORK = "networking not enabled"
_NOT_UTF_8: Final = "Illegal byte sequence"
_ONLY_STANDARD: Final = (
    "the wasm engine has the standard library only, without what needs processes, threads or compiled packages;"
    " the linux engine has {name} where it is installed"
)


def outcome_of(ended: Ended, limits: Limits) -> Outcome:
    """Return what a program came to that ended by itself, or with its worker."""
    told = ended.told or {}
    cpu_ms = max(0.0, float(told.get("cpu_ms", 0.0)))
    peak = int(told.get("peak_bytes", 0))
    if ended.broke_rules:
        error = ErrorInfo(
            kind=ErrorKind.PROTOCOL,
            message=f"the guest broke the rules of the channel: {ended.broke_rules}",
            hint="do not use what belongs to the sandbox itself",
        )
        return Outcome(error=error, exit_code=EXIT_SANDBOX_FAILED, cpu_ms=cpu_ms)
    if ended.limit == "workspace_mib":
        error = ErrorInfo(
            kind=ErrorKind.DISK,
            message=f"the program has written more than {limits.workspace_mib} MiB to /workspace or /tmp",
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
        error=None if done.error is None else _adapted(done.error, ended.unreached),
        exit_code=done.exit_code,
        cpu_ms=cpu_ms,
        max_rss_bytes=peak,
    )


def _adapted(error: ErrorInfo, unreached: Collection[str]) -> ErrorInfo:
    """Return an error in the words that are true of this engine."""
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
    """Return what to say of a program after which nothing said what it came to."""
    if not ended.has_begun:
        message = "the worker process had ended before the program could begin"
        return EXIT_SANDBOX_FAILED, ErrorInfo(kind=ErrorKind.SANDBOX, message=message, hint="run it again")
    if ended.told is None:
        message = "the interpreter crashed, as it does where values or calls are nested very deeply"
        error = ErrorInfo(kind=ErrorKind.CRASH, message=message, hint="nest and recurse less deeply")
        return 128 - ended.exit_code if -64 < ended.exit_code < 0 else _ABORTED, error
    if path := ended.told.get("replaced"):
        message = f"{path} is another than when the sandbox was opened: something has come to lie in its place"
        error = ErrorInfo(kind=ErrorKind.SANDBOX, message=message, hint="make the policy and the sandbox anew")
        return EXIT_SANDBOX_FAILED, error
    failure = str(ended.told.get("failure", "")) or "it ended without a result"
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
