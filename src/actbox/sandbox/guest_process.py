"""The interface of a started guest, between engines and runs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable

from actbox.core.errors import Unsupported
from actbox.core.events import NetworkRequest
from actbox.core.lazy_dataclass import dataclass

from .channel.unasked_descriptors import close_channel
from .overlays import OverlayChanges
from .run_end import End, Ending, Stop
from .storage import Storage

# The most network requests, made between two programs of a session, that are kept to be reported by the next run.
_MOST_UNTOLD = 1000


class GuestProcess(ABC):
    """A guest that has been started. The run closes the descriptors; the engine does everything else."""

    sock: socket.socket | None
    """The host's end of the channel, or `None` once it is closed."""
    stdout: int
    stderr: int
    grace_seconds: float = 0.5
    """How long the guest may live on after its result, in seconds, before it is killed."""
    stdin: int = -1
    """The descriptor sent with the first message to be the guest's standard input; -1 if it has one already."""
    stopped: Stop | None = None
    """Set by the engine before it ends a guest for its own reason, such as the sandbox's `stop()`."""
    on_network: Callable[[NetworkRequest], None] | None = None
    """Set by the run under way, if any; called in its event loop with each decided network request."""
    _untold: deque[NetworkRequest] | None = None
    explain: Callable[[Ending, str], Ending] | None = None
    """Set by the engine if standard error helps to explain how a guest ended; returns the explained ending."""
    overlays: OverlayChanges | None = None
    """Overlay mounts whose changes are part of a result, or `None`."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """True if nothing of the guest's process tree is left."""

    @abstractmethod
    def when_ended(self, call: Callable[[Ending], None]) -> None:
        """Call a function in this event loop with the ending, once nothing of the guest's process tree is left."""

    @abstractmethod
    def interrupt(self) -> None:
        """Send `SIGINT` to the guest's first process; does nothing if it has ended."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the guest's whole process tree at once; does nothing if it has ended."""

    def kill_from_thread(self) -> None:
        """Do as `kill`, from another thread than the event loop's."""
        self.kill()

    def lost_channel(self) -> None:
        """Called when the channel of a program has ended without a result; does not end the guest.

        For an engine that takes the end of a guest for an end with a result, unless it hears this.
        """
        return

    def end_first(self) -> None:
        """End the guest's first process; if it just ended by itself, its own ending is still reported."""
        self.kill()

    def dismiss(self, used_ms: float) -> bool:
        """End a guest that reported to be done and alone; return true if its end need not be waited for.

        `used_ms` is the processor time, in milliseconds, that the guest says it has used.
        """
        return False

    def released(self) -> None:
        """Called once the run has closed the guest's descriptors, even if `close_network` was cancelled."""
        return

    def limit_reached(self) -> str:
        """Return the limit for which an outside enforcer has killed or refused one of its processes, or ""."""
        return ""

    def hear_network(self, call: Callable[[NetworkRequest], None] | None) -> None:
        """Report network requests to a run from now on, and those made while there was no run."""
        self.on_network = call
        if call is not None and self._untold:
            untold, self._untold = self._untold, None
            for request in untold:
                call(request)

    def tell_network(self, request: NetworkRequest) -> None:
        """Report a request to the run under way, else to the next one."""
        if self.on_network is not None:
            self.on_network(request)
            return
        if self._untold is None:
            self._untold = deque(maxlen=_MOST_UNTOLD)
        self._untold.append(request)

    async def close_network(self) -> None:
        """Close the connections of a guest that has ended or is about to; returns when each has been reported."""
        return

    async def see_inputs_anew(self) -> None:
        """Make a guest of several programs see the present content of `/input`. Raises `SandboxUnavailable`."""
        return

    async def prepare_fork(self) -> Fork:
        """Prepare what a copy of this guest needs. Raises `CannotFork` and `SandboxUnavailable`."""
        raise Unsupported("this engine cannot fork its guests")

    async def wait(self) -> Ending:
        """Return how the guest ended, once nothing of its process tree is left."""
        ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

        def tell(ending: Ending) -> None:
            if not ended.done():
                ended.set_result(ending)

        self.when_ended(tell)
        return await ended

    async def abandon(self) -> None:
        """Kill a guest that no run has taken over, and close its descriptors."""
        self.kill()
        self.close()
        await self.wait()

    def close(self) -> None:
        """Close the descriptors of a guest that no run has taken over."""
        os.close(self.stdout)
        os.close(self.stderr)
        if self.stdin >= 0:
            os.close(self.stdin)
        if self.sock is not None:
            close_channel(self.sock)
        self.let_go_of_overlays()

    def let_go_of_overlays(self) -> None:
        """Close the overlay mounts' descriptors, once no result needs them any more."""
        if self.overlays is not None:
            self.overlays.close()


class ToldGuest(GuestProcess):
    """A guest whose end is known once its engine has told it, by `end.tell`."""

    def __init__(self, sock: socket.socket | None, stdout: int, stderr: int) -> None:
        self.sock, self.stdout, self.stderr = sock, stdout, stderr
        self.end = End()

    @property
    def ended(self) -> bool:
        """True once the engine has told its end."""
        return self.end.ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        """Call a function in this event loop with the ending, once the engine has told it."""
        self.end.when(call, asyncio.get_running_loop())


@dataclass(frozen=True, slots=True)
class Fork:
    """An engine's preparations for a copy of a guest."""

    guest: GuestProcess
    """The copy; before it is adopted it may only be killed."""
    workspace: Storage
    release: Callable[[], None]
    """Releases the workspace, once nothing of the copy is left."""
    descriptors: list[int]
    """The descriptors sent to the copy: its channel, output and error, the root of its files.

    The caller closes them.
    """
    adopt: Callable[[int], Awaitable[None]]
    """Adopts the process with the id that the copy reported. Raises `SandboxUnavailable`."""
    give_up: Callable[[int], None]
    """Kills the process with the id that the original reported for the copy, if it was not adopted."""


def file_with(content: bytes) -> int:
    """Return a descriptor from which a guest reads this content as a file, which nothing can change.

    What a guest would write there no file system bounds, and without a control group nothing counts it.
    """
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def two_pipes() -> tuple[int, int, int, int]:
    """Return two pipes, each as its read end and its write end. Raises `OSError`."""
    first = os.pipe()
    try:
        return (*first, *os.pipe())
    except BaseException:
        for descriptor in first:
            os.close(descriptor)
        raise
