"""What the runs of one environment take, kept ready by a thread: sandboxes that wait, workspaces, mounts.

One stock, with one nursery, for each environment (this interpreter, its packages and a preload list); all sandboxes of
this process share it. It is opened by the first of them and closed when none has used it for a while, and at exit.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.limits import Limits

from .cgroups import RunGroup
from .child import Child
from .hierarchies import support
from .nursery import Nursery, NurseryDied
from .pool import Pool
from .stored import StoredWorkspace

IDLE_SECONDS = 30.0
"""A stock that no sandbox uses is closed after so long."""

# A file costs kernel memory too, however small it is.
_INODES_PER_MIB = 256
_LOOK_SECONDS = 2.5
_END_SECONDS = 5.0

Points = tuple[tuple[str, bool], ...]


def inodes_for(size_mib: int) -> int:
    """Return how many files there may be in so much space."""
    return size_mib * _INODES_PER_MIB


class Stock:
    """A nursery, and what is made ahead with it."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        """Start the nursery. Raises `SandboxUnavailable`."""
        self.nursery = Nursery(preload)
        self.users = 0
        """How many sandboxes are open; changed by `acquire` and `release` only."""
        self.plain = Pool(self._make_plain, self._wake)
        self.workspaces = Pool(self._make_workspace, self._wake)
        self._others: dict[Points, Pool[Child]] = {}
        self._children: set[Child] = set()
        self._workspaces: set[StoredWorkspace] = set()
        self._closing_names: list[str] = []
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._poked = False
        self._closed = False
        self._idle_since = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="actbox-stock", daemon=True)
        self._thread.start()

    def pool(self, points: Points) -> Pool[Child]:
        """Return the sandboxes whose root has these mount points, besides those that every root has."""
        if not points:
            return self.plain
        with self._changed:
            if points not in self._others:
                self._others[points] = Pool(lambda: self.make(points), self._wake)
            return self._others[points]

    def make(self, points: Points = (), forkable: bool = False) -> Child:
        """Make one sandbox that waits for a run. Blocks. Raises `SandboxUnavailable`."""
        groups, limits = support(), Limits()
        group = RunGroup(groups, limits) if groups else None
        files: dict[str, int] = {}
        try:
            files = group.open_files() if group is not None else {}
            _, descriptors = self.ask(
                "spawn",
                list(files.values()),
                groups=list(files),
                points=[list(point) for point in points],
                tmp_mib=limits.workspace_mib,
                inodes=inodes_for(limits.workspace_mib),
                forkable=forkable,
            )
        except BaseException:
            if group is not None:
                group.remove()
            raise
        finally:
            for descriptor in files.values():
                os.close(descriptor)
        starts = self.nursery.starts
        child = Child(
            descriptors,
            group,
            nursery_lives=lambda: self.nursery.starts == starts and self.nursery.lives_on(),
            is_orphan=lambda: self.nursery.starts != starts or not self.nursery.alive,
        )
        with self._changed:
            self._children = (
                {known for known in self._children if not known.ended} if len(self._children) > 64 else self._children
            )
            self._children.add(child)
        return child

    def make_workspace(self, size_mib: int) -> StoredWorkspace:
        """Make a workspace of this size. Blocks. Raises `SandboxUnavailable`."""
        name, folder = self._open_workspace(size_mib)
        workspace = StoredWorkspace(self, name, folder)
        with self._changed:
            self._workspaces.add(workspace)
        return workspace

    def _open_workspace(self, size_mib: int) -> tuple[str, int]:
        request: dict[str, Any] = {"size_mib": size_mib, "inodes": inodes_for(size_mib)}
        for last in (False, True):
            name = uuid.uuid4().hex
            try:
                _, (folder,) = self.nursery.ask("open_workspace", name=name, **request)
                return name, folder
            except SandboxUnavailable as error:
                with self._changed:
                    self._closing_names.append(name)  # it may have been made all the same
                if last or not isinstance(error, NurseryDied):
                    raise
        raise AssertionError

    def make_mounts(self, workspace: str, mounts: list[dict[str, Any]]) -> list[int]:
        """Make what one run attaches: the workspace, its inputs read-only, then the mounts. Blocks."""
        _, descriptors = self.ask("mounts", workspace=workspace, mounts=mounts[:_MOST_AT_ONCE])
        try:
            for start in range(_MOST_AT_ONCE, len(mounts), _MOST_AT_ONCE):
                more = mounts[start : start + _MOST_AT_ONCE]
                descriptors += self.ask("mounts", workspace="", mounts=more)[1]
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return descriptors

    def forget_names(self, folder: int) -> None:
        """Have the kernel forget the names that guests have looked up at `/input`; the descriptor stays. Blocks."""
        self.ask("forget_names", [folder])

    def ask(self, op: str, descriptors: list[int] | None = None, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Ask the nursery for something that may be asked twice, which it is where the nursery dies meanwhile."""
        try:
            return self.nursery.ask(op, descriptors, **request)
        except NurseryDied:
            return self.nursery.ask(op, descriptors, **request)

    def remove_workspace(self, workspace: StoredWorkspace) -> None:
        """Have a workspace removed soon."""
        with self._changed:
            self._workspaces.discard(workspace)
            self._closing_names.append(workspace.name)
        self._wake()

    def later(self, job: Callable[[], None]) -> None:
        """Have something done soon, in the stock's thread."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def drain(self) -> None:
        """Let go of everything that waits; the next run has it made for itself."""
        for pool in self._pools():
            pool.drain()
        for workspace in list(self._workspaces):
            workspace.drain()

    def close(self) -> None:
        """End the nursery and with it all that came from it; return when nothing of that is left."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self.drain()
        self.nursery.close()
        self._thread.join(_END_SECONDS)
        self.drain()  # of what it was just making
        deadline = time.monotonic() + _END_SECONDS
        while any(not child.buried for child in self._children) and time.monotonic() < deadline:
            time.sleep(0.001)

    def leave_to_parent(self) -> None:
        """In a forked process: let go of what is the parent's."""
        self._closed = True
        for pool in self._pools():
            pool.leave_to_parent()
        self.nursery.leave_to_parent()

    def _pools(self) -> list[Pool[Any]]:
        return [self.plain, self.workspaces, *self._others.values()]

    def _make_plain(self) -> Child:
        return self.make()

    def _make_workspace(self) -> StoredWorkspace:
        return self.make_workspace(Limits().workspace_mib)

    def _wake(self) -> None:
        with self._changed:
            self._poked = True
            self._changed.notify()

    # The thread

    def _serve(self) -> None:
        while self._await_work():
            self._do_jobs()
            while not self._closed and (wanting := [pool for pool in self._pools() if pool.wants()]):
                for pool in wanting:
                    pool.fill()
                self._do_jobs()

    def _await_work(self) -> bool:
        """Wait until there is something to do; return whether the stock is still open."""
        with self._changed:
            while not (self._poked or self._jobs or self._closed):
                if not self._changed.wait(_LOOK_SECONDS):
                    for pool in self._pools():
                        pool.relax(1 if self.users and pool is not self.workspaces else 0)
                    if not self.users and time.monotonic() - self._idle_since > IDLE_SECONDS:
                        threading.Thread(target=_close_if_idle, args=(self,), daemon=True).start()
            self._poked = False
            return not self._closed

    def _do_jobs(self) -> None:
        while self._jobs:
            with contextlib.suppress(SandboxUnavailable):  # who needs it will ask for it, and be told
                self._jobs.popleft()()
        with self._changed:
            names, self._closing_names = self._closing_names, []
        if names:
            with contextlib.suppress(SandboxUnavailable):
                self.ask("close_workspace", names=names)


# Each takes up to three descriptors, of which one answer brings at most 250.
_MOST_AT_ONCE = 80
_stocks: dict[tuple[str, ...], Stock] = {}
_opening = threading.Lock()
_at_exit = False


def acquire(preload: tuple[str, ...] = ()) -> Stock:
    """Return the stock of an environment for one more sandbox, opening it where it is not. May block."""
    global _at_exit
    with _opening:
        stock = _stocks.get(preload)
        if stock is None:
            stock = _stocks[preload] = Stock(preload)
            if not _at_exit:
                _at_exit = True
                atexit.register(close_all)
        stock.users += 1
        return stock


def is_open(preload: tuple[str, ...] = ()) -> bool:
    """Return whether `acquire` would not block."""
    return preload in _stocks


def release(stock: Stock) -> None:
    """Give a stock back that `acquire` returned."""
    with _opening:
        stock.users -= 1
        stock._idle_since = time.monotonic()


def drain_all() -> None:
    """Let go of all sandboxes and workspaces that wait in this process."""
    for stock in list(_stocks.values()):
        stock.drain()


def close_all() -> None:
    """Close every stock of this process; the next sandbox opens one again."""
    with _opening:
        stocks = list(_stocks.values())
        _stocks.clear()
    for stock in stocks:
        stock.close()


def _close_if_idle(stock: Stock) -> None:
    with _opening:
        if stock.users or _stocks.get(stock.nursery.preload) is not stock:
            return
        del _stocks[stock.nursery.preload]
    stock.close()


def _leave_to_parent() -> None:
    global _opening
    _opening = threading.Lock()
    for stock in _stocks.values():
        stock.leave_to_parent()
    _stocks.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
