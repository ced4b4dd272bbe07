"""Runs one program in a machine: sends it, answers its requests, and makes its outcome."""

from __future__ import annotations

import secrets
import signal
from typing import TYPE_CHECKING, Any, Final

from actbox.core.counted import counted
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.sandbox.embedded import Evaluation, Outcome
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.wire import ProtocolError
from actbox.sandbox.requests import encode_program
from actbox.sandbox.run_end import EXIT_SANDBOX_FAILED, EXIT_TIMEOUT, lost_value
from actbox.sandbox.workspace import Workspace

from .guest_files import GuestFiles
from .machine import Ended, Machine, MachineLost
from .program_requests import ProgramRequests

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.embedded.http import Requests

    from .trees import Disk

_NAMES: Final = {("javascript", "program.py"): "program.js"}
"""The default names of programs in languages other than Python."""
_KILLED: Final = 128 + signal.SIGKILL
_ABORTED: Final = 128 + signal.SIGABRT
_NO_MEMORY: Final = ("Out of physical memory", "Guest aborted: 13")


async def evaluate(
    machine: Machine,
    evaluation: Evaluation,
    mounts: tuple[FileMount, ...],
    proxy: EgressProxy | None,
    disk: Disk | None = None,
    *,
    session: bool = False,
) -> Outcome:
    """Run a program and return its outcome. If this is cancelled or the machine is lost, the program runs no more.

    `proxy` is the way to the policy's domains, if there are any; `disk` is the limit of all files of the sandbox.
    """
    program, limits = evaluation.program, evaluation.limits
    try:
        message: dict[str, Any] = {
            "code": program.code,
            "name": _NAMES.get((program.language, program.name), program.name),
            "tools": evaluation.toolset.guest_spec(),
            "types": evaluation.toolset.types_for(program.code),
            "variables": dict(evaluation.variables),
            "message_bytes": limits.message_bytes,
            "session": session,
            "network": proxy is not None,
            "seed": [secrets.randbits(31) for _ in range(8)],
        }
        wire.put_value(message, "inputs", program.inputs)
        frame = encode_program(message)
    except InvalidValue as error:
        return _failed(ErrorKind.UNSUPPORTED, str(error), EXIT_SANDBOX_FAILED)
    assert isinstance(evaluation.workspace, Workspace)  # this engine opens no other kind
    requests = ProgramRequests(
        evaluation, GuestFiles(evaluation.workspace, mounts, limits, disk), _requests(proxy, evaluation)
    )
    try:
        if mounts:  # check now that no mount has another file than when the policy was made
            await requests.open_files()
        ended = await machine.run(
            frame,
            cpu_seconds=limits.cpu_seconds,
            most_bytes=limits.message_bytes,
            keep=session,
            answer=requests.answer,
            say=requests.say,
        )
        if ended.result and not ended.crash:
            await requests.take_result(ended.result)
    except MachineLost as error:
        return _lost(error, limits)
    except ProtocolError as error:
        words = f"the guest broke the rules of the channel: {error}"
        return _failed(ErrorKind.PROTOCOL, words, EXIT_SANDBOX_FAILED, hint="leave the channel to the host alone")
    finally:
        await requests.finish()
    if session and (ended.crash or requests.done is None):
        await machine.end()  # the session's state is lost, so end it: a further run would start from the snapshot
    return _outcome(requests, ended, limits, program.language)


def _requests(proxy: EgressProxy | None, evaluation: Evaluation) -> Requests | None:
    if proxy is None:
        return None
    from actbox.sandbox.embedded.http import Requests

    return Requests(proxy, evaluation.calls.tell, evaluation.limits.message_bytes)


def _outcome(requests: ProgramRequests, ended: Ended, limits: Limits, language: str) -> Outcome:
    done = requests.done
    if requests.lacks is not None:
        return _failed(
            ErrorKind.UNSUPPORTED,
            f"line {requests.lacks} uses await, which the hyperlight engine does not have; the linux engine has",
            EXIT_SANDBOX_FAILED,
            line=requests.lacks,
            hint="call the tools without await: here they are plain functions",
        )
    if done is not None and not ended.crash:
        return Outcome(
            value=done.value,
            value_text=done.value_text,
            value_forms=done.forms,
            warnings=lost_value(done.lost),
            error=done.error,
            exit_code=done.exit_code,
            cpu_ms=ended.cpu_ms,
            max_rss_bytes=ended.max_rss_bytes,
        )
    code = requests.exit_code
    if code is not None:
        if code == 0:
            return Outcome(cpu_ms=ended.cpu_ms, max_rss_bytes=ended.max_rss_bytes)
        return _failed(ErrorKind.EXIT, f"the program ended itself with exit code {code}", code)
    if any(words in ended.crash for words in _NO_MEMORY):
        return _failed(
            ErrorKind.MEMORY,
            "the program used more memory than its virtual machine has",
            _KILLED,
            limit="memory_mib",
            hint="work on less at a time: read in chunks, keep fewer columns, use generators; or recurse less deeply",
        )
    words = (ended.crash or "it ended without a result").strip().splitlines()[0][:500]
    return _failed(ErrorKind.CRASH, f"the program broke its virtual machine: {words}", _ABORTED, type="SIGABRT")


def _lost(error: MachineLost, limits: Limits) -> Outcome:
    if error.signal == signal.SIGPROF:
        return _failed(
            ErrorKind.TIMEOUT,
            f"the program used more than {counted(float(limits.cpu_seconds), 'second')} of processor time",
            EXIT_TIMEOUT,
            limit="cpu_seconds",
            hint="use a faster algorithm",
        )
    return _failed(ErrorKind.SANDBOX, str(error), EXIT_SANDBOX_FAILED)


def _failed(
    kind: ErrorKind,
    message: str,
    exit_code: int,
    *,
    type: str = "",
    line: int | None = None,
    limit: str = "",
    hint: str = "",
) -> Outcome:
    error = ErrorInfo(kind=kind, type=type, message=message, line=line, limit=limit, hint=hint)
    return Outcome(error=error, exit_code=exit_code)
