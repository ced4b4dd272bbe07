"""A run that pauses while a call of its program waits for a decision, and the record of such a question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from actbox.tools import ApprovalDecision, ApprovalRequest, Approver

from .approvals import Waits
from .approvers import not_elevated, timed_out
from .arguments import Sent
from .frozen import FrozenRun
from .outcome import CodeActOutcome
from .turns import Turns


class PausableRun:
    """A run in a task of its own that hands out its questions one at a time; it is the approver of its own program.

    A question that is not answered within `timeout` seconds is refused, and the program goes on. Cancelling a caller
    of `next` ends the program.
    """

    def __init__(
        self, perform: Callable[[Approver], Coroutine[Any, Any, CodeActOutcome]], *, timeout: float | None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._questions: asyncio.Queue[tuple[ApprovalRequest, asyncio.Future[ApprovalDecision]]] = asyncio.Queue()
        self._asked: asyncio.Future[ApprovalDecision] | None = None
        self._task = self.loop.create_task(perform(self))

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Queue a request for `next` to hand out, and return its decision: a refusal after `timeout` seconds.

        A framework's answer is yes or no, and never that of an elevated approver.
        """
        if request.elevated:
            return not_elevated()
        answer: asyncio.Future[ApprovalDecision] = self.loop.create_future()
        self._questions.put_nowait((request, answer))
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError:
            return timed_out(self._timeout)

    async def next(self) -> ApprovalRequest | CodeActOutcome:
        """Return the next question, or the outcome of the run."""
        while True:
            question = asyncio.ensure_future(self._questions.get())
            try:
                await asyncio.wait({self._task, question}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                question.cancel()
                await self.end()
                raise
            if self._task.done():
                question.cancel()
                return self._task.result()
            request, answer = question.result()
            if not answer.done():  # done: it timed out, or its call was withdrawn, while another question was decided
                self._asked = answer
                return request

    @property
    def is_over(self) -> bool:
        """Whether the program has ended, by itself or with its event loop."""
        return self._task.done() or self.loop.is_closed()

    @property
    def outcome(self) -> CodeActOutcome | None:
        """The run's outcome if it has ended by itself, else `None`."""
        task = self._task
        return task.result() if task.done() and not task.cancelled() and task.exception() is None else None

    def answer(self, decision: ApprovalDecision) -> None:
        """Decide the question that was handed out last; a question refused meanwhile stays refused."""
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_result(decision)

    async def end(self) -> None:
        """End the program, and wait until nothing of it runs."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def abandon(self) -> None:
        """End the program soon, from any thread. Does nothing once its event loop is closed, which ends it."""
        try:
            self.loop.call_soon_threadsafe(self._task.cancel)
        except RuntimeError:
            return


class PausingApprover:
    """Asks another approver, and pauses the program's turn while any of its questions is open."""

    def __init__(self, approver: Approver, turns: Turns) -> None:
        self._approver = approver
        self._turns = turns
        self._open = 0

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return the decision of the other approver."""
        self._open += 1
        self._turns.pause()
        try:
            return await self._approver.decide(request)
        finally:
            self._open -= 1
            if not self._open:
                self._turns.resume()


@dataclass(frozen=True, kw_only=True)
class Waiting(Waits):
    """A question that a framework was given. `paused` is the run that waits for it, `None` if none has begun.

    `shown` is the digest of the program that was shown: an answer counts only for that program. `lasting` is true if
    the scope may be used again after the agent's run.
    """

    run: FrozenRun
    sent: Sent = field(repr=False)
    shown: str
    named: tuple[str, ...]
    paused: PausableRun | None
    lasting: bool = True

    def give_up(self) -> None:
        """End the waiting program, if there is one, from any thread."""
        if self.paused is not None:
            self.paused.abandon()
