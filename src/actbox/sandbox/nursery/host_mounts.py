"""Mounts of the host's files and folders: checked once more, and made detached, for one run to attach.

A policy names a path, and what lay there when the policy was made. What lies there by now may be something else, so
that the path is only where we look: it must be the same thing, by device and inode.
"""

from __future__ import annotations

import contextlib
import os
import stat

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from .identity import Identity

# File systems that show or steer the kernel, its processes or its devices.
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
# Where an overlay is made of a folder: what it is called, and what to do where more is mounted in that.
_WITH_WHAT_IS_IN_IT = {
    "overlay": ("as an overlay", "an overlay does not show; mount that by itself, or mount both 'ro'"),
    "input": ("at /input", "would not be seen there; mount the folder below /input instead, such as at /input/data"),
}
_RECURSIVE = linux.AT_EMPTY_PATH | linux.AT_RECURSIVE
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """Something that a policy names cannot be mounted; the message is a sentence for whoever made the policy."""


def open_sockets() -> int:
    """Return a descriptor of the list that the kernel keeps of the Unix sockets in this process's network."""
    return os.open("/proc/self/net/unix", os.O_RDONLY | os.O_CLOEXEC)


class HostMounts:
    """Makes mounts in the namespace where the host's files are seen, which nobody else changes."""

    def __init__(self, identity: Identity, owner_namespace: int, sockets: int) -> None:
        """`owner_namespace` is what `Identity.owner_namespace` returned; -1 where this is not root.

        `sockets` is what `open_sockets` returned in the host's network.
        """
        self._identity = identity
        self._sockets = sockets
        self._owner_namespace = owner_namespace
        self._below: Dict[Tuple[str, str], List[Tuple[str, str]]] = {}

    def make(self, mount: Dict[str, Any]) -> List[int]:
        """Return a detached mount as a descriptor; with `keep_changes` also that of its changes, and their folder.

        Raises `Refused`.
        """
        source = _open_same(mount)
        try:
            self._check(source, mount)
            made = [linux.open_tree(source, "", linux.OPEN_TREE_CLONE | _RECURSIVE)]
        finally:
            os.close(source)
        try:
            self._restrict(made[0], mount["mode"])
            if mount["keep_changes"]:
                self._make_upper(mount, made)
        except BaseException:
            for descriptor in made:
                os.close(descriptor)
            raise
        return made

    def check(self, mount: Dict[str, Any]) -> None:
        """Raise `Refused` where `make` would."""
        source = _open_same(mount)
        try:
            self._check(source, mount)
        finally:
            os.close(source)

    def _restrict(self, descriptor: int, mode: str) -> None:
        attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        if mode in ("ro", "input"):
            attributes |= linux.MOUNT_ATTR_RDONLY
        linux.mount_setattr(descriptor, _RECURSIVE, attributes, 0)
        if self._identity.privileged:
            # A file system that cannot show root's files as the guest's leaves the guest with what others may do.
            with contextlib.suppress(OSError):
                linux.mount_setattr(descriptor, _RECURSIVE, linux.MOUNT_ATTR_IDMAP, 0, userns_fd=self._owner_namespace)

    def _make_upper(self, mount: Dict[str, Any], made: List[int]) -> None:
        """Make the file system for what is changed in an overlay, and open the folder of it that the host reads."""
        options: Dict[str, Any] = {
            "size": "%dm" % mount["size_mib"],
            "nr_inodes": "%d" % mount["inodes"],
            "mode": "0755",
        }
        owner = self._identity.host_id if self._identity.privileged else -1
        if owner >= 0:
            options.update(uid=str(owner), gid=str(owner))
        upper = linux.detached_mount("tmpfs", options, linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV)
        made.append(upper)
        for name in ("lower", "upper", "work"):
            os.mkdir(name, 0o755, dir_fd=upper)
            if owner >= 0:
                os.chown(name, owner, owner, dir_fd=upper)
        made.append(os.open("upper", _FOLDER, dir_fd=upper))

    def _check(self, source: int, mount: Dict[str, Any]) -> None:
        """Raise `Refused` where more than files would come along."""
        path = os.readlink("/proc/self/fd/%d" % source)
        name = mount["host_path"]
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
        """Return (where, type) of the mount that a descriptor is in, and of those below it. Nobody makes new ones."""
        number = _mount_number(source)
        if (number, path) not in self._below:
            found = [(path, kind) for known, _, kind in _mounts() if known == number]
            below = _escape(path.rstrip("/") + "/")
            found += [(where, kind) for _, where, kind in _mounts() if where.startswith(below)]
            self._below[number, path] = found
        return self._below[number, path]


def _open_same(mount: Dict[str, Any]) -> int:
    """Return a descriptor, for its place only, of what the policy means."""
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
    """Return where a socket lies below a folder that a process of the host has bound, "" if none is known.

    The kernel tells a socket by the name that it was bound with. That may lead through links, or begin in the working
    folder that a process has or had: such names are looked for in the working folders that are known, and in this one.
    """
    inside = path.rstrip("/") + "/"
    folders: Dict[str, str] = {}
    starts: List[str] = []
    os.lseek(sockets, 0, os.SEEK_SET)  # the kernel lists them anew
    with open(sockets, "rb", closefd=False) as file:
        lines = file.read().splitlines()[1:]
    for words in (line.split(None, 7) for line in lines):
        name = os.fsdecode(words[7]) if len(words) == 8 else "@"
        if name.startswith("@"):  # it has no file
            continue
        if not name.startswith("/") and not starts:
            starts = [inside, *_working_folders()]
        for start in ["/"] if name.startswith("/") else starts:
            folder, _, last = os.path.join(start, name).rpartition("/")
            if folder not in folders:
                folders[folder] = os.path.realpath(folder).rstrip("/") + "/"
            found = folders[folder] + last
            if found.startswith(inside):
                with contextlib.suppress(OSError):  # it has the name still, and no file any more
                    if stat.S_ISSOCK(os.lstat(found).st_mode):
                        return found
    return ""


def _working_folders() -> List[str]:
    """Return the working folders of the host's processes, of which an ordinary user's nursery may see none."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or is somebody else's
                found.add(os.readlink("/proc/%s/cwd" % name))
    return [folder for folder in found if folder.startswith("/")]


def _mount_number(descriptor: int) -> str:
    with open("/proc/self/fdinfo/%d" % descriptor) as file:
        for line in file:
            if line.startswith("mnt_id:"):
                return line.split()[1]
    raise OSError("the kernel does not say in which mount a file lies")


def _mounts() -> List[Tuple[str, str, str]]:
    """Return (number, where, type) of every mount that is seen here; where is escaped as the kernel does it."""
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
