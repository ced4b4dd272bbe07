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


class WholeFileMount(FileMount):
    """A mount that two texts do not say all of: another mode, or a place that is not below `/input`."""

    whole: mounts.FileMount

    @classmethod
    def of(cls, mount: mounts.FileMount) -> WholeFileMount:
        """Return the form of a mount."""
        shown = cls(mount.host_path, str(mount.mount_path))
        shown.whole = mount
        return shown


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


class WholeAllowedDomain(AllowedDomain):
    """An entry of which target and methods do not say all there is: rates and sizes, say."""

    whole: domains.AllowedDomain

    @classmethod
    def of(cls, domain: domains.AllowedDomain) -> WholeAllowedDomain:
        """Return the form of an entry."""
        shown = cls(str(domain), domain.methods)
        shown.whole = domain
        return shown


FileMountInput: TypeAlias = str | tuple[str | Path, str] | FileMount | MontyFileMount | mounts.FileMount
"""A path that is the same on the host and below `/input`, a pair of the two, or one of the classes for it."""

AllowedDomainInput: TypeAlias = str | tuple[str, str | Sequence[str] | None] | AllowedDomain | domains.AllowedDomain
"""A target, a pair of it and its methods, or one of the classes for it."""

_MODES: Final[dict[str, mounts.MountMode]] = {"overlay": "overlay", "read-only": "ro", "read-write": "rw"}


def mounts_of(given: Any) -> Any:
    """Return mounts in the core's own forms; what is none stays as it is, to be refused there."""
    if isinstance(given, (str, mounts.FileMount, FileMount, MontyFileMount)) or _is_pair(given):
        return _mount_of(given)
    return [_mount_of(mount) for mount in given] if isinstance(given, Iterable) else given


def domains_of(given: Any) -> Any:
    """Return entries of the allow-list in the core's own forms; what is none stays as it is, to be refused there."""
    if isinstance(given, WholeAllowedDomain):
        return given.whole
    if isinstance(given, (list, set, frozenset)) or (isinstance(given, tuple) and not isinstance(given, AllowedDomain)):
        kept = [domain.whole if isinstance(domain, WholeAllowedDomain) else domain for domain in given]
        return tuple(kept) if isinstance(given, tuple) else kept
    return given


def shown_mount(mount: mounts.FileMount) -> FileMount:
    """Return a mount as it is given."""
    simple = mount.mode == "ro" and mount.mount_path.is_relative_to(mounts.INPUT)
    return FileMount(mount.host_path, str(mount.mount_path)) if simple else WholeFileMount.of(mount)


def shown_domain(domain: domains.AllowedDomain) -> AllowedDomain:
    """Return an entry of the allow-list as it is given."""
    simple = AllowedDomain(str(domain), domain.methods)
    return simple if domains.AllowedDomain(*simple) == domain else WholeAllowedDomain.of(domain)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str)


def _mount_of(given: Any) -> Any:
    if isinstance(given, WholeFileMount):
        return given.whole
    return _with_mode(given) if isinstance(given, MontyFileMount) else given


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
