"""Approvals of an agent's programs: whether a person is asked, and what the answer permits.

This module awaits nothing, starts nothing and reads no clock. `run_approval` says what must be approved before a
program runs, and with which tools it then runs. `Approvals` is the state machine of the questions that wait for an
answer: each is asked, and then approved, rejected, withdrawn, expired or stopped, once. An answer never covers a
program that was not shown, and no answer makes a program begin a second time.

Only the tools that programs can call count. Tools that the model calls directly, mounts and domains do not: the author
of the policy has already allowed them.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, get_args

from actbox.core.call_log import CallLog
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult
from actbox.tools import Approval, ApprovalDecision, ApprovalRequest, Toolset

ApprovalStyle = Literal["bundled", "inspected", "nested"]
"""When somebody is asked.

`bundled`: once before the run, if any tool requires approval; never again in it. `inspected`: once before the run, if
the program names a tool that does; a call that the analysis missed needs approval when it is made. `nested`: at each
call of a tool that requires approval. If the default mode of execution is `always_require`, every run needs approval
before it begins, whatever the style.
"""
MOST_CHARACTERS: Final = 64_000
"""The most characters of a program that is parsed: many times what models write; the slowest take a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunApproval:
    """The approval that one program needs before it runs, and the tools that it then runs with.

    `tools` are the tools that make `mode` `always_require`; empty if the default mode alone does. `named` are those
    that the source names. `findings` is why a review of the program requires approval, empty if it does
    not. `too_long` is why the program must not run at all, empty if it may; `blocked` is the error of a review that
    says so. `warnings` are those of the review, for the result.
    """

    mode: Approval
    toolset: Toolset
    tools: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    findings: str = ""
    too_long: str = ""
    blocked: ErrorInfo | None = None
    warnings: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether the run requires approval before it begins."""
        return self.mode == "always_require" or bool(self.findings)

    @property
    def may_ask(self) -> bool:
        """Whether a call of the program may require approval."""
        return bool(self.toolset.requiring)

    @property
    def will_ask(self) -> bool:
        """Whether the program names a tool whose calls require approval."""
        return any(name in self.named for name in self.toolset.requiring)

    @property
    def reason(self) -> str:
        """The reason for the question: a sentence without its full stop."""
        reasons = []
        if self.tools:
            listed = ", ".join(repr(name) for name in self.tools)
            reasons.append(f"the program may call tools that require approval: {listed}")
        elif self.mode == "always_require":
            reasons.append("every program requires approval")
        return "; ".join([*reasons, self.findings] if self.findings else reasons)

    def request(self, program: str) -> ApprovalRequest:
        """Return the request for approval of the program."""
        return ApprovalRequest(
            id=secrets.token_hex(8), what="run", program=program, reason=self.reason, tools=self.tools
        )


def effective_mode(toolset: Toolset, default: Approval = "never_require") -> Approval:
    """Return a run's mode by the bundle rule: the run requires approval if the default mode or any tool does."""
    return "always_require" if default == "always_require" or toolset.requiring else "never_require"


def run_approval(
    program: str,
    toolset: Toolset,
    *,
    default: Approval = "never_require",
    style: ApprovalStyle = "bundled",
) -> RunApproval:
    """Return what must be approved before a program runs with these tools."""
    if style == "nested":
        return RunApproval(mode=default, toolset=toolset)
    names = toolset.requiring
    if style == "inspected" and names:
        names = named_tools(program, toolset).requiring(toolset)
    mode: Approval = "always_require" if default == "always_require" or names else "never_require"
    return RunApproval(mode=mode, toolset=toolset.approved(names), tools=names)


def plan(
    program: str, toolset: Toolset, *, style: ApprovalStyle, is_given: bool, only_named: bool, always: tuple[str, ...]
) -> RunApproval:
    """Return what must be approved before a program of a frozen run begins, besides the approval that it already has.

    With `is_given` the caller has approved the program: for all tools in the bundled style, for the tools that the
    program names in the inspected style, for none in the nested style. With `only_named` the program gets only the
    tools that it names, and those in `always`.
    """
    known, too_long, asked = NamedTools((), all_known=False), "", toolset.requiring
    if style != "bundled":
        known = named_tools(program, toolset)
    if only_named:
        if len(program) > MOST_CHARACTERS:
            too_long = (
                f"the program has {len(program):,} characters, and did not run: only those of at most"
                f" {MOST_CHARACTERS:,} are read for the tools that they name"
            )
        toolset = toolset.only((*known.names, *always))
        asked = toolset.requiring
    elif style == "inspected":
        asked = tuple(name for name in asked if name in known.names) if is_given else known.requiring(toolset)
    elif style != "bundled":  # nested: each call is asked about
        asked = ()
    return RunApproval(
        mode="never_require" if is_given or not asked else "always_require",
        toolset=toolset.approved(asked),
        tools=() if is_given else asked,
        named=known.names,
        too_long=too_long,
    )


def refused(decision: ApprovalDecision, engine: str) -> ExecutionResult:
    """Return the result of a program that did not run because it was not approved."""
    how = "was not approved in time" if decision.cause == "timeout" else "was refused approval"
    error = ErrorInfo(
        kind=ErrorKind.POLICY,
        type="ApprovalRefused",
        message=f"the program {how} and did not run" + (f": {decision.reason}" if decision.reason else ""),
        hint="do not send it again as it is; do without what was refused, or answer in words",
    )
    return ExecutionResult(exit_code=EXIT_NOT_RUN, error=error, sandbox=engine)


def check_modes(default: str, style: str) -> None:
    """Raise `InvalidValue` if the mode or the style does not exist."""
    if default not in get_args(Approval):
        raise InvalidValue(f"approval must be one of {', '.join(get_args(Approval))}, not {default!r}")
    if style not in get_args(ApprovalStyle):
        raise InvalidValue(f"approval_style must be one of {', '.join(get_args(ApprovalStyle))}, not {style!r}")


@dataclass(frozen=True, slots=True)
class NamedTools:
    """The tools that a program calls by names found in its source, in the order of the toolset.

    If `all_known` is false, the program also has calls whose names cannot be determined, and may call any tool by them.
    """

    names: tuple[str, ...]
    all_known: bool

    def requiring(self, toolset: Toolset) -> tuple[str, ...]:
        """Return the tools that require approval and that the program may call."""
        return tuple(name for name in toolset.requiring if name in self.names or not self.all_known)


def named_tools(program: str, toolset: Toolset) -> NamedTools:
    """Return the tools that a program names; for one too long to parse, none, with `all_known` false."""
    if len(program) > MOST_CHARACTERS:
        return NamedTools((), all_known=False)
    from actbox.review import tool_calls  # imported only when needed: the import is slow

    found, all_known = set(), True
    for call in tool_calls(program, (*toolset.names, *toolset.aliases.values())):
        tool = toolset.get(call.tool) if call.tool is not None else None
        if tool is not None:
            found.add(tool.name)
        all_known = all_known and call.tool is not None
    return NamedTools(tuple(name for name in toolset.names if name in found), all_known)


# The requests that wait for an answer


class PausedRun(Protocol):
    """A run that waits in the middle for an answer about a call of its program."""

    @property
    def is_over(self) -> bool:
        """Whether the run no longer waits, since the run or its event loop has ended."""

    @property
    def outcome(self) -> Any:
        """The run's outcome if it has ended by itself, else `None`."""


class Waits:
    """The party that waits for an answer: a program that has not begun, or the run of one that has."""

    shown: str = ""
    """The digest of the program that was shown to the approver."""
    owner: Hashable = None
    """The owner of the question: limits on the number of questions may apply to each owner."""
    paused: PausedRun | None = None
    """The run, where the program has begun."""


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W", bound=Waits)

Step = Literal["begin", "resume", "reject", "ask", "gone"]
"""The effect of an answer. `begin`: the program was approved and begins. `resume`: the run goes on with the decision.
`reject`: the program was refused and never begins. `ask`: another program was shown, so this one needs a question of
its own. `gone`: nothing waits for the answer any more."""

MOST_KNOWN: Final = 200
"""The most programs for which `Approvals` remembers whether they have begun, and which tools they have called."""
MOST_ENDED: Final = 100
"""The most outcomes that are kept until the caller asks for them."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[W]):
    """The result of asking: the new question waits, its key is `taken` by another waiting one, or there is no room.

    `given_up` are the questions that were dropped to make room: the caller of `ask` ends what waits for their answers.
    """

    state: Literal["waits", "taken", "full"]
    given_up: tuple[W, ...] = ()


@dataclass(frozen=True, slots=True)
class Open(Generic[K, W]):
    """A question that waits; it expires at `until`, in the caller's seconds."""

    key: K
    waits: W
    until: float | None

    def is_late(self, now: float) -> bool:
        """Return whether an answer would come too late."""
        run = self.waits.paused
        return run.is_over if run is not None else self.until is not None and now > self.until


class Approvals(Generic[K, W]):
    """The questions that wait for answers, by key, and which of their programs have begun.

    It may be used from any thread. `now` is the caller's clock, in seconds. At most `most` questions wait, and
    `most_of_owner` of one owner: beyond these the oldest question of the owner with the most is given up, or, if
    `keeps_oldest`, the new one is not asked. A question about a program that has not begun expires after `timeout`
    seconds; the run of one that has begun decides that by itself.
    """

    def __init__(
        self,
        *,
        most: int,
        timeout: float | None = None,
        most_of_owner: int | None = None,
        keeps_oldest: bool = False,
    ) -> None:
        self._most = most
        self._timeout = timeout
        self._most_of_owner = most if most_of_owner is None else most_of_owner
        self._keeps_oldest = keeps_oldest
        self._lock = threading.Lock()
        self._open: dict[K, Open[K, W]] = {}
        self._known: dict[K, CallLog | None] = {}
        self._ended: dict[K, Any] = {}
        self.is_stopped = False

    def ask(self, key: K, waits: W, now: float = 0.0) -> Asked[W]:
        """Add a question as the newest one; return whether it waits, and which older ones were dropped."""
        with self._lock:
            if self._keeps_oldest and len(self._open) >= self._most:
                return Asked("full")
            there = self._open.get(key)
            if there is not None and not there.is_late(now):
                return Asked("taken")
            if there is not None:
                self._drop(key)
            until = None if self._timeout is None else now + self._timeout
            self._open[key] = Open(key, waits, until)
            if waits.paused is None:
                keep_latest(self._known, key, None, MOST_KNOWN)
            given_up = []
            while (surplus := self._surplus(waits.owner)) is not None:
                given_up.append(self._drop(surplus))
            return Asked("waits", tuple(given_up))

    def answer(
        self, key: K, shown: str, *, approved: bool, edited: bool = False, now: float = 0.0
    ) -> tuple[Step, W | None]:
        """Apply an answer; return its effect and the party that waited for it.

        `shown` is the digest of the program that the answer is about. `edited` says that the approver changed the
        program before it began, and approved the changed one.
        """
        with self._lock:
            there = self._open.pop(key, None)
        if there is None or (there.waits.paused is None and there.is_late(now)):
            return "gone", None
        waits = there.waits
        if waits.shown != shown and (waits.paused is not None or not edited):
            return "ask", waits
        if waits.paused is not None:
            return "resume", waits
        return ("begin" if approved else "reject"), waits

    def take(self, key: K, waits: W | None = None) -> W | None:
        """Remove and return the party that waits under a key (only `waits` itself, if given): the taker decides it."""
        with self._lock:
            there = self._open.get(key)
            if there is None or (waits is not None and there.waits is not waits):
                return None
            return self._open.pop(key).waits

    def __contains__(self, key: object) -> bool:
        """Return whether a question is kept under a key, even one that has expired."""
        with self._lock:
            return key in self._open

    def is_taken(self, key: K, now: float = 0.0) -> bool:
        """Return whether a key is in use, so that no other question can be asked under it."""
        with self._lock:
            there = self._open.get(key)
            return there is not None and not there.is_late(now)

    def open(self) -> tuple[Open[K, W], ...]:
        """Return the waiting questions, the oldest first."""
        with self._lock:
            return tuple(self._open.values())

    def begin(self, key: K, calls: CallLog) -> None:
        """Record that a program has begun; `calls` logs its tool calls."""
        with self._lock:
            keep_latest(self._known, key, calls, MOST_KNOWN)

    def has_begun(self, key: K) -> bool | None:
        """Return whether the program has begun; `None` if that is unknown or forgotten."""
        with self._lock:
            return self._known[key] is not None if key in self._known else None

    def calls(self, key: K) -> CallLog | None:
        """Return the log of a begun program's tool calls."""
        with self._lock:
            return self._known.get(key)

    def ended(self, key: K) -> Any:
        """Return, once, the outcome of a program whose question expired and which has ended since."""
        with self._lock:
            there = self._open.get(key)
            if there is not None and _outcome(there.waits) is not None:
                self._drop(key)
            return self._ended.pop(key, None)

    def stop(self) -> tuple[W, ...]:
        """Drop all questions, and later ones as soon as they are asked; return the parties that waited."""
        with self._lock:
            self.is_stopped = True
            return tuple(self._drop(key) for key in list(self._open))

    def forget(self) -> tuple[W, ...]:
        """Drop all questions in a forked child, where another thread may hold the lock; return what waited."""
        self._lock = threading.Lock()
        waited = tuple(there.waits for there in self._open.values())
        self._open.clear()
        return waited

    def _surplus(self, owner: Hashable) -> K | None:
        """Return the question to drop: the oldest of this owner, or of the owner that has the most."""
        if len(self._open) <= (0 if self.is_stopped else min(self._most, self._most_of_owner)):
            return None
        counted = Counter(there.waits.owner for there in self._open.values())
        if counted[owner] <= self._most_of_owner and not self.is_stopped:
            if len(self._open) <= self._most:
                return None
            owner, _ = counted.most_common(1)[0]
        return next(key for key, there in self._open.items() if self.is_stopped or there.waits.owner == owner)

    def _drop(self, key: K) -> W:
        waits = self._open.pop(key).waits
        if (outcome := _outcome(waits)) is not None:
            keep_latest(self._ended, key, outcome, MOST_ENDED)
        return waits


def _outcome(waits: Waits) -> Any:
    return None if waits.paused is None else waits.paused.outcome


def keep_latest(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Put a value at the end of `kept`, and drop the oldest values beyond `most`."""
    kept.pop(key, None)
    kept[key] = value
    for oldest in list(itertools.islice(kept, max(0, len(kept) - most))):
        del kept[oldest]
