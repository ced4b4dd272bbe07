"""The input forms of file mounts and allowed domains, and the keys under which they are stored."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath, PurePosixPath

from actbox.core.domains import AllowedDomain, is_method
from actbox.core.errors import InvalidValue
from actbox.core.mounts import INPUT, FileMount
from actbox.core.secrets import Secret

FileMountInput = str | tuple[str | Path, str] | FileMount
"""A host path whose path below `/input` is the same, a pair of a host path and a path inside, or a `FileMount`."""

AllowedDomainInput = str | tuple[str, str | Sequence[str] | None] | AllowedDomain
"""A target; a pair of a target and its methods (one, several, or `None` for all); or an `AllowedDomain`."""


def file_mounts(given: FileMountInput | Iterable[FileMountInput]) -> dict[str, FileMount]:
    """Return mounts by their paths inside the sandbox. Raises `InvalidValue`, also for a path that leaves `/input`.

    A `FileMount` is kept unchanged, wherever its path inside is. In the other forms the path inside lies below
    `/input`, whether it says so (`/input/a`) or not (`a`, `/a`).
    """
    return {str(mount.mount_path): mount for mount in map(_mount_of, _each(given, FileMount, _is_mount_pair))}


def mount_key(path: str, there: Container[str] = ()) -> str:
    """Return the key of a mount's path, normalized as when it was added; text that is no path gives a key that matches
    nothing.

    A mount that was given as a `FileMount` may lie outside of `/input`: a path that is in `there` names that mount.
    """
    own = _own_key(path)
    if own in there:
        return own
    try:
        inside = below_input(path)
    except InvalidValue:
        return str(path)
    return str(inside)


def _own_key(path: object) -> str:
    """Return the path inside that a `FileMount` given this path would have, except for paths below `/workspace`."""
    normal = PurePosixPath(str(path))
    return str(PurePosixPath("/", *normal.parts[1:])) if normal.is_absolute() else ""


def below_input(path: object) -> PurePosixPath:
    """Return a path inside the sandbox as one below `/input`. Raises `InvalidValue` for a path that leaves `/input`,
    and for `/input` itself.
    """
    if not isinstance(path, (str, PurePath)) or "\0" in str(path):
        raise InvalidValue(f"a mount path is text such as 'data/users.json', not {path!r}")
    parts = [part for part in PurePosixPath(str(path).strip().replace("\\", "/")).parts if part != "/"]
    if parts[:1] == ["input"]:
        del parts[0]
    if not parts or ".." in parts:
        raise InvalidValue(f"the mount path {str(path)!r} must be one below /input, such as 'data/users.json'")
    return INPUT.joinpath(*parts)


def allowed_domains(given: AllowedDomainInput | Iterable[AllowedDomainInput]) -> dict[str, AllowedDomain]:
    """Return allow-list entries by their normalized targets.

    Raises `InvalidValue` as `AllowedDomain` does, and for methods in the place of targets.
    """
    _check_no_methods(given)
    return {str(domain): domain for domain in map(_domain_of, _each(given, AllowedDomain, _is_domain_pair))}


def domain_key(target: str) -> str:
    """Return the key of a target, normalized as when it was added; text that is no target gives a key that matches
    nothing.
    """
    try:
        return str(AllowedDomain(target))
    except InvalidValue:
        return str(target)


def check_apart(mounts: Iterable[FileMount]) -> None:
    """Raise `InvalidValue` if one mount lies inside another, which would hide a part of it."""
    paths = sorted(mount.mount_path for mount in mounts)
    for outer, inner in pairwise(paths):
        if inner.is_relative_to(outer):
            raise InvalidValue(f"the mount at {inner} lies in the one at {outer}; give one of them a path of its own")


def check_secrets_go(secrets: Iterable[Secret], before: Iterable[AllowedDomain], left: Iterable[AllowedDomain]) -> None:
    """Raise `InvalidValue` if a secret is bound for a place that only the removed entries (those in `before`, not in
    `left`) allow.
    """
    before, left = list(before), list(left)
    for secret in secrets:
        for place in secret.places():
            allowing = [domain for domain in before if domain.overlaps(place)]
            if allowing and not any(domain.overlaps(place) for domain in left):
                needed = ", ".join(repr(str(domain)) for domain in allowing)
                raise InvalidValue(
                    f"the secret {secret.name!r} goes to {place}, which nothing but {needed} allows, so that it cannot"
                    " be removed: add what else allows that first, or make a configuration without the secret"
                )


def _each(given: object, kind: type, is_pair: Callable[[object], bool]) -> list[object]:
    """Return the given mounts or domains as a list, whether one or several were given."""
    if isinstance(given, (str, kind)) or is_pair(given):
        return [given]
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InvalidValue(f"give one, or a list of them, not {given!r}")
    return list(given)


def _is_mount_pair(given: object) -> bool:
    # A list of two is two mounts; a tuple of two texts is a pair, and so is a framework's own named tuple.
    if not isinstance(given, tuple) or len(given) != 2:
        return False
    return isinstance(given[0], (str, PurePath)) and isinstance(given[1], str)


def _is_domain_pair(given: object) -> bool:
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], str):
        return False
    if hasattr(given, "methods") or given[1] is None:
        return True
    methods = given[1]
    several = isinstance(methods, Sequence) and not isinstance(methods, str)
    return several or (isinstance(methods, str) and "." not in methods)


def _check_no_methods(given: object) -> None:
    """Raise `InvalidValue` for a tuple such as `("a.com", "GET", "HEAD")`, which would be three targets."""
    if not isinstance(given, tuple) or not all(isinstance(item, str) for item in given) or _is_domain_pair(given):
        return
    methods = [item for item in given[1:] if is_method(item)]
    if methods:
        pair = (given[0], methods)
        raise InvalidValue(
            f"{methods[0]!r} is a method and no host: write {pair!r} for a target with its methods, and a"
            f" list for several targets, not {given!r}"
        )


def _mount_of(given: object) -> FileMount:
    if isinstance(given, FileMount):
        return given
    if isinstance(given, str):
        return FileMount(given, below_input(given))
    if isinstance(given, tuple) and len(given) == 2:
        return FileMount(given[0], below_input(given[1]))
    raise InvalidValue(
        f"a file mount is a path, a pair (host path, path below /input), or a FileMount(…), not {given!r}"
    )


def _domain_of(given: object) -> AllowedDomain:
    if isinstance(given, AllowedDomain):
        return given
    if isinstance(given, str):
        if given.isupper() and is_method(given):  # nobody writes a host in upper case
            raise InvalidValue(f"{given!r} is a method and no host: write a pair such as ('example.com', [{given!r}])")
        return AllowedDomain(given)
    _check_no_methods(given)
    if isinstance(given, tuple) and len(given) == 2:
        target, methods = given
        return AllowedDomain(target, [methods] if isinstance(methods, str) else methods)
    raise InvalidValue(
        f"an allowed domain is a target, a pair (target, methods), or an AllowedDomain(…), not {given!r}"
    )
