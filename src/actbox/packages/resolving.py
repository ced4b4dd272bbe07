"""Resolves requirements to wheels with hashes, and fetches them, by uv in a sandbox whose only way out is the index."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from email.parser import HeaderParser
from email.policy import compat32
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.markers import default_environment
from packaging.pylock import PackageArchive, PackageWheel, Pylock, PylockSelectError
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags, sys_tags

from actbox.core.errors import ActboxError, ErrorKind, InvalidValue
from actbox.core.events import Completed, Event, NetworkRequest
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.dependencies import Target
from actbox.sandbox.opening import open_sandbox

from .compiling import COMPILE_SECONDS, Compiler, Sources, read_compiled, write_sources
from .index import MOST_FILE_HOSTS, Index, Reach, reach, without_secrets
from .locked_files import Locked, StandIn
from .wheels import no_room, required_names

_FETCHED = "/opt/fetched"
_SIZES = Limits(memory_mib=4096, workspace_mib=512, file_mib=8192, output_bytes=4 * 2**20, cpu_seconds=600)
_MOST_LICENCE = 200
_STAND_INS = "stand-ins"
STAND_INS = f"{_FETCHED}/{_STAND_INS}"
"""The directory of stand-ins in the sandbox."""
_NO_WHEEL = re.compile(r"Wheels are required for `([\w.-]+)` because building from source is disabled")
_OLDER_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_GLIBC_OF_UV = (17, 28, *range(31, 41))
"""The minor versions of glibc 2 that uv has a name for."""
_MOST_HEADER_BYTES = 64 * 1024
_LEAST_SECONDS = 0.001
_LEAST_COMPILE_SECONDS = 0.5
_OF_DOMAINS = re.compile(r", and the policy means [^()]*\(an entry with private=True[^()]*\)")
"""Words of the proxy about entries of a policy: an index has no such setting."""
_YANKED = re.compile(r"`?([\w.-]+==[\w.!+-]+)`? is yanked(?: \(reason: \"?(.*?)\"?\))?")
_MOST_UNKNOWN_BYTES = 2 * 2**30
"""The most that is fetched of a file whose size the index does not say."""
# Fetches each file to its number, and no more of it than the index says that it has; what it writes is hashed by the
# host, which trusts none of it.
_IMPORTS = "import urllib.request, zipfile\nfrom concurrent.futures import ThreadPoolExecutor"
_FETCH = """
def fetch(number, url):
    with urllib.request.urlopen(url, timeout=60) as answer, open(f"{folder}/{number}", "wb") as file:
        left = (sizes[number] if sizes[number] >= 0 else most_unknown) + 1
        while left > 0 and (piece := answer.read(min(2**20, left))):
            left -= file.write(piece)
    if not left and sizes[number] < 0:
        raise OSError(f"a file has more than {most_unknown >> 20:,} MiB, and the index does not say its size")
"""
_FETCH_ALL = """
with ThreadPoolExecutor(4) as pool:
    list(pool.map(fetch, range(len(urls)), urls))
"""
# The value is the headers of each one's metadata, from the index if that has them apart (PEP 658), else from the wheel.
_DESCRIBE = """
def describe(number, url):
    try:
        with urllib.request.urlopen(url + ".metadata", timeout=60) as answer:
            text = answer.read(most)
    except OSError:
        fetch(number, url)
        with zipfile.ZipFile(f"{folder}/{number}") as wheel:
            names = [name for name in wheel.namelist() if name.count("/") == 1]
            with wheel.open(next(name for name in names if name.endswith(".dist-info/METADATA"))) as file:
                text = file.read(most)
    return text.decode("utf-8", "replace").replace("\\r\\n", "\\n").partition("\\n\\n")[0]
with ThreadPoolExecutor(4) as pool:
    described = list(pool.map(describe, range(len(urls)), urls))
described
"""


_file_hosts: dict[Index, dict[str, None]] = {}
"""The hosts to which each index has sent the installers of this process, for its files."""


class CannotResolve(ActboxError):
    """Raised where requirements cannot be had together; the message names them and has the resolver's reason."""


class NeedsSource(CannotResolve):
    """Raised for a package that has no wheel; `name` is the package."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Installer:
    """An open sandbox that resolves and fetches. Close it by `async with`."""

    def __init__(
        self,
        index: Index,
        uv: str,
        python: str,
        folder: Path,
        *,
        seconds: float,
        target: Target | None = None,
        mounts: tuple[FileMount, ...] = (),
        compiler: Compiler | None = None,
        reached: Reach | None = None,
    ) -> None:
        """`uv` is a path as programs see it, and `python` the version that the wheels are for, as in `3.12`.

        They are for this machine, or for `target`. Wheels are fetched into `folder`, on the host. `mounts` are further
        ones of the sandbox. `compiler` is the interpreter for `compile`. `reached` is what it reaches in place of the
        index.
        """
        self._reached = reached
        self._index = index
        self._uv, self._python, self._target = uv, python, target
        self.folder = folder
        self._seconds, self._deadline = seconds, time.monotonic() + seconds
        self._compiler = compiler
        self._mounts = (*mounts, *(compiler.mounts if compiler else ()), FileMount(folder, _FETCHED, "rw"))
        self._hosts = _file_hosts.setdefault(index, {})
        self._prepare()

    def _prepare(self) -> None:
        """Make a sandbox that reaches the index, and the hosts to which it has sent any installer of this process."""
        self._reach, self._admitted = self._reached or reach(self._index, self._hosts), frozenset(self._hosts)
        policy = Policy(
            limits=replace(_SIZES, wall_seconds=self._seconds),
            mounts=(*self._reach.mounts, *self._mounts),
            domains=self._reach.domains,
            secrets=self._reach.secrets,
            variables={"UV_OFFLINE": "0", "UV_NO_CONFIG": "1", "UV_CACHE_DIR": "/tmp/uv", "UV_NO_PROGRESS": "1"},
        )
        self._box: Sandbox = open_sandbox("linux", policy=policy)

    async def __aenter__(self) -> Installer:
        await self._box.start()
        self._session = self._box.session()
        self._sent = asyncio.Event()
        self._ready = asyncio.ensure_future(self._last(self._session.stream(_IMPORTS)))  # while uv resolves
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ready.cancel()
        await asyncio.gather(self._ready, return_exceptions=True)
        await self._box.stop()

    async def _last(self, events: AsyncIterator[Event]) -> ExecutionResult:
        """Return the result that events end with. Note the hosts to which the index sends whoever asks it."""
        async for event in events:
            if isinstance(event, Completed):
                return event.result
            if isinstance(event, NetworkRequest) and event.decision == "refused" and self._is_file_host(event):
                self._sent.set()
        raise AssertionError("a run ends with its result")

    def _is_file_host(self, request: NetworkRequest) -> bool:
        """Note a host that was asked by encrypted requests, or as the index is; return whether it is to be admitted.

        Only uv, npm and the programs above run here: they ask nobody but the index, and whom it names.
        """
        scheme = "https" if request.method == "CONNECT" else "http"
        host = f"[{request.host}]" if ":" in request.host else request.host
        target = f"{scheme}://{host}:{request.port}"
        if target in self._admitted or (target not in self._hosts and len(self._hosts) >= MOST_FILE_HOSTS):
            return False
        if scheme == "http" and not any(address.startswith("http:") for address in self._index.addresses):
            return False
        self._hosts[target] = None
        return True

    async def _result(self, begin: Callable[[], AsyncIterator[Event]]) -> ExecutionResult:
        """Return the result of a run in the sandbox; it begins again in a wider one if the index sends it elsewhere."""
        while True:
            running = asyncio.ensure_future(self._last(begin()))
            sent = asyncio.ensure_future(self._sent.wait())
            try:
                await asyncio.wait({running, sent}, return_when=asyncio.FIRST_COMPLETED)
                if running.done() and (running.result().success or not self._sent.is_set()):
                    return running.result()
            finally:
                for task in (running, sent):
                    task.cancel()
                await asyncio.gather(running, sent, return_exceptions=True)
            await self.__aexit__()
            self._prepare()
            await self.__aenter__()

    async def _execute(self, files: Mapping[str, str], command: Sequence[str]) -> ExecutionResult:
        """Run a command beside files."""

        async def begin() -> AsyncIterator[Event]:
            for name, text in files.items():
                await self._box.write_text(name, text)
            async for event in self._box.execute_stream(command, timeout=self._left()):
                yield event

        return await self._result(begin)

    async def resolve(
        self, requirements: Sequence[str], constraints: Iterable[str] = (), stand_ins: Iterable[StandIn] = ()
    ) -> tuple[Locked, ...]:
        """Return the files that satisfy requirements together.

        uv never builds. It may choose one of `stand_ins`, in place of which the result has that one's file.
        Raises `NeedsSource` for a package without a wheel, and `CannotResolve`.
        """
        known = {one.write(self.folder / _STAND_INS): one.file for one in stand_ins}
        files = {"in.txt": "\n".join(requirements) + "\n"}
        command = [self._uv, "pip", "compile", "in.txt", "--format", "pylock.toml"]
        if bounds := "\n".join(constraints):
            files["constraints.txt"] = bounds + "\n"
            command += ["--constraint", "constraints.txt"]
        command += ["--output-file", "pylock.toml", "--no-build", "--no-python-downloads"]
        command += ["--python", sys.executable, "--python-version", self._python, *_uv_platform(self._target)]
        command += ["--find-links", STAND_INS] if known else []
        done = await self._execute(files, [*command, *self._reach.options])
        if not done.success:
            asked = ", ".join(requirements).replace(f"file://{STAND_INS}/", "")
            message = f"{asked} cannot be had: {self._why(done)}"
            if needed := _NO_WHEEL.search(" ".join(done.stderr.split())):
                raise NeedsSource(message, needed[1])
            raise CannotResolve(message)
        if yanked := _YANKED.search(" ".join(done.stderr.split())):
            reason = f": {yanked[2]}" if yanked[2] else ""
            raise CannotResolve(f"{yanked[1]} was withdrawn by its authors{reason}; ask for another version of it")
        locked = _locked(await self._box.read_text("pylock.toml"), self._python, self._target)
        return tuple(known.get(one.filename, one) if one.url.startswith("file:") else one for one in locked)

    def path_inside(self, file: Path) -> str:
        """Return the path that a file that was fetched has in the sandbox."""
        return f"{_FETCHED}/{file.name}"

    async def evaluate(self, code: str, inputs: Mapping[str, object], failure: str) -> object:
        """Run Python code of ours in the sandbox and return its value. Raises `CannotResolve` with `failure`."""
        await self._ready
        done = await self._session.run(Program(code, inputs=dict(inputs)), timeout=self._left())
        if not done.success:
            raise CannotResolve(f"{failure}: {self._why(done)}")
        return done.value

    async def fetch(self, wheels: Sequence[Locked]) -> list[Path]:
        """Fetch wheels and return their files, in order, not yet checked. Raises `CannotResolve` and `OSError`."""
        needed, free = sum(max(wheel.size, 0) for wheel in wheels), shutil.disk_usage(self.folder).free
        if needed > free:
            raise no_room(", ".join(wheel.filename for wheel in wheels), needed, self.folder.parent, free)
        await self._run_for(wheels, _FETCH_ALL)
        return [self.folder / str(number) for number in range(len(wheels))]

    async def compile(self, sources: Sources) -> dict[str, bytes] | None:
        """Return compiled modules by the SHA-256 of their source, without those that cannot be compiled.

        `None` if there is no compiler, or no time. Call it once, and last: the sources may do harm to the sandbox.
        Raises `ActboxError` and `OSError`.
        """
        seconds = min(self._left(), COMPILE_SECONDS)
        if self._compiler is None or seconds < _LEAST_COMPILE_SECONDS:
            return None
        await run_blocking(write_sources, self.folder, sources)
        await self._box.execute(self._compiler.command(_FETCHED, len(sources)), timeout=seconds)
        return await run_blocking(read_compiled, self.folder, sources)

    async def describe(self, wheels: Sequence[Locked]) -> tuple[Locked, ...]:
        """Return wheels with what their metadata says. Raises `CannotResolve`."""
        found = (await self._run_for(wheels, _DESCRIBE)).value
        return tuple(described(wheel, headers) for wheel, headers in zip(wheels, found, strict=True))

    async def _run_for(self, wheels: Sequence[Locked], code: str, **more: list[str]) -> ExecutionResult:
        inputs = {"urls": [wheel.url for wheel in wheels], "sizes": [wheel.size for wheel in wheels]}
        inputs |= {"folder": _FETCHED, "most": _MOST_HEADER_BYTES, "most_unknown": _MOST_UNKNOWN_BYTES, **more}
        program = Program(_FETCH + code, inputs=inputs)

        async def begin() -> AsyncIterator[Event]:
            await self._ready
            async for event in self._session.stream(program, timeout=self._left()):
                yield event

        done = await self._result(begin)
        if not done.success:
            raise CannotResolve(f"{', '.join(wheel.filename for wheel in wheels)} cannot be fetched: {self._why(done)}")
        return done

    @property
    def seconds_left(self) -> float:
        """The seconds that are left of the time for resolving and fetching together."""
        return self._left()

    def _left(self) -> float:
        """Return the seconds that are left of the time for resolving and fetching together."""
        return max(self._deadline - time.monotonic(), _LEAST_SECONDS)

    def _why(self, done: ExecutionResult) -> str:
        assert done.error is not None
        if done.error.kind is ErrorKind.TIMEOUT:
            return f"the index has not answered within {self._seconds:g} s (index: {self._index.source})"
        said = without_secrets(_said(done.stderr) or done.error.message)[-2000:]
        return f"{said} (index: {self._index.source})"


def _said(text: str) -> str:
    """Return what a resolver says, in one line, without its warnings and the drawing around its words."""
    lines = (re.sub(r"^[\s×╰─▶│├]*((error|cause): )?", "", line).strip() for line in text.splitlines())
    said = " ".join(line for line in lines if line and not line.startswith(("warning: ", "No solution found")))
    return _OF_DOMAINS.sub("", said)


def _locked(text: str, python: str, target: Target | None) -> Iterable[Locked]:
    """Yield the wheels for a version of Python in a lock in the form of PEP 751, on this machine or for a target."""
    markers, fitting = default_environment(), fitting_tags(python, target)
    if target is not None or python != f"{sys.version_info[0]}.{sys.version_info[1]}":
        markers |= {"python_version": python, "python_full_version": f"{python}.0", "implementation_version": python}
        if target is not None and target.machine:
            markers["platform_machine"] = target.machine
    try:
        chosen = list(Pylock.from_dict(tomllib.loads(text)).select(environment=markers, tags=fitting))
    except PylockSelectError as error:
        raise CannotResolve(str(error)) from None
    for package, file in chosen:
        if not isinstance(file, PackageWheel | PackageArchive):
            raise CannotResolve(f"{package.name} {package.version} has no wheel that fits")
        url = file.url or Path(file.path or "").absolute().as_uri()
        name = file.name if isinstance(file, PackageWheel) else None
        filename = name or unquote(PurePosixPath(urlsplit(url).path).name)
        sha256 = file.hashes.get("sha256", "")
        if not sha256:
            raise CannotResolve(f"the index gives no SHA-256 hash for {filename}, so nobody can tell what it is")
        released = file.upload_time.isoformat() if file.upload_time else ""
        try:
            yield Locked(package.name, str(package.version), url, filename, sha256, file.size or -1, released)
        except InvalidValue as error:
            raise CannotResolve(f"the index lies: {error}") from None


def fitting_tags(python: str, target: Target | None) -> list[Tag]:
    """Return the tags of wheels that fit a version of Python, on this machine or for a target, the best first."""
    if target is None and python == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return list(sys_tags())
    return list(_tags(python, list(platform_tags()) if target is None else list(_platforms(target))))


def _tags(python: str, platforms: list[str]) -> Iterable[Tag]:
    """Yield the tags that fit a version of Python, the best first."""
    version = tuple(map(int, python.split(".")))
    if platforms:
        yield from cpython_tags(version, platforms=platforms)
    yield from compatible_tags(version, platforms=platforms or ["any"])


def _platforms(target: Target) -> Iterable[str]:
    """Yield the platform tags that fit a C library (PEP 600, PEP 656), the best first."""
    if target.libc == "musl":
        yield from (f"musllinux_1_{minor}_{target.machine}" for minor in range(target.libc_minor, -1, -1))
    elif target.libc == "glibc":
        for minor in range(target.libc_minor, 4, -1):
            yield f"manylinux_2_{minor}_{target.machine}"
            if minor in _OLDER_NAMES:
                yield f"{_OLDER_NAMES[minor]}_{target.machine}"
    if target.machine:
        yield f"linux_{target.machine}"


def _uv_platform(target: Target | None) -> list[str]:
    """Return uv's option for a target: uv has names for some machines and C libraries, the others are like this one."""
    if target is None or target.machine not in ("x86_64", "aarch64"):
        return []
    known = [minor for minor in _GLIBC_OF_UV if minor <= target.libc_minor]
    name = f"{target.machine}-manylinux_2_{known[-1]}" if known else f"{target.machine}-manylinux2014"
    return ["--python-platform", name if target.libc == "glibc" else f"{target.machine}-unknown-linux-musl"]


def described(wheel: Locked, headers: str) -> Locked:
    """Return a wheel with what the headers of its metadata say."""
    said = HeaderParser(policy=compat32).parsestr(headers)
    licence = said.get("License-Expression") or said.get("License") or ""
    if not licence.strip() or licence.strip().upper() == "UNKNOWN":
        classes = [one for one in said.get_all("Classifier", ()) if one.startswith("License ::")]
        licence = "; ".join(one.rpartition("::")[2].strip() for one in classes)
    return replace(
        wheel,
        is_described=True,
        licence=" ".join(str(licence).split())[:_MOST_LICENCE],
        requires=required_names(said.get_all("Requires-Dist", ())),
    )
