"""Reading a `uv.lock`: the packages that a project's dependencies come to on one platform, with their hashes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from packaging.markers import Marker
from packaging.version import Version

from actbox.core.errors import InvalidValue
from actbox.core.packages import PACKAGE_NAME, normalized_name

from .addresses import check_address
from .project_files import loaded_toml
from .requirements import HASH
from .rules import ResolvedPackage

_MOST_CHARS: Final = 10_000_000

_Package = dict[str, Any]


def read_uv_lock(
    text: str,
    *,
    extras: Iterable[str] = (),
    groups: Iterable[str] = (),
    markers: Mapping[str, str] | None = None,
) -> tuple[ResolvedPackage, ...]:
    """Return the packages that the projects of a lock need here, without the projects themselves.

    `extras` and `groups` are those of the projects, `markers` the variables of the interpreter: packages that only
    other platforms need are left out. Raises `InvalidValue` for a lock of another format, and for needed packages that
    are directories or files of the machine that made it.
    """
    document = loaded_toml("uv.lock", text, _MOST_CHARS)
    if document.get("version") != 1:
        raise InvalidValue("uv.lock has a format other than version 1: make it again with 'uv lock'")
    try:
        lock = _Lock(document.get("package", []), markers or {})
        return lock.needed([*map(normalized_name, extras)], [*map(normalized_name, groups)])
    except InvalidValue:
        raise
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise InvalidValue(f"uv.lock cannot be read ({reason!a}): make it again with 'uv lock'") from None


class _Lock:
    def __init__(self, packages: list[_Package], markers: Mapping[str, str]) -> None:
        self._markers = dict(markers)
        self._packages: dict[str, list[_Package]] = {}
        for package in packages:
            forks = package.get("resolution-markers")
            if forks is None or any(map(self._is_true, forks)):
                self._packages.setdefault(normalized_name(package["name"]), []).append(package)

    def needed(self, extras: list[str], groups: list[str]) -> tuple[ResolvedPackage, ...]:
        """Return the packages that the lock's projects need, in the order in which they are met."""
        projects = [each for same in self._packages.values() for each in same if _is_project(each)]
        if not projects:
            raise InvalidValue("uv.lock has no project: make it with 'uv lock' beside a pyproject.toml")
        waiting: deque[tuple[_Package, list[_Package]]] = deque()
        for project in projects:
            waiting.append((project, project.get("dependencies", [])))
            waiting.extend((project, project.get("optional-dependencies", {}).get(extra, [])) for extra in extras)
            waiting.extend((project, project.get("dev-dependencies", {}).get(group, [])) for group in groups)
        met: dict[int, tuple[_Package, dict[str, None]]] = {}
        seen: set[tuple[int, str]] = set()
        while waiting:
            source, edges = waiting.popleft()
            for edge in edges:
                if not self._is_true(edge.get("marker", "")):
                    continue
                target = self._target(edge)
                met.setdefault(id(source), (source, {}))[1][normalized_name(target["name"])] = None
                met.setdefault(id(target), (target, {}))
                for extra in ("", *edge.get("extra", ())):
                    if (id(target), extra) not in seen:
                        seen.add((id(target), extra))
                        optional = target.get("optional-dependencies", {})
                        waiting.append((target, optional.get(extra, []) if extra else target.get("dependencies", [])))
        return tuple(_resolved(package, tuple(names)) for package, names in met.values() if not _is_project(package))

    def _is_true(self, marker: str) -> bool:
        return not marker or Marker(marker).evaluate(self._markers)

    def _target(self, edge: _Package) -> _Package:
        for package in self._packages.get(normalized_name(edge["name"]), ()):
            if all(package.get(key) == edge[key] for key in ("version", "source") if key in edge):
                return package
        raise InvalidValue(f"uv.lock lacks the package {edge['name']!a:.100}: make it again with 'uv lock'")


def _is_project(package: _Package) -> bool:
    """Return True for the project of the lock and the members of its workspace."""
    source = package["source"]
    path = source.get("virtual", source.get("editable", ".."))
    return not path.startswith(("/", ".."))


def _resolved(package: _Package, requires: tuple[str, ...]) -> ResolvedPackage:
    name, version, source = package["name"], package.get("version", ""), package["source"]
    if version:
        Version(version)  # raises ValueError for anything else
    if not re.fullmatch(PACKAGE_NAME, name):
        raise InvalidValue(f"uv.lock has a package with the bad name {name!a:.100}: make it again with 'uv lock'")
    address = source.get("url", "")
    if "git" in source:
        repository, _, commit = source["git"].partition("#")
        address = f"git+{repository.partition('?')[0]}@{commit}"
    elif not address and "registry" not in source:
        raise InvalidValue(f"uv.lock has {name!a} as a path of the machine that made it; build a wheel, and mount that")
    if address:
        check_address(name, name, address)
    archives = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
    hashes = tuple(archive["hash"] for archive in archives if "hash" in archive)
    if not all(re.fullmatch(HASH, each) for each in hashes):
        raise InvalidValue(f"uv.lock has a bad hash of {name!a}: make it again with 'uv lock'")
    return ResolvedPackage(
        name=name,
        version=version,
        address=address,
        hashes=hashes,
        requires=requires,
    )
