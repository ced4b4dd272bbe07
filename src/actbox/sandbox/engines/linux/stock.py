"""A stock of sandboxes, workspaces and mounts that a thread keeps ready for the runs of one base.

Each base (an environment and a preload list) has one stock with one nursery, shared by all
sandboxes of this process. Its first sandbox opens it. It is closed after some time without a sandbox, and at exit.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.limits import Limits
from actbox.core.mounts import INPUT, OUTPUT, FileMount
from actbox.sandbox.dependencies import PACKAGES
from actbox.sandbox.nursery.attach import OWN, SHARED
from actbox.sandbox.one_disk import OWN_PLACES

from .cgroups import RunGroup
from .child import Child
from .guest_ids import GuestIds, guest_ids
from .hierarchies import support
from .interpreter import Base
from .lanes import Lanes
from .nursery import NurseryDied, open_nursery
from .pool import MOST_READY, Pool
from .reaper import reaper
from .stored import RUNS_AHEAD, StoredWorkspace

IDLE_SECONDS = 30.0
"""A stock without sandboxes is closed after this many seconds."""

_log = logging.getLogger("actbox")

# Each file costs kernel memory too, however small it is.
_INODES_PER_MIB = 256
_LOOK_SECONDS = 2.5
_END_SECONDS = 5.0

Points = tuple[tuple[str, bool], ...]


def inodes_for(size_mib: int) -> int:
    """Return how many files a file system of this size may have."""
    return size_mib * _INODES_PER_MIB


def shared_mounts() -> list[dict[str, Any]]:
    """Return the mounts of places that share the file system of the workspace, in the nursery's format."""
    return [{"path": place, "mode": SHARED, "is_folder": True, "keep_changes": False} for place in OWN_PLACES]


def packages_mount(folder: Path) -> dict[str, Any]:
    """Return the mount of a program's packages, in the nursery's format."""
    status = os.stat(folder)
    return {
        "host_path": str(folder),
        "path": PACKAGES,
        "mode": "packages",
        "is_folder": True,
        "identity": [status.st_dev, status.st_ino],
        "keep_changes": False,
        "size_mib": 0,
        "inodes": 0,
    }


def policy_mount(mount: FileMount, size_mib: int) -> dict[str, Any]:
    """Return a mount of the policy in the nursery's format; what is written to an overlay has this size."""
    path = mount.mount_path
    for alias in (INPUT, OUTPUT):  # links in the guest's root; a mount goes to their targets
        if path.is_relative_to(alias):
            path = PurePosixPath("/workspace") / alias.name / path.relative_to(alias)
    return {
        "host_path": str(mount.host_path),
        "path": str(path),
        "mode": "input" if mount.mount_path == INPUT else mount.mode,
        "is_folder": mount.host_path.is_dir(),
        "identity": list(mount.identity),
        "keep_changes": mount.keep_changes,
        "size_mib": size_mib,
        "inodes": inodes_for(size_mib),
    }


def points_of(mounts: list[dict[str, Any]]) -> Points:
    """Return the mount points that the sandbox's root must have from the start."""
    made = (mount for mount in mounts if mount["mode"] != SHARED and not mount["path"].startswith(OWN))
    return tuple(sorted((mount["path"], mount["is_folder"]) for mount in made))


class Stock:
    """A nursery, and the things made ahead with it."""

    def __init__(self, base: Base) -> None:
        """Start the nursery. Raises `SandboxUnavailable`."""
        self.nursery = open_nursery(base)
        self.least = min(base.layer.warm_pool_size if base.layer is not None else 1, MOST_READY)
        """How many guests each pool keeps ready in quiet times, as long as a sandbox is open."""
        self.birth: Future[str | None] | None = None
        """The nursery's trial run, `None` before it.

        Its result is why it failed, "" if it did not, `None` if unknown.
        """
        self.holds_back = False
        """True from the end of the trial run to the end of the first run: until then that one needs the processors.

        No workspaces are made ahead then, unless there is a second sandbox.
        """
        self.users = 0
        """The number of open sandboxes; changed by `acquire` and `release` only."""
        self.plain = Pool(self._make_plain, self._wake)
        self._ahead: dict[tuple[int, bool], Pool[StoredWorkspace]] = {}
        self._others: dict[tuple[int, Points], Pool[Child]] = {}
        self.lanes: set[Lanes] = set()
        """The lanes of the open sandboxes, of which those end that are idle for some time."""
        self._children: set[Child] = set()
        self._workspaces: set[StoredWorkspace] = set()
        self._closing_names: list[str] = []
        self._closing_ids: list[int] = []
        self._ids: GuestIds | None = None
        """The user ids that the stock's own are of, once it has taken one."""
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._poked = False
        self._closed = False
        self._idle_since = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="actbox-stock", daemon=True)
        try:
            reaper()  # the reaper must exist before anything can need reaping
            self._thread.start()
        except (OSError, RuntimeError) as error:
            self.nursery.close()
            raise SandboxUnavailable(f"this process cannot wait for sandboxes: {error}") from error

    def pool(self, points: Points, host_id: int) -> Pool[Child]:
        """Return the pool of waiting guests for a sandbox.

        Their root has `points` as additional mount points, and outside they are the user `host_id`.
        """
        if not points and host_id < 0:
            return self.plain
        key = (host_id, points)
        with self._changed:
            if key not in self._others:
                self._others[key] = Pool(lambda: self.make(host_id, points), self._wake)
            return self._others[key]

    def workspaces(self, size_mib: int, shared: bool) -> Pool[StoredWorkspace] | None:
        """Return the pool of workspaces as `make_workspace` makes them; `None` for one more size than are kept."""
        with self._changed:
            if (size_mib, shared) not in self._ahead and len(self._ahead) < _MOST_SIZES:
                self._ahead[size_mib, shared] = Pool(lambda: self._make_workspace(size_mib, shared), self._wake)
            return self._ahead.get((size_mib, shared))

    def make(self, host_id: int, points: Points = (), forkable: bool = False) -> Child:
        """Make one sandbox that waits for a run. Blocks. Raises `SandboxUnavailable`."""
        groups, limits = support(), Limits()
        group = RunGroup(groups, limits) if groups else None
        files: dict[str, int] = {}
        place: list[int] = []
        try:
            files = group.open_files() if group is not None else {}
            if points:
                _, place = self.ask("birthplace", points=[list(point) for point in points])
            answer, descriptors = self.ask(
                "spawn",
                [*files.values(), *place],
                groups=list(files),
                host_id=host_id,
                placed=bool(place),
                tmp_mib=limits.workspace_mib,
                inodes=inodes_for(limits.workspace_mib),
                forkable=forkable,
            )
        except BaseException:
            if group is not None:
                group.remove()
            raise
        finally:
            for descriptor in [*files.values(), *place]:
                os.close(descriptor)
        starts = self.nursery.starts
        child = Child(
            descriptors,
            group,
            nursery_lives=lambda: self.nursery.starts == starts and self.nursery.lives_on(),
            is_orphan=functools.partial(self.nursery.is_gone_since, starts),
        )
        child.shares_memory = answer["shares_memory"]
        with self._changed:
            self._children = (
                {known for known in self._children if not known.ended} if len(self._children) > 64 else self._children
            )
            self._children.add(child)
        return child

    def make_workspace(self, size_mib: int, host_id: int = -1, *, shared: bool = False) -> StoredWorkspace:
        """Make a workspace of this size. Blocks. Raises `SandboxUnavailable`.

        Under root its owner is a new user id of its own, or `host_id`, the id of a sandbox that is open already. With
        `shared` its size is that of all files of its runs.
        """
        lends_id = host_id < 0 and self.nursery.privileged
        if lends_id:
            self._ids = self._ids or guest_ids()
            host_id = self._ids.take()
        try:
            name, opened = self._open_workspace(size_mib, host_id, shared)
        except BaseException:
            if lends_id and self._ids is not None:
                self._ids.give_back(host_id)
            raise
        workspace = StoredWorkspace(self, name, opened, host_id, lends_id=lends_id)
        with self._changed:
            self._workspaces.add(workspace)
        return workspace

    def _open_workspace(self, size_mib: int, host_id: int, shared: bool) -> tuple[str, list[int]]:
        request: dict[str, Any] = {"host_id": host_id, "size_mib": size_mib, "inodes": inodes_for(size_mib)}
        request["runs"] = RUNS_AHEAD if shared else 0
        for last in (False, True):
            name = os.urandom(16).hex()
            try:
                return name, self.nursery.ask("open_workspace", name=name, **request)[1]
            except BaseException as error:
                with self._changed:
                    self._closing_names.append(name)  # it may have been made despite the error
                if last or not isinstance(error, NurseryDied):
                    raise
        raise AssertionError

    def make_mounts(self, workspace: StoredWorkspace, mounts: list[dict[str, Any]], run: str) -> list[int]:
        """Make the mounts that one run attaches: the workspace, its inputs read-only, then `mounts`. Blocks.

        `run` is the name of the directory for the mounts that share the file system of the workspace, else "".
        """
        owner, first = workspace.host_id, mounts[:_MOST_AT_ONCE]
        op = "mounts" if all(mount["mode"] == SHARED for mount in first) else "host_mounts"
        _, descriptors = self.ask(op, workspace=workspace.name, host_id=owner, mounts=first, run=run)
        try:
            for start in range(_MOST_AT_ONCE, len(mounts), _MOST_AT_ONCE):
                more = mounts[start : start + _MOST_AT_ONCE]
                descriptors += self.ask("host_mounts", workspace="", host_id=owner, mounts=more, run="")[1]
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return descriptors

    def check_mounts(self, mounts: list[dict[str, Any]]) -> None:
        """Raise `SandboxUnavailable` if `make_mounts` would for one of these, as for a replaced directory. Blocks."""
        for start in range(0, len(mounts), _MOST_AT_ONCE):
            self.ask("check_host_mounts", mounts=mounts[start : start + _MOST_AT_ONCE])

    def make_packages(self, folder: Path, host_id: int) -> list[int]:
        """Make the mount of a program's packages for the user `host_id`. Blocks. Raises `SandboxUnavailable`."""
        return self.ask("host_mounts", workspace="", host_id=host_id, mounts=[packages_mount(folder)], run="")[1]

    def forget_names(self, folder: int) -> None:
        """Make the kernel drop the names it cached for guests at `/input`; the descriptor stays open. Blocks."""
        self.ask("forget_names", [folder])

    def ask(self, op: str, descriptors: list[int] | None = None, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Send the nursery a request that is safe to repeat; it is repeated once if the nursery dies."""
        try:
            return self.nursery.ask(op, descriptors, **request)
        except NurseryDied:
            return self.nursery.ask(op, descriptors, **request)

    def remove_workspace(self, workspace: StoredWorkspace) -> None:
        """Have a workspace removed soon, and now dispose of the waiting guests of its user."""
        idle: list[Pool[Child]] = []
        with self._changed:
            self._workspaces.discard(workspace)
            self._closing_names.append(workspace.name)
            if workspace.lends_id:
                keys = [key for key in self._others if key[0] == workspace.host_id]
                idle = [self._others.pop(key) for key in keys]
                self._closing_ids.append(workspace.host_id)
        for pool in idle:
            pool.close(SandboxUnavailable("the sandbox was stopped while a run was about to begin"))
        self._wake()

    def later(self, job: Callable[[], None]) -> None:
        """Run a function soon in the stock's thread, which then also fills its pools."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def drain(self) -> None:
        """Dispose of everything made ahead; the next run has it made anew."""
        for pool in self._pools():
            pool.drain()
        for lanes in list(self.lanes):
            lanes.drain()
        for workspace in list(self._workspaces):
            workspace.drain()

    def close(self) -> None:
        """End the nursery with everything forked from it, and wait until none of that is left."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self.drain()
        self.nursery.close()
        self._thread.join(_END_SECONDS)
        self.drain()  # disposes of what was being made meanwhile
        self._give_ids_back()
        deadline = time.monotonic() + _END_SECONDS
        while any(not child.buried for child in self._children) and time.monotonic() < deadline:
            time.sleep(0.001)

    def leave_to_parent(self) -> None:
        """In a forked process, drop everything that belongs to the parent."""
        self._closed = True
        for pool in self._pools():
            pool.leave_to_parent()
        self.nursery.leave_to_parent()

    def _pools(self) -> list[Pool[Any]]:
        return [self.plain, *self._ahead.values(), *self._others.values()]

    def _make_plain(self) -> Child:
        return self.make(-1)

    def _make_workspace(self, size_mib: int, shared: bool) -> StoredWorkspace:
        """Make a workspace ahead, and the mounts of its first run where these are the same for nearly all policies.

        Under root its first guest is made too, because only guests of its user id can use it.
        """
        workspace = self.make_workspace(size_mib, shared=shared)
        try:
            if workspace.lends_id:
                workspace.first_guest = self.make(workspace.host_id)
            if not shared:
                workspace.make_ahead()
        except BaseException:
            workspace.discard()
            raise
        return workspace

    def _wanting(self) -> list[Pool[Any]]:
        """Return the pools to fill now."""
        held = list(self._ahead.values()) if self.holds_back and self.users < 2 else []
        return [pool for pool in self._pools() if pool.wants() and (pool not in held or pool.is_awaited)]

    def _wake(self) -> None:
        with self._changed:
            self._poked = True
            self._changed.notify()

    # The thread

    def _serve(self) -> None:
        while self._await_work():
            try:
                self._do_work()
            except Exception:  # whoever waits for a pool would wait for ever if this thread ended
                _log.exception("the linux engine's thread could not do all of its work, and goes on")

    def _do_work(self) -> None:
        self._do_jobs()
        while not self._closed and (wanting := self._wanting()):
            for pool in wanting:
                pool.fill()
            self._do_jobs()

    def _await_work(self) -> bool:
        """Wait until there is work for the thread; return whether the stock is still open."""
        with self._changed:
            while not (self._poked or self._jobs or self._closed):
                if not self._changed.wait(_LOOK_SECONDS):
                    pools = self._pools()
                    for pool in pools:
                        is_kept = self.users and pool not in self._ahead.values() and len(pools) < _FEW_POOLS
                        pool.relax(self.least if is_kept else 0)
                    for lanes in list(self.lanes):
                        lanes.relax(1 if len(self.lanes) < _FEW_POOLS else 0)
                    if not self.users and time.monotonic() - self._idle_since > IDLE_SECONDS:
                        name = "actbox-stock-end"
                        threading.Thread(target=_close_if_idle, args=(self,), name=name, daemon=True).start()
            self._poked = False
            return not self._closed

    def _do_jobs(self) -> None:
        while self._jobs:
            with contextlib.suppress(SandboxUnavailable):  # a sandbox that needs it will ask again and get the error
                self._jobs.popleft()()
        with self._changed:
            names, self._closing_names = self._closing_names, []
        if names:
            with contextlib.suppress(SandboxUnavailable):
                self.ask("close_workspace", names=names)
        self._give_ids_back()

    def _give_ids_back(self) -> None:
        with self._changed:
            ids, self._closing_ids = self._closing_ids, []
        for host_id in ids:
            assert self._ids is not None  # it has taken them
            self._ids.give_back(host_id)


# Workspaces of this many sizes are made ahead.
_MOST_SIZES = 16
# Up to this many pools keep one item ready each. Under root every reused sandbox has its own pool.
_FEW_POOLS = 64
# Each mount takes up to three descriptors, and one answer carries at most 250.
_MOST_AT_ONCE = 80
_HOST = Base()
_stocks: dict[Base, Stock] = {}
_opening = threading.Lock()
_at_exit = False


def acquire(base: Base = _HOST) -> Stock:
    """Return the base's stock for one more sandbox; open it if there is none. May block."""
    global _at_exit
    with _opening:
        stock = _stocks.get(base)
        if stock is None:
            stock = _stocks[base] = Stock(base)
            if not _at_exit:
                _at_exit = True
                atexit.register(close_all)
        stock.users += 1
        return stock


def is_open(base: Base = _HOST) -> bool:
    """Return whether `acquire` would not block."""
    return base in _stocks


def release(stock: Stock) -> None:
    """Give back a stock that `acquire` returned."""
    with _opening:
        stock.users -= 1
        stock._idle_since = time.monotonic()


def drain_all() -> None:
    """Dispose of all waiting sandboxes and workspaces of this process."""
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
        if stock.users or _stocks.get(stock.nursery.base) is not stock:
            return
        del _stocks[stock.nursery.base]
    stock.close()


def _leave_to_parent() -> None:
    global _opening
    _opening = threading.Lock()
    for stock in _stocks.values():
        stock.leave_to_parent()
    _stocks.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
