"""A run that is paused while somebody decides on a call of its program, and what waits to be decided."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from actbox.tools import ApprovalDecision, ApprovalRequest, Approver

from .approvers import timed_out
from .frozen import FrozenRun
from .outcome import CodeActOutcome
from .turns import Turns


class PausableRun:
    """A run in a task of its own, whose questions are handed out one at a time; it is its own program's approver.

    A question that is not answered within `timeout` seconds is refused, and the program goes on. Cancelling whoever
    waits for `next` ends the program.
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
        """Wait until the question has been handed out and answered."""
        answer: asyncio.Future[ApprovalDecision] = self.loop.create_future()
        self._questions.put_nowait((request, answer))
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError:
            return timed_out(self._timeout)

    async def next(self) -> ApprovalRequest | CodeActOutcome:
        """Return the next question, or what the run came to."""
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
            if not answer.done():  # else its time was over, or its call was withdrawn, while another was decided
                self._asked = answer
                return request

    @property
    def is_over(self) -> bool:
        """Whether the program has ended, or its event loop and so the program with it."""
        return self._task.done() or self.loop.is_closed()

    @property
    def outcome(self) -> CodeActOutcome | None:
        """What the run has come to, if it has ended by itself."""
        task = self._task
        return task.result() if task.done() and not task.cancelled() and task.exception() is None else None

    def answer(self, decision: ApprovalDecision) -> None:
        """Decide the question that was handed out last; one that was refused meanwhile stays so."""
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_result(decision)

    async def end(self) -> None:
        """End the program, and wait until nothing of it is left."""
        self._task.cancel()
        await asyncio.wait({self._task})

    def abandon(self) -> None:
        """End the program soon, from any thread; nothing where its event loop is closed, and it with that."""
        try:
            self.loop.call_soon_threadsafe(self._task.cancel)
        except RuntimeError:
            return


class PausingApprover:
    """Asks another approver, and has the program's turn paused as long as any question of its is open."""

    def __init__(self, approver: Approver, turns: Turns) -> None:
        self._approver = approver
        self._turns = turns
        self._open = 0

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return what the other answers."""
        self._open += 1
        self._turns.pause()
        try:
            return await self._approver.decide(request)
        finally:
            self._open -= 1
            if not self._open:
                self._turns.resume()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A question that a framework was given. `paused` is the run that waits for it, `None` where none has begun.

    `code_hash` is that of the program that was shown: an answer counts for that one only. `lasting` is whether the
    scope is used again after the run of the agent.
    """

    run: FrozenRun
    program: str = field(repr=False)
    code_hash: str
    named: tuple[str, ...]
    paused: PausableRun | None
    lasting: bool = True
    asked_at: float = field(default_factory=time.monotonic)

    def give_up(self) -> None:
        """End the program that waits, if one does, from any thread."""
        if self.paused is not None:
            self.paused.abandon()
