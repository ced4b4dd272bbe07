"""Attempts against lanes by memory: what pid 1 has read of a program, the next guest would inherit when it is forked."""

from __future__ import annotations

from tests.escape.lanes import WORD, leaves, search

_NUMBER = int.from_bytes(b"of-run-1", "big")
_PLACE = 7_340_621_983_001
# Pid 1 writes this file anew at each look at the processes, before it looks at their descriptors.
_UNTIL_A_LOOK = (
    "import time\ndef until_a_look():\n    seen = open('/proc/uptime').read()\n"
    "    while open('/proc/uptime').read() == seen: time.sleep(0.001)\n    time.sleep(0.01)\n"
)

_RESIDUE_IN_MEMORY: dict[str, tuple[str, str]] = {
    "leave the names of files in /tmp in memory": (
        # At their end: Python and the C library use the beginning of memory that was freed again first.
        f"for place in ('/dev/shm/', '/tmp/'): open(place + 'x' * 230 + {WORD!r}, 'w').close()",
        search(WORD),
    ),
    "leave the numbers by which it knows what it watches in memory": (
        "import ctypes, os, struct\nlibc = ctypes.CDLL(None)\nwatching = libc.epoll_create1(0)\nread, _ = os.pipe()\n"
        "for number in [read, *(os.dup(read) for _ in range(60))]:\n"
        f"    wanted = struct.pack('=IQ' if os.uname().machine == 'x86_64' else '=I4xQ', 1, {_NUMBER})\n"
        "    assert libc.epoll_ctl(watching, 1, number, wanted) == 0\n" + _UNTIL_A_LOOK + "until_a_look()",
        search(f"{_NUMBER:x}"),
    ),
    "leave the places of its locks in memory": (
        "import fcntl\nheld = open('/tmp/locked', 'w')\n"
        f"for place in range(0, 100, 2): fcntl.lockf(held, fcntl.LOCK_EX, 1, {_PLACE} + place * 10**15)\n"
        + _UNTIL_A_LOOK
        + "until_a_look()",
        search(f"{_PLACE}"),
    ),
}

for _what, (_leave, _look) in _RESIDUE_IN_MEMORY.items():
    leaves(_what, _leave, _look)
