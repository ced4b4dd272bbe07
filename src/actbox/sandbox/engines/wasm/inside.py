"""A worker process: it has WebAssembly instances run, one after the other, and is no more than their keeper.

It imports nothing of the package, and whoever started it may end it at any time, which is how a program is ended that
does not end by itself. Orders come on standard input, a line of JSON each; what it has to say goes to standard output,
in frames of a kind (one byte), a length (four bytes, big-endian) and so much content. An instance prints to the
descriptors 1 and 2 of the process, so these are pipes to a thread here, which makes frames of what comes.

Orders: `open` makes an instance that waits for its first order; `go` lets it read that from its inbox; `drop` ends one
that has not begun. Frames: `m`, a part of what the instance sends; `1` and `2`, a part of what it printed to that
descriptor; `w`, it waits for its first order; `g`, it is about to read the order that `go` was said for; `r`, it has
done an order and waits for the next; `e`, it has ended; `d`, it was dropped; `t`, how much processor time it has used.
What a program sent and printed comes before the `r` or `e` that ends it.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    sys.path += sys.argv[1:]

import eryx

_HEADER = struct.Struct("!cI")
# Where the folder of the guest's modules, and that of the instance's inbox, lie for the instance.
_GUEST, _BOX = "/.actbox/guest", "/.actbox/box"
_SERVE = f"""
import marshal, sys, types
package = types.ModuleType("_actbox")
package.__path__ = []
sys.modules["_actbox"] = package
sys.dont_write_bytecode = True
with open({_GUEST + "/modules"!r}, "rb") as file:
    modules = marshal.load(file)
for name, code in modules:
    module = types.ModuleType("_actbox." + name)
    module.__package__ = "_actbox"
    module.__file__ = code.co_filename
    sys.modules["_actbox." + name] = module
    setattr(package, name, module)
    exec(code, module.__dict__)
result = await package.wasm.serve({_BOX + "/inbox"!r}, lambda sent: invoke("next_order", sent=sent))
"""
# The guest's modules, compiled by the interpreter that is to run them, which nobody else can do.
_COMPILE = """
import _eryx, marshal
modules = []
for name in {names!r}:
    path = {folder!r} + "/" + name + ".py"
    with open(path, "rb") as file:
        modules.append((name, compile(file.read(), path, "exec", dont_inherit=True)))
_eryx._eryx_report_output(0, marshal.dumps(modules))
"""
_TICK_SECONDS = 0.02
_REMOVING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "removing.py")
# Where the system shows what this process has open: each entry leads to the very folder, wherever that lies by now.
_DESCRIPTORS = "/proc/self/fd"
# What the library may open for itself meanwhile.
_OWN_FILES = 16
_MOST_WORDS = 2_000
_READ_BYTES = 256 * 1024

_Say = Callable[[bytes, bytes], None]


class _Printed:
    """Takes the place of a descriptor, and makes frames of what is printed there."""

    def __init__(self, descriptor: int, say: _Say) -> None:
        self._descriptor = descriptor
        self._say = say
        # Stands where what one program printed ends; no program knows it.
        self._mark = secrets.token_bytes(16)
        self._marks = threading.Semaphore(0)
        reading, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        threading.Thread(target=self._relay, args=(reading,), name="printed", daemon=True).start()

    @staticmethod
    def flush(all_printed: list[_Printed]) -> None:
        """Return when all that was printed before is said."""
        for printed in all_printed:
            _write(printed._descriptor, printed._mark)
        for printed in all_printed:
            printed._marks.acquire()

    def _relay(self, reading: int) -> None:
        kind, mark = b"%d" % self._descriptor, self._mark
        held = b""
        while data := os.read(reading, _READ_BYTES):
            held += data
            while (at := held.find(mark)) >= 0:
                if at:
                    self._say(kind, held[:at])
                held = held[at + len(mark) :]
                self._marks.release()
            kept = next((n for n in range(len(mark) - 1, 0, -1) if held.endswith(mark[:n])), 0)
            if len(held) > kept:
                self._say(kind, held[: len(held) - kept])
                held = held[len(held) - kept :]


class _OtherFolder(Exception):
    """Another folder than the one that was meant lies at this path, or none."""


class _Folders:
    """The folders that an instance is given, opened here, so that no path is looked up after it was looked at."""

    def __init__(self, volumes: list[tuple[str, str, bool, list[int]]]) -> None:
        self.given: list[tuple[str, str, bool]] = []
        self._descriptors: list[int] = []
        for path, inside, read_only, identity in volumes:
            self.given.append((self._open(path, identity), inside, read_only))

    def close(self) -> None:
        """Let go of them: the library has opened each for itself."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _open(self, path: str, identity: list[int]) -> str:
        try:
            if os.path.isdir(_DESCRIPTORS) and hasattr(os, "O_DIRECTORY"):
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._descriptors.append(descriptor)
                place, status = f"{_DESCRIPTORS}/{descriptor}", os.fstat(descriptor)
            else:
                place, status = path, os.stat(path)
        except OSError as error:
            self.close()
            raise _OtherFolder(path) from error
        if [status.st_dev, status.st_ino] != identity:
            self.close()
            raise _OtherFolder(path)
        return place


class _Instance:
    """One instance, which is used for one program or one session."""

    def __init__(self, order: dict[str, Any], say: _Say, printed: list[_Printed], on_ready: Callable[[], None]) -> None:
        self._order = order
        self._say = say
        self._printed = printed
        self._on_ready = on_ready
        self._go = threading.Event()
        self._dropped = self._last = self._told = False
        self._begun = False
        self._cpu_before = 0.0
        self._running_since: float | None = None
        self._sent = 0
        self._relayed = threading.Condition()
        self._relaying = threading.Lock()
        self._folders: _Folders | None = None
        self._thread = threading.Thread(target=self._run, name="instance", daemon=True)
        self._thread.start()

    def go(self, *, last: bool) -> None:
        """Let the instance read its next order; after the `last` it ends."""
        self._last = last
        self._go.set()

    def wait(self) -> None:
        """Return when nothing is left of it."""
        self._thread.join()

    def drop(self) -> None:
        """End the instance, which has not begun."""
        self._dropped = True
        self._go.set()
        self.wait()

    def cpu_seconds(self) -> float:
        """Return the processor time that its programs have used."""
        since = self._running_since
        return self._cpu_before + (0.0 if since is None else time.process_time() - since)

    def _run(self) -> None:
        told: dict[str, Any] = {}
        try:
            self._folders = _Folders(self._order["volumes"])
            result = eryx.Sandbox(
                resource_limits=eryx.ResourceLimits(
                    execution_timeout_ms=None,  # whoever started this process ends it
                    callback_timeout_ms=None,
                    max_callback_invocations=None,
                    max_memory_bytes=self._order["memory_bytes"],
                    max_vfs_bytes=1,  # the folder that the library has of its own; there are /tmp and /workspace
                ),
                callbacks=[{"name": "next_order", "fn": self._wait_for_order}],
                volumes=self._folders.given,
                on_stdout=self._relay,
            ).execute(_SERVE)
            self._wait_until_relayed(result.result if isinstance(result.result, int) else 0)
            told["peak_bytes"] = result.peak_memory_bytes or 0
        except _OtherFolder as error:
            told["replaced"] = str(error)
        except Exception as error:  # of the library, and of whatever the program made of it
            told["failure"] = str(error)[:_MOST_WORDS]
        self._let_go()
        if not self._begun and not self._dropped:  # it could not even begin, which is told when it is wanted
            self._say(b"w", b"")
            self._go.wait()
        if not (self._dropped or self._told):
            self._stand_still()
            self._say(b"e", self._used(**told))

    def _relay(self, data: bytes) -> None:
        with self._relaying:
            _Printed.flush(self._printed)  # what was printed before a call is told before it
            self._say(b"m", data)
        with self._relayed:
            self._sent += len(data)
            self._relayed.notify_all()

    def _wait_until_relayed(self, sent: int) -> None:
        """Wait until so much has come of what the instance has sent, which the library hands on by another thread."""
        with self._relayed:
            self._relayed.wait_for(lambda: self._sent >= sent)

    def _wait_for_order(self, sent: int) -> None:
        if self._begun:
            self._wait_until_relayed(sent)  # and with it all that was printed: an order's last word is a message
            self._count_time()
            if self._last:  # said before the instance is taken apart, which takes as long as a short program
                self._told = True
                self._say(b"e", self._used())
                raise eryx.SuspendCallback("over")
            self._say(b"r", self._used())
        else:
            self._let_go()
            self._on_ready()
            self._say(b"w", b"")
        self._go.wait()
        self._go.clear()
        if self._dropped:
            raise eryx.SuspendCallback("dropped")
        self._begun = True
        self._running_since = time.process_time()

    def _let_go(self) -> None:
        if self._folders is not None:
            self._folders.close()

    def _used(self, **told: Any) -> bytes:
        return json.dumps({"cpu_ms": self._cpu_before * 1000, **told}).encode()

    def _count_time(self) -> None:
        self._cpu_before = self.cpu_seconds()
        self._running_since = None

    def _stand_still(self) -> None:
        self._count_time()
        _Printed.flush(self._printed)
        with self._relaying:  # what is under way, more than the program's own count says, is told before its end
            pass


class _Worker:
    def __init__(self) -> None:
        self._out = os.dup(1)
        self._saying = threading.Lock()
        self._printed = [_Printed(descriptor, self._say) for descriptor in (1, 2)]
        self._instance: _Instance | None = None
        self._open_files = 0
        self._running = threading.Event()
        threading.Thread(target=self._tick, name="ticks", daemon=True).start()

    def obey(self, order: dict[str, Any]) -> None:
        """Do what an order says."""
        if order["op"] == "compile":
            self._compile(order)
        elif order["op"] == "open":
            if self._instance is not None:
                self._instance.wait()
            _limit("RLIMIT_NOFILE", None)
            _limit("RLIMIT_FSIZE", order["file_bytes"])
            self._open_files = order["open_files"]
            self._instance = _Instance(order, self._say, self._printed, self._limit_files)
        elif self._instance is not None and order["op"] == "go":
            self._say(b"g", b"")
            self._running.set()
            self._instance.go(last=order["last"])
        elif self._instance is not None:
            self._instance.drop()
            self._instance = None
            self._say(b"d", b"")

    def _limit_files(self) -> None:
        """Let the instance that is ready open no more files than it may."""
        _limit("RLIMIT_NOFILE", _count_open_files() + self._open_files + _OWN_FILES)

    def _compile(self, order: dict[str, Any]) -> None:
        """Send the compiled form of modules in a folder, in the order in which they import each other."""
        volumes = [(order["folder"], _GUEST, True)]
        sandbox = eryx.Sandbox(volumes=volumes, on_stdout=lambda data: self._say(b"m", data))
        sandbox.execute(_COMPILE.format(folder=_GUEST, names=order["names"]))
        self._say(b"e", b"{}")

    def _say(self, kind: bytes, content: bytes) -> None:
        if kind in (b"r", b"e"):
            self._running.clear()
        with self._saying:
            _write(self._out, _HEADER.pack(kind, len(content)) + content)

    def _tick(self) -> None:
        """Say now and then, while a program runs, how much processor time it has used."""
        while self._running.wait():
            time.sleep(_TICK_SECONDS)
            instance = self._instance
            if self._running.is_set() and instance is not None:
                self._say(b"t", json.dumps(instance.cpu_seconds()).encode())


def _limit(name: str, most: int | None) -> None:
    """Set a limit of this process, or as high as it can be, where the system has such limits."""
    try:
        import resource
    except ImportError:
        return
    kind = getattr(resource, name)
    _, hard = resource.getrlimit(kind)
    soft = hard if most is None or (hard != resource.RLIM_INFINITY and most > hard) else most
    resource.setrlimit(kind, (soft, hard))


def _count_open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # Windows has no such folder, and no such limit
        return 0


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> None:
    """Obey until standard input ends, which it does when the host has ended without a word."""
    worker = _Worker()
    with open(0, "rb", closefd=False) as orders:
        for line in orders:
            worker.obey(json.loads(line))
    _limit("RLIMIT_NOFILE", None)
    folder = os.environ["TMPDIR"]  # the host's, of which there is nobody else to remove it
    os.chdir(os.path.dirname(folder))
    os.execv(sys.executable, [sys.executable, "-I", _REMOVING, folder])


if __name__ == "__main__":
    main()
