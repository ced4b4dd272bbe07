"""Where no control group counts memory, what the kernel takes for a program is counted all the same."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, Limits, Policy
from actbox.sandbox.engines.linux import engine, stock
from actbox.sandbox.engines.linux.cgroups import RunGroup
from actbox.sandbox.nursery import held_by_sockets
from tests.conftest import engine_check

_LIMIT_MIB = 128
# Some 200 KiB for each socket: hardly anything in the processes, and more than the limit in the kernel.
_FILL = """
import os, socket, time
held = []
def fill(one, send):
    one.setblocking(False)
    try:
        for _ in range(6): send(b'x' * 32_000)
    except OSError:
        pass
def fill_pairs(number):
    for _ in range(number):
        held.extend(socket.socketpair())
        for one in held[-2:]:
            fill(one, one.send)
"""
FILLED = {
    "local": "for _ in range(3): os.fork()\nfill_pairs(100)",
    "local, left by senders that have gone": """
os.fork()
os.fork()
for _ in range(240):
    sender, receiver = socket.socketpair()
    fill(sender, sender.send)
    sender.close()
    held.append(receiver)
""",
    "datagrams, left by senders that have gone": """
for n in range(100):
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(f'/tmp/{n}')
    held.append(receiver)
    for _ in range(9):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(f'/tmp/{n}')
            fill(sender, sender.send)
""",
    "tcp": """
os.fork()
os.fork()
server = socket.create_server(('127.0.0.1', 0))
for _ in range(90):
    held.append(socket.create_connection(server.getsockname()))
    held.append(server.accept()[0])
    for one in held[-2:]:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        fill(one, one.send)
        fill(one, one.send)
""",
    "pipes": """
own = b'x' * (80 * 2**20)  # the kernel lets one user's pipes have 64 MiB
for _ in range(3): os.fork()
while len(held) < 120:
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    if os.write(ends[1], bytes(2**16)) == 2**16:
        held.append(ends)
        continue
    os.close(ends[0])
    os.close(ends[1])
    time.sleep(0.01)  # others of this user have so many pipes that a new one is small: until they let go
""",
    "sockets that wait to be accepted": """
for n in range(60):
    server = socket.socket(socket.AF_UNIX)
    server.bind(f'\\0{n}')
    server.listen(2000)
    held.append(server)
    for _ in range(2000):
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            client.connect(f'\\0{n}')
""",
    "page tables": """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for n in range(20_000):
    place = libc.mmap((1 << 40) + (n << 30), 4096, 1, 0x100022, -1, 0)  # a page far from all others takes two of tables
    ctypes.c_char.from_address(place).value
""",
    "mappings": """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for _ in range(4): os.fork()
at = libc.mmap(None, 60_000 << 13, 0, 0x4022, -1, 0)
for n in range(60_000): libc.mprotect(ctypes.c_void_p(at + (n << 13)), 4096, 1)
""",
    "links between mappings of processes": """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
at = libc.mmap(None, 1200 << 13, 3, 0x22, -1, 0)
for n in range(1200):
    ctypes.memset(ctypes.c_void_p(at + (n << 13)), 1, 1)
    libc.mprotect(ctypes.c_void_p(at + (n << 13)), 4096, 1)
for _ in range(50):
    if os.fork():
        time.sleep(600)
        os._exit(0)
""",
    "processes of which the first thread has ended": """
import ctypes, threading
def hold():
    held.append(b'x' * (30 << 20))
    time.sleep(600)
for _ in range(8):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        ctypes.CDLL(None).pthread_exit(None)
""",
    "names of links": "for n in range(131_000): os.symlink('x' * 127, f'/tmp/{n:0240}')\nown = b'x' * (40 * 2**20)",
    "udp": """
for _ in range(5): os.fork()
for _ in range(100):
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.bind(('::1', 0))
    held.append(one)
    fill(one, lambda text: one.sendto(text, one.getsockname()))
""",
}
_HONEST = """
import socket, time
pairs = [socket.socketpair() for _ in range(40)]
for one, other in pairs:
    one.send(b'x' * 20_000)
    one.close()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
client.send(b'x' * 20_000)
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind('/tmp/log')
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '/tmp/log')
import os
pipes = [os.pipe() for _ in range(80)]
for _, end in pipes: os.write(end, b'x')
import ctypes
watches = [ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC) for _ in range(4)]
assert all(ctypes.CDLL(None).inotify_add_watch(watch, b'/tmp', 0xFFF) > 0 for watch in watches)
for n in range(2000): open(f'/tmp/file{n}', 'w').close()
assert all(os.read(watch, 4096) for watch in watches)
time.sleep(0.3)
sum(len(other.recv(100_000)) for _, other in pairs)
"""

_SHARING = """
import multiprocessing
from multiprocessing import shared_memory
context = multiprocessing.get_context("fork")
count, numbers, lock = context.Value("i", 0), context.Array("d", 4), context.Lock()
def add(_):
    with lock:
        count.value += 1
        numbers[0] += 1
        block.buf[5] = 7
block = shared_memory.SharedMemory(create=True, size=2**20)
processes = [context.Process(target=add, args=(n,)) for n in range(3)]
for process in processes: process.start()
for process in processes: process.join()
with context.Pool(2) as pool: total = sum(pool.map(abs, [-10, 20]))
seen = [count.value, numbers[0], total, block.buf[5]]
block.close()
block.unlink()
seen
"""


async def _run(code: str, monkeypatch: pytest.MonkeyPatch) -> ExecutionResult:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    monkeypatch.setattr(engine, "support", lambda: None)
    # A sandbox may have been made before, with groups: they keep the default limit at most, which nothing here reaches.
    monkeypatch.setattr(RunGroup, "set_limits", lambda group, limits: None)
    limits = Limits(memory_mib=_LIMIT_MIB, wall_seconds=200, cpu_seconds=200)
    async with actbox.open_sandbox("linux", policy=Policy(limits=limits)) as box:
        return await box.run(code)


# Half of them in every run, in which tests/escape makes attempts of these kinds too.
@pytest.mark.slow
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.long if number % 2 else ()) for number, way in enumerate(FILLED)]
)
async def test_a_program_for_which_the_kernel_takes_too_much_is_ended(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await _run(f"{_FILL}{FILLED[way]}\ntime.sleep(600)", monkeypatch)
    assert result.error is not None, result
    assert (result.error.kind, result.error.limit) == (ErrorKind.MEMORY, "memory_mib"), result.error


async def test_a_program_that_sends_and_writes_as_programs_do_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    result = await _run(_HONEST, monkeypatch)
    assert result.value == 40 * 20_000, result


# What nobody would see. Each says what the refusal is, and does the same in a way that is seen.
UNSEEN = {
    "shared anonymous memory": """
import mmap
try:
    mmap.mmap(-1, 4096)
except PermissionError as error:
    refusal = error.errno
mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)[0] = 1
""",
    "shared pages of zeros": """
import mmap
zeros = open('/dev/zero', 'r+b', 0)
assert zeros.read(5000) == bytes(5000)
try:
    mmap.mmap(zeros.fileno(), 4096)
except OSError as error:
    refusal = error.errno
""",
    "lists of access": """
import os, struct
entries = [(1, 6, 0xffffffff), *[(2, 6, 1000)] * 8000, (4, 6, 0xffffffff), (16, 6, 0xffffffff), (32, 6, 0xffffffff)]
listed = struct.pack('I', 2) + b''.join(struct.pack('HHI', *entry) for entry in entries)
open('listed', 'w').close()
try:
    os.setxattr('listed', 'system.posix_acl_access', listed)
except OSError as error:
    refusal = error.errno
""",
}
REFUSALS = {
    "shared anonymous memory": errno.EPERM,
    "shared pages of zeros": errno.ENODEV,
    "lists of access": errno.ENOTSUP,
}


@pytest.fixture
def without_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No sandbox has a control group: also none that has been made before."""
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    stock.close_all()
    for module in (engine, stock):
        monkeypatch.setattr(module, "support", lambda: None)
    yield
    stock.close_all()


@pytest.mark.slow
@pytest.mark.usefixtures("without_groups")
@pytest.mark.parametrize("way", UNSEEN)
@pytest.mark.parametrize("forked", [False, True], ids=["ordinary", "forked"])
async def test_memory_that_nobody_would_see_cannot_be_had(way: str, forked: bool) -> None:
    async with actbox.open_sandbox("linux") as box:
        if forked:
            async with box.session(forkable=True) as origin, await origin.fork() as session:
                result = await session.run(UNSEEN[way] + "refusal")
        else:
            result = await box.run(UNSEEN[way] + "refusal")
    assert result.value == REFUSALS[way], result


@pytest.mark.slow
@pytest.mark.usefixtures("without_groups")
async def test_a_refusal_to_share_memory_says_what_to_do() -> None:
    async with actbox.open_sandbox("linux") as box:
        result = await box.run("import mmap\nmmap.mmap(-1, 4096)")
        other = await box.run("import mmap, os\nos.listdir('/proc/1/fd')")
    assert result.error is not None and other.error is not None
    assert result.error.kind is ErrorKind.POLICY
    assert "mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS" in result.error.hint
    assert "mmap" not in other.error.hint


@pytest.mark.slow
@pytest.mark.usefixtures("without_groups")
async def test_processes_of_a_program_share_memory_as_they_do() -> None:
    async with actbox.open_sandbox("linux") as box:
        result = await box.run(_SHARING)
    assert result.value == [3, 3.0, 30, 7], result


def test_a_kernel_that_tells_nothing_of_sockets_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one without `sock_diag(7)`: there is no such family of addresses, and `/proc` alone lists what TCP holds."""
    monkeypatch.setattr(held_by_sockets, "_NETLINK_SOCK_DIAG", 31)
    asking = held_by_sockets.HeldBySockets(lambda path: Path("/proc", path).read_bytes())
    assert not asking.tells_of_local()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"x" * 50_000)
        assert asking.held() >= 50_000


def test_internet_sockets_of_which_the_kernel_does_not_tell_count_with_the_most_that_they_could_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_by_sockets, "_NETLINK_SOCK_DIAG", 31)  # as above: what this machine has does not matter
    of_one, longest_queue = 2 * 212_992, 4096 * 384
    proc = {"self/net/sockstat": b"sockets: used 12\nTCP: inuse 0 orphan 0 tw 3 alloc 0\nUDP: inuse 0 mem 0\n"}
    proc["self/net/protocols"] = b"protocol  size sockets\nUNIX 1152 4 -1\nUNIX-STREAM 1152 3 -1\nTCP 2304 0 0\n"
    asking = held_by_sockets.HeldBySockets(proc.get)
    of_those_that_are_over = 3 * 384
    assert asking.worst() == 12 * longest_queue + of_those_that_are_over
    assert asking.held_by_internet() == 5 * of_one + of_those_that_are_over
    # A connection that is made, has 5 bytes and is not accepted; one that is not made yet; one over; one that is open.
    line = "0: 00:1 00:2 {} 0000000{}:00000000 00:0 0 0 0 {} 1 0 0\n"
    lines = line.format("08", 5, 0) + line.format("03", 0, 0) + line.format("06", 0, 0) + line.format("01", 0, 77)
    proc["self/net/tcp"] = b"the names\n" + lines.encode()
    monkeypatch.setattr(held_by_sockets, "_REST", 1e9)  # so that it asks once
    asking = held_by_sockets.HeldBySockets(proc.get)
    held = 5 * of_one + of_those_that_are_over + 3072 + 5 + 384
    assert asking.held_by_internet() == held
    proc["self/net/sockstat"] = proc["self/net/sockstat"].replace(b"used 12", b"used 15")
    assert asking.held_by_internet() == held + 3 * 3072


_ERRORS_THAT_WAIT = """
import socket, time
held = []
for _ in range(240):
    held.append(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    held[-1].setsockopt(socket.IPPROTO_IPV6, 25, 1)  # IPV6_RECVERR
    for _ in range(2000):
        try: held[-1].sendto(bytes(70_000), ("::1", 9))
        except OSError: pass
time.sleep(20)
"""
# The kernel makes the other ends while it handles packets, when it charges nobody.
_CONNECTIONS_THAT_WAIT = """
import socket, time
held = []
for _ in range(50):
    held.append(socket.create_server(("127.0.0.1", 0), backlog=800))
    for _ in range(800): socket.create_connection(held[-1].getsockname()).close()
time.sleep(20)
"""


@pytest.mark.skipif(not engine_check("linux").works, reason="the linux engine does not work here")
@pytest.mark.parametrize("waiting", [_ERRORS_THAT_WAIT, pytest.param(_CONNECTIONS_THAT_WAIT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fixtures", [(), ("without_groups",)])
async def test_what_waits_in_sockets_counts_as_memory_with_a_control_group_and_without(
    fixtures: tuple[str, ...], waiting: str, request: pytest.FixtureRequest
) -> None:
    for name in fixtures:
        request.getfixturevalue(name)
    limits = actbox.Limits(memory_mib=64, workspace_mib=8)
    async with actbox.open_sandbox("linux", policy=Policy(limits=limits)) as box:
        result = await box.run(waiting)
        assert result.error is not None
        assert result.error.kind is ErrorKind.MEMORY
        many = (
            "import socket\nheld = [socket.socketpair() for _ in range(100)]\nserver = socket.create_server(('', 0))\n"
        )
        many += (
            "held += [socket.create_connection(server.getsockname()) for _ in range(40)]\nimport time\ntime.sleep(0.3)"
        )
        assert (await box.run(many)).error is None


_PAGES_WITHOUT_A_COPY = """
import os, shutil, socket
with open('sent', 'wb') as file: file.write(b'x' * 5000)
ours, theirs = socket.socketpair()
refusals = []
with open('sent', 'rb') as file, open('/dev/zero', 'rb') as zeros:
    assert ours.sendfile(file) == 5000 == len(theirs.recv(9000))
    try: os.sendfile(ours.fileno(), file.fileno(), 0, 1)
    except OSError as error: refusals.append(error.errno)
    try: os.splice(zeros.fileno(), os.pipe()[1], 1)
    except OSError as error: refusals.append(error.errno)
try: socket.socket().getsockopt(socket.IPPROTO_TCP, 35, 64)  # TCP_ZEROCOPY_RECEIVE
except OSError as error: refusals.append(error.errno)
shutil.copy2('sent', 'copied')
assert os.path.getsize('copied') == 5000
refusals
"""


@pytest.mark.skipif(not engine_check("linux").works, reason="the linux engine does not work here")
async def test_pages_that_no_control_group_is_charged_for_cannot_be_had() -> None:
    async with actbox.open_sandbox("linux") as box:
        result = await box.run(_PAGES_WITHOUT_A_COPY)
    assert result.value == [errno.EINVAL, errno.EINVAL, errno.ENOPROTOOPT], result


@pytest.mark.skipif(not engine_check("linux").works, reason="the linux engine does not work here")
async def test_a_command_cannot_fill_the_file_that_is_its_standard_input() -> None:
    # Nothing would count that, since it is no process's memory and lies in no directory.
    fill = (
        "import os\nfor file in (0, '/proc/self/fd/0'):\n"
        "    try: os.truncate(file, 9)\n    except OSError as error: print(error)"
    )
    async with actbox.open_sandbox("linux") as box:
        refused = await box.execute(["python3", "-c", fill], stdin=b"given")
        assert refused.stdout.count("Operation not permitted") == 2
        assert (await box.execute("cat; echo more >> /proc/self/fd/0", stdin=b"given")).stdout == "given"
