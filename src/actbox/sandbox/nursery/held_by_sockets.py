"""Counts the kernel memory in the sockets of a network namespace: data that was sent and not read.

It belongs to no process's address space, so counting processes' memory misses it. The kernel reports it to any process
in the namespace (`sock_diag(7)`): for a local socket the data that it sent, for an internet socket the data waiting at
both ends, each with the kernel's own overhead.
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
_INODE = slice(68, 72)
_MEMORY = 7
_SYN_RECEIVED, _OVER, _LISTENING = 3, 6, 10

# The largest overhead for each byte of a stream message.
_LARGEST_OVERHEAD = 1024
# The kernel's own bytes for a socket, also for one that waits to be accepted and has no descriptor yet.
_ONE = 2048
# The default limit on a sender's unread data (net.core.wmem_default), and the number of closed senders that may have
# left data in a datagram queue (net.unix.max_dgram_qlen, and one).
_LEFT_BY_ONE, _SENDERS = 212_992, 11

# The kernel's bytes for a TCP socket that has no descriptor, and for a connection that is not made yet or is over. The
# kernel makes these while it handles a packet, when it charges nobody.
_UNCHARGED, _BESIDE = 3072, 384
# The longest queue of connections that are not made yet (net.core.somaxconn of a new network).
_LONGEST_QUEUE = 4096

# The most that errors, times, keys and options can hold in one internet socket: twice the default of
# net.core.rmem_max, as `SO_RCVBUF` sets it, which is more than net.core.optmem_max. See `bound_tcp`.
_MOST_IN_ONE = 2 * 212_992

# Querying thousands of sockets takes tens of milliseconds; with this rest, at most a sixth of the time.
_REST = 5


def bound_tcp(proc: int) -> None:
    """Let the kernel give TCP sockets of this network no more room than others can ask for; `proc` is a full `/proc`.

    What is received there may be reports that are charged to nobody. Needs `CAP_NET_ADMIN`.
    """
    descriptor = os.open("sys/net/ipv4/tcp_rmem", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(descriptor, b"4096 131072 %d" % _MOST_IN_ONE)
    finally:
        os.close(descriptor)


class HeldBySockets:
    """Counts, again and again, the bytes held in the network namespace of the first call."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        """`read` returns the content of a file of `/proc`, or `None` if there is none."""
        self._read = read
        self._netlink: socket.socket | None = None
        self._untold: Set[bytes] = set()
        self._last = self._number = 0
        self._ask_after = 0.0

    def held(self) -> int:
        """Return the bytes that all sockets hold, including sockets that no process has open any more.

        A kernel built without diagnostics for local sockets leaves those out: see `tells_of_local`.
        """
        began = time.monotonic()
        if began >= self._ask_after:
            self._last = self._ask()
            ended = time.monotonic()
            self._ask_after = ended + _REST * (ended - began)
        return self._last

    def worst(self) -> int:
        """Return the most bytes beside data that all sockets could hold, without asking for each."""
        there, over = self._numbers()
        return there * max(_MOST_IN_ONE, _LONGEST_QUEUE * _BESIDE) + over * _BESIDE

    def held_by_internet(self) -> int:
        """Return the bytes that internet sockets hold; those of which the kernel does not tell count with the most.

        It tells of sockets that have a port. Those that came after the last answer count as ones without a descriptor.
        This process has no netlink socket afterwards.
        """
        began = time.monotonic()
        there, over = self._numbers()
        if began >= self._ask_after:
            self._last, self._number = self._by_internet(there), there
            self.close()
            ended = time.monotonic()
            self._ask_after = ended + _REST * (ended - began)
        return self._last + max(there - self._number, 0) * _UNCHARGED + over * _BESIDE

    def _numbers(self) -> Tuple[int, int]:
        """Return the number of sockets, and of connections that are over, which the kernel keeps for a minute."""
        words = (self._read("self/net/sockstat") or b"").split()
        used, over = (int(words[words.index(name) + 1]) if name in words else 0 for name in (b"used", b"tw"))
        return used, over

    def _untold_by_ports(self, there: int) -> int:
        """Return the most bytes that those of all sockets could hold that are neither local nor have a port."""
        lines = (self._read("self/net/protocols") or b"").splitlines()[1:]
        return max(there - sum(int(line.split()[2]) for line in lines), 0) * _MOST_IN_ONE

    def tells_of_local(self) -> bool:
        """Return whether the kernel reports local sockets; many kernels load a module for that at the first query."""
        nothing = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 0, 0, 0, 0, 0)  # a query that matches no socket
        return self._told(nothing) is not None

    def close(self) -> None:
        """Close the netlink socket."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def _ask(self) -> int:
        there, over = self._numbers()
        if self._netlink is not None:
            there -= 1
        if there <= 0:
            return over * _BESIDE
        return there * _ONE + self._local() + self._by_internet(there) + over * _BESIDE

    def _by_internet(self, there: int) -> int:
        counts = self._counts()
        untold = held = self._untold_by_ports(there)
        for family, suffix in ((socket.AF_INET, ""), (socket.AF_INET6, "6")):
            for name, protocol in (("tcp", socket.IPPROTO_TCP), ("udp", socket.IPPROTO_UDP)):
                # For these the kernel walks the tables of all namespaces, which takes a while.
                if counts.get(name.upper() + suffix, 0) or (untold and name == "tcp"):  # its queue outlives a listener
                    held += self._internet(family, protocol, name + suffix)
        return held

    def _counts(self) -> Dict[str, int]:
        """Return the number of sockets of each kind, and of all as `sockets`."""
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
            if body[2] == _LISTENING:  # then the numbers are connections waiting to be accepted, and their limit
                continue
            held += sent
            # Data left by a sender that has closed is counted for no socket.
            if unread and kind == socket.SOCK_DGRAM and _NAME in attributes:  # the length of the first message
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
                received, _, sending, _, _, queued, options = struct.unpack_from("=7I", memory)
                held += received + max(sending, queued) + options + (0 if any(body[_INODE]) else _UNCHARGED)
            elif body[1] == _SYN_RECEIVED:
                held += _BESIDE
        return held

    def _listed(self, table: str) -> int:
        """Return the bytes held according to the tables of `/proc`, which for TCP leave out the kernel's overhead."""
        held = 0
        for line in (self._read("self/net/" + table) or b"").splitlines()[1:]:
            words = line.split()
            held += sum(int(queue, 16) for queue in words[4].split(b":"))
            if words[9] == b"0":  # it has no descriptor
                held += {_SYN_RECEIVED: _BESIDE, _OVER: 0}.get(int(words[3], 16), _UNCHARGED)
        return held

    def _told(self, request: bytes) -> List[bytes] | None:
        """Return the kernel's report on each socket asked for; `None` if the kernel was built without it."""
        if request in self._untold:
            return None
        try:
            return list(self._dump(request))
        except OSError:  # not queried again: each query would make the kernel look for a module
            self._untold.add(request)
            self.close()  # more of an answer may be in transit
            return None

    def _dump(self, request: bytes) -> Iterator[bytes]:
        """Yield the kernel's report on each socket asked for. Raises `OSError` if the kernel refuses."""
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
