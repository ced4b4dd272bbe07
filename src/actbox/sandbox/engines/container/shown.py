"""The host's folders as a container is shown them: where it can be, with root's files as the sandbox's own.

A container's programs are a user of their own, who may do nothing with what belongs to root. As in the `linux` engine,
a mount that root asks for is id-mapped: what root owns is shown as that user's, and what that user makes is root's.
Such a mount lies in a folder of the container's, and is taken away with it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.mounts import FileMount
from actbox.sandbox.engines.linux.stock import inodes_for
from actbox.sandbox.nursery import linux
from actbox.sandbox.nursery.host_mounts import HostMounts, Refused, open_sockets
from actbox.sandbox.nursery.identity import Identity, has_privilege, write_map

_IN_A_USER_NAMESPACE = (
    "import ctypes, sys\nif ctypes.CDLL(None).unshare(0x10000000): sys.exit(1)\nprint(flush=True)\nsys.stdin.read()"
)


def show(mount: FileMount, place: str, user: int) -> str:
    """Return the path to mount for a policy's mount; `place` is where root puts what is shown.

    As root it is the very file or folder of the policy: it is opened once, and no name leads to it any more. Else it is
    the policy's own path, at which something else may lie by the time it is mounted; see `seen.py`.

    Raises `SandboxUnavailable` where what lies there is not what lay there when the policy was made, or where more than
    files would come along.
    """
    if sys.platform != "linux":
        return str(mount.host_path)
    asked = {
        "host_path": str(mount.host_path),
        "identity": list(mount.identity),
        "is_folder": mount.host_path.is_dir(),
        "mode": mount.mode,
        "keep_changes": False,
    }
    sockets = open_sockets()
    try:
        if not can_hold():
            HostMounts(Identity(privileged=False), -1, sockets).check(asked)
            return str(mount.host_path)
        _show_as_root(asked, place, user, sockets)
        return place
    except Refused as why:
        raise SandboxUnavailable(str(why)) from why
    except OSError as error:
        raise SandboxUnavailable(f"{mount.host_path} cannot be mounted: {error.strerror}") from error
    finally:
        os.close(sockets)


def can_hold() -> bool:
    """Return whether what `show` returns stays what it is, whatever happens to the names that lead to it."""
    return sys.platform == "linux" and has_privilege()


def make_tmpfs(place: str, size_mib: int, user: int) -> bool:
    """Make a file system in memory for a sandbox's user, of bounded size and number of files; return whether it could.

    Only root can.
    """
    if not can_hold():
        return False
    options: dict[str, str | bool] = {
        "size": f"{size_mib}m",
        "nr_inodes": str(inodes_for(size_mib)),
        "mode": "1777",
        "uid": str(user),
        "gid": str(user),
    }
    try:
        descriptor = linux.detached_mount("tmpfs", options, linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV)
    except OSError:
        return False
    try:
        os.mkdir(place)
        linux.move_mount(descriptor, place)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def hide(name: str, parent: int) -> None:
    """Take away what `show` has put below a folder, and the folder with it; nothing that is mounted is touched.

    `parent` is a descriptor of the folder that it lies in. No link is followed. Raises `OSError`.
    """
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        for place in os.listdir(folder):
            with contextlib.suppress(OSError):
                linux.umount(f"/proc/self/fd/{folder}/{place}", linux.MNT_DETACH | linux.UMOUNT_NOFOLLOW)
            with contextlib.suppress(OSError):
                _remove_empty(place, folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)


def _remove_empty(name: str, parent: int) -> None:
    """Remove an empty folder, or what is none. Raises `OSError` where something is mounted there still."""
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)


def _show_as_root(asked: dict[str, Any], place: str, user: int, sockets: int) -> None:
    owner = _owner_namespace(user)
    try:
        [descriptor] = HostMounts(Identity(privileged=True), owner, sockets).make(asked)
    finally:
        os.close(owner)
    try:
        if asked["is_folder"]:
            os.mkdir(place)
        else:
            Path(place).touch()
        linux.move_mount(descriptor, place)
    finally:
        os.close(descriptor)


def _owner_namespace(user: int) -> int:
    """Return a user namespace by which a mount shows root's files as a user's (and back)."""
    command = [sys.executable, "-I", "-S", "-c", _IN_A_USER_NAMESPACE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdin is not None and inside.stdout is not None
        if not inside.stdout.readline():
            raise OSError("no user namespace can be made")
        write_map(str(inside.pid), 0, user, user, deny_setgroups=False)
        return os.open(f"/proc/{inside.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
