"""Builds named environments, and gives sandboxes their files: for this machine, or for an interpreter elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.packages import Environment, PackagePolicy
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import Layer, Target

from .asking import NotAllowed, refuse
from .environments import EnvironmentRecord, EnvironmentRecords
from .fetching import PackageFetcher
from .languages import JAVASCRIPT, index_of, interpreter_of, judge_of, requirements_of
from .npm_archives import BadTarball
from .package_job import PackageJob
from .resolving import CannotResolve
from .single_flight import SingleFlight
from .store import Artifact, BadCache, PackageStore, UsedSet
from .vulnerabilities import refuse_vulnerable
from .wheels import BadWheel

_DAY_SECONDS = 24 * 3600
_log = logging.getLogger("actbox")


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

    def image(self, policy: Policy) -> str:
        """Return the OCI image of a policy's environment, "" if it names none. Blocks."""
        definition = self._definition(policy)
        return definition.image if definition is not None else ""

    async def layer(self, policy: Policy, target: Target | None, language: str) -> Layer:
        """Return the files of a policy's environment; see `actbox.sandbox.dependencies.Provider`."""
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
            artifacts = self._fetcher.found(record.locked) if record and record.definition == definition else ()
            is_here = record is not None and record.platform == platform
            if record is None or not is_here or not artifacts or len(artifacts) != len(record.locked):
                if rules.offline:
                    raise SandboxUnavailable(
                        f"the environment {name!r} is not built, and the policy is offline: run"
                        f" `actbox environment build {name}` with a network"
                    )
                record = await self._flights.do((name, target), lambda: self.build(definition, rules, target=target))
                artifacts = self._fetcher.found(record.locked)
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
        asked = requirements_of(definition.packages, language)
        records = self._records_for(target)
        record = await run_blocking(records.read, definition.name)
        is_locked = record is not None and record.definition == definition and record.platform == platform
        built = [one for one in record.locked if one.source] if record else []
        is_locked = is_locked and len(self._fetcher.found(built)) == len(built)  # nobody can fetch these
        index, judge = index_of(rules, language), judge_of(rules, language)
        job = PackageJob(asked, {}, rules, index, judge, python.version, language, target=target)
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
            record = replace(record, locked=await self._fetcher.fetch(installer, record.locked, progress))
        progress(f"{definition.name}: checking {len(record.locked)} packages")
        used = await run_blocking(self._use, record, self._fetcher.found(record.locked))
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
                reviewed.append(replace(record, reviewed_at=time.time(), reviewed_by=by))
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
        return self._store.use(artifacts, [one.place for one in record.locked])


def _check_review(record: EnvironmentRecord, rules: PackagePolicy) -> None:
    """Raise `SandboxUnavailable` for a lock that nobody has reviewed lately, if the policy demands it."""
    days = rules.review_days
    if days is not None and time.time() - record.reviewed_at > days * _DAY_SECONDS:
        name = record.definition.name
        raise SandboxUnavailable(
            f"nobody has reviewed the environment {name!r} in the last {days:g} days: look at it with"
            f" `actbox environment show {name}`, and then run `actbox environment review {name} --by WHO`"
        )
