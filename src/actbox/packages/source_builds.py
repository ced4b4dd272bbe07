"""Builds wheels from source distributions, in a sandbox without a network.

The build system's interface: https://packaging.python.org/specifications/pyproject-toml/ and PEP 517.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from actbox.core.errors import ErrorKind, InvalidValue
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.core.packages import CLEAN
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.opening import open_sandbox

from .addressed_sources import export, index_at, is_git, subdirectory_of
from .addresses import revision_of
from .asking import refuse
from .environments import platform_of
from .index import Reach
from .interpreters import find_python
from .locked_files import Locked
from .package_job import PackageJob
from .requirements import Requirement, parse_requirement, read_requirements
from .resolving import CannotResolve, Installer, NeedsSource, described, fitting_tags
from .store import Artifact, PackageStore, UsedSet
from .vulnerabilities import refuse_vulnerable
from .wheels import BadWheel, open_fetched

_SOURCE, _TOOLS = "/opt/source", "/opt/requirements"
_SIZES = Limits(memory_mib=4096, workspace_mib=1024, file_mib=512, processes=256, cpu_seconds=3600)
_MOST_SAID = 2000
_LEGACY = ["setuptools>=40.8.0"]  # what PEP 517 and PEP 518 demand of a project that names nothing
_EPOCH = "315532800"  # 1980, the first year of zip: a build that heeds it makes the same wheel each time
# Both run in sandboxes, so an archive that lies about its paths harms nothing.
_READ = """
import tarfile, tomllib, zipfile
def requirements():
    if filename.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            named = {name.partition("/")[2]: name for name in archive.namelist()}
            text = archive.read(named[project]) if project in named else b""
    else:
        with tarfile.open(path) as archive:
            named = {one.name.partition("/")[2]: one for one in archive if one.isfile()}
            text = archive.extractfile(named[project]).read() if project in named else b""
    return tomllib.loads(text.decode()).get("build-system", {}).get("requires", legacy)
requirements()
"""
_BUILD = """
import importlib, os, sys, tarfile, tomllib, zipfile
if path.endswith(".zip"):
    with zipfile.ZipFile(path) as archive:
        archive.extractall("source")
else:
    with tarfile.open(path) as archive:
        archive.extractall("source", filter="data")
(top,) = os.listdir("source")
os.makedirs("made")
made = os.path.abspath("made")
os.chdir(os.path.join("source", top, subdirectory))
system = {}
if os.path.exists("pyproject.toml"):
    with open("pyproject.toml", "rb") as file:
        system = tomllib.load(file).get("build-system", {})
sys.path[:0] = [*map(os.path.abspath, system.get("backend-path", [])), tools]
module, _, attribute = system.get("build-backend", "setuptools.build_meta:__legacy__").partition(":")
backend = importlib.import_module(module)
for part in filter(None, attribute.split(".")):
    backend = getattr(backend, part)
hook = getattr(backend, "get_requires_for_build_wheel", list)
needed = [str(one) for one in hook() if str(one) not in had]
{"needed": needed} if needed else {"wheel": str(backend.build_wheel(made))}
"""


class Fetcher(Protocol):
    """The part of `PackageFetcher` that builds need."""

    def installer(self, job: PackageJob, reached: Reach | None = None) -> AbstractAsyncContextManager[Installer]:
        """Open the sandbox that resolves and fetches for a job."""

    async def fetch(self, installer: Installer, locked: Sequence[Locked], tag: str) -> tuple[Locked, ...]:
        """Put the files that the cache lacks into it, and return them all with their SHA-256."""

    def found(self, locked: Sequence[Locked], tag: str = "") -> tuple[Artifact, ...]:
        """Return those files that the cache has."""


class SourceBuilder:
    """Builds source distributions, and remembers which wheel came of each as long as the package cache has it."""

    def __init__(self, store: PackageStore, fetcher: Fetcher) -> None:
        self._store = store
        self._fetcher = fetcher

    def key(self, job: PackageJob, source: Locked) -> str:
        """Return a digest of all that decides which wheel is built."""
        parts = [source.name, source.version, source.origin, source.sha256, platform_of(job.target, job.python)]
        return "build-" + hashlib.sha256("\n".join([*parts, str(job.rules.python)]).encode()).hexdigest()

    async def build(self, job: PackageJob, source: Locked) -> Locked:
        """Return the wheel of a source distribution, which is in the cache then. Raises `CannotResolve` and `OSError`.

        Packages that the build requires are wheels of the index, and judged by what they are built for.
        """
        start = time.monotonic()
        is_fixed = bool(source.sha256) or is_git(source.url)  # else its content may have changed since
        if is_fixed and (kept := await run_blocking(self._kept, job, source)):
            return kept
        if job.rules.offline:
            raise CannotResolve(f"{source.filename} cannot be had offline: the package cache has no wheel of it")
        tools = replace(job, asked=(), installed={}, built=(), python=find_python("").version, target=None)
        try:
            with self._store.temporary.made() as folder:
                if source.source:
                    at, reached = index_at(source.url)
                    async with self._fetcher.installer(replace(tools, index=at), reached) as installer:
                        required = await self._fetched(installer, source, folder)
                if not source.is_source:
                    return await run_blocking(self._added, job, source, folder / source.filename)
                tools = replace(tools, spent=job.spent + time.monotonic() - start)
                async with self._fetcher.installer(tools) as installer:
                    if not source.source:
                        required = await self._fetched(installer, source, folder)
                    had: tuple[str, ...] = ()
                    while True:
                        used = await self._tools(installer, tools, source, (*required, *had))
                        try:
                            left = job.seconds - (time.monotonic() - start)
                            said, data = await _run(folder, used.path, source, had, left)
                        finally:
                            used.close()
                        if data is not None:
                            break
                        if had:
                            raise CannotResolve(f"it asks for {', '.join(said)} after it got {', '.join(had)}")
                        had = said
                wheel = folder / said[0]
                await run_blocking(wheel.write_bytes, data)
                built = await run_blocking(self._added, job, source, wheel)
        except (CannotResolve, BadWheel, InvalidValue) as error:
            raise CannotResolve(f"{source.filename} cannot be built into a wheel: {error}") from None
        if is_fixed:
            await run_blocking(self._store.remember, self.key(job, source), asdict(built))
        return built

    def _kept(self, job: PackageJob, source: Locked) -> Locked | None:
        try:
            said = self._store.recall(self.key(job, source), job.rules.offline)
            built = Locked(**{**said, "requires": tuple(said["requires"])})
            artifact = self._store.find(built.sha256)
        except (TypeError, KeyError):
            return None
        return built if artifact and _is_of(source, artifact.name, artifact.version) else None

    async def _fetched(self, installer: Installer, source: Locked, folder: Path) -> list[str]:
        """Fetch a source distribution or a wheel into a directory, and return what its build requires."""
        if is_git(source.url):
            file = installer.folder / "archive"
            await export(installer, source.url, revision_of(source.source), installer.path_inside(file))
        else:
            (file,) = await installer.fetch([source])
            found = await run_blocking(_sha256_of, file)
            if source.sha256 and found != source.sha256:
                raise CannotResolve(f"it has the hash sha256:{found}, and is to have sha256:{source.sha256}")
        if file.is_symlink() or not file.is_file():
            raise CannotResolve("it is no file")
        required: object = []
        if source.is_source:
            project = f"{subdirectory_of(source.url)}/pyproject.toml".removeprefix("/")
            inputs = {"path": installer.path_inside(file), "filename": source.filename, "legacy": _LEGACY}
            required = await installer.evaluate(
                _READ, {**inputs, "project": project}, "its pyproject.toml cannot be read"
            )
        os.replace(file, folder / source.filename)
        return _texts(required)

    async def _tools(self, installer: Installer, tools: PackageJob, source: Locked, required: Sequence[str]) -> UsedSet:
        """Return the packages that a build requires, unpacked and in use."""
        asked = read_requirements(required)
        if addressed := [str(one) for one in asked if one.address]:
            raise CannotResolve(f"its build requires {addressed[0]}, and only packages of the index are had for that")
        try:
            locked = await installer.resolve([str(one) for one in asked]) if asked else ()
        except NeedsSource as error:
            raise CannotResolve(f"its build requires {error.name}, which has no wheel that fits") from None
        early = [(source, tuple(one.name for one in locked)), *((one, ()) for one in locked)]
        refuse(tools.judged(early, [_requirement(source)]))
        await run_blocking(refuse_vulnerable, locked, tools.rules, tools.language)
        locked = await self._fetcher.fetch(installer, locked, tools.cache_tag)
        artifacts = self._fetcher.found(locked, tools.cache_tag)
        names = tuple(one.normalized for one in asked)
        found: list[tuple[Artifact | Locked, tuple[str, ...]]] = [
            (source, names),
            *((one, one.requires) for one in artifacts),
        ]
        _, *others = tools.judged(found, [_requirement(source)])
        refuse(others, nobody_answers=True)
        return await run_blocking(self._store.use, artifacts)

    def _added(self, job: PackageJob, source: Locked, wheel: Path) -> Locked:
        """Put a wheel that a build has made into the cache, if it is one of that package that fits."""
        try:
            name, version, _, tags = parse_wheel_filename(wheel.name)
        except InvalidWheelFilename as error:
            raise CannotResolve(str(error)) from None
        if not _is_of(source, name, str(version)):
            raise CannotResolve(f"the result is {name} {version}")
        # This machine's libraries are none of the target's.
        is_foreign = job.target is not None and source.is_source and any(one.platform != "any" for one in tags)
        if is_foreign or tags.isdisjoint(fitting_tags(job.python, job.target)):
            raise CannotResolve(f"the result {wheel.name} does not fit {platform_of(job.target, job.python)}")
        sha256 = _sha256_of(wheel)
        artifact = self._store.add(wheel, wheel.name, sha256)
        made = Locked(artifact.name, artifact.version, "", wheel.name, sha256, wheel.stat().st_size, source.released)
        headers = self._store.metadata(artifact).decode("utf-8", "replace").replace("\r\n", "\n").partition("\n\n")[0]
        return replace(described(made, headers), source=source.origin)


async def _run(
    folder: Path, tools: Path, source: Locked, had: Sequence[str], seconds: float
) -> tuple[tuple[str, ...], bytes | None]:
    """Run a build; return the name of the wheel and its content, or the requirements that it lacks and `None`."""
    if seconds <= 0:
        raise CannotResolve("no time is left for it (PackagePolicy.install_seconds)")
    policy = Policy(
        environment=CLEAN,
        limits=replace(_SIZES, wall_seconds=seconds),
        mounts=(FileMount(folder, _SOURCE, "ro"), FileMount(tools, _TOOLS, "ro")),
        variables={"PYTHONPATH": f"{_TOOLS}/site", "SOURCE_DATE_EPOCH": _EPOCH},
    )
    inputs = {"path": f"{_SOURCE}/{source.filename}", "tools": f"{_TOOLS}/site", "had": [*had]}
    inputs["subdirectory"] = subdirectory_of(source.url)
    async with open_sandbox("linux", policy=policy) as box:
        done = await box.run(Program(_BUILD, inputs=inputs))
        if not done.success:
            assert done.error is not None
            if done.error.kind is ErrorKind.TIMEOUT:
                raise CannotResolve(
                    f"its build has not ended within the {seconds:.0f} s that were left (install_seconds)"
                )
            printed = " ".join(f"{done.stdout} {done.stderr}".split())[-_MOST_SAID:]
            raise CannotResolve(f"its build fails: {done.error.message} {printed}".rstrip())
        said: Any = done.value
        if isinstance(said, dict) and (needed := _texts(said.get("needed", []))):
            return tuple(needed), None
        name = said.get("wheel") if isinstance(said, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"[\w.+!-]{1,200}\.whl", name, re.ASCII):
            raise CannotResolve("its build has made no wheel")
        try:
            return (name,), await box.read_file(f"made/{name}")
        except (OSError, InvalidValue):
            raise CannotResolve(f"its build has made no {name}, as it says") from None


def _requirement(source: Locked) -> Requirement:
    text = f"{source.name} @ {source.url}" if source.source else f"{source.name}=={source.version}"
    return parse_requirement(text)


def _is_of(source: Locked, name: str, version: str) -> bool:
    try:
        same = not source.version or Version(version) == Version(source.version)
    except InvalidVersion:
        return False
    return same and canonicalize_name(name) == canonicalize_name(source.name)


def _texts(given: object) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise CannotResolve("its pyproject.toml has something else than a list of requirements")
    return given


def _sha256_of(path: Path) -> str:
    with open_fetched(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
