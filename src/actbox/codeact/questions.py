"""The questions of one runner that wait for a framework's answers, and what is known of the programs that asked."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from actbox.core.call_log import CallLog

from .outcome import CodeActOutcome
from .waiting import Waiting

Key = tuple[str, str]
"""A scope and a call id."""

MOST_KNOWN: Final = 200
"""Calls of `execute_code` of which it is remembered whether they have begun, and which tools they have called."""
MOST_ENDED: Final = 100
"""Outcomes that nobody has asked for yet."""


class Questions:
    """Questions by the call that asks. Safe to use from any thread.

    At most `most` wait; the oldest is given up for a further one, and so is one that waits longer than `timeout`
    seconds for a program that has not begun. Giving a question up ends the program that waits for its answer.
    """

    def __init__(self, *, most: int, timeout: float | None) -> None:
        self._most = most
        self._timeout = timeout
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Key, Waiting] = OrderedDict()
        self._known: OrderedDict[Key, CallLog | None] = OrderedDict()
        self._ended: OrderedDict[Key, CodeActOutcome] = OrderedDict()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def put(self, key: Key, waiting: Waiting) -> bool:
        """Keep a question until it is answered; return whether it can be, since no other waits under its key."""
        given_up = []
        with self._lock:
            there = self._waiting.get(key)
            if there is not None and not self.is_over(there):
                return False
            if there is not None:
                self._keep_outcome(key, there)
            self._waiting[key] = waiting
            self._waiting.move_to_end(key)
            if waiting.paused is None:
                self._know(key, None)
            while len(self._waiting) > (0 if self._closed else self._most):
                oldest, question = self._waiting.popitem(last=False)
                self._keep_outcome(oldest, question)
                given_up.append(question)
        for question in given_up:
            question.give_up()
        return True

    def take(self, key: Key) -> Waiting | None:
        """Return the question that waits under a key, which then waits no more."""
        with self._lock:
            return self._waiting.pop(key, None)

    def is_waiting(self, key: Key) -> bool:
        """Return whether a question is kept under a key, be it too late to answer it or not."""
        with self._lock:
            return key in self._waiting

    def is_taken(self, key: Key) -> bool:
        """Return whether no other question can be put under a key."""
        with self._lock:
            there = self._waiting.get(key)
            return there is not None and not self.is_over(there)

    def is_over(self, waiting: Waiting) -> bool:
        """Return whether nothing waits for an answer any more: it took too long, or the program has ended."""
        if waiting.paused is not None:
            return waiting.paused.is_over
        return self._timeout is not None and time.monotonic() - waiting.asked_at > self._timeout

    def begin(self, key: Key, calls: CallLog) -> None:
        """Note that a program has begun, whose calls of tools are taken down here."""
        with self._lock:
            self._know(key, calls)

    def begun(self, key: Key) -> bool | None:
        """Return whether the program has begun; `None` where that is not known, or not any more."""
        with self._lock:
            return self._known[key] is not None if key in self._known else None

    def calls(self, key: Key) -> CallLog | None:
        """Return the calls of tools that a program has made which has begun."""
        with self._lock:
            return self._known.get(key)

    def ended(self, key: Key) -> CodeActOutcome | None:
        """Return, once, what came of a program that nobody answered in time, and that has ended since."""
        with self._lock:
            there = self._waiting.get(key)
            if there is not None and there.paused is not None and there.paused.outcome is not None:
                del self._waiting[key]
                return there.paused.outcome
            return self._ended.pop(key, None)

    def close(self) -> None:
        """Give all questions up, and those that come later."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.items())
            self._waiting.clear()
            for key, question in waiting:
                self._keep_outcome(key, question)
        for _, question in waiting:
            question.give_up()

    def _know(self, key: Key, calls: CallLog | None) -> None:
        self._known[key] = calls
        self._known.move_to_end(key)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def _keep_outcome(self, key: Key, waiting: Waiting) -> None:
        outcome = None if waiting.paused is None else waiting.paused.outcome
        if outcome is not None:
            self._ended[key] = outcome
            self._ended.move_to_end(key)
            while len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)
