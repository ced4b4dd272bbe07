"""Gives programs their packages: judges, resolves, fetches and unpacks them, and keeps them for the next program.

`provider()` is found by name by the sandboxes (`actbox.sandbox.dependencies`).
"""

from __future__ import annotations

import atexit
import errno
import functools
import os
import re
import tempfile
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue, SandboxUnavailable
from actbox.core.packages import HOST, Distribution, Distributions, PackagePolicy, PackageRules
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import Environs, Layer, NotProvided, Provided, Target, name_of, of_environment
from actbox.tools import Approver

from .addressed_sources import is_wheel
from .asking import NotAllowed, Tell, checked_approver, missed, refuse
from .fetching import PackageFetcher
from .first_uses import FirstUses
from .interpreters import find_python
from .languages import JAVASCRIPT, index_of, judge_of, language_of, packages_of, requirements_of, rules_of
from .named_environments import NamedEnvironments
from .npm_archives import BadTarball
from .package_job import PackageJob
from .private_directory import private_directory
from .project_files import BadScriptBlock, DeclaredDependencies, read_script, releases_of
from .requirements import Requirement, markers_of
from .resolving import CannotResolve
from .store import KEEP_SECONDS, MOST_BYTES, Artifact, BadCache, PackageStore, UsedSet
from .temporary_folders import TemporaryFolder
from .wheels import BadWheel

_READY_SECONDS = 3600
_MOST_READY = 256
_OF_INTERPRETER = re.compile(r"\bPython\b|\bABI\b")
"""Words of uv for packages that other interpreters may have."""
_BLOCK = '# /// script\n# dependencies = ["openpyxl>=3.1"]\n# ///'
_FEW_DEPENDENCIES = 20
_SHORT_CHARS = 10_000
"""The most dependencies, and characters of code, that are read without a thread."""

CACHE_VARIABLE = "ACTBOX_PACKAGE_CACHE"
"""The environment variable that names the package cache's directory."""


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
        self._fetcher = PackageFetcher(store, partial(self.collect, keep_seconds=KEEP_SECONDS, most_bytes=MOST_BYTES))
        self._ready: dict[Hashable, _Ready] = {}
        """The sets of packages that programs were given lately without an approver, by what was asked for."""
        self.environments = NamedEnvironments(store, self._fetcher)
        self.records = self.environments.records
        self.first_uses = FirstUses(store.root / "first-uses.jsonl")

    def package_of(self, module: str, policy: Policy, may_ask: bool, language: str = "python") -> str | ErrorInfo:
        """Return the package that brings a module, or the error of a program that misses it if it is not admitted.

        "" stands for a module that no package brings. With `may_ask` a package that needs an approval counts as
        admitted: its approver will be asked.
        """
        language = language_of(language)
        judge = judge_of(policy.packages or PackagePolicy(), language)
        judgements = [judge.judge(requirement) for requirement in packages_of(module, language)]
        admitted = [one for one in judgements if not one.demand.refused and (may_ask or not one.demand.asks)]
        if admitted:
            return min(admitted, key=lambda one: one.demand.asks).name
        return missed(module, judgements) if judgements else ""

    def choose(self, program: Program, policy: Policy, images: bool) -> str:
        """Return the name of the environment that has most of what a program asks for; see `NamedEnvironments`. Blocks.

        Raises `InvalidValue` for a requirement that cannot be read.
        """
        try:
            asked = _asked_by(program)
        except BadScriptBlock:  # its run says so
            return HOST
        return self.environments.choose(asked, language_of(program.language), policy, images)

    def image(self, policy: Policy) -> str:
        """Return the OCI image of a policy's named environment, "" if it names none. Blocks."""
        return self.environments.image(policy)

    async def layer(self, policy: Policy, target: Target | None = None, language: str = "python") -> Layer:
        """Return the files of a policy's named environment for a language; build them first if need be.

        They are for the environment's own interpreter, or for `target` if it is given.
        Raises `SandboxUnavailable` if there is no such environment, or it cannot be built, and `InvalidValue`.
        """
        return await self.environments.layer(policy, target, language)

    def collect(self, *, keep_seconds: float, most_bytes: int) -> int:
        """Remove from the cache what nobody has used for so long, and the oldest beyond a size; return the bytes freed.

        Packages of named environments stay, and so does what is in use. Blocks.
        """
        kept = self.environments.hashes()
        return self._store.collect(keep_seconds=keep_seconds, most_bytes=most_bytes, kept=kept)

    def contents(self) -> dict[str, tuple[int, float]]:
        """Return the wheels of the cache by their hash: the size in bytes, and when each was used last. Blocks."""
        return self._store.contents()

    @property
    def cache(self) -> Path:
        """The directory of the package cache."""
        return self._store.root

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
        version = (layer.version if layer else "") or find_python("").version
        try:
            is_short = len(program.dependencies) <= _FEW_DEPENDENCIES and len(program.code) <= _SHORT_CHARS
            of = layer.version if layer else ""
            declared = _asked_by(program, of) if is_short else await run_blocking(_asked_by, program, of)
        except BadScriptBlock as error:
            raise NotProvided(_unreadable(error), program, engine) from None
        if language == "python" and not declared.runs_on(version):
            fitting = await run_blocking(self.environments.with_python, declared)
            raise NotProvided(_other_python(declared, name_of(policy, layer), version, fitting), program, engine)
        asked = declared.requirements
        try:
            environs = partial(of_environment, policy, layer, language)
            # Of the versions of a package of npm, the outermost counts; of Python's, that of the session.
            installed = {one.name: one.version for one in (*reversed(environs()), *had)}
            markers = markers_of(layer.version if layer else "")
            lacking = tuple(one for one in asked if one.applies(markers) and not one.is_met_by(installed))
            if not lacking:
                return Environs(name_of(policy, layer), Distributions((), environs), warnings=declared.warnings)
            rules = policy.packages or PackagePolicy()
            approver = checked_approver(rules.approver) or approver
            target, folder, path = (layer.target, layer.folder, layer.python) if layer else (None, "", "")
            index, own_rules = index_of(rules, language), rules_of(rules, language)
            platform = (language, version, target, folder)
            conditions = (id(own_rules), rules.offline, rules.source_builds, rules.vulnerabilities, index)
            kind = (lacking, frozenset(installed.items()), platform, conditions)
            found = await self._at_hand(kind)
            if found is None:
                base = None
                if language == JAVASCRIPT and layer is not None:
                    base = await run_blocking(self.records.read, policy.environment_name)
                judge = judge_of(rules, language, installed)
                job = PackageJob(lacking, installed, rules, index, judge, version, language, base, target, path)
                found = await self._installed(job, kind, approver, program, tell)
            ready, used = found
            return _Provided(
                environment=name_of(policy, layer),
                distributions=Distributions(ready.distributions, environs),
                folder=used.path,
                warnings=(*declared.warnings, *ready.warnings),
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
        self, job: PackageJob, kind: Hashable, approver: Approver | None, program: Program, tell: Tell
    ) -> tuple[_Ready, UsedSet]:
        """Return the packages of a job, approved and installed, in use; keep them for the next job of its kind."""
        warnings = refuse(map(job.judge.judge, job.asked), nobody_answers=approver is None)
        for last in (False, True):
            locked, artifacts, judgements = await self._fetcher.artifacts(job, approver, program, tell)
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
        notes += tuple(
            f"{one.name} {one.version} was built here from {one.source}"
            for one in locked
            if one.source and not is_wheel(one.source)
        )
        until = time.monotonic() + _READY_SECONDS
        rules = rules_of(job.rules, job.language)
        ready = _Ready(artifacts, places, distributions, (*warnings, *notes), rules, until)
        if job.rules.vulnerabilities is None and not any(one.demand.asks for one in judgements):
            if len(self._ready) >= _MOST_READY:
                self._ready.clear()
            self._ready[kind] = ready
        return ready, used

    def new_session_folder(self) -> TemporaryFolder:
        """Make an empty directory for the packages of a session, on the file system of the package cache. Blocks."""
        return self._store.temporary.make("session-")


@functools.cache
def provider(cache: str | None = None) -> PackageProvider:
    """Return the provider of this process for a package cache; see `PackagePolicy.cache`. Raises `InvalidValue`."""
    if cache == "":
        folder = tempfile.TemporaryDirectory(prefix="actbox-packages-")
        atexit.register(folder.cleanup)
        return PackageProvider(PackageStore(Path(folder.name)))
    if cache is not None:
        return PackageProvider(PackageStore(private_directory(cache, "PackagePolicy.cache")))
    named = os.environ.get(CACHE_VARIABLE)
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return PackageProvider(PackageStore(Path(named) if named else user / "actbox" / "wheels"))


def _asked_by(program: Program, python: str = "") -> DeclaredDependencies:
    """Return what a program asks for, by its field and by a script block. Raises `InvalidValue`.

    `python` is the version of Python that it will have, "" for this one.
    """
    language = language_of(program.language)
    script = DeclaredDependencies()
    if language == "python":
        script = read_script(program.code, markers=markers_of(python))
    return replace(script, requirements=_read(program.dependencies, language, python) + script.requirements)


@functools.lru_cache(maxsize=256)
def _read(dependencies: tuple[str, ...], language: str, python: str) -> tuple[Requirement, ...]:
    return requirements_of(dependencies, language, python)


def _failure(error: Exception, asked: Sequence[Requirement], root: Path) -> ErrorInfo:
    """Return the error of a program whose packages cannot be installed."""
    names = ", ".join(map(str, asked))
    message = str(error) if isinstance(error, CannotResolve) else f"{names} cannot be installed: {error}"
    if isinstance(error, SandboxUnavailable):
        return ErrorInfo(kind=ErrorKind.SANDBOX, type=type(error).__name__, message=message)
    hint = ""
    if isinstance(error, (CannotResolve, BadWheel, BadTarball)):
        hint = "do without it, or ask for another version of it"
        if _OF_INTERPRETER.search(message):
            hint += ". An environment with another interpreter may have it, such as Environment(python='3.12')"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = f"make room in {root}, or name another directory by {CACHE_VARIABLE}"
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type=type(error).__name__, message=message, hint=hint)


def _unreadable(error: BadScriptBlock) -> ErrorInfo:
    """Return the error of a program whose script block cannot be read."""
    hint = f"correct the block and send the whole program again; it looks like this:\n{_BLOCK}"
    return ErrorInfo(kind=ErrorKind.SYNTAX, type=type(error).__name__, message=str(error), line=error.line, hint=hint)


def _other_python(declared: DeclaredDependencies, environment: str, version: str, fitting: Sequence[str]) -> ErrorInfo:
    """Return the error of a program whose `requires-python` an environment does not meet; `fitting` are others."""
    has = (
        f"Environments that have it: {', '.join(fitting)}"
        if fitting
        else "No named environment has it; `actbox environment build NAME --python VERSION` makes one"
    )
    there = releases_of(version)[0]
    return ErrorInfo(
        kind=ErrorKind.UNSUPPORTED,
        message=f"the program requires Python {declared.python}; the environment {environment!r} has {there}",
        hint=f"write for Python {version} and change requires-python. {has}",
    )
