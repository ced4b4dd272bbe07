"""The host's handle on one worker process (`inside.py`): orders go in, what its instance says comes out."""

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
from actbox.sandbox.not_installed import NotInstalled

from .removing import remove_tree

_INSIDE: Final = Path(__file__).with_name("inside.py")
_HEADER: Final = struct.Struct("!cI")
_READ_BYTES: Final = 256 * 1024
_MIB: Final = 2**20
_OUTPUTS: Final[Mapping[bytes, Literal["stdout", "stderr"]]] = {b"1": "stdout", b"2": "stderr"}
# What Windows cannot start a process without.
_KEPT_VARIABLES: Final = ("SYSTEMROOT",)

ADVICE: Final = "pip install 'actbox[wasm]'"
ENGINE_MISSING: Final = "the wasm engine needs pyeryx, which is not installed"


class Listener(Protocol):
    """Who hears what a worker's instance says, from the worker's threads."""

    def on_begin(self) -> None:
        """The instance is about to begin with what it was given to do."""

    def on_message(self, data: bytes) -> None:
        """A part of the stream of messages that the instance sends."""

    def on_output(self, name: Literal["stdout", "stderr"], data: bytes) -> None:
        """A part of what it printed."""

    def on_tick(self, cpu_seconds: float) -> None:
        """Called now and then, with how much processor time its programs have used."""

    def on_end(self, told: Mapping[str, Any], is_over: bool) -> None:
        """The program has ended, and all that it sent and printed was heard; the instance too, if `is_over`."""

    def on_lost(self, exit_code: int, has_begun: bool) -> None:
        """The worker is no more; whether the instance may have begun with what it was to do."""


class Volume(NamedTuple):
    """A folder of the host that an instance is given: this very one, whatever comes to lie in its place."""

    path: str
    inside: str
    """Where it lies for the instance."""
    read_only: bool
    identity: tuple[int, int]
    """The device and the inode."""

    @classmethod
    def of(cls, path: str, inside: str, *, read_only: bool = False) -> Self:
        """Return the one that lies at a path now. Raises `OSError`."""
        status = os.stat(path, follow_symlinks=False)
        return cls(path, inside, read_only, (status.st_dev, status.st_ino))


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What an instance is made for."""

    folder: str
    """Of the workspace."""
    volumes: tuple[Volume, ...]
    """What it sees of the host."""
    memory_mib: int
    file_mib: int
    open_files: int

    def key(self) -> tuple[object, ...]:
        """Return what is otherwise once another folder lies at one of the paths, which is told when one is made."""
        return (self, *(_lies_at(volume.path) for volume in self.volumes))


class Worker:
    """One process. Its methods may be called from any thread, one at a time."""

    def __init__(self, folder: str) -> None:
        """Start it, with `folder` for what it writes to disk, in which `guest` is. Raises `SandboxUnavailable`."""
        self._folder = folder
        self._box = ""
        self._inbox = -1
        self.key: tuple[object, ...] | None = None
        """Of the design of the instance that waits for its first order, if one does."""
        self._design: Design | None = None
        self._opened = self._waiting = 0
        """How many instances it was to make, and how many have said that they wait for their first order."""
        self.preparing = threading.Lock()
        """Whoever has it makes an instance here."""
        self._listener: Listener | None = None
        self._has_begun = False
        self._exit_code: int | None = None
        self.is_ended = False
        """Whether this process has ended it."""
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
        command = [sys.executable, "-I", "-X", "utf8", str(_INSIDE), str(Path(spec.origin).parents[1])]
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
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def process(self) -> int:
        """Its id."""
        return self._process.pid

    def sees(self, folder: str) -> bool:
        """Whether an instance waits that was made for this workspace folder."""
        return self._design is not None and self._design.folder == folder

    @property
    def tmp_folder(self) -> str:
        """What its instance sees as `/tmp`."""
        return f"{self._box}/tmp"

    def stand_still(self, seconds: float) -> None:
        """Let nothing of it run for so long, where the system can do that. Blocks for as long."""
        if hasattr(signal, "SIGSTOP"):
            self._process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            self._process.send_signal(signal.SIGCONT)

    @property
    def ready(self) -> bool:
        """Whether an instance waits for its first order."""
        return self.key is not None and self._waiting == self._opened

    def compile(self, folder: Path, names: Sequence[str]) -> bytes:
        """Return the compiled form of modules in a folder. Raises `SandboxUnavailable`."""
        self._compiled = bytearray()
        self._order({"op": "compile", "folder": str(folder), "names": names})
        self._heard.wait()
        compiled, self._compiled = bytes(self._compiled), None
        if not compiled or not self.alive:
            self.end()
            raise SandboxUnavailable("the interpreter that pyeryx brings does not start on this machine")
        return compiled

    def open(self, design: Design) -> None:
        """Make an instance in place of one that waits, if one does. Raises `OSError`."""
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
        """Let the instance do what the frame `order` says, the `last` maybe; `listener` hears all until it is done."""
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
        """Have the instance do a last order; return whether it has ended after so many seconds."""
        last = _Last()
        self.begin(last, order)
        last.heard.wait(seconds)
        return last.is_over

    def post(self, frame: bytes) -> None:
        """Put a frame into the inbox. One for an instance that is gone is lost."""
        view = memoryview(frame)
        while view and self._inbox >= 0:
            view = view[os.write(self._inbox, view) :]

    def drop(self) -> None:
        """End an instance that waits for its first order, if one does, and remove what was made for the last."""
        if self.key is not None:
            self.key = self._design = None
            self._dropped.clear()
            if self.alive:
                self._order({"op": "drop"})
                self._dropped.wait()  # else a system might not let its folders be removed
        if self._inbox >= 0:
            os.close(self._inbox)
            self._inbox = -1
        if self._box:
            with contextlib.suppress(OSError):  # what stays goes with the folder of all workers
                remove_tree(self._box)
            self._box = ""

    def end(self) -> None:
        """End the process; when this returns nothing of it runs. Blocks for some milliseconds."""
        self.is_ended = True
        self._process.kill()
        self._process.wait()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with contextlib.suppress(OSError):  # what it had not read yet
            assert self._process.stdin is not None
            self._process.stdin.close()
        self.key = None
        self.drop()

    # Inside

    def _order(self, order: Mapping[str, Any]) -> None:
        self._write(json.dumps(order).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone, which is heard elsewhere
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _hear(self) -> None:
        """Take in frames until the worker has gone."""
        assert self._process.stdout is not None
        try:
            with self._process.stdout as frames:
                while self._hear_one(frames):
                    pass
        finally:
            self._process.kill()  # one that speaks nonsense; any other has gone already
            exit_code = self._process.wait()
            self._heard.set()
            self._dropped.set()
            with self._lock:
                self._exit_code = exit_code
            listener = self._listener_at_the_end()
            if listener is not None:
                listener.on_lost(exit_code, self._has_begun)

    def _hear_one(self, frames: Any) -> bool:
        """Take in one frame; return whether there was one."""
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
    """Hears nothing but that an instance has ended."""

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

    def on_end(self, told: Mapping[str, Any], is_over: bool) -> None:
        self.is_over = is_over
        self.heard.set()

    def on_lost(self, exit_code: int, has_begun: bool) -> None:
        self.heard.set()
