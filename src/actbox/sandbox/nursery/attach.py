"""Attaches one run's workspace, mounts and file system sizes to a sandbox that already exists.

The mounts are descriptors made by the nursery, which still sees the host's files. Here paths are the guest's paths.
Earlier runs may have left links in the workspace: they can redirect a mount to another place within the guest's own
view, but nowhere else.
"""

from __future__ import annotations

import os

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

# Pid 1 itself makes mount points below these; elsewhere the template has them.
OWN = ("/workspace/", "/tmp/", "/dev/shm/")
# The mode of the mounts for `/tmp` and `/dev/shm`, if these are directories of the workspace's file system.
SHARED = "shared"
# For semaphores and small arrays shared between processes; the same size as containers usually get.
_SHARED_MEMORY_MIB = 64
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_INPUT = "/workspace/input"


class CannotAttach(Exception):
    """Raised when this machine cannot attach a mount of the policy; the message is written for the policy's author."""


def mount_own(size_mib: int, inodes: int) -> None:
    """Mount `tmp` and `dev/shm` below the working directory: in memory, of a bounded size."""
    for folder, flags, options in _own(size_mib, inodes):
        linux.mount("tmpfs", folder, "tmpfs", flags, options)


def resize_own(size_mib: int, inodes: int) -> None:
    """Change the size of `/tmp` and `/dev/shm`."""
    for folder, flags, options in _own(size_mib, inodes):
        linux.mount("tmpfs", "/" + folder, "tmpfs", flags | linux.MS_REMOUNT, options)


def attach_late(late: List[Tuple[str, int]], below_workspace: bool) -> None:
    """Attach the environment's directories that lie below the sandbox's own directories."""
    for path, descriptor in late:
        if path.startswith("/workspace/") == below_workspace:
            make_point(path, True)
            linux.move_mount(descriptor, path)


def attach_shared(request: Dict[str, Any], descriptors: List[int], late: List[str]) -> bool:
    """Attach `/tmp` and `/dev/shm` of a run, if they share the workspace's file system; return whether they do.

    Call it before `attach_run`, with the same arguments. The environment's directories below them, of `late`, are
    attached again.
    """
    mounts = zip(request["mounts"], descriptors[2:])  # noqa: B905 (there is none before CPython 3.10)
    shared = [(mount["path"], descriptor) for mount, descriptor in mounts if mount["mode"] == SHARED]
    for place, descriptor in shared:
        below = [path for path in late if path.startswith(place + "/")]
        again = [linux.open_tree(linux.AT_FDCWD, path, linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE) for path in below]
        linux.umount(place, linux.MNT_DETACH)
        linux.move_mount(descriptor, place)
        for path, tree in zip(below, again):  # noqa: B905 (there is none before CPython 3.10)
            make_point(path, True)
            linux.move_mount(tree, path)
            os.close(tree)
    return bool(shared)


def attach_run(request: Dict[str, Any], descriptors: List[int]) -> List[int]:
    """Attach the workspace, its inputs and the policy's mounts, in the order of the descriptors.

    After them come, in the same order, the file systems for overlay changes that are to be kept. Returns a descriptor
    of each overlay, because what is written there lies in memory.
    """
    workspace, inputs, *given = descriptors
    mounts = request["mounts"]
    linux.move_mount(workspace, "/workspace")
    pairs = list(zip(mounts, given))  # noqa: B905 (there is none before CPython 3.10)
    for mount in mounts:
        if mount["path"].startswith(OWN):
            make_point(mount["path"], mount["is_folder"])
    attach_inputs(inputs, [folder for mount, folder in pairs if mount["mode"] == "input"])
    overlays = []
    uppers = iter(given[len(mounts) :])
    for mount, descriptor in pairs:
        if mount["mode"] == "overlay":
            upper = next(uppers) if mount["keep_changes"] else -1
            overlays.append(_overlay(descriptor, upper, mount["path"], request["tmp_mib"], request["inodes"]))
        elif mount["mode"] not in ("input", SHARED):
            linux.move_mount(descriptor, mount["path"])
    return overlays


def attach_inputs(inputs: int, below: List[int], root: str = "") -> None:
    """Attach the workspace's own directory of inputs, merged over a host directory if `below` has one.

    `root` is the tree to attach it in. For a moment its `/tmp` is covered by another mount.
    """
    if not below:
        linux.move_mount(inputs, root + _INPUT)
        return
    (folder,) = below
    aside = root + "/tmp"
    linux.mount("tmpfs", aside, "tmpfs", _FLAGS, "size=1m,mode=0755")
    try:
        for name, descriptor in (("own", inputs), ("host", folder)):
            os.mkdir(aside + "/" + name)
            linux.move_mount(descriptor, aside + "/" + name)
        # An overlay without an upper layer can never be written, by anyone; the first lower layer wins.
        options = "lowerdir=%s/own:%s/host,userxattr" % (aside, aside)
        linux.mount("overlay", root + _INPUT, "overlay", _FLAGS | linux.MS_RDONLY, options)
    except OSError as error:
        raise CannotAttach(
            "a directory cannot be mounted at /input itself here, since the kernel makes no overlay of it in a user"
            " namespace (%s); mount it below /input instead, such as at /input/data" % error.strerror
        ) from error
    finally:
        linux.umount(aside, linux.MNT_DETACH)


def open_inputs(root: str = "") -> int:
    """Return an `O_PATH` descriptor of what a guest sees at `/input`."""
    return os.open(root + _INPUT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _own(size_mib: int, inodes: int) -> List[Tuple[str, int, str]]:
    options = "size=%dm,nr_inodes=%d,mode=1777"
    return [
        ("tmp", _FLAGS, options % (size_mib, inodes)),
        ("dev/shm", _FLAGS | linux.MS_NOEXEC, options % (min(size_mib, _SHARED_MEMORY_MIB), inodes)),
    ]


def make_point(path: str, is_folder: bool) -> None:
    """Make a directory or file to mount something on, unless the path exists."""
    if os.path.exists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        with open(path, "x"):
            pass


def _overlay(lower: int, upper: int, target: str, size_mib: int, inodes: int) -> int:
    """Mount a directory so that it can be changed, with the changes in memory only; return a descriptor of it.

    `upper` is the file system for changes that the host will read, or -1.
    """
    if upper >= 0:
        linux.move_mount(upper, "/tmp")
    else:
        linux.mount("tmpfs", "/tmp", "tmpfs", _FLAGS, "size=%dm,nr_inodes=%d,mode=0755" % (size_mib, inodes))
        for name in ("lower", "upper", "work"):
            os.mkdir("/tmp/" + name)
    linux.move_mount(lower, "/tmp/lower")
    options = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr"
    linux.mount("overlay", target, "overlay", _FLAGS, options)
    linux.umount("/tmp", linux.MNT_DETACH)
    return os.open(target, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
