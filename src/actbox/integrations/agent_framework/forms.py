"""Mounts and domains as named tuples, in the forms of the framework's own CodeAct packages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from actbox.core import domains, mounts
from actbox.core.errors import InvalidValue


class FileMount(NamedTuple):
    """A file or directory of the host that programs see, read-only, below `/input`."""

    host_path: str | Path
    mount_path: str


class WholeFileMount(FileMount):
    """A mount that two texts cannot describe: one with another mode, or outside of `/input`."""

    whole: mounts.FileMount

    @classmethod
    def of(cls, mount: mounts.FileMount) -> WholeFileMount:
        """Return a mount in this form."""
        shown = cls(mount.host_path, str(mount.mount_path))
        shown.whole = mount
        return shown


class MontyFileMount(NamedTuple):
    """A mount with a mode, in the form of Monty's package. A mount path that begins with `/` is used unchanged.

    `write_bytes_limit` must be `None`: `Limits` bounds what a program writes, for all mounts together.
    """

    host_path: str | Path
    mount_path: str
    mode: Literal["overlay", "read-only", "read-write"] = "overlay"
    write_bytes_limit: int | None = None


class AllowedDomain(NamedTuple):
    """A target that programs may reach, with the allowed methods, or `None` for all."""

    target: str
    methods: tuple[str, ...] | None = None


class WholeAllowedDomain(AllowedDomain):
    """An entry that target and methods do not fully describe, such as one with rates and sizes."""

    whole: domains.AllowedDomain

    @classmethod
    def of(cls, domain: domains.AllowedDomain) -> WholeAllowedDomain:
        """Return an entry in this form."""
        shown = cls(str(domain), domain.methods)
        shown.whole = domain
        return shown


FileMountInput: TypeAlias = str | tuple[str | Path, str] | FileMount | MontyFileMount | mounts.FileMount
"""A path for both the host and below `/input`, a pair of the two paths, or an object of a mount class."""

AllowedDomainInput: TypeAlias = str | tuple[str, str | Sequence[str] | None] | AllowedDomain | domains.AllowedDomain
"""A target, a pair of target and methods, or an object of a domain class."""

_MODES: Final[dict[str, mounts.MountMode]] = {"overlay": "overlay", "read-only": "ro", "read-write": "rw"}


def mounts_of(given: Any) -> Any:
    """Return mounts in the core's form; invalid values stay unchanged, and the core refuses them."""
    if isinstance(given, (str, mounts.FileMount, FileMount, MontyFileMount)) or _is_pair(given):
        return _mount_of(given)
    return [_mount_of(mount) for mount in given] if isinstance(given, Iterable) else given


def domains_of(given: Any) -> Any:
    """Return allowed domains in the core's form; invalid values stay unchanged, and the core refuses them."""
    if isinstance(given, WholeAllowedDomain):
        return given.whole
    if isinstance(given, (list, set, frozenset)) or (isinstance(given, tuple) and not isinstance(given, AllowedDomain)):
        kept = [domain.whole if isinstance(domain, WholeAllowedDomain) else domain for domain in given]
        return tuple(kept) if isinstance(given, tuple) else kept
    return given


def shown_mount(mount: mounts.FileMount) -> FileMount:
    """Return a mount in the form in which it could be given again."""
    simple = mount.mode == "ro" and mount.mount_path.is_relative_to(mounts.INPUT)
    return FileMount(mount.host_path, str(mount.mount_path)) if simple else WholeFileMount.of(mount)


def shown_domain(domain: domains.AllowedDomain) -> AllowedDomain:
    """Return an allowed domain in the form in which it could be given again."""
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
