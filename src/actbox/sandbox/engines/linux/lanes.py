"""The lanes of one open sandbox as the host holds them: each run has a fresh guest, and pid 1 stays.

A lane begins as an ordinary waiting sandbox, with its first run. After a run that left nothing behind, pid 1 makes the
next guest (`nursery/lane.py`), which waits for the next run of the same open sandbox. After any other run, and whenever
something is not as it was at birth, the lane ends as every sandbox does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.guest_process import GuestProcess, ToldGuest
from actbox.sandbox.requests import COLD_SECONDS, SOON
from actbox.sandbox.run_end import Ending

from .child import Child
from .debt import Debt
from .descriptors import close_all

if TYPE_CHECKING:
    from actbox.sandbox.egress.gate import Gate
    from actbox.sandbox.overlays import OverlayChanges

    from .stored import StoredWorkspace

MOST_LANES: Final = 16
"""The most lanes of one sandbox; more runs at once get sandboxes of their own, which are used once."""
_MOST_RUNS = 1000
# In this time pid 1 has ended all that a run left, even on a busy machine; else the kernel does it by ending pid 1.
_CLEARING_SECONDS = 0.5
_QUIET_SECONDS = 5.0
# In this time the next guest of a lane is there, unless the machine is busy.
_SOON_SECONDS = 0.005

_log = logging.getLogger("actbox")


class LaneGuest(ToldGuest):
    """One guest of a lane, for one run."""

    def __init__(self, lane: Lane, sock: socket.socket | None, stdout: int, stderr: int) -> None:
        super().__init__(sock, stdout, stderr)
        self.has_begun = False
        """True once a run has it, which then closes its descriptors."""
        self.is_over = False
        """True once its run is over and pid 1 was told to make way for another guest."""
        self.met_at: float | None = None
        """The time from which it had company: another guest, whose program could reach the same workspace."""
        self.is_awake = False
        """True once it was told that a program comes soon."""
        self._lane = lane
        self._gate: Gate | None = None

    def begin(self, request: dict[str, Any]) -> bool:
        """Tell pid 1 of the run; return false if the lane has ended."""
        if "command" in request:
            self._lane.read_until({"ended"})
        elif "session" in request:
            self._lane.leave()
        return self._lane.child.begin_again(request)

    def interrupt(self) -> None:
        self._lane.child.interrupt()

    def lost_channel(self) -> None:
        with contextlib.suppress(SandboxUnavailable):  # then its end is asked for later
            self._lane.child.tell("lost_channel")

    def end_first(self) -> None:
        self._lane.child.end_first()

    def kill(self) -> None:
        self._lane.kill(self)

    def dismiss(self, used_ms: float) -> bool:
        try:
            if self._lane.end_run(self, used_ms, is_told=True):
                return True
            # A program that moves the place of a mount may do so each time, and pid 1 then tells no figure of its own.
            return self._lane.child.dismiss(used_ms if self._lane.points is not None else math.inf)
        except BaseException:  # such as of a signal's handler: the run, which has no limit of time any more, ends so
            self._lane.child.kill()
            raise

    def open_gate(self, gate: Gate) -> None:
        """Connect the guest to the network's proxy for its run, whose event loop calls this."""
        self._gate = gate
        self.when_ended(lambda ending: gate.end())
        assert self._lane.child.sockets is not None
        self._lane.child.sockets.serve(gate)

    async def close_network(self) -> None:
        if self._gate is not None:
            await self._gate.close()

    async def see_inputs_anew(self) -> None:
        await self._lane.child.see_inputs_anew()

    def released(self) -> None:
        if not self.is_over:
            return
        if self._gate is None or self._gate.is_over:
            self._lane.released()
        else:  # the caller was cancelled meanwhile, and the gate could still accept the next program's connections
            self._lane.child.kill()

    def limit_reached(self) -> str:
        return self._lane.child.limit_reached()


class Lane:
    """A sandbox that goes on from run to run."""

    def __init__(self, lanes: Lanes, child: Child, debt: Debt, facts: set[str]) -> None:
        """Take over a sandbox whose first run has just begun; pid 1 is about to tell these facts."""
        self.child = child
        self.debt = debt
        self._lanes = lanes
        self._runs = 1
        self.points: list[tuple[int, int]] | None = None
        """The files and directories of the workspace that were mounted upon when the lane's first run was over."""
        self.asked_at = 0.0
        """The time at which the latest guest was asked for."""
        self._reported_ms: float | None = None
        """The processor time that the latest guest reported at its dismissal, until pid 1 has told its own figure."""
        self.guest = LaneGuest(self, child.sock, child.stdout, child.stderr)
        self.guest.stdin = child.stdin
        self.guest.has_begun = True
        self._fresh: LaneGuest | None = None
        self.guest.overlays, child.overlays = child.overlays, None
        self._overlays: OverlayChanges | None = None
        """The overlays of the guest that was asked for last, until it is there."""
        self._is_anew = False
        """True if the latest guest was asked for in a new mount namespace."""
        child.hear_when_read(self._hear)
        if facts:
            self.read_until(facts)

    def kill(self, guest: LaneGuest) -> None:
        """End the lane, unless it is another guest's by now."""
        with self._lanes.lock:
            if guest is self.guest and not guest.ended:
                self.child.kill()

    def end_run(self, guest: LaneGuest, used_ms: float, *, is_told: bool = False) -> bool:
        """Have pid 1 end all that is left of a guest's run; return false if no other guest can follow.

        With `is_told` the run knows of its end already.
        """
        with self._lanes.lock:
            if self._runs == 1:
                self.points = self._lanes.points()
            if self.points is None or self._runs >= _MOST_RUNS or not self._lanes.has(self):
                return False
            if guest.stopped is not None:  # `stop()` has killed it, and waits for its end
                return False
            guest.is_over = True
            # The run, which may hold much. Under the lock: a `stop()` that comes later waits for the guest's end.
            forgotten = guest.end.forget() if is_told else []
            self._reported_ms = used_ms
        try:
            self.debt.end(Ending(), used_ms)
            self.child.tell("clear")
        except SandboxUnavailable:
            self.child.kill()
        except BaseException:  # the run has to hear of its end
            for call, loop in forgotten:
                guest.end.when(call, loop)
            self.child.kill()
            raise
        return True

    def read_until(self, facts: set[str]) -> None:
        """Read what pid 1 sends until it has told these facts, in the reaper's thread.

        Later messages are read when the next run begins.
        """
        self.child.expected = facts
        self.child.when_sent(partial(self._read_expected, facts))

    def _read_expected(self, facts: set[str]) -> None:
        with self._lanes.lock:
            if self.child.read_now(lambda: not facts) and facts:
                self.child.when_sent(partial(self._read_expected, facts))

    def leave(self) -> None:
        """Stop being one of the lanes, because its guest is a session's from now on."""
        self._lanes.forget(self)

    def released(self) -> None:
        """Go on, now or once the workspace or the mounts of the next run are there."""
        if self._lanes.waits:
            with self._lanes.lock:
                self._lanes.waiting.append(self)
        elif self._lanes.renew is not None:
            self._lanes.renew(self)
        else:
            self.go_on()

    def go_on(self, mounts: Sequence[int] = (), overlays: OverlayChanges | None = None) -> None:
        """Ask pid 1 for the next guest; with `mounts`, those of another workspace or run, in these.

        `overlays` are those of `mounts` whose changes the next run reports.
        """
        if overlays is not None:
            with self._lanes.lock:
                if not self._lanes.has(self):
                    overlays.close()
                    return
                self._overlays = overlays
        self._runs += 1
        self.asked_at = time.monotonic()
        try:
            self._is_anew = self.guest.met_at is not None
            self.child.tell("next", mounts, anew=self._is_anew)
        except SandboxUnavailable:
            self.child.kill()
        except BaseException:
            self.child.kill()
            raise
        else:
            self._lanes.expect(self)

    def drop_fresh(self) -> LaneGuest | None:
        """Return the next guest, if it is known to be there, to have its descriptors closed; let go of its overlays."""
        fresh, self._fresh = self._fresh, None
        overlays, self._overlays = self._overlays, None
        if overlays is not None:
            overlays.close()
        return fresh

    def look(self) -> bool:
        """Read what pid 1 has sent, until the next guest is known to be there; return whether it is."""
        if self._fresh is None:
            self.child.read_now(lambda: self._fresh is not None)
        return self._fresh is not None

    def announce(self) -> None:
        """Tell the next guest, if it is known to be there and has waited for some time, that a program comes soon."""
        fresh = self._fresh
        if fresh is None or fresh.sock is None or fresh.is_awake or time.monotonic() - self.asked_at < COLD_SECONDS:
            return
        fresh.is_awake = True
        with contextlib.suppress(OSError):  # it has ended, or ends before it reads this
            fresh.sock.send(SOON, socket.MSG_DONTWAIT)

    def take(self) -> LaneGuest | None:
        """Return the next guest, for a run, if it is there."""
        self.look()
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.has_begun = True
            self.guest = fresh
        return fresh

    def leave_to_parent(self) -> None:
        """In a forked process, close the descriptors of this lane, which belongs to the parent."""
        fresh = self.drop_fresh()
        if fresh is not None:
            fresh.close()
        self.child.close_own()

    def _settle(self, used_ms: float | None) -> None:
        """Charge for the latest run that is over what it used; `None` if pid 1 could not tell."""
        reported_ms, self._reported_ms = self._reported_ms, None
        if reported_ms is not None:
            self.debt.correct(reported_ms, used_ms)

    def _hear(self, fact: dict[str, Any], descriptors: list[int]) -> None:
        if "guest" in fact:
            channel, stdout, stderr = descriptors
            with self._lanes.lock:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, channel)  # asks the kernel for none of it
                fresh = LaneGuest(self, sock, stdout, stderr)
                fresh.overlays, self._overlays = self._overlays, None
                self._settle(fact["used_ms"])
                if self._met_before(fact["alone_at"]):
                    self.child.kill()
                    fresh.close()
                else:
                    self._fresh = fresh
            self.guest.end.tell(Ending())
            return
        if "ended" in fact:  # the guest became a command, so that pid 1 tells of its end
            guest = self.guest
            if not self.end_run(guest, fact["used_ms"]):
                self.child.dismiss(fact["used_ms"])
            guest.end.tell(Ending(**fact["ended"]))
            return
        if "left" in fact:
            _log.debug("a lane ends, since a program has left something behind: %s", fact["left"])
            with self._lanes.lock:
                self._settle(fact["used_ms"])
        else:
            self.child.note(fact)

    def _met_before(self, alone_at: float) -> bool:
        """Return whether the last run had company after its result, but before its processes were gone.

        A program that lied about its end could then still give descriptors away, and that was not known in time.
        """
        return not self._is_anew and self.guest.met_at is not None and self.guest.met_at <= alone_at

    def buried(self, ending: Ending) -> None:
        """In the reaper's thread, tell the run under way, and close what no run has."""
        guest, fresh = self._lanes.last_of(self)
        if guest.has_begun and not guest.is_over:
            self.debt.end(ending, self.child.dismissed_ms)
        self._settle(None)
        guest.end.tell(ending)
        if fresh is not None:
            fresh.close()


class Lanes:
    """The lanes of one open sandbox. Methods may be called from any thread."""

    def __init__(
        self,
        debt: Debt,
        points: Callable[[], list[tuple[int, int]] | None],
        *,
        have_company: bool = False,
        waits: bool = False,
        renew: Callable[[Lane], None] | None = None,
    ) -> None:
        """`points` returns what is mounted upon in the workspace: `StoredWorkspace.points`.

        With `have_company` programs of other sandboxes may always meet those of this one, such as in a mount. With
        `waits` lanes go on only once `go_on` or `change_workspace` is called. `renew`, if each run has mounts of its
        own, has a lane go on with new ones, now or soon.
        """
        self.is_open = True
        self.points = points
        self.waits = waits
        self.renew = renew
        self.waiting: list[Lane] = []
        """The lanes that wait so."""
        self._have_company = have_company
        self._debt = debt
        self.lock = threading.RLock()
        """Held before the locks of a lane's `Child`, never after."""
        self._all: set[Lane] = set()
        self._idle: deque[Lane] = deque()
        """The lanes without a run, the one that was asked first for its next guest in front."""
        self._last_want = 0.0
        self._looks_soon = False

    @property
    def is_full(self) -> bool:
        """True if there may be no more lanes."""
        return len(self._all) >= MOST_LANES

    @property
    def has_idle(self) -> bool:
        """True if there is a lane without a run."""
        return bool(self._idle)

    def has(self, lane: Lane) -> bool:
        """Return whether a lane has not ended, and may go on."""
        return self.is_open and lane in self._all

    def begin_one(self, child: Child, facts: set[str]) -> LaneGuest:
        """Make a lane of a sandbox whose first run has begun, and read these facts of its pid 1; return its guest."""
        with self.lock:
            lane = Lane(self, child, self._debt, facts)
            self._all.add(lane)
        child.when_buried(lane.buried)
        return lane.guest

    def take_ready(self) -> LaneGuest | None:
        """Return a fresh guest that is ready, or `None`."""
        with self.lock:
            points = self.points() if self._idle else None
            for _ in range(len(self._idle)):
                lane = self._idle.popleft()
                if lane.points != points:  # its mounts were moved or removed with what they are mounted upon
                    lane.child.kill()
                    continue
                guest = None if lane.child.stale else lane.take()
                if guest is not None:
                    return guest
                if time.monotonic() - lane.asked_at > _CLEARING_SECONDS:
                    lane.child.kill()
                else:
                    self._idle.append(lane)
            self._last_want = time.monotonic()
        return None

    def announce(self) -> None:
        """Tell the guest that is first in turn that a program comes soon, so that it is awake when it does."""
        with self.lock:
            if self._idle:
                self._idle[0].announce()

    def go_on(self) -> None:
        """Have the lanes that wait go on."""
        with self.lock:
            waiting, self.waiting = self.waiting, []
        for lane in waiting:
            lane.go_on()

    @property
    def can_change_workspace(self) -> bool:
        """True if there is one lane, and its run is over."""
        with self.lock:
            return len(self._all) == 1 and self.waiting == list(self._all)

    def change_workspace(self, stored: StoredWorkspace, mounts: list[int]) -> None:
        """Have the lane that waits go on in another workspace, with these mounts of it; closes their descriptors."""
        with self.lock:
            self.points = stored.points
            waiting, self.waiting = self.waiting, []
        try:
            for lane in waiting:
                lane.points = stored.points()
                lane.go_on(mounts)
        finally:
            close_all(mounts)

    def look(self) -> bool:
        """Read what the lanes without a run have told, so that the runs before are known to be over.

        Return whether the next guest of each is there.
        """
        with self.lock:
            known = [lane.look() for lane in self._idle]
        return all(known)

    def look_soon(self, seconds: float = _SOON_SECONDS) -> None:
        """In a short while look, and then again until all next guests are there, so that no run needs to."""
        if not self._looks_soon:
            self._looks_soon = True
            asyncio.get_running_loop().call_later(seconds, self._look_now, seconds)

    def _look_now(self, waited: float) -> None:
        self._looks_soon = False
        if not self.look():
            self.look_soon(2 * waited)

    def note_company(self, guests: Collection[GuestProcess]) -> None:
        """Note which guests may meet, now that one of them begins; call it before that one gets its program.

        By a local socket in the workspace a program can give away descriptors of its lane's directories. Whoever has
        one would reach what later programs of the lane do in `/tmp`, so the lane then needs a mount namespace anew.
        """
        if len(guests) > 1:
            self.look()
        together = [guest for guest in guests if not guest.ended]
        if len(together) > 1 or self._have_company:
            for guest in together:
                if isinstance(guest, LaneGuest) and guest.met_at is None:
                    guest.met_at = time.monotonic()

    def expect(self, lane: Lane) -> None:
        """Note that a lane will soon have its next guest."""
        with self.lock:
            if self.has(lane):
                self._idle.append(lane)

    def forget(self, lane: Lane) -> None:
        """Let go of a lane that goes on for one caller only; its guest has to be ended like any other."""
        with self.lock:
            self._all.discard(lane)

    def last_of(self, lane: Lane) -> tuple[LaneGuest, LaneGuest | None]:
        """Remove a lane that has ended; return its latest run's guest, and the one that no run has taken."""
        with self.lock:
            self._all.discard(lane)
            for lanes in (self._idle, self.waiting):
                if lane in lanes:
                    lanes.remove(lane)
            return lane.guest, lane.drop_fresh()

    def relax(self, least: int) -> None:
        """After some time in which there were enough lanes, end one that is idle, down to `least`."""
        with self.lock:
            if len(self._idle) <= least or time.monotonic() - self._last_want < _QUIET_SECONDS:
                return
            lane = self._idle.popleft()
        lane.child.kill()

    def drain(self) -> None:
        """End the lanes that have no run."""
        with self.lock:
            idle = list(self._idle)
            self._idle.clear()
        for lane in idle:
            lane.child.kill()

    def close(self) -> None:
        """End all lanes."""
        with self.lock:
            self.is_open = False
            self._idle.clear()
            lanes = list(self._all)
        for lane in lanes:
            lane.child.kill()

    def leave_to_parent(self) -> None:
        """In a forked process, drop the lanes, which belong to the parent."""
        self.lock = threading.RLock()
        self.is_open = False
        for lane in self._all:
            lane.leave_to_parent()
        self._all.clear()
        self._idle.clear()
        self.waiting.clear()
