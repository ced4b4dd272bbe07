"""Attempts on processes that are not the guest's: the host's, and pid 1, which watches it."""

from __future__ import annotations

from tests.escape.attempt import Bare, Group

GROUP = Group(
    "processes",
    Bare.NOTHING_THERE,
    harmful=frozenset(
        [
            "kill pid 1",
            "stop pid 1",
            "signal pid 1 by a descriptor",
            "signal a thread of pid 1",
            "signal a thread of pid 1 without its group",
            "queue a signal for pid 1",
            "queue a signal for a thread of pid 1",
            "signal pid 1 by a number with a second half",
            "interrupt pid 1 as the owner of a descriptor",
            "signal the process group of pid 1 as the owner of a descriptor",
            "leave pid 1 a child that interrupts it when it ends",
            "put pid 1 into its own process group",
            "signal every process",
            "trace pid 1",
            "seize pid 1",
            "slow pid 1 down",
            "slow all of the user's processes down",
            "slow pid 1's reading down",
            "choose pid 1's processor",
            "let pid 1 run when nobody else does",
            "limit pid 1",
            "move pid 1's memory",
            "free the memory of pid 1",
            "run before everybody else",
            "be more important than others",
        ]
    ),
)
_BUFFER = "at = buffer(64)\n"
# The channel was made by the host, so its other end knows that process.
_HOST_BY_ITS_SOCKET = (
    "import stat\n"
    "numbers = [n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')]\n"
    "sockets = [n for n in numbers if stat.S_ISSOCK(os.fstat(n).st_mode)]\n"
    "if not sockets: not_applicable('there is no socket that the host has made')\n"
    "host = socket.socket(fileno=os.dup(sockets[0]))\n"
)
_PIDFD_OF_THE_HOST = _HOST_BY_ITS_SOCKET + (
    "try:\n    pidfd = host.getsockopt(socket.SOL_SOCKET, 77)\n"
    "except PermissionError as error:\n    verdict(False, error)\n    sys.stdout.flush()\n    os._exit(0)\n"
    "except OSError as error:\n    not_applicable(f'this kernel gives no descriptor of a peer: {error}')\n"
)

GROUP.programs(
    {
        "see a process of the host": (
            "found = []\nfor name in os.listdir('/proc'):\n    try:\n"
            "        if open(f'/proc/{name}/cmdline', 'rb').read() == {host_command!r}: found.append(name)\n"
            "    except OSError:\n        pass\nverdict(bool(found), found)"
        ),
        "see pid 1": "verdict('1' in os.listdir('/proc'))",
        "signal a process of the host by its id": "refused(lambda: os.kill({host_pid}, 0))",
        "signal a process group of the host": "refused(lambda: os.killpg({host_group}, 0))",
        "hold a process of the host by a descriptor": "refused(lambda: os.pidfd_open({host_pid}))",
        "ask for the priority of a process of the host": (
            "refused(lambda: os.getpriority(os.PRIO_PROCESS, {host_pid}))"
        ),
        "ask which processors the host may use": "refused(lambda: os.sched_getaffinity({host_pid}))",
        "read the command line of the host": "refused(lambda: open('/proc/{host_pid}/cmdline').read())",
        "read the limits of the host": "refused(lambda: __import__('resource').prlimit({host_pid}, 7))",
        "be a child of the host": "verdict(os.getppid() not in (0, 1), os.getppid())",
        "learn which process the host is from its socket": _HOST_BY_ITS_SOCKET
        + "pid = struct.unpack('iii', host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]\nverdict(pid != 0, pid)",
        "signal the host by a descriptor from its socket": _PIDFD_OF_THE_HOST
        + "import signal\nrefused(lambda: signal.pidfd_send_signal(pidfd, 0))",
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "learn the host's id from a descriptor from its socket": _PIDFD_OF_THE_HOST
        + "text = open(f'/proc/self/fdinfo/{pidfd}').read()\nfound = [l for l in text.splitlines() if l.startswith('Pid:')]\n"
        "verdict(found[0].split()[1] not in ('0', '-1'), found)",
        "take a file of the host's by a descriptor from its socket": _PIDFD_OF_THE_HOST
        + "denied(syscall('pidfd_getfd', pidfd, 0, 0))",
        "take advice on the host's memory by a descriptor from its socket": _PIDFD_OF_THE_HOST
        + _BUFFER
        + "denied(syscall('process_madvise', pidfd, at, 1, 4, 0))",
        "mark the host by a descriptor from its socket": _PIDFD_OF_THE_HOST
        + "refused(lambda: os.setxattr(pidfd, 'trusted.planted', b'x'))",
        "kill pid 1": "refused(lambda: os.kill(1, 9))",
        "stop pid 1": "refused(lambda: os.kill(1, 19))",
        "see whether pid 1 is there": "refused(lambda: os.kill(1, 0))",
        "signal pid 1 by a descriptor": "refused(lambda: os.pidfd_open(1))",
        "signal a thread of pid 1": "denied(syscall('tgkill', 1, 1, 2))",
        "signal a thread of pid 1 without its group": "denied(syscall('tkill', 1, 2))",
        "queue a signal for pid 1": _BUFFER + "denied(syscall('rt_sigqueueinfo', 1, 2, at))",
        "queue a signal for a thread of pid 1": _BUFFER + "denied(syscall('rt_tgsigqueueinfo', 1, 1, 2, at))",
        "signal pid 1 by a number with a second half": (
            "ctypes, libc = library()\ndenied(syscall('kill', ctypes.c_uint64(0xffffffff00000001), 2))"
        ),
        # Pid 1 has the guest's own user, so that the kernel by itself would deliver it.
        "interrupt pid 1 as the owner of a descriptor": (
            "import fcntl, signal, time\nours, theirs = socket.socketpair()\nrefused(lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, 1))\n"
            "fcntl.fcntl(ours, 10, int(signal.SIGINT))\n"
            "fcntl.fcntl(ours, fcntl.F_SETFL, fcntl.fcntl(ours, fcntl.F_GETFL) | fcntl.FASYNC)\n"
            "theirs.send(b'x')\ntime.sleep(0.3)\n"
            "verdict(False, 'pid 1 must be alive: it is what keeps this process')"
        ),
        # In its group is, for a moment, each process that it makes.
        "signal the process group of pid 1 as the owner of a descriptor": (
            "import fcntl\nread, _ = os.pipe()\nrefused(lambda: fcntl.fcntl(read, fcntl.F_SETOWN, -1))"
        ),
        "leave pid 1 a child that interrupts it when it ends": (
            "import time\nfor number in (2, 15, 9):\n    if os.fork() == 0:\n"
            "        if syscall('clone', number, 0, 0, 0, 0)[0] == 0: time.sleep(0.1)\n        os._exit(0)\n"
            "time.sleep(0.3)\nverdict(False, 'pid 1 must be alive: it is what keeps this process')"
        ),
        "put pid 1 into its own process group": "refused(lambda: os.setpgid(1, os.getpid()))",
        "join the process group of pid 1": "refused(lambda: os.setpgid(0, 1))",
        "signal every process": (
            "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntry:\n    os.kill(-1, 15)\n"
            "except OSError:\n    pass\nverdict(False, 'the host must be alive: the attempts go on')"
        ),
        "read pid 1's environment": "refused(lambda: open('/proc/1/environ', 'rb').read(100))",
        "read pid 1's memory": "refused(lambda: open('/proc/1/mem', 'rb').read(100))",
        "list pid 1's descriptors": "refused(lambda: os.listdir('/proc/1/fd'))",
        "list pid 1's threads": "refused(lambda: os.listdir('/proc/1/task'))",
        "trace pid 1": "denied(call('ptrace', 16, 1, 0, 0))",
        "seize pid 1": "denied(call('ptrace', 0x4206, 1, 0, 0))",
        "let a process of its own be traced by any other": "denied(call('prctl', 0x59616d61, -1, 0, 0, 0))",
        "compare itself with pid 1": "denied(syscall('kcmp', os.getpid(), 1, 0, 0, 0))",
        "slow pid 1 down": "denied(call('setpriority', 0, 1, 19))",
        "slow all of the user's processes down": "denied(call('setpriority', 2, 0, 19))",
        "slow pid 1's reading down": "denied(syscall('ioprio_set', 1, 1, 7 | 3 << 13))",
        "choose pid 1's processor": "refused(lambda: os.sched_setaffinity(1, {0}))",
        "let pid 1 run when nobody else does": "refused(lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))",
        "limit pid 1": "limit = struct.pack('QQ', 0, 0)\ndenied(syscall('prlimit64', 1, 7, limit, None))",
        "move pid 1's memory": _BUFFER + "denied(syscall('move_pages', 1, 0, None, None, None, 0))",
        "free the memory of pid 1": "denied(syscall('process_mrelease', 0, 0))",
        "raise the own limit of processes": (
            "import resource\nrefused(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999)))"
        ),
        "raise the own limit of memory": (
            "import resource\nrefused(lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)))"
        ),
        "raise the own limit of open files": (
            "import resource\nrefused(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 16, 1 << 16)))"
        ),
        "run before everybody else": "refused(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))",
        "be more important than others": "refused(lambda: os.nice(-5))",
    }
)
GROUP.programs(
    {
        "read pid 1's memory by system call": _BUFFER + "denied(syscall('process_vm_readv', 1, at, 1, at, 1, 0))",
        "write pid 1's memory by system call": _BUFFER + "denied(syscall('process_vm_writev', 1, at, 1, at, 1, 0))",
        "have a table of descriptors that pid 1 does not look at": "denied(syscall('close_range', 250, 255, 2), ('EINVAL',))",
        # Flags that the kernel would refuse in another way: a thread that it made would run on this one's stack.
        "start a thread with a table of descriptors of its own": "denied(syscall('clone', 0x10000, 0, 0, 0, 0))",
        "own a descriptor's signals for pid 1, as memory says": (
            "import fcntl\nread, _ = os.pipe()\nrefused(lambda: fcntl.fcntl(read, 15, struct.pack('ii', 1, 1)))"
        ),
        "get a descriptor of pid 1's": "denied(syscall('pidfd_getfd', 0, 0, 0))",
    },
    Bare.GETS_THROUGH,
)
