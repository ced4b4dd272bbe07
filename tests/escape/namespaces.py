"""Attempts on the sandbox's walls: its namespaces, mounts and root."""

from __future__ import annotations

from tests.escape.attempt import Bare, Group

GROUP = Group(
    "namespaces",
    Bare.NOTHING_THERE,
    harmful=frozenset(
        [
            "put a child into another control group",
            "shift its time",
            "mount a tmpfs",
            "mount proc",
            "mount sysfs",
            "mount the control groups",
            "mount the workspace over the library",
            "share mounts with others",
            "make the root writable",
            "unmount /proc",
            "pivot the root",
            "move a mount",
            "change the attributes of a mount",
            "change the host's name",
            "change the host's domain",
        ]
    ),
)

GROUP.programs(
    {
        "share a namespace with the host": (
            "own = {name: os.readlink('/proc/self/ns/' + name) for name in {host_namespaces!r}}\n"
            "shared = [name for name, link in {host_namespaces!r}.items() if own[name] == link and name != 'user']\n"
            "verdict(bool(shared), shared)"
        ),
        "share the host's users": "verdict(os.readlink('/proc/self/ns/user') == {host_namespaces!r}['user'])",
        "learn the host's name": "verdict(socket.gethostname() == {host_name!r} != 'actbox', socket.gethostname())",
        "have the first of all user namespaces": (
            "mapped = open('/proc/self/uid_map').read().split()\nverdict(int(mapped[2]) > 1, mapped)"
        ),
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "make a namespace of time": "denied(call('unshare', 0x80))",
        "make a mount namespace": "denied(call('unshare', 0x20000))",
        "make a network namespace": "denied(call('unshare', 0x40000000))",
        "make a namespace of processes": "denied(call('unshare', 0x20000000))",
        "make a namespace of control groups": "denied(call('unshare', 0x02000000))",
        "make a namespace of names": "denied(call('unshare', 0x04000000))",
        "make a namespace of semaphores": "denied(call('unshare', 0x08000000))",
        "enter a namespace by its link": "fd = os.open('/proc/self/ns/mnt', os.O_RDONLY)\ndenied(call('setns', fd, 0))",
        "enter namespaces by a process": "fd = os.pidfd_open(os.getpid())\ndenied(call('setns', fd, 0x7e020080))",
    },
    Bare.GETS_THROUGH_AS_ROOT,
)
GROUP.programs({"change the root": "denied(call('chroot', b'/tmp'))"}, Bare.GETS_THROUGH_AS_ROOT, forkable_may=True)
GROUP.programs(
    {
        "make a user namespace": "denied(call('unshare', 0x10000000))",
        "make a user namespace by clone": "denied(syscall('clone', 0x10000000 | 17, 0, 0, 0, 0))",
        "make a mount namespace by clone": "denied(syscall('clone', 0x20000 | 17, 0, 0, 0, 0))",
        "make a user namespace by clone3": (
            "arguments = struct.pack('Q' * 11, 0x10000000, *[0] * 10)\ndenied(syscall('clone3', arguments, 88))"
        ),
        "put a child into another control group": (
            "arguments = struct.pack('Q' * 11, 0x200000000, *[0] * 10)\ndenied(syscall('clone3', arguments, 88))"
        ),
        "climb to the owner of a namespace": (
            "import fcntl\nfd = os.open('/proc/self/ns/pid', os.O_RDONLY)\nrefused(lambda: fcntl.ioctl(fd, 0xb701))"
        ),
        "climb to the namespace above": (
            "import fcntl\nfd = os.open('/proc/self/ns/user', os.O_RDONLY)\nrefused(lambda: fcntl.ioctl(fd, 0xb702))"
        ),
        "learn who owns its user namespace": (
            "import fcntl\nfd = os.open('/proc/self/ns/user', os.O_RDONLY)\n"
            "refused(lambda: fcntl.ioctl(fd, 0xb704, bytes(4)))"
        ),
        "write a map of its users": "refused(lambda: os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 0 1'))",
        "write a map of its groups": "refused(lambda: os.write(os.open('/proc/self/gid_map', os.O_WRONLY), b'0 0 1'))",
        "allow itself to set groups": (
            "refused(lambda: os.write(os.open('/proc/self/setgroups', os.O_WRONLY), b'allow'))"
        ),
        "shift its time": (
            "refused(lambda: os.write(os.open('/proc/self/timens_offsets', os.O_WRONLY), b'monotonic 1 0'))"
        ),
        "list mounts by system call": (
            "request, ids = struct.pack('IIQQQ', 32, 0, 0xffffffffffffffff, 0, 0), buffer(800)\n"
            "denied(syscall('listmount', request, ids, 100, 0))"
        ),
        "describe a mount by system call": (
            "request, into = struct.pack('IIQQQ', 32, 0, 1, 1, 0), buffer(800)\n"
            "denied(syscall('statmount', request, into, 800, 0))"
        ),
        "enter the namespaces of pid 1": "refused(lambda: os.open('/proc/1/ns/mnt', os.O_RDONLY))",
        "mount a tmpfs": "denied(call('mount', b'x', b'/tmp', b'tmpfs', 0, None))",
        "mount proc": "os.mkdir('/tmp/p')\ndenied(call('mount', b'proc', b'/tmp/p', b'proc', 0, None))",
        "mount sysfs": "os.mkdir('/tmp/s')\ndenied(call('mount', b'sysfs', b'/tmp/s', b'sysfs', 0, None))",
        "mount the control groups": "os.mkdir('/tmp/c')\ndenied(call('mount', b'x', b'/tmp/c', b'cgroup2', 0, None))",
        "mount the workspace over the library": (
            "denied(call('mount', b'/workspace', os.path.dirname(os.__file__).encode(), None, 4096, None))"
        ),
        "share mounts with others": "denied(call('mount', None, b'/', None, 1 << 20 | 16384, None))",
        "make the root writable": "denied(call('mount', None, b'/', None, 32 | 4096, None))",
        "make the inputs writable by a mount": "denied(call('mount', None, b'/workspace/input', None, 32 | 4096, None))",
        "unmount the inputs": "denied(call('umount2', b'/workspace/input', 2))",
        "unmount /proc": "denied(call('umount2', b'/proc', 2))",
        "pivot the root": "denied(syscall('pivot_root', b'/tmp', b'/tmp'))",
        "clone a mount": "denied(syscall('open_tree', -100, b'/', 1))",
        "open a mount to change it": "denied(syscall('open_tree_attr', -100, b'/', 0, None, 0))",
        "move a mount": "denied(syscall('move_mount', -100, b'/tmp', -100, b'/workspace', 0))",
        "make a file system": "denied(syscall('fsopen', b'tmpfs', 0))",
        "configure a file system": "denied(syscall('fsconfig', 0, 6, None, None, 0))",
        "take a mount to configure it": "denied(syscall('fspick', -100, b'/', 0))",
        "change the attributes of a mount": (
            "denied(syscall('mount_setattr', -100, b'/', 0, struct.pack('QQQQ', 0, 1, 0, 0), 32))"
        ),
        "change the host's name": "denied(call('sethostname', b'owned', 5))",
        "change the host's domain": "denied(call('setdomainname', b'owned', 5))",
    }
)
