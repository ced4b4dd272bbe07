"""Attempts to break out, as a table: each a small program that prints a canary only when it got where it must not.

A program's own failure is no success of the sandbox by itself, so each ends by saying which it was: it prints
`ESCAPED` where it got through, `STOPPED` where it was refused. One that prints neither proves nothing, and fails the test.
Attempts that need something of this host get it by name: `{name}` in the code is replaced (see `test_escape.py`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One attempt: its group, what it tries, and the program."""

    group: str
    what: str
    code: str


# What the attempts share: system calls by number where the C library has no name for them.
PRELUDE = """
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *args):
    ctypes.set_errno(0)
    done = getattr(libc, name)(*args)
    return done, errno.errorcode.get(ctypes.get_errno(), "")

def syscall(number, *args):
    return call("syscall", number, *args)

def verdict(escaped, why=""):
    print("ESCAPED" if escaped else "STOPPED", why)

def refused(action):
    try:
        got = action()
    except Exception as error:
        verdict(False, repr(error))
    else:
        verdict(True, repr(got)[:200])
"""


def _reads(path: str) -> str:
    return f"refused(lambda: open({path!r}, 'rb').read(100))"


def _lists(path: str) -> str:
    return f"refused(lambda: os.listdir({path!r}))"


def _writes(path: str) -> str:
    return f"refused(lambda: open({path!r}, 'ab').write(b'x'))"


def _fails(expression: str) -> str:
    return f"done, why = {expression}\nverdict(done >= 0, why)"


def _ends_or_fails(expression: str) -> str:
    """For what may end the process: tried in a child, whose own word counts when it has lived to say it."""
    return (
        f"pid = os.fork()\nif pid == 0:\n    done, why = {expression}\n    os._exit(42 if done >= 0 else 1)\n"
        "status = os.waitpid(pid, 0)[1]\nverdict(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 42, status)"
    )


_FILES = {
    "read /etc/shadow": _reads("/etc/shadow"),
    "read /etc/machine-id": _reads("/etc/machine-id"),
    "list the host's /root": "refused(lambda: [n for n in os.listdir('/root') if n != '.pyenv'][0])",
    "list the host's home folders": "refused(lambda: os.listdir('/home')[0])",
    "read a file of the host's by its path": "refused(lambda: open({host_file!r}).read())",
    "list the folder of the tests": "refused(lambda: os.listdir({checkout!r}))",
    "reach the host's root through pid 1": "refused(lambda: os.listdir('/proc/1/root'))",
    "reach the host's root through pid 1's folder": "refused(lambda: os.listdir('/proc/1/cwd'))",
    "walk out with ..": "refused(lambda: open('/tmp/../../../..' + {host_file!r}).read())",
    "walk out of an open folder": (
        "fd = os.open('/', os.O_RDONLY)\nrefused(lambda: os.open('../../..' + {host_file!r}, os.O_RDONLY, dir_fd=fd))"
    ),
    "walk out through its own root": "refused(lambda: open('/proc/self/root/..' + {host_file!r}).read())",
    "walk out through its own folder": "refused(lambda: open('/proc/self/cwd' + '/..' * 20 + {host_file!r}).read())",
    "walk out through its descriptors": (
        "found = []\n"
        "for n in os.listdir('/proc/self/fd'):\n"
        "    try:\n"
        "        found.append(open(f'/proc/self/fd/{n}/../../../..' + {host_file!r}).read())\n"
        "    except OSError:\n"
        "        pass\n"
        "verdict(bool(found), found)"
    ),
    "follow a link of its own": "os.symlink({host_file!r}, 'link')\nrefused(lambda: open('link').read())",
    "hard-link a file of the host's": "refused(lambda: os.link({host_file!r}, 'linked'))",
    "change the interpreter's library in memory that is shared": (
        "import mmap\nfd = os.open(os.__file__, os.O_RDONLY)\n"
        "refused(lambda: mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_WRITE))"
    ),
    "touch a device": "refused(lambda: os.utime('/dev/null', (1, 1)))",
    "write the interpreter's library": "refused(lambda: open(os.__file__, 'ab'))",
    "write a package": "import pydantic\nrefused(lambda: open(pydantic.__file__, 'ab'))",
    "write /usr": _writes("/usr/bin/planted"),
    "write /etc/passwd": _writes("/etc/passwd"),
    "write the root": "refused(lambda: os.mkdir('/planted'))",
    # By the flags of the mounts: being nobody there keeps a guest from writing too, but only where root is the host.
    "have a file system that can be written beside its own": (
        "own = {'/workspace', '/tmp', '/dev/shm', '/proc'}\n"
        "paths = [line.split()[1] for line in open('/proc/self/mounts')]\n"
        "writable = [p for p in paths if p not in own and not os.statvfs(p).f_flag & os.ST_RDONLY]\n"
        "verdict(bool(writable) or len(paths) < 5, writable)"
    ),
    "have a file system with programs that change the user": (
        "paths = [line.split()[1] for line in open('/proc/self/mounts')]\n"
        "found = [p for p in paths if not os.statvfs(p).f_flag & os.ST_NOSUID]\nverdict(bool(found), found)"
    ),
    "have a file system with devices": (
        "paths = [l.split()[1] for l in open('/proc/self/mounts') if not l.split()[1].startswith('/dev/')]\n"
        "found = [p for p in paths if not os.statvfs(p).f_flag & os.ST_NODEV]\nverdict(bool(found), found)"
    ),
    "make the interpreter writable": "refused(lambda: os.chmod(os.path.realpath(sys.executable), 0o777))",
    "hard-link a file of the root into the workspace": "refused(lambda: os.link('/etc/hostname', '/workspace/linked'))",
    "write the inputs": _writes("/input/planted"),
    "replace the inputs": "refused(lambda: os.rename('/workspace/input', '/workspace/moved'))",
    "make the inputs writable": "refused(lambda: os.chmod('/workspace/input', 0o777))",
    "read the host's boot parameters": _reads("/proc/cmdline"),
    "read the host's memory": _reads("/proc/kcore"),
    "read the kernel's symbols": _reads("/proc/kallsyms"),
    "list /sys": "refused(lambda: os.listdir('/sys')[0])",
    "read the host's control groups": "refused(lambda: os.listdir('/sys/fs/cgroup')[0])",
    "open the docker socket": "refused(lambda: socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock'))",
}

_PROCESSES = {
    "kill pid 1": "refused(lambda: os.kill(1, 9))",
    "stop pid 1": "refused(lambda: os.kill(1, 19))",
    "see whether pid 1 is there": "refused(lambda: os.kill(1, 0))",
    "signal pid 1 by a descriptor": "refused(lambda: os.pidfd_open(1))",
    "signal every process": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntry:\n    os.kill(-1, 15)\n"
        "except OSError:\n    pass\nverdict(False, 'the host must be alive: the test goes on')"
    ),
    "see a process of the host": "verdict(any(n.isdigit() and int(n) > 50 for n in os.listdir('/proc')), str(os.listdir('/proc')))",
    "see pid 1": "verdict('1' in os.listdir('/proc'))",
    "signal a process of the host by its id": "refused(lambda: os.kill({host_pid}, 0))",
    "signal a process group of the host": "refused(lambda: os.killpg({host_group}, 0))",
    "read pid 1's environment": _reads("/proc/1/environ"),
    "read pid 1's memory": _reads("/proc/1/mem"),
    "list pid 1's descriptors": _lists("/proc/1/fd"),
    "trace pid 1": _fails("call('ptrace', 16, 1, 0, 0)"),
    "read pid 1's memory by system call": "buffer = ctypes.create_string_buffer(8)\n"
    + _fails("syscall(310, 1, buffer, 1, buffer, 1, 0)"),
    "write pid 1's memory by system call": "buffer = ctypes.create_string_buffer(8)\n"
    + _fails("syscall(311, 1, buffer, 1, buffer, 1, 0)"),
    "compare itself with pid 1": _fails("syscall(312, os.getpid(), 1, 0, 0, 0)"),
    "slow pid 1 down": _fails("call('setpriority', 0, 1, 19)"),
    "limit pid 1": "limit = struct.pack('QQ', 0, 0)\n" + _fails("syscall(302, 1, 7, limit, None)"),
    "get a descriptor of pid 1's": "pidfd, why = syscall(434, 1, 0)\ndone, why = syscall(438, pidfd, 0, 0)\nverdict(done >= 0, why)",
    "raise the own limit of processes": "import resource\nrefused(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999)))",
    "raise the own limit of memory": "import resource\nrefused(lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)))",
}

_PRIVILEGES = {
    "have a capability": (
        "lines = [l for l in open('/proc/self/status') if l.startswith('Cap')]\n"
        "verdict(any(int(l.split()[1], 16) for l in lines), str(lines))"
    ),
    "be without no_new_privs": "verdict('NoNewPrivs:\\t1' not in open('/proc/self/status').read())",
    "be without a filter": "verdict('Seccomp:\\t2' not in open('/proc/self/status').read())",
    "be root": "verdict(os.getuid() == 0 or os.geteuid() == 0)",
    "become root": "refused(lambda: os.setuid(0))",
    "become root by saved id": "refused(lambda: os.setresuid(0, 0, 0))",
    "join root's group": "refused(lambda: os.setgroups([0]))",
    "become root by a program": "import subprocess\nout = subprocess.run(['su', '-c', 'id -u'], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout\nverdict(out.strip() == '0', out)",
    "get a capability back": (
        "header = struct.pack('II', 0x20080522, 0)\nsets = struct.pack('IIIIII', *[0xffffffff] * 6)\n"
        + _fails("call('capset', header, sets)")
    ),
    "make a set-user-id program of root's": (
        "import contextlib, shutil, subprocess\nshutil.copy('/usr/bin/id', '/tmp/id')\n"
        "with contextlib.suppress(PermissionError):\n    os.chmod('/tmp/id', 0o4755)\n"
        "out = subprocess.run(['/tmp/id', '-u'], capture_output=True, text=True).stdout\nverdict(out.strip() == '0', out)"
    ),
    "raise ambient capabilities": _fails("call('prctl', 47, 2, 21, 0, 0)"),
    "be on the host's user id": "verdict(open('/proc/self/uid_map').read().split()[0] == '0', open('/proc/self/uid_map').read())",
    "keep capabilities over a change of ids": _fails("call('prctl', 8, 1, 0, 0, 0)"),
    "change what root may do": _fails("call('prctl', 28, 1, 0, 0, 0)"),
    "switch its filter off": _fails("call('prctl', 22, 0, 0, 0, 0)"),
    "decide on others' system calls": "program = struct.pack('HHIQ', 1, 0, 0, 0)\n"
    + _fails("syscall(317, 1, 8, program)"),
}

_NAMESPACES = {
    "share a namespace with the host": (
        "own = {name: os.readlink('/proc/self/ns/' + name) for name in {host_namespaces!r}}\n"
        "shared = [name for name, link in {host_namespaces!r}.items() if own[name] == link]\n"
        "verdict(bool(shared), shared)"
    ),
    "make a user namespace": _fails("call('unshare', 0x10000000)"),
    "make a mount namespace": _fails("call('unshare', 0x20000)"),
    "make a user namespace by clone": _fails("syscall(56, 0x10000000 | 17, 0, 0, 0, 0)"),
    "make a user namespace by clone3": "arguments = struct.pack('Q' * 11, 0x10000000, *[0] * 10)\n"
    + _fails("syscall(435, arguments, 88)"),
    "make a namespace of time": _fails("call('unshare', 0x80)"),
    "list mounts by system call": (
        "request, ids = struct.pack('IIQQQ', 32, 0, 0xffffffffffffffff, 0, 0), ctypes.create_string_buffer(800)\n"
        + _fails("syscall(458, request, ids, 100, 0)")
    ),
    "enter the namespaces of pid 1": "refused(lambda: os.open('/proc/1/ns/mnt', os.O_RDONLY))",
    "enter a namespace": "fd = os.open('/proc/self/ns/mnt', os.O_RDONLY)\n" + _fails("call('setns', fd, 0)"),
    "mount a tmpfs": _fails("call('mount', b'x', b'/tmp', b'tmpfs', 0, None)"),
    "mount proc": "os.mkdir('/tmp/p')\n" + _fails("call('mount', b'proc', b'/tmp/p', b'proc', 0, None)"),
    "make the root writable": _fails("call('mount', None, b'/', None, 32 | 4096, None)"),
    "make the inputs writable by a mount": _fails("call('mount', None, b'/workspace/input', None, 32 | 4096, None)"),
    "unmount the inputs": _fails("call('umount2', b'/workspace/input', 2)"),
    "unmount /proc": _fails("call('umount2', b'/proc', 2)"),
    "change the root": _fails("call('chroot', b'/tmp')"),
    "pivot the root": _fails("syscall(155, b'/tmp', b'/tmp')"),
    "clone a mount": _fails("syscall(428, -100, b'/', 1)"),
    "move a mount": _fails("syscall(429, -100, b'/tmp', -100, b'/workspace', 0)"),
    "make a file system": _fails("syscall(430, b'tmpfs', 0)"),
    "change the attributes of a mount": _fails("syscall(442, -100, b'/', 0, struct.pack('QQQQ', 0, 1, 0, 0), 32)"),
    "change the host's name": _fails("call('sethostname', b'owned', 5)"),
    "learn the host's name": "verdict(socket.gethostname() == {host_name!r} != 'actbox', socket.gethostname())",
}

_KERNEL = {
    "load a BPF program": _fails("syscall(321, 5, None, 0)"),
    "use a key ring": _fails("syscall(250, 0, -3, 0)"),
    "add a key": _fails("syscall(248, b'user', b'x', b'y', 1, -3)"),
    "ask for a key": _fails("syscall(249, b'user', b'x', None, -3)"),
    "make memory that lies in no folder": _fails("syscall(319, b'x', 0)"),
    "make memory that the kernel cannot see": _fails("syscall(447, 0)"),
    "make a queue of messages": _fails("syscall(68, 0, 0o1600)"),
    "watch the files of everybody": _fails("syscall(300, 0, 0)"),
    "take the handle of a file": "buffer = struct.pack('Ii', 128, 0) + bytes(128)\nmount = ctypes.create_string_buffer(8)\n"
    + _fails("syscall(303, -100, b'/usr', buffer, mount, 0)"),
    "set up kernel asynchronous I/O": "context = ctypes.create_string_buffer(8)\n" + _fails("syscall(206, 8, context)"),
    "change its segment table": "buffer = ctypes.create_string_buffer(16)\n" + _fails("syscall(154, 1, buffer, 16)"),
    "give pages to a pipe": (
        "ends, page = os.pipe(), ctypes.create_string_buffer(64)\n"
        "vector = struct.pack('QQ', ctypes.addressof(page), 64)\n" + _fails("syscall(278, ends[1], vector, 1, 0)")
    ),
    "adjust the clock": "buffer = ctypes.create_string_buffer(208)\nbuffer[0] = 1\n" + _fails("syscall(159, buffer)"),
    "ask for quotas": "buffer = ctypes.create_string_buffer(128)\n"
    + _fails("syscall(179, 0x80000700, None, 0, buffer)"),
    "get at the ports of devices": _ends_or_fails("syscall(172, 3)"),
    "switch swap on": _ends_or_fails("syscall(167, b'/tmp/swap', 0)"),
    "load another kernel": _ends_or_fails("syscall(246, 0, 0, None, 0)"),
    "restart the machine": _ends_or_fails("syscall(169, 0, 0, 0, None)"),  # with magic numbers that mean nothing
    "set up io_uring": "buffer = ctypes.create_string_buffer(120)\n" + _fails("syscall(425, 8, buffer)"),
    "open a performance counter": "buffer = ctypes.create_string_buffer(128)\n"
    + _fails("syscall(298, buffer, 0, -1, -1, 0)"),
    "handle page faults itself": _fails("syscall(323, 0)"),
    "open a file by its handle": "buffer = ctypes.create_string_buffer(128)\n"
    + _fails("syscall(304, -100, buffer, 0)"),
    "read the kernel's log": "buffer = ctypes.create_string_buffer(128)\n" + _fails("syscall(103, 3, buffer, 128)"),
    "switch accounting on": _fails("call('acct', b'/tmp/acct')"),
    "set the clock": "import time\nrefused(lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))",
    "emulate another kernel": _fails("call('personality', 0x0400000)"),
    "make a device": "refused(lambda: os.mknod('/tmp/kmem', 0o020666, os.makedev(1, 2)))",
    "make a disk": "refused(lambda: os.mknod('/tmp/disk', 0o060666, os.makedev(254, 0)))",
    "open a terminal": _reads("/dev/tty"),
    "open the console": _reads("/dev/console"),
    "open the physical memory": _reads("/dev/mem"),
    "open the fuse device": _reads("/dev/fuse"),
    "open the kvm device": _reads("/dev/kvm"),
    "push input into a terminal": "import fcntl\nrefused(lambda: fcntl.ioctl(0, 0x5412, b'x'))",
    "paste into the console": "import fcntl\nrefused(lambda: fcntl.ioctl(0, 0x541C, b'\\x03'))",
    "write where core dumps go": _writes("/proc/sys/kernel/core_pattern"),
    "press the magic keys": _writes("/proc/sysrq-trigger"),
    "spare itself from the memory killer": "refused(lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000'))",
    "execute 32-bit system calls": (
        "import mmap\ncode = mmap.mmap(-1, 4096, prot=7)\ncode.write(bytes.fromhex('b814000000cd80c3'))\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
        "pid = os.fork()\nif pid == 0:\n    done = ctypes.CFUNCTYPE(ctypes.c_int)(address)()\n    os._exit(42)\n"
        "status = os.waitpid(pid, 0)[1]\nverdict(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 42, status)"
    ),
    "execute x32 system calls": (
        "pid = os.fork()\nif pid == 0:\n    done = libc.syscall(0x40000000 + 39)\n    os._exit(42 if done > 0 else 1)\n"
        "status = os.waitpid(pid, 0)[1]\nverdict(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 42, status)"
    ),
    "load a kernel module": (
        "pid = os.fork()\nif pid == 0:\n    done = libc.syscall(313, -1, b'', 0)\n    os._exit(42)\n"
        "status = os.waitpid(pid, 0)[1]\nverdict(os.WIFEXITED(status) and ctypes.get_errno() != 1, status)"
    ),
}

_NETWORK = {
    "connect to the host's loopback": "refused(lambda: socket.create_connection(('127.0.0.1', {host_port}), 1))",
    "connect to the host's loopback by IPv6": "refused(lambda: socket.create_connection(('::1', {host_port}), 1))",
    "connect to an address of the internet": "refused(lambda: socket.create_connection(('192.0.2.1', 80), 1))",
    "connect to the cloud's metadata": "refused(lambda: socket.create_connection(('169.254.169.254', 80), 1))",
    "send a datagram to everybody": (
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
        "refused(lambda: s.sendto(b'x', ('255.255.255.255', 9)))"
    ),
    "ping": "refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))",
    "speak a rare protocol": "refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))",
    "change an interface": (
        "import fcntl\ns = socket.socket()\nrefused(lambda: fcntl.ioctl(s, 0x8914, struct.pack('16sH14x', b'lo', 0)))"
    ),
    "send a datagram out": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nrefused(lambda: s.sendto(b'x', ('192.0.2.1', 53)))",
    "resolve a name": "refused(lambda: socket.getaddrinfo('example.com', 80))",
    "connect to an abstract socket of the host": "refused(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + {abstract!r}))",
    "see an interface of the host": (
        "names = [l.split(':')[0].strip() for l in open('/proc/self/net/dev').readlines()[2:]]\n"
        "verdict(names != ['lo'], names)"
    ),
    "open a raw socket": "refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))",
    "open a packet socket": "refused(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))",
    "open a netlink socket": "refused(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))",
    "open a socket to the hypervisor": "refused(lambda: socket.socket(40, socket.SOCK_STREAM))",
    "open a socket to the kernel's ciphers": "refused(lambda: socket.socket(38, socket.SOCK_SEQPACKET))",
    "open a bluetooth socket": "refused(lambda: socket.socket(31, socket.SOCK_RAW, 1))",
}

_LEAKS = {
    "see the host's environment": "verdict({canary!r} in str(os.environ) or {canary!r}.encode() in open('/proc/self/environ', 'rb').read())",
    "find the host's environment in its own memory": (
        # What is looked for is given backwards, or the program would find what it looks for in itself.
        "found, looked, backwards = [], 0, {canary_backwards!r}.encode()\n"
        "for line in open('/proc/self/maps').readlines():\n"
        "    first, last = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "    if line.split()[1][0] == 'r' and not line.rstrip().endswith(('[vvar]', '[vvar_vclock]', '[vsyscall]')):\n"
        "        with open('/proc/self/mem', 'rb', 0) as memory:\n"
        "            memory.seek(first)\n"
        "            looked += last - first\n"
        "            if backwards in memory.read(last - first)[::-1]: found.append(line)\n"
        "assert looked > 1 << 20\n"
        "verdict(bool(found), found)"
    ),
    "see another run's temporary files": (
        # An environment that lies below the host's /tmp is seen there, and nothing else.
        "left = [name for name in os.listdir('/tmp') if not sys.prefix.startswith('/tmp/' + name)]\nverdict(bool(left), left)"
    ),
    "see another run's shared memory": "verdict(bool(os.listdir('/dev/shm')), os.listdir('/dev/shm'))",
    "see a System V segment of the host": _fails("call('shmget', {memory_key}, 0, 0)"),
    "see System V semaphores of the host": _fails("call('semget', {memory_key}, 0, 0)"),
    "hold a descriptor of the host's": (
        "import stat\nkinds = {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{n}')}\n"
        "others = {n: k for n, k in kinds.items() if not k.startswith(('pipe:', 'socket:', '/dev/null', '/proc/'))}\n"
        "verdict(bool(others) or len(kinds) > 6, kinds)"
    ),
    "have more than the five devices": (
        "extra = set(os.listdir('/dev')) - {'null', 'zero', 'full', 'random', 'urandom', 'fd', 'stdin', 'stdout', 'stderr', 'shm'}\n"
        "verdict(bool(extra), extra)"
    ),
    "learn who is logged in": _reads("/var/run/utmp"),
    "learn the users of the host": "verdict(len(open('/etc/passwd').readlines()) > 2)",
}


def _table() -> list[Attempt]:
    groups = {
        "files": _FILES,
        "processes": _PROCESSES,
        "privileges": _PRIVILEGES,
        "namespaces": _NAMESPACES,
        "kernel": _KERNEL,
        "network": _NETWORK,
        "leaks": _LEAKS,
    }
    return [Attempt(group, what, code) for group, attempts in groups.items() for what, code in attempts.items()]


ATTEMPTS = _table()
