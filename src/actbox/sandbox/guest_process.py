"""A guest that has been started, as an engine gives it to whoever runs programs in it."""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actbox.core.errors import Unsupported
from actbox.core.events import NetworkRequest

from .ending import Ending, Stop
from .overlays import OverlayChanges
from .storage import Storage

# So many requests that a session made between two programs are kept for the next one to tell of.
_MOST_UNTOLD = 1000


class GuestProcess(ABC):
    """A guest that has been started. The run closes the descriptors; the engine does everything else."""

    sock: socket.socket | None
    """The host's end of the channel, or `None` once it is closed."""
    stdout: int
    stderr: int
    grace_seconds: float = 0.5
    """How long it may live on once its result is in, before it is ended."""
    stdin: int = -1
    """What goes to the guest with the first message, to be its standard input; -1 where it has one already."""
    stopped: Stop | None = None
    """Set by the engine before it ends a guest for a reason of its own, such as the sandbox's `stop()`."""
    on_network: Callable[[NetworkRequest], None] | None = None
    """Set by the run that goes on now, if any: called in its event loop with each request that was decided on."""
    _untold: deque[NetworkRequest] | None = None
    explain: Callable[[Ending, str], Ending] | None = None
    """Set by the engine where how a guest ended says more together with what it has said on standard error."""
    overlays: OverlayChanges | None = None
    """Overlay mounts whose changes are part of a result; `None` where there are none."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether nothing of its process tree is left."""

    @abstractmethod
    def when_ended(self, call: Callable[[Ending], None]) -> None:
        """Call a function in this event loop, with how the guest ended, once nothing of its process tree is left."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ask the guest's first process to stop what it does (`SIGINT`); also when it has ended already."""

    @abstractmethod
    def kill(self) -> None:
        """End the guest's whole process tree, at once; also when it has ended already."""

    def end_first(self) -> None:
        """End the guest's first process; if it had just ended by itself, how it did is still told."""
        self.kill()

    def dismiss(self, used_ms: float) -> bool:
        """End a guest that has said that it is done and alone; return whether its end need not be waited for.

        `used_ms` is what it says it has used of the processors.
        """
        return False

    def limit_reached(self) -> str:
        """Return the limit, if any, for which an enforcer outside it has ended or refused processes of its."""
        return ""

    def hear_network(self, call: Callable[[NetworkRequest], None] | None) -> None:
        """Have a run told of requests from now on, and of those that were made while there was none."""
        self.on_network = call
        if call is not None and self._untold:
            untold, self._untold = self._untold, None
            for request in untold:
                call(request)

    def tell_network(self, request: NetworkRequest) -> None:
        """Tell the run that goes on now of a request, else the next one."""
        if self.on_network is not None:
            self.on_network(request)
            return
        if self._untold is None:
            self._untold = deque(maxlen=_MOST_UNTOLD)
        self._untold.append(request)

    async def close_network(self) -> None:
        """End the connections of a guest that has ended or is about to; returns when each has been told of."""
        return

    async def see_inputs_anew(self) -> None:
        """Have a guest that runs several programs see what lies below `/input` by now. Raises `SandboxUnavailable`."""
        return

    async def prepare_fork(self) -> Fork:
        """Make ready what a copy of this guest needs. Raises `CannotFork` and `SandboxUnavailable`."""
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
        """End a guest that no run has taken over, and close its descriptors."""
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
            self.sock.close()
        self.let_go_of_overlays()

    def let_go_of_overlays(self) -> None:
        """Close what the changes in overlay mounts are read from, once no result wants them any more."""
        if self.overlays is not None:
            self.overlays.close()


@dataclass(frozen=True, slots=True)
class Fork:
    """What an engine has made ready for a copy of a guest."""

    guest: GuestProcess
    """The copy, as soon as it is adopted; until then only to be killed."""
    workspace: Storage
    release: Callable[[], None]
    """Lets go of the workspace, once nothing of the copy is left."""
    descriptors: list[int]
    """What the copy is to be sent: its channel, its output and error, the root of its files. The caller closes them."""
    adopt: Callable[[int], Awaitable[None]]
    """Takes the process of this id, by its own word, for the copy. Raises `SandboxUnavailable`."""
    give_up: Callable[[int], None]
    """Ends the process of this id, by the origin's word the copy, which was not adopted."""


def file_with(content: bytes) -> int:
    """Return a descriptor from which a guest reads this content and then the end of the file."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
