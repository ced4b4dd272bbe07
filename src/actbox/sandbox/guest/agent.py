"""The agent: one process that runs guests elsewhere, started by any means to start one (`podman exec`, `ssh`).

It needs nothing installed. The host sends the guest's code over standard input (`agent_boot.py`), then speaks frames
(`frames.py`). It opens guests, which the zygote forks, and the agent carries their input and output (`agent_run.py`),
unless they use descriptors lent by the host (`agent_lent.py`). It also requests files, which threads of the agent read
and write. When the host disconnects, everything that the agent made ends.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections import deque

from . import descendants, frames, zygote
from .agent_files import FileService
from .agent_lent import LentRun
from .agent_run import Run
from .beneath import empty, opened_folder
from .prctl import become_subreaper, set_dumpable, set_name
from .signals import reset_signals
from .tree import Tree

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Tuple, Union

_READ_BYTES = 256 * 1024
# The most bytes that may wait to be written to the host; beyond it nothing more is read from guests.
_MOST_UNSENT = 512 * 1024
# The number of guests that wait for a program; taken ones are replaced when the agent is idle.
_READY = 2
_REFILL_MS = 10
_LATER_MS = 5
_PATIENCE_SECONDS = 1.0
_SHARED = ("/tmp", "/dev/shm", "/dev/mqueue")


def main(config: Dict[str, Any], descriptor: int) -> NoReturn:
    """Serve the host, over standard input and output or a socket, until it disconnects."""
    reset_signals()
    set_dumpable(False)  # otherwise programs, which have the same user, could read its memory
    set_name("actbox-agent")
    become_subreaper()
    if config["alone"]:
        _end_all_others()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # only the end of standard input ends the agent
        signal.signal(number, signal.SIG_IGN)
    sys.path[:0] = config["paths"]
    variables = dict(os.environ) if config["keep_variables"] else {}
    variables.update(config["variables"])
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        zygote.serve(theirs, config["preload"], variables, bytes.fromhex(config["filter"]))
    theirs.close()
    workspace = config["workspace"] or _temporary_folder()
    for name in ("input", "output"):
        with contextlib.suppress(FileExistsError):
            os.mkdir("%s/%s" % (workspace, name), 0o755)
    words = b""
    while not words.endswith(b"\n\n"):
        piece = ours.recv(65536)
        if not piece:
            sys.exit("the process that guests are forked from has ended")
        words += piece
        if words == b"\n":
            break
    reading, writing = (descriptor, os.dup(descriptor)) if descriptor else (0, 1)
    agent = Agent(reading, writing, ours, child, workspace, alone=config["alone"], is_ours=not config["workspace"])
    agent.is_lent = config["lends"]
    agent.hello(words.decode("utf-8", "replace").split("\n"))
    agent.serve()


def _end_all_below() -> None:
    """Wait until all descendants of this process have ended by themselves; after a while kill them."""
    patient_until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        if time.monotonic() > patient_until:
            descendants.end_below(os.getpid())
        time.sleep(0.005)


def _temporary_folder() -> str:
    import tempfile  # importing it takes a good part of an agent's start, and containers have a directory already

    return tempfile.mkdtemp(prefix="actbox-")


def _end_all_others() -> None:
    """Kill everything that an earlier agent left: this is the only agent here, and all processes are its user's."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


class Agent:
    """Carries bytes between the host and guests."""

    def __init__(
        self,
        reading: int,
        writing: int,
        to_zygote: socket.socket,
        child: int,
        workspace: str,
        alone: bool,
        is_ours: bool,
    ) -> None:
        """`reading` and `writing` are descriptors to the host; they must differ.

        `child` is the zygote; `alone` is as in `AgentConfig`; a workspace that `is_ours` is removed at the end.
        """
        self._reading = reading
        self._writing = writing
        self._zygote = to_zygote
        self._child = child
        self._alone = alone
        self._is_ours = is_ours
        self._workspace = workspace
        self._parser = frames.FrameParser()
        self._unsent: Deque[memoryview] = deque()
        self.unsent_bytes = 0
        self._socket: Optional[socket.socket] = None
        self._descriptors = array.array("i")
        """Descriptors received with frames that are not complete yet."""
        self._runs: Dict[int, Union[Run, LentRun]] = {}
        self._ready: Deque[Run] = deque()
        self._lent: Dict[int, LentRun] = {}
        """Guests with lent descriptors that wait for a program, by stream number."""
        self.is_lent = False
        """True if the host lends descriptors, over a socket; then the host decides which guests are made ahead."""
        self._poll = select.poll()
        self._known: Dict[int, Tuple[int, Callable[[int], None]]] = {}
        self._soon: Deque[Callable[[], None]] = deque()
        self._later: Deque[Tuple[float, Callable[[], None]]] = deque()
        self._is_refill_due = True
        self._tree = Tree.at(workspace)
        self._files = FileService(self._tree, self.wake)
        self._woken, self._wake = os.pipe()
        for descriptor in (reading, writing, self._woken, self._wake):
            os.set_blocking(descriptor, False)
        self.watch(reading, select.POLLIN, lambda events: self._receive())
        self.watch(self._woken, select.POLLIN, lambda events: self._take_from_files())
        self.watch(self._zygote.fileno(), select.POLLIN, lambda events: self._lose_zygote())

    def hello(self, warnings: List[str]) -> None:
        """Tell the host that the agent is ready, and describe it."""
        self.send(
            frames.pack_json(
                frames.HELLO,
                0,
                {
                    "python": list(sys.version_info[:3]),
                    "executable": sys.executable,
                    "platform": sys.platform,
                    "workspace": self._workspace,
                    "pid": os.getpid(),
                    "warnings": [line[:1000] for line in warnings if line][:50],
                },
            )
        )

    def serve(self) -> NoReturn:
        """Carry data and serve requests until the host disconnects."""
        self._refill()
        self._flush()
        while True:
            wait = _REFILL_MS if self._is_refill_due else None
            wait = _LATER_MS if self._later else wait
            events = self._poll.poll(0 if self._soon else wait)
            if not events and not self._soon and not self._later and self._is_refill_due:
                self._refill()
            while self._later and self._later[0][0] <= time.monotonic():
                self._soon.append(self._later.popleft()[1])
            for descriptor, what in events:
                known = self._known.get(descriptor)
                if known is not None:
                    known[1](what)
            for _ in range(len(self._soon)):
                self._soon.popleft()()
            self._flush()

    # What runs use

    def watch(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
        """Call a function on these poll events of a descriptor; no events end that."""
        known = self._known.get(descriptor)
        if not events:
            if known is not None:
                del self._known[descriptor]
                self._poll.unregister(descriptor)
        elif known is None or known[0] != events:
            self._known[descriptor] = events, call
            self._poll.register(descriptor, events)

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function in the next turn of the loop."""
        self._soon.append(call)

    def later(self, call: Callable[[], None]) -> None:
        """Call a function in some milliseconds."""
        self._later.append((time.monotonic() + _LATER_MS / 1000, call))

    def send(self, frame: bytes) -> None:
        """Queue a frame for the host."""
        self._unsent.append(memoryview(frame))
        self.unsent_bytes += len(frame)

    @property
    def is_full(self) -> bool:
        """True if so much is queued for the host that nothing more should be read for it now."""
        return self.unsent_bytes >= _MOST_UNSENT

    def over(self, run: Union[Run, LentRun]) -> None:
        """Forget a run that has ended, after its output was sent."""
        self._runs.pop(run.stream, None)
        self._lent.pop(run.stream, None)
        if isinstance(run, Run) and run in self._ready:
            self._ready.remove(run)
        self._is_refill_due = True
        self.release()

    def release(self) -> None:
        """Let held runs begin once nothing of a killed one is left and every guest that waits for a program is up.

        The kernel counts processes by user, so waiting guests take part of what a program may have. They must all be
        there before a program runs, or it could have more than its limit until they are.
        """
        held = [run for run in self._runs.values() if run.held]
        waiting = [guest.keeper for guest in self._ready] + [guest.keeper for guest in self._lent.values()]
        if not held or not all(keeper.is_up for keeper in waiting):
            return
        others = [run for run in self._runs.values() if not run.held]
        if not others:
            self._clear_shared()
        elif all(other.killed for other in others):
            return
        for run in held:
            run.release()

    def wake(self) -> None:
        """Wake the loop to look at the threads' results; may be called from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"x")

    # Guests

    def _make(self) -> Run:
        run, theirs = Run.make(self)
        self._have_made(theirs)
        return run

    def _take_lent(self, stream: int) -> None:
        """Make a guest with the descriptors that came with the frame."""
        taken, self._descriptors = self._descriptors[: frames.LENT], self._descriptors[frames.LENT :]
        self._lent[stream], theirs = LentRun.make(self, stream, taken)
        self._have_made(theirs)

    def _have_made(self, descriptors: List[int]) -> None:
        """Have the zygote make a guest with these descriptors, and close them here."""
        try:
            self._ask_zygote(zygote.MAKE, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _ask_zygote(self, request: bytes, descriptors: Any) -> None:
        try:
            socket.send_fds(self._zygote, [request], descriptors)
        except OSError:
            self._lose_zygote()

    def _refill(self) -> None:
        self._is_refill_due = False
        while len(self._ready) < _READY and not self.is_lent:
            self._ready.append(self._make())

    def _lose_zygote(self) -> None:
        sys.exit("the process that guests are forked from has ended")

    def _open(self, stream: int, request: Dict[str, Any]) -> None:
        if request["lent"]:
            lent = self._lent.pop(stream, None)
            if lent is not None:  # else it ended while it waited, and the host was told
                self._runs[stream] = lent
                lent.begin(request, held=self._alone)
        else:
            run = self._ready.popleft() if self._ready else self._make()
            self._runs[stream] = run
            run.begin(stream, request, held=self._alone)
            if self._alone:
                self._refill()
            else:
                self._is_refill_due = True
        self.release()

    def _clear_shared(self) -> None:
        for folder in _SHARED:
            self._clear(folder)

    def _clear(self, folder: str) -> None:
        with contextlib.suppress(OSError):  # no such directory here, or nothing in it that may be removed
            with opened_folder(folder) as shared:
                empty(shared)

    # The host

    def _receive(self) -> None:
        try:
            data = self._read_lent() if self.is_lent else os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._end()
        for kind, part, stream, payload in self._parser.feed(data):
            self._hear(kind, part, stream, payload)

    def _read_lent(self) -> bytes:
        """Read from the socket, and keep the descriptors that came with the data."""
        if self._socket is None:
            self._socket = socket.socket(fileno=os.dup(self._reading))
        room = socket.CMSG_SPACE(frames.LENT * self._descriptors.itemsize)
        data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        for _, _, content in ancillary:
            self._descriptors.frombytes(content)
        return data

    def _hear(self, kind: int, part: int, stream: int, payload: bytes) -> None:
        if kind == frames.LEND:
            self._take_lent(stream)
        elif kind == frames.OPEN:
            self._open(stream, frames.json_of(payload))
        elif kind == frames.CALL:
            self._files.begin(stream, frames.json_of(payload))
        elif part == frames.CONTENT:
            self._files.hear(kind, stream, payload)
        else:
            run = self._runs.get(stream)
            if run is not None:
                run.hear(kind, part, payload)

    def _take_from_files(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 65536)
        if not self.is_full:
            self._send_of_files()

    def _send_of_files(self) -> None:
        for frame in self._files.taken():
            self.send(frame)

    def _flush(self) -> None:
        was_full = self.is_full
        while self._unsent:
            piece = self._unsent[0]
            try:
                sent = os.write(self._writing, piece)
            except BlockingIOError:
                break
            except OSError:
                self._end()
            self.unsent_bytes -= sent
            if sent < len(piece):
                self._unsent[0] = piece[sent:]
                break
            self._unsent.popleft()
        self.watch(self._writing, select.POLLOUT if self._unsent else 0, lambda events: None)
        if was_full and not self.is_full:
            for run in list(self._runs.values()):
                run.go_on()
            self._send_of_files()
        elif self.is_full:
            for run in list(self._runs.values()):
                run.listen()

    def _end(self) -> NoReturn:
        """End after the host disconnected: keepers and the zygote end their guests as we close their sockets."""
        self._zygote.close()
        for run in [*self._runs.values(), *self._lent.values(), *self._ready]:
            run.keeper.close()
        _end_all_below()
        if self._is_ours:
            with contextlib.suppress(OSError):
                empty(self._tree.top)
                os.rmdir(self._workspace)
        os._exit(0)
