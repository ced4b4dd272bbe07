"""Builds named environments, and gives sandboxes their files: for this machine, or for an interpreter elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from actbox.core.errors import ActboxError, InvalidValue, SandboxUnavailable
from actbox.core.packages import HOST, Environment, PackagePolicy
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import BUILD_LOG, Layer, Target, of_environment

from .asking import NotAllowed, refuse
from .compiling import cache_tag
from .copies import refuse_copies
from .environments import EnvironmentRecord, EnvironmentRecords
from .fetching import PackageFetcher
from .languages import JAVASCRIPT, index_of, interpreter_of, judge_of, requirements_of, rules_of
from .npm_archives import BadTarball
from .package_job import PackageJob
from .project_files import DeclaredDependencies
from .requirements import markers_of
from .resolving import CannotResolve
from .rules import PackageJudge, ResolvedPackage
from .single_flight import SingleFlight
from .store import Artifact, BadCache, PackageStore, UsedSet
from .vulnerabilities import refuse_vulnerable
from .wheels import BadWheel

_DAY_SECONDS = 24 * 3600
_log = logging.getLogger(BUILD_LOG)


class NamedEnvironments:
    """The named environments of a package cache."""

    def __init__(self, store: PackageStore, fetcher: PackageFetcher) -> None:
        self._store = store
        self._fetcher = fetcher
        self._flights = SingleFlight()
        self._lock = threading.Lock()
        self._layers: dict[str, UsedSet] = {}
        """The files of environments in use, by the digest of their lock; kept as long as this process lives."""
        self._folder = store.root / "environments"
        self.records = EnvironmentRecords(self._folder)
        """The definitions, with the locks for this machine."""

    def choose(self, asked: DeclaredDependencies, language: str, policy: Policy, images: bool) -> str:
        """Return the built environment of this machine that has most of what a program asks for, else `HOST`. Blocks.

        Of several that have as many it is the one with the fewest packages, and then the first by name. Environments
        that the policy refuses are left out, and without `images` those with an OCI image.
        """
        installed = {one.name: one.version for one in of_environment(replace(policy, environment=HOST), None, language)}
        most = max(1, sum(one.applies() and one.is_met_by(installed) for one in asked.requirements))
        found = []
        for name in self.records.names():
            with contextlib.suppress(ActboxError, NotAllowed):  # one that cannot be read or used here, or is refused
                record = self.records.read(name)
                if record is None or record.definition.language != language or (record.definition.image and not images):
                    continue
                installed = {one.name: one.version for one in reversed(record.distributions)}
                python, platform = interpreter_of(record.definition, None)
                markers = markers_of(python.version)
                has = sum(one.applies(markers) and one.is_met_by(installed) for one in asked.requirements)
                fits = language != "python" or asked.runs_on(python.version)
                if has >= most and fits and record.platform == platform and self._is_fetched(record):
                    _check(record, policy.packages or PackagePolicy())
                    found.append((-has, len(record.locked), name))
        return min(found)[2] if found else HOST

    def with_python(self, declared: DeclaredDependencies) -> list[str]:
        """Return the environments of this machine whose Python a script works with, each with its version. Blocks."""
        found = []
        for name in self.records.names():
            with contextlib.suppress(ActboxError):  # one that cannot be read or used here
                record = self.records.read(name)
                if record is not None and record.definition.language == "python":
                    version = interpreter_of(record.definition, None)[0].version
                    found += [f"{name} ({version})"] if declared.runs_on(version) else []
        return found

    def image(self, policy: Policy) -> str:
        """Return the OCI image of a policy's environment, "" if it names none. Blocks."""
        definition = self._definition(policy)
        return definition.image if definition is not None else ""

    async def layer(self, policy: Policy, target: Target | None, language: str) -> Layer:
        """Return the files of a policy's environment; see `actbox.sandbox.dependencies.Provider`."""
        rules = policy.packages or PackagePolicy()
        name = policy.environment_name
        remedy = ""
        try:
            definition = await run_blocking(self._definition, policy)
            if definition is None:
                raise SandboxUnavailable(self.records.unknown(name, language))
            if definition.language != language:
                engine = "node" if definition.language == JAVASCRIPT else "linux"
                raise SandboxUnavailable(
                    f"the environment {name!r} is for {definition.language}, and this sandbox runs {language}; the"
                    f" {engine} engine has it"
                )
            record = await run_blocking(self._records_for(target).read, name)
            is_known = record is not None and record.definition == definition
            if record is not None and not is_known and record.is_reviewed:
                raise SandboxUnavailable(
                    f"the environment {name!r} is defined with other packages here, which {record.reviewed_by} has"
                    f" reviewed: give this one another name, or remove that one by `actbox environment rm {name}`"
                )
            if target is None:  # the command builds for this machine
                remedy = f"`{_command(definition, is_known)}`"
            python, platform = await run_blocking(interpreter_of, definition, target)
            fits = is_known and record is not None and record.platform == platform
            tag = cache_tag(python.version, target)
            artifacts = self._fetcher.found(record.locked, tag) if record and fits else ()
            if record is None or not fits or len(artifacts) != len(record.locked):
                if rules.offline:
                    raise SandboxUnavailable(
                        f"the environment {name!r} is not built, and the policy is offline:"
                        f" {f'run {remedy}' if remedy else 'open a sandbox with it once'} with a network"
                    )
                own = rules_of(rules, language), index_of(rules, language), rules.install_seconds, rules.vulnerabilities
                build = partial(self.build, definition, rules, target=target)
                record = await self._flights.do((definition, target, *own), build)
                artifacts = self._fetcher.found(record.locked, tag)
            await run_blocking(_check, record, rules, artifacts)
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
            again = f"; {remedy} tries again" if remedy else ""
            raise SandboxUnavailable(f"the environment {name!r} cannot be built: {error}{again}") from None

    async def build(
        self,
        definition: Environment,
        rules: PackagePolicy,
        *,
        refresh: bool = False,
        target: Target | None = None,
        progress: Callable[[str], None] = _log.info,
    ) -> EnvironmentRecord:
        """Lock an environment, unless its lock fits or with `refresh`, fetch its files, and return its record.

        `progress` is called with a phrase before each step.
        Raises `NotAllowed`, `CannotResolve`, `BadWheel`, `BadTarball`, `BadCache`, `OSError` and `InvalidValue`.
        """
        language = definition.language
        if language not in ("python", JAVASCRIPT):
            raise InvalidValue(f"the environment {definition.name!r} is for {language}: only Python and Node have some")
        python, platform = await run_blocking(interpreter_of, definition, target)
        asked = requirements_of(definition.packages, language, python.version)
        records = self._records_for(target)
        record = await run_blocking(records.read, definition.name)
        is_locked = record is not None and record.definition == definition and record.platform == platform
        built = [one for one in record.locked if one.source] if record else []
        is_locked = is_locked and len(self._fetcher.found(built)) == len(built)  # nobody can fetch these
        index, judge = index_of(rules, language), judge_of(rules, language)
        job = PackageJob(asked, {}, rules, index, judge, python.version, language, None, target, python.path)
        async with self._fetcher.installer(job) as installer:
            if record is None or not is_locked or refresh:
                progress(f"{definition.name}: choosing versions for {len(asked)} requirements")
                locked = await self._fetcher.locked(installer, job) if asked else ()
                record = EnvironmentRecord(
                    definition=definition, platform=platform, locked=locked, locked_at=time.time()
                )
            job.check_hashes(record.locked)
            refuse(job.judged([(one, one.requires) for one in record.locked]))
            await run_blocking(refuse_vulnerable, record.locked, rules, language)
            if rules.vulnerabilities is not None:
                record = replace(record, checked_at=time.time(), checked=rules.vulnerabilities)
            record = replace(
                record, locked=await self._fetcher.fetch(installer, record.locked, job.cache_tag, progress)
            )
        progress(f"{definition.name}: checking the hashes of {len(record.locked)} packages")
        artifacts = self._fetcher.found(record.locked, job.cache_tag)
        await run_blocking(refuse_copies, artifacts, rules_of(rules, language), language)
        used = await run_blocking(self._use, record, artifacts)
        used.close()
        record = replace(record, built_at=time.time())
        await run_blocking(records.write, record)
        return record

    def remove(self, name: str) -> bool:
        """Remove an environment with all its locks; return whether there was one. Blocks.

        The files that programs use meanwhile stay for them.
        """
        removed = [records.remove(name) for records in self._all_records()]
        return any(removed)

    def review(self, name: str, by: str) -> list[EnvironmentRecord]:
        """Record that somebody has reviewed all locks of an environment; return its records. Blocks."""
        reviewed = []
        for records in self._all_records():
            if (record := records.read(name)) is not None:
                reviewed.append(
                    replace(record, reviewed_at=time.time(), reviewed_by=by, reviewed_lock=record.lock_sha256)
                )
                records.write(reviewed[-1])
        return reviewed

    def hashes(self) -> set[str]:
        """Return the SHA-256 hashes of the files of all locks, for this machine and for others. Blocks."""
        found = set()
        for records in self._all_records():
            for name in records.names():
                with contextlib.suppress(InvalidValue):  # a record that cannot be read, which must be built anew
                    if (record := records.read(name)) is not None:
                        found |= {one.sha256 for one in record.locked}
        return found

    def _is_fetched(self, record: EnvironmentRecord) -> bool:
        return len(self._fetcher.found(record.locked)) == len(record.locked)

    def _definition(self, policy: Policy) -> Environment | None:
        if isinstance(policy.environment, Environment):
            return policy.environment
        record = self.records.read(policy.environment)
        return record.definition if record is not None else None

    def _records_for(self, target: Target | None) -> EnvironmentRecords:
        """Return the records of locks for a target: each has its own, below the records for this machine."""
        if target is None:
            return self.records
        return EnvironmentRecords(self._folder / hashlib.sha256(str(target).encode()).hexdigest()[:24])

    def _all_records(self) -> Iterator[EnvironmentRecords]:
        yield self.records
        for folder in sorted(self._folder.glob("*/")):
            yield EnvironmentRecords(folder)

    def _in_use(self, record: EnvironmentRecord, artifacts: tuple[Artifact, ...]) -> Path:
        used = self._use(record, artifacts)
        with self._lock:
            kept = self._layers.setdefault(record.lock_sha256, used)
        if kept is not used:
            used.close()
        return kept.path

    def _use(self, record: EnvironmentRecord, artifacts: tuple[Artifact, ...]) -> UsedSet:
        for locked, artifact in zip(record.locked, artifacts, strict=True):
            if (locked.name, locked.version) != (artifact.name, artifact.version):
                raise BadCache(
                    f"its lock says {locked.name}=={locked.version}, and the package cache has another file there: lock"
                    f" it anew by `actbox environment build {record.definition.name} --refresh`"
                )
        return self._store.use(artifacts, [one.place for one in record.locked])


def _command(definition: Environment, is_known: bool) -> str:
    """Return the command that builds an environment, with all that defines it unless its record does (`is_known`)."""
    words = ["actbox", "environment", "build", definition.name]
    if definition.image and not is_known:
        return f"{shlex.join(words)} --config FILE"
    if not is_known:
        words += [word for package in definition.packages for word in ("--with", package)]
        words += ["--python", definition.python] if definition.python else []
        words += ["--language", definition.language] if definition.language != "python" else []
    return shlex.join(words)


def _check(record: EnvironmentRecord, rules: PackagePolicy, artifacts: Iterable[Artifact] = ()) -> None:
    """Raise `SandboxUnavailable` for a lock with a blocked or vulnerable package, and for one that nobody has reviewed.

    `artifacts` are its files, in which copies of blocked packages are looked for. Blocks.
    """
    name, language = record.definition.name, record.definition.language
    packages = {one.name: ResolvedPackage(name=one.name, version=one.version) for one in record.locked}
    has = {one.name: one.version for one in packages.values()}
    judge = PackageJudge(rules_of(rules, language), language=language, installed=has)
    try:
        refuse(judge.judge_resolved((), packages.values()))
        refuse_vulnerable(record.locked, rules, language)
        refuse_copies(artifacts, rules_of(rules, language), language)
    except NotAllowed as refusal:
        raise SandboxUnavailable(f"the environment {name!r} cannot be used: {refusal}") from None
    days = rules.review_days
    if days is not None and not (record.is_reviewed and time.time() - record.reviewed_at <= days * _DAY_SECONDS):
        raise SandboxUnavailable(
            f"nobody has reviewed the environment {name!r} in the last {days:g} days: look at it with"
            f" `actbox environment show {name}`, and then run `actbox environment review {name} --by WHO`"
        )
