"""Gets the files of a job into the package cache: resolves it, has its packages approved, and fetches what it lacks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, replace

from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.tools import Approver

from .artifacts import DAMAGED
from .asking import PackageApprovals, Tell, refuse
from .copies import refuse_copies
from .interpreters import find_uv
from .languages import JAVASCRIPT, rules_of
from .npm_resolving import NpmInstaller, find_npm
from .package_job import PackageJob
from .resolving import CannotResolve, Installer, Locked
from .rules import Judgement
from .single_flight import SingleFlight
from .store import KEEP_SECONDS, Artifact, BadCache, PackageStore
from .vulnerabilities import refuse_vulnerable

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

    async def artifacts(
        self, job: PackageJob, approver: Approver | None, program: Program, tell: Tell
    ) -> tuple[tuple[Locked, ...], tuple[Artifact, ...], tuple[Judgement, ...]]:
        """Return the files for a job, once they are approved, unpacked, and how each was judged.

        Raises `NotAllowed`, `CannotResolve`, `BadWheel`, `BadTarball`, `BadCache` and `OSError`.
        """
        limits = job.rules.offline, job.rules.install_seconds
        rules = job.rules.python, job.rules.nodejs
        locked = await self._flights.do(("resolve", job.key, *rules, *limits), lambda: self._resolved(job))
        job.check_hashes(locked)
        await run_blocking(refuse_vulnerable, locked, job.rules, job.language)
        approved: frozenset[str] = frozenset()
        if job.may_ask(locked):
            by_name: dict[str, list[Locked]] = {}
            for file in {one.sha256: one for one in locked}.values():
                by_name.setdefault(file.name, []).append(file)
            judgements = job.judged([(one, one.requires) for one in locked])
            refuse(judgements, nobody_answers=False)
            approved = await self._approvals.ask(judgements, by_name, job.rules, approver, program, tell)
        artifacts = self.found(locked)
        if len(artifacts) != len(locked):
            hashes = frozenset(one.digest for one in locked)
            await self._flights.do(("fetch", hashes, job.index, *limits), lambda: self._fetched(job, locked))
            artifacts = self.found(locked)
            if len(artifacts) != len(locked):
                raise BadCache(f"{self._store.root} loses what is put into it: find out who writes there")
        # Each wheel's own metadata counts in the end, whatever the index has said of it.
        judgements = job.judged([(one, one.requires) for one in artifacts])
        refuse((one for one in judgements if one.name not in approved), nobody_answers=True)
        await run_blocking(refuse_copies, artifacts, rules_of(job.rules, job.language), job.language)
        return locked, artifacts, judgements

    def found(self, locked: Sequence[Locked]) -> tuple[Artifact, ...]:
        """Return those files that the cache has. Blocks."""
        found = [self._store.find(one.digest) for one in locked]
        return tuple(artifact for artifact in found if artifact)

    @contextlib.asynccontextmanager
    async def installer(self, job: PackageJob) -> AsyncIterator[Installer]:
        """Open the sandbox that resolves and fetches for a job. Raises `InvalidValue` and `SandboxUnavailable`."""
        with self._store.temporary.made() as folder:
            seconds = job.rules.install_seconds
            installer: Installer
            if job.language == JAVASCRIPT:
                kept = job.base.locked if job.base else ()
                installer = NpmInstaller(job.index, find_npm(), folder, seconds=seconds, kept=kept)
            else:
                installer = Installer(job.index, find_uv(), job.python, folder, seconds=seconds, target=job.target)
            async with installer:
                yield installer

    async def fetch(
        self, installer: Installer, locked: Sequence[Locked], progress: Callable[[str], None] = _log.debug
    ) -> tuple[Locked, ...]:
        """Put the files that the cache lacks into it, and return them all with their SHA-256.

        `progress` is called with a phrase before files are fetched.
        Raises `CannotResolve`, `BadWheel`, `BadTarball` and `OSError`.
        """
        if self._store.is_collection_due():
            await run_blocking(self._collect)
        async with self._alone(installer, [one.digest for one in self._missing(locked)]):
            return await self._fetch(installer, locked, progress)

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
        self, installer: Installer, locked: Sequence[Locked], progress: Callable[[str], None]
    ) -> tuple[Locked, ...]:
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
        found = ((one, self._store.find(one.digest)) for one in locked)
        return tuple(replace(one, sha256=artifact.sha256) if artifact else one for one, artifact in found)

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
        if locked is not None and (is_enough or not job.may_ask(locked)):
            return locked
        async with self.installer(job) as installer:
            if locked is None:
                locked = await installer.resolve(job.requirements, job.constraints)
                if job.language == "python":  # packages of npm are one tree with those of the environment
                    locked = tuple(one for one in locked if job.installed.get(one.name) != one.version)
            refuse(job.judged([(one, ()) for one in locked], ()))
            if job.may_ask(locked):
                locked = await installer.describe(locked)
            else:
                locked = await self.fetch(installer, locked)
        await run_blocking(self._keep, job.key, locked)
        return locked

    async def _fetched(self, job: PackageJob, locked: Sequence[Locked]) -> None:
        if job.rules.offline:
            raise CannotResolve(
                f"{', '.join(map(str, job.asked))} cannot be had offline: the package cache lacks files"
            )
        async with self.installer(job) as installer:
            await self.fetch(installer, locked)

    def _of_other_resolutions(self, job: PackageJob) -> tuple[Locked, ...] | None:
        """Return packages of Python that earlier resolutions had together and that meet a job, `None` if none do.

        Resolutions count if they were for the same environment and have all their files in the cache. Several are
        taken together where they agree in the versions of the packages that they share.
        """
        if job.language == JAVASCRIPT or any(one.extras or one.address for one in job.asked):
            return None
        earlier = [
            self._kept(path.stem, True) or () for path in self._store.resolutions.glob(f"{job.conditions}-*.json")
        ]
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
        path = self._store.resolutions / f"{key}.json"
        try:
            if not at_any_age and time.time() - path.stat().st_mtime > KEEP_SECONDS:
                return None
            found = json.loads(path.read_text("utf-8"))
            return tuple(Locked(**{**one, "requires": tuple(one["requires"])}) for one in found)
        except DAMAGED:
            return None

    def _keep(self, key: str, locked: Sequence[Locked]) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self._store.resolutions, delete=False) as file:
            json.dump([asdict(one) for one in locked], file)
        os.replace(file.name, self._store.resolutions / f"{key}.json")
