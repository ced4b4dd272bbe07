"""What is asked before a tool runs, what is answered, and who answers: the data and the protocol of approval."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

_log = logging.getLogger("actbox")

Cause = Literal["decided", "timeout", "failed", "unavailable"]

EXCERPT_LINES = 3
"""How many lines before and after the one that makes a call are shown."""

# What ends a line for Python. Not `str.splitlines`: with more kinds of line the numbers would be other ones.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """One question: may this program run, or may this call of it be made?

    `id` is unique. `program` is the whole source, and `reason` says why approval is required. For a run, `tools` are
    those because of which it is asked, if any. For a call, `line` is the line of the program that makes it, counted
    from 1, `None` where it is not known. That line is the guest's own word: a program that means harm may name another
    one, so decide by tool and arguments.

    For a call, `tool` and `arguments` are what will be called: the arguments were checked and converted before, once,
    and the call is made with what came of that. They are there by name, with the defaults that the program left alone
    (but for one without JSON form, such as a sentinel). Each value is in its JSON form, as pydantic's serialiser makes
    it: a model is an object of its fields, an enum its value, a date ISO text, a decimal text with its digits, and what
    a type hides (`SecretStr`, excluded fields) is hidden here too. Bytes are `{"base64": "…"}`; numbers that are none
    and infinities are `"NaN"`, `"Infinity"` and `"-Infinity"`. Text that stands for another type can say one value in
    several ways (`"1E+3"` and `"1000"`, two time zones): read it as that type before comparing. `arguments` is a copy:
    what is done to it reaches no call.
    """

    id: str
    what: Literal["run", "call"]
    program: str = field(repr=False)
    reason: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None
    tools: tuple[str, ...] = ()

    @property
    def excerpt(self) -> tuple[tuple[int, str], ...]:
        """The code to look at, as `(line number, text)`: around the call; for a run all of it."""
        numbered = tuple(enumerate(_LINE_END.split(self.program), 1))
        if self.what == "run":
            return numbered
        if self.line is None:
            return ()
        return numbered[max(self.line - 1 - EXCERPT_LINES, 0) : self.line + EXCERPT_LINES]


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The answer to a request. `reason` is shown to the program that was refused, and so to its model; `by` is not.

    `cause` says how a refusal came about: somebody `decided`, nobody did in time (`timeout`), the approver `failed`, or
    there was none to be reached (`unavailable`).
    """

    approved: bool
    reason: str = ""
    by: str = ""
    cause: Cause = "decided"


def line_count(program: str) -> int:
    """Return how many lines a source has."""
    return len(_LINE_END.findall(program)) + 1


@runtime_checkable
class Approver(Protocol):
    """Whoever answers requests: a person, a policy, a service."""

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer one request. Several may be asked at once, also in several event loops.

        It is cancelled when the question is withdrawn, since the run that asked has ended. How long it may take is its
        own to say: the run's clock stands still meanwhile. Whatever it raises is a refusal, and so is any answer that
        is no `ApprovalDecision`.
        """
        ...


def _log_failure(request: ApprovalRequest, error: BaseException) -> None:
    """Tell the host how an approver failed. Of the program no word but the tool's name, which is the host's own."""
    asked = f"a call of {request.tool!r}" if request.what == "call" else "a run"
    _log.error("the approver failed when it was asked about %s, which is refused", asked, exc_info=error)


async def decision_of(approver: Approver, request: ApprovalRequest) -> ApprovalDecision:
    """Return what an approver answers; a refusal where it raises anything or answers something else.

    What it raised is told by its type alone, since a refusal is shown to the program. The logger `actbox` has it whole.
    Where this task is cancelled meanwhile it raises `CancelledError`, also if the approver answers all the same.
    """
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        decision: object = await approver.decide(request)
    except (KeyboardInterrupt, GeneratorExit):
        raise  # the host's end and this coroutine's
    except BaseException as error:
        if task.cancelling() > cancelled:
            raise asyncio.CancelledError from error
        _log_failure(request, error)
        # Cancelled by itself or by what it waited for: nobody has cancelled this task.
        how = "it was cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        return ApprovalDecision(False, f"the approver failed ({how})", cause="failed")
    if task.cancelling() > cancelled:
        raise asyncio.CancelledError
    if not isinstance(decision, ApprovalDecision) or not _is_whole(decision):
        said = type(decision).__name__
        expected = "an ApprovalDecision of True or False, with texts for reason and by"
        _log_failure(request, TypeError(f"it must answer with {expected}, not {said}"))
        return ApprovalDecision(False, f"the approver failed (it answered with {said})", cause="failed")
    return decision


def _is_whole(decision: ApprovalDecision) -> bool:
    texts = isinstance(decision.reason, str) and isinstance(decision.by, str)
    return texts and isinstance(decision.approved, bool) and decision.cause in get_args(Cause)
