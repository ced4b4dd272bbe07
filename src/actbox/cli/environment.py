"""`actbox environment`: build, list, show, lock and remove named environments, and empty the package cache."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from actbox.config import Config
from actbox.core.errors import ActboxError, InvalidValue, SandboxUnavailable
from actbox.core.packages import Environment, PackagePolicy
from actbox.packages import provider as providers
from actbox.packages.asking import NotAllowed
from actbox.packages.cyclonedx import cyclonedx
from actbox.packages.environments import EnvironmentRecord
from actbox.packages.npm_lock import npm_lock
from actbox.packages.provider import PackageProvider

from .errors import UsageError

_DAY = 24 * 3600
_FORMS = ("text", "json", "cyclonedx")


def build(
    name: str,
    packages: Sequence[str],
    python: str,
    language: str,
    config: Path | None,
    rules: PackagePolicy,
    refresh: bool,
) -> int:
    """Build an environment, or all of a configuration file if `name` is empty, and print what each has.

    Packages that the file blocks are refused. One that cannot be built does not keep the others from it.
    """
    provider = providers.provider()
    if config is None and not name and refresh and (names := provider.records.names()):
        definitions = [_record(provider, one).definition for one in names]
    elif config is None:
        definitions = [_definition(provider, name, packages, python, language)]
    elif packages or python:
        raise UsageError("the file says what its environments have", "leave out --with and --python")
    else:
        read = Config.load(config)
        definitions = _chosen(read.environments, name, config)
        provider = providers.provider(read.package_cache())
        if read.packages is not None:
            rules = replace(rules, python=read.packages.python, nodejs=read.packages.nodejs)
    failed = []
    for definition in definitions:
        print(f"building {definition.name} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            record = asyncio.run(provider.environments.build(definition, rules, refresh=refresh, progress=_show))
        except (ActboxError, NotAllowed, OSError) as error:
            base = definition.image
            why = f" (its base is {base}, so that interpreter has to be on this machine)" if base else ""
            why = why if isinstance(error, SandboxUnavailable) else ""
            print(f"actbox: the environment {definition.name!r} cannot be built: {error}{why}", file=sys.stderr)
            failed.append(definition.name)
            continue
        print(f"built {definition.name} in {time.perf_counter() - start:.1f} s", file=sys.stderr)
        print(_line(record))
    if failed and config is not None:
        print(f"not built: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def list_all() -> int:
    """Print the environments, the approved packages that programs have had beyond these, and the cache's size."""
    provider, found = providers.provider(), contents()
    sizes, names = {one["name"]: one["bytes"] for one in found["environments"]}, provider.records.names()
    for name in names:
        try:
            record = provider.records.read(name)
        except InvalidValue as error:  # somebody has damaged it
            print(f"actbox: {error}", file=sys.stderr)
            continue
        if record is not None:
            print(f"{_line(record)}, {_mib(sizes.get(name, 0))}")
    if not names:
        print("there are no environments; `actbox environment build NAME --with PACKAGE` makes one")
    if used := provider.first_uses.read():
        print("\npackages that programs were given because a policy approves them:")
        for first in used:
            print(f"  {first.name}=={first.version}, first used {_ago(first.at)}")
    print("", next(lines_of(found)), sep="\n")
    return 0


def contents() -> dict[str, Any]:
    """Return the size and age of the package cache and of each environment that can be read, as JSON data."""
    provider = providers.provider()
    held = provider.contents()
    environments = []
    for name in provider.records.names():
        with contextlib.suppress(InvalidValue):
            if (record := provider.records.read(name)) is not None:
                size = sum(held[one.sha256][0] for one in record.locked if one.sha256 in held)
                about = {"packages": len(record.locked), "bytes": size, "built_at": record.built_at}
                environments.append({"name": name, **about, "reviewed_at": record.reviewed_at})
    return {
        "cache": str(provider.cache),
        "packages": len(held),
        "bytes": sum(size for size, _ in held.values()),
        "oldest_use": min((used for _, used in held.values()), default=0.0),
        "environments": environments,
    }


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """Yield sentences about what `contents` returns."""
    oldest = f", the oldest used {_ago(found['oldest_use'])}" if found["packages"] else ""
    yield f"package cache {found['cache']}: {found['packages']} packages, {_mib(found['bytes'])}{oldest}"
    for one in found["environments"]:
        reviewed = f"reviewed {_ago(one['reviewed_at'])}"
        yield f"environment {one['name']}: {_mib(one['bytes'])}, built {_ago(one['built_at'])}, {reviewed}"


def show(name: str, form: str) -> int:
    """Print an environment: its packages as text, as JSON, or as a bill of materials."""
    if form not in _FORMS:
        raise UsageError(f"there is no format {form!r}; there are: {', '.join(_FORMS)}", "--format json")
    record = _record(providers.provider(), name)
    if form == "cyclonedx":
        print(json.dumps(cyclonedx(record.distributions, language=record.definition.language), indent=1))
    elif form == "json":
        print(json.dumps(_document(record), indent=1))
    else:
        print(_line(record))
        for one in record.locked:
            print(f"  {one.name}=={one.version}  sha256:{one.sha256}")
        when = f"compared with {record.checked} {_ago(record.checked_at)}" if record.checked_at else "not compared"
        print(f"  known vulnerabilities: {when}")
    return 0


def review(name: str, by: str) -> int:
    """Record that somebody has reviewed the locks of an environment. A new lock needs a new review."""
    provider = providers.provider()
    reviewed = provider.environments.review(name, by)
    if not reviewed:
        raise _unknown(provider, name)
    for record in reviewed:
        print(f"{name}: lock {record.lock_sha256[:12]} for {record.platform} reviewed by {by}")
    return 0


def lock(name: str) -> int:
    """Print an environment's lock as requirements with hashes, which pip and uv read, or as a lock of npm."""
    record = _record(providers.provider(), name)
    if record.definition.language == "javascript":
        print(json.dumps(npm_lock(record.definition.packages, record.locked), indent=1))
        return 0
    for one in record.locked:
        print(f"{one.name}=={one.version} --hash=sha256:{one.sha256}")
    return 0


def remove(name: str) -> int:
    """Remove an environment. Its files stay in the package cache until they are old."""
    provider = providers.provider()
    if not provider.environments.remove(name):
        raise _unknown(provider, name)
    print(f"removed {name}; its files stay in the package cache until nothing has used them for seven days")
    return 0


def collect(keep_days: float, most_gib: float) -> int:
    """Remove from the package cache what nobody has used for so long, and the oldest beyond a size."""
    freed = providers.provider().collect(keep_seconds=keep_days * _DAY, most_bytes=int(most_gib * 2**30))
    print(f"{freed / 2**20:.1f} MiB removed")
    return 0


def _chosen(found: Sequence[Environment], name: str, config: Path) -> list[Environment]:
    """Return the environment of a file with this name, or all if it is empty."""
    chosen = [one for one in found if name in ("", one.name)]
    if not chosen:
        known = ", ".join(one.name for one in found) or "none"
        raise UsageError(f"{config} has no environment {name!r}; it has {known}", "name one of these")
    return chosen


def _definition(
    provider: PackageProvider, name: str, packages: Sequence[str], python: str, language: str
) -> Environment:
    """Return an environment of the command line's packages, or without any the one that is defined already."""
    if not name:
        raise UsageError(
            "name an environment, or a file that defines some", "actbox environment build NAME --with PACKAGE"
        )
    if packages or python:
        return Environment(name=name, packages=tuple(packages), python=python, language=language)
    return _record(provider, name).definition


def _record(provider: PackageProvider, name: str) -> EnvironmentRecord:
    record = provider.records.read(name)
    if record is None:
        raise _unknown(provider, name)
    return record


def _unknown(provider: PackageProvider, name: str) -> UsageError:
    known = ", ".join(provider.records.names()) or "none"
    return UsageError(f"there is no environment {name!r}; there are: {known}", "actbox environment build makes one")


def _line(record: EnvironmentRecord) -> str:
    packages = f"{len(record.locked)} packages" if len(record.locked) != 1 else "1 package"
    reviewed = f"reviewed by {record.reviewed_by} {_ago(record.reviewed_at)}" if record.reviewed_at else "not reviewed"
    lock = f"lock {record.lock_sha256[:12]}, built {_ago(record.built_at)}, {reviewed}"
    return f"{record.definition.name}: {packages} for {record.platform}, {lock}"


def _document(record: EnvironmentRecord) -> dict[str, object]:
    return {
        "name": record.definition.name,
        "packages": list(record.definition.packages),
        "platform": record.platform,
        "lock_sha256": record.lock_sha256,
        "locked_at": record.locked_at or None,
        "built_at": record.built_at or None,
        "checked_at": record.checked_at or None,
        "checked": record.checked,
        "reviewed_at": record.reviewed_at or None,
        "reviewed_by": record.reviewed_by,
        "distributions": [one.to_dict() for one in record.distributions],
    }


def _show(step: str) -> None:
    print(f"  {step}", file=sys.stderr, flush=True)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _ago(moment: float) -> str:
    days = (time.time() - moment) / _DAY
    return "never" if not moment else f"{days:.0f} days ago" if days >= 1 else "today"
