"""One sandbox, from the fork to the guest: pid 1 builds the sandbox around itself, then forks the guest into it.

Pid 1 is ours and stays: it reaps what guests leave behind, looks after the limits that no kernel mechanism holds, and
writes down how the guest ended. When it ends, or is killed, the kernel ends everything in the sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any, NoReturn

from ..guest import main as guest
from . import linux, seccomp
from .identity import Identity
from .watch import Watcher, wait_for

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWCGROUP
)
_CHANNEL = 3
# For semaphores and small arrays between processes; as much as containers give.
_SHARED_MEMORY_MIB = 64
# Where the child itself makes mount points; elsewhere the template has them.
_CHILDS_OWN = ("/workspace/", "/tmp/", "/dev/shm/")

Descriptors = dict[str, int]


def be_child(
    request: dict[str, Any],
    descriptors: Descriptors,
    mounts: list[tuple[dict[str, Any], int]],
    template: str,
    identity: Identity,
    sync: int,
    filter_program: bytes,
) -> NoReturn:
    """Make a new sandbox and be its pid 1; never returns.

    `sync` is a socket to the nursery, which maps our ids if it is root, learns from us which process is pid 1, and
    becomes its parent.
    """
    status = descriptors["status"]
    try:
        os.setsid()
        os.umask(0o022)
        for cgroup in sorted(name for name in descriptors if name.startswith("cgroup")):
            os.write(descriptors[cgroup], b"0")
        # A kernel may have been built without the last of them.
        linux.unshare(_NAMESPACES if os.path.exists("/proc/self/ns/cgroup") else _NAMESPACES & ~linux.CLONE_NEWCGROUP)
        if identity.privileged:
            os.write(sync, b"x")
            _await_nursery(sync)
        identity.become_guest()
        # The pid namespace begins with the next fork: that is pid 1, and this process has done its part.
        pid = os.fork()
        if pid:
            os.write(sync, b"%d" % pid)
            os._exit(0)
        _await_nursery(sync)  # until it has become our parent
        linux.set_parent_death_signal(signal.SIGKILL)
        linux.sethostname("actbox")
        linux.bring_loopback_up()
        # For counting processes; made while the host's own /proc is still in view, as the kernel demands.
        proc = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=linux.detached_mount("proc", {}))
        _build_root(request, descriptors, mounts, template)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        first = os.fork()
        if first == 0:
            _be_guest(descriptors, filter_program)
        killed = descriptors.get("memory_events")
        _keep_only([status, proc] if killed is None else [status, proc, killed])
        linux.drop_capabilities()
        linux.set_dumpable(False)
        _watch(first, Watcher(proc, request["watched"], killed), status)
    except BaseException as error:
        _say(status, {"failure": "%s: %s" % (type(error).__name__, error)})
        os._exit(1)


def _await_nursery(sync: int) -> None:
    if os.read(sync, 1) != b"x":
        os._exit(1)  # the nursery has gone


def _build_root(
    request: dict[str, Any], descriptors: Descriptors, mounts: list[tuple[dict[str, Any], int]], template: str
) -> None:
    # A copy of the template that is ours alone. The mount copied along with the namespace is locked: it cannot be the
    # root, and nothing can be taken out of it.
    linux.mount(template, template, None, linux.MS_BIND | linux.MS_REC, None)
    os.chdir(template)
    flags = linux.MS_NOSUID | linux.MS_NODEV
    size = "size=%dm,nr_inodes=%d,mode=" % (request["tmp_mib"], request["inodes"])
    linux.mount("tmpfs", "tmp", "tmpfs", flags, size + "1777")
    shared = "size=%dm,nr_inodes=%d,mode=1777" % (min(request["tmp_mib"], _SHARED_MEMORY_MIB), request["inodes"])
    linux.mount("tmpfs", "dev/shm", "tmpfs", flags | linux.MS_NOEXEC, shared)
    linux.mount("proc", "proc", "proc", flags | linux.MS_NOEXEC, "subset=pid,hidepid=invisible")
    linux.move_mount(descriptors["workspace"], "workspace")
    linux.pivot_root(".", ".")
    linux.umount(".", linux.MNT_DETACH)
    # From here on a path means what it means to the guest. Earlier runs may have left links in the workspace: they
    # can lead a mount to another place of the guest's own view, and nowhere else.
    for mount, _ in mounts:
        if mount["path"].startswith(_CHILDS_OWN):
            _make_point(mount["path"], mount["is_folder"])
    linux.move_mount(descriptors["input"], "/workspace/input")
    for mount, descriptor in mounts:
        if mount["mode"] == "overlay":
            _overlay(descriptor, mount["path"], size)
        else:
            linux.move_mount(descriptor, mount["path"])
    os.chdir("/workspace")


def _make_point(path: str, is_folder: bool) -> None:
    if os.path.exists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        with open(path, "x"):
            pass


def _overlay(lower: int, target: str, size: str) -> None:
    """Mount a folder so that it can be changed, with the changes in memory only."""
    linux.mount("tmpfs", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, size + "0755")
    for name in ("lower", "upper", "work"):
        os.mkdir("/tmp/" + name)
    linux.move_mount(lower, "/tmp/lower")
    options = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr"
    linux.mount("overlay", target, "overlay", linux.MS_NOSUID | linux.MS_NODEV, options)
    linux.umount("/tmp", linux.MNT_DETACH)


def _be_guest(descriptors: Descriptors, filter_program: bytes) -> NoReturn:
    try:
        for number, name in enumerate(("stdin", "stdout", "stderr", "channel")):
            _move_to(descriptors, name, number)
        linux.close_range(_CHANNEL + 1)
        os.set_inheritable(_CHANNEL, False)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not signal.SIG_DFL:
                _reset(number)
        os.setsid()
        linux.drop_capabilities()
        linux.set_dumpable(True)  # so that it can read its own /proc/self, as every process can
        linux.set_no_new_privs()
        seccomp.install(filter_program)
    except BaseException as error:
        # Without all of this there is no sandbox, and so no program.
        os.write(2, ("the sandbox could not be closed: %s\n" % error).encode())
        os._exit(125)
    guest.main(_CHANNEL)


def _reset(number: int) -> None:
    # What Python itself ignores or handles stays: a broken pipe is an exception, Ctrl-C is KeyboardInterrupt.
    if number in (signal.SIGPIPE, signal.SIGXFSZ):
        return
    handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    with contextlib.suppress(OSError, ValueError):  # the C library keeps a few for itself
        signal.signal(number, handler)


def _move_to(descriptors: Descriptors, name: str, number: int) -> None:
    """Give a descriptor its number, after whatever has that number now has been moved out of the way."""
    for other, taken in descriptors.items():
        if taken == number and other != name:
            descriptors[other] = os.dup(taken)
    if descriptors[name] != number:
        os.dup2(descriptors[name], number)
        descriptors[name] = number
    else:
        os.set_inheritable(number, True)


def _keep_only(descriptors: list[int]) -> None:
    start = 0
    for descriptor in sorted(descriptors):
        if descriptor > start:
            linux.close_range(start, descriptor - 1)
        start = descriptor + 1
    linux.close_range(start)


def _watch(first: int, watcher: Watcher, status: int) -> NoReturn:
    code, usage, limit = wait_for(first, watcher, lambda: _say(status, {"limit": "processes"}))
    ended: dict[str, Any] = {
        "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000,
        "max_rss_bytes": usage.ru_maxrss * 1024,
    }
    if limit:
        ended["limit"] = limit
    if os.WIFSIGNALED(code):
        ended["signal"] = os.WTERMSIG(code)
    else:
        ended["exit_code"] = os.WEXITSTATUS(code)
    _say(status, ended)
    os._exit(0)


def _say(status: int, fact: dict[str, Any]) -> None:
    """Tell the host a fact about the end. It reads them all when this process is gone; later ones win."""
    try:
        os.write(status, json.dumps(fact).encode() + b"\n")
    except OSError:
        sys.exit(1)  # nobody is left to be told
