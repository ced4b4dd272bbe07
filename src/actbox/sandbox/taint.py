"""`Taint`: the label of one workspace, and what may still leave the sandbox with it.

The label is the join of all that programs of the workspace could have read so far. Its runs, sessions and their copies
share it, since they share files and a network. It only rises: before a program receives something of a higher label,
the label is raised, and every connection to a host that is not cleared for it ends. `docs/labels.md` says where this
cannot be enforced.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Protocol

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.labels import PUBLIC, Label
from actbox.core.policy import Policy
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult

call_taint: ContextVar[Taint | None] = ContextVar("call_taint", default=None)
"""In a tool, the label of the workspace whose program calls it; the tool may raise it before it returns."""


class LabelRefused(Exception):
    """Raised if a program must not receive data of a label, because of what the program can write to."""

    def __init__(self, why: str) -> None:
        super().__init__(why)

    def result(self, engine: str) -> ExecutionResult:
        """Return the result of a program that did not begin for this reason."""
        error = ErrorInfo(kind=ErrorKind.POLICY, type="LabelRefused", message=str(self))
        return ExecutionResult(exit_code=EXIT_NOT_RUN, error=error, sandbox=engine)


class Outlet(Hashable, Protocol):
    """A connection over which something may leave a sandbox."""

    cleared: Label | None
    """The highest label that may leave over it; `None` is no limit."""

    def cut(self, why: str) -> None:
        """Close the connection at once, in the event loop that serves it."""


class Taint:
    """The label of one workspace. Methods may be called from any thread."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._most = policy.clearance(None)
        self.label = policy.read_label
        """The join of what programs of the workspace could have read so far."""
        self._start = self.label
        self._lock = threading.Lock()
        self._outlets: dict[Outlet, asyncio.AbstractEventLoop] = {}

    @property
    def has_risen(self) -> bool:
        """True if the label is another one than programs have from their start."""
        return self.label is not self._start

    def clearance(self, own: Label | None) -> Label | None:
        """Return the clearance of an exit that has this clearance of its own, if any; `None` is no limit."""
        return self._most if own is None else own

    def allows(self, cleared: Label | None) -> bool:
        """Return True if the sandbox may send something to where data up to this label may go."""
        return cleared is None or self.label <= cleared

    def refusal(self, what: str, cleared: Label | None) -> str:
        """Return the sentence about an exit that is not cleared; "" if it is."""
        if self.allows(cleared):
            return ""
        return f"this sandbox has read data labelled {self.label}, and {what} is cleared up to {cleared}"

    def check(self, label: Label) -> None:
        """Raise `LabelRefused` if programs of the workspace must not receive data of a label."""
        if label is not PUBLIC and (why := self._policy.why_not_writable(label)):
            raise LabelRefused(why)

    def raise_to(self, label: Label, *, keep: Outlet | None = None) -> None:
        """Join a label to the workspace's, and close every connection that is not cleared for it, except `keep`.

        Once this returns nothing that programs send leaves over those connections: each looks at the label before it
        sends. Raises `LabelRefused` as `check` does.
        """
        if label is PUBLIC or label <= self.label:
            return
        self.check(label)
        with self._lock:
            self.label |= label
            uncleared = [(one, loop) for one, loop in self._outlets.items() if not self.allows(one.cleared)]
        for outlet, loop in uncleared:
            if outlet is not keep:
                _cut(outlet, loop, f"this sandbox has read data labelled {self.label} meanwhile")

    def attach(self, outlet: Outlet) -> None:
        """Have a connection of the running event loop closed once the label rises above its clearance."""
        with self._lock:
            self._outlets[outlet] = asyncio.get_running_loop()

    def detach(self, outlet: Outlet) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._outlets.pop(outlet, None)


def _cut(outlet: Outlet, loop: asyncio.AbstractEventLoop, why: str) -> None:
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:
        outlet.cut(why)
        return
    with contextlib.suppress(RuntimeError):  # that event loop is closed, and its connections with it
        loop.call_soon_threadsafe(outlet.cut, why)
