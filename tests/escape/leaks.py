"""Attempts to learn what is not the guest's to know: of the host, of other guests, of runs before it."""

from __future__ import annotations

from actbox.sandbox.contract import closing
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict, escaped_if, unproven
from tests.escape.ground import Ground, first_output

GROUP = Group("information leaks", Bare.NOTHING_THERE)

# What is looked for is given backwards, or a program would find it in its own source.
_SEARCH_OWN_MEMORY = (
    "def found_in_memory(backwards):\n"
    "    found, looked = [], 0\n"
    "    for line in open('/proc/self/maps').readlines():\n"
    "        first, last = (int(x, 16) for x in line.split()[0].split('-'))\n"
    "        if line.split()[1][0] == 'r' and not line.rstrip().endswith(('[vvar]', '[vvar_vclock]', '[vsyscall]')):\n"
    "            with open('/proc/self/mem', 'rb', 0) as memory:\n"
    "                memory.seek(first)\n"
    "                looked += last - first\n"
    "                if backwards in memory.read(last - first)[::-1]: found.append(line)\n"
    "    assert looked > 1 << 20\n"
    "    return found\n"
)

# Of a user who has no key the kernel shows nothing, also where nothing is hidden.
_OWN_KEY = (
    "import contextlib\nwith contextlib.suppress(Exception):\n    import ctypes\n"
    "    ctypes.CDLL(None).syscall(NUMBERS['add_key'], b'user', b'x', b'y', 1, -3)\n"
)

GROUP.programs(
    {
        "learn the users of the host": (
            "users = [l.split(':')[0] for l in open('/etc/passwd')]\nverdict(set(users) - {'root', 'agent'} != set(), users)"
        ),
        "learn the groups of the host": (
            "groups = [l.split(':')[0] for l in open('/etc/group')]\nverdict(set(groups) - {'root', 'agent'} != set(), groups)"
        ),
        "learn the host's name from its files": "verdict(open('/etc/hostname').read().strip() != 'actbox')",
        "learn the host's name from the kernel": "verdict(os.uname().nodename != 'actbox', os.uname())",
        "learn the host's name from the list of names": (
            "names = {n for l in open('/etc/hosts') if l.strip() and l[0] != '#' for n in l.split()[1:]}\n"
            "verdict(names != {'localhost', 'actbox'}, names)"
        ),
        "have more than the five devices": (
            "own = {'null', 'zero', 'full', 'random', 'urandom', 'fd', 'stdin', 'stdout', 'stderr', 'shm'}\n"
            "extra = set(os.listdir('/dev')) - own\nverdict(bool(extra), extra)"
        ),
        "see temporary files that are not its own": (
            # An environment that lies below the host's /tmp is seen there, and nothing else.
            "left = [name for name in os.listdir('/tmp') if not sys.prefix.startswith('/tmp/' + name)]\nverdict(bool(left), left)"
        ),
        "see a System V segment of the host": "denied(call('shmget', {memory_key}, 0, 0))",
        "see System V semaphores of the host": "done, why = call('semget', {memory_key}, 0, 0)\nverdict(done >= 0, why)",
        # Of these a sandbox has files of its own, which say what the run may have.
        "read how many processes the host has": (
            "refused(lambda: [n for n in open('/proc/loadavg').read().split()[3:] if n not in ('1/1', '1')][0])"
        ),
        "read how long the host has run": (
            "import time\n"
            "refused(lambda: 1 / (abs(float(open('/proc/uptime').read().split()[0]) - time.monotonic()) < 9))"
        ),
        "read what memory the host has": "refused(lambda: open('/proc/meminfo').read().index('VmallocTotal'))",
        "read what processors the host has": "refused(lambda: open('/proc/cpuinfo').read().lower().index('bogomips'))",
        "read how the kernel was built": "refused(lambda: open('/proc/version').read()[0])",
        "read what interrupts there were": "refused(lambda: open('/proc/interrupts').read()[0])",
        "read which disks the host has": "refused(lambda: open('/proc/partitions').read()[0])",
        "read which modules the kernel has": "refused(lambda: open('/proc/devices').read()[0])",
        "read the statistics of the machine": "refused(lambda: open('/proc/stat').read().index('softirq'))",
        "read the id of the machine's boot": "refused(lambda: open('/proc/sys/kernel/random/boot_id').read()[0])",
        "read which file systems the kernel has": "refused(lambda: open('/proc/filesystems').read()[0])",
        "read how much pressure there is": "refused(lambda: open('/proc/pressure/cpu').read()[0])",
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "see the host's environment": (
            "verdict({canary!r} in str(os.environ) or {canary!r}.encode() in open('/proc/self/environ', 'rb').read())"
        ),
        "find the host's environment in its own memory": _SEARCH_OWN_MEMORY
        + "found = found_in_memory({canary_backwards!r}.encode())\nverdict(bool(found), found)",
        "see the host's environment in a program that it starts": (
            "import subprocess\nout = subprocess.run(['env'], capture_output=True, text=True).stdout\nverdict({canary!r} in out)"
        ),
        "see what another run left in shared memory": "verdict(bool(os.listdir('/dev/shm')), os.listdir('/dev/shm'))",
        "see what another run left in the workspace": (
            "left = [n for n in os.listdir('/workspace') if n not in ('input', 'output')]\nverdict(bool(left), left)"
        ),
        "hold a descriptor of the host's": (
            "links = {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
            " if os.path.lexists(f'/proc/self/fd/{n}')}\n"
            "others = {n: k for n, k in links.items() if not k.startswith(('pipe:', 'socket:', '/dev/null', '/proc/'))}\n"
            "own = [k for k in links.values() if k != '/dev/null']\n"  # the guest keeps a few of that back for its last words
            "verdict(bool(others) or len(own) > 5, links)"
        ),
        "find a descriptor of the host's in a program that it starts": (
            "import subprocess\nout = subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True).stdout.split()\n"
            "verdict(set(out) - {'0', '1', '2', '3'} != set(), out)"
        ),
        "learn which control group it is in": (
            "found = [l for l in open('/proc/self/cgroup') if not l.rstrip().endswith(':/')]\nverdict(bool(found), found)"
        ),
        "learn the host's login": (
            "found = open('/proc/self/loginuid').read().strip()\nverdict(found not in ('4294967295', '0', '1000'), found)"
        ),
        "learn who is logged in": "refused(lambda: open('/var/run/utmp', 'rb').read(100))",
        "learn the addresses of the kernel's stack": "refused(lambda: open('/proc/self/stack').read())",
        "learn where in the machine its memory lies": (
            "import mmap\nheld = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nheld[0] = 1\nctypes, libc = library()\n"
            "address = ctypes.addressof(ctypes.c_char.from_buffer(held))\n"
            "with open('/proc/self/pagemap', 'rb', 0) as file:\n    file.seek(address // 4096 * 8)\n    entry = struct.unpack('Q', file.read(8))[0]\n"
            "verdict(entry & (1 << 55) - 1 != 0, hex(entry))"
        ),
        "learn what pages of the machine are used for": "refused(lambda: open('/proc/kpageflags', 'rb').read(8))",
        "learn which page is used by whom": "refused(lambda: open('/proc/kpagecgroup', 'rb').read(8))",
        "learn what the kernel's caches hold": "refused(lambda: open('/proc/slabinfo').read()[0])",
        "learn timers of others": "refused(lambda: open('/proc/timer_list').read()[0])",
        "learn keys of others": _OWN_KEY + "refused(lambda: open('/proc/keys').read()[0])",
        "learn locks of others": (
            "import fcntl\nown = open('own', 'w')\nfcntl.flock(own, fcntl.LOCK_EX)\nrefused(lambda: open('/proc/locks').read()[0])"
        ),
        "learn schedules of others": "refused(lambda: open('/sys/kernel/debug/sched/debug').read())",
        "learn the machine's serial number": "refused(lambda: open('/sys/class/dmi/id/product_serial').read())",
        "learn the machine's network address": "refused(lambda: open('/sys/class/net/eth0/address').read())",
        "learn the host's domain": (
            "at = buffer(100)\nlibrary()[1].getdomainname(at, 100)\nverdict(at.value not in (b'', b'(none)'), at.value)"
        ),
        "learn the groups of the host from its socket": (
            "import stat\nnumbers = [n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')]\n"
            "sockets = [n for n in numbers if stat.S_ISSOCK(os.fstat(n).st_mode)]\n"
            "if not sockets: not_applicable('there is no socket that the host has made')\n"
            "host = socket.socket(fileno=os.dup(sockets[0]))\ngroups = host.getsockopt(socket.SOL_SOCKET, 59, 256)\n"
            "numbers = {struct.unpack_from('i', groups, at)[0] for at in range(0, len(groups), 4)}\n"
            "verdict(numbers - {65534, os.getgid()} != set(), numbers)"
        ),
        "find something in memory that is fresh": (
            "import mmap\nheld = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nverdict(any(held[at:at + 4096] != bytes(4096) for at in range(0, 64 << 20, 4096)))"
        ),
        "find something in a file that was made longer": (
            "with open('a', 'wb+') as file:\n    file.truncate(8 << 20)\n    os.posix_fallocate(file.fileno(), 0, 8 << 20)\n"
            "    verdict(file.read() != bytes(8 << 20))"
        ),
        "find something in a pipe that is fresh": (
            "read, write = os.pipe()\nos.set_blocking(read, False)\nrefused(lambda: os.read(read, 100))"
        ),
        "find something behind the end of the program's own file": (
            "import mmap\nwith open('a', 'wb+') as file:\n    file.write(b'x')\n    file.flush()\n"
            "    verdict(mmap.mmap(file.fileno(), 1)[:] != b'x')"
        ),
        "find an open session's key ring": _OWN_KEY + "refused(lambda: open('/proc/key-users').read()[0])",
    }
)

_MARK = "left-by-" + "another"


async def _left_by_another(ground: Ground, leave: str, look: str) -> Verdict:
    """Let one run leave something, and look for it in another of the same sandbox."""
    box = await ground.open()
    left = await box.run(leave)
    if not left.success:
        return unproven(left.error)
    return await ground.tries(box, look)


def _between_runs(what: str, leave: str, look: str, bare: Bare | None = None) -> None:
    async def between(ground: Ground) -> Verdict:
        return await _left_by_another(ground, leave, look)

    GROUP.function(what, bare)(between)


_between_runs(
    "find another run's text in its own memory",
    f"import os\nheld = [{_MARK!r} + str(n) * 100 for n in range(1000)]\nos.environ['LEFT'] = held[0]",
    _SEARCH_OWN_MEMORY + f"found = found_in_memory({_MARK[::-1]!r}.encode())\nverdict(bool(found), found)",
)
_between_runs(
    "find another run's variables",
    "kept = 1\nimport builtins\nbuiltins.kept = 2",
    "verdict('kept' in globals() or 'kept' in dir(__builtins__))",
)
_between_runs(
    "find what another run did to a module",
    "import json, sys\njson.left = sys.left = 1",
    "import json\nverdict(hasattr(json, 'left') or hasattr(sys, 'left'))",
)
_between_runs(
    "find another run's environment",
    "import os\nos.environ['LEFT'] = '1'\nos.putenv('LEFT', '1')",
    "import subprocess\nverdict('LEFT' in os.environ or 'LEFT=' in subprocess.run(['env'], capture_output=True, text=True).stdout)",
)
_between_runs("find another run's folder", "import os\nos.chdir('/tmp')", "verdict(os.getcwd() == '/tmp')")
_between_runs("find another run's mask", "import os\nos.umask(0o077)", "verdict(os.umask(0o022) == 0o077)")
_between_runs("find another run's priority", "import os\nos.nice(7)", "verdict(os.nice(0) == 7)")
_between_runs(
    "find another run's limits",
    "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nresource.setrlimit(resource.RLIMIT_NOFILE, (77, 77))",
    "import resource\nverdict(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 77)",
)
_between_runs(
    "find another run's handlers of signals",
    "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nsignal.pthread_sigmask(0, [signal.SIGUSR2])",
    "import signal\nverdict(signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN or bool(signal.pthread_sigmask(0, [])))",
)
_between_runs(
    "find another run's files in /tmp",
    "open('/tmp/left', 'w').close()\nopen('/dev/shm/left', 'w').close()",
    "verdict(os.path.exists('/tmp/left') or os.path.exists('/dev/shm/left'))",
)
_between_runs(
    "find another run's semaphores",
    "import ctypes, os\nassert ctypes.CDLL(None).sem_open(b'/left', os.O_CREAT, 0o666, 1)",
    "done, why = call('sem_open', b'/left', 0)\nverdict(done != 0, why)",
)
_between_runs(
    "guess random numbers that another run had",
    "import random, uuid, os\nopen('drawn', 'w').write(f'{random.random()} {uuid.uuid4()} {os.urandom(8).hex()}')",
    "import random, uuid\nnow = f'{random.random()} {uuid.uuid4()} {os.urandom(8).hex()}'.split()\n"
    "verdict(bool(set(now) & set(open('drawn').read().split())), now)",
)
_between_runs(
    "tell from its number how many ran before it",
    "import os\nopen('number', 'w').write(str(os.getpid()))",
    "verdict(os.getpid() != int(open('number').read()), os.getpid())",
    Bare.GETS_THROUGH,
)


@GROUP.function("see another guest's files and processes")
async def _(ground: Ground) -> Verdict:
    one, two = await ground.open(), await ground.open()
    await one.write_file("mine", b"x")
    waiting = one.stream("import time\nprint('ready', flush=True)\ntime.sleep(20)")
    async with closing(waiting):
        await first_output(waiting)
        return await ground.tries(
            two,
            "seen = [n for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()]\n"
            "verdict(bool(seen) or os.path.exists('/workspace/mine'), seen)",
        )


@GROUP.function("see another sandbox's files and processes")
async def _(ground: Ground) -> Verdict:
    one, two = await ground.open(), await ground.open()
    await one.write_file("mine", b"x")
    known = "/workspace/known-by-its-name"
    waiting = one.stream(
        f"import shutil, subprocess, time\nshutil.copy(shutil.which('sleep'), {known!r})\n"
        f"subprocess.Popen([{known!r}, '20'])\nprint('ready', flush=True)\ntime.sleep(20)"
    )
    async with closing(waiting):
        await first_output(waiting)
        return await ground.tries(
            two,
            "lines = []\nfor name in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try: lines.append(open(f'/proc/{name}/cmdline').read())\n    except OSError: pass\n"
            f"verdict(any({known[1:]!r} in line for line in lines) or os.path.exists('/workspace/mine'), lines)",
        )


@GROUP.function("tell whether the sandbox has been used before")
async def _(ground: Ground) -> Verdict:
    """What a guest sees of itself must be the same after many others as before them."""
    look = (
        "import os, resource, sys, threading\n"
        "[os.getpid(), sorted(os.listdir('/proc/self/fd')), sorted(os.listdir('/tmp')), threading.active_count(), "
        "sorted(os.environ), os.getcwd(), len(open('/proc/self/mounts').readlines()), open('/proc/self/net/tcp').read().count('\\n')]"
    )
    box = await ground.open()
    first = (await box.run(look)).value
    if first is None:
        raise NotApplicable("a guest cannot look at itself here")
    for _ in range(10):
        await box.run("import socket, os\nsocket.create_server(('127.0.0.1', 9999))\nopen('/tmp/x', 'w').close()")
    last = (await box.run(look)).value
    return escaped_if(first != last, (first, last))


@GROUP.function("find what the host and its paths are like in an error of the sandbox's own")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    texts = []
    for code in (
        "1 / 0",
        "def",
        "import nothing_of_that_name",
        "open('/nowhere')",
        "import os\nos.kill(os.getpid(), 9)",
    ):
        error = (await box.run(code)).error
        assert error is not None
        texts.append(f"{error.message}{error.traceback}{error.hint}")
    words = (ground.things["host_folder"], ground.things["checkout"], "actbox/sandbox", "guest/")
    return escaped_if(any(word in text for word in words for text in texts), texts)


@GROUP.function("find the host's variables in a command")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    said = (await box.execute("env; cat /proc/self/environ; set")).stdout
    return unproven(said) if "PATH=" not in said else escaped_if(ground.things["canary"] in said)
