"""Gets the files of a job into the package cache: resolves it, has its packages approved, and fetches what it lacks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

from actbox.core.errors import ActboxError
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.tools import Approver

from .addressed_sources import commit_of, index_at, is_git, is_wheel, source_at
from .addresses import is_fixed, revision_of
from .artifacts import DAMAGED
from .asking import PackageApprovals, Tell, refuse
from .compiling import find_compiler
from .copies import refuse_copies
from .index import Reach
from .interpreters import find_uv
from .languages import JAVASCRIPT, rules_of
from .locked_files import Locked, StandIn
from .npm_resolving import NpmInstaller, find_npm
from .package_job import PackageJob
from .requirements import Requirement
from .resolving import CannotResolve, Installer, NeedsSource
from .rules import Judgement
from .single_flight import SingleFlight
from .source_builds import SourceBuilder
from .source_distributions import installed_stand_in, list_sources
from .store import Artifact, BadCache, PackageStore
from .vulnerabilities import refuse_vulnerable

_MOST_ROUNDS = 10
_NOT_BUILT = "source distributions are not built without PackagePolicy(source_builds=True)"
_WAIT_SECONDS = 0.05
_log = logging.getLogger("actbox")


class PackageFetcher:
    """Puts packages into the package cache of this process. Jobs that need the same wait for each other."""

    def __init__(self, store: PackageStore, collect: Callable[[], object]) -> None:
        """`collect` removes from the cache what is old. It blocks, and is called once a day."""
        self._store = store
        self._collect = collect
        self._approvals = PackageApprovals()
        self._flights = SingleFlight()
        self._builder = SourceBuilder(store, self)

    async def artifacts(
        self, job: PackageJob, approver: Approver | None, program: Program, tell: Tell
    ) -> tuple[tuple[Locked, ...], tuple[Artifact, ...], tuple[Judgement, ...]]:
        """Return the files for a job, once they are approved, unpacked, and how each was judged.

        Raises `NotAllowed`, `CannotResolve`, `BadWheel`, `BadTarball`, `BadCache` and `OSError`.
        """
        limits = job.rules.offline, job.rules.install_seconds, job.rules.source_builds
        approved: frozenset[str] = frozenset()
        answered: set[tuple[str, ...]] = set()
        for one in _addressed(job):
            # The address is the program's choice: nothing of it is asked for before somebody has approved it.
            source = _at_address(job, one)
            judgements = job.judged([(source, ())], [one])
            refuse(judgements)
            asking = (job.rules, approver, program, tell, answered)
            approved |= await self._approvals.ask(judgements, {source.name: [source]}, *asking)
            job = await self._built_at(job, one)
        for _ in range(_MOST_ROUNDS):
            start = time.monotonic()
            key = ("resolve", job.key, job.rules.python, job.rules.nodejs, *limits)
            locked = await self._flights.do(key, partial(self._resolved, job))
            job = replace(job, spent=job.spent + time.monotonic() - start)
            job.check_hashes(locked)
            await run_blocking(refuse_vulnerable, locked, job.rules, job.language)
            judgements = job.judged([(one, one.requires) for one in locked])
            if job.may_ask(locked):
                by_name: dict[str, list[Locked]] = {}
                for file in {one.sha256: one for one in locked}.values():
                    by_name.setdefault(file.name, []).append(file)
                refuse(judgements, nobody_answers=False)
                approved |= await self._approvals.ask(judgements, by_name, job.rules, approver, program, tell, answered)
            sources = [one for one in locked if one.is_source]
            if not sources:
                break
            refuse((one for one in judgements if one.name not in approved), nobody_answers=True)
            job = await self._with_built(job, sources)
        else:
            raise _never_settles(job)
        artifacts = self.found(locked, job.cache_tag)
        if len(artifacts) != len(locked):
            hashes = frozenset(one.digest for one in locked)
            await self._flights.do(("fetch", hashes, job.index, *limits), lambda: self._fetched(job, locked))
            artifacts = self.found(locked, job.cache_tag)
            if len(artifacts) != len(locked):
                raise BadCache(f"{self._store.root} loses what is put into it: find out who writes there")
        # Each wheel's own metadata counts in the end, whatever the index has said of it.
        judgements = job.judged([(one, one.requires) for one in artifacts])
        refuse((one for one in judgements if one.name not in approved), nobody_answers=True)
        await run_blocking(refuse_copies, artifacts, rules_of(job.rules, job.language), job.language)
        return locked, artifacts, judgements

    def found(self, locked: Sequence[Locked], tag: str = "") -> tuple[Artifact, ...]:
        """Return those files that the cache has, with the compiled modules for a cache tag. Blocks."""
        found = [self._store.find(one.digest, tag) for one in locked]
        return tuple(artifact for artifact in found if artifact)

    @contextlib.asynccontextmanager
    async def installer(self, job: PackageJob, reached: Reach | None = None) -> AsyncIterator[Installer]:
        """Open the sandbox that resolves and fetches for a job, from `reached` if not from its index.

        Raises `InvalidValue` and `SandboxUnavailable`.
        """
        with self._store.temporary.made() as folder:
            seconds = job.seconds
            installer: Installer
            if job.language == JAVASCRIPT:
                kept = job.base.locked if job.base else ()
                installer = NpmInstaller(job.index, find_npm(), folder, seconds=seconds, kept=kept)
            else:
                compiler = find_compiler(job.interpreter, job.python, job.target)
                installer = Installer(
                    job.index,
                    find_uv(),
                    job.python,
                    folder,
                    seconds=seconds,
                    target=job.target,
                    compiler=compiler,
                    reached=reached,
                )
            async with installer:
                yield installer

    async def fetch(
        self,
        installer: Installer,
        locked: Sequence[Locked],
        tag: str,
        progress: Callable[[str], None] = _log.debug,
    ) -> tuple[Locked, ...]:
        """Put the files that the cache lacks into it, compiled for a cache tag; return them all with their SHA-256.

        `progress` is called with a phrase before files are fetched and compiled.
        Raises `CannotResolve`, `BadWheel`, `BadTarball` and `OSError`.
        """
        if self._store.is_collection_due():
            try:
                await run_blocking(self._collect)
            except OSError as error:  # a program's packages do not depend on it
                _log.warning("the package cache is not collected: %s", error)
        async with self._alone(installer, [one.digest for one in self._missing(locked)]):
            return await self._fetch(installer, locked, tag, progress)

    def _missing(self, locked: Sequence[Locked]) -> list[Locked]:
        return list({one.digest: one for one in locked if self._store.find(one.digest) is None}.values())

    @contextlib.asynccontextmanager
    async def _alone(self, installer: Installer, digests: Sequence[str]) -> AsyncIterator[None]:
        """Hold a lock for each file that is to be fetched, so that processes fetch it once."""
        async with contextlib.AsyncExitStack() as stack:
            for digest in sorted(digests):
                while not stack.enter_context(self._store.fetching(digest)):
                    if installer.seconds_left <= _WAIT_SECONDS:
                        raise CannotResolve(
                            f"another process that fetches a package does not end in time (sha256:{digest})"
                        )
                    await asyncio.sleep(_WAIT_SECONDS)
            yield

    async def _fetch(
        self, installer: Installer, locked: Sequence[Locked], tag: str, progress: Callable[[str], None]
    ) -> tuple[Locked, ...]:
        lost = [one for one in locked if one.source and self._store.find(one.digest) is None]
        if lost:
            raise BadCache(f"{lost[0].filename} is gone from the package cache; try again, and it is built anew")
        missing = self._missing(locked)  # of which another process may have fetched some meanwhile
        if missing:
            mib = sum(max(one.size, 0) for one in missing) / 2**20
            progress(f"fetching {len(missing)} of {len(locked)} packages" + (f", {mib:,.1f} MiB" if mib else ""))
        files = await installer.fetch(missing) if missing else []
        for one, file in zip(missing, files, strict=True):
            if one.sha512:
                await run_blocking(self._store.add_tarball, file, one.filename, one.name, one.version, one.sha512)
            else:
                await run_blocking(self._store.add, file, one.filename, one.sha256)
        await self._compile(installer, locked, tag, progress)
        found = ((one, self._store.find(one.digest)) for one in locked)
        return tuple(replace(one, sha256=artifact.sha256) if artifact else one for one, artifact in found)

    async def _compile(
        self, installer: Installer, locked: Sequence[Locked], tag: str, progress: Callable[[str], None]
    ) -> None:
        """Put compiled modules into the cache for the packages that have none for a cache tag.

        Packages are right without them too, so a failure is logged only.
        """
        artifacts = [one for one in self.found(locked, tag) if one.compiled is None]
        sources = {key: one for artifact in artifacts for key, one in self._store.sources(artifact, tag).items()}
        if not sources or not tag:
            return
        progress(f"compiling {len(sources):,} modules")
        try:
            compiled = await installer.compile(sources)
            if compiled is not None:
                for artifact in artifacts:
                    await run_blocking(self._store.add_compiled, artifact, tag, compiled)
        except (ActboxError, OSError, ValueError) as error:
            _log.warning("packages are not compiled: %s", error)

    async def _resolved(self, job: PackageJob) -> tuple[Locked, ...]:
        """Return the files of a job, described if somebody may be asked about one, else also fetched."""
        locked = await run_blocking(self._kept, job.key, job.rules.offline)
        if locked is None and job.rules.offline:
            locked = await run_blocking(self._of_other_resolutions, job)
        if locked is None and job.rules.offline:
            raise CannotResolve(
                f"{', '.join(map(str, job.asked))} cannot be had offline: nothing in the package cache answers for it"
            )
        is_enough = job.rules.offline or all(one.is_described for one in locked or ())
        if locked is not None and any(one.source and self._store.find(one.digest) is None for one in locked):
            locked = None
        if locked is not None and (is_enough or not job.may_ask(locked)):
            return locked
        async with self.installer(job) as installer:
            if locked is None:
                locked = await self._chosen(installer, job)
                if job.language == "python":  # packages of npm are one tree with those of the environment
                    locked = tuple(one for one in locked if one.source or job.installed.get(one.name) != one.version)
            refuse(job.judged([(one, ()) for one in locked], ()))
            if job.may_ask(locked) or any(one.is_source for one in locked):
                unknown = [one for one in locked if not one.is_described]
                known = dict(zip(unknown, await installer.describe(unknown), strict=True)) if unknown else {}
                locked = tuple(known.get(one, one) for one in locked)
            else:
                locked = await self.fetch(installer, locked, job.cache_tag)
        await run_blocking(self._store.remember, job.key, [asdict(one) for one in locked])
        return locked

    async def _chosen(self, installer: Installer, job: PackageJob) -> tuple[Locked, ...]:
        """Return the files of a job; those with source distributions, if the policy admits them, are to be built."""
        if job.language == JAVASCRIPT:
            return await installer.resolve(job.requirements, job.constraints)
        stand_ins = await run_blocking(self._stand_ins, job.built)
        listed: set[str] = set()
        first: CannotResolve | None = None
        while True:
            try:
                return await installer.resolve(job.requirements, job.constraints, stand_ins)
            except NeedsSource as error:
                if not job.rules.source_builds:
                    raise CannotResolve(
                        f"{', '.join(map(str, job.asked))} cannot be had: {error.name} has no wheel that fits, and"
                        f" {_NOT_BUILT}; {error}"
                    ) from None
                if error.name in listed:
                    raise
                listed.add(error.name)
                known = {(one.name, one.version) for one in job.built}
                found = await list_sources(installer, job.index, error.name, job.python, job.target)
                stand_ins += [one for one in found if (one.file.name, one.file.version) not in known]
            except CannotResolve as error:
                if first is not None or not job.installed:
                    raise first or error from None
                # Installed packages need not be in the index. Their own requirements are met, wherever they came from.
                first, stand_ins = error, [*stand_ins, *map(installed_stand_in, job.installed.items())]

    def _stand_ins(self, built: Sequence[Locked]) -> list[StandIn]:
        return [StandIn(one, self._store.metadata(artifact)) for one in built for artifact in self.found([one])]

    async def _built_at(self, job: PackageJob, one: Requirement) -> PackageJob:
        """Return a job with the wheel of a requirement with an address: fetched, or built of what is there."""
        source = _at_address(job, one)
        if is_git(one.address) and not is_fixed(one.address):
            start = time.monotonic()
            at, reached = index_at(one.address)
            async with self.installer(replace(job, index=at), reached) as installer:
                source = source_at(one, await commit_of(installer, one.address))
            job = replace(job, spent=job.spent + time.monotonic() - start)
        return await self._with_built(job, [source])

    async def _with_built(self, job: PackageJob, sources: Sequence[Locked]) -> PackageJob:
        """Return a job with the wheels of source distributions, one built after the other."""
        if not job.rules.source_builds and any(
            one.is_source for one in sources
        ):  # an earlier resolution, under another policy
            raise CannotResolve(
                f"{', '.join(map(str, job.asked))} cannot be had: {sources[0].name} has no wheel that fits, and"
                f" {_NOT_BUILT}"
            )
        for source in sources:
            start = time.monotonic()
            key = self._builder.key(job, source)
            built = await self._flights.do(key, partial(self._builder.build, job, source))
            job = replace(job, built=(*job.built, built), spent=job.spent + time.monotonic() - start)
        return job

    async def locked(self, installer: Installer, job: PackageJob) -> tuple[Locked, ...]:
        """Return the files of a job, with wheels built for what has none; nobody is asked.

        Raises `NotAllowed` for a blocked package, `CannotResolve`, `BadCache` and `OSError`.
        """
        for one in _addressed(job):
            refuse(job.judged([(_at_address(job, one), ())], [one]))
            job = await self._built_at(job, one)
        for _ in range(_MOST_ROUNDS):
            locked = await self._chosen(installer, job)
            refuse(job.judged([(one, one.requires) for one in locked]))
            sources = [one for one in locked if one.is_source]
            if not sources:
                return locked
            job = await self._with_built(job, sources)
        raise _never_settles(job)

    async def _fetched(self, job: PackageJob, locked: Sequence[Locked]) -> None:
        if job.rules.offline:
            raise CannotResolve(
                f"{', '.join(map(str, job.asked))} cannot be had offline: the package cache lacks files"
            )
        async with self.installer(job) as installer:
            await self.fetch(installer, locked, job.cache_tag)

    def _of_other_resolutions(self, job: PackageJob) -> tuple[Locked, ...] | None:
        """Return packages of Python that earlier resolutions had together and that meet a job, `None` if none do.

        Resolutions count if they were for the same environment and have all their files in the cache. Several are
        taken together where they agree in the versions of the packages that they share.
        """
        if job.language == JAVASCRIPT or any(one.extras or one.address for one in job.asked):
            return None
        earlier = [self._kept(key, True) or () for key in self._store.resolutions(f"{job.conditions}-")]
        earlier = [found for found in earlier if found and len(self.found(found)) == len(found)]
        chosen: dict[str, Locked] = {}
        for one in job.asked:
            for found in ({file.name: file for file in each} for each in ((*chosen.values(),), *earlier)):
                fits = one.normalized in found and one.accepts(found[one.normalized].version)
                if fits and all(chosen.get(name, file).sha256 == file.sha256 for name, file in found.items()):
                    chosen |= found
                    break
            else:
                return None
        needed, waiting = set(), [one.normalized for one in job.asked]
        while waiting:
            if (name := waiting.pop()) in chosen and name not in needed:
                needed.add(name)
                waiting += [each for artifact in self.found([chosen[name]]) for each in artifact.requires]
        return tuple(file for name, file in chosen.items() if name in needed)

    def _kept(self, key: str, at_any_age: bool) -> tuple[Locked, ...] | None:
        """Return an earlier resolution that is young enough."""
        try:
            found = self._store.recall(key, at_any_age)
            return tuple(Locked(**{**one, "requires": tuple(one["requires"])}) for one in found)
        except DAMAGED:
            return None


def _addressed(job: PackageJob) -> list[Requirement]:
    """Return the requirements of a job with addresses."""
    return [one for one in job.asked if one.address and job.language != JAVASCRIPT]


def _at_address(job: PackageJob, one: Requirement) -> Locked:
    """Return what is at the address of a requirement, as far as it says that. Raises `CannotResolve`."""
    if not is_wheel(one.address) and not job.rules.source_builds:
        raise CannotResolve(f"{one} cannot be had: it is no wheel, and {_NOT_BUILT}")
    if is_git(one.address) and job.rules.offline and not is_fixed(one.address):
        raise CannotResolve(f"{one} cannot be had offline: its address names no commit")
    return source_at(one, revision_of(one.address) or "HEAD")


def _never_settles(job: PackageJob) -> CannotResolve:
    return CannotResolve(
        f"{', '.join(map(str, job.asked))} cannot be had: after {_MOST_ROUNDS} rounds of builds there are still source"
        " distributions to build"
    )
