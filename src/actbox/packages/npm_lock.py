"""Locks of npm: reads one as the files that this machine needs, and writes it again.

https://docs.npmjs.com/cli/configuring-npm/package-lock-json
"""

from __future__ import annotations

import functools
import json
import platform
import re
import sys
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from actbox.core.packages import NPM_NAME

from .index import without_secrets
from .locked_files import Locked
from .npm_archives import required_npm_names
from .resolving import CannotResolve

_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,255}")
_PLACE = re.compile(rf"(?:node_modules/{NPM_NAME}/)*node_modules/(?P<name>{NPM_NAME})")
_CPUS = {"x86_64": "x64", "aarch64": "arm64", "i686": "ia32", "armv7l": "arm"}
_MOST_LICENCE = 200


def read_npm_lock(text: str, registry: str) -> tuple[Locked, ...]:
    """Return the files of a lock that this machine needs, one for each place; those in no other package come first.

    Files come from the host of the registry, whichever the lock names. Raises `CannotResolve` for a lock with anything
    but packages of the registry that have a SHA-512.
    """
    try:
        packages = json.loads(text)["packages"]
        found = [_locked(place, entry, registry) for place, entry in packages.items() if place and _is_needed(entry)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CannotResolve(f"npm's lock cannot be read: {error!r:.200}") from None
    return tuple(sorted(found, key=lambda one: (one.place.count("node_modules/"), one.place)))


def npm_lock(requirements: Iterable[str], locked: Iterable[Locked]) -> dict[str, Any]:
    """Return the lock, as npm reads it, of files that were locked for requirements."""
    entries = {one.place: json.loads(one.entry) for one in locked}
    root = {"dependencies": dependencies_of(requirements)}
    return {"lockfileVersion": 3, "requires": True, "packages": {"": root, **entries}}


def dependencies_of(requirements: Iterable[str]) -> dict[str, str]:
    """Return requirements, such as `lodash@^4`, as a `package.json` has them."""
    split = [(one, one.find("@", 1)) for one in requirements]
    return {one[:at] if at > 0 else one: one[at + 1 :] if at > 0 else "*" for one, at in split}


@functools.cache
def npm_platform() -> str:
    """Return the platform for which packages of npm are chosen on this machine."""
    return "node " + "-".join(_machine().values())


def _locked(place: str, entry: Mapping[str, Any], registry: str) -> Locked:
    at = _PLACE.fullmatch(place)
    name, version = str(entry.get("name") or (at["name"] if at else place)), str(entry.get("version", ""))
    if entry.get("inBundle"):
        raise CannotResolve(f"{name} {version} lies within the archive of another package, where nobody could judge it")
    url, sha512 = str(entry.get("resolved", "")), _sha512_of(str(entry.get("integrity", "")))
    is_plain = at and re.fullmatch(NPM_NAME, name) and _VERSION.fullmatch(version)
    if not is_plain or entry.get("link") or urlsplit(url).scheme not in ("http", "https"):
        raise CannotResolve(
            f"{name} {version} is no package of the registry ({without_secrets(url) or place:.200}); others are not had"
        )
    if from_address := next((one for one in _wanted(entry) if ":" in one or "/" in one), ""):
        raise CannotResolve(
            f"{name} {version} requires a package from the address {without_secrets(from_address):.200}; only those of"
            " the registry are had"
        )
    if not sha512:
        raise CannotResolve(f"the registry gives no SHA-512 for {name} {version}, so nobody can tell what it is")
    return Locked(
        name=name,
        version=version,
        url=_at(registry, url),
        filename=f"{name.replace('/', '-').removeprefix('@')}-{version}.tgz",
        sha256="",
        licence=str(entry.get("license", ""))[:_MOST_LICENCE],
        requires=required_npm_names(entry),
        sha512=sha512,
        place=place,
        entry=json.dumps(entry),
    )


def _wanted(entry: Mapping[str, Any]) -> list[str]:
    """Return the versions that an entry requires of others, without what aliases stand for."""
    listed = [entry.get(key) for key in ("dependencies", "optionalDependencies", "peerDependencies")]
    wanted = [str(one) for each in listed if isinstance(each, dict) for one in each.values()]
    return [one for one in wanted if not one.startswith("npm:")]


def _sha512_of(integrity: str) -> str:
    """Return the hexadecimal SHA-512 in a text of hashes (https://www.w3.org/TR/SRI/), "" if it has none."""
    for each in integrity.split():
        algorithm, _, value = each.partition("?")[0].partition("-")
        if algorithm == "sha512":
            digest = b64decode(value, validate=True)
            return digest.hex() if len(digest) == 64 else ""
    return ""


def _at(registry: str, url: str) -> str:
    """Return an address at the registry's host: a mirror's pages may name the host that it mirrors."""
    parts, own = urlsplit(url), urlsplit(registry)
    if parts.netloc == own.netloc:
        return url
    return registry.rstrip("/") + parts.path


def _is_needed(entry: Mapping[str, Any]) -> bool:
    """Return whether this machine needs an entry. Raises `CannotResolve` if it needs one that is for other machines."""
    fits = all(_admits(entry.get(key), value) for key, value in _machine().items())
    if not fits and not entry.get("optional"):
        raise CannotResolve(f"{entry.get('resolved')} is for other machines than {npm_platform()}")
    return fits


def _admits(listed: object, value: str) -> bool:
    names = [listed] if isinstance(listed, str) else list(map(str, listed)) if isinstance(listed, list) else []
    refused = {name[1:] for name in names if name.startswith("!")}
    wanted = {name for name in names if not name.startswith("!")}
    return value not in refused and (not wanted or value in wanted or "any" in wanted)


@functools.cache
def _machine() -> Mapping[str, str]:
    machine = platform.machine()
    libc = "glibc" if platform.libc_ver()[0] == "glibc" else "musl"
    return {"os": sys.platform, "cpu": _CPUS.get(machine, machine), "libc": libc}
