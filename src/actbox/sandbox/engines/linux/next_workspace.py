"""The workspaces that a sibling sandbox gets for the next programs of its call of `map`, in the same lane.

A program that touches its workspace would end the sandbox, because the next program must see an empty one. But a
workspace is made in a fraction of the time that a sandbox takes: so the lane stays, and changes its workspace. A
sandbox that has done so once has the next workspace made while its program runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from actbox.core.errors import SandboxUnavailable

from .descriptors import close_all
from .stored import StoredWorkspace

if TYPE_CHECKING:
    from .lanes import Lanes
    from .stock import Stock


class NextWorkspaces:
    """Has the lane of a sandbox go on after each program, in another workspace if the program has touched its own."""

    def __init__(
        self, stock: Stock, lanes: Lanes, size_mib: int, host_id: int, use: Callable[[StoredWorkspace], None]
    ) -> None:
        """`use` makes a workspace the sandbox's. It raises `OSError` and `SandboxUnavailable`.

        Under root `host_id` is the user of the sandbox's guests.
        """
        self.is_awaited = False
        """True from the end of a program that touched its workspace until the sandbox has another one; or for good.

        The sandbox then has to end.
        """
        self.has_changed = False
        """True once the sandbox has had another workspace."""
        self._stock = stock
        self._lanes = lanes
        self._size_mib = size_mib
        self._host_id = host_id
        self._use = use
        self._ahead: _Ahead | None = None

    def prepare(self) -> None:
        """As a program begins, have a workspace made for the next one, if an earlier program has touched its own."""
        if self.has_changed and self._ahead is None:
            self._ahead = self._make()

    def go_on(self, is_untouched: bool, *, is_alone: bool) -> bool:
        """Have the lane go on after a program; return false if the sandbox has to end.

        `is_alone` is true if no process of the sandbox is left beside those of the lane.
        """
        if is_untouched:
            self._lanes.go_on()
        elif is_alone and self._lanes.can_change_workspace:
            self.is_awaited = True
            self._ahead = self._ahead or self._make()
            self._ahead.take(self._change)
        else:
            return False
        return True

    def close(self) -> None:
        """Discard what was made ahead; the sandbox is about to end."""
        self.is_awaited = True
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.drop()

    def leave_to_parent(self) -> None:
        """In a forked process, drop what was made ahead, which belongs to the parent."""
        if self._ahead is not None:
            self._ahead.leave_to_parent()

    def _make(self) -> _Ahead:
        return _Ahead(self._stock, self._size_mib, self._host_id)

    def _change(self, made: StoredWorkspace) -> None:
        self._ahead = None
        mounts = made.take_mounts()
        if mounts is None:  # they were disposed of meanwhile
            made.discard()
            return
        try:
            self._use(made)
        except (OSError, SandboxUnavailable):  # such as when the sandbox was stopped meanwhile
            close_all(mounts)
            made.discard()
            return
        self._lanes.change_workspace(made, mounts)
        self.is_awaited, self.has_changed = False, True


class _Ahead:
    """A workspace that the stock's thread makes, for one taker. Nothing tells if that fails."""

    def __init__(self, stock: Stock, size_mib: int, host_id: int) -> None:
        self._stock = stock
        self._size_mib = size_mib
        self._host_id = host_id
        self._lock = threading.Lock()
        self._made: StoredWorkspace | None = None
        self._give: Callable[[StoredWorkspace], None] = self._keep
        stock.later(self._make)

    def take(self, call: Callable[[StoredWorkspace], None]) -> None:
        """Call a function with the workspace: now, or in this event loop once it is there."""
        loop = asyncio.get_running_loop()

        def give(made: StoredWorkspace) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(call, made)
                return
            made.discard()  # the event loop is closed, so nothing waits for it

        if (made := self._take(give)) is not None:
            call(made)

    def drop(self) -> None:
        """Discard the workspace, now or once it is there."""
        if (made := self._take(StoredWorkspace.discard)) is not None:
            made.discard()

    def leave_to_parent(self) -> None:
        """In a forked process, drop the workspace, which belongs to the parent."""
        if self._made is not None:
            self._made.leave_to_parent()

    def _make(self) -> None:
        made = self._stock.make_workspace(self._size_mib, self._host_id)
        try:
            made.make_ahead()
        except BaseException:
            made.discard()
            raise
        with self._lock:
            self._give(made)

    def _take(self, give: Callable[[StoredWorkspace], None]) -> StoredWorkspace | None:
        """Return the workspace if it is there; else it will be given."""
        with self._lock:
            self._give = give
            made, self._made = self._made, None
        return made

    def _keep(self, made: StoredWorkspace) -> None:
        self._made = made
