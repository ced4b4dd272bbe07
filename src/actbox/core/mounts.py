"""Files and folders of the host that a program sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from .errors import InvalidValue

MountMode = Literal["ro", "rw", "overlay"]

WORKSPACE = PurePosixPath("/workspace")
INPUT = PurePosixPath("/input")
OUTPUT = PurePosixPath("/output")

# A mount over one of these would replace what the sandbox itself is made of.
_RESERVED = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
)


@dataclass(frozen=True, slots=True)
class FileMount:
    """A file or folder of the host that a program sees.

    `mode` is `ro` (the program can read), `rw` (it can also change the host's own files) or `overlay` (it can change
    what it sees; the changes are thrown away when the run ends). A relative `mount_path` lies below `/input`.
    Unpacks as the pair `(host_path, mount_path)`.

    Raises `InvalidValue` where the host path is missing or the mount path would hide the sandbox's own folders.
    """

    host_path: Path
    mount_path: PurePosixPath
    mode: MountMode = "ro"

    def __init__(self, host_path: str | Path, mount_path: str | PurePosixPath, mode: MountMode = "ro") -> None:
        if not str(host_path) or "\0" in str(host_path):
            raise InvalidValue(f"FileMount needs a host path, not {str(host_path)!r}")
        host = Path(host_path).expanduser().absolute()
        try:
            host = host.resolve(strict=True)
        except (OSError, RuntimeError):
            raise InvalidValue(f"FileMount: there is no {host} on this machine") from None
        if mode not in get_args(MountMode):
            raise InvalidValue(f"FileMount({str(host)!r}): mode must be 'ro', 'rw' or 'overlay', not {mode!r}")
        if not (host.is_file() or host.is_dir()):
            raise InvalidValue(f"FileMount: {host} is neither a file nor a folder")
        if mode == "overlay" and not host.is_dir():
            raise InvalidValue(f"FileMount({str(host)!r}): overlay takes a folder; mount a single file 'ro' or 'rw'")
        object.__setattr__(self, "host_path", host)
        object.__setattr__(self, "mount_path", _mount_path(mount_path))
        object.__setattr__(self, "mode", mode)

    def __iter__(self) -> Iterator[str]:
        return iter((str(self.host_path), str(self.mount_path)))


def _mount_path(given: str | PurePosixPath) -> PurePosixPath:
    text = str(given)
    if not text or "\0" in text:
        raise InvalidValue(f"FileMount needs a mount path, not {text!r}")
    path = PurePosixPath(text)
    path = PurePosixPath("/", *path.parts[1:]) if path.is_absolute() else INPUT / path
    if ".." in path.parts:
        raise InvalidValue(f"FileMount: the mount path {text!r} must not contain '..'")
    # /input and /output are the same places as /workspace/input and /workspace/output: one spelling inside.
    for alias in (INPUT, OUTPUT):
        if path.is_relative_to(WORKSPACE / alias.name):
            path = alias / path.relative_to(WORKSPACE / alias.name)
    if len(path.parts) < 2 or path.parts[1] in _RESERVED:
        raise InvalidValue(
            f"FileMount: {text!r} is the sandbox's own; mount below /input or in a folder of your own such as /data"
        )
    if path in (WORKSPACE, INPUT, OUTPUT):
        raise InvalidValue(
            f"FileMount: {text!r} is a folder that every sandbox has; mount below it, such as {path}/data"
        )
    return path
