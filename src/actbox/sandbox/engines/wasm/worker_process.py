"""The worker process: runs WebAssembly instances, one after the other.

It imports nothing of the package. The host may kill it at any time, which is how it ends a program that does not end by
itself. The worker reads orders from standard input, as one line of JSON each, and sends frames to standard output: a
kind (one byte), a length (four bytes, big-endian) and the content. An instance prints to the descriptors 1 and 2 of
this process. Both are pipes to a thread here, which makes frames of the data.

| order | the worker |
|---|---|
| `compile` | compiles the guest's modules and sends them as `m`, then `e` |
| `open` | makes an instance, which sends `w` when it waits for its first order |
| `go` | lets the instance read the next order from its inbox |
| `drop` | ends an instance that has not begun, then sends `d` |

| frame | meaning |
|---|---|
| `m` | a part of the instance's messages |
| `1`, `2` | a part of what it printed to that descriptor |
| `w` | the instance waits for its first order |
| `g` | the instance is about to read the order that `go` allowed |
| `r` | the instance has done an order and waits for the next; JSON with the processor time |
| `e` | the instance has ended; JSON with the processor time and any failure |
| `d` | the instance was dropped |
| `t` | the processor time used so far, in seconds |

All messages and output of a program come before the `r` or `e` that ends it.
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
# The paths in an instance of the directories with the guest's modules and with its inbox.
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
# Compiles the guest's modules inside an instance: only that interpreter can make its bytecode.
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
_TREE_REMOVAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree_removal.py")
# The system's list of this process's open files: each entry leads to the open directory itself, even if it was moved.
_DESCRIPTORS = "/proc/self/fd"
# The number of files that the library may open for itself while a program runs.
_OWN_FILES = 16
_MOST_WORDS = 2_000
_READ_BYTES = 256 * 1024

_Say = Callable[[bytes, bytes], None]


class _Printed:
    """Replaces a descriptor, and makes frames of the data printed there."""

    _flushing = threading.Lock()

    def __init__(self, descriptor: int, say: _Say) -> None:
        self._descriptor = descriptor
        self._say = say
        # The end of one program's output is marked with these bytes, which programs cannot guess.
        self._mark = secrets.token_bytes(16)
        self._marks = threading.Semaphore(0)
        self._written = self._found = 0
        """How many marks `flush` has begun to write, and how many were found in the output."""
        reading, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        threading.Thread(target=self._relay, args=(reading,), name="printed", daemon=True).start()

    @staticmethod
    def flush(all_printed: list[_Printed]) -> None:
        """Return when everything printed so far has been sent."""
        with _Printed._flushing:
            for printed in all_printed:
                printed._written += 1
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
                self._found += 1
                self._marks.release()
            # Only part of a mark may have come. If none is being written, bytes that look like one are the program's,
            # which may never print more.
            is_expected = self._written > self._found
            lengths = range(len(mark) - 1, 0, -1) if is_expected else ()
            kept = next((n for n in lengths if held.endswith(mark[:n])), 0)
            if len(held) > kept:
                self._say(kind, held[: len(held) - kept])
                held = held[len(held) - kept :]


class _OtherFolder(Exception):
    """Raised if the directory at a path is not the intended one."""


class _Folders:
    """The directories of an instance, opened here, so that no path is looked up again after it was checked."""

    def __init__(self, volumes: list[tuple[str, str, bool, list[int]]]) -> None:
        self.given: list[tuple[str, str, bool]] = []
        self._descriptors: list[int] = []
        for path, inside, read_only, identity in volumes:
            self.given.append((self._open(path, identity), inside, read_only))

    def close(self) -> None:
        """Close the directories: the library has opened each itself."""
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
    """One instance, used for one program or one session."""

    def __init__(self, order: dict[str, Any], say: _Say, printed: list[_Printed], on_ready: Callable[[], None]) -> None:
        self._order = order
        self._say = say
        self._printed = printed
        self._on_ready = on_ready
        self._go = threading.Event()
        self._dropped = self._last = self._reported = False
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
        """Return when the instance has ended."""
        self._thread.join()

    def drop(self) -> None:
        """End an instance that has not started a program."""
        self._dropped = True
        self._go.set()
        self.wait()

    def cpu_seconds(self) -> float:
        """Return the processor time, in seconds, that its programs have used."""
        since = self._running_since
        return self._cpu_before + (0.0 if since is None else time.process_time() - since)

    def _run(self) -> None:
        report: dict[str, Any] = {}
        try:
            self._folders = _Folders(self._order["volumes"])
            result = eryx.Sandbox(
                resource_limits=eryx.ResourceLimits(
                    execution_timeout_ms=None,  # the host kills this process instead
                    callback_timeout_ms=None,
                    max_callback_invocations=None,
                    max_memory_bytes=self._order["memory_bytes"],
                    max_vfs_bytes=1,  # the library's own in-memory files are not used: there are /tmp and /workspace
                ),
                callbacks=[{"name": "next_order", "fn": self._wait_for_order}],
                volumes=self._folders.given,
                on_stdout=self._relay,
            ).execute(_SERVE)
            self._wait_until_relayed(result.result if isinstance(result.result, int) else 0)
            report["peak_bytes"] = result.peak_memory_bytes or 0
        except _OtherFolder as error:
            report["replaced"] = str(error)
        except Exception as error:  # any error of the library, or one that the program caused
            report["failure"] = str(error)[:_MOST_WORDS]
        self._let_go()
        if not self._begun and not self._dropped:  # it failed to start: report that when the host says `go`
            self._say(b"w", b"")
            self._go.wait()
        if not (self._dropped or self._reported):
            self._stand_still()
            self._say(b"e", self._used(**report))

    def _relay(self, data: bytes) -> None:
        with self._relaying:
            if self._reported:  # a program may write messages of its own; the host would take them for the next one's
                return
            _Printed.flush(self._printed)  # output printed before a call is sent before it
            self._say(b"m", data)
        with self._relayed:
            self._sent += len(data)
            self._relayed.notify_all()

    def _wait_until_relayed(self, sent: int) -> None:
        """Wait until `sent` bytes from the instance have arrived; the library delivers them in another thread."""
        with self._relayed:
            self._relayed.wait_for(lambda: self._sent >= sent)

    def _wait_for_order(self, sent: int) -> None:
        if self._begun:
            self._wait_until_relayed(sent)  # also sends all output: an order's last data is a message
            self._count_time()
            if self._last:  # sent before the instance is freed, which takes as long as a short program
                self._end_relay()
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

    def _used(self, **report: Any) -> bytes:
        return json.dumps({"cpu_ms": self._cpu_before * 1000, **report}).encode()

    def _count_time(self) -> None:
        self._cpu_before = self.cpu_seconds()
        self._running_since = None

    def _stand_still(self) -> None:
        self._count_time()
        _Printed.flush(self._printed)
        self._end_relay()

    def _end_relay(self) -> None:
        """Wait for a message that is being sent, which the program's own count may omit, and send no further one."""
        with self._relaying:
            self._reported = True


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
        """Carry out an order."""
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
        """Limit the number of files that the ready instance may open."""
        _limit("RLIMIT_NOFILE", _count_open_files() + self._open_files + _OWN_FILES)

    def _compile(self, order: dict[str, Any]) -> None:
        """Send the compiled modules of a directory, in the order in which they import each other."""
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
        """Report regularly, while a program runs, how much processor time it has used."""
        while self._running.wait():
            time.sleep(_TICK_SECONDS)
            instance = self._instance
            if self._running.is_set() and instance is not None:
                self._say(b"t", json.dumps(instance.cpu_seconds()).encode())


def _limit(name: str, most: int | None) -> None:
    """Set a resource limit of this process, at most its hard limit, if the system has such limits."""
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
    except OSError:  # Windows has neither this directory nor the limit
        return 0


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> None:
    """Carry out orders until standard input ends, also because the host was killed."""
    worker = _Worker()
    with open(0, "rb", closefd=False) as orders:
        for line in orders:
            worker.obey(json.loads(line))
    _limit("RLIMIT_NOFILE", None)
    folder = os.environ["TMPDIR"]  # the host's temporary directory, which the host can no longer remove
    os.chdir(os.path.dirname(folder))
    os.execv(sys.executable, [sys.executable, "-I", _TREE_REMOVAL, folder])


if __name__ == "__main__":
    main()
