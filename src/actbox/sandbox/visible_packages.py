"""Which installed packages programs see where a policy has rules for packages, and the files that these are.

Seen are the packages that the rules approve by themselves, with what these need. A package that the rules block, that
needs somebody's approval, or that is in no list and needed by nothing approved, is not there for programs.
"""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import os
import re
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution

from actbox.core.packages import PackageRules, normalized_name

from .host_python import package_folders


def visible_versions(rules: PackageRules | None) -> Mapping[str, str]:
    """Return the versions of the installed packages that programs see, by normalized name; without rules it is all."""
    return _versions(rules, _times())


def entries_left(rules: PackageRules) -> Mapping[str, tuple[str, ...]]:
    """Return, for each directory of packages, the paths in it that programs see; each stands for all below it."""
    return _entries(rules, _times())


def _times() -> tuple[tuple[str, int], ...]:
    """Return the directories that this process imports from with their times, which change with what is installed."""
    times = []
    for folder in dict.fromkeys(sys.path):
        try:
            times.append((folder, os.stat(folder).st_mtime_ns))
        except OSError:
            continue
    return tuple(times)


@functools.lru_cache(maxsize=8)
def _versions(rules: PackageRules | None, times: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    installed = _installed(times)
    names = installed if rules is None else _visible(rules, installed)
    return {name: installed[name].version for name in names}


@functools.lru_cache(maxsize=8)
def _entries(rules: PackageRules, times: tuple[tuple[str, int], ...]) -> Mapping[str, tuple[str, ...]]:
    installed = _installed(times)
    visible = _visible(rules, installed)
    left: dict[str, tuple[str, ...]] = {}
    for folder in package_folders():
        seen: set[str] = set()
        others: set[str] = set()
        for name, distribution in installed.items():
            if os.path.realpath(str(distribution.locate_file(""))) == os.path.realpath(folder):
                (seen if name in visible else others).update(_files(distribution))
        left[folder] = tuple(sorted(_outermost(seen, others)))
    scripts = sysconfig.get_path("scripts")
    if not scripts.startswith("/usr/"):  # there lie the machine's own commands, which are no package's
        hidden = [one for name, one in installed.items() if name not in visible]
        others = {path for one in hidden for path in _scripts(one, scripts)}
        left[scripts] = tuple(sorted(name for name in os.listdir(scripts) if name not in others))
    return left


@functools.lru_cache(maxsize=2)
def _installed(times: tuple[tuple[str, int], ...]) -> Mapping[str, Distribution]:
    found: dict[str, Distribution] = {}
    for one in importlib.metadata.distributions():
        if one.metadata is not None and one.name:
            found.setdefault(normalized_name(one.name), one)
    return found


def _visible(rules: PackageRules, installed: Mapping[str, Distribution]) -> set[str]:
    """Return the names of what the rules approve by themselves, and of what that needs."""
    hidden = {normalized_name(rule.name) for rule in (*rules.blocked, *rules.requires_approval)}
    waiting = deque(normalized_name(rule.name) for rule in rules.auto_approved)
    visible: set[str] = set()
    while waiting:
        name = waiting.popleft()
        if name in installed and name not in hidden and name not in visible:
            visible.add(name)
            waiting.extend(_needed(installed[name].requires or ()))
    return visible


def _needed(lines: Iterable[str]) -> Iterable[str]:
    """Yield the names that a package needs, but not those of its extras."""
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        if name and not re.search(r"\bextra\s*==", line):
            yield normalized_name(name[0])


def _files(distribution: Distribution) -> Iterable[str]:
    """Yield the paths of a distribution's files, relative to the directory that it is installed in."""
    record = distribution.read_text("RECORD")
    if record is None:  # not installed from a wheel: its own list names its modules only
        metadata = getattr(distribution, "_path", None)
        yield from ([metadata.name] if metadata is not None else [])
        for module in (distribution.read_text("top_level.txt") or "").split():
            yield from (module, f"{module}.py")
        return
    for row in csv.reader(record.splitlines()):
        if row and not row[0].startswith(("../", "/")) and not row[0].startswith("__pycache__/"):
            yield row[0]


def _scripts(distribution: Distribution, folder: str) -> Iterable[str]:
    """Yield the names of a distribution's files in the directory of scripts."""
    for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        if row and row[0].startswith(("../", "/")):
            path = os.path.normpath(os.path.join(str(distribution.locate_file("")), row[0]))
            if os.path.dirname(path) == folder:
                yield os.path.basename(path)


def _outermost(seen: set[str], others: set[str]) -> Iterable[str]:
    """Yield the shortest paths that have files of `seen` below them and none of `others`."""
    first: dict[str, set[str]] = {}
    for path in seen:
        first.setdefault(path.partition("/")[0], set()).add(path.partition("/")[2])
    mixed: dict[str, set[str]] = {}
    for path in others:
        top, _, rest = path.partition("/")
        if top in first:
            mixed.setdefault(top, set()).add(rest)
    for top, below in first.items():
        if top not in mixed:
            yield top
        else:
            yield from (f"{top}/{path}" for path in _outermost(below - {""}, mixed[top] - {""}))
