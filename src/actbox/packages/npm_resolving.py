"""Resolves requirements of JavaScript to packages with hashes, by npm in a sandbox whose only way out is the registry.

npm resolves and locks there, and installs nothing: files are fetched, checked and unpacked as those of Python are.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from actbox.core.errors import InvalidValue
from actbox.core.mounts import FileMount
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.engines.linux.interpreter import environment_folders
from actbox.sandbox.engines.node.binary import find_node

from .index import Index, find_index
from .locked_files import Locked
from .npm_archives import sha256_of_tarball
from .npm_lock import dependencies_of, npm_lock, read_npm_lock
from .resolving import CannotResolve, Installer

DEFAULT_REGISTRY = "https://registry.npmjs.org/"

_OPTIONS = (
    *("--package-lock-only", "--ignore-scripts", "--lockfile-version=3", "--omit-lockfile-registry-resolved=false"),
    *("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--logs-max=0", "--cache=/tmp/npm"),
    # One retry is enough to tell a registry that is down from one that hesitates.
    *("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=1000"),
    # Files that do not exist, so that no settings count but these.
    *("--userconfig=/tmp/npm-user", "--globalconfig=/tmp/npm-global"),
)
# The value is the time of upload of each package, as the registry's page of the package has it.
_ADVICE = re.compile(r"code E\d+ (\d+ )*|In most cases, you or one .*? have access to\. |Log files were not .*?=0 ")
"""Words of npm that say nothing about this failure."""
_TIMES = """
import json
def released(number, page):
    fetch(number, urls[number])
    with urllib.request.urlopen(page, timeout=60) as answer:
        return str(json.load(answer).get("time", {}).get(versions[number], ""))[:40]
with ThreadPoolExecutor(4) as pool:
    times = list(pool.map(released, range(len(urls)), pages))
times
"""


class FoundNpm(NamedTuple):
    """npm and its Node, by their paths in a sandbox, with the mounts that show them there."""

    node: str
    script: str
    mounts: tuple[FileMount, ...]


def find_npm() -> FoundNpm:
    """Return the npm of the Node that programs have, else the first on `PATH`. Raises `InvalidValue` for none."""
    node = find_node().path
    on_path = shutil.which("npm")
    folders = [node.parent.parent / "lib" / "node_modules" / "npm"]
    folders += [Path(on_path).resolve().parent.parent] if on_path else []
    folder = next((one for one in folders if (one / "bin" / "npm-cli.js").is_file()), None)
    if folder is None:
        raise InvalidValue("packages of npm are resolved by npm, which is not here: pip install 'actbox[node]'")
    seen = ("/usr", *environment_folders())
    hidden = {path: f"/opt/{path.name}" for path in (node, folder) if not any(map(path.is_relative_to, seen))}
    mounts = tuple(FileMount(path, at) for path, at in hidden.items())
    return FoundNpm(hidden.get(node, str(node)), f"{hidden.get(folder, folder)}/bin/npm-cli.js", mounts)


def find_registry(address: str | None = None) -> Index:
    """Return the registry at an address, or the one that npm's settings name. Raises `InvalidValue`."""
    source = "PackagePolicy.npm_registry" if address is not None else "npm's settings"
    found = find_index(address if address is not None else _of_settings() or DEFAULT_REGISTRY, source)
    if found.default.startswith("file:"):
        raise InvalidValue(f"{source}: npm's registry is an address of http or https, not a directory")
    return found


class NpmInstaller(Installer):
    """An open sandbox in which npm resolves; see `Installer`."""

    def __init__(
        self, registry: Index, npm: FoundNpm, folder: Path, *, seconds: float, kept: Sequence[Locked] = ()
    ) -> None:
        """`kept` is a lock whose versions stay where the requirements allow it."""
        super().__init__(registry, "", "", folder, seconds=seconds, mounts=npm.mounts)
        self._npm, self._kept = npm, kept
        self._registry = self._reach.options[-1]  # its address without credentials

    async def resolve(
        self, requirements: Sequence[str], constraints: Iterable[str] = (), stand_ins: Iterable[object] = ()
    ) -> tuple[Locked, ...]:
        """Return the packages that satisfy requirements together, each at its place. Raises `CannotResolve`."""
        if from_git := [one for one in requirements if "@git+" in one]:
            raise CannotResolve(f"{from_git[0]} cannot be had: only packages of the registry are installed")
        project = {"name": "program", "version": "0.0.0", "dependencies": dependencies_of(requirements)}
        lock = npm_lock(requirements, self._kept)
        files = {"package.json": json.dumps(project), "package-lock.json": json.dumps(lock)}
        options = [*_OPTIONS, f"--registry={self._registry}", "--replace-registry-host=always"]
        command = [self._npm.node, self._npm.script, "install", *options]
        done = await self._execute(files, command)
        if not done.success:
            raise CannotResolve(f"{', '.join(requirements)} cannot be had: {self._why(done)}")
        return read_npm_lock(await self._box.read_text("package-lock.json"), self._registry)

    async def describe(self, wheels: Sequence[Locked]) -> tuple[Locked, ...]:
        """Return packages with the hash, size and upload time of their files. Raises `CannotResolve`, `BadTarball`."""
        pages = [f"{self._registry.rstrip('/')}/{quote(one.name, safe='@')}" for one in wheels]
        done = await self._run_for(wheels, _TIMES, pages=pages, versions=[one.version for one in wheels])
        described = []
        for number, (one, time) in enumerate(zip(wheels, done.value, strict=True)):
            file = self.folder / str(number)
            sha256 = await run_blocking(sha256_of_tarball, file, one.filename, one.sha512)
            described.append(
                replace(one, sha256=sha256, size=file.stat().st_size, released=str(time), is_described=True)
            )
        return tuple(described)

    def _why(self, done: ExecutionResult) -> str:
        return _ADVICE.sub("", super()._why(done).replace("npm error ", ""))


def _of_settings() -> str:
    """Return the registry that npm's variable or the user's file names, "" if none does."""
    said = {name.lower(): value for name, value in os.environ.items() if value}  # npm reads them in any case
    if "npm_config_registry" in said:
        return said["npm_config_registry"]
    file = Path(said.get("npm_config_userconfig") or Path.home() / ".npmrc")
    settings = configparser.RawConfigParser(strict=False, delimiters=("=",), allow_no_value=True)
    try:
        settings.read_string("[npm]\n" + file.read_text("utf-8"))
    except (OSError, configparser.Error, UnicodeDecodeError):
        return ""
    return (settings.get("npm", "registry", fallback="") or "").strip("\"'")
