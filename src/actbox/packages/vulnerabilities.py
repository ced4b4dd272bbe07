"""Known vulnerabilities of packages, from files in the OSV format: one advisory in each file, or a list of them.

https://ossf.github.io/osv-schema/
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from actbox.core.errors import InvalidValue
from actbox.core.packages import PackagePolicy, normalized_name

from .asking import NotAllowed
from .locked_files import Locked

MOST_FILES = 500_000
_ECOSYSTEMS = {"PyPI": "python", "npm": "javascript"}
_FIRST = Version("0.dev0")


class Advisories:
    """The advisories of a file or a directory of files, by the language and the name of the package."""

    def __init__(self, path: Path) -> None:
        """Read them. Raises `InvalidValue` for a path that has none, and for a file that is none."""
        self._by_name: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {}
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not files:
            raise InvalidValue(f"PackagePolicy.vulnerabilities: there is no advisory in {path}")
        if len(files) > MOST_FILES:  # to read some of them would let the others' packages in
            raise InvalidValue(f"PackagePolicy.vulnerabilities: {path} has more than {MOST_FILES:,} files")
        for file in files:
            self._read(file)

    def of(self, name: str, version: str, language: str = "python") -> tuple[str, ...]:
        """Return the ids of the advisories that a version of a package is affected by."""
        known = self._by_name.get(_key(language, name), ())
        return tuple(dict.fromkeys(one for one, affected in known if _is_affected(affected, version)))

    def _read(self, file: Path) -> None:
        try:
            said = json.loads(file.read_text("utf-8"))
            advisories = said if isinstance(said, list) else said.get("vulns", [said])
            for advisory in advisories:
                if advisory.get("withdrawn"):
                    continue
                for affected in advisory.get("affected", ()):
                    package = affected.get("package", {})
                    if language := _ECOSYSTEMS.get(package.get("ecosystem", "").partition(":")[0]):
                        found = self._by_name.setdefault(_key(language, package["name"]), [])
                        found.append((str(advisory["id"]), affected))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InvalidValue(
                f"PackagePolicy.vulnerabilities: {file} is no advisory in the OSV format: {error!r}"
            ) from None


def read_advisories(path: str) -> Advisories:
    """Return the advisories of a file or directory. Raises `InvalidValue`.

    They are read once in this process, and again when the file has changed, or files of the directory were added,
    removed or replaced by others.
    """
    return _read(path, tuple(_times(path)))


@functools.lru_cache(maxsize=4)
def _read(path: str, times: tuple[tuple[str, int], ...]) -> Advisories:
    return Advisories(Path(path))


def _times(path: str) -> Iterator[tuple[str, int]]:
    """Yield when a file, or each directory in a directory, was changed."""
    for folder in [path] if not os.path.isdir(path) else (folder for folder, _, _ in os.walk(path)):
        with contextlib.suppress(OSError):
            yield folder, os.stat(folder).st_mtime_ns


def refuse_vulnerable(locked: Sequence[Locked], rules: PackagePolicy, language: str) -> None:
    """Raise `NotAllowed` for a package with a known vulnerability, if the policy names a file of them."""
    if rules.vulnerabilities is None:
        return
    advisories = read_advisories(rules.vulnerabilities)
    for one in locked:
        if known := advisories.of(one.name, one.version, language):
            raise NotAllowed(
                "PackageBlocked",
                f"{one.name}=={one.version} has known vulnerabilities: {', '.join(known)}",
                "ask for another version of it, or do without it",
            )


def _key(language: str, name: str) -> tuple[str, str]:
    return language, normalized_name(name) if language == "python" else name


def _is_affected(affected: Mapping[str, Any], version: str) -> bool:
    if version in affected.get("versions", ()):
        return True
    try:
        at = Version(version)
        return any(
            _in_range(one.get("events", ()), at)
            for one in affected.get("ranges", ())
            if one.get("type") in ("ECOSYSTEM", "SEMVER")
        )
    except (InvalidVersion, TypeError, AttributeError):
        return True  # nobody can tell, so it counts


def _in_range(events: Iterable[Mapping[str, str]], at: Version) -> bool:
    """Return whether a version is affected, by the events of a range in the order of their versions."""
    is_affected = False
    told = [(_version(text), kind) for event in events for kind, text in event.items()]
    for version, kind in sorted(told, key=lambda one: one[0]):
        if kind == "introduced" and at >= version:
            is_affected = True
        elif (kind == "fixed" and at >= version) or (kind == "last_affected" and at > version):
            is_affected = False
    return is_affected


def _version(text: str) -> Version:
    return _FIRST if text == "0" else Version(text)
