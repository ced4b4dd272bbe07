"""A workspace that lies in the nursery, with the mounts and the first guest that are made ahead for its runs."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.guest.beneath import empty, opened, set_folder_mode
from actbox.sandbox.run_end import Ending

from .descriptors import close_all

if TYPE_CHECKING:
    from .child import Child

RUNS_AHEAD = 12
"""For how many simultaneous runs a workspace has directories from the start, if they are in its file system."""
# Mounts are made ahead for at most this many simultaneous runs of one sandbox.
_MOST_AHEAD = 8
_BELOW = "/workspace/"
# The places of the workspace's inputs, and of what comes after them, among the mounts of a run.
_INPUTS = 1
_AFTER_INPUTS = 2


class WorkspaceKeeper(Protocol):
    """The maker and remover of workspaces in the nursery: the stock."""

    def make_mounts(self, workspace: StoredWorkspace, mounts: list[dict[str, Any]], run: str) -> list[int]:
        """Make the mounts that one run attaches. Blocks. Raises `SandboxUnavailable`."""

    def make_packages(self, folder: Path, host_id: int) -> list[int]:
        """Make the mount of a program's packages. Blocks. Raises `SandboxUnavailable`."""

    def remove_workspace(self, workspace: StoredWorkspace) -> None:
        """Have a workspace removed soon."""


class RunMounts(list[int]):
    """The descriptors of the mounts that one run attaches."""

    def __init__(self, descriptors: list[int], run: str) -> None:
        super().__init__(descriptors)
        self.run = run
        """The name of the run's directory in the file system of the workspace; "" if it has none."""

    def add_packages(self, packages: list[int]) -> None:
        """Have the run attach packages too, before the policy's mounts."""
        self[_AFTER_INPUTS:_AFTER_INPUTS] = packages


class StoredWorkspace:
    """A workspace in the nursery: its name there, and `folder`, a descriptor of it.

    Under root `host_id` owns it, and the sandbox's guests are that user outside; else it is -1.

    Each run attaches its own copies of the workspace's mount, of its inputs read-only, and of the policy's mounts. If
    the policy mounts host directories `ro` or `rw`, nothing is made ahead: the nursery refuses a directory in which a
    host process has a socket, and that must hold when the run begins. Sockets in an overlay, and in the directory at
    `/input`, cannot be connected to.

    If `/tmp` and `/dev/shm` of each run share the file system of the workspace, each run has a directory there for its
    own, which is emptied when nothing else is left of the run, and then is for another one.
    """

    def __init__(
        self, stock: WorkspaceKeeper, name: str, descriptors: list[int], host_id: int, *, lends_id: bool
    ) -> None:
        """`lends_id` is true if the user id is given back with this workspace, false if another one has it too.

        `descriptors` are one of the workspace, and one of the directory of runs if these share its file system.
        """
        self.name = name
        self.folder, *rest = descriptors
        self._runs = rest[0] if rest else -1
        self._free_runs = [str(number) for number in range(RUNS_AHEAD)]
        self._run_count = RUNS_AHEAD
        self.host_id = host_id
        self.lends_id = lends_id
        self.first_guest: Child | None = None
        """A sandbox that waits for the first run, if one was made with the workspace."""
        self.drop_tree: Callable[[], None] = lambda: None
        """Removes the file tree that was made around this workspace for a copy of a session, if it still waits."""
        self.mounts: list[dict[str, Any]] = []
        """The policy's mounts, in the nursery's format; set by `use_mounts`."""
        self._stock = stock
        self._lock = threading.Lock()
        self.ahead: deque[RunMounts] = deque()
        """Mounts made ahead, each entry for one call of `take_mounts`."""
        self._wanted = 1
        self.guests: set[Child] = set()
        """The guests whose runs have a directory beside the workspace."""
        self._packages: tuple[Path, tuple[int, int], list[int]] | None = None
        """The mount of packages that was made ahead: the directory, its identity, and the descriptors."""
        self._last_packages: Path | None = None
        """The packages of the latest run that had some; the next such run probably has the same."""
        self._removed = self._closed = False

    @property
    def stale(self) -> bool:
        """False: a workspace outlives the nursery process, so it can always be used."""
        return False

    def use_mounts(self, mounts: list[dict[str, Any]]) -> None:
        """Set the policy's mounts, and drop those that were made ahead for other ones."""
        if mounts != self.mounts:
            with self._lock:
                self._drop_mounts()
            self.mounts = mounts

    def take_id_of(self, other: StoredWorkspace) -> None:
        """Have the user id given back with this workspace, not with the other one that has it."""
        self.lends_id, other.lends_id = other.lends_id, False

    def take_first_guest(self) -> Child | None:
        """Return, once, the sandbox that was made with the workspace, if it still waits."""
        with self._lock:
            guest, self.first_guest = self.first_guest, None
        if guest is not None and guest.stale:
            guest.discard()
            return None
        return guest

    def take_mounts(self) -> RunMounts | None:
        """Return the mount descriptors for one run if they were made ahead, else `None`; the caller closes them."""
        with self._lock:
            while self.ahead:
                made = self.ahead.popleft()
                if self._has_inputs_of(made):
                    return made
                self._drop(made)
            self._wanted = min(2 * self._wanted, _MOST_AHEAD)
            return None

    def points(self) -> list[tuple[int, int]] | None:
        """Return the device and inode of each file and directory of the workspace on which something is mounted.

        These are `input` and the places of the policy's mounts. `None` if one is missing, or behind a link.
        """
        below = [mount["path"].removeprefix(_BELOW) for mount in self.mounts if mount["path"].startswith(_BELOW)]
        with self._lock:
            if self._closed:
                return None
            try:
                found = [os.stat("input", dir_fd=self.folder, follow_symlinks=False)]
                for path in below:
                    with opened(self.folder, path, os.O_PATH) as point:
                        found.append(os.fstat(point))
            except OSError:
                return None
        return [(status.st_dev, status.st_ino) for status in found]

    def take_packages(self, folder: Path) -> list[int] | None:
        """Return the mount of a directory of packages if it was made ahead, else `None`; the caller closes it."""
        with self._lock:
            made, self._packages = self._packages, None
            self._last_packages = folder
        if made is None:
            return None
        if made[:2] == (folder, _identity_of(folder)):  # the mount keeps the inode, so no other directory can have it
            return made[2]
        close_all(made[2])
        return None

    def make_mounts(self) -> RunMounts:
        """Make the mounts that one run attaches. Blocks. Raises `SandboxUnavailable`."""
        run = self._take_run()
        try:
            return RunMounts(self._stock.make_mounts(self, self.mounts, run), run)
        except BaseException:
            self._give_back(run)
            raise

    def mounts_for(self, guest: Child, packages: list[int]) -> RunMounts:
        """Take or make the mounts of a guest's run, to which those of packages belong. Blocks.

        Whatever it raises, such as `SandboxUnavailable`, the guest is discarded and the packages are closed.
        """
        try:
            mounts = self.take_mounts() or self.make_mounts()
        except BaseException:
            guest.discard()
            close_all(packages)
            raise
        if mounts.run:
            self.give(mounts, guest)
        mounts.add_packages(packages)
        return mounts

    def give(self, mounts: RunMounts, guest: Child) -> None:
        """Remove what a guest leaves outside the workspace, but in its file system, when the guest has ended."""
        run = mounts.run

        def give_back(_: Ending) -> None:
            self.guests.discard(guest)
            with contextlib.suppress(OSError):  # what is left could not be removed: no other run gets the directory
                if self._remove_left(run, files=False):
                    self._give_back(run)

        guest.remove_left = partial(self._remove_left, run)
        self.guests.add(guest)
        guest.when_buried(give_back)

    def dismissed(self) -> list[Child]:
        """Return the dismissed guests that may still take room in the file system: by open files without a name."""
        guests = [guest for guest in list(self.guests) if guest.dismissed_ms is not None and not guest.ended]
        system = os.statvfs(self.folder) if guests else None
        return guests if system is not None and system.f_bfree < system.f_blocks else []

    def _take_run(self) -> str:
        """Return the name of a directory that no run uses; "" if runs need none."""
        if self._runs < 0:
            return ""
        with self._lock:
            if not self._free_runs:
                self._free_runs.append(str(self._run_count))
                self._run_count += 1
            return self._free_runs.pop()

    def _give_back(self, run: str) -> None:
        if run:
            with self._lock:
                self._free_runs.append(run)

    def _remove_left(self, run: str, *, files: bool) -> bool:
        """Remove what a run has left in its directory; return false if there are files, and `files` is false. Blocks.

        Raises `OSError`.
        """
        with self._lock:
            if self._runs < 0:  # the file system has gone
                return True
            runs = os.dup(self._runs)
        try:
            with opened(runs, run) as folder:
                for place in os.listdir(folder):
                    if files:
                        set_folder_mode(folder, place, stat.S_IRWXU)
                    with opened(folder, place) as inner:
                        if files:
                            empty(inner)
                        elif os.listdir(inner):
                            return False
            return True
        finally:
            os.close(runs)

    def lacks(self) -> bool:
        """Return whether `make_ahead` would make mounts."""
        return self._lacks_mounts() or (self._packages is None and self._last_packages is not None)

    def _lacks_mounts(self) -> bool:
        if len(self.ahead) >= self._wanted:
            return False
        return {"ro", "rw"}.isdisjoint([mount["mode"] for mount in self.mounts])

    def make_ahead(self) -> None:
        """Replace the mounts that were taken. Blocks. Raises `SandboxUnavailable`."""
        while self._lacks_mounts() and not self._removed:
            made = self.make_mounts()
            with self._lock:
                self.ahead.append(made)
        if (folder := self._last_packages) is not None and self._packages is None and not self._removed:
            self._make_packages(folder)
        if self._removed:  # `discard` was called meanwhile
            self.drain()

    def _make_packages(self, folder: Path) -> None:
        try:
            before = _identity_of(folder)
            made = self._stock.make_packages(folder, self.host_id)
        except (OSError, SandboxUnavailable):  # somebody has removed it, and a run that needs it will say so
            self._last_packages = None
            return
        with self._lock:
            if self._packages is None and before == _identity_of(folder):
                self._packages = folder, before, made
                return
        close_all(made)

    def drain(self) -> None:
        """Dispose of everything made ahead."""
        if (guest := self.take_first_guest()) is not None:
            guest.discard()
        self.drop_tree()
        with self._lock:
            self._wanted = 1
            packages, self._packages, self._last_packages = self._packages, None, None
            close_all(packages[2] if packages else [])
            self._drop_mounts()

    def _drop_mounts(self) -> None:
        while self.ahead:
            self._drop(self.ahead.popleft())

    def _drop(self, made: RunMounts) -> None:
        close_all(made)
        self._free_runs += [made.run] if made.run else []

    def _has_inputs_of(self, made: RunMounts) -> bool:
        """Return whether the directory of inputs is known to be still the one that was mounted."""
        try:
            now = os.stat("input", dir_fd=self.folder, follow_symlinks=False)
            return os.path.samestat(now, os.fstat(made[_INPUTS]))
        except OSError:  # such as when it was removed, and the next mounts come with another one
            return False

    def discard(self) -> None:
        """Remove the workspace with its files."""
        with self._lock:
            self._removed = True
        self.drain()
        self._close()
        self._stock.remove_workspace(self)

    def leave_to_parent(self) -> None:
        """In a forked process, close the descriptors of this workspace, which belongs to the parent."""
        self._lock = threading.Lock()
        if (guest := self.first_guest) is not None:
            self.first_guest = None
            guest.leave_to_parent()
        self.drain()
        self._close()

    def _close(self) -> None:
        with self._lock:
            os.close(self.folder)
            self._closed = True
            runs, self._runs = self._runs, -1
        if runs >= 0:
            os.close(runs)


def _identity_of(folder: Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino
