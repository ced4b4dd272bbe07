"""Files and folders of the host that a program sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Literal, get_args

from .errors import InvalidValue
from .private_places import identity_of, why_private
from .writable_places import why_not_writable

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
    what it sees, and the host's files stay as they are). What it changed in an overlay is thrown away when the run, or
    the session, ends; with `keep_changes` it is in `ExecutionResult.changes` as well, up to as many files and MiB as
    `Limits` allows artifacts. A relative `mount_path` lies below `/input`. Unpacks as the pair
    `(host_path, mount_path)`.

    Links in a mounted folder lead to where they lead inside the sandbox. Devices in it are dead, and set-user-id
    programs have no effect. An overlay has dead sockets and named pipes too. In the other modes these are alive: a
    folder in which a process of the host has a socket is refused when it is mounted, and through a named pipe a program
    may talk to a process that has it open.

    At `/input` itself one folder may be mounted, `ro`: programs see it together with the files that are put below
    `/input` for them, which win over its files of the same name, and with other mounts below `/input`, for which it
    need have no place. Nothing is ever made in it. What changes in it, or is put below `/input`, while a program runs
    is seen by the next one, and may or may not be by that one. Sockets and named pipes in it are dead. What is mounted
    in it on the host would not be seen, so such a folder is refused.

    What is mounted is the very file or folder that lay at `host_path` when this was made: when another has come to lie
    there, runs fail with a sentence that says so. So mount a folder, not a file that is replaced now and then.

    Raises `InvalidValue` where the host path is missing, where it is, has in it or leads to a place that no program may
    see (`/`, `/proc`, `/sys`, `/dev`, `/run`, a home folder and the keys in it), where the mode is `rw` and the host
    itself runs what lies there (`/etc`, `/usr`, cron's folders, this interpreter and its packages), where the mount
    path would hide the sandbox's own folders, or where anything but a folder that is `ro` is to lie at `/input`.
    """

    host_path: Path
    mount_path: PurePosixPath
    mode: MountMode = "ro"
    keep_changes: bool = False
    identity: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)
    """The device and the inode of what lies at `host_path`."""

    def __init__(
        self,
        host_path: str | Path,
        mount_path: str | PurePosixPath,
        mode: MountMode = "ro",
        *,
        keep_changes: bool = False,
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
                f"FileMount: {shown} cannot be mounted, since {reason}; mount the one folder that the program needs,"
                " or a copy of it"
            )
        if mode == "rw" and (reason := why_not_writable(host)):
            raise InvalidValue(
                f"FileMount: {host} cannot be mounted 'rw', since {reason}; mount it 'ro', or 'overlay' with"
                " keep_changes=True"
            )
        if not (host.is_file() or host.is_dir()):
            raise InvalidValue(f"FileMount: {host} is neither a file nor a folder")
        if mode == "overlay" and not host.is_dir():
            raise InvalidValue(f"FileMount({str(host)!r}): overlay takes a folder; mount a single file 'ro' or 'rw'")
        if keep_changes and mode != "overlay":
            raise InvalidValue(
                f"FileMount({str(host)!r}): keep_changes goes with mode 'overlay'; in {mode!r} there are none to keep"
            )
        path = _mount_path(mount_path)
        if path == INPUT and (mode != "ro" or not host.is_dir()):
            raise InvalidValue(
                f"FileMount({str(host)!r}): at {INPUT} itself only a folder can be mounted, and only 'ro'; mount this"
                f" below it, such as at {INPUT}/data"
            )
        object.__setattr__(self, "host_path", host)
        object.__setattr__(self, "mount_path", path)
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "keep_changes", bool(keep_changes))
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
    # /input and /output are the same places as /workspace/input and /workspace/output: one spelling inside.
    for alias in (INPUT, OUTPUT):
        if path.is_relative_to(WORKSPACE / alias.name):
            path = alias / path.relative_to(WORKSPACE / alias.name)
    if len(path.parts) < 2 or path.parts[1] in _RESERVED:
        raise InvalidValue(
            f"FileMount: {text!r} is the sandbox's own; mount below /input or in a folder of your own such as /data"
        )
    if path in (WORKSPACE, OUTPUT):
        raise InvalidValue(
            f"FileMount: {text!r} is a folder that every sandbox has; mount below it, such as {path}/data"
        )
    return path
