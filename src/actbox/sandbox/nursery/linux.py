"""The kernel calls that make a sandbox, as typed functions.

Each function is one call, or one idea that needs a few, and raises `OSError` with the call's name and what it
was about. Nothing here decides anything: what is mounted, dropped or allowed is said by the callers.

Python's `os` has some of these from 3.12 on, and some only where it was built against new kernel headers, as
portable builds are not; so all of them go through the C library, and the newest by system call number.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct

# Namespaces: unshare(2), setns(2), and the same bits in clone(2).
CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEW_ANY = 0x7E020080

# Threads and their table of descriptors: clone(2), close_range(2).
CLONE_FILES = 0x00000400
CLONE_THREAD = 0x00010000
CLOSE_RANGE_UNSHARE = 0x2

# Mounts, the old calls: mount(2), umount2(2).
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_UNBINDABLE = 1 << 17
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MNT_FORCE = 0x1
MNT_DETACH = 0x2
UMOUNT_NOFOLLOW = 0x8

# Mounts, the new calls: open_tree(2), move_mount(2), mount_setattr(2), fsmount(2).
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MOUNT_ATTR_NOATIME = 0x10
MOUNT_ATTR_NODIRATIME = 0x80
MOUNT_ATTR_IDMAP = 0x100000
MOUNT_ATTR_NOSYMFOLLOW = 0x200000
OPEN_TREE_CLONE = 0x1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_NO_AUTOMOUNT = 0x800
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000

# Process attributes: prctl(2).
PR_SET_PDEATHSIG = 1
PR_GET_PDEATHSIG = 2
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_GET_SECCOMP = 21
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_GET_SECUREBITS = 27
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

# Capabilities: capabilities(7).
CAP_CHOWN = 0
CAP_DAC_OVERRIDE = 1
CAP_FOWNER = 3
CAP_KILL = 5
CAP_SETGID = 6
CAP_SETUID = 7
CAP_SETPCAP = 8
CAP_NET_ADMIN = 12
CAP_SYS_CHROOT = 18
CAP_SYS_PTRACE = 19
CAP_SYS_ADMIN = 21
CAP_SYS_RESOURCE = 24
CAP_SETFCAP = 31

# User 0 has no rights, a change of user gives none, nothing can be made ambient; each bit with its lock.
_SECUREBIT_NOROOT = 0x3
_SECUREBIT_NO_SETUID_FIXUP = 0xC
_SECUREBIT_KEEP_CAPS_LOCKED = 0x20
_SECUREBIT_NO_CAP_AMBIENT_RAISE = 0xC0

_CAPABILITY_VERSION_3 = 0x20080522
_FSOPEN_CLOEXEC = 1
_FSCONFIG_SET_FLAG = 0
_FSCONFIG_SET_STRING = 1
_FSCONFIG_CMD_CREATE = 6
_FSCONFIG_CMD_RECONFIGURE = 7
_FSPICK_CLOEXEC = 0x1
_FSPICK_EMPTY_PATH = 0x8
_FSMOUNT_CLOEXEC = 1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
F_SETPIPE_SZ = 1031
_EVERYTHING_ONCE = 0xFFF | 1 << 31  # IN_ALL_EVENTS | IN_ONESHOT
_EVERY_SIGNAL = b"\xff" * 128  # a `sigset_t` of the C library

# By architecture, as `os.uname().machine` has it.
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_SYS_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_FILE = 0
# System calls from 424 on have the same number on every architecture.
_SYS_PIDFD_SEND_SIGNAL = 424
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_FSOPEN = 430
_SYS_FSCONFIG = 431
_SYS_FSMOUNT = 432
_SYS_FSPICK = 433
_SYS_PIDFD_OPEN = 434
_SYS_PIDFD_GETFD = 438
_SYS_CLOSE_RANGE = 436
_SYS_MOUNT_SETATTR = 442


# Namespaces


def unshare(flags: int) -> None:
    """Move this process into new namespaces (`CLONE_NEW*`); its next child is the first in a new pid namespace.

    `CLONE_NEWUSER` needs a process with one thread (EINVAL).
    """
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int = 0) -> None:
    """Enter the namespace of a `/proc/*/ns/*` descriptor, or those named by `flags` of a pidfd's process."""
    _check(_libc.setns(fd, flags), "setns")


def fork_into(flags: int) -> int:
    """Fork a child that starts in new namespaces (`CLONE_NEW*`); return its pid, and 0 in the child.

    Unlike `unshare` this makes the child pid 1 of a new pid namespace that its new user namespace owns, with one fork.
    Python is told of the fork, the C library is not: call it in a process with one thread.
    """
    number = _SYS_CLONE.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"clone: its number on {os.uname().machine} is not known")
    ctypes.pythonapi.PyOS_BeforeFork()
    result = _libc_holding_the_gil.syscall(
        ctypes.c_long(number), ctypes.c_long(flags | signal.SIGCHLD), *[ctypes.c_long(0)] * 4
    )
    code = ctypes.get_errno()
    if result == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    ctypes.set_errno(code)
    return int(_check(result, "clone"))


def sethostname(name: str) -> None:
    """Set the host name of the current uts namespace."""
    encoded = os.fsencode(name)
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def bring_loopback_up() -> None:
    """Bring `lo` up in the current network namespace, with 127.0.0.1 and ::1; one that is up stays so."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        _, flags = struct.unpack("16sh22x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))


# Mounts


def mount(source: str | None, target: str, fstype: str | None, flags: int = 0, data: str | None = None) -> None:
    """Mount, bind, remount or change propagation, according to `flags` (`MS_*`)."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, fstype, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), "mount", target)


def umount(target: str, flags: int = 0) -> None:
    """Unmount; `MNT_DETACH` removes the mount from the tree at once, even while it is in use."""
    _check(_libc.umount2(os.fsencode(target), flags), "umount", target)


def pivot_root(new: str, old: str) -> None:
    """Make the mount `new` the root and put the old root at `old`.

    With both `"."` the old root lies over the new one; `umount(".", MNT_DETACH)` then lifts it off.
    """
    _check(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), "pivot_root", new)


def open_tree(dirfd: int, path: str, flags: int) -> int:
    """Return a descriptor of a mount.

    With `OPEN_TREE_CLONE` it is a detached copy, which disappears with the descriptor unless it was attached.
    """
    result = _syscall(_SYS_OPEN_TREE, dirfd, os.fsencode(path), flags | OPEN_TREE_CLOEXEC)
    return _check(result, "open_tree", path)


def move_mount(from_fd: int, to_path: str) -> None:
    """Attach the mount behind `from_fd` to a directory or file of the same kind."""
    to = os.fsencode(to_path)
    _check(_syscall(_SYS_MOVE_MOUNT, from_fd, b"", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH), "move_mount", to_path)


def mount_setattr(
    fd_or_path: int | str,
    flags: int,
    attr_set: int = 0,
    attr_clr: int = 0,
    userns_fd: int = 0,
    propagation: int = 0,
) -> None:
    """Set and clear `MOUNT_ATTR_*` of a mount, with `AT_RECURSIVE` of all mounts below it too, all or none.

    A mount is given by path, or by the descriptor of its root. `userns_fd` goes with `MOUNT_ATTR_IDMAP`;
    `propagation` is one of `MS_PRIVATE`, `MS_SLAVE`, `MS_SHARED`, `MS_UNBINDABLE`.
    """
    attributes = struct.pack("=4Q", attr_set, attr_clr, propagation, userns_fd)
    if isinstance(fd_or_path, int):
        place = (fd_or_path, b"", flags | AT_EMPTY_PATH)
    else:
        place = (AT_FDCWD, os.fsencode(fd_or_path), flags)
    result = _syscall(_SYS_MOUNT_SETATTR, *place, attributes, len(attributes))
    _check(result, "mount_setattr", fd_or_path)


def detached_mount(fstype: str, options: dict[str, str | bool], attrs: int = 0) -> int:
    """Make a new filesystem and return its mount as a descriptor, to be attached by `move_mount`.

    An option's value is text, or True for a bare flag; False leaves it out. `attrs` are `MOUNT_ATTR_*`.
    The error for a refused option includes the kernel's message, if there is one.
    """
    context = _check(_syscall(_SYS_FSOPEN, os.fsencode(fstype), _FSOPEN_CLOEXEC), "fsopen", fstype)
    try:
        for key, value in options.items():
            if isinstance(value, str):
                result = _fsconfig(context, _FSCONFIG_SET_STRING, os.fsencode(key), os.fsencode(value))
            elif value:
                result = _fsconfig(context, _FSCONFIG_SET_FLAG, os.fsencode(key), None)
            else:
                continue
            _check_context(context, result, f"fsconfig {key}", fstype)
        _check_context(context, _fsconfig(context, _FSCONFIG_CMD_CREATE, None, None), "fsconfig create", fstype)
        result = _syscall(_SYS_FSMOUNT, context, _FSMOUNT_CLOEXEC, attrs)
        return _check_context(context, result, "fsmount", fstype)
    finally:
        os.close(context)


def forget_names(fd: int) -> None:
    """Make a read-only filesystem drop its cached names, including names that did not exist.

    `fd` is the root of a mount of it. The filesystem is reconfigured as read-only, which it is already; the kernel then
    drops the cache, except for open files. Needs CAP_SYS_ADMIN over whoever mounted it.
    """
    context = _check(_syscall(_SYS_FSPICK, fd, b"", _FSPICK_CLOEXEC | _FSPICK_EMPTY_PATH), "fspick")
    try:
        for command, key in ((_FSCONFIG_SET_FLAG, b"ro"), (_FSCONFIG_CMD_RECONFIGURE, None)):
            _check(_fsconfig(context, command, key, None), "fsconfig %d" % command)
    finally:
        os.close(context)


# Privileges


def prctl(option: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> int:
    """Read or change an attribute of this process (`PR_*`)."""
    return _check(_libc.prctl(option, a, b, c, d), f"prctl {option}")


def set_no_new_privs() -> None:
    """Prevent every later `execve` of this process and its children from gaining rights; it cannot be undone."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def gain_no_capabilities() -> None:
    """Let this process and its forks keep their capabilities but never gain one: one that is given up is gone for good.

    No `execve`, user 0 or set-user-id file brings a capability back, and a program that they execute has none. Needs
    CAP_SETPCAP (EPERM), which a process has in a user namespace that it made. Like every call on capabilities it
    applies to the calling thread: call it while there is no other.
    """
    _empty_bounding_set()
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    bits = _SECUREBIT_NOROOT | _SECUREBIT_NO_SETUID_FIXUP
    prctl(PR_SET_SECUREBITS, bits | _SECUREBIT_KEEP_CAPS_LOCKED | _SECUREBIT_NO_CAP_AMBIENT_RAISE)


def keep_capabilities(keep: frozenset[int]) -> None:
    """Give up the capabilities of this process except `keep`; after `gain_no_capabilities` that is for good."""
    mask = sum(1 << capability for capability in keep)
    halves = [(half, half, 0) for half in (mask & 0xFFFFFFFF, mask >> 32)]
    _check(_libc.capset(_capability_header(), struct.pack("=6I", *halves[0], *halves[1])), "capset")


def effective_capabilities() -> int:
    """Return this thread's effective capabilities as a bit set, bit `1 << CAP_*` for each."""
    sets = ctypes.create_string_buffer(24)
    _check(_libc.capget(_capability_header(), sets), "capget")
    low, _, _, high, _, _ = struct.unpack("=6I", sets.raw)
    return int(low | high << 32)


# Processes and descriptors


def set_name(name: str) -> None:
    """Set what process lists call this process: at most 15 bytes."""
    text = ctypes.create_string_buffer(name.encode())  # keeps the buffer alive until the call returns
    prctl(PR_SET_NAME, ctypes.addressof(text))


def set_dumpable(dumpable: bool) -> None:
    """Set whether other processes of this user may trace this process or read its `/proc`; `execve` resets it."""
    prctl(PR_SET_DUMPABLE, int(dumpable))


def set_parent_death_signal(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends (0: none).

    A parent that was gone before the call is not noticed: compare `os.getppid()` afterwards.
    """
    prctl(PR_SET_PDEATHSIG, signal_number)


def set_child_subreaper() -> None:
    """Make this process the parent of its descendants' orphans, so that it can wait for them."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def receive_signals() -> int:
    """Block every signal that can be blocked; return a non-blocking descriptor that is readable once one has come.

    Each read returns whole `signalfd_siginfo` structures of 128 bytes.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    flags = os.O_NONBLOCK | os.O_CLOEXEC  # SFD_NONBLOCK and SFD_CLOEXEC have these values
    return _check(_libc.signalfd(-1, _EVERY_SIGNAL, flags), "signalfd")


def watching() -> int:
    """Return a non-blocking descriptor (inotify) that is readable once anything was done that it watches.

    To close it takes the kernel up to some tens of milliseconds.
    """
    return _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")


def watch_folder(watching: int, folder: str) -> int:
    """Watch a directory; return the number of the watch.

    Reading and opening the directory itself count too; what happens in directories below it does not. Only the first
    event is told, so that nobody can fill the queue, whose memory is this process's.
    """
    return _check(_libc.inotify_add_watch(watching, os.fsencode(folder), _EVERYTHING_ONCE), "inotify_add_watch", folder)


def unwatch(watching: int, number: int) -> None:
    """End a watch, unless it has ended with its first event."""
    _libc.inotify_rm_watch(watching, number)


def pidfd_open(pid: int) -> int:
    """Return a descriptor of one process, also after its id is reused; it polls readable once the process has ended."""
    return _check(_syscall(_SYS_PIDFD_OPEN, pid, 0), "pidfd_open", pid)


def pidfd_getfd(fd: int, number: int) -> int:
    """Return a duplicate of descriptor `number` of a pidfd's process, which we must be allowed to trace.

    Raises `OSError`: EBADF if it has no such descriptor, ESRCH if it has ended, ENOSYS before Linux 5.6.
    """
    return _check(_syscall(_SYS_PIDFD_GETFD, fd, number, 0), "pidfd_getfd", number)


def compare_files(pid: int, fd: int, other_pid: int, other_fd: int) -> int:
    """Return 0 if two descriptors share one open file, else 1 or 2: their order in the kernel's sorting of files.

    Thread ids work as `pid` too. Raises `OSError`: EBADF and ESRCH if one is gone, ENOSYS if the kernel cannot compare.
    """
    number = _SYS_KCMP.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "kcmp: not known on this architecture")
    return _check(_syscall(number, pid, other_pid, _KCMP_FILE, fd, other_fd), "kcmp")


def pidfd_send_signal(fd: int, signal_number: int) -> None:
    """Signal the process of a pidfd; ProcessLookupError if it has ended."""
    _check(_syscall(_SYS_PIDFD_SEND_SIGNAL, fd, signal_number, None, 0), "pidfd_send_signal")


def close_range(first: int, last: int = 0xFFFFFFFF) -> None:
    """Close every descriptor from `first` to `last`, both included; unused numbers are no error."""
    result = _syscall(_SYS_CLOSE_RANGE, first, last, 0)
    if result == 0:
        return
    # Kernels before 5.9 lack the call; old container engines' filters answer EPERM to unknown calls.
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        _check(result, "close_range")
    _close_one_by_one(first, last)


def set_pipe_size(fd: int, size: int) -> int:
    """Ask for a pipe size in bytes and return the size granted, rounded up.

    A size above `/proc/sys/fs/pipe-max-size` needs CAP_SYS_RESOURCE on the host (EPERM).
    """
    return fcntl.fcntl(fd, F_SETPIPE_SZ, size)


# How the calls are made


def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    text, word, number = ctypes.c_char_p, ctypes.c_ulong, ctypes.c_int
    libc.unshare.argtypes = [number]
    libc.setns.argtypes = [number, number]
    libc.sethostname.argtypes = [text, ctypes.c_size_t]
    libc.mount.argtypes = [text, text, text, word, text]
    libc.umount2.argtypes = [text, number]
    libc.pivot_root.argtypes = [text, text]
    libc.prctl.argtypes = [number, word, word, word, word]
    libc.capget.argtypes = [text, ctypes.c_char_p]
    libc.capset.argtypes = [text, ctypes.c_char_p]
    libc.signalfd.argtypes = [number, text, number]
    libc.inotify_init1.argtypes = [number]
    libc.inotify_add_watch.argtypes = [number, text, ctypes.c_uint32]
    libc.syscall.restype = ctypes.c_long
    return libc


_libc = _load_libc()
# A child forked while the GIL is released could not acquire it again.
_libc_holding_the_gil = ctypes.PyDLL(None, use_errno=True)
_libc_holding_the_gil.syscall.restype = ctypes.c_long
for _hook in ("PyOS_BeforeFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent"):
    getattr(ctypes.pythonapi, _hook).restype = None


def syscall(name: str, number: int, *arguments: int | bytes | None) -> int:
    """Make a call that the C library has no function for, by number. Raises `OSError` with the call's name."""
    return _check(_syscall(number, *arguments), name)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a call by number. Integers go as whole words: the upper half of a narrower one is undefined."""
    words = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *words))


def _check(result: int, call: str, about: str | int | None = None) -> int:
    """Return a call's result, or raise `OSError` from errno."""
    if result != -1:
        return result
    code = ctypes.get_errno()
    message = f"{call}: {os.strerror(code)}"
    raise OSError(code, message) if about is None else OSError(code, message, about)


def _fsconfig(context: int, command: int, key: bytes | None, value: bytes | None) -> int:
    return _syscall(_SYS_FSCONFIG, context, command, key, value, 0)


def _check_context(context: int, result: int, call: str, fstype: str) -> int:
    """Do as `_check`, adding the kernel's message from the filesystem context to the error."""
    try:
        return _check(result, call, fstype)
    except OSError as error:
        try:
            words = os.read(context, 4096).decode(errors="replace").strip()
        except OSError:  # ENODATA: it wrote nothing
            raise error from None
        raise OSError(error.errno, f"{error.strerror} ({words})", fstype) from None


def _capability_header() -> ctypes.Array[ctypes.c_char]:
    """Return the header "version 3, this thread", in a buffer, because the kernel may write its own version there."""
    return ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)


def _empty_bounding_set() -> None:
    """Drop every capability that this kernel knows, up to the first EINVAL; /proc, which lists them, may be hidden."""
    capability = 0
    while True:
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL and capability > 0:
                return
            raise
        capability += 1


def _close_one_by_one(first: int, last: int) -> None:
    """Close the descriptors listed in /proc; if /proc is hidden raise an error, as guessing could leave some open."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if first <= fd <= last:
            try:
                os.close(fd)
            except OSError as error:
                if error.errno != errno.EBADF:  # the directory's own descriptor, which is closed by now
                    raise
