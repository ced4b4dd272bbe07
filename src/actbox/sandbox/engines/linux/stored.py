"""A workspace that lies in the nursery, and what its runs attach, made ahead of them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actbox.core.mounts import FileMount
from actbox.sandbox.overlays import Overlay

if TYPE_CHECKING:
    from .stock import Stock

# What several runs of one sandbox at once attach is made ahead for so many.
_MOST_AHEAD = 8


class StoredWorkspace:
    """A workspace in the nursery: its name there, and `folder`, a descriptor of it.

    Each run attaches a copy of its own of the workspace's mount, of its inputs read-only, and of the policy's mounts.
    Where the policy mounts host folders `ro` or `rw` nothing is made ahead of a run: the nursery refuses a folder in
    which a process of the host has a socket, and that has to hold when the run begins. Sockets in an overlay, and in
    the folder at `/input`, are dead.
    """

    def __init__(self, stock: Stock, name: str, folder: int) -> None:
        self.name = name
        self.folder = folder
        self.mounts: list[dict[str, Any]] = []
        """The policy's mounts, as the nursery takes them."""
        self._stock = stock
        self._lock = threading.Lock()
        self._ahead: deque[list[int]] = deque()
        self._wanted = 1
        self._removed = False

    @property
    def stale(self) -> bool:
        """Whether it can be used no more: never, it outlives the nursery process."""
        return False

    @property
    def at_hand(self) -> bool:
        """Whether `take_mounts` would return something."""
        return bool(self._ahead)

    def take_mounts(self) -> list[int] | None:
        """Return the descriptors that one run attaches, if they are there already; they are the caller's."""
        with self._lock:
            if self._ahead:
                return self._ahead.popleft()
            self._wanted = min(2 * self._wanted, _MOST_AHEAD)
            return None

    def make_mounts(self) -> list[int]:
        """Make what one run attaches. Blocks. Raises `SandboxUnavailable`."""
        return self._stock.make_mounts(self.name, self.mounts)

    def refill(self) -> None:
        """Have what was taken replaced soon."""
        if self._lacks():
            self._stock.later(self._make_ahead)

    def drain(self) -> None:
        """Let go of what was made ahead."""
        with self._lock:
            self._wanted = 1
            while self._ahead:
                _close_all(self._ahead.popleft())

    def discard(self) -> None:
        """Remove it, with everything in it."""
        with self._lock:
            self._removed = True
        self.leave_to_parent()
        self._stock.remove_workspace(self)

    def leave_to_parent(self) -> None:
        """In a forked process: close the descriptors of one that is the parent's."""
        self._lock = threading.Lock()
        self.drain()
        os.close(self.folder)

    def _lacks(self) -> bool:
        """Return whether more should be made ahead."""
        sockets_live = any(mount["mode"] in ("ro", "rw") for mount in self.mounts)
        return not sockets_live and len(self._ahead) < self._wanted

    def _make_ahead(self) -> None:
        while self._lacks() and not self._removed:
            made = self.make_mounts()
            with self._lock:
                self._ahead.append(made)
        if self._removed:  # meanwhile
            self.drain()


def part_overlays(made: list[int], mounts: Sequence[FileMount]) -> tuple[list[int], list[Overlay]]:
    """Part what `make_mounts` returned: the descriptors that a run attaches, and what stays to be read afterwards.

    Of a mount whose changes are kept it has three: the mount, the file system for its changes, and a folder of that.
    A run attaches the workspace, the inputs, all mounts, and then those file systems.
    """
    descriptors = iter(made)
    attached = [next(descriptors), next(descriptors)]
    uppers, overlays = [], []
    for mount in mounts:
        attached.append(next(descriptors))
        if mount.keep_changes:
            uppers.append(next(descriptors))
            path, identity = str(mount.mount_path), mount.identity
            upper = next(descriptors)
            overlays.append(Overlay(mount=path, host_path=mount.host_path, identity=identity, upper=upper))
    return [*attached, *uppers], overlays


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
