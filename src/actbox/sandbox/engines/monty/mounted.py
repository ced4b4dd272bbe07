"""The policy's mounts: opened when the sandbox starts, and given to programs as places."""

from __future__ import annotations

import contextlib
import os
import stat as stat_modes
from collections.abc import Iterable

from actbox.core.errors import SandboxUnavailable
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.workspace import Workspace

from .files import Place
from .folders import Folder, HostFolder, LayeredFolder

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Mounted:
    """What is mounted, held open until `close`."""

    def __init__(self, mounts: Iterable[FileMount]) -> None:
        """Open all of it. Raises `SandboxUnavailable` where something else has come to lie at a host path."""
        self._held = contextlib.ExitStack()
        self._found: list[tuple[FileMount, Folder, bool]] = []
        try:
            for mount in mounts:
                self._found.append(self._opened(mount))
        except BaseException:
            self._held.close()
            raise

    def close(self) -> None:
        """Let go of it."""
        self._held.close()

    def places(self, limits: Limits, held: contextlib.ExitStack) -> tuple[Place, ...]:
        """Return the places of a program, whose changes to overlays last until `held` is closed. Blocks."""
        return tuple(self._place(mount, folder, is_file, limits, held) for mount, folder, is_file in self._found)

    def _opened(self, mount: FileMount) -> tuple[FileMount, Folder, bool]:
        try:
            status = os.lstat(mount.host_path)
            is_file = stat_modes.S_ISREG(status.st_mode)
            descriptor = os.open(mount.host_path.parent if is_file else mount.host_path, _FOLDER)
        except OSError as error:
            raise SandboxUnavailable(f"{mount.host_path} cannot be mounted: {error.strerror}") from None
        workspace = Workspace(descriptor, str(mount.mount_path))
        self._held.callback(workspace.close)
        status = (
            os.stat(mount.host_path.name, dir_fd=descriptor, follow_symlinks=False) if is_file else os.fstat(descriptor)
        )
        if (status.st_dev, status.st_ino) != mount.identity:
            raise SandboxUnavailable(
                f"{mount.host_path} is another than when it was mounted: something has come to lie in its place; make"
                " the policy anew, and mount a folder, not a file that is replaced"
            )
        return mount, HostFolder(workspace), is_file

    def _place(
        self, mount: FileMount, folder: Folder, is_file: bool, limits: Limits, held: contextlib.ExitStack
    ) -> Place:
        parts = mount.mount_path.parts[1:]
        if is_file:
            return Place(parts, folder, writable=mount.mode == "rw", inner=mount.host_path.name, is_file=True)
        if mount.mode != "overlay":
            return Place(parts, folder, writable=mount.mode == "rw")
        changes = make_folder()
        held.callback(remove_folder, changes)
        upper = Workspace(os.open(changes, _FOLDER), str(mount.mount_path))
        held.callback(upper.close)
        layered = LayeredFolder(HostFolder(upper), folder, limits.file_mib * 2**20)
        return Place(parts, layered, writable=True, bounded=True, keep_changes=mount.keep_changes)
