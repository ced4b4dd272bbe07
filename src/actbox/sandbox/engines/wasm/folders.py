"""The places of a sandbox's files on the host, chosen so that no program can make an instance open anything else.

An instance gets directories by their host paths. A program may move anything in the directories that it was given, so
none of these lies in another one: `workspace`, `input` and `output` lie beside each other, in a directory that no
instance gets. The policy's mounts stay where they are; the worker opens each directory once and checks that it is the
intended one (`worker_process.py`). Of the mounts, directories are given to an instance, and single files are copied in.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.mounts import INPUT, OUTPUT, WORKSPACE, FileMount
from actbox.core.protected_places import identity_of
from actbox.sandbox.embedded.sandbox import Place
from actbox.sandbox.storage import Storage

from .served_workspace import ServedWorkspace
from .worker import Volume

HAS_DESCRIPTORS: Final = hasattr(os, "O_NOFOLLOW") and os.open in os.supports_dir_fd
"""True if files can be opened here so that no link can lead elsewhere."""
_OPENS_ONCE: Final = os.path.isdir("/proc/self/fd")
"""True if a worker can give the library an open directory, instead of a path that is looked up again."""


def output_of(folder: str) -> str:
    """Return the path of `output` on the host, beside a workspace's directory."""
    return f"{os.path.dirname(folder)}/output"


def open_files(folder: str, input_folder: str) -> Storage:
    """Return the files of a workspace, making its output directory if needed. Raises `OSError`."""
    output = output_of(folder)
    os.makedirs(output, exist_ok=True)
    if not HAS_DESCRIPTORS:
        return ServedWorkspace(folder, input_folder, output)
    from actbox.sandbox.workspace import Utf8Workspace, open_folder  # not every system can import it

    return Utf8Workspace(
        open_folder(folder),
        "/workspace",
        input_descriptor=open_folder(input_folder),
        output_in=open_folder(os.path.dirname(output)),
    )


def volumes_of(place: Place) -> tuple[Volume, ...]:
    """Return the directories of a new workspace for an instance. Raises `OSError`."""
    output = output_of(place.folder)
    return (
        Volume.of(place.folder, "/workspace"),
        Volume.of(place.input_folder, "/workspace/input", read_only=True),
        Volume.of(place.input_folder, "/input", read_only=True),
        Volume.of(output, "/workspace/output"),
        Volume.of(output, "/output"),
    )


def check_mounts(mounts: Iterable[FileMount]) -> None:
    """Raise `Unsupported` for mounts that WebAssembly cannot show a program."""
    mounts = tuple(mounts)
    _check_nesting(mounts)
    for mount in mounts:
        path = mount.mount_path
        if path == INPUT:
            raise Unsupported("the wasm engine cannot mount a directory at /input itself; linux can, or mount it below")
        if mount.host_path.is_dir():
            continue
        if mount.mode != "ro":
            raise Unsupported(
                f"the wasm engine mounts single files 'ro' only, not {path}; linux can, or mount a directory"
            )
        if not path.is_relative_to(INPUT):
            raise Unsupported(f"the wasm engine mounts single files below /input only, not at {path}; linux can")


def _check_nesting(mounts: Iterable[FileMount]) -> None:
    """Raise `Unsupported` for mounts that a program could move, if no worker can notice that in time."""
    if _OPENS_ONCE:
        return
    places = [mount.host_path for mount in mounts]
    for mount in mounts:
        if mount.mode != "rw":
            continue
        for inner in (*places, Path(tempfile.gettempdir()).resolve()):
            if inner != mount.host_path and inner.is_relative_to(mount.host_path):
                raise Unsupported(
                    f"the wasm engine cannot keep {inner} safe from programs on this system while {mount.host_path},"
                    " which it lies in, is mounted 'rw'; mount that 'ro', or use Linux"
                )


def mount(mounts: Iterable[FileMount], folder: str, input_folder: str) -> tuple[Volume, ...]:
    """Return an instance's directories for the mounts, after making their mount points in a workspace. Blocks.

    Raises `SandboxUnavailable` if a host path has another file now, or a mount point cannot be made.
    """
    volumes: list[Volume] = []
    for each in mounts:
        place = _place_on_host(each.mount_path, folder, input_folder)
        try:
            if each.host_path.is_dir():
                if place is not None:
                    place.mkdir(parents=True, exist_ok=True)
                path, read_only = str(each.host_path), each.mode == "ro"
                volumes += (Volume(path, name, read_only, each.identity) for name in _names(each.mount_path))
                found = identity_of(each.host_path)
            elif place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                found = _copy(each, place)
        except OSError as error:
            raise SandboxUnavailable(f"{each.host_path} cannot be mounted: {error.strerror or error}") from None
        if found != each.identity:
            raise SandboxUnavailable(
                f"{each.host_path} is another than when it was mounted: something has come to lie in its place; make"
                " the policy anew, and mount a directory, not a file that is replaced"
            )
    return tuple(volumes)


def _copy(mount: FileMount, place: Path) -> tuple[int, int]:
    """Copy the file at the host path if it is the intended one; return its device and inode. Raises `OSError`."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(mount.host_path, flags), "rb") as source:
        status = os.fstat(source.fileno())
        found = status.st_dev, status.st_ino
        if found == mount.identity:
            with open(place, "wb") as target:
                shutil.copyfileobj(source, target)
    return found


def _place_on_host(path: PurePosixPath, folder: str, input_folder: str) -> Path | None:
    """Return the host path of a mount point in a workspace, so that programs see it in listings; `None` outside."""
    if path.is_relative_to(INPUT):
        return Path(input_folder, *path.relative_to(INPUT).parts)
    if path.is_relative_to(OUTPUT):
        return Path(output_of(folder), *path.relative_to(OUTPUT).parts)
    return Path(folder, *path.relative_to(WORKSPACE).parts) if path.is_relative_to(WORKSPACE) else None


def _names(path: PurePosixPath) -> Iterator[str]:
    """Yield the paths by which a program can name an entry: `/input` and `/output` lie in the workspace too."""
    yield str(path)
    if path.is_relative_to(INPUT) or path.is_relative_to(OUTPUT):
        yield f"{WORKSPACE}{path}"
