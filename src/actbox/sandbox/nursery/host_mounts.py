"""Mounts of the host's files and directories: checked again, and made as detached mounts for one run to attach.

A policy names a path, and the file's identity when the policy was made. Another file may lie there by now, so the path
only says where to look: the file found must have the same device and inode.
"""

from __future__ import annotations

import contextlib
import os
import stat

from ..guest.beneath import open_beneath
from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple, Union

# File systems that show or control the kernel, its processes or its devices.
_OF_THE_KERNEL = frozenset(
    [
        "binder",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "functionfs",
        "fusectl",
        "mqueue",
        "nfsd",
        "nsfs",
        "proc",
        "pstore",
        "resctrl",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "smackfs",
        "sysfs",
        "tracefs",
    ]
)
# For a directory with other mounts in it: the name of the overlay mode, and the advice in its error message.
_WITH_WHAT_IS_IN_IT = {
    "overlay": ("as an overlay", "an overlay does not show; mount that by itself, or mount both 'ro'"),
    "input": ("at /input", "would not be seen there; mount the directory below /input instead, such as at /input/data"),
}
_RECURSIVE = linux.AT_EMPTY_PATH | linux.AT_RECURSIVE


class Refused(Exception):
    """Raised when a file of the policy cannot be mounted; the message is written for the policy's author."""


def open_sockets() -> int:
    """Return a descriptor of the kernel's list of the Unix sockets in this process's network namespace."""
    return os.open("/proc/self/net/unix", os.O_RDONLY | os.O_CLOEXEC)


class HostMounts:
    """Makes mounts in the namespace that shows the host's files; no other process changes that namespace."""

    def __init__(self, owner_namespace: Union[Callable[[int], int], None], sockets: int) -> None:
        """`sockets` is the result of `open_sockets` in the host's network namespace.

        As root, `owner_namespace` returns a descriptor of a user namespace through which a mount shows root's files as
        a given user's; it is closed after use. It is `None` for an ordinary user.
        """
        self._owner_namespace = owner_namespace
        self._sockets = sockets
        self._below: Dict[Tuple[str, str], List[Tuple[str, str]]] = {}

    def make(self, mount: Dict[str, Any], host_id: int) -> List[int]:
        """Return a detached mount's descriptor; with `keep_changes` also its upper file system's and directory's.

        `host_id` is the guest's user id outside, used under root only. Raises `Refused`.
        """
        source = _open_same(mount)
        try:
            self._check(source, mount)
            made = [linux.open_tree(source, "", linux.OPEN_TREE_CLONE | _RECURSIVE)]
        finally:
            os.close(source)
        try:
            self._restrict(made[0], mount["mode"], host_id)
            if mount["keep_changes"]:
                self._make_upper(mount, made, host_id)
        except BaseException:
            for descriptor in made:
                os.close(descriptor)
            raise
        return made

    def check(self, mount: Dict[str, Any]) -> None:
        """Raise `Refused` if `make` would."""
        source = _open_same(mount)
        try:
            self._check(source, mount)
        finally:
            os.close(source)

    def _restrict(self, descriptor: int, mode: str, host_id: int) -> None:
        attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        if mode in ("ro", "input", "packages"):
            attributes |= linux.MOUNT_ATTR_RDONLY
        linux.mount_setattr(descriptor, _RECURSIVE, attributes, 0)
        if self._owner_namespace is None:
            return
        owner = self._owner_namespace(host_id)
        try:
            # A file system that cannot map root's files to the guest leaves the guest with other users' rights to them.
            with contextlib.suppress(OSError):
                linux.mount_setattr(descriptor, _RECURSIVE, linux.MOUNT_ATTR_IDMAP, 0, userns_fd=owner)
        finally:
            os.close(owner)

    def _make_upper(self, mount: Dict[str, Any], made: List[int], host_id: int) -> None:
        """Make the file system for an overlay's changes, and open the directory in it that the host reads."""
        options: Dict[str, Any] = {
            "size": "%dm" % mount["size_mib"],
            "nr_inodes": "%d" % mount["inodes"],
            "mode": "0755",
        }
        if self._owner_namespace is not None:
            options.update(uid=str(host_id), gid=str(host_id))
        upper = linux.detached_mount("tmpfs", options, linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV)
        made.append(upper)
        for name in ("lower", "upper", "work"):
            os.mkdir(name, 0o755, dir_fd=upper)
            if self._owner_namespace is not None:
                os.chown(name, host_id, host_id, dir_fd=upper)
        made.append(open_beneath(upper, "upper"))

    def _check(self, source: int, mount: Dict[str, Any]) -> None:
        """Raise `Refused` if the mount would show more than ordinary files."""
        path = os.readlink("/proc/self/fd/%d" % source)
        name = mount["host_path"]
        if mount["mode"] == "packages":  # a directory of our own, which has nothing but the files of packages
            return
        overlay = mount["mode"] in ("overlay", "input")
        for where, kind in self._mounts_at(source, path):
            if kind in _OF_THE_KERNEL:
                raise Refused("%s cannot be mounted, since %s shows the host's kernel (%s)" % (name, where, kind))
            if overlay and where != path:
                how, which = _WITH_WHAT_IS_IN_IT[mount["mode"]]
                raise Refused(
                    "%s cannot be mounted %s, since %s is mounted in it, which %s" % (name, how, where, which)
                )
        if not overlay and (found := _socket_below(path, self._sockets)):  # in an overlay a socket is dead
            raise Refused(
                "%s cannot be mounted, since a process of the host has the socket %s in it, which the program could"
                " talk to; mount it as an overlay, where sockets are dead" % (name, found)
            )

    def _mounts_at(self, source: int, path: str) -> List[Tuple[str, str]]:
        """Return (path, type) of the mount that contains a descriptor, and of the mounts below it.

        The result is cached: nobody makes new mounts in this namespace.
        """
        number = _mount_number(source)
        if (number, path) not in self._below:
            found = [(path, kind) for known, _, kind in _mounts() if known == number]
            below = _escape(path.rstrip("/") + "/")
            found += [(where, kind) for _, where, kind in _mounts() if where.startswith(below)]
            self._below[number, path] = found
        return self._below[number, path]


def _open_same(mount: Dict[str, Any]) -> int:
    """Return an `O_PATH` descriptor of the file that the policy means. Raises `Refused` if it has changed."""
    path = mount["host_path"]
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Refused("%s cannot be mounted any more: %s" % (path, error.strerror)) from error
    status = os.fstat(descriptor)
    if [status.st_dev, status.st_ino] == mount["identity"] and stat.S_ISDIR(status.st_mode) == mount["is_folder"]:
        return descriptor
    os.close(descriptor)
    raise Refused(
        "%s cannot be mounted, since something else lay there when the policy was made; make a new FileMount for what"
        " is there now (or, if it was mounted while this Python process ran, start the process anew)" % path
    )


def _socket_below(path: str, sockets: int) -> str:
    """Return the path of a socket below a directory that a host process has bound; "" if none is known.

    The kernel lists a socket by the name with which it was bound. That name may lead through links, or be relative to a
    process's present or past working directory: such names are looked up in the known working directories and in
    `path`.
    """
    inside = path.rstrip("/") + "/"
    folders: Dict[str, str] = {}
    starts: List[str] = []
    os.lseek(sockets, 0, os.SEEK_SET)  # the kernel lists them anew
    with open(sockets, "rb", closefd=False) as file:
        lines = file.read().splitlines()[1:]
    for words in (line.split(None, 7) for line in lines):
        name = os.fsdecode(words[7]) if len(words) == 8 else "@"
        if name.startswith("@"):  # an abstract socket, which has no file
            continue
        if not name.startswith("/") and not starts:
            starts = [inside, *_working_folders()]
        for start in ["/"] if name.startswith("/") else starts:
            folder, _, last = os.path.join(start, name).rpartition("/")
            if folder not in folders:
                folders[folder] = os.path.realpath(folder).rstrip("/") + "/"
            found = folders[folder] + last
            if found.startswith(inside):
                with contextlib.suppress(OSError):  # the name is still listed, but its file is gone
                    if stat.S_ISSOCK(os.lstat(found).st_mode):
                        return found
    return ""


def _working_folders() -> List[str]:
    """Return the working directories of the host's processes; an ordinary user's nursery may see none of them."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                found.add(os.readlink("/proc/%s/cwd" % name))
    return [folder for folder in found if folder.startswith("/")]


def _mount_number(descriptor: int) -> str:
    with open("/proc/self/fdinfo/%d" % descriptor) as file:
        for line in file:
            if line.startswith("mnt_id:"):
                return line.split()[1]
    raise OSError("the kernel does not say in which mount a file lies")


def _mounts() -> List[Tuple[str, str, str]]:
    """Return (number, path, type) of every mount that is visible here; the path is escaped as the kernel does it."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file.read().splitlines():
            mount, _, system = line.partition(b" - ")
            words = mount.split(b" ")
            found.append((words[0].decode(), os.fsdecode(words[4]), system.split(b" ")[0].decode()))
    return found


def _escape(path: str) -> str:
    for character in "\\ \t\n":  # the backslash first
        path = path.replace(character, "\\%03o" % ord(character))
    return path
