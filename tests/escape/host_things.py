"""Things of this host that a guest must not reach, all of them really there while attempts are made."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

# In two pieces: a program that looks for it must not find it in its own source.
CANARY = "canary-" + "5f0e9a"
SECRET = "secret of the host"
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")


@contextlib.contextmanager
def host_things(folder: Path) -> Iterator[dict[str, Any]]:
    """Make them, in a folder that is empty, and return what programs know them by."""
    secret = folder / "secret.txt"
    secret.write_text(SECRET)
    with (
        mock.patch.dict(os.environ, {"ACTBOX_TEST_CANARY": CANARY}),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("0.0.0.0", 0)) as everywhere,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        _shared_memory_and_semaphores() as memory_key,
        _short_folder(folder) as short,
    ):
        name = f"actbox-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        named.bind(str(short / "socket"))
        named.listen()
        datagrams.bind(("127.0.0.1", 0))
        yield {
            "host_file": str(secret),
            "host_folder": str(folder),
            "host_secret": SECRET,
            "host_socket": str(short / "socket"),
            "checkout": str(Path(__file__).parents[1]),
            "host_pid": os.getpid(),
            "host_command": Path("/proc/self/cmdline").read_bytes(),
            "host_group": os.getpgrp(),
            "host_namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES},
            "memory_key": memory_key,
            "host_port": server.getsockname()[1],
            "host_udp_port": datagrams.getsockname()[1],
            "open_port": everywhere.getsockname()[1],
            "host_address": _own_address(),
            "host_name": socket.gethostname(),
            "abstract": name,
            "canary": CANARY,
            "canary_backwards": f"ACTBOX_TEST_CANARY={CANARY}"[::-1],
        }


@contextlib.contextmanager
def _short_folder(folder: Path) -> Iterator[Path]:
    """Give a folder with room for a socket's name in its path, which the kernel bounds: this one where it will do."""
    if len(os.fsencode(folder)) < 90:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="actbox-escape-", dir="/tmp") as made:
        yield Path(made)


def _own_address() -> str:
    """Return the address by which this host would be known to others, its loopback's where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@contextlib.contextmanager
def _shared_memory_and_semaphores() -> Iterator[int]:
    """Make a segment of System V memory and a set of semaphores on this host, and give the key of both."""
    libc = ctypes.CDLL(None, use_errno=True)
    key, create, remove = 0x61620000 | os.getpid() & 0xFFFF, 0o1600, 0
    segment = libc.shmget(key, ctypes.c_size_t(4096), create)
    semaphores = libc.semget(key, 1, create)
    if segment < 0 or semaphores < 0:
        raise OSError(ctypes.get_errno(), "System V memory and semaphores cannot be made")
    try:
        yield key
    finally:
        libc.shmctl(segment, remove, None)
        libc.semctl(semaphores, 0, remove)
