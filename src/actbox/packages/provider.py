"""Gives programs their packages: judges, resolves, fetches and unpacks them, and keeps them for the next program.

`provider()` is found by name by the sandboxes (`actbox.sandbox.dependencies`).
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path

from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, InvalidValue
from actbox.core.packages import CLEAN, PackagePolicy, normalized_name
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import NotProvided, Provided

from .index import Index, find_index
from .project_files import read_script
from .requirements import Requirement, read_requirements
from .resolving import CannotResolve, Installer, Locked
from .rules import Judgement, PackageJudge, ResolvedPackage
from .store import KEEP_SECONDS, Artifact, BadCache, PackageStore, UsedSet
from .wheels import BadWheel

CACHE_VARIABLE = "ACTBOX_PACKAGE_CACHE"
"""The environment variable that names the package cache's directory."""


class _Refused(Exception):
    def __init__(self, kind: ErrorKind, type_: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.error = ErrorInfo(kind=kind, type=type_, message=message, hint=hint)


@dataclass
class _Provided:
    used: UsedSet | None = None
    warnings: tuple[str, ...] = ()
    install_ms: float = 0.0

    @property
    def folder(self) -> Path | None:
        return self.used.path if self.used else None

    def close(self) -> None:
        if self.used:
            self.used.close()


class PackageProvider:
    """The provider of this process: its package cache, and what is being installed now."""

    def __init__(self, store: PackageStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[tuple[Artifact, ...]]] = {}

    async def provide(self, program: Program, policy: Policy, engine: str) -> Provided:
        """Return the packages that a program asks for, installed. Raises `NotProvided` and `InvalidValue`."""
        start = time.perf_counter()
        try:
            asked = read_requirements(program.dependencies)
            asked = (*asked, *read_script(program.code).requirements)
            installed = {} if policy.environment == CLEAN else _installed(_site_times())
            lacking = [one for one in asked if not _has(installed, one)]
            if not lacking:
                return _Provided()
            rules = policy.packages
            if rules is None:
                raise _Refused(
                    ErrorKind.POLICY,
                    "PackageNotApproved",
                    f"{lacking[0]} is not in this environment, and the policy approves no packages",
                    "do without it, or use a package of the environment",
                )
            judge = PackageJudge(rules.python)
            warnings = _decide([judge.judge(one) for one in lacking])
            artifacts = await self._artifacts(lacking, installed, rules, judge)
            used = await run_blocking(self._store.use, artifacts)
            notes = tuple(note for artifact in artifacts for note in artifact.notes)
            return _Provided(used, (*warnings, *notes), (time.perf_counter() - start) * 1000)
        except _Refused as refusal:
            raise NotProvided(refusal.error, program, engine) from None
        except (CannotResolve, BadWheel, BadCache, OSError) as error:
            message = str(error) if isinstance(error, ActboxError) else f"packages cannot be installed: {error}"
            missing = ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type=type(error).__name__, message=message)
            raise NotProvided(missing, program, engine) from None

    async def _artifacts(
        self, asked: Sequence[Requirement], installed: Mapping[str, str], rules: PackagePolicy, judge: PackageJudge
    ) -> tuple[Artifact, ...]:
        """Return the unpacked wheels for requirements. Who asks for the same at the same time waits for the first."""
        index = find_index(rules.index)
        key = _key(asked, installed, index)
        with self._lock:
            known = self._under_way.get(key)
            mine: Future[tuple[Artifact, ...]] = Future()
            if known is None:
                self._under_way[key] = mine
        if known is not None:
            return await asyncio.shield(asyncio.wrap_future(known))
        try:
            found = await self._resolved(key, asked, installed, rules, index, judge)
        except BaseException as error:
            mine.set_exception(
                error if isinstance(error, Exception) else CannotResolve("the installation was given up")
            )
            mine.exception()  # so that nobody is told that it was never retrieved
            raise
        else:
            mine.set_result(found)
            return found
        finally:
            with self._lock:
                del self._under_way[key]

    async def _resolved(
        self,
        key: str,
        asked: Sequence[Requirement],
        installed: Mapping[str, str],
        rules: PackagePolicy,
        index: Index,
        judge: PackageJudge,
    ) -> tuple[Artifact, ...]:
        kept = await run_blocking(self._kept, key)
        if kept is not None:
            artifacts = self._found(kept)
            if len(artifacts) == len(kept):
                _judge_all(judge, asked, artifacts)
                return artifacts
        with tempfile.TemporaryDirectory(dir=self._store.root / "temporary") as name:
            installer = Installer(index, _uv(), sys.executable, Path(name), seconds=rules.install_seconds)
            async with installer:
                wanted = [str(one) for one in asked]
                constraints = [
                    f"{name}=={version}" for name, version in installed.items() if _may_stay(name, version, asked)
                ]
                locked = await installer.resolve(wanted, constraints)
                locked = tuple(one for one in locked if installed.get(one.name) != one.version)
                _refuse_blocked(judge, locked)
                missing = [one for one in locked if self._store.find(one.sha256) is None]
                files = await installer.fetch(missing) if missing else []
                for one, file in zip(missing, files, strict=True):
                    await run_blocking(self._store.add, file, one.filename, one.sha256)
        await run_blocking(self._keep, key, locked)
        found = self._found(locked)
        if len(found) != len(locked):
            raise BadCache(f"{self._store.root} loses what is put into it: find out who writes there")
        _judge_all(judge, asked, found)
        return found

    def _found(self, locked: Sequence[Locked]) -> tuple[Artifact, ...]:
        found = [self._store.find(one.sha256) for one in locked]
        return tuple(artifact for artifact in found if artifact)

    def _kept(self, key: str) -> tuple[Locked, ...] | None:
        """Return an earlier resolution that is young enough."""
        path = self._store.root / "resolutions" / f"{key}.json"
        try:
            if time.time() - path.stat().st_mtime > KEEP_SECONDS:
                return None
            return tuple(Locked(**one) for one in json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _keep(self, key: str, locked: Sequence[Locked]) -> None:
        folder = self._store.root / "resolutions"
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump([asdict(one) for one in locked], file)
        os.replace(file.name, folder / f"{key}.json")


@functools.cache
def provider() -> PackageProvider:
    """Return the provider of this process."""
    named = os.environ.get(CACHE_VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return PackageProvider(PackageStore(Path(named) if named else cache / "actbox" / "wheels"))


def _decide(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the warnings of judgements. Raises `_Refused` for a package that is blocked or not approved."""
    for judgement in judgements:
        why = f": {judgement.reason}" if judgement.reason else ""
        brought = f", which {' and '.join(judgement.path[-1:])} brings," if judgement.path else ""
        if judgement.demand.refused:
            raise _Refused(
                ErrorKind.POLICY,
                "PackageBlocked",
                f"{judgement.requirement}{brought} is blocked by the policy{why}",
                "do without it; another spelling or address of it is blocked too",
            )
        if judgement.demand.asks and not judgement.covered:
            raise _Refused(
                ErrorKind.POLICY,
                "PackageNotApproved",
                f"{judgement.requirement}{brought} needs an approval that nobody has given ({judgement.trust}){why}",
                "do without it, or ask for a package that is approved",
            )
    return tuple(warning for judgement in judgements for warning in judgement.warnings)


def _judge_all(judge: PackageJudge, asked: Sequence[Requirement], artifacts: Sequence[Artifact]) -> None:
    """Raise `_Refused` if what is asked for, or what it brings, is not approved."""
    _decide(judge.judge_resolved(asked, [_resolved(one, one.requires) for one in artifacts]))


def _refuse_blocked(judge: PackageJudge, locked: Sequence[Locked]) -> None:
    """Raise `_Refused` if a blocked package is among what would be fetched."""
    judgements = judge.judge_resolved((), [_resolved(one, ()) for one in locked])
    _decide([judgement for judgement in judgements if judgement.demand.refused])


def _resolved(one: Artifact | Locked, requires: tuple[str, ...]) -> ResolvedPackage:
    return ResolvedPackage(name=one.name, version=one.version, hashes=(f"sha256:{one.sha256}",), requires=requires)


def _has(installed: Mapping[str, str], one: Requirement) -> bool:
    version = installed.get(one.normalized)
    return version is not None and not one.address and one.accepts(version)


def _may_stay(name: str, version: str, asked: Sequence[Requirement]) -> bool:
    return all(one.accepts(version) for one in asked if one.normalized == name)


def _site_times() -> tuple[tuple[str, int], ...]:
    """Return the times of the directories that this process imports from, which change with what is installed."""
    times = []
    for folder in sys.path:
        try:
            times.append((folder, os.stat(folder).st_mtime_ns))
        except OSError:
            continue
    return tuple(times)


@functools.lru_cache(maxsize=4)
def _installed(times: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    """Return the versions of the installed distributions, by normalized name."""
    found: dict[str, str] = {}
    for one in importlib.metadata.distributions():
        if one.metadata is not None and one.name:
            found.setdefault(normalized_name(one.name), one.version)
    return found


def _key(asked: Sequence[Requirement], installed: Mapping[str, str], index: Index) -> str:
    parts = [sys.version, str(index), *sorted(map(str, asked)), *sorted(f"{k}=={v}" for k, v in installed.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _uv() -> str:
    try:
        import uv
    except ModuleNotFoundError:
        raise InvalidValue("dependencies are installed by uv: pip install 'actbox[packages]'") from None
    return os.fspath(uv.find_uv_bin())
