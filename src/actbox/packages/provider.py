"""Gives programs their packages: judges, resolves, fetches and unpacks them, and keeps them for the next program.

`provider()` is found by name by the sandboxes (`actbox.sandbox.dependencies`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue, SandboxUnavailable
from actbox.core.packages import Distribution, Distributions, Environment, PackagePolicy, PackageRules, TrustLevel
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import Environs, Layer, NotProvided, Provided, Target, name_of, of_environment
from actbox.tools import Approver

from .asking import NotAllowed, PackageApprovals, Tell, blocked, checked_approver, not_approved
from .environments import EnvironmentRecord, EnvironmentRecords, platform_of
from .first_uses import FirstUses
from .index import Index
from .interpreters import find_python, find_uv
from .languages import (
    JAVASCRIPT,
    index_of,
    interpreter_of,
    judge_of,
    language_of,
    packages_of,
    requirements_of,
    rules_of,
)
from .npm_archives import BadTarball
from .npm_lock import npm_platform
from .npm_resolving import NpmInstaller, find_npm
from .project_files import read_script
from .requirements import Requirement
from .resolving import CannotResolve, Installer, Locked
from .rules import Judgement, PackageJudge, ResolvedPackage
from .store import KEEP_SECONDS, MOST_BYTES, Artifact, BadCache, PackageStore, UsedSet
from .vulnerabilities import read_advisories
from .wheels import BadWheel

_T = TypeVar("_T")

_DAY_SECONDS = 24 * 3600
_READY_SECONDS = 3600
_MOST_READY = 256
_log = logging.getLogger("actbox")

CACHE_VARIABLE = "ACTBOX_PACKAGE_CACHE"
"""The environment variable that names the package cache's directory."""


class _GivenUp(Exception):
    """Raised for those who waited for the work of another run, which was cancelled."""


@dataclass(frozen=True)
class _Provided(Environs):
    used: UsedSet | None = None

    def close(self) -> None:
        if self.used:
            self.used.close()


@dataclass(frozen=True, slots=True)
class _Ready:
    """The packages that a job came to, by rules; nobody has to be asked about them until `until` (monotonic)."""

    artifacts: tuple[Artifact, ...]
    places: tuple[str, ...]
    """The directories of packages of npm, one for each artifact."""
    distributions: tuple[Distribution, ...]
    warnings: tuple[str, ...]
    rules: PackageRules
    """Kept so that no other rules get the identity of these."""
    until: float


class PackageProvider:
    """The provider of this process: its package cache, and what is being installed now."""

    def __init__(self, store: PackageStore) -> None:
        self._store = store
        self._approvals = PackageApprovals()
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._layers: dict[str, UsedSet] = {}
        """The files of named environments in use, by the digest of their lock; kept as long as this process lives."""
        self._ready: dict[Hashable, _Ready] = {}
        """What programs have been given lately, about which nobody has to be asked."""
        self.records = EnvironmentRecords(store.root / "environments")
        self.first_uses = FirstUses(store.root / "first-uses.jsonl")

    def package_of(self, module: str, policy: Policy, may_ask: bool, language: str = "python") -> str:
        """Return the package that brings a module, "" if the policy does not admit it.

        With `may_ask` a package that needs an approval counts as admitted: its approver will be asked.
        """
        language = language_of(language)
        judge = judge_of(policy.packages or PackagePolicy(), language)
        for requirement in packages_of(module, language):
            demand = judge.judge(requirement).demand
            if not demand.refused and (may_ask or not demand.asks):
                return requirement.name
        return ""

    def image(self, policy: Policy) -> str:
        """Return the OCI image of a policy's named environment, "" if it names none. Blocks."""
        definition = self._definition(policy)
        return definition.image if definition is not None else ""

    async def layer(self, policy: Policy, target: Target | None = None, language: str = "python") -> Layer:
        """Return the files of a policy's named environment for a language; build them first if need be.

        They are for the environment's own interpreter, or for `target` if it is given.

        Raises `SandboxUnavailable` if there is no such environment, or it cannot be built, and `InvalidValue`.
        """
        rules = policy.packages or PackagePolicy()
        name = policy.environment_name
        try:
            definition = await run_blocking(self._definition, policy)
            if definition is None:
                raise SandboxUnavailable(self.records.unknown(name))
            if definition.language != language:
                engine = "node" if definition.language == JAVASCRIPT else "linux"
                raise SandboxUnavailable(
                    f"the environment {name!r} is for {definition.language}, and this sandbox runs {language}; the"
                    f" {engine} engine has it"
                )
            record = await run_blocking(self._records_for(target).read, name)
            python, platform = await run_blocking(interpreter_of, definition, target)
            artifacts = self._found(record.locked) if record and record.definition == definition else ()
            is_here = record is not None and record.platform == platform
            if record is None or not is_here or not artifacts or len(artifacts) != len(record.locked):
                if rules.offline:
                    raise SandboxUnavailable(
                        f"the environment {name!r} is not built, and the policy is offline: run"
                        f" `actbox environment build {name}` with a network"
                    )
                record = await self._alone(
                    ("build", name, target), lambda: self.build(definition, rules, target=target)
                )
                artifacts = self._found(record.locked)
            _check_review(record, rules)
            folder = await run_blocking(self._in_use, record, artifacts)
            return Layer(
                folder=str(folder),
                python=python.path,
                version=python.version,
                distributions=record.distributions,
                warm_pool_size=definition.warm_pool_size,
                target=target,
            )
        except NotAllowed as refusal:
            raise SandboxUnavailable(f"the environment {name!r} cannot be built: {refusal}") from None
        except (CannotResolve, BadWheel, BadTarball, BadCache, OSError) as error:
            raise SandboxUnavailable(f"the environment {name!r} cannot be built: {error}") from None

    def _definition(self, policy: Policy) -> Environment | None:
        if isinstance(policy.environment, Environment):
            return policy.environment
        record = self.records.read(policy.environment)
        return record.definition if record is not None else None

    def _records_for(self, target: Target | None) -> EnvironmentRecords:
        """Return the records of locks for a target: each has its own, below the records for this machine."""
        if target is None:
            return self.records
        name = hashlib.sha256(str(target).encode()).hexdigest()[:24]
        return EnvironmentRecords(self._store.root / "environments" / name)

    async def build(
        self,
        definition: Environment,
        rules: PackagePolicy,
        *,
        refresh: bool = False,
        target: Target | None = None,
        progress: Callable[[str], None] = _log.info,
    ) -> EnvironmentRecord:
        """Lock an environment, unless its lock fits or with `refresh`, fetch its wheels, and return its record.

        `progress` is called with a phrase before each step.
        Raises `NotAllowed`, `CannotResolve`, `BadWheel`, `BadTarball`, `BadCache`, `OSError` and `InvalidValue`.
        """
        language = definition.language
        if language not in ("python", JAVASCRIPT):
            raise InvalidValue(f"the environment {definition.name!r} is for {language}: only Python and Node have some")
        python, platform = await run_blocking(interpreter_of, definition, target)
        asked = requirements_of(definition.packages, language)
        records = self._records_for(target)
        record = await run_blocking(records.read, definition.name)
        is_locked = record is not None and record.definition == definition and record.platform == platform
        index, judge = index_of(rules, language), judge_of(rules, language)
        job = _Job(asked, {}, rules, index, judge, python.version, language, target=target)
        async with self._installer(job) as installer:
            if record is None or not is_locked or refresh:
                progress(f"{definition.name}: choosing versions for {len(asked)} requirements")
                locked = await installer.resolve([str(one) for one in asked]) if asked else ()
                record = EnvironmentRecord(
                    definition=definition, platform=platform, locked=locked, locked_at=time.time()
                )
            _check_hashes(asked, record.locked)
            _refuse(job.judged([(one, one.requires) for one in record.locked]))
            await run_blocking(_refuse_vulnerable, record.locked, rules, language)
            if rules.vulnerabilities is not None:
                record = replace(record, checked_at=time.time(), checked=rules.vulnerabilities)
            record = replace(record, locked=await self._fetch(installer, record.locked, progress))
        progress(f"{definition.name}: checking {len(record.locked)} packages")
        places = [one.place for one in record.locked]
        used = await run_blocking(self._store.use, self._found(record.locked), places)
        used.close()
        record = replace(record, built_at=time.time())
        await run_blocking(records.write, record)
        return record

    def collect(self, *, keep_seconds: float, most_bytes: int) -> int:
        """Remove from the cache what nobody has used for so long, and the oldest beyond a size; return the bytes freed.

        Packages of named environments stay. Blocks.
        """
        records = filter(None, map(self.records.read, self.records.names()))
        kept = {one.sha256 for record in records for one in record.locked}
        for path in (self._store.root / "resolutions").glob("*.json"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > keep_seconds:
                    path.unlink()
        return self._store.collect(keep_seconds=keep_seconds, most_bytes=most_bytes, kept=kept)

    def contents(self) -> dict[str, tuple[int, float]]:
        """Return the wheels of the cache by their hash: the size in bytes, and when each was used last. Blocks."""
        return self._store.contents()

    @property
    def cache(self) -> Path:
        """The directory of the package cache."""
        return self._store.root

    def _in_use(self, record: EnvironmentRecord, artifacts: tuple[Artifact, ...]) -> Path:
        used = self._store.use(artifacts, [one.place for one in record.locked])
        with self._lock:
            kept = self._layers.setdefault(record.lock_sha256, used)
        if kept is not used:
            used.close()
        return kept.path

    async def provide(
        self,
        program: Program,
        policy: Policy,
        engine: str,
        layer: Layer | None,
        approver: Approver | None,
        tell: Tell,
        had: tuple[Distribution, ...] = (),
    ) -> Provided:
        """Return the packages that a program asks for, installed. Raises `NotProvided` and `InvalidValue`.

        `had` are packages that a session has beyond its environment.
        """
        start = time.perf_counter()
        language = language_of(program.language)
        asked = _read(program.dependencies, language)
        asked += read_script(program.code).requirements if language == "python" else ()
        try:
            environs = partial(of_environment, policy, layer, language)
            # Of the versions of a package of npm, the outermost counts; of Python's, that of the session.
            installed = {one.name: one.version for one in (*reversed(environs()), *had)}
            markers = (
                {"python_version": layer.version, "python_full_version": f"{layer.version}.0"}
                if layer and layer.version
                else None
            )
            lacking = tuple(one for one in asked if one.applies(markers) and not _has(installed, one))
            if not lacking:
                return Environs(name_of(policy, layer), Distributions((), environs))
            rules = policy.packages or PackagePolicy()
            approver = checked_approver(rules.approver) or approver
            version = (layer.version if layer else "") or find_python("").version
            target, folder = (layer.target, layer.folder) if layer else (None, "")
            index, own_rules = index_of(rules, language), rules_of(rules, language)
            platform = (language, version, target, folder)
            kind = (lacking, frozenset(installed.items()), id(own_rules), rules.offline, index, platform)
            found = await self._at_hand(kind)
            if found is None:
                base = None
                if language == JAVASCRIPT and layer is not None:
                    base = await run_blocking(self.records.read, policy.environment_name)
                judge = judge_of(rules, language, installed)
                job = _Job(lacking, installed, rules, index, judge, version, language, base, target)
                found = await self._installed(job, kind, approver, program, tell)
            ready, used = found
            return _Provided(
                environment=name_of(policy, layer),
                distributions=Distributions(ready.distributions, environs),
                folder=used.path,
                warnings=ready.warnings,
                install_ms=(time.perf_counter() - start) * 1000,
                used=used,
            )
        except NotAllowed as refusal:
            raise NotProvided(refusal.error, program, engine) from None
        except (CannotResolve, BadWheel, BadTarball, BadCache, OSError, SandboxUnavailable) as error:
            raise NotProvided(_failure(error, asked, self._store.root), program, engine) from None

    async def _at_hand(self, kind: Hashable) -> tuple[_Ready, UsedSet] | None:
        """Return what programs of this kind were given lately, checked anew and in use, or `None`."""
        ready = self._ready.get(kind)
        if ready is None or ready.until < time.monotonic():
            return None
        try:
            used = self._store.use_at_once(ready.artifacts, ready.places)
            if used is None:
                used = await run_blocking(self._store.use, ready.artifacts, ready.places)
            return ready, used
        except (BadCache, OSError):
            self._ready.pop(kind, None)
            return None

    async def _installed(
        self, job: _Job, kind: Hashable, approver: Approver | None, program: Program, tell: Tell
    ) -> tuple[_Ready, UsedSet]:
        """Return the packages of a job, approved and installed, in use; keep them for the next job of its kind."""
        warnings = _refuse(map(job.judge.judge, job.asked), nobody_answers=approver is None)
        for last in (False, True):
            locked, artifacts, judgements = await self._artifacts(job, approver, program, tell)
            places = tuple(one.place for one in locked)
            trust = {one.name: one.trust for one in judgements}
            each = {one.sha256: one for one in artifacts}.values()
            distributions = tuple(Distribution(one.name, one.version, one.sha256, trust[one.name]) for one in each)
            await run_blocking(self.first_uses.note, distributions)
            try:
                used = await run_blocking(self._store.use, artifacts, places)
                break
            except BadCache:  # the store has removed what somebody had edited
                if last or job.rules.offline:
                    raise
            except InvalidValue as error:
                raise BadWheel(str(error)) from None
        notes = tuple(note for artifact in each for note in artifact.notes)
        until = time.monotonic() + _READY_SECONDS
        rules = rules_of(job.rules, job.language)
        ready = _Ready(artifacts, places, distributions, (*warnings, *notes), rules, until)
        if job.rules.vulnerabilities is None and not any(one.demand.asks for one in judgements):
            if len(self._ready) >= _MOST_READY:
                self._ready.clear()
            self._ready[kind] = ready
        return ready, used

    def new_layers_folder(self) -> Path:
        """Make an empty directory for the packages of a session, on the file system of the package cache. Blocks."""
        return Path(tempfile.mkdtemp(prefix="session-", dir=self._store.root / "temporary"))

    async def _artifacts(
        self, job: _Job, approver: Approver | None, program: Program, tell: Tell
    ) -> tuple[tuple[Locked, ...], tuple[Artifact, ...], tuple[Judgement, ...]]:
        """Return the files for a job, once they are approved, unpacked, and how each was judged."""
        rules = job.rules.python, job.rules.nodejs
        locked = await self._alone(("resolve", job.key, *rules), lambda: self._resolved(job))
        _check_hashes(job.asked, locked)
        await run_blocking(_refuse_vulnerable, locked, job.rules, job.language)
        approved: frozenset[str] = frozenset()
        if job.may_ask(locked):
            by_name: dict[str, list[Locked]] = {}
            for file in {one.sha256: one for one in locked}.values():
                by_name.setdefault(file.name, []).append(file)
            judgements = job.judged([(one, one.requires) for one in locked])
            _refuse(judgements, nobody_answers=False)
            approved = await self._approvals.ask(judgements, by_name, job.rules, approver, program, tell)
        artifacts = self._found(locked)
        if len(artifacts) != len(locked):
            hashes = frozenset(one.digest for one in locked)
            await self._alone(("fetch", hashes, job.index), lambda: self._fetched(job, locked))
            artifacts = self._found(locked)
            if len(artifacts) != len(locked):
                raise BadCache(f"{self._store.root} loses what is put into it: find out who writes there")
        # Each wheel's own metadata counts in the end, whatever the index has said of it.
        judgements = job.judged([(one, one.requires) for one in artifacts])
        _refuse((one for one in judgements if one.name not in approved), nobody_answers=True)
        return locked, artifacts, judgements

    async def _alone(self, key: Hashable, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do some work and return what it comes to; who asks for the same meanwhile waits for the first."""
        while True:
            with self._lock:
                known: Future[_T] | None = self._under_way.get(key)
                if known is None:
                    mine: Future[_T] = Future()
                    self._under_way[key] = mine
                    break
            try:
                return await asyncio.shield(asyncio.wrap_future(known))
            except _GivenUp:
                continue
        try:
            found = await work()
        except BaseException as error:
            mine.set_exception(error if isinstance(error, Exception) else _GivenUp())
            mine.exception()  # so that nobody is told that it was never retrieved
            raise
        else:
            mine.set_result(found)
            return found
        finally:
            with self._lock:
                del self._under_way[key]

    async def _resolved(self, job: _Job) -> tuple[Locked, ...]:
        """Return the wheels of a job, described if somebody may be asked about one, else also fetched."""
        locked = await run_blocking(self._kept, job.key, job.rules.offline)
        if locked is None and job.rules.offline:
            raise CannotResolve(
                f"{', '.join(map(str, job.asked))} cannot be had offline: nothing in the package cache answers for it"
            )
        is_enough = job.rules.offline or all(one.is_described for one in locked or ())
        if locked is not None and (is_enough or not job.may_ask(locked)):
            return locked
        async with self._installer(job) as installer:
            if locked is None:
                locked = await installer.resolve(job.requirements, job.constraints)
                if job.language == "python":  # packages of npm are one tree with those of the environment
                    locked = tuple(one for one in locked if job.installed.get(one.name) != one.version)
            _refuse(job.judged([(one, ()) for one in locked], ()))
            if job.may_ask(locked):
                locked = await installer.describe(locked)
            else:
                locked = await self._fetch(installer, locked)
        await run_blocking(self._keep, job.key, locked)
        return locked

    async def _fetched(self, job: _Job, locked: Sequence[Locked]) -> None:
        if job.rules.offline:
            raise CannotResolve(
                f"{', '.join(map(str, job.asked))} cannot be had offline: the package cache lacks files"
            )
        async with self._installer(job) as installer:
            await self._fetch(installer, locked)

    async def _fetch(
        self, installer: Installer, locked: Sequence[Locked], progress: Callable[[str], None] = _log.debug
    ) -> tuple[Locked, ...]:
        """Put the files that the cache lacks into it, and return them all with their SHA-256.

        Raises `CannotResolve`, `BadWheel`, `BadTarball` and `OSError`.
        """
        if self._store.is_collection_due():
            await run_blocking(lambda: self.collect(keep_seconds=KEEP_SECONDS, most_bytes=MOST_BYTES))
        missing = list({one.digest: one for one in locked if self._store.find(one.digest) is None}.values())
        if missing:
            mib = sum(max(one.size, 0) for one in missing) / 2**20
            progress(f"fetching {len(missing)} of {len(locked)} packages" + (f", {mib:,.1f} MiB" if mib else ""))
        files = await installer.fetch(missing) if missing else []
        for one, file in zip(missing, files, strict=True):
            if one.sha512:
                await run_blocking(self._store.add_tarball, file, one.filename, one.name, one.version, one.sha512)
            else:
                await run_blocking(self._store.add, file, one.filename, one.sha256)
        found = ((one, self._store.find(one.digest)) for one in locked)
        return tuple(replace(one, sha256=artifact.sha256) if artifact else one for one, artifact in found)

    @contextlib.asynccontextmanager
    async def _installer(self, job: _Job) -> AsyncIterator[Installer]:
        with tempfile.TemporaryDirectory(dir=self._store.root / "temporary") as name:
            seconds = job.rules.install_seconds
            installer: Installer
            if job.language == JAVASCRIPT:
                kept = job.base.locked if job.base else ()
                installer = NpmInstaller(job.index, find_npm(), Path(name), seconds=seconds, kept=kept)
            else:
                installer = Installer(job.index, find_uv(), job.python, Path(name), seconds=seconds, target=job.target)
            async with installer:
                yield installer

    def _found(self, locked: Sequence[Locked]) -> tuple[Artifact, ...]:
        found = [self._store.find(one.digest) for one in locked]
        return tuple(artifact for artifact in found if artifact)

    def _kept(self, key: str, at_any_age: bool) -> tuple[Locked, ...] | None:
        """Return an earlier resolution that is young enough."""
        path = self._store.root / "resolutions" / f"{key}.json"
        try:
            if not at_any_age and time.time() - path.stat().st_mtime > KEEP_SECONDS:
                return None
            found = json.loads(path.read_text("utf-8"))
            return tuple(Locked(**{**one, "requires": tuple(one["requires"])}) for one in found)
        except (OSError, ValueError, TypeError, KeyError):
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


@dataclass(frozen=True, slots=True)
class _Job:
    """Packages that are to be had together."""

    asked: tuple[Requirement, ...]
    installed: Mapping[str, str]
    rules: PackagePolicy
    index: Index
    judge: PackageJudge
    python: str
    """The version of Python that the packages are for, as in `3.12`."""
    language: str = "python"
    base: EnvironmentRecord | None = None
    """The named environment that the packages are added to, if they are npm's."""
    target: Target | None = None
    """The interpreter, if it is none of this machine's."""

    @property
    def key(self) -> str:
        """A digest of everything on which the resolution depends."""
        installed = sorted(f"{name}=={version}" for name, version in self.installed.items())
        platform = npm_platform() if self.language == JAVASCRIPT else platform_of(self.target, self.python)
        lock = self.base.lock_sha256 if self.base else ""
        parts = [platform + lock, str(self.index), *sorted(map(str, self.asked)), *installed]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def requirements(self) -> list[str]:
        """What a resolver is asked for: of npm also what the environment has."""
        names = {one.name for one in self.asked}
        kept = requirements_of(self.base.definition.packages, self.language) if self.base else ()
        return [*(str(one) for one in kept if one.name not in names), *map(str, self.asked)]

    @property
    def constraints(self) -> list[str]:
        """What the environment has and keeps."""
        return [
            f"{name}=={version}"
            for name, version in self.installed.items()
            if all(one.accepts(version) for one in self.asked if one.normalized == name)
        ]

    def may_ask(self, locked: Sequence[Locked]) -> bool:
        """Return whether an approver may have to be asked about one of these packages."""
        direct = map(self.judge.judge, self.asked)
        listed = (one for one in self.judged([(one, ()) for one in locked], ()) if one.trust is not TrustLevel.REGISTRY)
        return any(one.demand.asks for one in (*direct, *listed))

    def judged(
        self, found: Iterable[tuple[Artifact | Locked, tuple[str, ...]]], asked: Sequence[Requirement] | None = None
    ) -> tuple[Judgement, ...]:
        """Judge packages with the names of what each requires, and what was asked for."""
        packages = [
            ResolvedPackage(name=one.name, version=one.version, hashes=(f"sha256:{one.sha256}",), requires=requires)
            for one, requires in found
        ]
        if self.language == JAVASCRIPT:
            packages = list(self._once_each(packages))
        return self.judge.judge_resolved(self.asked if asked is None else asked, packages)

    def _once_each(self, packages: Iterable[ResolvedPackage]) -> Iterable[ResolvedPackage]:
        """Yield one package for all versions of each name: rules hold for names.

        It has the environment's version if there is no other than the environment has.
        """
        kept = {(one.name, one.version) for one in self.base.locked} if self.base else set()
        by_name: dict[str, list[ResolvedPackage]] = {}
        for package in packages:
            by_name.setdefault(package.name, []).append(package)
        for name, same in by_name.items():
            requires = tuple(dict.fromkeys(needed for one in same for needed in one.requires))
            new = next((one for one in same if (name, one.version) not in kept), None)
            version = new.version if new else self.installed.get(name, same[0].version)
            yield replace(new or same[0], version=version, requires=requires)


@functools.lru_cache(maxsize=256)
def _read(dependencies: tuple[str, ...], language: str) -> tuple[Requirement, ...]:
    return requirements_of(dependencies, language)


def _refuse(judgements: Iterable[Judgement], *, nobody_answers: bool = False) -> tuple[str, ...]:
    """Return the warnings of judgements. Raises `NotAllowed` for a package that is blocked or that nobody approves."""
    judgements = tuple(judgements)
    for judgement in judgements:
        if judgement.demand.refused:
            raise blocked(judgement)
    for judgement in judgements:
        if nobody_answers and judgement.demand.asks and not judgement.covered:
            raise not_approved(judgement)
    return tuple(warning for judgement in judgements for warning in judgement.warnings)


def _failure(error: Exception, asked: Sequence[Requirement], root: Path) -> ErrorInfo:
    """Return the error of a program whose packages cannot be installed."""
    names = ", ".join(map(str, asked))
    message = str(error) if isinstance(error, CannotResolve) else f"{names} cannot be installed: {error}"
    if isinstance(error, SandboxUnavailable):
        return ErrorInfo(kind=ErrorKind.SANDBOX, type=type(error).__name__, message=message)
    hint = (
        "do without it, or ask for another version of it"
        if isinstance(error, (CannotResolve, BadWheel, BadTarball))
        else ""
    )
    if isinstance(error, OSError):
        hint = f"make room in {root}, or name another directory by {CACHE_VARIABLE}"
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type=type(error).__name__, message=message, hint=hint)


def _check_review(record: EnvironmentRecord, rules: PackagePolicy) -> None:
    """Raise `SandboxUnavailable` for a lock that nobody has reviewed lately, if the policy demands it."""
    days = rules.review_days
    if days is not None and time.time() - record.reviewed_at > days * _DAY_SECONDS:
        name = record.definition.name
        raise SandboxUnavailable(
            f"nobody has reviewed the environment {name!r} in the last {days:g} days: look at it with"
            f" `actbox environment show {name}`, and then run `actbox environment review {name} --by WHO`"
        )


def _check_hashes(asked: Sequence[Requirement], locked: Sequence[Locked]) -> None:
    """Raise `CannotResolve` for a file that has none of the hashes that its requirement demands."""
    found = {one.name: one for one in locked}
    for one in asked:
        file = found.get(one.normalized)
        if file and one.hashes and f"sha256:{file.sha256}" not in one.hashes:
            raise CannotResolve(f"{one} is to have another hash than {file.filename}, which has sha256:{file.sha256}")


def _refuse_vulnerable(locked: Sequence[Locked], rules: PackagePolicy, language: str) -> None:
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


def _has(installed: Mapping[str, str], one: Requirement) -> bool:
    version = installed.get(one.normalized)
    return version is not None and not one.address and not one.extras and one.accepts(version)
