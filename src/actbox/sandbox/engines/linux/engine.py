"""The sandbox of the `linux` engine: a workspace in the nursery, and for each run an isolated guest made ahead."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from actbox.core.errors import ErrorKind, SandboxUnavailable, Unsupported
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Session
from actbox.sandbox.dependencies import layer_of
from actbox.sandbox.guest_process import GuestProcess, file_with
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.nursery.passing import most_open_in_guest
from actbox.sandbox.one_disk import one_disk_mib
from actbox.sandbox.run_end import Ending
from actbox.sandbox.workspace import Workspace

from . import stock as stocks
from .advice import why_not
from .child import Child, ChildEnded
from .debt import Debt
from .descriptors import close_all
from .hierarchies import support
from .input_folder import InputFolder
from .interpreter import Base, base_of
from .lanes import LaneGuest, Lanes
from .pool import MOST_READY, Pool
from .stock import Stock, inodes_for, packages_mount, points_of, policy_mount, shared_mounts
from .stored import StoredWorkspace
from .traits import linux_traits

if TYPE_CHECKING:
    from .network import Network
    from .next_mounts import NextMounts
    from .next_workspace import NextWorkspaces
    from .nursery import Nursery

# Installers retry with pauses. One retry is enough to report the reason, and too short to end in a timeout.
_WITHOUT_NETWORK = {"PIP_RETRIES": "1", "UV_OFFLINE": "1"}
# Signals with a queue, and timers, which the kernel counts by user. Ordinary signals need none.
_PENDING_SIGNALS = 256
_SECONDS_TO_SAY_WHY = 5.0
# The facts that pid 1 of a lane tells at once, or at the end of a command, by what a request asks.
_TOLD = {"listen": "listening", "hold_input": "input", "command": "ended"}


async def why_not_born(base: Base) -> str:
    """Run an empty program; return why its sandbox could not be made, or "" if it could."""
    sandbox = LinuxSandbox(Policy())
    sandbox._base = base
    sandbox._tries_birth = sandbox._has_lanes = False
    async with sandbox:
        error = (await sandbox.run("")).error
    return error.message if error is not None and error.kind is ErrorKind.SANDBOX else ""


async def _try_birth(stock: Stock) -> None:
    """Run an empty program before a stock's first sandbox opens; sandboxes that open meanwhile wait for its result.

    A machine may let a nursery start and yet not let its guests be isolated. Raises `SandboxUnavailable`.
    """
    reason: str | None = None
    while reason is None:
        birth = stock.birth
        if birth is not None:  # the result is `None` if that sandbox gave up or failed: then the next one tries
            reason = birth.result() if birth.done() else await asyncio.shield(asyncio.wrap_future(birth))
            continue
        birth = stock.birth = Future()
        try:
            reason = await why_not_born(stock.nursery.base)
        finally:
            if reason != "":
                stock.birth = None  # the next sandbox tries again
            birth.set_result(reason)
    if reason:
        raise SandboxUnavailable(f"the linux engine does not work here: {reason}. {why_not()}")


class LinuxSandbox(LocalSandbox):
    """A sandbox whose programs run in their own namespaces behind a system call filter, without root or a daemon."""

    _leaves_no_trace = True
    _counts_processor_time = True
    _tries_birth = True
    _wakes_guests = True
    _siblings_at_once = max(2, os.cpu_count() or 1)
    _has_lanes = True
    """True if its runs follow one another in lanes, where the policy lets them."""
    _is_of_one_call = False
    """True if it is a sibling whose programs one caller gives."""
    _next: NextWorkspaces | None = None
    """The workspaces for the next programs of the call, if it has lanes that may change theirs."""
    _base: Base | None = None

    def __init__(
        self,
        policy: Policy,
        network: Network | None = None,
        debt: Debt | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        """Raise `SandboxUnavailable` off Linux. `network` is the access to the policy's domains and secrets.

        `nursery` was started for the sandbox, and ends with it if no sandbox opens it.
        """
        if sys.platform != "linux":
            raise SandboxUnavailable(f"the linux engine needs Linux; this is {sys.platform}")
        super().__init__(policy)
        self.traits = linux_traits(support(), policy.environment_name)
        self._wakes_guests &= policy.limits.cpus >= 1 and len(os.sched_getaffinity(0)) > 1
        self._network = network
        self._debt = debt or Debt()
        self._nursery = nursery
        if network is not None and network.ways:
            self.traits = dataclasses.replace(self.traits, network=network.trait)
        self._one_disk_mib = one_disk_mib(policy, self.traits.engine)
        """The size of the file system for everything that programs write; `None` if each place has its own."""
        self._shared = shared_mounts() if self._one_disk_mib is not None else []
        self._mounts = [*self._shared, *(policy_mount(mount, policy.limits.workspace_mib) for mount in policy.mounts)]
        self._points = points_of(self._mounts)
        self._next_mounts: NextMounts | None = None
        if any(mount.mode == "overlay" for mount in policy.mounts):
            from .next_mounts import NextMounts

            self._next_mounts = NextMounts(policy)
        self._at_input = [mount for mount in self._mounts if mount["mode"] == "input"]
        self._tree: TreeLimits | None = None
        """Known once the workspace is open: a process that was forked meanwhile may make no control groups."""
        self._take_request = {
            "mounts": self._mounts,
            "tmp_mib": policy.limits.workspace_mib,
            "inodes": inodes_for(policy.limits.workspace_mib),
            "machine": {"memory_mib": policy.limits.memory_mib, "cpus": policy.limits.cpus},
        }
        if network is not None:
            self._take_request |= network.request
        self._stock: Stock | None = None
        self._pool: Pool[Child] | None = None
        self._lanes: Lanes | None = None
        self._stored: StoredWorkspace | None = None
        self._file_owner: tuple[int, int] | None = None

    def session(self, *, forkable: bool = False) -> Session:
        if forkable and any(mount.mode == "overlay" for mount in self.policy.mounts):
            raise Unsupported("a session with overlay mounts cannot be forked: copies would share what they write")
        return super().session(forkable=forkable)

    async def _open_workspace(self) -> Workspace:
        base = self._base
        if base is None:
            self._layer = await layer_of(self.policy)
            base = base_of(self.policy, self._layer)
        try:
            stock = stocks.acquire(base) if stocks.is_open(base) else await run_blocking(stocks.acquire, base)
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"the linux engine does not work here: {error}. {why_not()}") from error
        self._nursery = None  # the stock has opened it, or another one
        try:
            if self._tries_birth:
                await _try_birth(stock)
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
        try:
            workspace = os.dup(stored.folder)
        except BaseException:
            if self._network is not None:
                self._network.close_files()
            stored.discard()
            stocks.release(stock)
            raise
        self._stock, self._stored = stock, stored
        if self._may_have_lanes():
            meet = any(mount["mode"] in ("ro", "rw") and mount["is_folder"] for mount in self._mounts)
            waits = self._is_of_one_call and not self._mounts and self._network is None
            renew = None if self._next_mounts is None else partial(self._next_mounts.renew, stock.later, stored)
            self._lanes = Lanes(self._debt, stored.points, have_company=meet, waits=waits, renew=renew)
            if waits:
                from .next_workspace import NextWorkspaces  # for `map` alone

                size = self._workspace_size()[0]
                self._next = NextWorkspaces(stock, self._lanes, size, stored.host_id, self._change_workspace)
            stock.lanes.add(self._lanes)
        self._tree = TreeLimits.of(self.policy.limits)
        self._warnings = stock.nursery.warnings
        if stock.nursery.warnings:
            self.traits = dataclasses.replace(self.traits, notes=(*self.traits.notes, *stock.nursery.warnings))
        self._file_owner = (stored.host_id, stored.host_id) if stock.nursery.privileged else None
        stored.use_mounts(self._mounts)
        if self._tries_birth and stored.lacks():
            stock.later(stored.make_ahead)
        self._pool = stock.pool(self._points, stored.host_id)
        if self._points and (useless := stored.take_first_guest()) is not None:  # its root lacks these mount points
            useless.discard()
        if (lacking := stock.least - (stored.first_guest is not None)) > 0:
            self._pool.expect(lacking)
        return Workspace(workspace, self.guest_root, self._file_owner, in_memory=True)

    async def _find_workspace(self, stock: Stock) -> StoredWorkspace:
        """Return a workspace owned by a new user."""
        size, shared = self._workspace_size()
        ahead = stock.workspaces(size, shared)
        if ahead is not None:
            return ahead.take_ready() or await ahead.take()
        return await run_blocking(partial(stock.make_workspace, size, shared=shared))

    def _workspace_of_copy(self) -> tuple[StoredWorkspace, Workspace]:
        """Return a workspace for a copy of a session, whose guests have a user already. Blocks."""
        stock, own = self._open()
        size, shared = self._workspace_size()
        ahead = stock.workspaces(size, shared) if own.host_id < 0 else None
        stored = ahead.take_ready() if ahead is not None else None
        stored = stored or stock.make_workspace(size, own.host_id, shared=shared)
        stored.use_mounts([*self._shared, *self._at_input])  # of all other mounts a copy gets its origin's
        try:
            folder = os.dup(stored.folder)
        except OSError as error:
            stored.discard()
            raise SandboxUnavailable(f"the session could not be copied: {error.strerror}") from error
        return stored, Workspace(folder, self.guest_root, self._file_owner, in_memory=True)

    def _workspace_size(self) -> tuple[int, bool]:
        """Return the size of a workspace in MiB, and whether all that a run writes shares it."""
        return self._one_disk_mib or self.policy.limits.workspace_mib, self._one_disk_mib is not None

    async def _close_workspace(self) -> None:
        if self._next is not None:
            self._next.close()
            self._next = None
        stock, self._stock = self._stock, None
        stored, self._stored = self._stored, None
        if stock is None or stored is None:
            return
        if self._lanes is not None:
            stock.lanes.discard(self._lanes)
            self._lanes.close()
            self._lanes = None
        if self._network is not None:
            self._network.close_files()
        stock.holds_back = not self._tries_birth
        stored.discard()
        stocks.release(stock)

    def _may_have_lanes(self) -> bool:
        # With `disk_mib` what a run leaves in `/tmp` lies in the file system of the workspace.
        return self._has_lanes and self.policy.namespaces == "lane" and not self._shared

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        stored, self._stored, self._stock = self._stored, None, None
        if stored is not None:
            stored.leave_to_parent()
        if self._next is not None:
            self._next.leave_to_parent()
            self._next = None
        if self._lanes is not None:
            self._lanes.leave_to_parent()
            self._lanes = None
        if self._network is not None:
            self._network.leave_to_parent()

    def _base_variables(self) -> Mapping[str, str]:
        # The base variables are set when the nursery forks the guest.
        return self._network.variables if self._network is not None and self._network.ways else _WITHOUT_NETWORK

    def _sibling(self) -> LinuxSandbox:
        sibling = LinuxSandbox(self.policy, self._network, self._debt)
        sibling._has_lanes = False  # its next program may be another caller's
        return sibling

    def _sibling_of_one_call(self) -> LinuxSandbox:
        sibling = self._sibling()
        sibling._has_lanes = self._has_lanes
        sibling._is_of_one_call = True
        return sibling

    @property
    def is_quiet(self) -> bool:
        if self._lanes is not None:
            self._lanes.look()
        return super().is_quiet and not (self._next is not None and self._next.is_awaited)

    def go_on(self, is_untouched: bool) -> bool:
        if self._next is None or self._taint.has_risen:  # a lane keeps some of the kernel's counts
            return is_untouched
        self._forget_ended()
        return self._next.go_on(is_untouched, is_alone=len(self._guests) == 1)

    def _change_workspace(self, made: StoredWorkspace) -> None:
        """Use another workspace from now on. Raises `OSError` and `SandboxUnavailable`."""
        with self._changing:
            stock, old = self._open()
            if (before := self._workspace) is None:
                raise SandboxUnavailable("the sandbox was stopped meanwhile")
            folder = os.dup(made.folder)
            made.take_id_of(old)
            stock.later(old.discard)  # before anyone can give back the user id
            self._workspace = Workspace(folder, self.guest_root, self._file_owner, in_memory=True)
            self._stored = made
        before.close()

    def _guest_limits(self) -> Mapping[str, float]:
        limits = self.policy.limits
        return {
            **super()._guest_limits(),
            "processes": limits.processes + 1,  # the kernel counts our pid 1 as one of the guest's processes
            "open_files": min(limits.open_files, most_open_in_guest()),
            "pending_signals": _PENDING_SIGNALS,
        }

    def _announce_run(self) -> None:
        if self._lanes is not None and self._wakes_guests:
            self._lanes.announce()

    def _guest_at_hand(self, start: GuestStart) -> GuestProcess | None:
        stored = self._stored
        if self._mounts:
            if self._may_begin_in_lane(start):
                return None  # not before what they mount was looked at
        elif (guest := self._guest_in_lane(start)) is not None:
            return guest
        if stored is None or start.forkable or not stored.ahead or (stored.guests and stored.dismissed()):
            return None
        packages: list[int] | None = []
        if start.packages is not None:  # no other run will have the directory of a session
            packages = None if start.session else stored.take_packages(start.packages)
        if packages is None:
            return None
        child = self._waiting_guest(stored)
        if child is None:
            close_all(packages)
            return None
        mounts = stored.mounts_for(child, packages)
        try:
            return self._begin(child, mounts, start)
        except ChildEnded:
            return None

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        stock, stored = self._open()
        reason = "sandboxes die while they wait for a run"
        for _ in range(MOST_READY):
            if (guest := await self._guest_in_checked_lane(stock, start)) is not None:
                return guest
            for dismissed in stored.dismissed():
                await dismissed.wait()
            child = await self._take_child(stock, start.forkable)
            try:
                mounts = stored.take_mounts()
                if mounts is None:
                    mounts = await run_blocking(stored.make_mounts)
                if mounts.run:
                    stored.give(mounts, child)
                if start.packages is not None:
                    try:
                        packages = await run_blocking(stock.make_packages, start.packages, stored.host_id)
                    except BaseException:
                        close_all(mounts)
                        raise
                    mounts.add_packages(packages)
            except BaseException:
                child.discard()
                raise
            try:
                begun = self._begin(child, mounts, start)
            except ChildEnded:  # if the nursery died, all waiting sandboxes did
                reason = await _why_it_ended(child) or reason
                continue
            return self._family_of(child, stock) if start.forkable else begun
        raise SandboxUnavailable(reason)

    def _add_guest(self, guest: GuestProcess) -> None:
        super()._add_guest(guest)
        if (lanes := self._lanes) is not None:
            self._forget_ended()
            lanes.note_company(list(self._guests))

    def _goes_in_lane(self, start: GuestStart) -> bool:
        # Pid 1 takes packages, and what copies of a session need, with its first run only.
        return not start.forkable and start.packages is None and self._lanes is not None

    async def _guest_in_checked_lane(self, stock: Stock, start: GuestStart) -> LaneGuest | None:
        """Return a guest as `_guest_in_lane` does, once what the policy mounts is known to be what it sees.

        Raises `SandboxUnavailable` if it cannot be mounted any more.
        """
        if not self._mounts:
            return self._guest_in_lane(start)
        if not self._may_begin_in_lane(start):
            return None
        lanes = self._lanes
        assert lanes is not None
        try:
            await run_blocking(stock.check_mounts, self._mounts)
        except SandboxUnavailable:
            lanes.drain()
            raise
        while (guest := lanes.take_ready()) is not None:
            owed = self._debt.begin()
            try:
                await guest.see_inputs_anew()
            except BaseException:
                guest.kill()
                guest.close()
                raise
            if self._begins_in_lane(guest, start, owed):
                return guest
        return None

    def _may_begin_in_lane(self, start: GuestStart) -> bool:
        return self._goes_in_lane(start) and self._lanes is not None and self._lanes.has_idle

    def _guest_in_lane(self, start: GuestStart) -> LaneGuest | None:
        """Return a guest that waits in a lane, and begin its run; `None` if there is none."""
        lanes = self._lanes
        if lanes is None or not self._goes_in_lane(start):
            return None
        while (guest := lanes.take_ready()) is not None:
            if self._begins_in_lane(guest, start, self._debt.begin()):
                return guest
        return None

    def _begins_in_lane(self, guest: LaneGuest, start: GuestStart, owed: float) -> bool:
        """Begin a run with a guest; return false if its lane has ended."""
        try:
            guest.stdin = file_with(start.stdin) if start.stdin else -1
            request: dict[str, Any] = {"owed": owed}
            if start.command:
                request["command"] = True
            elif start.session:
                request["session"] = True
            if guest.begin(request):
                self._open_gate(guest)
                if start.session and self._pool is not None:
                    self._pool.expect(1)  # for the next run, whose guest the session has
                if self._next is not None:
                    self._next.prepare()
                return True
        except BaseException:
            guest.kill()
            guest.close()
            raise
        guest.close()
        return False

    def _waiting_guest(self, stored: StoredWorkspace) -> Child | None:
        """Return a sandbox made ahead, or `None`."""
        assert self._pool is not None
        first = stored.take_first_guest() if stored.first_guest is not None else None
        return first or self._pool.take_ready()

    async def _take_child(self, stock: Stock, forkable: bool) -> Child:
        stored = self._open()[1]
        if forkable:  # forkable sandboxes are rare, so none is made ahead
            return await run_blocking(stock.make, stored.host_id, self._points, True)
        assert self._pool is not None
        return stored.take_first_guest() or await self._pool.take()

    def _family_of(self, child: Child, stock: Stock) -> GuestProcess:
        from .family import Family  # forkable sessions are rare

        self._add_guest(child)
        size = self.policy.limits.workspace_mib
        shared = [mount["path"] for mount in self._shared]
        sizes = {"size_mib": size, "inodes": inodes_for(size)}
        return Family(child, self._workspace_of_copy, stock.later, shared=shared, **sizes).first

    def _open(self) -> tuple[Stock, StoredWorkspace]:
        if self._stock is None or self._stored is None:
            raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
        return self._stock, self._stored

    def _begin(self, child: Child, mounts: list[int], start: GuestStart) -> GuestProcess:
        asked = [] if start.packages is None else [packages_mount(start.packages)]
        lanes = self._lanes if self._goes_in_lane(start) and not start.session and child.shares_memory else None
        lanes = lanes if lanes is not None and not lanes.is_full else None
        if self._next_mounts is not None:
            mounts, child.overlays = self._next_mounts.part(mounts, len(asked))
        try:
            try:
                if self._network is not None:
                    mounts += self._network.descriptors()
                    if lanes is None:
                        self._network.open_gate(child, self._taint)
                    else:
                        self._network.keep_sockets(child)
                tree = self._tree_limits(start)
                owed = self._debt.begin() if lanes is not None else self._owe(child)
                request = {**self._take_request, "watched": tree.watched, "owed": owed}
                if lanes is not None:
                    request["lane"] = self._ahead()
                    if start.command:
                        request["command"] = True
                if asked:
                    request["mounts"] = [*asked, *self._mounts]
                if self._at_input and (start.session or lanes is not None):
                    child.hold_input_folder(InputFolder(self._open()[0].forget_names))
                    if lanes is None:
                        child.listen_meanwhile()
                    request["hold_input"] = True
                given = file_with(start.stdin) if start.stdin else -1
            except BaseException:
                for descriptor in mounts:
                    os.close(descriptor)
                raise
            child.begin(request, mounts, tree.limits, given)
        except BaseException:
            if lanes is not None:
                self._debt.end(Ending(), 0.0)
            child.discard()
            raise
        if lanes is None:
            return child
        guest = lanes.begin_one(child, {fact for key, fact in _TOLD.items() if key in request})
        self._open_gate(guest)
        return guest

    def _open_gate(self, guest: LaneGuest) -> None:
        if self._network is not None:
            self._network.open_gate(guest, self._taint)

    def _owe(self, child: Child) -> float:
        """Return the sandbox's debt of processor time as a run begins, and register the run's own use to be added."""
        owed = self._debt.begin()
        child.when_buried(lambda ending: self._debt.end(ending, child.dismissed_ms, child.counted_ms))
        return owed

    def _prepare_next(self) -> None:
        if self._stock is None or self._stored is None or self._pool is None:
            return
        if not self._tries_birth or (self._next is not None and self._next.has_changed):
            return  # a trial is one run, and the next program of a call follows in the lane
        if self._stored.lacks() or self._pool.wants() or self._stock.holds_back:
            self._stock.holds_back = False
            self._stock.later(self._stored.make_ahead)
        if self._lanes is not None:
            self._lanes.look_soon()

    def _tree_limits(self, start: GuestStart) -> TreeLimits:
        """Return the limits for the guest's whole process tree, including its first process."""
        assert self._tree is not None
        return self._tree


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """The limits for a guest's whole process tree."""

    limits: Limits
    watched: Mapping[str, float]
    """The limits that pid 1 of the sandbox has to enforce.

    The number of processes is always among them: the rlimit refuses one too many, but reports it to nobody.
    """

    @classmethod
    def of(cls, limits: Limits) -> TreeLimits:
        """Return these limits, with those that control groups do not enforce on this machine."""
        groups = support()
        watched: dict[str, float] = {"cpu_seconds": limits.cpu_seconds, "processes": limits.processes}
        if groups is None or "memory" not in groups.places:
            watched["memory_mib"] = limits.memory_mib
        else:
            watched["memory_with_sockets_mib"] = limits.memory_mib  # no group is charged for all that sockets hold
        if limits.cpus < (os.cpu_count() or 1) and (groups is None or "cpu" not in groups.places):
            watched["cpus"] = limits.cpus
        return cls(limits, watched)


async def _why_it_ended(child: Child) -> str:
    """Return the reason that a sandbox gave when it died before a run; "" if it gave none in time."""
    ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
    child.when_ended(ended.set_result)
    done, _ = await asyncio.wait([ended], timeout=_SECONDS_TO_SAY_WHY)
    return ended.result().failure if done else ""
