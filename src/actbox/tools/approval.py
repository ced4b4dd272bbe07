"""Approval data: the request before a tool runs, the decision, and the protocol of the approver."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from actbox.core.lazy_dataclass import dataclass
from actbox.core.packages import PackageFacts

from .problems import shown

_log = logging.getLogger("actbox")

Cause = Literal["decided", "timeout", "failed", "unavailable"]

NOT_ELEVATED: Final = (
    "only an approver with the elevated role may approve it, such as CallbackApprover(…, elevated=True) or"
    " TerminalApprover(elevated=True)"
)
"""The reason for the refusal of an elevated question by an approver that is not elevated."""

EXCERPT_LINES = 3
"""The number of lines shown before and after the line that makes a call."""

# The line ends that Python knows. `str.splitlines` splits at more characters, so line numbers would differ.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to an approver: may this program run, may this tool call be made, or may this package be installed?

    `id` is unique. `program` is the whole source, and `reason` says why approval is required. For a run, `tools` are
    the tools that require it, if any. For a call, `line` is the line of the call in the program, from 1, or `None` if
    it is unknown. The guest reports that line: a malicious program may name another one, so decide by tool and
    arguments.

    For a call, `tool` and `arguments` are what will be called: the arguments were validated and converted once, and the
    call uses the result. They are keyed by name, with the defaults of omitted ones (except one without JSON form, such
    as a sentinel). Each value is in its JSON form, as pydantic's serializer writes it: a model is an object of its
    fields, an enum its value, a date ISO text, a decimal text with its digits, and values that a type hides
    (`SecretStr`, excluded fields) are hidden here too. Bytes are `{"base64": "…"}`; NaN and infinities are `"NaN"`,
    `"Infinity"` and `"-Infinity"`. Text for another type may have several spellings of one value (`"1E+3"` and
    `"1000"`, two time zones): parse it as that type before comparing. `arguments` is a copy: changing it does not
    affect the call. Text with a lone surrogate, integers of more digits than Python writes, and dataclasses with an
    `InitVar` cannot be shown: a call with one fails without a request.

    For an installation, `packages` are the package in question and, after it, what comes with it and is in no list of
    the policy: the answer covers all of them, in these versions. If the question is `elevated`, only a decision that is
    `elevated` approves: the package itself is in no list of the policy.

    `hidden` has a digest, by name, of each argument whose type may hide a part of it, as the program gave it. Store it
    with an approval that is kept for further calls. The digest's key belongs to this process: a digest of another
    process never matches.
    """

    id: str
    what: Literal["run", "call", "install"]
    program: str = field(repr=False)
    reason: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None
    tools: tuple[str, ...] = ()
    packages: tuple[PackageFacts, ...] = ()
    elevated: bool = False

    @property
    def excerpt(self) -> tuple[tuple[int, str], ...]:
        """The relevant program lines as `(line number, text)`: those around the call, or the whole program for a
        run or an installation.
        """
        numbered = tuple(enumerate(_LINE_END.split(self.program), 1))
        if self.what != "call":
            return numbered
        if self.line is None:
            return ()
        return numbered[max(self.line - 1 - EXCERPT_LINES, 0) : self.line + EXCERPT_LINES]


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """An approver's answer to a request. The program that was refused, and so its model, sees `reason`; it does not see
    `by`.

    `cause` is the reason for a refusal: somebody `decided`, nobody did in time (`timeout`), the approver `failed`, or
    no approver could be reached (`unavailable`).

    `edited` are all arguments, by name, for an approved call, in place of those in the request:
    `{**request.arguments, "euros": 10}`. An unchanged one stays the program's own, an omitted one is not passed, and
    any other is validated and converted as the program's was. If the tool's own conversion then changes an argument
    that was not edited, the approver is asked about the new call, at most a few times. For a run `edited` does nothing.
    """

    approved: bool
    reason: str = ""
    by: str = ""
    cause: Cause = "decided"
    edited: Mapping[str, Any] | None = None
    standing: bool = False
    elevated: bool = False


def line_count(program: str) -> int:
    """Return the number of lines of a source text."""
    return len(_LINE_END.findall(program)) + 1


@runtime_checkable
class Approver(Protocol):
    """Someone or something that answers approval requests: a person, a policy, a service."""

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer one request. Several requests may be pending at once, also in several event loops.

        The call is cancelled if the run ends, which withdraws the request. The answer may take any time: the run's
        clock stops meanwhile. An exception is a refusal, and so is any answer that is no `ApprovalDecision`.
        """
        ...


def _log_failure(request: ApprovalRequest, error: BaseException) -> None:
    """Log an approver's exception for the host. Of the program only the tool's name is logged, which the host chose."""
    asked = {"call": f"a call of {request.tool!r}", "run": "a run", "install": "packages"}[request.what]
    _log.error("the approver failed when it was asked about %s, which is refused", asked, exc_info=error)


async def decision_of(approver: Approver, request: ApprovalRequest) -> ApprovalDecision:
    """Return an approver's decision; an exception or an invalid answer counts as a refusal.

    The decision has only the type of an exception, since the program sees a refusal. The logger `actbox` has the whole
    exception. If this task is cancelled meanwhile it raises `CancelledError`, even if the approver answers.
    """
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        decision: object = await approver.decide(request)
    except (KeyboardInterrupt, GeneratorExit):
        raise  # the host's Ctrl-C, and the closing of this coroutine
    except BaseException as error:
        if task.cancelling() > cancelled:
            raise asyncio.CancelledError from error
        _log_failure(request, error)
        # The approver, or something that it awaited, cancelled itself: nobody cancelled this task.
        how = "it was cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        return ApprovalDecision(False, f"the approver failed ({how})", cause="failed")
    if task.cancelling() > cancelled:
        raise asyncio.CancelledError
    fault = _fault_of(decision) if isinstance(decision, ApprovalDecision) else f"not {type(decision).__name__}"
    if fault or not isinstance(decision, ApprovalDecision):
        _log_failure(request, TypeError(f"an approver must answer with an ApprovalDecision, {fault}"))
        kind = type(decision).__name__
        return ApprovalDecision(False, f"the approver failed (it answered with {kind})", cause="failed")
    return decision


def _fault_of(decision: ApprovalDecision) -> str:
    """Return which field of a decision has the wrong type, and that type; "" for a valid decision."""
    edited = decision.edited
    sound = {
        "approved (True or False)": isinstance(decision.approved, bool),
        "reason (text)": isinstance(decision.reason, str),
        "by (text)": isinstance(decision.by, str),
        "standing (True or False)": isinstance(decision.standing, bool),
        "elevated (True or False)": isinstance(decision.elevated, bool),
        f"cause ({', '.join(get_args(Cause))})": isinstance(decision.cause, str) and decision.cause in get_args(Cause),
        "edited (None, or all arguments by name)": edited is None
        or (isinstance(edited, Mapping) and all(isinstance(name, str) for name in edited)),
    }
    for field_name, is_sound in sound.items():
        if not is_sound:
            return f"whose {field_name} must not be {shown(getattr(decision, field_name.split()[0]))}"
    return ""
