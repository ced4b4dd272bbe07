"""Approvers that are functions of the caller's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

from actbox.core.errors import InvalidValue
from actbox.tools import ApprovalDecision, ApprovalRequest, Approver
from actbox.tools.approval import NOT_ELEVATED
from actbox.tools.threads import ThreadPool

Answer = ApprovalDecision | bool
Callback = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]

CALLBACKS_AT_ONCE: Final = 16
"""The most sync functions that are asked at once; further requests wait. Tools have separate threads."""

_threads = ThreadPool(limit=CALLBACKS_AT_ONCE)


class CallbackApprover:
    """Asks a function, sync or async, which returns `True`, `False` or an `ApprovalDecision`.

    A sync function is called in a thread. If its request is withdrawn, or `timeout` seconds are over, it runs on and
    its answer is ignored. Any other return value, or an exception, is a refusal. `elevated=True` says that a `True` may
    approve packages that no list of the policy has; an `ApprovalDecision` says it for itself. With `elevated=False` the
    function is not asked about such packages.
    """

    def __init__(self, function: Callback, *, timeout: float | None = None, elevated: bool | None = None) -> None:
        if not callable(function):
            raise InvalidValue(f"an approver is a function of one request, not {type(function).__name__}")
        self._function = function
        self._timeout = checked_timeout(timeout)
        self._elevated = elevated
        call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return the function's answer. Raises the function's exceptions."""
        if request.elevated and self._elevated is False:
            return not_elevated()
        try:
            async with asyncio.timeout(self._timeout) as limit:
                answer = await self._answer(request)
        except TimeoutError:
            if not limit.expired():
                raise
            return timed_out(self._timeout)
        if limit.expired():  # the function answered, but too late
            return timed_out(self._timeout)
        if isinstance(answer, bool):
            if answer and request.elevated and not self._elevated:
                return not_elevated()
            return ApprovalDecision(answer, elevated=bool(self._elevated))
        if isinstance(answer, ApprovalDecision):
            return answer
        raise TypeError(f"an approver answers with True, False or an ApprovalDecision, not {type(answer).__name__}")

    async def _answer(self, request: ApprovalRequest) -> object:
        if self._is_async:
            answer: object = self._function(request)
        else:
            answer = await _threads.run(self._function, request)
        return await answer if inspect.isawaitable(answer) else answer


def approver_of(given: Approver | Callback | None) -> Approver | None:
    """Return an approver: the given one, or one that calls a function. Raises `InvalidValue` for any other object."""
    if given is None or isinstance(given, Approver):
        return given
    return CallbackApprover(given)


def timed_out(seconds: float | None) -> ApprovalDecision:
    """Return the refusal of a question that nobody has answered in time."""
    return ApprovalDecision(False, f"nobody decided within {seconds:g} seconds", cause="timeout")


def not_elevated() -> ApprovalDecision:
    """Return the refusal of a question that only an elevated approver may answer."""
    return ApprovalDecision(False, NOT_ELEVATED, cause="unavailable")


def checked_timeout(seconds: float | None) -> float | None:
    """Return the validated timeout of an approver. Raises `InvalidValue` unless it is a number above zero or `None`."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise InvalidValue(f"an approver's timeout must be a number of seconds above zero, not {seconds!r}")
    return seconds
