"""What mounts and domains are written as: the named tuples of the framework's own CodeAct packages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from actbox.core import domains, mounts
from actbox.core.errors import InvalidValue


class FileMount(NamedTuple):
    """A file or folder of the host that programs see, read-only, below `/input`."""

    host_path: str | Path
    mount_path: str


class MontyFileMount(NamedTuple):
    """A mount with a mode, as Monty's package writes it. A mount path that begins with `/` stands as it is.

    `write_bytes_limit` must be `None`: what a program writes is bounded by `Limits`, for all mounts together.
    """

    host_path: str | Path
    mount_path: str
    mode: Literal["overlay", "read-only", "read-write"] = "overlay"
    write_bytes_limit: int | None = None


class AllowedDomain(NamedTuple):
    """A target that programs may reach, by these methods, or by all."""

    target: str
    methods: tuple[str, ...] | None = None


FileMountInput: TypeAlias = str | tuple[str | Path, str] | FileMount | MontyFileMount | mounts.FileMount
"""A path that is the same on the host and below `/input`, a pair of the two, or one of the classes for it."""

AllowedDomainInput: TypeAlias = str | tuple[str, str | Sequence[str] | None] | AllowedDomain | domains.AllowedDomain
"""A target, a pair of it and its methods, or one of the classes for it."""

_MODES: Final[dict[str, mounts.MountMode]] = {"overlay": "overlay", "read-only": "ro", "read-write": "rw"}


def mounts_of(given: Any) -> Any:
    """Return mounts in the core's own forms; what is none stays as it is, to be refused there."""
    if isinstance(given, MontyFileMount):
        return _with_mode(given)
    several = isinstance(given, Iterable) and not isinstance(given, (str, mounts.FileMount))
    if not several or _is_pair(given):
        return given
    return [_with_mode(mount) if isinstance(mount, MontyFileMount) else mount for mount in given]


def shown_mount(mount: mounts.FileMount) -> FileMount | mounts.FileMount:
    """Return a mount as it is given: as a named tuple, if that says all there is of it."""
    return FileMount(mount.host_path, str(mount.mount_path)) if mount.mode == "ro" else mount


def shown_domain(domain: domains.AllowedDomain) -> AllowedDomain | domains.AllowedDomain:
    """Return an entry of the allow-list as it is given: as a named tuple, if that says all there is of it."""
    simple = AllowedDomain(str(domain), domain.methods)
    return simple if domains.AllowedDomain(*simple) == domain else domain


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str)


def _with_mode(mount: MontyFileMount) -> mounts.FileMount:
    if mount.write_bytes_limit is not None:
        raise InvalidValue(
            f"the mount at {mount.mount_path!r} has a write_bytes_limit, which there is not for one mount: set"
            " limits=Limits(workspace_mib=…) for all that a program writes"
        )
    if mount.mode not in _MODES:
        raise InvalidValue(
            f"the mode of the mount at {mount.mount_path!r} is one of {', '.join(_MODES)}, not {mount.mode!r}"
        )
    return mounts.FileMount(mount.host_path, mount.mount_path, _MODES[mount.mode])
