"""File mounts: files and directories of the host that a program sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path, PurePath, PurePosixPath
from typing import Literal, get_args

from .errors import InvalidValue
from .labels import PUBLIC, Label, clearance_of, label_of
from .lazy_dataclass import dataclass
from .protected_places import identity_of, why_not_writable, why_private

MountMode = Literal["ro", "rw", "overlay"]

WORKSPACE = PurePosixPath("/workspace")
INPUT = PurePosixPath("/input")
OUTPUT = PurePosixPath("/output")

# A mount over one of these would replace a part of the sandbox itself.
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
    """A file or directory of the host that a program sees.

    `mode` is `ro` (the program can read), `rw` (it can also change the host's own files) or `overlay` (it can change
    its view, and the host's files stay unchanged). Changes in an overlay are discarded when the run, or the session,
    ends; with `keep_changes` they are also in `ExecutionResult.changes`, up to as many files and MiB as `Limits` allows
    artifacts. A relative `mount_path` lies below `/input`. Unpacks as the pair `(host_path, mount_path)`.

    Links in a mounted directory are resolved inside the sandbox. Devices in it do not work, and set-user-id bits have
    no effect. In an overlay, sockets and named pipes do not work either. In the other modes they do: a directory in
    which a process of the host has a socket is refused, and through a named pipe a program may talk to a process that
    has it open.

    A program's locks on files in `ro` and `rw` mounts also lock them for the host: `flock` needs no write permission,
    so a program can block a host process that locks the same file. In an overlay, and at `/input` itself, locks do not
    reach the host. Leases, which would delay host processes that open a file for writing, are denied everywhere.

    At `/input` itself one directory may be mounted, `ro`. Programs see it merged with the files placed below `/input`
    for them, which hide its files of the same name, and with other mounts below `/input`, for which it needs no mount
    points. Nothing is created in it. The next program sees changes made to it, or below `/input`, while a program runs;
    the running one may or may not. Sockets and named pipes in it do not work. A directory with mounts of the host
    inside it is refused, because programs would not see them.

    A mount refers to the very file or directory that was at `host_path` when this object was made: if another one
    replaces it, runs fail with a sentence that says so. So mount a directory, not a file that is replaced at times.

    `label` is the label of the files: programs of a sandbox with the mount count as having read them. `cleared` is the
    highest label that an `rw` mount may be written with, by default `Policy.egress_max`: a program with a higher one
    does not run beside it.

    Raises `InvalidValue` if the host path is missing; if it is, contains or leads to a private place (`/`, `/proc`,
    `/sys`, `/dev`, `/run`, a home directory and the keys in it); if the mode is `rw` and the host itself runs files
    there (`/etc`, `/usr`, cron's directories, this interpreter and its packages); if the mount path would hide a
    directory of the sandbox; or for anything but an `ro` directory at `/input`.
    """

    host_path: Path
    mount_path: PurePosixPath
    mode: MountMode = "ro"
    keep_changes: bool = False
    label: Label = field(default=PUBLIC, repr=False)
    cleared: Label | None = field(default=None, repr=False)
    identity: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)
    """The device and inode of the file or directory at `host_path`."""

    def __init__(
        self,
        host_path: str | Path,
        mount_path: str | PurePosixPath,
        mode: MountMode = "ro",
        *,
        keep_changes: bool = False,
        label: Label | str = PUBLIC,
        cleared: Label | str | None = None,
    ) -> None:
        if not isinstance(host_path, (str, PurePath)) or not str(host_path) or "\0" in str(host_path):
            raise InvalidValue(f"FileMount needs a host path such as '/srv/sales', not {host_path!r}")
        given = Path(host_path).expanduser().absolute()
        try:
            host = given.resolve(strict=True)
            identity = identity_of(host)
        except (OSError, RuntimeError):
            raise InvalidValue(f"FileMount: there is no {given} on this machine") from None
        if mode not in get_args(MountMode):
            raise InvalidValue(f"FileMount({str(host)!r}): mode must be 'ro', 'rw' or 'overlay', not {mode!r}")
        if reason := why_private(host):
            shown = str(given) if given == host else f"{given}, which is {host},"
            raise InvalidValue(
                f"FileMount: {shown} cannot be mounted, since {reason}; mount the one directory that the program needs,"
                " or a copy of it"
            )
        if mode == "rw" and (reason := why_not_writable(host)):
            raise InvalidValue(
                f"FileMount: {host} cannot be mounted 'rw', since {reason}; mount it 'ro', or 'overlay' with"
                " keep_changes=True"
            )
        if not (host.is_file() or host.is_dir()):
            raise InvalidValue(f"FileMount: {host} is neither a file nor a directory")
        if mode == "overlay" and not host.is_dir():
            raise InvalidValue(f"FileMount({str(host)!r}): overlay takes a directory; mount a single file 'ro' or 'rw'")
        if keep_changes and mode != "overlay":
            raise InvalidValue(f"FileMount({str(host)!r}): keep_changes needs mode 'overlay', not {mode!r}")
        path = _mount_path(mount_path)
        if path == INPUT and (mode != "ro" or not host.is_dir()):
            raise InvalidValue(
                f"FileMount({str(host)!r}): at {INPUT} itself only a directory can be mounted, and only 'ro'; mount"
                f" this below it, such as at {INPUT}/data"
            )
        object.__setattr__(self, "host_path", host)
        object.__setattr__(self, "mount_path", path)
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "keep_changes", bool(keep_changes))
        object.__setattr__(self, "label", label_of(label, f"FileMount({str(host)!r}): label"))
        object.__setattr__(self, "cleared", clearance_of(cleared, f"FileMount({str(host)!r}): cleared"))
        object.__setattr__(self, "identity", identity)

    def __iter__(self) -> Iterator[str]:
        return iter((str(self.host_path), str(self.mount_path)))


def _mount_path(given: str | PurePosixPath) -> PurePosixPath:
    text = str(given)
    if not isinstance(given, (str, PurePath)) or not text or "\0" in text:
        raise InvalidValue(f"FileMount needs a mount path such as 'sales' (below /input) or '/data', not {given!r}")
    path = PurePosixPath(text)
    path = PurePosixPath("/", *path.parts[1:]) if path.is_absolute() else INPUT / path
    if ".." in path.parts:
        raise InvalidValue(f"FileMount: the mount path {text!r} must not contain '..'")
    # /input and /output are the same directories as /workspace/input and /workspace/output: normalize to the first.
    for alias in (INPUT, OUTPUT):
        if path.is_relative_to(WORKSPACE / alias.name):
            path = alias / path.relative_to(WORKSPACE / alias.name)
    if len(path.parts) < 2 or path.parts[1] in _RESERVED:
        raise InvalidValue(
            f"FileMount: {text!r} belongs to the sandbox; mount below /input or at a new directory such as /data"
        )
    if path in (WORKSPACE, OUTPUT):
        raise InvalidValue(f"FileMount: {text!r} is a directory of every sandbox; mount below it, such as {path}/data")
    return path
