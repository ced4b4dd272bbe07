"""Attempts against lanes: what a program leaves for the next program of the same open sandbox, or does to its pid 1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from actbox import AllowedDomain, FileMount, Policy, Sandbox
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict, escaped_if, stopped, unproven
from tests.escape.ground import Ground
from tests.escape.program import source_of, verdict_of
from tests.waiting import until

GROUP = Group("lanes", Bare.NOTHING_THERE)


async def lane_is_ready(box: Sandbox) -> None:
    """Wait until the next run of a sandbox follows in the lane of the last one, if there is one and it goes on."""
    lanes = box._lanes if isinstance(box, LinuxSandbox) else None
    if lanes is None:
        return

    def is_there() -> bool:
        idle = list(lanes._idle)
        if lanes.renew and any(lane.guest.is_over and lane not in idle for lane in list(lanes._all)):
            return False  # the mounts of its next run are being made
        for lane in idle:
            lane.child.read_now()
        return all(lane._fresh is not None or lane.child.ended for lane in idle)

    await until(is_there)


async def with_a_lane(ground: Ground, policy: Policy | None = None) -> Sandbox:
    """Open a sandbox that has a lane; the first sandboxes of a nursery make none.

    Raises `NotApplicable` where the engine keeps one place for all runs of an open sandbox, and says so.
    """
    if not ground.traits.lanes:
        raise NotApplicable("the engine has no lanes")
    box = await ground.open(policy)
    lanes = box._lanes if isinstance(box, LinuxSandbox) else None
    for _ in range(50):
        await box.run("1")
        if lanes is None or lanes._all:
            break
        await asyncio.sleep(0.02)
    await lane_is_ready(box)
    return box


# The guest's own code lies in the program's process: it says that nothing is left, whatever there is.
_LIE = (
    "import sys\n"
    "for name, module in list(sys.modules.items()):\n"
    "    if name.endswith('guest.main'): module.is_alone = lambda: True\n"
)
# Two sockets that hold each other in transit; the kernel frees them some time after their processes have ended.
_IN_TRANSIT = (
    "import array, socket\n"
    "def keep_in_transit(*held):\n"
    "    one, other = socket.socketpair()\n"
    "    rights = array.array('i', [one.fileno(), other.fileno(), *held])\n"
    "    one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
    "    other.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
)
WORD = "thalassocracy-of-run-one"


def search(word: str) -> str:
    """Return a program that looks for a word in its own memory, without ever making a copy of it there.

    The program has each byte of the word raised by one, and compares memory of which it has raised each byte.
    """
    raised = bytes(byte + 1 for byte in word.encode())
    return (
        "found = []\nraise_all = bytes((byte + 1) % 256 for byte in range(256))\n"
        "for line in open('/proc/self/maps').readlines():\n"
        "    first, last = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "    if line.split()[1][0] == 'r' and not line.rstrip().endswith(('[vvar]', '[vvar_vclock]', '[vsyscall]')):\n"
        "        with open('/proc/self/mem', 'rb', 0) as memory:\n"
        "            memory.seek(first)\n"
        f"            if {raised!r} in memory.read(last - first).translate(raise_all): found.append(line)\n"
        "verdict(bool(found), found)"
    )


RESIDUE: dict[str, tuple[str, str]] = {
    "leave a process": (
        _LIE + "import os, time\nif os.fork() == 0:\n    while True: time.sleep(1)",
        "verdict(any(n.isdigit() and int(n) not in (1, os.getpid()) for n in os.listdir('/proc')), os.listdir('/proc'))",
    ),
    "leave a process that forks for ever": (
        _LIE + "import os\nif os.fork() == 0:\n    while True:\n        if os.fork(): os._exit(0)",
        "verdict(any(n.isdigit() and int(n) not in (1, os.getpid()) for n in os.listdir('/proc')), os.listdir('/proc'))",
    ),
    "leave a thread and a session leader": (
        _LIE + "import os, time\nleader = os.fork()\nif leader: os.waitpid(leader, 0)\n"
        "elif os.setsid() or os.fork(): os._exit(0)\nelse: time.sleep(60)",
        "verdict(any(n.isdigit() and int(n) not in (1, os.getpid()) for n in os.listdir('/proc')), os.listdir('/proc'))",
    ),
    "leave a process beside its own, of which pid 1 is the parent": (
        # CLONE_PARENT and SIGCHLD: the guest's own code truly says that it has no children.
        "if syscall('clone', 0x8011, 0, 0, 0, 0)[0] == 0:\n    import time\n    while True: time.sleep(1)",
        "verdict(any(n.isdigit() and int(n) not in (1, os.getpid()) for n in os.listdir('/proc')), os.listdir('/proc'))",
    ),
    "stop and continue its process while it ends": (
        _LIE + "import os\nme = os.getpid()\nif os.fork() == 0:\n"
        "    while True:\n        os.kill(me, 19)\n        os.kill(me, 18)",
        "verdict(any(n.isdigit() and int(n) not in (1, os.getpid()) for n in os.listdir('/proc')), os.listdir('/proc'))",
    ),
    "leave a file without a name in /tmp": (
        "import os\nheld = [os.open(place, os.O_TMPFILE | os.O_RDWR) for place in ('/tmp', '/dev/shm') for _ in range(9)]",
        "seen = [os.statvfs(place) for place in ('/tmp', '/dev/shm')]\n"
        "verdict(any(one.f_files - one.f_ffree != 1 or one.f_blocks != one.f_bfree for one in seen), seen)",
    ),
    "leave its rank for when memory ends": (
        "open('/proc/self/oom_score_adj', 'w').write('999')",
        "rank = open('/proc/self/oom_score_adj').read()\nverdict(int(rank) == 999, rank)",
    ),
    "leave how its memory and its timers are treated": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        # PR_SET_TIMERSLACK, PR_SET_THP_DISABLE, PR_SET_MDWE
        "print([libc.prctl(*how, 0, 0, 0) for how in ((29, 4321), (41, 1), (65, 1))])\n"
        "open('/proc/self/coredump_filter', 'w').write('0x7f')",
        "libc = library()[1]\nseen = [libc.prctl(30, 0, 0, 0, 0), libc.prctl(42, 0, 0, 0, 0), libc.prctl(66, 0, 0, 0, 0)]\n"
        "seen.append(int(open('/proc/self/coredump_filter').read(), 16))\n"
        "verdict(seen[0] == 4321 or seen[1] == 1 or seen[2] == 1 or seen[3] == 0x7f, seen)",
    ),
    "leave a file in /tmp": ("open('/tmp/left', 'w').write('x')", "verdict(os.path.exists('/tmp/left'))"),
    "leave a file in shared memory": (
        "open('/dev/shm/left', 'w').write('x')",
        "verdict(bool(os.listdir('/dev/shm')), os.listdir('/dev/shm'))",
    ),
    "leave the mode of /tmp changed": (
        "import os\nos.chmod('/tmp', 0o700)",
        "import stat\nverdict(stat.S_IMODE(os.stat('/tmp').st_mode) != 0o1777, oct(os.stat('/tmp').st_mode))",
    ),
    "leave the times of /tmp changed": (
        "import os\nos.utime('/tmp', (1, 1))",
        "verdict(os.stat('/tmp').st_mtime == 1, os.stat('/tmp').st_mtime)",
    ),
    "leave the times of a directory that is empty again": (
        "import os\nos.mkdir('/dev/shm/x')\nos.utime('/dev/shm', (1, 1))\nos.rmdir('/dev/shm/x')\nos.utime('/dev/shm', (1, 1))",
        "verdict(os.stat('/dev/shm').st_mtime == 1, os.stat('/dev/shm').st_mtime)",
    ),
    "leave a socket that listens": (
        _IN_TRANSIT + "sock = socket.create_server(('127.0.0.1', 4711))\nkeep_in_transit(sock.fileno())",
        "refused(lambda: socket.create_connection(('127.0.0.1', 4711), 0.2))",
    ),
    "leave a local socket by a name that is no file": (
        _IN_TRANSIT
        + "sock = socket.socket(socket.AF_UNIX)\nsock.bind('\\0left')\nsock.listen()\nkeep_in_transit(sock.fileno())",
        "one = socket.socket(socket.AF_UNIX)\nrefused(lambda: one.connect('\\0left') or 'connected')",
    ),
    "leave a port that is taken": (
        _IN_TRANSIT + "sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nsock.bind(('127.0.0.1', 4712))\n"
        "keep_in_transit(sock.fileno())",
        "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ntry: one.bind(('127.0.0.1', 4712))\n"
        "except OSError as error: verdict(True, error)\nelse: verdict(False)",
    ),
    "leave a connection that lingers": (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\nname = server.getsockname()\n"
        "one = socket.create_connection(name)\nother, _ = server.accept()\none.close()\nother.close()",
        "lines = open('/proc/self/net/tcp').read().splitlines()[1:]\nverdict(bool(lines), lines)",
    ),
    "leave packets that were counted": (
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x' * 999, ('127.0.0.1', 4713))",
        "lines = [l.split() for l in open('/proc/self/net/dev') if l.strip().startswith('lo:')]\n"
        "verdict(lines[0][1:3] != ['0', '0'], lines)",
    ),
    "leave packets that were counted in the second protocol": (
        "import socket\nsocket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x' * 999, ('::1', 4713))",
        "lines = [l.split() for l in open('/proc/self/net/dev') if l.strip().startswith('lo:')]\n"
        "verdict(lines[0][1:3] != ['0', '0'], lines)",
    ),
    "leave datagrams that nobody has read": (
        _IN_TRANSIT + "sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\nsock.bind('\\0mail')\n"
        "sock.connect('\\0mail')\nsock.send(b'x')\nkeep_in_transit(sock.fileno())",
        "one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\nrefused(lambda: one.connect('\\0mail') or 'connected')",
    ),
    "use up watches of files": (
        _IN_TRANSIT + "import ctypes\nlibc = ctypes.CDLL(None)\nmade = []\n"
        "while (fd := libc.inotify_init()) >= 0: made.append(fd)\nkeep_in_transit(*made)",
        "libc = library()[1]\nmade = [libc.inotify_init() for _ in range(8)]\nverdict(min(made) < 0, made)",
    ),
    "shift the numbers of processes": (
        "import os\nfor _ in range(20):\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
        "verdict(os.getpid() != 2, os.getpid())",
    ),
    "leave a map of project ids": (
        "try: open('/proc/self/projid_map', 'w').write('1111111111 2222222222 1\\n')\nexcept OSError as error: print(error)",
        "held = open('/proc/self/projid_map').read()\nverdict('1111111111' in held, held)",
    ),
    "leave a signal that waits": (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\nos.kill(os.getpid(), signal.SIGUSR1)",
        "import signal\nverdict(bool(signal.sigpending() or signal.pthread_sigmask(signal.SIG_BLOCK, [])), signal.sigpending())",
    ),
    "leave a signal that is ignored": (
        "import signal\nfor n in range(1, 32):\n    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)",
        "import signal\nleft = [n for n in range(1, 32) if n not in (9, 13, 19, 25) and signal.getsignal(n) is signal.SIG_IGN]\n"
        "verdict(bool(left), left)",
    ),
    "leave a timer": (
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.05)",
        "import signal, time\ntime.sleep(0.1)\nverdict(signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0))",
    ),
    "leave limits lowered": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))",
        "import resource\nverdict(resource.getrlimit(resource.RLIMIT_NOFILE)[1] == 30, resource.getrlimit(resource.RLIMIT_NOFILE))",
    ),
    "leave its place in the queue": (
        "import os\nos.nice(7)\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
        "verdict(os.nice(0) != 0, os.nice(0))",
    ),
    "leave the mask of files": ("import os\nos.umask(0)", "verdict(os.umask(0) != 0o022)"),
    "leave a variable": (
        "import os\nos.environ['LEFT'] = 'x'\nos.putenv('LEFT', 'x')",
        "import subprocess\nout = subprocess.run(['env'], capture_output=True, text=True).stdout\nverdict('LEFT' in out, out)",
    ),
    "leave a module changed": (
        "import json, builtins\njson.left = builtins.left = 1",
        "import json, builtins\nverdict(hasattr(json, 'left') or hasattr(builtins, 'left'))",
    ),
    "leave a folder to work in": ("import os\nos.chdir('/tmp')", "verdict(os.getcwd() != '/workspace', os.getcwd())"),
    "leave what it said in memory": (f"word = {WORD!r}\nprint(word)\nword", search(WORD)),
    "leave its name in memory": (
        f"import ctypes, time\nctypes.CDLL(None).prctl(15, {WORD[:15]!r}.encode())\ntime.sleep(0.2)",
        search(WORD[:15]),
    ),
    "leave the name of an open file in memory": (
        f"import os, time\nheld = open('/workspace/{WORD}', 'w')\nos.remove(held.name)\ntime.sleep(0.2)",
        search(WORD),
    ),
    "fill the memory that is counted": (
        "held = open('/dev/shm/big', 'wb')\nheld.write(bytes(40 << 20))",
        "import mmap\nheld = mmap.mmap(-1, 200 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "for at in range(0, len(held), 4096): held[at] = 1\nverdict(False)",
    ),
    "leave a lock on a file": (
        _IN_TRANSIT
        + "import fcntl\nheld = open('/tmp/lock', 'w')\nfcntl.flock(held, fcntl.LOCK_EX)\nkeep_in_transit(held.fileno())",
        "import fcntl\none = open('/tmp/lock', 'w')\ntry: fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError as error: verdict(True, error)\nelse: verdict(False)",
    ),
    "leave a mount seen": (
        "import os\nos.makedirs('/tmp/a/b', exist_ok=True)",
        "places = [l.split()[4] for l in open('/proc/self/mountinfo')]\n"
        # Where nobody counts memory that is shared, another device covers /dev/zero.
        "twice = [p for p in places if places.count(p) > 1 and not p.startswith('/proc') and p != '/dev/zero']\n"
        "verdict(bool(twice), places)",
    ),
}


_CONNECTIONS = (
    "lines = [l for l in open('/proc/self/net/tcp').read().splitlines()[1:] if l.split()[3] != '0A']\n"
    "verdict(bool(lines), lines)"
)
_ASKED = "sock = socket.create_connection(('127.0.0.1', 3128))\nsock.sendall(b'GET http://other.test/ HTTP/1.1\\r\\n"

_RESIDUE_OF_NETWORKS: dict[str, tuple[str, str]] = {
    "leave half a request at the proxy": (_IN_TRANSIT + _ASKED + "')\nkeep_in_transit(sock.fileno())", _CONNECTIONS),
    "leave an answer of the proxy that nobody has read": (
        _IN_TRANSIT
        + _ASKED
        + "Host: other.test\\r\\n\\r\\n')\nsock.recv(1, socket.MSG_PEEK)\nkeep_in_transit(sock.fileno())",
        _CONNECTIONS,
    ),
    "leave connections that nobody has accepted": (
        _IN_TRANSIT
        + "made = []\nfor _ in range(60):\n    made.append(socket.socket())\n    made[-1].setblocking(False)\n"
        "    made[-1].connect_ex(('127.0.0.1', 3128))\nkeep_in_transit(*(one.fileno() for one in made))",
        _CONNECTIONS,
    ),
    "leave questions at the name server": (
        "import socket\none = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(2000): one.sendto(b'x' * 40, ('127.0.0.1', 53))",
        "lines = [l.split() for l in open('/proc/self/net/udp').read().splitlines()[1:]]\n"
        "verdict(any(l[4] != '00000000:00000000' or l[-1] != '0' for l in lines), lines)",
    ),
    "answer in the place of the proxy": (
        _IN_TRANSIT + "made = []\n"
        "for family, name in ((2, '127.0.0.1'), (2, '0.0.0.0'), (10, '::'), (10, '::ffff:127.0.0.1')):\n"
        "    one = socket.socket(family)\n    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n    try:\n        one.bind((name, 3128))\n"
        "        one.listen()\n        made.append(one.fileno())\n    except OSError as error: print(error)\n"
        "keep_in_transit(*made)",
        "import socket\n" + _ASKED + "Host: other.test\\r\\n\\r\\n')\nsock.settimeout(20)\n"
        "try: got = sock.recv(4096)\nexcept OSError as error: got = repr(error).encode()\n"
        "verdict(b'Refused by the network policy' not in got, got)",
    ),
    "change the files of the network": (
        "import os\nfor path in ('/etc/hosts', '/etc/resolv.conf', '/etc/actbox/hosts', '/etc/actbox/resolv.conf'):\n"
        "    for act in (lambda: open(path, 'a').write('left'), lambda: os.chmod(path, 0o666), lambda: os.remove(path),\n"
        "                lambda: os.utime(path, (1, 1)), lambda: os.rename('/etc/actbox', '/etc/aside')):\n"
        "        try: act()\n        except OSError as error: print(error)",
        "seen = [(p, os.stat(p).st_mode, os.stat(p).st_mtime, open(p).read()) for p in ('/etc/hosts', '/etc/resolv.conf')]\n"
        "verdict(any(m & 0o222 or t == 1 or 'left' in text for _, m, t, text in seen), seen)",
    ),
}


def _with_network(ground: Ground) -> Policy:
    return Policy(domains=(AllowedDomain("allowed.test"),))


def _with_mounts(ground: Ground) -> Policy:
    """Mount a directory with a file `mark` where a program can move what it lies on, and one read-only."""
    folder = ground.folder()
    (folder / "mark").write_text("the host's")
    return Policy(mounts=(FileMount(folder, "/workspace/below/data", "rw"), FileMount(folder, "/data")))


_RESIDUE_OF_MOUNTS: dict[str, tuple[str, str]] = {
    "move what a mount lies on": (
        "import os, time\nos.rename('/workspace/below', f'/workspace/aside{time.time_ns()}')",
        "import glob\nfound = glob.glob('/workspace/aside*/data/*')\n"
        "verdict(bool(found) or not os.path.exists('/workspace/below/data/mark'), found)",
    ),
    "write to a read-only mount once the rules about files were made anew": (
        "open('/tmp/touched', 'w').close()",
        "refused(lambda: open('/data/mark', 'a'))",
    ),
}


def with_overlay(ground: Ground) -> Policy:
    """Mount a directory with a file `mark` as an overlay, of which nothing is reported."""
    folder = ground.folder()
    (folder / "mark").write_text("the host's")
    return Policy(mounts=(FileMount(folder, "/data", "overlay"),))


_RESIDUE_OF_OVERLAYS: dict[str, tuple[str, str]] = {
    "leave changes in an overlay": (
        "import os\nopen('/data/left', 'w').write('x')\nopen('/data/mark', 'a').write('left')\nos.mkdir('/data/more')",
        "seen = [sorted(os.listdir('/data')), open('/data/mark').read()]\n"
        "verdict(seen != [['mark'], \"the host's\"], seen)",
    ),
    "leave a file without a name in an overlay": (
        _IN_TRANSIT + "import os\nheld = os.open('/data', os.O_TMPFILE | os.O_RDWR)\nos.write(held, bytes(100_000))\n"
        "keep_in_transit(held)",
        "room = os.statvfs('/data')\nverdict(room.f_blocks != room.f_bfree, room)",
    ),
    "leave the mode and the times of an overlay changed": (
        "import os\nos.chmod('/data', 0o700)\nos.utime('/data', (1, 1))",
        "seen = os.stat('/data')\nverdict(seen.st_mtime == 1 or seen.st_mode & 0o777 == 0o700, seen)",
    ),
    "leave the numbers of files in an overlay counted on": (
        "import os\nfor _ in range(200): os.close(os.open('/data', os.O_TMPFILE | os.O_RDWR))",
        "number = os.fstat(os.open('/data/new', os.O_CREAT | os.O_RDWR)).st_ino\nverdict(number > 200, number)",
    ),
}


def leaves(what: str, leave: str, look: str, policy: Callable[[Ground], Policy | None] = lambda ground: None) -> None:
    @GROUP.function(what)
    async def _(ground: Ground) -> Verdict:
        box = await with_a_lane(ground, policy(ground))
        for _ in range(2):
            left = await box.run(source_of(leave, ground.things), timeout=20)
            if left.error is not None and "Error" in left.error.type:
                return unproven(left.error)
            await lane_is_ready(box)
            seen = verdict_of(await box.run(source_of(look, ground.things), timeout=20))
            if seen.outcome.value != "stopped":
                return seen
            await lane_is_ready(box)
        return seen


for _what, (_leave, _look) in RESIDUE.items():
    leaves(_what, _leave, _look)
for _what, (_leave, _look) in _RESIDUE_OF_NETWORKS.items():
    leaves(_what, _leave, _look, _with_network)
for _what, (_leave, _look) in _RESIDUE_OF_MOUNTS.items():
    leaves(_what, _leave, _look, _with_mounts)
for _what, (_leave, _look) in _RESIDUE_OF_OVERLAYS.items():
    leaves(_what, _leave, _look, with_overlay)


@GROUP.function("see a directory of the host that was replaced since the last run")
async def _(ground: Ground) -> Verdict:
    folder = ground.folder()
    (folder / "mark").write_text("of the first directory")
    box = await with_a_lane(ground, Policy(mounts=(FileMount(folder, "/data"),)))
    folder.rename(folder.with_name(folder.name + "-aside"))
    folder.mkdir(mode=0o755)
    seen = await box.run("print(open('/data/mark').read())")
    return escaped_if("first directory" in seen.stdout, [seen.stdout, seen.error])


@GROUP.function("move what a mount lies on while a lane of another run waits")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground, _with_mounts(ground))
    await asyncio.gather(*(box.run("import time\ntime.sleep(0.2)") for _ in range(2)))
    await lane_is_ready(box)
    moved = await box.run("import os\nos.rename('/workspace/below', '/workspace/aside')")
    if moved.error is not None:
        return unproven(moved.error)
    look = "import os\nos.path.exists('/workspace/below/data/mark'), os.path.exists('/workspace/aside/data/mark')"
    seen = [(await box.run(look)).value for _ in range(2)]
    return escaped_if(seen != [(True, False)] * 2, seen)


async def one_by_one(box: Sandbox, codes: Sequence[str]) -> AsyncIterator[str]:
    """Yield programs for one call of `map`, each once those before are over and their sandboxes are ready."""
    siblings = box._siblings if isinstance(box, LinuxSandbox) else None

    def are_ready() -> bool:
        if siblings is None:
            return True
        ready = {idle.sibling for idle in siblings._untouched if idle.sibling.is_quiet}
        return ready == siblings._all

    for code in codes:
        await until(are_ready)
        yield code


async def _in_one_call(ground: Ground, codes: list[str]) -> list[Verdict]:
    """Run programs one after the other in one call of `map`; return their verdicts."""
    box = await with_a_lane(ground)
    programs = one_by_one(box, [source_of(code, ground.things) for code in codes])
    return [verdict_of(result) async for result in box.map(programs, concurrency=1, timeout=20)]


# Whatever lies in the workspace, or takes room there without a name, or is mounted over it, or has been done to it.
_LOOK_AT_WORKSPACE = (
    "import os\nsystem, own = os.statvfs('.'), os.stat('.')\n"
    "places = [l.split()[4] for l in open('/proc/self/mountinfo') if l.split()[4].startswith('/workspace')]\n"
    "seen = [sorted(os.listdir()), os.listdir('/input'), os.listdir('/output'), system.f_files - system.f_ffree,\n"
    "        oct(own.st_mode), own.st_mtime == 1, sorted(places)]\n"
    "wrong = seen != [['input', 'output'], [], [], 3, '0o40755', False, ['/workspace', '/workspace/input']]\n"
)


@GROUP.function("leave its workspace to the next program of a call of map")
async def _(ground: Ground) -> Verdict:
    leave = (
        "verdict(wrong, seen)\nos.makedirs('a/b')\nos.rename('a', '...')\nos.symlink('/tmp', 'link')\n"
        "held = os.open('.', os.O_TMPFILE | os.O_RDWR)\nos.write(held, b'x' * 9999)\n"
        "top = os.open('.', os.O_RDONLY)\n"
        "for _ in range(3000):\n    os.mkdir('deep')\n    os.chdir('deep')\n"
        "os.chdir(top)\nopen('/output/left', 'w').close()\nos.chmod('...', 0)\n"
        "os.rename('output', '.aside')\nos.symlink('/etc', 'output')\nos.utime('/workspace', (1, 1))"
    )
    seen = await _in_one_call(ground, [_LOOK_AT_WORKSPACE + leave] * 4)
    return next((one for one in seen if one.outcome.value != "stopped"), seen[-1])


@GROUP.function("reach the workspace of the last program of a call of map by what was open")
async def _(ground: Ground) -> Verdict:
    leave = (
        _IN_TRANSIT + "import mmap, os\nopen('mark', 'w').write('x' * 4096)\n"
        "held = [os.open(place, os.O_RDONLY) for place in ('.', '/input', '/output', 'mark')]\n"
        "mapped = mmap.mmap(held[3], 0, prot=mmap.PROT_READ)\n"
        "os.chdir('/output')\nkeep_in_transit(*held)\nverdict(False)"
    )
    look = _LOOK_AT_WORKSPACE + (
        "tries = [f'/proc/{p}/{n}' for p in ('1', 'self') for n in ('cwd', 'root/workspace')]\n"
        "tries += [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')] + ['/workspace/..', '/workspace/input/..']\n"
        "found = [t for t in tries if os.path.exists(t + '/mark')]\nverdict(wrong or bool(found), [seen, found])"
    )
    seen = await _in_one_call(ground, [leave, look, "open('x', 'w').close()\nverdict(False)", look])
    return next((one for one in seen if one.outcome.value != "stopped"), seen[-1])


@GROUP.function("hold pid 1 by its own channel")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground)
    code = (
        "import stat\nheld = []\nfor n in range(3, 64):\n"
        "    try:\n        if stat.S_ISSOCK(os.fstat(n).st_mode): held.append(n)\n    except OSError: pass\n"
        "got = []\nfor n in held:\n    one = socket.socket(fileno=os.dup(n))\n    for option in (77,):\n"
        "        try: got.append(one.getsockopt(socket.SOL_SOCKET, option))\n        except OSError: pass\n"
        "    try: one.setsockopt(socket.SOL_SOCKET, 76, 1)\n    except OSError: pass\n    else: got.append('passes')\n"
        "if not held: not_applicable('there is no socket')\nverdict(bool(got), got)"
    )
    for _ in range(2):
        await lane_is_ready(box)
        seen = await ground.tries(box, code)
        if seen.outcome.value != "stopped":
            return seen
    return seen


@GROUP.function("signal pid 1 as the owner of a descriptor")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground)
    code = (
        "import fcntl, os, socket\none, other = socket.socketpair()\n"
        "for number in (*range(1, 9), *range(10, 19), *range(20, 32), 34, 40, 64):\n"
        "    try: fcntl.fcntl(one, fcntl.F_SETOWN, 1)\n    except PermissionError as error: print(error)\n"
        "    fcntl.fcntl(one, 10, number)\n"
        "    fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\n    other.send(b'x')\n"
    )
    results = []
    for _ in range(3):
        results.append(await box.run(code))
        await lane_is_ready(box)
    results.append(await box.run("print('still here')"))
    return escaped_if(not all(result.success for result in results), [result.error for result in results])


@GROUP.function("come to its end at each instant of the handover")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground)
    wrong, missed = list[Any](), list[Any]()
    for instant in range(24):
        code = (
            "import os, signal, sys, threading, time\n"
            "for name, module in list(sys.modules.items()):\n"
            "    if name.endswith('guest.main'): main = module\n"
            "send = main.send_result\n"
            "def send_and_end(channel, done, os=os, time=time, send=send):\n"
            f"    done['alone'] = {instant % 2 == 0}\n"
            f"    if {instant % 3 == 0}: os.fork()\n"
            "    sent = send(channel, done)\n"
            f"    time.sleep({instant % 5 * 0.0005})\n"
            f"    os.kill(os.getpid(), {[9, 11, 15, 19][instant % 4]}) if {instant % 8 != 7} else os._exit({instant})\n"
            "    return sent\n"
            "main.send_result = send_and_end\nprint('one')"
        )
        ended = await box.run(code, timeout=5)
        if ended.exit_code != 0:  # it has not ended where it was meant to
            missed.append([instant, ended])
            continue
        await lane_is_ready(box)
        after = await box.run("import os\n[os.getpid(), sorted(n for n in os.listdir('/proc') if n.isdigit())]")
        if after.value != [2, ["2"]]:
            wrong.append([instant, after.value, after.error])
    return unproven(missed) if missed and not wrong else escaped_if(bool(wrong), wrong)


@GROUP.function("attack what pid 1 makes between runs")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground)
    attacker = _LIE + (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    for _ in range(8): os.fork()\n"
        "    while True:\n"
        "        for n in os.listdir('/proc'):\n"
        "            if not n.isdigit() or int(n) == os.getpid(): continue\n"
        "            for name in ('mem', 'oom_score_adj', 'comm'):\n"
        "                try: os.write(os.open(f'/proc/{n}/{name}', os.O_WRONLY), b'attacked')\n"
        "                except OSError: pass\n"
        "            try: os.kill(int(n), signal.SIGSTOP)\n"
        "            except OSError: pass\n"
    )
    wrong: list[Any] = []
    for _ in range(6):
        await box.run(attacker, timeout=10)
        await lane_is_ready(box)
        after = await box.run(
            "import os\n[os.getpid(), open('/proc/self/comm').read(), len(os.listdir('/proc/self/task'))]"
        )
        if after.value != [2, "actbox-guest\n", 1]:
            wrong.append([after.value, after.error])
    return escaped_if(bool(wrong), wrong)


@GROUP.function("have fewer walls as a later guest")
async def _(ground: Ground) -> Verdict:
    box = await with_a_lane(ground)
    code = (
        "import os, ctypes\n"
        "status = dict(l.split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n"
        "{n: status[n] for n in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Uid', 'Gid',"
        " 'Groups', 'SigBlk', 'SigIgn', 'SigPnd', 'ShdPnd', 'NSpid', 'Threads')}"
        " | {'dumpable': ctypes.CDLL(None).prctl(3), 'fds': sorted(os.listdir('/proc/self/fd')),"
        " 'oom': open('/proc/self/oom_score_adj').read(), 'sid': os.getsid(0), 'ppid': os.getppid(),"
        " 'cgroup': open('/proc/self/cgroup').read()}"
    )
    seen = []
    for _ in range(4):
        seen.append((await box.run(code)).value)
        await lane_is_ready(box)
    if None in seen:
        return unproven(seen)
    return escaped_if(any(one != seen[0] for one in seen), seen)


@GROUP.function("be in one place with a run at the same time")
async def _(ground: Ground) -> Verdict:
    if ground.traits.walls != "run":
        raise NotApplicable("runs at once share a place on this engine, and it says so")
    box = await ground.open()
    code = "import os, time\nopen('/tmp/mark', 'w')\ntime.sleep(0.2)\nsorted(n for n in os.listdir('/proc') if n.isdigit())"
    for _ in range(3):
        results = await asyncio.gather(*(box.run(code) for _ in range(4)))
        seen = [result.value for result in results]
        if seen != [["2"]] * 4:
            return escaped_if(True, seen)
    return stopped(seen)
