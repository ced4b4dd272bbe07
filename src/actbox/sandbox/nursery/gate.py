"""The network of a run: listening sockets that the host answers on, and small files for the run.

A socket belongs to the network namespace in which it was made, whichever process holds it. So pid 1 listens on the
sandbox's own loopback and hands the listening sockets to the host: a program that connects to one of them talks to the
host's proxy, and there is no other way out. A datagram socket is handed over the same way, for name queries.
"""

from __future__ import annotations

import os
import socket

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List

FOLDERS = ("/etc/actbox", "/run/secrets")
"""The directories in which files of a run may lie; the template has them, empty."""

_IN_PLACE_OF = {"/etc/actbox/%s" % name: "/etc/%s" % name for name in ("hosts", "resolv.conf", "nsswitch.conf")}
"""The files of a run that replace files of the template."""

_BACKLOG = 128
_SIZE = "size=8m,nr_inodes=256,mode=0755"
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
_READ_BYTES = 1 << 20


def listen(places: List[Dict[str, Any]]) -> List[int]:
    """Listen on the sandbox's own loopback; return the sockets' descriptors.

    Each place has a `port`, and `datagrams`, true for a datagram socket and false for one that accepts connections.
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
    """Write read-only files from descriptors; each has a `path` below one of `FOLDERS` and a `mode`."""
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
        # With `pread`, which does not move the descriptor's position: other runs read the same descriptor.
        while piece := os.pread(content, _READ_BYTES, file.tell()):
            file.write(piece)
    os.chmod(path, mode)
