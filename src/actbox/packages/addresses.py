"""Addresses in requirements: archives by `https`, Git repositories by `git+https`, and the names they contain."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from actbox.core.errors import InvalidValue
from actbox.core.packages import normalized_name

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


def check_address(text: str, name: str, address: str) -> None:
    """Raise `InvalidValue` for an address that a requirement of a package `name` must not have.

    Addresses have the scheme `https` or `git+https`, a host and no credentials. A wheel, and a fragment with `egg=`,
    must be of the package that the requirement names.
    """
    shown = ascii(text[:100])
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise InvalidValue(f"{shown} has a bad address ({error}); correct it") from None
    if parts.scheme not in ("https", "git+https"):
        raise InvalidValue(
            f"{shown} has an address of the kind {parts.scheme or 'path'!r}: use https:// or git+https://, "
            "or a package of the index"
        )
    if "@" in parts.netloc:
        raise InvalidValue(f"{shown} has credentials in its address: remove them; the proxy adds a policy's secrets")
    if not _HOST.fullmatch(parts.hostname or "") or port == 0 or not re.fullmatch(r"[!-#%-\[\]-~]+", address):
        raise InvalidValue(f"{shown} has a bad address: write it whole, without variables and escapes of a shell")
    if parts.scheme == "git+https" and "-" in (_revision(parts)[:1], parts.fragment[:1]):
        raise InvalidValue(f"{shown} has an option in place of a revision; name a commit")
    for other in _own_names(text, parts):
        if normalized_name(other) != normalized_name(name):
            raise InvalidValue(f"{shown} calls {other!a} by the name {name!a}; name the package as it is")


def is_fixed(address: str) -> bool:
    """Return True if an address names a commit, or an archive with its hash, so that the content cannot change."""
    parts = urlsplit(address)
    if parts.scheme == "git+https":
        return _COMMIT.fullmatch(_revision(parts)) is not None
    return bool(re.search(r"(^|&)sha256=[0-9a-f]{64}(&|$)", parts.fragment))


def revision_of(address: str) -> str:
    """Return the revision that a Git address names, "" if it names none."""
    return _revision(urlsplit(address))


def names_in_address(address: str) -> set[str]:
    """Return the normalized names that an address contains: each part of its path and of its subdirectory."""
    parts = urlsplit(address)
    found = set()
    for path in (parts.path, *parse_qs(parts.fragment).get("subdirectory", [])):
        for each in re.split(r"[/@]", unquote(path)):
            found.add(each.removesuffix(".git"))
            found.add(re.split(r"-v?\d", each)[0])  # of an archive's name, without the version
    return {normalized_name(each) for each in found if each}


def _revision(parts: SplitResult) -> str:
    """Return the revision of a Git address: after `@` as pip writes it, or after `#` as npm does."""
    fragment = "" if "=" in parts.fragment else parts.fragment
    return unquote(parts.path.rpartition("@")[2] if "@" in parts.path else fragment)


def _own_names(text: str, parts: SplitResult) -> list[str]:
    """Return the names that an address itself gives to its package."""
    found = [egg.partition("[")[0] for egg in parse_qs(parts.fragment).get("egg", [])]
    file = unquote(parts.path).rpartition("/")[2]
    if parts.scheme == "https" and file.endswith(".whl"):
        try:
            found.append(parse_wheel_filename(file)[0])
        except InvalidWheelFilename as error:
            raise InvalidValue(f"{text[:100]!a} has a wheel whose file name is wrong ({error})") from None
    return found
