"""Attempts to take more than the policy gives: memory, processors, processes, disks, descriptors, output, time."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
from textwrap import indent
from typing import Any

from actbox import CannotFork, Completed, ErrorKind, Limits, Policy, SandboxUnavailable
from actbox.sandbox.contract import closing
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict, escaped_if, unproven
from tests.escape.channel import A_CLOSE_THAT_WAITS
from tests.escape.ground import Ground, first_output

GROUP = Group(
    "resource exhaustion",
    Bare.HARMFUL,
    slow=frozenset(
        [
            "take memory by mappings",
            "take memory by links between mappings of processes",
            "take memory by sockets that wait to be accepted",
            "take memory by connections that wait to be accepted",
            "ignore that its processor time is up",
            "have more locks of files than programs need",
            "use more of the processor than it may",
            "leave folders behind that are too deep to be removed",
            "have more epoll watches than a user may have for long",
            "take memory by names of links",
            "keep other sandboxes from beginning by leaving descriptors underway",
            "keep pages of files that have gone by sending a byte of each",
            "return a value longer than a message may be",
            "keep shared zeros of which hardly any are mapped",
        ]
    ),
)


def _exhausts(what: str, code: str, *ended_by: ErrorKind, **limits: Any) -> None:
    """Add a program that prints its verdict if it lives, and is stopped too where it is ended for this reason."""

    async def exhausts(ground: Ground) -> Verdict:
        return await ground.tries(await ground.open(**limits), code, ended_by=ended_by)

    GROUP.function(what)(exhausts)


_EATS = "def eat(mib):\n    held = []\n    for _ in range(mib): held.append(bytearray(os.urandom(1) * (1 << 20)))\n    return len(held)\n"
_FILLS = (
    "def fill(path, mib):\n    with open(path, 'wb', 0) as file:\n"
    "        for _ in range(mib): file.write(bytes(1 << 20))\n    return mib\n"
)

_exhausts("take four times its memory", _EATS + "refused(lambda: eat(512))", ErrorKind.MEMORY, memory_mib=128)
_exhausts(
    "take memory in many processes",
    _EATS
    + "import time\nread, write = os.pipe()\nfor _ in range(8):\n    if os.fork() == 0:\n        eat(60)\n        os.write(write, b'x')\n"
    "        time.sleep(60)\n        os._exit(0)\n"
    "for _ in range(8): os.read(read, 1)\nwait_to_be_ended()\nverdict(True, 'eight processes hold 480 MiB')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "take memory that processes share",
    "import mmap, time\ndef take():\n    held = mmap.mmap(-1, 300 << 20)\n"
    "    for at in range(0, 300 << 20, 4096): held[at] = 1\n    wait_to_be_ended()\n    return '300 MiB'\nrefused(take)",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "take memory by files in /tmp",
    _FILLS
    + "import time\nfill('/tmp/a', 100)\nfill('/tmp/b', 100)\nfill('/tmp/c', 100)\nwait_to_be_ended()\nverdict(True, '300 MiB')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH, ErrorKind.DISK),
    memory_mib=128,
)
_exhausts(
    "lock memory",
    "ctypes, libc = library()\nat = buffer(64 << 20)\nverdict(libc.mlock(at, ctypes.c_size_t(64 << 20)) == 0)",
    memory_mib=128,
)
# What the kernel takes for a program. Without a control group nobody counts that by itself.
_MAPS = (
    "ctypes, libc = library()\nlibc.mmap.restype = ctypes.c_void_p\n"
    "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]\n"
    "def reserve(size, protection):\n    return libc.mmap(None, size, protection, 0x4022, -1, 0)\n"
)
_exhausts(
    "take memory by page tables",
    _MAPS
    + "import time\nsize = 1 << 39\nat = reserve(size, 1)\nlibc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 15)\n"
    "for place in range(at, at + size, 1 << 21): ctypes.c_char.from_address(place).value\n"
    "wait_to_be_ended()\nverdict(True, '1 GiB of tables')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "take memory by mappings",
    _MAPS
    + "import time\nread, write = os.pipe()\nfor _ in range(30):\n    if os.fork() == 0:\n        at = reserve(65_000 << 13, 0)\n"
    "        for n in range(64_900): libc.mprotect(ctypes.c_void_p(at + (n << 13)), 4096, 1)\n"
    "        os.write(write, b'x')\n        time.sleep(60)\n        os._exit(0)\n"
    "for _ in range(30): os.read(read, 1)\nwait_to_be_ended()\nverdict(True, 'two million mappings')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "take memory by names of links",
    "import time\nfor n in range(131_000): os.symlink('x' * 127, f'/tmp/{n:0240}')\nwait_to_be_ended()\nverdict(True, '131,000 links')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH, ErrorKind.DISK),
    memory_mib=64,
)
_exhausts(
    "take memory by sockets that wait to be accepted",
    "import time\nheld = []\ndef leave(name):\n    one = socket.socket(socket.AF_UNIX)\n    one.setblocking(False)\n    one.connect(name)\n"
    "for n in range(100):\n    held.append(socket.socket(socket.AF_UNIX))\n    held[-1].bind(f'\\0left{n}')\n    held[-1].listen(2000)\n"
    "    for _ in range(2000): leave(f'\\0left{n}')\nwait_to_be_ended()\nverdict(True, '200,000 sockets')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "take memory by connections that wait to be accepted",
    "held = []\nfor _ in range(80):\n    held.append(socket.create_server(('127.0.0.1', 0), backlog=800))\n"
    "    for _ in range(800): socket.create_connection(held[-1].getsockname()).close()\n"
    "wait_to_be_ended()\nverdict(True, '64,000 connections')",
    ErrorKind.MEMORY,
    memory_mib=64,
)
_exhausts(
    "take memory by reports of errors that wait in sockets",
    "held = []\nfor _ in range(240):\n    held.append(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))\n"
    "    held[-1].setsockopt(1, 8, 1 << 20)\n    held[-1].setsockopt(41, 25, 1)\n    for _ in range(2000):\n"
    "        try: held[-1].sendto(bytes(70_000), ('::1', 9))\n        except OSError: pass\n"
    "wait_to_be_ended()\nverdict(True, 'as many as there is room for')",
    ErrorKind.MEMORY,
    memory_mib=64,
)
_exhausts(
    "take memory by reports of times that wait in sockets",
    # A control message asks for them, and no filter can read that. Without a port the kernel tells of no socket.
    "other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nother.bind(('127.0.0.1', 0))\nheld = []\n"
    "gone = library()[0].create_string_buffer(16)\n"
    "for _ in range(240):\n    held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n"
    "    held[-1].setsockopt(1, 8, 1 << 20)\n    for _ in range(12):\n"
    "        held[-1].sendmsg([bytes(60_000)], [(1, 37, struct.pack('I', 2))], 0, other.getsockname())\n"
    "        other.recv(70_000)\n    library()[1].connect(held[-1].fileno(), gone, 16)\n"
    "wait_to_be_ended()\nverdict(True, 'as many as there is room for')",
    ErrorKind.MEMORY,
    memory_mib=64,
)
_SHARED_HOLES = (
    "import time\nctypes, libc = library()\nlibc.mmap.restype = ctypes.c_ssize_t\n"
    "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]\n"
    "def hide(flags, file):\n    at = libc.mmap(None, 32 << 20, 3, flags, file, 0)\n"
    "    if at == -1: raise OSError('it cannot be mapped')\n    ctypes.memset(ctypes.c_void_p(at), 1, 32 << 20)\n"
    "    libc.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t((32 << 20) - 4096))\n"
    "def hide_all(flags, file):\n    for _ in range(16): hide(flags, file)\n    wait_to_be_ended()\n    return '512 MiB'\n"
)
_exhausts(
    "keep shared memory of which hardly any is mapped",
    _SHARED_HOLES + "refused(lambda: hide_all(0x21, -1))",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "keep shared zeros of which hardly any are mapped",
    _SHARED_HOLES + "zeros = os.open('/dev/zero', os.O_RDWR)\nrefused(lambda: hide_all(1, zeros))",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "keep pages of files that have gone by sending a byte of each",
    "import time\nopened = []\ndef send():\n    server = socket.create_server(('127.0.0.1', 0))\n    for _ in range(40):\n"
    "        opened.append(socket.create_connection(server.getsockname()))\n        opened.append(server.accept()[0])\n"
    "        opened[-2].setblocking(False)\n        file = os.open('/tmp/pages%d' % os.getpid(), os.O_CREAT | os.O_RDWR)\n"
    "        os.write(file, b'x' * (2 << 20))\n        for page in range(512): os.sendfile(opened[-2].fileno(), file, page << 12, 1)\n"
    "        os.ftruncate(file, 0)\n        os.close(file)\n"
    "for _ in range(7):\n    if os.fork() == 0:\n        try: send()\n        except OSError: os._exit(1)\n        time.sleep(20)\n        os._exit(0)\n"
    "ends = [os.wait()[1] for _ in range(7)]\nverdict(0 in ends, ends)",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "take memory by lists of who may have files",
    "entries = [(1, 6, 0xffffffff), *[(2, 6, 1000)] * 8000, (4, 6, 0xffffffff), (16, 6, 0xffffffff), (32, 6, 0xffffffff)]\n"
    "entries = struct.pack('I', 2) + b''.join(struct.pack('HHI', *entry) for entry in entries)\nopen('/tmp/listed', 'w').close()\n"
    "refused(lambda: os.setxattr('/tmp/listed', 'system.posix_acl_access', entries))",
    memory_mib=128,
)
_exhausts(
    "take memory by links between mappings of processes",
    _MAPS + "import time\nat = libc.mmap(None, 1200 << 13, 3, 0x22, -1, 0)\nfor n in range(1200):\n"
    "    ctypes.memset(ctypes.c_void_p(at + (n << 13)), 1, 1)\n    libc.mprotect(ctypes.c_void_p(at + (n << 13)), 4096, 1)\n"
    "first = os.getpid()\nfor _ in range(50):\n    if os.fork():\n        time.sleep(20)\n        if os.getpid() != first: os._exit(0)\n"
    "        break\nelse:\n    time.sleep(20)\n    os._exit(0)\nverdict(True, 'three million links')",
    *(ErrorKind.MEMORY, ErrorKind.CRASH),
    memory_mib=128,
)
_exhausts(
    "have more queues of watched files than programs need",
    "ctypes, libc = library()\nmade = 0\nwhile made < 100 and libc.inotify_init1(0) >= 0: made += 1\nverdict(made > 8, made)",
)
_exhausts(
    "have more epoll watches than a user may have for long",
    "import select, time\nheld = []\nfile = socket.socketpair()\nnumbers = [os.dup(file[0].fileno()) for _ in range(400)]\n"
    "for _ in range(500):\n    held.append(select.epoll())\n    for number in numbers: held[-1].register(number, select.EPOLLIN)\n"
    "time.sleep(20)\nverdict(True, '200,000 watches')",
    ErrorKind.BUDGET,
    open_files=1024,
)
_exhausts(
    "have more locks of files than programs need",
    "import fcntl, time\nfiles = [open(f'/tmp/locked{n}', 'w') for n in range(200)]\nfor place in range(0, 500, 2):\n"
    "    for file in files: fcntl.fcntl(file, fcntl.F_SETLK, struct.pack('hhqqi', fcntl.F_WRLCK, 0, place, 1, 0))\n"
    "time.sleep(20)\nverdict(True, '50,000 locks')",
    *(ErrorKind.BUDGET, ErrorKind.MEMORY),
)
_exhausts(
    "have more timers than programs need",
    "ctypes, libc = library()\nmade, timer = 0, ctypes.c_void_p()\n"
    "while made < 3000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: made += 1\nverdict(made > 256, made)",
)
GROUP.programs(
    {
        "interrupt all processors of the machine by options of sockets": (
            # With the first socket that has one of these the kernel rewrites its own code. It takes 136 for 17 too.
            "done = []\nfor level, option, value in ((1, 29, 1), (1, 37, 8), (1, 63, 1), (17, 100, 3), (17, 104, 1), (136, 104, 1)):\n"
            "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:\n"
            "        try: one.setsockopt(level, option, value)\n        except OSError as error: print(error)\n"
            "        else: done.append((level, option))\nverdict(bool(done), done)"
        ),
        "take memory by groups that sockets join": (
            "done = []\nloopback = socket.inet_aton('127.0.0.1')\n"
            "joins = [(2, 0, 35, socket.inet_aton('239.1.2.3') + loopback)]\n"
            "joins += [(2, 0, 39, socket.inet_aton('232.1.2.3') + loopback + loopback)]\n"
            "joins += [(10, 41, 20, socket.inet_pton(10, 'ff01::1234') + struct.pack('I', 1))]\n"
            "for family, level, option, value in joins:\n    with socket.socket(family, socket.SOCK_DGRAM) as one:\n"
            "        try: one.setsockopt(level, option, value)\n        except OSError as error: print(error)\n"
            "        else: done.append((level, option))\nverdict(bool(done), done)"
        ),
        "take labels of flows, of which the machine has few": (
            "wanted = struct.pack('=16s4sBBHHHI', bytes(15) + b'\\x01', b'\\0\\1\\2\\3', 0, 3, 1, 0, 6, 0)\n"
            "refused(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).setsockopt(41, 32, wanted))"
        ),
        "queue more signals than programs need": (
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [40])\nctypes, libc = library()\nmade = 0\n"
            "while made < 3000 and libc.sigqueue(os.getpid(), 40, None) == 0: made += 1\nverdict(made > 256, made)"
        ),
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "take memory by sets of semaphores": "denied(syscall('semget', 0, 32_000, 0o600))",
        "take memory by programs for sockets": (
            "program = buffer(struct.pack('HBBI', 6, 0, 0, 0xffff))\nctypes = library()[0]\n"
            "option = struct.pack('HL', 1, ctypes.addressof(program))\n"
            "refused(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).setsockopt(1, 26, option))"
        ),
        "take huge pages that the machine's administrator has reserved": (
            "import mmap\nrefused(lambda: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))"
        ),
        "take memory by rules of Landlock": "denied(syscall('landlock_create_ruleset', (1).to_bytes(8, 'little'), 8, 0))",
        "enlarge a pipe, of which all sandboxes share what there may be": "import fcntl\nrefused(lambda: fcntl.fcntl(os.pipe()[1], 1031, 1 << 20))",
        "have the kernel wait before it closes what anybody had in transit": (
            f"try:\n{indent(A_CLOSE_THAT_WAITS, '    ')}except PermissionError as error: verdict(False, error)\nelse:\n"
            "    import errno, select, time\n    read, write = os.pipe()\n    pair = socket.socketpair()\n    rest = list(pair)\n"
            "    held = array.array('i', [*(end.fileno() for end in (*pair, one, other)), write])\n    while rest:\n"
            "        try: rest[-1].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, held)])\n"
            "        except OSError as error:\n            if error.errno != errno.ETOOMANYREFS: raise\n"  # other sandboxes' too
            "            time.sleep(0.05)\n        else: rest.pop()\n"
            "    for end in (*pair, one, other): end.close()\n    os.close(write)\n    socket.socketpair()\n"
            "    verdict(not select.select([read], [], [], 2)[0])"
        ),
    }
)
_exhausts(
    "have more processes than it may",
    "import time\nmade = 0\ntry:\n    for _ in range(64):\n        if os.fork() == 0:\n            time.sleep(20)\n            os._exit(0)\n"
    "        made += 1\nexcept OSError as error:\n    verdict(made > 16, made)\nelse:\n    verdict(True, made)",
    ErrorKind.PROCESSES,
    processes=16,
)
_exhausts(
    "have more threads than it may",
    "import threading, time\nmade = 0\ntry:\n    for _ in range(64):\n        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()\n"
    "        made += 1\nexcept RuntimeError:\n    verdict(made > 16, made)\nelse:\n    verdict(True, made)",
    ErrorKind.PROCESSES,
    processes=16,
)
_exhausts(
    "fork without end",
    "import sys\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    *(ErrorKind.TIMEOUT, ErrorKind.PROCESSES, ErrorKind.MEMORY, ErrorKind.CRASH),
    **{"processes": 16, "wall_seconds": 1.0},
)
_exhausts(
    "leave processes behind that reap nobody",
    "children = 0\ntry:\n    for _ in range(100):\n        if os.fork() == 0: os._exit(0)\n        children += 1\n"
    "except OSError:\n    pass\nverdict(children > 16, children)",
    ErrorKind.PROCESSES,
    processes=16,
)
_exhausts(
    "open more descriptors than it may",
    "held = []\ntry:\n    while len(held) < 1000: held.append(os.dup(0))\nexcept OSError:\n    pass\nverdict(len(held) > 64, len(held))",
    open_files=64,
)
_exhausts("write a file longer than it may", _FILLS + "refused(lambda: fill('a', 20))", ErrorKind.DISK, file_mib=8)
_exhausts(
    "make a file longer than it may without writing it",
    "refused(lambda: os.truncate(open('a', 'w').name, 1 << 40))",
    *(ErrorKind.DISK, ErrorKind.CRASH),
    file_mib=8,
)
_exhausts(
    "reserve a disk without writing it",
    "fd = os.open('a', os.O_RDWR | os.O_CREAT)\nrefused(lambda: os.posix_fallocate(fd, 0, 1 << 34))",
    *(ErrorKind.DISK, ErrorKind.CRASH),
    workspace_mib=16,
)
_exhausts(
    "fill the workspace",
    _FILLS + "refused(lambda: [fill(f'a{n}', 8) for n in range(8)])",
    ErrorKind.DISK,
    workspace_mib=16,
)
_exhausts(
    "fill /tmp", _FILLS + "refused(lambda: [fill(f'/tmp/a{n}', 8) for n in range(8)])", ErrorKind.DISK, workspace_mib=16
)
_exhausts(
    "fill the shared memory",
    _FILLS + "refused(lambda: [fill(f'/dev/shm/a{n}', 8) for n in range(16)])",
    ErrorKind.DISK,
    workspace_mib=16,
)
_exhausts(
    "spread more files over its places than all may hold",
    _FILLS + "refused(lambda: [fill(f'{place}/a{n}', 4) for n in range(4) for place in ('.', '/tmp', '/dev/shm')])",
    ErrorKind.DISK,
    disk_mib=16,
)
_exhausts(
    "keep more in files without names than all places may hold",
    _FILLS + "held = []\ndef hold(path):\n    fill(path, 4)\n    held.append(open(path, 'rb'))\n    os.unlink(path)\n"
    "refused(lambda: [hold(f'{place}/a{n}') for n in range(4) for place in ('.', '/tmp', '/dev/shm')])",
    ErrorKind.DISK,
    disk_mib=16,
)
_exhausts(
    "fill the holes of files in all places",
    "import mmap\ndef fill(path):\n    with open(path, 'w+b') as file:\n        os.truncate(path, 4 << 20)\n"
    "        with mmap.mmap(file.fileno(), 0) as pages:\n            for at in range(0, 4 << 20, 4096): pages[at] = 1\n"
    "refused(lambda: [fill(f'{place}/a{n}') for n in range(4) for place in ('.', '/tmp', '/dev/shm')])",
    *(ErrorKind.DISK, ErrorKind.CRASH),
    disk_mib=16,
)
_exhausts(
    "reserve more in all places than they may hold",
    "def reserve(path):\n    fd = os.open(path, os.O_RDWR | os.O_CREAT)\n    os.posix_fallocate(fd, 0, 4 << 20)\n"
    "refused(lambda: [reserve(f'{place}/a{n}') for n in range(4) for place in ('.', '/tmp', '/dev/shm')])",
    ErrorKind.DISK,
    disk_mib=16,
)
_exhausts(
    "fill the workspace with names",
    "def names():\n    for n in range(20_000): os.close(os.open(f'n{n}', os.O_CREAT | os.O_WRONLY))\nrefused(names)",
    ErrorKind.DISK,
    workspace_mib=2,
)
_exhausts(
    "fill the workspace with attributes",
    "open('a', 'w').close()\ndef attributes():\n    for n in range(3000): os.setxattr('a', f'user.n{n}', bytes(60_000))\nrefused(attributes)",
    *(ErrorKind.DISK, ErrorKind.MEMORY, ErrorKind.CRASH),
    **{"workspace_mib": 16, "memory_mib": 128},
)
_exhausts(
    "print more than it may",
    "for _ in range(200): sys.stdout.write('x' * 100_000)\nsys.stdout.flush()\nprint()\nverdict(True)",
    ErrorKind.OUTPUT_LIMIT,
    output_bytes=100_000,
)
_exhausts(
    "print more than it may, in processes that it starts",
    "import subprocess\nsubprocess.run(['sh', '-c', 'head -c 20000000 /dev/zero >&2 & head -c 20000000 /dev/zero; wait'])\nprint()\nverdict(True)",
    *(ErrorKind.OUTPUT_LIMIT, ErrorKind.CRASH),
    output_bytes=100_000,
)
_exhausts(
    "use more of the processor than it may",
    "import resource\nresource.getrusage(0)\nwhile resource.getrusage(0).ru_utime < 4: pass\nverdict(True)",
    *(ErrorKind.TIMEOUT, ErrorKind.CRASH),
    cpu_seconds=1.0,
)
_exhausts(
    "ignore that its processor time is up",
    "import resource, signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
    "while resource.getrusage(0).ru_utime < 4: pass\nverdict(True)",
    *(ErrorKind.TIMEOUT, ErrorKind.CRASH),
    cpu_seconds=1.0,
)
_exhausts(
    "stay longer than it may", "import time\nwait_to_be_ended()\nverdict(True)", ErrorKind.TIMEOUT, wall_seconds=0.3
)
_exhausts(
    "ignore every signal and stay",
    "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
    "wait_to_be_ended()\nverdict(True)",
    ErrorKind.TIMEOUT,
    wall_seconds=0.3,
)
_exhausts(
    "stop itself and stay",
    "import signal\nos.kill(os.getpid(), signal.SIGSTOP)\nverdict(True)",
    ErrorKind.TIMEOUT,
    wall_seconds=0.3,
)
_exhausts(
    "put its limit of time off",
    "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\nfor kind in ('RLIMIT_CPU', 'RLIMIT_RTTIME'):\n"
    "    import resource\n    try: resource.setrlimit(getattr(resource, kind), (-1, -1))\n    except (OSError, ValueError): pass\n"
    "wait_to_be_ended()\nverdict(True)",
    ErrorKind.TIMEOUT,
    wall_seconds=0.3,
)


@GROUP.function("call tools more often than it may")
async def _(ground: Ground) -> Verdict:
    called = 0

    def count() -> None:
        nonlocal called
        called += 1

    result = await (await ground.open(tool_calls=10)).run("while True: count()", tools=[count])
    return escaped_if(called > 10 or result.error is None, (called, result.error))


@GROUP.function("call tools more often than it may, from every side at once")
async def _(ground: Ground) -> Verdict:
    called = 0

    async def count() -> None:
        nonlocal called
        called += 1

    code = "import asyncio\nawait asyncio.gather(*(count() for _ in range(200)), return_exceptions=True)"
    result = await (await ground.open(tool_calls=10)).run(code, tools=[count])
    return escaped_if(called > 10, (called, result.error))


@GROUP.function("send the host a message longer than it may be")
async def _(ground: Ground) -> Verdict:
    got = []

    def take(text: str) -> None:
        got.append(len(text))

    result = await (await ground.open(message_bytes=100_000)).run("take('x' * 1_000_000)", tools=[take])
    return escaped_if(bool(got) or result.error is None, (got, result.error))


@GROUP.function("return a value longer than a message may be")
async def _(ground: Ground) -> Verdict:
    result = await (await ground.open(message_bytes=100_000)).run("'x' * 10_000_000")
    size = len(str(result.value)) + len(result.value_text or "")
    return escaped_if(size > 200_000, size)


@GROUP.function("return an error longer than a message may be")
async def _(ground: Ground) -> Verdict:
    result = await (await ground.open(message_bytes=100_000)).run("raise ValueError('x' * 10_000_000)")
    if result.error is None:
        return unproven(result)
    return escaped_if(len(result.error.message) + len(result.error.traceback) > 200_000, len(result.error.message))


@GROUP.function("leave more artifacts than it may")
async def _(ground: Ground) -> Verdict:
    result = await (await ground.open(artifacts=5)).run("for n in range(50): open(f'output/{n}', 'w').write('x')")
    return escaped_if(len(result.artifacts) > 5, result.warnings)


@GROUP.function("leave larger artifacts than it may")
async def _(ground: Ground) -> Verdict:
    result = await (await ground.open(artifact_mib=1)).run(
        "for n in range(4): open(f'output/{n}', 'wb').write(bytes(700_000))"
    )
    return escaped_if(sum(item.size for item in result.artifacts) > 2**20, result.warnings)


@GROUP.function("outlive its run as a daemon")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    await box.run(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    for n in range(3, 100):\n"
        "        try: os.close(n)\n        except OSError: pass\n    os.close(0), os.close(1), os.close(2)\n    time.sleep(0.3)\n"
        "    open('/workspace/alive', 'w').close()\n    os._exit(0)"
    )
    await box.run("import time\ntime.sleep(0.8)")
    return escaped_if("alive" in {entry.path for entry in await box.list_files()})


@GROUP.function("leave another run less than its share")
async def _(ground: Ground) -> Verdict:
    """Both have the same user outside: what the kernel counts by user must not be counted for both together."""
    box = await ground.open(processes=16)
    threads = "import threading, time\nfor _ in range(15): threading.Thread(target=time.sleep, args=({},), daemon=True).start()\n"
    greedy = box.stream(threads.format(30) + "print('full', flush=True)\ntime.sleep(30)")
    async with closing(greedy):
        await first_output(greedy)
        others = await asyncio.gather(*(box.run(threads.format(0.1) + "'all'") for _ in range(3)))
    values = [other.value for other in others]
    return escaped_if(values != ["all"] * 3, values)


@GROUP.function("leave the host no watches of files")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    code = "import ctypes, time\nwhile ctypes.CDLL(None).inotify_init1(0) >= 0: pass\nprint('full', flush=True)\ntime.sleep(30)"
    greedy = box.stream(code)
    async with closing(greedy):
        await first_output(greedy)
        own = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
    if own >= 0:
        os.close(own)
    return escaped_if(own < 0, own)


_FEW = 512
_LEAVES_UNDERWAY = """
import os, socket, time
held, file = [], os.open('/dev/null', 0)
try:
    while True:
        held.append(socket.socketpair())
        held[-1][0].setblocking(False)
        try:
            while True: socket.send_fds(held[-1][0], [b'x'], [file] * 250)
        except BlockingIOError:
            pass
except OSError:
    pass
print('full', flush=True)
time.sleep(5)
'alive'
"""


@GROUP.function("keep other sandboxes from beginning by leaving descriptors underway")
async def _(ground: Ground) -> Verdict:
    """The kernel counts them by user, and lets a process send while there are not more than it may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * _FEW:
        raise NotApplicable(f"a process here may not have {4 * _FEW} files open, of which a guest would get half")
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FEW, hard))
    try:
        policy = Policy(preload=("colorsys",), limits=Limits(open_files=_FEW))  # a nursery of its own, with this limit
        box = await ground.open(policy)
        greedy = box.stream(_LEAVES_UNDERWAY)
        async with closing(greedy):
            await first_output(greedy)
            plain = await (await ground.open(policy)).run("'alive'")
            session = await ground.open_session(policy, forkable=True)
            copy = await session.fork()
            copied = await copy.run("'alive'")
            await copy.close()
            await session.close()
            ended = [event async for event in greedy][-1]  # it ends with the nursery too
    except (CannotFork, SandboxUnavailable) as error:
        return escaped_if(True, error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    results = [plain, copied, ended.result if isinstance(ended, Completed) else None]
    return escaped_if([result and result.value for result in results] != ["alive"] * 3, results)


@GROUP.function("end a run that goes on beside it")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    waiting = box.stream("import time\nprint('ready', flush=True)\ntime.sleep(0.5)\n'alive'")
    async with closing(waiting):
        await first_output(waiting)
        await box.run("import os\nos.kill(-1, 9)")
        last = [event async for event in waiting][-1]
    value = last.result.value if isinstance(last, Completed) else last
    return escaped_if(value != "alive", value)


@GROUP.function("leave folders behind that are too deep to be removed")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    await box.run("import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')")
    await box.remove_file("d", recursive=True)
    return escaped_if("d" in {entry.path for entry in await box.list_files()})
