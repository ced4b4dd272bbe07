"""The host's directories in a container: mounted, if possible, with root's files shown as the sandbox user's.

A container's programs have their own user, who may do nothing with root's files. As in the `linux` engine, a mount made
under root is id-mapped: root's files are shown as that user's, and files that the user makes are root's. Such a mount
lies in a directory of the container's, and is removed with it.

Without root, Podman and Docker get a path, and mount whatever is there when they open it. A program of another run that
may change the parent directory could put a link there at that moment. So the mounts are checked from inside the
container before any program runs in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.mounts import FileMount
from actbox.sandbox.engines.linux.stock import inodes_for
from actbox.sandbox.guest.beneath import opened
from actbox.sandbox.host_processes import boot_id
from actbox.sandbox.nursery import linux
from actbox.sandbox.nursery.host_mounts import HostMounts, Refused, open_sockets
from actbox.sandbox.nursery.identity import has_privilege, write_map

from .client import Client, CommandFailed

_IN_A_USER_NAMESPACE = (
    "import ctypes, sys\nif ctypes.CDLL(None).unshare(0x10000000): sys.exit(1)\nprint(flush=True)\nsys.stdin.read()"
)
_LOOK = """
import json, os, sys
try: boot = open('/proc/sys/kernel/random/boot_id').read().strip()
except OSError: boot = ''
found = [os.stat(path) for path in sys.argv[1:]]
print(json.dumps([boot, [[status.st_dev, status.st_ino] for status in found]]))
"""


def show(mount: FileMount, place: str, user: int) -> str:
    """Return the path to mount for a policy's mount; `place` is where root attaches it.

    Under root it is the very file or directory of the policy: it is opened once, and no name leads to it any more.
    Otherwise it is the policy's own path, where something else may lie by the time it is mounted; see `check_seen`.

    Raises `SandboxUnavailable` if it is not the same as when the policy was made, or if the mount would show more than
    ordinary files.
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
            HostMounts(None, sockets).check(asked)
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
    """Return whether the result of `show` stays the same file, whatever happens to its path."""
    return sys.platform == "linux" and has_privilege()


def make_tmpfs(place: str, size_mib: int, user: int) -> bool:
    """Mount a file system in memory for a sandbox's user, with bounds on size and files; return whether it worked.

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
    """Unmount what `show` has attached below a directory, and remove the directory; mounted files are not touched.

    `parent` is a descriptor of the directory's parent. No link is followed. Raises `OSError`.
    """
    with opened(parent, name) as folder:
        for place in os.listdir(folder):
            with contextlib.suppress(OSError):
                linux.umount(f"/proc/self/fd/{folder}/{place}", linux.MNT_DETACH | linux.UMOUNT_NOFOLLOW)
            with contextlib.suppress(OSError):
                _remove_empty(place, folder)
    os.rmdir(name, dir_fd=parent)


def _remove_empty(name: str, parent: int) -> None:
    """Remove an empty directory, or a file. Raises `OSError` if something is still mounted there."""
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)


def _show_as_root(asked: dict[str, Any], place: str, user: int, sockets: int) -> None:
    [descriptor] = HostMounts(_owner_namespace, sockets).make(asked, user)
    try:
        if asked["is_folder"]:
            os.mkdir(place)
        else:
            Path(place).touch()
        linux.move_mount(descriptor, place)
    finally:
        os.close(descriptor)


def _owner_namespace(user: int) -> int:
    """Return a user namespace through which a mount shows root's files as a user's, and the reverse."""
    command = [sys.executable, "-I", "-S", "-c", _IN_A_USER_NAMESPACE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdin is not None and inside.stdout is not None
        if not inside.stdout.readline():
            raise OSError("no user namespace can be made")
        write_map(str(inside.pid), 0, user, user, deny_setgroups=False)
        return os.open(f"/proc/{inside.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)


def check_seen(
    client: Client, name: str, python: str, mounts: Sequence[tuple[FileMount, str]], *, one_kernel: bool
) -> None:
    """Check that a container has the mounts that its policy means. Blocks. Raises `SandboxUnavailable`.

    `python` is an interpreter there; each mount comes with its path there. `one_kernel` is true if the container is
    known to have this process's kernel.
    """
    try:
        boot_there, found = json.loads(
            client.run("exec", name, python, "-I", "-S", "-c", _LOOK, *(path for _, path in mounts))
        )
        seen = [(int(device), int(inode)) for device, inode in found]
    except CommandFailed as error:
        raise SandboxUnavailable(f"what was mounted cannot be seen: {error}") from error
    except (ValueError, TypeError) as error:
        raise SandboxUnavailable(
            "what was mounted cannot be seen: the container's Python said no such thing"
        ) from error
    if not one_kernel and (not boot_there or boot_there != boot_id()):
        _refuse_what_can_change(client, mounts)  # another kernel numbers files differently
        return
    for (mount, _), identity in zip(mounts, seen, strict=True):
        if identity != mount.identity:
            raise SandboxUnavailable(
                f"{mount.host_path} cannot be mounted, since something else came to lie there just when it was"
            )


def _refuse_what_can_change(client: Client, mounts: Sequence[tuple[FileMount, str]]) -> None:
    """Refuse mounts whose place programs of this policy could fill with something else."""
    for mount, _ in mounts:
        for other, _ in mounts:
            if other.mode == "rw" and other.host_path in mount.host_path.parents:
                raise SandboxUnavailable(
                    f"{mount.host_path} cannot be mounted beside {other.host_path}, which programs may change: they "
                    f"could put a link in its place, and {client.name} would follow that; mount a directory elsewhere"
                )
