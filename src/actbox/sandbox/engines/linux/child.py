"""The host's handle on a sandbox that the nursery has made; the sandbox first waits for a run, then serves it."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from actbox.core.errors import SandboxUnavailable
from actbox.core.limits import Limits
from actbox.sandbox.guest_process import ToldGuest
from actbox.sandbox.nursery.passing import DescriptorsLost, receive, send
from actbox.sandbox.reading import room
from actbox.sandbox.run_end import Ending

from .cgroups import RunGroup
from .input_folder import InputFolder
from .lane_sockets import LaneSockets
from .reaper import reaper
from .used import Used, used_below

if TYPE_CHECKING:
    from actbox.sandbox.egress.gate import Gate


_log = logging.getLogger("actbox")


class RemoveLeft(Protocol):
    """Removes the directories of a run; without `files` only if they are empty, and returns whether they are gone."""

    def __call__(self, *, files: bool) -> bool: ...


class ChildEnded(SandboxUnavailable):
    """Raised when a sandbox died before a run could use it."""


class Child(ToldGuest):
    """One sandbox as the host holds it: a pidfd of its pid 1, and the host's ends of its guest's channel and pipes."""

    def __init__(
        self,
        descriptors: list[int],
        group: RunGroup | None,
        nursery_lives: Callable[[], bool],
        is_orphan: Callable[[], bool],
    ) -> None:
        """Take over the descriptors of the nursery's answer: control, channel, stdout, stderr, pidfd.

        `nursery_lives` may block a little to be sure; `is_orphan` returns at once whether the nursery is known to be
        dead.
        """
        control, channel, stdout, stderr, self._pidfd = descriptors
        super().__init__(socket.socket(fileno=channel), stdout, stderr)
        self._control = socket.socket(fileno=control)
        self._group = group
        self._nursery_lives = nursery_lives
        self._is_orphan = is_orphan
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._hear: Callable[[dict[str, Any], list[int]], None] | None = None
        self._gate: Gate | None = None
        self.sockets: LaneSockets | None = None
        """The listening sockets that its lane keeps, if it has a network."""
        self.input_folder: InputFolder | None = None
        """The guest's view of `/input`; set if `/input` is a host directory and several programs will run."""
        self.expected: set[str] = set()
        """The facts that pid 1 of a lane has yet to tell, and for which the reaper's thread reads."""
        self._heard: dict[str, Any] = {}
        self._begun = self._killed = False
        self._used = Used()
        self._limit = ""
        """The limit that ended the sandbox, known once it is buried."""
        self.remove_left: RemoveLeft | None = None
        """Removes what the run leaves in a file system that other runs share; its end is told after that."""
        self.shares_memory = True
        """False if it was born so early that each of its guests would have to copy much of its memory."""
        self.buried = False
        """True once everything that belonged to the sandbox has been removed."""
        self.dismissed_ms: float | None = None
        """Milliseconds of processor time that its guest reported at its dismissal; `None` if it was not dismissed."""
        self._group_ms_before: float | None = None
        """The processor time of its control group when its only run began; `None` in a lane, where pid 1 counts."""
        self.counted_ms = 0.0
        """Milliseconds of processor time that its control group counted in a run that was dismissed; 0 without one."""
        reaper().watch(self._pidfd, self._bury)

    @property
    def stale(self) -> bool:
        """True if the sandbox can no longer be used: it has ended, or its nursery has, so that it soon will."""
        return self.end.ending is not None or self._is_orphan()

    def begin(self, request: dict[str, Any], mounts: list[int], limits: Limits, stdin: int) -> None:
        """Start a run in the sandbox: attach these mounts and let the guest go on. Takes over the descriptors.

        Raises `ChildEnded` if the sandbox died while it waited, and `OSError` if its limits cannot be set.
        """
        self.stdin = stdin
        self._begun = True
        try:
            if self._group is not None:
                self._group.set_limits(limits)
                if "lane" not in request:
                    self._group_ms_before = self._group.used_ms()
            send(self._control, {"op": "take", **request}, mounts)
        except (BrokenPipeError, ConnectionResetError, FileNotFoundError) as error:
            raise ChildEnded("a sandbox that waited for a run has died") from error
        except OSError as error:
            # Its end has been handled already, or its group was removed after a file of it had been opened.
            if error.errno in (errno.EBADF, errno.ENODEV):
                raise ChildEnded("a sandbox that waited for a run has died") from error
            raise
        finally:
            for descriptor in mounts:
                os.close(descriptor)

    def open_gate(self, gate: Gate) -> None:
        """Connect the guest to the network's proxy for its lifetime. Call it before `begin` asks pid 1 to listen."""
        self._gate = gate
        self.when_ended(lambda ending: gate.end())
        self.listen_meanwhile()

    async def close_network(self) -> None:
        if self._gate is not None:
            await self._gate.close()

    def keep_sockets(self) -> None:
        """Keep the sockets on which pid 1 will listen for the runs of a lane. Call it before `begin` asks for them."""
        self.sockets = sockets = LaneSockets(self._refuse)
        self.when_buried(lambda ending: sockets.close())

    def when_sent(self, call: Callable[[], None]) -> None:
        """Call a function once, in the reaper's thread, as soon as pid 1 of a lane has sent something or has ended."""
        with self._reading:
            descriptor = self._control.fileno()
            if descriptor >= 0:  # else it has ended already, which `_bury` reports
                reaper().watch(descriptor, call)

    def hold_input_folder(self, folder: InputFolder) -> None:
        """Keep the handle on the guest's `/input` for its lifetime.

        Call it before `begin` asks pid 1 for its descriptor, and `listen_meanwhile` if it begins no lane.
        """
        self.input_folder = folder
        self.when_buried(lambda ending: folder.close())

    async def see_inputs_anew(self) -> None:
        if self.input_folder is not None:
            await self.input_folder.look_anew()

    def listen_meanwhile(self) -> None:
        """Read what pid 1 sends in the reaper's thread, and keep its facts."""
        if self._hear is None:
            self.listen(lambda fact, descriptors: self._heard.update(fact))

    def listen(self, hear: Callable[[dict[str, Any], list[int]], None]) -> None:
        """Call a function, in the reaper's thread, with each message of pid 1 and the descriptors beside it."""
        listens, self._hear = self._hear is not None, hear
        descriptor = self._control.fileno()
        if not listens and descriptor >= 0:  # else it has ended already, which `_bury` reports
            reaper().listen(descriptor, self._on_control)

    def hear_when_read(self, hear: Callable[[dict[str, Any], list[int]], None]) -> None:
        """Call a function with each message of pid 1 that `read_now` finds; those left come when it has ended."""
        self._hear = hear

    def read_now(self, is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Read what pid 1 has sent, without waiting, until it `is_enough`; return false if nothing can follow."""
        with self._reading:
            try:
                into = room()
            except OSError as error:
                self._refuse(f"what the sandbox sent to the host could not be read: {error.strerror}")
                return False
            while self._control.fileno() >= 0:
                if is_enough():
                    return True
                try:
                    data, descriptors = receive(self._control, socket.MSG_DONTWAIT, into)
                except DescriptorsLost as error:
                    self._refuse(f"what the sandbox sent to the host did not arrive whole: {error.strerror}")
                    return False
                except BlockingIOError:
                    return True
                except OSError:  # it has ended, which `_bury` reports
                    return False
                if not data:
                    return False
                self._take_in(data, descriptors)
        return False

    def begin_again(self, request: dict[str, Any]) -> bool:
        """Tell pid 1 of a lane that another run begins; return false if it has ended."""
        try:
            send(self._control, {"op": "take", **request}, [])
        except OSError:
            return False
        return True

    def tell(self, op: str, descriptors: Sequence[int] = (), **request: Any) -> None:
        """Send pid 1 a request, unless it has ended.

        Raises `SandboxUnavailable` if the request cannot be sent now, such as for lack of memory.
        """
        try:
            send(self._control, {"op": op, **request}, list(descriptors))
        except ConnectionError:
            return
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOTCONN):  # its end has been handled already
                raise SandboxUnavailable(f"the sandbox could not be told ({op}: {error.strerror})") from error
        except MemoryError as error:
            raise SandboxUnavailable(f"the sandbox could not be told ({op}: {os.strerror(errno.ENOMEM)})") from error

    def interrupt(self) -> None:
        with contextlib.suppress(SandboxUnavailable):  # if the program does not end, the guest is killed soon
            self.tell("interrupt")

    def end_first(self) -> None:
        with contextlib.suppress(SandboxUnavailable):
            self.tell("end")

    def kill(self) -> None:
        with self._lock:
            if self._pidfd >= 0:
                if self._begun and not self._killed and self.dismissed_ms is None:
                    self._used = used_below(self._pidfd)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self._killed = True

    def dismiss(self, used_ms: float) -> bool:
        if self.remove_left is not None and self._has_left_files():
            return False
        self.dismissed_ms = used_ms
        self.kill()
        return True

    def discard(self) -> None:
        """Kill a sandbox that no run has used, and close its descriptors."""
        self.kill()
        self.close()

    def leave_to_parent(self) -> None:
        """In a forked process, close the descriptors of this sandbox, which belongs to the parent."""
        self.close()
        self.close_own()

    def close_own(self) -> None:
        """In a forked process, close the descriptors that are pid 1's, not a guest's."""
        self._control.close()
        if self.sockets is not None:
            self.sockets.leave_to_parent()
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def note(self, fact: dict[str, Any]) -> None:
        """Keep a fact about the sandbox until it has ended."""
        self._heard |= fact

    def when_buried(self, call: Callable[[Ending], None]) -> None:
        """Call a function with the ending, in the reaper's thread, once the sandbox has ended."""
        self.end.when(call)

    def limit_reached(self) -> str:
        if self._group is None:
            return ""
        try:
            return self._group.limit_reached()
        except OSError:  # its group was removed meanwhile
            return self._limit

    def _bury(self) -> None:
        """In the reaper's thread, find out how the sandbox ended, and remove what is left of it."""
        try:
            ending = self._find_ending()
        except Exception as error:
            ending = Ending(failure=f"{type(error).__name__}: {error}")
        if self.dismissed_ms is not None:
            self.counted_ms = self._count_ms()
        if self.remove_left is not None and self._has_left_files():
            try:  # so that the ends of other sandboxes do not wait for it
                args, name = (ending,), "actbox-reaper-of-files"
                threading.Thread(target=self._remove_and_tell_end, args=args, name=name, daemon=True).start()
            except RuntimeError:  # this process may have no more threads
                self._remove_and_tell_end(ending)
        else:
            self._tell_end(ending)
        with self._reading:
            reaper().forget(self._control.fileno())
            self._control.close()
        if self._group is not None:
            self._group.remove()
        self.buried = True

    def _count_ms(self) -> float:
        if self._group is None or self._group_ms_before is None:
            return 0.0
        try:
            return self._group.used_ms() - self._group_ms_before
        except OSError:  # such as too many open files in this process: then it may have been anything
            return math.inf

    def _has_left_files(self) -> bool:
        try:
            return self.remove_left is not None and not self.remove_left(files=False)
        except OSError:  # such as too many open files in this process, for the moment
            return True

    def _remove_and_tell_end(self, ending: Ending) -> None:
        assert self.remove_left is not None
        try:
            self.remove_left(files=True)
        except OSError as error:
            _log.warning("the files that a run left outside its workspace could not be removed: %s", error.strerror)
        finally:
            self._tell_end(ending)

    def _tell_end(self, ending: Ending) -> None:
        with self._lock:
            self._limit = ending.limit
            os.close(self._pidfd)
            self._pidfd = -1
        self.end.tell(ending)  # whom this calls may need other locks

    def _find_ending(self) -> Ending:
        facts = self._facts()
        if reached := self.limit_reached():
            facts["limit"] = reached
        if "failure" in facts:
            why = f"the sandbox could not be closed around the program: {facts['failure']}"
            return Ending(failure=why, signal=facts.get("signal"))
        if "refused" in facts:
            return Ending(failure=facts["refused"])
        if "exit_code" not in facts and "signal" not in facts:
            if not self._killed and not self._nursery_lives():
                return Ending(failure="the nursery process died, and this run with it; the next one gets a new nursery")
            facts["signal"] = int(signal.SIGKILL)  # killed from outside, by us or somebody else
            facts |= self._used._asdict()
        return Ending(**facts)

    def _facts(self) -> dict[str, Any]:
        """Return the facts that pid 1, which is our code, reported about its guest's end."""
        facts = self._heard
        while True:
            try:
                data, descriptors = receive(self._control, socket.MSG_DONTWAIT, room())
            except (ConnectionResetError, DescriptorsLost):  # pid 1 left requests unread, or a message of its came
                continue  # without its descriptors; the next message is read
            except BlockingIOError:
                return facts
            except OSError as error:
                return {**facts, "refused": f"how the run ended could not be read: {error.strerror}"}
            if not data:
                return facts
            self._take_in(data, descriptors)

    def _on_control(self) -> bool:
        try:
            data, descriptors = receive(self._control, room=room())
        except ConnectionResetError:  # it has ended, and had not read all that it was told
            return False
        except OSError as error:  # a caller may wait for its message, so the sandbox cannot go on
            self._heard["failure"] = f"what the sandbox sent to the host did not arrive whole: {error.strerror}"
            self.kill()
            return False
        if data:
            self._take_in(data, descriptors)
        return bool(data)

    def _refuse(self, why: str) -> None:
        """End the sandbox for a reason that is its run's error."""
        self._heard["refused"] = why
        self.kill()

    def _take_in(self, data: bytes, descriptors: list[int]) -> None:
        fact = json.loads(data)
        self.expected.difference_update(fact)
        if "listening" in fact and (gate := self.sockets or self._gate) is not None:
            gate.open_soon(descriptors)
        elif "input" in fact and self.input_folder is not None:
            self.input_folder.hold(*descriptors)
        elif "failure" in fact or "refused" in fact:  # the sandbox ends, whoever else listens
            self._heard |= fact
        elif self._hear is not None:
            self._hear(fact, descriptors)
        else:
            self.note(fact)
