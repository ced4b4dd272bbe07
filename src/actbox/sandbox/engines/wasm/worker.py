"""The host's handle on one worker process (`worker_process.py`): sends orders, and receives its instance's output."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.traits import NotInstalled

from .tree_removal import remove_tree

_WORKER_PROCESS: Final = Path(__file__).with_name("worker_process.py")
_HEADER: Final = struct.Struct("!cI")
_READ_BYTES: Final = 256 * 1024
_MIB: Final = 2**20
_OUTPUTS: Final[Mapping[bytes, Literal["stdout", "stderr"]]] = {b"1": "stdout", b"2": "stderr"}
# Variables without which Windows cannot start a process.
_KEPT_VARIABLES: Final = ("SYSTEMROOT",)

ADVICE: Final = "pip install 'actbox[wasm]'"
ENGINE_MISSING: Final = "the wasm engine needs pyeryx, which is not installed"


class Listener(Protocol):
    """The receiver of an instance's output, called in the worker's threads."""

    def on_begin(self) -> None:
        """Handle the start of the requested work."""

    def on_message(self, data: bytes) -> None:
        """Handle a part of the instance's stream of messages."""

    def on_output(self, name: Literal["stdout", "stderr"], data: bytes) -> None:
        """Handle a part of the printed output."""

    def on_tick(self, cpu_seconds: float) -> None:
        """Handle a regular report of the processor time, in seconds, that its programs have used."""

    def on_end(self, report: Mapping[str, Any], is_over: bool) -> None:
        """Handle the end of the program, after all its data; the instance has ended too if `is_over`."""

    def on_lost(self, exit_code: int, has_begun: bool) -> None:
        """Handle the end of the worker; `has_begun` is true if the instance may have started the requested work."""


class Volume(NamedTuple):
    """A directory of the host for an instance, identified so that another one in its place is noticed."""

    path: str
    inside: str
    """Its path in the instance."""
    read_only: bool
    identity: tuple[int, int]
    """The device and the inode."""

    @classmethod
    def of(cls, path: str, inside: str, *, read_only: bool = False) -> Self:
        """Return the directory at a path now. Raises `OSError`."""
        status = os.stat(path, follow_symlinks=False)
        return cls(path, inside, read_only, (status.st_dev, status.st_ino))


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The directories and limits that an instance is made with."""

    folder: str
    """The workspace's directory."""
    volumes: tuple[Volume, ...]
    """The host's directories that it sees."""
    memory_mib: int
    file_mib: int
    open_files: int

    def key(self) -> tuple[object, ...]:
        """Return a key that changes if one of the paths gets another directory."""
        return (self, *(_lies_at(volume.path) for volume in self.volumes))


class Worker:
    """One worker process. Its methods may be called from any thread, one at a time."""

    def __init__(self, folder: str) -> None:
        """Start the process; it writes below `folder`, which contains `guest`. Raises `SandboxUnavailable`."""
        self._folder = folder
        self._box = ""
        self._inbox = -1
        self.key: tuple[object, ...] | None = None
        """The key of the waiting instance's design, if an instance waits."""
        self._design: Design | None = None
        self._opened = self._waiting = 0
        """The numbers of instances requested, and of those that have reported to wait for their first order."""
        self.preparing = threading.Lock()
        """Held while an instance is being made here."""
        self._listener: Listener | None = None
        self._has_begun = False
        self._exit_code: int | None = None
        self.is_ended = False
        """True if this process has killed it."""
        """Set when nothing more is heard of the process."""
        self._compiled: bytearray | None = None
        self._heard = threading.Event()
        self._dropped = threading.Event()
        self._lock = threading.Lock()
        spec = find_spec("eryx")
        if spec is None or spec.origin is None:
            raise NotInstalled(ENGINE_MISSING, ADVICE)
        variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        variables |= {"TMPDIR": folder, "TEMP": folder, "TMP": folder, "ERYX_WARM_INSTANCES": "1"}
        command = [sys.executable, "-I", "-X", "utf8", str(_WORKER_PROCESS), str(Path(spec.origin).parents[1])]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=variables, cwd=folder
            )
        except OSError as error:
            raise SandboxUnavailable(f"no worker process can be started: {error.strerror}") from error
        self._thread = threading.Thread(target=self._hear, name="wasm-worker", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self._process.poll() is None

    @property
    def process(self) -> int:
        """The process id."""
        return self._process.pid

    def sees(self, folder: str) -> bool:
        """Return whether an instance for this workspace directory waits."""
        return self._design is not None and self._design.folder == folder

    @property
    def tmp_folder(self) -> str:
        """The host directory that its instance sees as `/tmp`."""
        return f"{self._box}/tmp"

    def stand_still(self, seconds: float) -> None:
        """Stop the process for this many seconds, if the system can. Blocks for as long."""
        if hasattr(signal, "SIGSTOP"):
            self._process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            self._process.send_signal(signal.SIGCONT)

    @property
    def ready(self) -> bool:
        """True if an instance waits for its first order."""
        return self.key is not None and self._waiting == self._opened

    def compile(self, folder: Path, names: Sequence[str]) -> bytes:
        """Return the compiled modules of a directory. Raises `SandboxUnavailable`."""
        self._compiled = bytearray()
        self._order({"op": "compile", "folder": str(folder), "names": names})
        self._heard.wait()
        compiled, self._compiled = bytes(self._compiled), None
        if not compiled or not self.alive:
            self.end()
            raise SandboxUnavailable("the interpreter that pyeryx brings does not start on this machine")
        return compiled

    def open(self, design: Design) -> None:
        """Make an instance, in place of the waiting one if there is one. Raises `OSError`."""
        self.drop()
        key = design.key()
        self._box = tempfile.mkdtemp(dir=self._folder)
        for name in ("in", "tmp"):
            os.mkdir(f"{self._box}/{name}")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        self._inbox = os.open(f"{self._box}/in/inbox", flags, 0o600)
        volumes = (
            Volume.of(f"{self._folder}/guest", "/.actbox/guest", read_only=True),
            Volume.of(f"{self._box}/in", "/.actbox/box", read_only=True),
            Volume.of(f"{self._box}/tmp", "/tmp"),
            *design.volumes,
        )
        self._order(
            {
                "op": "open",
                "volumes": volumes,
                "memory_bytes": design.memory_mib * _MIB,
                "file_bytes": design.file_mib * _MIB,
                "open_files": design.open_files,
            }
        )
        self._opened += 1
        self.key, self._design = key, design

    def begin(self, listener: Listener, order: bytes, *, last: bool = False) -> None:
        """Have the instance carry out the frame `order`, maybe its `last`; `listener` hears all until it is done."""
        with self._lock:
            self.key = self._design = None
            self._has_begun = False
            exit_code = self._exit_code
            if exit_code is None:
                self._listener = listener
        if exit_code is not None:
            listener.on_lost(exit_code, False)
            return
        self.post(order)
        self._order({"op": "go", "last": last})

    def finish(self, order: bytes, seconds: float) -> bool:
        """Have the instance carry out a last order; return whether it has ended within `seconds`."""
        last = _Last()
        self.begin(last, order)
        last.heard.wait(seconds)
        return last.is_over

    def post(self, frame: bytes) -> None:
        """Add a frame to the inbox; if the instance has ended, the frame is lost."""
        view = memoryview(frame)
        while view and self._inbox >= 0:
            view = view[os.write(self._inbox, view) :]

    def drop(self) -> None:
        """End the instance that waits, if there is one, and remove the files made for the last instance."""
        if self.key is not None:
            self.key = self._design = None
            self._dropped.clear()
            if self.alive:
                self._order({"op": "drop"})
                self._dropped.wait()  # otherwise some systems refuse to remove its directories
        if self._inbox >= 0:
            os.close(self._inbox)
            self._inbox = -1
        if self._box:
            with contextlib.suppress(OSError):  # the rest is removed with the directory of all workers
                remove_tree(self._box)
            self._box = ""

    def end(self) -> None:
        """Kill the process; when this returns nothing of it runs. Blocks for some milliseconds."""
        self.is_ended = True
        self._process.kill()
        self._process.wait()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with contextlib.suppress(OSError):  # orders that it had not read
            assert self._process.stdin is not None
            self._process.stdin.close()
        self.key = None
        self.drop()

    # Inside

    def _order(self, order: Mapping[str, Any]) -> None:
        self._write(json.dumps(order).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which the reading side notices
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _hear(self) -> None:
        """Handle frames until the worker has ended."""
        assert self._process.stdout is not None
        try:
            with self._process.stdout as frames:
                while self._hear_one(frames):
                    pass
        finally:
            self._process.kill()  # it sent nonsense; otherwise it has ended already
            exit_code = self._process.wait()
            self._heard.set()
            self._dropped.set()
            with self._lock:
                self._exit_code = exit_code
            listener = self._listener_at_the_end()
            if listener is not None:
                listener.on_lost(exit_code, self._has_begun)

    def _hear_one(self, frames: Any) -> bool:
        """Handle one frame; return false at the end."""
        header = frames.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return False
        kind, left = _HEADER.unpack(header)
        content = b""
        while left and (part := frames.read1(min(left, _READ_BYTES))):
            left -= len(part)
            if kind == b"m":
                self._on_message(part)
            elif kind in _OUTPUTS:
                self._on_output(_OUTPUTS[kind], part)
            else:
                content += part
        if left:
            return False
        if self._compiled is not None and kind == b"e":
            self._heard.set()
        elif kind in (b"e", b"r"):
            if (listener := self._listener_at_the_end()) is not None:
                listener.on_end(json.loads(content), kind == b"e")
        elif kind == b"w":
            self._waiting += 1
        elif kind == b"g":
            self._has_begun = True
            if (listener := self._listener) is not None:
                listener.on_begin()
        elif kind == b"d":
            self._dropped.set()
        elif kind == b"t" and not self.is_ended and (listener := self._listener) is not None:
            listener.on_tick(float(json.loads(content)))
        return True

    def _on_message(self, part: bytes) -> None:
        if self._compiled is not None:
            self._compiled += part
        elif (listener := self._listener) is not None:
            listener.on_message(part)

    def _on_output(self, name: Literal["stdout", "stderr"], part: bytes) -> None:
        if (listener := self._listener) is not None:
            listener.on_output(name, part)

    def _listener_at_the_end(self) -> Listener | None:
        with self._lock:
            listener, self._listener = self._listener, None
        return listener


def _lies_at(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class _Last:
    """A listener that only waits for the end of an instance."""

    def __init__(self) -> None:
        self.is_over = False
        self.heard = threading.Event()

    def on_begin(self) -> None:
        pass

    def on_message(self, data: bytes) -> None:
        pass

    def on_output(self, name: str, data: bytes) -> None:
        pass

    def on_tick(self, cpu_seconds: float) -> None:
        pass

    def on_end(self, report: Mapping[str, Any], is_over: bool) -> None:
        self.is_over = is_over
        self.heard.set()

    def on_lost(self, exit_code: int, has_begun: bool) -> None:
        self.heard.set()
