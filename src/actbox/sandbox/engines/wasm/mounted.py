"""The policy's mounts: folders that an instance is given, and single files that are copied in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.mounts import INPUT, OUTPUT, WORKSPACE, FileMount
from actbox.core.private_places import identity_of

from .folders import check_nesting, output_of
from .worker import Volume


def check_mounts(mounts: Iterable[FileMount]) -> None:
    """Raise `Unsupported` for what WebAssembly cannot show a program."""
    mounts = tuple(mounts)
    check_nesting(mounts)
    for mount in mounts:
        path = mount.mount_path
        if path == INPUT:
            raise Unsupported("the wasm engine cannot mount a folder at /input itself; linux can, or mount it below")
        if mount.host_path.is_dir():
            continue
        if mount.mode != "ro":
            raise Unsupported(
                f"the wasm engine mounts single files 'ro' only, not {path}; linux can, or mount a folder"
            )
        if not path.is_relative_to(INPUT):
            raise Unsupported(f"the wasm engine mounts single files below /input only, not at {path}; linux can")


def mount(mounts: Iterable[FileMount], folder: str, input_folder: str) -> tuple[Volume, ...]:
    """Return what an instance is given for them, and make the places for it in a workspace. Blocks.

    Raises `SandboxUnavailable` where another has come to lie at a host path, or a place cannot be made.
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
                " the policy anew, and mount a folder, not a file that is replaced"
            )
    return tuple(volumes)


def _copy(mount: FileMount, place: Path) -> tuple[int, int]:
    """Copy what lies at the host path, if it is the file that is meant; return which it is. Raises `OSError`."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(mount.host_path, flags), "rb") as source:
        status = os.fstat(source.fileno())
        found = status.st_dev, status.st_ino
        if found == mount.identity:
            with open(place, "wb") as target:
                shutil.copyfileobj(source, target)
    return found


def _place_on_host(path: PurePosixPath, folder: str, input_folder: str) -> Path | None:
    """Return where a mount path lies in a workspace, so that a program that lists its folder sees it."""
    if path.is_relative_to(INPUT):
        return Path(input_folder, *path.relative_to(INPUT).parts)
    if path.is_relative_to(OUTPUT):
        return Path(output_of(folder), *path.relative_to(OUTPUT).parts)
    return Path(folder, *path.relative_to(WORKSPACE).parts) if path.is_relative_to(WORKSPACE) else None


def _names(path: PurePosixPath) -> Iterator[str]:
    """Yield the paths by which a program can name a place: `/input` and `/output` lie in the workspace too."""
    yield str(path)
    if path.is_relative_to(INPUT) or path.is_relative_to(OUTPUT):
        yield f"{WORKSPACE}{path}"
