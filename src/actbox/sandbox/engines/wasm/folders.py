"""Where a sandbox's files lie on the host, so that no program can have an instance be given anything else.

An instance is given folders by their host paths. A program may rearrange what is in the folders that it was given, so
none of these lies in another one: `workspace`, `input` and `output` lie beside each other, in a folder that no instance
has. What the policy mounts lies where it lies; the worker opens each folder once and looks whether it is the one that
was meant (`inside.py`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from actbox.core.errors import Unsupported
from actbox.core.mounts import FileMount
from actbox.sandbox.embedded.sandbox import Place
from actbox.sandbox.storage import Storage

from .clerk import ClerkWorkspace
from .worker import Volume

HAS_DESCRIPTORS: Final = hasattr(os, "O_NOFOLLOW") and os.open in os.supports_dir_fd
"""Whether files can be opened here in a way that no link can lead elsewhere."""
_OPENS_ONCE: Final = os.path.isdir("/proc/self/fd")
"""Whether a worker can hand the library a folder that it has open, and not a path that is looked up again."""


def output_of(folder: str) -> str:
    """Return where `output` lies on the host, beside a workspace's folder."""
    return f"{os.path.dirname(folder)}/output"


def open_files(folder: str, input_folder: str) -> Storage:
    """Return the files of a workspace, making the place of its output where there is none. Raises `OSError`."""
    output = output_of(folder)
    os.makedirs(output, exist_ok=True)
    if not HAS_DESCRIPTORS:
        return ClerkWorkspace(folder, input_folder, output)
    from actbox.sandbox.workspace import open_folder  # which not every system can import

    from .utf8_workspace import Utf8Workspace

    return Utf8Workspace(
        open_folder(folder),
        "/workspace",
        input_descriptor=open_folder(input_folder),
        output_in=open_folder(os.path.dirname(output)),
    )


def volumes_of(place: Place) -> tuple[Volume, ...]:
    """Return what an instance is given of a new workspace. Raises `OSError`."""
    output = output_of(place.folder)
    return (
        Volume.of(place.folder, "/workspace"),
        Volume.of(place.input_folder, "/workspace/input", read_only=True),
        Volume.of(place.input_folder, "/input", read_only=True),
        Volume.of(output, "/workspace/output"),
        Volume.of(output, "/output"),
    )


def check_nesting(mounts: Iterable[FileMount]) -> None:
    """Raise `Unsupported` for what a program could move, where no worker can tell in time that it was moved."""
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
