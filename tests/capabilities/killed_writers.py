"""Writers of a journal that are killed: at the n-th of their writes to disk, or after a time.

The process that runs this module imports what writers need, and forks them. Each line of its input is a trial as JSON,
each line of its output what came of it. It has no threads, and never opens a journal itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import platform
import signal
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from actbox.capabilities.journal import Journal

ACKNOWLEDGED = 200
"""The file descriptor that a writer tells acknowledged entries by."""

# The calls that change what is on disk, by their numbers.
_CALLS = {
    "x86_64": {18: "pwrite64", 74: "fsync", 75: "fdatasync", 77: "ftruncate", 86: "link", 87: "unlink", 1: "write"},
    "aarch64": {68: "pwrite64", 82: "fsync", 83: "fdatasync", 46: "ftruncate", 37: "link", 35: "unlink", 64: "write"},
}
CALLS = _CALLS.get(platform.machine(), {})

_ROOT = Path(__file__).parents[2]
_TRACEME, _CONT, _SETOPTIONS, _SYSCALL_INFO = 0, 7, 0x4200, 0x420E
_TRACECLONE, _TRACESECCOMP, _EXITKILL = 0x8, 0x80, 0x100000
_EVENT_SECCOMP = 7
_SET_SECCOMP, _SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_LOAD, _EQUAL, _RETURN, _ALLOW, _TRACE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FF00000
_WALL = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _Call(ctypes.Structure):
    """The beginning of `struct ptrace_syscall_info`."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("padding", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


class Writers:
    """The process that forks writers, for tests."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.capabilities.killed_writers"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT)

    def run(self, address: str, acknowledged: Path, **trial: Any) -> dict[str, Any]:
        """Run a trial, and return what came of it; `acknowledged` gets the `head` of each acknowledged entry."""
        assert self._process.stdin is not None and self._process.stdout is not None
        said = {"address": address, "acknowledged": str(acknowledged), **trial}
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that forks writers has ended"
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _write(address: str, acknowledged: str, key: str, tasks: int, entries: int) -> None:
    """Append entries from several tasks at once, and tell each as soon as it is acknowledged."""
    os.dup2(os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), ACKNOWLEDGED)
    journal = Journal.open(address, key=key or None)

    async def append() -> None:
        for number in range(entries):
            blobs = {"code": b"print()", "input": os.urandom(200)}
            entry = await journal.append("call", {"number": number, "by": os.getpid()}, blobs=blobs)
            os.write(ACKNOWLEDGED, f"{entry.head}\n".encode())

    async def append_all() -> None:
        await asyncio.gather(*(append() for _ in range(tasks)))

    asyncio.run(append_all())
    journal.close()


def _fork(trial: dict[str, Any], *, traced: bool = False) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        if traced:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            _stop_at_calls()
        _write(*(trial[name] for name in ("address", "acknowledged", "key", "tasks", "entries")))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def kill_after(trial: dict[str, Any]) -> dict[str, Any]:
    """Fork writers, kill all of them after `seconds` (`None`: let them end), and return how they ended."""
    children = [_fork(trial) for _ in range(trial["writers"])]
    if trial["seconds"] is not None:
        time.sleep(trial["seconds"])
        for child in children:
            os.kill(child, signal.SIGKILL)
    return {"ended": [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]}


def kill_at(trial: dict[str, Any]) -> dict[str, Any]:
    """Fork one writer, and kill it before the call number `at` that changes the disk.

    Returns how it `ended`, and the `calls` until then; those that tell an entry are `told`, and are not counted.
    """
    child = _fork(trial, traced=True)
    os.waitpid(child, 0)
    _ptrace(_SETOPTIONS, child, 0, _TRACECLONE | _TRACESECCOMP | _EXITKILL)
    _ptrace(_CONT, child)
    calls: list[str] = []
    count = 0
    while True:
        task, status = os.waitpid(-1, _WALL)
        if not os.WIFSTOPPED(status):
            if task == child:
                return {"ended": os.waitstatus_to_exitcode(status), "calls": calls}
            continue
        stopped = os.WSTOPSIG(status)
        if status >> 8 == signal.SIGTRAP | _EVENT_SECCOMP << 8:
            call = _Call()
            _ptrace(_SYSCALL_INFO, task, ctypes.sizeof(call), ctypes.addressof(call))
            name = CALLS.get(call.number, "")
            if name != "write":
                calls.append(name)
                count += 1
                if count == trial["at"]:
                    os.kill(child, signal.SIGKILL)
                    continue
            elif call.arguments[0] == ACKNOWLEDGED:
                calls.append("told")
        if stopped in (signal.SIGTRAP, signal.SIGSTOP):  # such a call, or a thread that begins
            stopped = 0
        _ptrace(_CONT, task, 0, stopped)


def _stop_at_calls() -> None:
    """Have this process, which is traced, stop at its calls that change the disk, by a seccomp filter."""
    last = len(CALLS)
    code = [(_LOAD, 0, 0, 0)]  # the number of the call
    code += [(_EQUAL, last - place, 0, number) for place, number in enumerate(CALLS)]
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _TRACE)]
    data = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    program = ctypes.create_string_buffer(struct.pack("HP", len(code), ctypes.addressof(data)))
    if _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _libc.prctl(_SET_SECCOMP, _FILTER, program):
        raise OSError(ctypes.get_errno(), "a seccomp filter cannot be set")


def _ptrace(request: int, task: int, address: int = 0, data: int = 0) -> int:
    """Return what ptrace returns, below zero for a task that is gone."""
    return int(_libc.ptrace(request, task, address, data))


if __name__ == "__main__":
    create_engine("sqlite://").connect().close()  # imports what writers need
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(kill_at(given) if "at" in given else kill_after(given)), flush=True)
