"""Questions that wait for a service to answer them: listed and decided by id, from any thread."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from actbox.core.errors import InvalidValue
from actbox.tools import ApprovalDecision, ApprovalRequest

from .approvals import Approvals, Waits
from .approvers import checked_timeout, timed_out

TIMEOUT_SECONDS: Final = 600.0
MOST_PENDING: Final = 1000


@dataclass(frozen=True, eq=False)
class _Entry(Waits):
    request: ApprovalRequest
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[ApprovalDecision]
    expires_at: float


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """An undecided question. It waits for `seconds_left` more seconds; `None` means without a limit."""

    request: ApprovalRequest
    seconds_left: float | None

    @property
    def id(self) -> str:
        """The id by which the question is decided; events of the run have it as `request_id`."""
        return self.request.id


class PendingApprovals:
    """An approver that keeps questions until they are decided by id.

    One instance may serve any number of sandboxes, event loops and threads. A question that is undecided after
    `timeout` seconds is refused; one that comes while `most` are pending is refused at once. A question whose run has
    ended is withdrawn: it is no longer listed. Only the first decision counts.

    Nothing is kept on disk: the questions end with this process, and so do the runs that ask them.
    """

    def __init__(self, *, timeout: float | None = TIMEOUT_SECONDS, most: int = MOST_PENDING) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidValue(f"most must be a whole number of questions above zero, not {most!r}")
        self._timeout = checked_timeout(timeout)
        self._approvals: Approvals[str, _Entry] = Approvals(most=most, keeps_oldest=True)

    def pending(self) -> tuple[PendingApproval, ...]:
        """Return the pending questions, the oldest first."""
        now = time.monotonic()
        return tuple(
            PendingApproval(entry.request, None if self._timeout is None else max(entry.expires_at - now, 0.0))
            for entry in (question.waits for question in self._approvals.open())
        )

    def approve(
        self, request_id: str, *, reason: str = "", by: str = "", standing: bool = False, elevated: bool = False
    ) -> None:
        """Approve a question. `by` says who decided, for events; for `standing` and `elevated` see `ApprovalDecision`.

        Raises `InvalidValue` if it is not pending.
        """
        self._answer(request_id, ApprovalDecision(True, reason, by, standing=standing, elevated=elevated))

    def refuse(self, request_id: str, *, reason: str = "", by: str = "") -> None:
        """Refuse a question; the program receives the reason. Raises `InvalidValue` if the question is not pending."""
        self._answer(request_id, ApprovalDecision(False, reason, by))

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait until the question is decided, and return the decision."""
        loop = asyncio.get_running_loop()
        seconds = self._timeout
        entry = _Entry(request, loop, loop.create_future(), time.monotonic() + (seconds or 0.0))
        state = self._approvals.ask(request.id, entry).state
        if state == "full":
            return ApprovalDecision(False, "too many questions are pending", cause="unavailable")
        if state == "taken":
            raise InvalidValue(f"the question {request.id!r} is pending already")
        timer = loop.call_later(seconds, self._expire, request.id, entry) if seconds is not None else None
        try:
            return await entry.answer
        finally:
            if timer is not None:
                timer.cancel()
            self._approvals.take(request.id, entry)  # a decided question may be asked again

    def _answer(self, request_id: str, decision: ApprovalDecision) -> None:
        if not all(isinstance(text, str) for text in (request_id, decision.reason, decision.by)):
            raise InvalidValue("a question is decided by its id, with texts for reason and by")
        entry = self._approvals.take(request_id)
        try:
            if entry is not None:
                entry.loop.call_soon_threadsafe(_set, entry.answer, decision)
                return
        except RuntimeError:  # the event loop of the run that asked is closed, so the run has ended
            pass
        raise InvalidValue(f"no question {request_id!r} is pending: it was decided, withdrawn, or timed out")

    def _expire(self, request_id: str, entry: _Entry) -> None:
        if self._approvals.take(request_id, entry) is not None:
            _set(entry.answer, timed_out(self._timeout))


def _set(answer: asyncio.Future[ApprovalDecision], decision: ApprovalDecision) -> None:
    if not answer.done():
        answer.set_result(decision)
