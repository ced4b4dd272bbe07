"""Attempts on what the kernel offers beside files and sockets: rare system calls, devices, switches."""

from __future__ import annotations

from tests.escape.attempt import Bare, Group

GROUP = Group(
    "kernel interfaces",
    Bare.NOTHING_THERE,
    harmful=frozenset(
        [
            "load another kernel",
            "load a kernel module",
            "load a kernel module from memory",
            "remove a kernel module",
            "get at the ports of devices",
            "adjust the clock",
            "set the clock",
            "switch accounting on",
            "hang the terminals up",
            "freeze a file system",
            "make a file immutable",
            "add to the kernel's randomness",
            "write where core dumps go",
            "write any switch of the kernel",
            "press the magic keys",
            "spare itself from the memory killer",
            "open the physical memory",
            "open the ports",
        ]
    ),
)
# Room for what a call may read or write, so that one that is let through finds its arguments in order.
_BUFFER = "at = buffer(256)\n"

# The filter answers a request that it denies as the kernel does one that is not for such a file (ENOTTY). Of the devices
# in a sandbox the source of randomness answers otherwise what it does not know, so that there the two can be told apart.
_ASKS = (
    "ctypes, libc = library()\n"
    "def asks(path, request, argument, flags=os.O_RDONLY):\n"
    "    fd = os.open(path, flags)\n"
    "    return call('ioctl', fd, ctypes.c_ulong(request), argument)\n"
    "ours = call('ioctl', os.open('/dev/urandom', os.O_RDONLY), ctypes.c_ulong(0x5413), buffer(8))[1]\n"
    "assert ours == 'EINVAL', 'a request that the filter allows must reach the kernel: ' + ours\n"
)

_COMMANDS = "def commands(path, *command): denied(call('fcntl', os.open(path, os.O_RDONLY), *command))\n"


def _requests(path: str, request: int, argument: str, flags: str = "os.O_RDONLY") -> str:
    return f"{_ASKS}denied(asks({path!r}, {request:#x}, {argument}, {flags}), ('ENOTTY',))"


def _device(path: str) -> tuple[str, str]:
    return path, f"refused(lambda: os.open({path!r}, os.O_RDONLY | os.O_NONBLOCK))"


# Denied where the call is known; where nothing isolates they reach the kernel, with arguments that mean nothing to it.
GROUP.programs(
    {
        "use a key ring": "denied(syscall('keyctl', 0, -3, 0))",
        "ask for a key": "denied(syscall('request_key', b'user', b'x', None, -3))",
        "make memory that lies in no folder": "denied(syscall('memfd_create', b'x', 0))",
        "make a segment of System V": "denied(call('shmget', 0, 4096, 0o1600))",
        "make a queue of messages": "denied(syscall('msgget', 0, 0o1600))",
        "open a queue of messages by name": "denied(syscall('mq_open', b'x', 0, 0, None))",
        "take the handle of a file": (
            "at, mount = struct.pack('Ii', 128, 0) + bytes(128), buffer(8)\n"
            "denied(syscall('name_to_handle_at', -100, b'/usr', at, mount, 0))"
        ),
        "set up kernel asynchronous I/O": "context = buffer(8)\ndenied(syscall('io_setup', 8, context))",
        "give pages to a pipe": (
            "ctypes, libc = library()\nends, page = os.pipe(), buffer(64)\n"
            "vector = struct.pack('QQ', ctypes.addressof(page), 64)\ndenied(syscall('vmsplice', ends[1], vector, 1, 0))"
        ),
        "keep pages of a device in a pipe": "refused(lambda: os.splice(os.open('/dev/zero', 0), os.pipe()[1], 1))",
        "have pages of what it receives, which nobody counts then": (
            "one, length = socket.socket(), buffer(struct.pack('I', 24))\n"
            "denied(call('getsockopt', one.fileno(), 6, 35, buffer(64), length), ('EPERM', 'ENOPROTOOPT'))"
        ),
        "set up io_uring": _BUFFER + "denied(syscall('io_uring_setup', 8, at))",
        "enter io_uring": "denied(syscall('io_uring_enter', 0, 0, 0, 0, None, 0))",
        "emulate another kernel": "denied(call('personality', 0x0400000))",
        "switch the randomising of addresses off": "denied(call('personality', 0x0040000))",
        "have pages at address zero readable": "denied(call('personality', 0x0100000))",
        "ask for quotas": _BUFFER + "denied(syscall('quotactl', 0x80000700, None, 0, at))",
        "write everybody's disks": "denied(syscall('sync'))",
        "place its memory": "denied(syscall('set_mempolicy', 0, None, 0))",
        "map pages out of their order": "denied(syscall('remap_file_pages', 0, 0, 0, 0, 0))",
        "trace a process of its own": ("denied_or_ended(lambda: call('ptrace', 0, 0, 0, 0))"),
        "read the memory of a process of its own": (
            "at = buffer(8)\ndenied(syscall('process_vm_readv', os.getpid(), at, 1, at, 0, 0))"
        ),
        "look at where a device's clock is": "denied(syscall('clock_adjtime', 0, buffer(208)))",
        "push input into a terminal": _requests("/dev/urandom", 0x5412, "b'x'"),
        "paste into the console": _requests("/dev/urandom", 0x541C, "b'\\x03'"),
        "take a terminal as its own": _requests("/dev/urandom", 0x540E, "1"),
        "change how a terminal's line is read": _requests("/dev/urandom", 0x5423, "struct.pack('i', 21)"),
        "take a lease of a file, for which its writers wait": _COMMANDS + "commands(open('mine', 'w').name, 1024, 0)",
        "be signalled what changes in a folder": _COMMANDS + "commands('.', 1026, 2)",
        "take a delegation of a folder": _COMMANDS + "commands('.', 1040, struct.pack('IHH', 0, 0, 0))",
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "load a BPF program": "denied(syscall('bpf', 5, None, 0))",
        "make a BPF map": "denied(syscall('bpf', 0, struct.pack('IIII', 2, 4, 4, 1).ljust(128, b'\\0'), 128))",
        "watch the files of everybody": "denied(syscall('fanotify_init', 0, 0))",
        "handle page faults itself": "denied(syscall('userfaultfd', 0))",
        "open a file by its handle": _BUFFER + "denied(syscall('open_by_handle_at', -100, at, 0))",
        "read the kernel's log": _BUFFER + "denied(syscall('syslog', 10, at, 0))",
        "switch swap on": "denied_or_ended(lambda: syscall('swapon', b'/nowhere/swap', 0))",
        "restart the machine": "denied_or_ended(lambda: syscall('reboot', 0, 0, 0, None))",  # numbers that mean nothing
        "open a performance counter": _BUFFER + "denied(syscall('perf_event_open', at, 0, -1, -1, 0))",
        "make a device": "refused(lambda: os.mknod('kmem', 0o020666, os.makedev(1, 2)))",
        "make a disk": "refused(lambda: os.mknod('disk', 0o060666, os.makedev(254, 0)))",
        "make a device that hides files": "refused(lambda: os.mknod('whiteout', 0o020000, 0))",
    },
    Bare.GETS_THROUGH_AS_ROOT,
)
GROUP.programs(
    {
        "change its memory's own description": "denied(call('prctl', 35, 1, 0, 0, 0))",
        "load another kernel": "denied_or_ended(lambda: syscall('kexec_load', 0, 99, None, 0))",
        "load a kernel module": "denied_or_ended(lambda: syscall('finit_module', -1, b'', 0))",
        "load a kernel module from memory": "denied_or_ended(lambda: syscall('init_module', None, 0, b''))",
        "remove a kernel module": "denied_or_ended(lambda: syscall('delete_module', b'no such module', 0))",
        "get at the ports of devices": "denied_or_ended(lambda: syscall('iopl', 3))",
        "add a key": "denied(syscall('add_key', b'user', b'x', b'y', 1, -3))",
        "make memory that the kernel cannot see": "denied(syscall('memfd_secret', 0))",
        "change its segment table": _BUFFER + "denied(syscall('modify_ldt', 1, at, 16))",
        "adjust the clock": "at = buffer(208)\nat[0] = 1\ndenied(syscall('adjtimex', at))",
        "set the clock": "import time\nrefused(lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))",
        "switch accounting on": "denied(call('acct', b'/tmp/acct'))",
        "hang the terminals up": "denied(syscall('vhangup'))",
        "ask security modules": _BUFFER + "denied(syscall('lsm_get_self_attr', 100, at, at, 0))",
        "freeze a file system": _requests("/workspace", 0xC0045877, "0"),
        "make a file immutable": _requests("mine", 0x40086602, "struct.pack('q', 0x10)", "os.O_RDWR | os.O_CREAT"),
        "add to the kernel's randomness": _requests("/dev/urandom", 0x40085203, "struct.pack('iii', 8, 4, 0)"),
        "write where core dumps go": "refused(lambda: open('/proc/sys/kernel/core_pattern', 'ab').write(b'x'))",
        "write any switch of the kernel": (
            "found = [folder for folder, _, files in os.walk('/proc/sys') if files]\nverdict(bool(found), found[:3])"
        ),
        "press the magic keys": "refused(lambda: open('/proc/sysrq-trigger', 'ab').write(b'x'))",
        "spare itself from the memory killer": (
            "refused(lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000'))"
        ),
        "map the page at address zero": (
            "ctypes, libc = library()\nlibc.mmap.restype = ctypes.c_ssize_t\n"
            "at = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x32, -1, ctypes.c_long(0))\nverdict(at == 0, at)"
        ),
        "execute 32-bit system calls": (
            "import mmap, platform\n"
            "if platform.machine() != 'x86_64': not_applicable('32-bit calls are made otherwise on ' + platform.machine())\n"
            "ctypes, libc = library()\ncode = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)\n"
            "code.write(bytes.fromhex('b814000000cd80c3'))\n"
            "address = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
            "denied_or_ended(lambda: (ctypes.CFUNCTYPE(ctypes.c_int)(address)(), ''))"
        ),
        "execute x32 system calls": (
            "import platform\n"
            "if platform.machine() != 'x86_64': not_applicable('there are no x32 calls on ' + platform.machine())\n"
            "denied_or_ended(lambda: call('syscall', 0x40000000 + 39))"
        ),
        "make a system call with a number that is negative": "denied(call('syscall', -2))",
        "make a system call that does not exist yet": "denied(call('syscall', 4000))",
        "open a terminal": "refused(lambda: open('/dev/tty', 'rb'))",
        "make a terminal": "refused(lambda: os.openpty())",
    }
)
GROUP.targets(
    {
        "open the console": _device("/dev/console"),
        "open the screen": _device("/dev/tty0"),
        "read the screen": _device("/dev/vcs"),
        "open the kernel's log": _device("/dev/kmsg"),
        "open the fuse device": _device("/dev/fuse"),
        "open the kvm device": _device("/dev/kvm"),
        "open the maker of loop devices": _device("/dev/loop-control"),
        "open a loop device": _device("/dev/loop0"),
        "open the maker of network devices": _device("/dev/net/tun"),
        "open the device of page faults": _device("/dev/userfaultfd"),
        "open the hypervisor's sockets": _device("/dev/vsock"),
        "open the hardware's randomness": _device("/dev/hwrng"),
        "open compressed memory": _device("/dev/zram0"),
    },
    Bare.GETS_THROUGH_AS_ROOT,
)
GROUP.targets({"open the physical memory": _device("/dev/mem"), "open the ports": _device("/dev/port")})
