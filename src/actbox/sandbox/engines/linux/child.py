"""A sandbox that the nursery has made, as the host holds it: first it waits for a run, then it is that run's."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.limits import Limits
from actbox.sandbox.ending import End, Ending
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.nursery.datagrams import DescriptorsLost, receive, send

from .cgroups import RunGroup
from .input_folder import InputFolder
from .reaper import reaper

if TYPE_CHECKING:
    from actbox.sandbox.egress.gate import Gate


class ChildEnded(SandboxUnavailable):
    """A sandbox died before it could be taken for a run."""


class Child(GuestProcess):
    """One sandbox: its pid 1, held by a descriptor that cannot come to mean another process, and its guest's ends."""

    def __init__(
        self,
        descriptors: list[int],
        group: RunGroup | None,
        nursery_lives: Callable[[], bool],
        is_orphan: Callable[[], bool],
    ) -> None:
        """Take over the descriptors that the nursery answered with: control, channel, stdout, stderr, pidfd.

        `nursery_lives` may wait a little to be sure; `is_orphan` says at once what is known of the nursery's death.
        """
        control, channel, self.stdout, self.stderr, self._pidfd = descriptors
        self._control = socket.socket(fileno=control)
        self.sock = socket.socket(fileno=channel)
        self._group = group
        self._nursery_lives = nursery_lives
        self._is_orphan = is_orphan
        self._lock = threading.Lock()
        self._end = End()
        self._hear: Callable[[dict[str, Any], list[int]], None] | None = None
        self._gate: Gate | None = None
        self.input_folder: InputFolder | None = None
        """What its guest sees at `/input`, where that is a folder of the host and there will be several programs."""
        self._heard: dict[str, Any] = {}
        self._killed = False
        self._limit = ""
        """The limit that it had reached, once it is buried."""
        self.buried = False
        """Whether everything that belonged to it has been removed."""
        self.dismissed_ms: float | None = None
        """What it said it has used of the processors when it was dismissed, if it was."""
        reaper().watch(self._pidfd, self._bury)

    @property
    def ended(self) -> bool:
        """Whether nothing is left of it."""
        return self._end.ending is not None

    @property
    def stale(self) -> bool:
        """Whether it can be used no more: it has ended, or is about to, as its nursery has."""
        return self.ended or self._is_orphan()

    def begin(self, request: dict[str, Any], mounts: list[int], limits: Limits, stdin: int) -> None:
        """Take it for a run: attach these mounts, let the guest go on. Takes over the descriptors.

        Raises `ChildEnded` where it has died while it waited, and `OSError` where its limits cannot be set.
        """
        self.stdin = stdin
        try:
            if self._group is not None:
                self._group.set_limits(limits)
            send(self._control, {"op": "take", **request}, mounts)
        except (BrokenPipeError, ConnectionResetError, FileNotFoundError) as error:
            raise ChildEnded("a sandbox that waited for a run has died") from error
        except OSError as error:
            if error.errno == errno.EBADF:  # its end has been dealt with already
                raise ChildEnded("a sandbox that waited for a run has died") from error
            raise
        finally:
            for descriptor in mounts:
                os.close(descriptor)

    def open_gate(self, gate: Gate) -> None:
        """Give it a way to the network, which ends when it does; before it is taken for a run that asks to listen."""
        self._gate = gate
        self.when_ended(lambda ending: gate.end())
        self._listen_meanwhile()

    async def close_network(self) -> None:
        if self._gate is not None:
            await self._gate.close()

    def hold_input_folder(self, folder: InputFolder) -> None:
        """Keep hold of what its guest sees at `/input`; before it is taken for a run that asks pid 1 for that."""
        self.input_folder = folder
        self.when_buried(lambda ending: folder.close())
        self._listen_meanwhile()

    async def see_inputs_anew(self) -> None:
        if self.input_folder is not None:
            await self.input_folder.look_anew()

    def _listen_meanwhile(self) -> None:
        if self._hear is None:
            self.listen(lambda fact, descriptors: self._heard.update(fact))

    def listen(self, hear: Callable[[dict[str, Any], list[int]], None]) -> None:
        """Hand what pid 1 says, with the descriptors beside it, to a function, in the reaper's thread."""
        listens, self._hear = self._hear is not None, hear
        if not listens:
            reaper().listen(self._control.fileno(), self._on_control)

    def tell(self, op: str, descriptors: Sequence[int] = (), **request: Any) -> None:
        """Tell pid 1 to do something; one that is gone does not hear it.

        Raises `SandboxUnavailable` where the descriptors cannot be sent now.
        """
        try:
            send(self._control, {"op": op, **request}, list(descriptors))
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise SandboxUnavailable(f"the sandbox could not be told ({op}: {error.strerror})") from error

    def interrupt(self) -> None:
        self.tell("interrupt")

    def end_first(self) -> None:
        self.tell("end")

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._end.ending is None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def dismiss(self, used_ms: float) -> bool:
        self.dismissed_ms = used_ms
        self.kill()
        return True

    def discard(self) -> None:
        """End one that no run has taken over."""
        self.kill()
        self.close()

    def leave_to_parent(self) -> None:
        """In a forked process: close the descriptors of one that is the parent's."""
        self._control.close()
        self.close()
        os.close(self._pidfd)

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self._end.when_in_loop(call)

    def when_buried(self, call: Callable[[Ending], None]) -> None:
        """Call a function, in the reaper's thread, once it has ended."""
        self._end.when(call)

    def limit_reached(self) -> str:
        if self._group is None:
            return ""
        try:
            return self._group.limit_reached()
        except OSError:  # it has been buried meanwhile, and its group removed
            return self._limit

    def _bury(self) -> None:
        """In the reaper's thread: find out how it ended, and remove what is left of it."""
        try:
            ending = self._find_ending()
        except Exception as error:
            ending = Ending(failure=f"{type(error).__name__}: {error}")
        with self._lock:
            self._limit = ending.limit
            self._end.tell(ending)
            os.close(self._pidfd)
        reaper().forget(self._control.fileno())
        self._control.close()
        if self._group is not None:
            self._group.remove()
        self.buried = True

    def _find_ending(self) -> Ending:
        facts = self._facts()
        if reached := self.limit_reached():
            facts["limit"] = reached
        if "failure" in facts:
            return Ending(failure=f"the sandbox could not be closed around the program: {facts['failure']}")
        if "refused" in facts:
            return Ending(failure=facts["refused"])
        if "exit_code" not in facts and "signal" not in facts:
            if not self._killed and not self._nursery_lives():
                return Ending(failure="the nursery process died, and this run with it; the next one gets a new nursery")
            facts["signal"] = int(signal.SIGKILL)  # ended from outside, by us or by whoever else may
        return Ending(**facts)

    def _facts(self) -> dict[str, Any]:
        """Read what pid 1, which is ours, said about the end."""
        facts = self._heard
        self._control.setblocking(False)
        while True:
            try:
                data, descriptors = receive(self._control)
            except (ConnectionResetError, DescriptorsLost):  # it had not read all that it was told, or has said
                continue  # something that came without its descriptors; what it said comes next
            except OSError:
                return facts
            if not data:
                return facts
            if self._hear is not None:
                self._take_in(data, descriptors)
            else:
                facts |= json.loads(data)

    def _on_control(self) -> bool:
        try:
            data, descriptors = receive(self._control)
        except ConnectionResetError:  # it has ended, and had not read all that it was told
            return False
        except DescriptorsLost as error:
            self._heard["failure"] = f"what the sandbox sent to the host did not arrive whole: {error.strerror}"
            return True
        if data:
            self._take_in(data, descriptors)
        return bool(data)

    def _take_in(self, data: bytes, descriptors: list[int]) -> None:
        fact = json.loads(data)
        if "listening" in fact and self._gate is not None:
            self._gate.open_soon(descriptors)
        elif "input" in fact and self.input_folder is not None:
            self.input_folder.hold(*descriptors)
        elif "failure" in fact or "refused" in fact:  # it ends, whoever else listens
            self._heard |= fact
        elif self._hear is not None:
            self._hear(fact, descriptors)
