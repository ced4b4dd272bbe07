"""The sandbox of the `linux` engine: a workspace in the nursery, and a waiting, enclosed guest for each run."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.limits import Limits
from actbox.core.mounts import INPUT, OUTPUT, FileMount
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Session
from actbox.sandbox.guest_process import GuestProcess, file_with
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.nursery.attach import OWN
from actbox.sandbox.nursery.passing import most_open_in_guest
from actbox.sandbox.overlays import OverlayChanges
from actbox.sandbox.workspace import Workspace

from . import stock as stocks
from .advice import why_not
from .child import Child, ChildEnded
from .debt import Debt
from .family import Family
from .hierarchies import support
from .input_folder import InputFolder
from .pool import MOST_READY
from .stock import Points, Stock, inodes_for
from .stored import StoredWorkspace, part_overlays
from .traits import linux_traits

if TYPE_CHECKING:
    from .network import Network

# Installers try again, and wait in between: once is enough to say why, and too little to be ended by a timeout.
_WITHOUT_NETWORK = {"PIP_RETRIES": "1", "UV_OFFLINE": "1"}
# Of those with a queue, and timers, which the kernel counts by user. The ordinary signals need none.
_PENDING_SIGNALS = 256
_USUAL_WORKSPACE_MIB = Limits().workspace_mib


class LinuxSandbox(LocalSandbox):
    """Programs in namespaces of their own, behind a filter of system calls, without root and without a daemon."""

    _leaves_no_trace = True

    def __init__(self, policy: Policy, network: Network | None = None, debt: Debt | None = None) -> None:
        """Raise `SandboxUnavailable` off Linux. `network` is what the policy's domains and secrets come to."""
        if sys.platform != "linux":
            raise SandboxUnavailable(f"the linux engine needs Linux; this is {sys.platform}")
        super().__init__(policy)
        self.traits = linux_traits(support())
        self._network = network
        self._debt = debt or Debt()
        if network is not None and network.ways:
            self.traits = dataclasses.replace(self.traits, network=network.trait)
        self._mounts = [_mount(mount, policy.limits.workspace_mib) for mount in policy.mounts]
        self._points = _points(self._mounts)
        self._at_input = [mount for mount in self._mounts if mount["mode"] == "input"]
        self._take_request = {
            "mounts": self._mounts,
            "tmp_mib": policy.limits.workspace_mib,
            "inodes": inodes_for(policy.limits.workspace_mib),
        }
        if network is not None:
            self._take_request |= network.request
        self._stock: Stock | None = None
        self._stored: StoredWorkspace | None = None
        self._file_owner: tuple[int, int] | None = None

    def session(self, *, forkable: bool = False) -> Session:
        if forkable and any(mount.mode == "overlay" for mount in self.policy.mounts):
            raise Unsupported("a session with overlay mounts cannot be forked: copies would share what they write")
        return super().session(forkable=forkable)

    async def _open_workspace(self) -> Workspace:
        preload = self.policy.preload
        try:
            stock = stocks.acquire(preload) if stocks.is_open(preload) else await run_blocking(stocks.acquire, preload)
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"the linux engine does not work here: {error}. {why_not()}") from error
        try:
            stored = await self._find_workspace(stock)
        except BaseException:
            stocks.release(stock)
            raise
        try:
            if self._network is not None:
                self._network.open_files()
        except BaseException:
            stored.discard()
            stocks.release(stock)
            raise
        self._stock, self._stored = stock, stored
        self._warnings = stock.nursery.warnings
        if stock.nursery.warnings:
            self.traits = dataclasses.replace(self.traits, notes=(*self.traits.notes, *stock.nursery.warnings))
        self._file_owner = (stock.nursery.host_id, stock.nursery.host_id) if stock.nursery.privileged else None
        stored.mounts = self._mounts
        stored.refill()
        stock.pool(self._points).expect(1)
        return Workspace(os.dup(stored.folder), self.guest_root, self._file_owner)

    async def _find_workspace(self, stock: Stock) -> StoredWorkspace:
        size = self.policy.limits.workspace_mib
        if size == _USUAL_WORKSPACE_MIB:
            return stock.workspaces.take_ready() or await stock.workspaces.take()
        return await run_blocking(stock.make_workspace, size)

    async def _close_workspace(self) -> None:
        stock, self._stock = self._stock, None
        stored, self._stored = self._stored, None
        if stock is None or stored is None:
            return
        if self._network is not None:
            self._network.close_files()
        stored.discard()
        stocks.release(stock)

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        stored, self._stored, self._stock = self._stored, None, None
        if stored is not None:
            stored.leave_to_parent()
        if self._network is not None:
            self._network.leave_to_parent()

    def _base_variables(self) -> Mapping[str, str]:
        # Guests are born with the others.
        return self._network.variables if self._network is not None and self._network.ways else _WITHOUT_NETWORK

    def _sibling(self) -> LinuxSandbox:
        return LinuxSandbox(self.policy, self._network, self._debt)

    def _guest_limits(self) -> Mapping[str, float]:
        limits = self.policy.limits
        return {
            **super()._guest_limits(),
            "processes": limits.processes + 1,  # the kernel counts our pid 1 with the guest's own processes
            "open_files": min(limits.open_files, most_open_in_guest()),
            "pending_signals": _PENDING_SIGNALS,
        }

    def _guest_at_hand(self, start: GuestStart) -> GuestProcess | None:
        stock, stored = self._open()
        if start.forkable or not stored.at_hand:
            return None
        child = stock.pool(self._points).take_ready()
        if child is None:
            return None
        try:
            return self._begin(child, stored.take_mounts() or stored.make_mounts(), start)
        except ChildEnded:
            return None

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        stock, stored = self._open()
        for _ in range(MOST_READY):
            child = await self._take_child(stock, start.forkable)
            try:
                mounts = stored.take_mounts()
                if mounts is None:
                    mounts = await run_blocking(stored.make_mounts)
            except BaseException:
                child.discard()
                raise
            with contextlib.suppress(ChildEnded):  # where the nursery died, all that waited did
                self._begin(child, mounts, start)
                return self._family_of(child) if start.forkable else child
        raise SandboxUnavailable("sandboxes die while they wait for a run")

    async def _take_child(self, stock: Stock, forkable: bool) -> Child:
        if not forkable:
            return await stock.pool(self._points).take()
        return await run_blocking(stock.make, self._points, True)  # these are rare: none is made ahead

    def _family_of(self, child: Child) -> GuestProcess:
        self._add_guest(child)
        size = self.policy.limits.workspace_mib

        async def find_workspace() -> tuple[StoredWorkspace, Workspace]:
            stored = await self._find_workspace(self._open()[0])
            stored.mounts = self._at_input  # of all others a copy gets what its origin has
            return stored, Workspace(os.dup(stored.folder), self.guest_root, self._file_owner)

        return Family(child, find_workspace, size_mib=size, inodes=inodes_for(size)).first

    def _open(self) -> tuple[Stock, StoredWorkspace]:
        if self._stock is None or self._stored is None:
            raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
        return self._stock, self._stored

    def _begin(self, child: Child, mounts: list[int], start: GuestStart) -> Child:
        if any(mount.keep_changes for mount in self.policy.mounts):
            mounts, overlays = part_overlays(mounts, self.policy.mounts)
            child.overlays = OverlayChanges(overlays, self.policy.limits)
        try:
            try:
                if self._network is not None:
                    mounts += self._network.descriptors()
                    self._network.open_gate(child)
                limits = self._tree_limits(start)
                request = {**self._take_request, "watched": self._watched(limits), "owed": self._owe(child)}
                if start.session and self._at_input:
                    child.hold_input_folder(InputFolder(self._open()[0].forget_names))
                    request["hold_input"] = True
                given = file_with(start.stdin) if start.stdin else -1
            except BaseException:
                for descriptor in mounts:
                    os.close(descriptor)
                raise
            child.begin(request, mounts, limits, given)
        except BaseException:
            child.discard()
            raise
        return child

    def _owe(self, child: Child) -> float:
        """Return what the sandbox owes of the processors as a run begins, to which it will add what the run uses."""
        owed = self._debt.begin()
        child.when_buried(lambda ending: self._debt.end(ending, child.dismissed_ms))
        return owed

    def _prepare_next(self) -> None:
        if self._stock is not None and self._stored is not None:
            self._stock.pool(self._points).refill()
            self._stored.refill()

    def _tree_limits(self, start: GuestStart) -> Limits:
        """Return the limits that hold for a whole tree of processes, the guest's own first one among them."""
        return self.policy.limits

    def _watched(self, limits: Limits) -> dict[str, float]:
        """Return the limits that are left for pid 1 of the sandbox to look after.

        How many processes there are it always notes: the rlimit refuses one too many, and tells nobody.
        """
        groups = support()
        watched: dict[str, float] = {"cpu_seconds": limits.cpu_seconds, "processes": limits.processes}
        if groups is None or not groups.enforcer("memory"):
            watched["memory_mib"] = limits.memory_mib
        else:
            watched["memory_with_sockets_mib"] = limits.memory_mib  # where they are counted apart
        if limits.cpus < (os.cpu_count() or 1) and (groups is None or not groups.enforcer("cpu")):
            watched["cpus"] = limits.cpus
        return watched


def _mount(mount: FileMount, size_mib: int) -> dict[str, Any]:
    path = mount.mount_path
    for alias in (INPUT, OUTPUT):  # these are links in the guest's root; a mount goes where they lead
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


def _points(mounts: list[dict[str, Any]]) -> Points:
    """Return the mount points that a root must have from the start."""
    return tuple(sorted((mount["path"], mount["is_folder"]) for mount in mounts if not mount["path"].startswith(OWN)))
