"""Questions that wait for a service to answer them: listed and decided by id, from any thread."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from actbox.core.errors import InvalidValue
from actbox.tools import ApprovalDecision, ApprovalRequest

from .approvers import checked_timeout, timed_out

TIMEOUT_SECONDS: Final = 600.0
MOST_PENDING: Final = 1000


@dataclass(frozen=True, slots=True)
class _Entry:
    request: ApprovalRequest
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[ApprovalDecision]
    expires_at: float = field(compare=False)


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A question that nobody has decided yet. It waits for `seconds_left` more, `None` where it waits for ever."""

    request: ApprovalRequest
    seconds_left: float | None

    @property
    def id(self) -> str:
        """By which it is decided; events of the run have it as `request_id`."""
        return self.request.id


class PendingApprovals:
    """An approver that keeps questions until somebody decides them by id.

    One may serve any number of sandboxes, event loops and threads. A question that nobody decides within `timeout`
    seconds is refused; one that comes while `most` are pending is refused at once. A question whose run has ended is
    withdrawn: it is listed no more. Exactly one decision counts, the first.

    Nothing is kept on disk: the questions end with this process, and so do the runs that ask them.
    """

    def __init__(self, *, timeout: float | None = TIMEOUT_SECONDS, most: int = MOST_PENDING) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidValue(f"most must be a whole number of questions above zero, not {most!r}")
        self._timeout = checked_timeout(timeout)
        self._most = most
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def pending(self) -> tuple[PendingApproval, ...]:
        """Return what waits now, the oldest first."""
        with self._lock:
            entries = list(self._entries.values())
        now = time.monotonic()
        return tuple(
            PendingApproval(entry.request, None if self._timeout is None else max(entry.expires_at - now, 0.0))
            for entry in entries
        )

    def approve(self, request_id: str, *, reason: str = "", by: str = "") -> None:
        """Let it go on. `by` says who decided, for events. Raises `InvalidValue` where no such question is pending."""
        self._answer(request_id, ApprovalDecision(True, reason, by))

    def refuse(self, request_id: str, *, reason: str = "", by: str = "") -> None:
        """Refuse it; the program is told the reason. Raises `InvalidValue` where no such question is pending."""
        self._answer(request_id, ApprovalDecision(False, reason, by))

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait until somebody has decided."""
        loop = asyncio.get_running_loop()
        seconds = self._timeout
        entry = _Entry(request, loop, loop.create_future(), time.monotonic() + (seconds or 0.0))
        with self._lock:
            if len(self._entries) >= self._most:
                return ApprovalDecision(False, "too many questions are pending", cause="unavailable")
            if request.id in self._entries:
                raise InvalidValue(f"the question {request.id!r} is pending already")
            self._entries[request.id] = entry
        timer = loop.call_later(seconds, self._expire, request.id) if seconds is not None else None
        try:
            return await entry.answer
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                if self._entries.get(request.id) is entry:  # once decided it may be asked again
                    del self._entries[request.id]

    def _answer(self, request_id: str, decision: ApprovalDecision) -> None:
        if not all(isinstance(text, str) for text in (request_id, decision.reason, decision.by)):
            raise InvalidValue("a question is decided by its id, with texts for reason and by")
        entry = self._take(request_id)
        try:
            if entry is not None:
                entry.loop.call_soon_threadsafe(_set, entry.answer, decision)
                return
        except RuntimeError:  # its event loop is closed, and with it the run that asked
            pass
        raise InvalidValue(f"no question {request_id!r} is pending: it was decided, withdrawn, or timed out")

    def _expire(self, request_id: str) -> None:
        entry = self._take(request_id)
        if entry is not None:
            _set(entry.answer, timed_out(self._timeout))

    def _take(self, request_id: str) -> _Entry | None:
        """Take a question off the list: whoever does decides it."""
        with self._lock:
            return self._entries.pop(request_id, None)


def _set(answer: asyncio.Future[ApprovalDecision], decision: ApprovalDecision) -> None:
    if not answer.done():
        answer.set_result(decision)
