"""What a run gets beside its workspace and mounts: sockets for the host to answer on, and small files of its own.

A socket belongs to the network namespace that it was made in, whoever holds it. So pid 1 listens in here, on the
sandbox's own loopback, and hands the listening sockets to the host: whoever connects to one of them in the sandbox
talks to the host's proxy, and there is no other way out. A socket for datagrams goes the same way, on which the host
answers when a program asks for a name.
"""

from __future__ import annotations

import os
import socket

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List

FOLDERS = ("/etc/actbox", "/run/secrets")
"""Where files of a run may lie; the template has these folders, empty."""

_IN_PLACE_OF = {"/etc/actbox/%s" % name: "/etc/%s" % name for name in ("hosts", "resolv.conf", "nsswitch.conf")}
"""Files of a run that take the place of the template's."""

_BACKLOG = 128
_SIZE = "size=8m,nr_inodes=256,mode=0755"
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
_READ_BYTES = 1 << 20


def listen(places: List[Dict[str, Any]]) -> List[int]:
    """Listen on the sandbox's own loopback; return the sockets' descriptors.

    Of each place the `port` is said, and whether `datagrams` come to it; else it takes connections.
    """
    made: List[int] = []
    for place in places:
        kind = socket.SOCK_DGRAM if place["datagrams"] else socket.SOCK_STREAM
        sock = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", place["port"]))
        if kind == socket.SOCK_STREAM:
            sock.listen(_BACKLOG)
        made.append(sock.detach())
    return made


def place_files(files: List[Dict[str, Any]], contents: List[int]) -> None:
    """Place files, each with a `path` below one of `FOLDERS` and a `mode`, read-only; the contents are descriptors."""
    placed = {file["path"]: (file["mode"], content) for file, content in zip(files, contents)}  # noqa: B905
    for folder in FOLDERS:
        paths = [path for path in placed if os.path.dirname(path) == folder]
        if not paths:
            continue
        linux.mount("tmpfs", folder, "tmpfs", _FLAGS, _SIZE)
        for path in paths:
            _write(path, *placed.pop(path))
        linux.mount("tmpfs", folder, "tmpfs", _FLAGS | linux.MS_REMOUNT | linux.MS_RDONLY, _SIZE)
    if placed:
        raise ValueError("no file can be placed at %s" % ", ".join(sorted(placed)))
    for file in files:
        if file["path"] in _IN_PLACE_OF:
            linux.mount(file["path"], _IN_PLACE_OF[file["path"]], None, linux.MS_BIND, None)


def _write(path: str, mode: int, content: int) -> None:
    with open(path, "xb") as file:
        # From the beginning and without moving there: other runs read the same descriptor.
        while piece := os.pread(content, _READ_BYTES, file.tell()):
            file.write(piece)
    os.chmod(path, mode)
