"""How much of the kernel's memory the sockets of a network namespace hold: what was sent and nobody has read.

It belongs to no process's address space, so that counting processes' memory misses it. The kernel tells it to anybody
in the namespace (`sock_diag(7)`): of a local socket what it sent, of an internet socket what waits at either end, both
with the kernel's own overhead.
"""

from __future__ import annotations

import os
import socket
import struct
import time

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Set, Tuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ALL = 0xFFFFFFFF

# struct unix_diag_req and unix_diag_msg; what to show: name, peer, lengths of queues.
_UNIX_REQUEST = struct.Struct("=BBHIIIII")
_UNIX_BYTES = 16
_SHOW = 0x1 | 0x4 | 0x10
_NAME, _PEER, _QUEUES = 0, 2, 4
# struct inet_diag_req_v2 and inet_diag_msg; the extension wanted is INET_DIAG_SKMEMINFO.
_INET_REQUEST = struct.Struct("=BBBBI48s")
_INET_BYTES = 72
_MEMORY = 7
_LISTENING = 10

# No message of a stream takes more than this for each byte that it has.
_LARGEST_OVERHEAD = 1024
# The kernel's own for a socket, also one that waits to be accepted and that no descriptor leads to.
_ONE = 2048
# What a sender may have underway unless it asks for more (net.core.wmem_default), and how many senders that have gone
# may have left something in a queue of datagrams (net.unix.max_dgram_qlen, and one).
_LEFT_BY_ONE, _SENDERS = 212_992, 11

# Asking after thousands of sockets takes tens of milliseconds, which are then a sixth of the time at most.
_REST = 5


class HeldBySockets:
    """Asks again and again what is held in the network namespace in which it is first asked."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        """`read` reads a file of `/proc`, and returns `None` for one that is not there."""
        self._read = read
        self._netlink: socket.socket | None = None
        self._untold: Set[bytes] = set()
        self._last = 0
        self._ask_after = 0.0

    def held(self) -> int:
        """Return how many bytes all sockets hold, including those that no process has open any more.

        Of a kernel built without the part that tells of local sockets, those are missing: see `tells_of_local`.
        """
        began = time.monotonic()
        if began >= self._ask_after:
            self._last = self._ask()
            ended = time.monotonic()
            self._ask_after = ended + _REST * (ended - began)
        return self._last

    def tells_of_local(self) -> bool:
        """Return whether the kernel tells of local sockets; on many it loads a module for that when first asked."""
        nothing = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 0, 0, 0, 0, 0)  # those that are in no state
        return self._told(nothing) is not None

    def close(self) -> None:
        """Ask no more."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def _ask(self) -> int:
        counts = self._counts()
        ours = 1 if self._netlink is not None else 0
        if counts.get("sockets", 1 + ours) <= ours:
            return 0
        held = (counts["sockets"] - ours) * _ONE + self._local()
        for family, suffix in ((socket.AF_INET, ""), (socket.AF_INET6, "6")):
            for name, protocol in (("tcp", socket.IPPROTO_TCP), ("udp", socket.IPPROTO_UDP)):
                # Of these the kernel looks through the tables of all namespaces, which takes it a while.
                if counts.get(name.upper() + suffix, 0):
                    held += self._internet(family, protocol, name + suffix)
        return held

    def _counts(self) -> Dict[str, int]:
        """Return how many sockets there are of each kind, and of all as `sockets`."""
        lines = (self._read("self/net/sockstat") or b"") + (self._read("self/net/sockstat6") or b"")
        words = [line.split() for line in lines.splitlines()]
        return {line[0].decode().rstrip(":"): int(line[2]) for line in words if len(line) > 2}

    def _local(self) -> int:
        request = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL, 0, _SHOW, 0, 0)
        held = 0
        for body in self._told(request) or ():
            kind = body[1]
            attributes = dict(_attributes(body, _UNIX_BYTES))
            unread, sent = struct.unpack("=II", attributes[_QUEUES]) if _QUEUES in attributes else (0, 0)
            if body[2] == _LISTENING:  # then these are how many wait to be accepted, and how many may
                continue
            held += sent
            # What a sender has left behind that has gone is on nobody's account.
            if unread and kind == socket.SOCK_DGRAM and _NAME in attributes:  # the length is that of the first alone
                held += _LEFT_BY_ONE * _SENDERS
            elif unread and attributes.get(_PEER, bytes(4)) == bytes(4):
                held += max(unread, min(unread * _LARGEST_OVERHEAD, _LEFT_BY_ONE))
        return held

    def _internet(self, family: int, protocol: int, table: str) -> int:
        request = _INET_REQUEST.pack(family, protocol, 1 << (_MEMORY - 1), 0, _ALL, b"")
        told = self._told(request)
        if told is None:
            return self._listed(table)
        held = 0
        for body in told:
            memory = dict(_attributes(body, _INET_BYTES)).get(_MEMORY)
            if memory is not None:
                received, _, sending, _, _, queued = struct.unpack_from("=6I", memory)
                held += received + max(sending, queued)
        return held

    def _listed(self, table: str) -> int:
        """Return what is held as `/proc` lists it: of TCP without the kernel's overhead."""
        held = 0
        for line in (self._read("self/net/" + table) or b"").splitlines()[1:]:
            queues = line.split()[4].split(b":")
            held += sum(int(queue, 16) for queue in queues)
        return held

    def _told(self, request: bytes) -> List[bytes] | None:
        """Return what the kernel says of each socket asked for; `None` where it was built to say nothing of them."""
        if request in self._untold:
            return None
        try:
            return list(self._dump(request))
        except OSError:  # not asked again: it would look for a module each time
            self._untold.add(request)
            self.close()  # there may be more of an answer underway
            return None

    def _dump(self, request: bytes) -> Iterator[bytes]:
        """Yield what the kernel says of each socket asked for. Raises `OSError` if it does not say."""
        if self._netlink is None:
            self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
        self._netlink.send(
            _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + request
        )
        while True:
            data = self._netlink.recv(2**16)
            for kind, body in _messages(data):
                if kind in (_ERROR, _DONE):
                    (code,) = struct.unpack_from("=i", body) if len(body) >= 4 else (0,)
                    if code < 0:
                        raise OSError(-code, os.strerror(-code))
                    return
                yield body


def _messages(data: bytes) -> List[Tuple[int, bytes]]:
    found = []
    place = 0
    while place + _HEADER.size <= len(data):
        length, kind = _HEADER.unpack_from(data, place)[:2]
        found.append((kind, data[place + _HEADER.size : place + length]))
        place += (length + 3) & ~3
    return found


def _attributes(body: bytes, place: int) -> Iterator[Tuple[int, bytes]]:
    while place + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, place)
        yield kind, body[place + _ATTRIBUTE.size : place + length]
        place += (length + 3) & ~3
