"""`WasmSandbox`: each program runs in a fresh instance, in a worker process that can be killed at any time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from actbox.core.after_fork import Owner
from actbox.core.errors import FileError, SandboxUnavailable
from actbox.core.events import Event
from actbox.core.labels import Label
from actbox.core.limits import Limits
from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.attempts import Attempts
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.cancellation import whole
from actbox.sandbox.contract import Tools
from actbox.sandbox.dependencies import (
    PACKAGES,
    Layer,
    Provided,
    Target,
    asks_for_packages,
    layer_of,
    provide_packages,
    with_folders,
)
from actbox.sandbox.embedded import EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.embedded.running import EmbeddedRun
from actbox.sandbox.embedded.sandbox import Evaluate, Place
from actbox.sandbox.guest import wire
from actbox.sandbox.languages import in_language
from actbox.sandbox.storage import Storage
from actbox.tools import Toolset

from .disk_usage import Remove, cut_back, room
from .folders import check_mounts, mount, open_files, output_of, volumes_of
from .outcome import outcome_of
from .pool import worker_pool
from .program import Ended, WasmProgram
from .served_workspace import ServedWorkspace
from .traits import TRAITS
from .worker import Design, Volume, Worker

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.egress.upstream import Upstream

# The most seconds for a waiting program of a session to end when it is asked to.
_GRACE_SECONDS: Final = 1.0
# The most workers to try if they turn out to have ended while they waited.
_MOST_WORKERS: Final = 8
_ENVIRONMENT: Final = "/opt/environment"
"""Where programs see the packages of a named environment."""
_INTERRUPT: Final = wire.encode({"t": "interrupt"}, wire.ENVELOPE_BYTES)
_END: Final = wire.encode({"t": "end"}, wire.ENVELOPE_BYTES)


class WasmSandbox(EmbeddedSandbox):
    """A sandbox whose programs run in CPython on WebAssembly."""

    traits = TRAITS
    _input_apart = True
    _layer = Layer("", "", "", (), name=CLEAN)

    def __init__(self, policy: Policy, upstream: Upstream | None = None, *, family: WasmSandbox | None = None) -> None:
        """Raise `Unsupported` for a policy that cannot be enforced. `family` is a sandbox whose proxy is shared."""
        super().__init__(policy)
        check_mounts(policy.mounts)
        self._volumes: tuple[Volume, ...] = ()
        self._tmp_folders: set[str] = set()
        """The directories at `/tmp` of the programs that run and the sessions that are open."""
        self._proxy: EgressProxy | None = family._proxy if family else None
        if policy.domains and self._proxy is None:
            from actbox.sandbox.embedded.http import make_proxy  # its dependencies take long to import

            self._proxy = make_proxy(policy, upstream)

    def _sibling(self) -> Self:
        return type(self)(self.policy, family=self)

    def _fresh(self) -> AbstractAsyncContextManager[Evaluate]:
        return contextlib.nullcontext(self._evaluate)

    async def _evaluate(self, evaluation: Evaluation) -> Outcome:
        for _ in range(_MOST_WORKERS):
            ended = await self._evaluated(evaluation)
            if ended.has_begun:
                break
        return outcome_of(ended, evaluation.limits)

    async def _evaluated(self, evaluation: Evaluation) -> Ended:
        """Evaluate a program in the next worker; retry if that had ended while it waited."""
        design = _design(evaluation.folder, evaluation.limits, self._volumes)
        wanted, folders = design, list(self._folders)
        if evaluation.packages is not None:
            added = Volume.of(str(evaluation.packages), PACKAGES, read_only=True)
            wanted = dataclasses.replace(design, volumes=(*design.volumes, added))
            folders.insert(0, f"{PACKAGES}/site")
        evaluation = _importing(evaluation, folders)
        worker = await _worker(wanted)
        program = WasmProgram(worker, evaluation, self._proxy, self._tmp_folders)
        owner, ended = Owner(), None
        try:
            program.begin(last=True)
            ended = await program.ended()
            return ended
        finally:
            program.give_up()
            if owner.is_here:  # else this is a forked child, and the worker its parent's
                await self._take_back(worker, design, evaluation, ended)

    async def _take_back(self, worker: Worker, design: Design, evaluation: Evaluation, ended: Ended | None) -> None:
        """Let a worker wait for its next program, or kill it and remove what it has written beyond its limit."""
        tmp_folder = worker.tmp_folder
        if ended is None or ended.report is None:
            await whole(_end(worker))
            worker_pool().replace(design)
        else:
            worker_pool().give(worker, design)
        self._tmp_folders.discard(tmp_folder)
        if ended is None or ended.report is None or ended.limit:
            await whole(run_blocking(_cut_back, evaluation))

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, label: Label | str | None = None
    ) -> None:
        place = self._open_place()
        limits = self.policy.limits
        most = _most_mib(limits)
        size = len(data) if isinstance(data, (bytes, bytearray, memoryview)) else 0  # other types are refused below
        beside = self._tmp_folders if limits.disk_mib is not None else ()
        if await run_blocking(room, most * 2**20 - size, *_counted(place), *beside) < 0:
            raise FileError(errno.ENOSPC, f"{path}: the workspace would have more than {most} MiB")
        await super().write_file(path, data, mode=mode, label=label)

    def _storage(self, folder: str, input_folder: str) -> Storage:
        return open_files(folder, input_folder)

    async def open_state(self) -> State:
        return _WasmState(self._proxy, self._volumes, self._folders, self._tmp_folders)

    async def _opened(self) -> Place:
        place = await super()._opened()
        try:
            mounted = await run_blocking(mount, self.policy.mounts, place.folder, place.input_folder)
            self._volumes = (*volumes_of(place), *mounted, *await self._environment())
        except BaseException:
            await super()._let_go(place)
            raise
        worker_pool().prepare(_design(place.folder, self.policy.limits, self._volumes))
        return place

    async def _environment(self) -> tuple[Volume, ...]:
        """Return the directories of a named environment, which is built if need be. Raises `SandboxUnavailable`."""
        if self.policy.environment in (HOST, CLEAN):
            return ()
        layer = await layer_of(self.policy, target=await _target())
        assert layer is not None
        self._layer = layer
        return (await run_blocking(partial(Volume.of, layer.folder, _ENVIRONMENT, read_only=True)),)

    async def _open(self) -> None:
        await whole(run_blocking(worker_pool().enter), _left)

    async def _let_go(self, place: Place) -> None:
        await run_blocking(worker_pool().forget, place.folder)
        await super()._let_go(place)

    async def _close(self) -> None:
        worker_pool().leave()

    # Packages

    @property
    def _folders(self) -> tuple[str, ...]:
        """The directories from which programs import the packages of the environment."""
        return (f"{_ENVIRONMENT}/site",) if self._layer.folder else ()

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        may_need = self.policy.packages is not None or asks_for_packages(program)
        events = (
            self._attempts(program, tools, timeout).events()
            if may_need
            else super().stream(program, tools=tools, timeout=timeout)
        )
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        if self.policy.packages is not None or asks_for_packages(program):
            return await self._attempts(program, tools, timeout).finish()
        return await super().run(program, tools=tools, timeout=timeout)

    def _attempts(self, program: Program | str, tools: Tools, timeout: float | None) -> Attempts:
        place = self._open_place()
        approver = tools.approver if isinstance(tools, Toolset) else None

        async def provide(program: Program, tell: Callable[[Event], None]) -> Provided:
            layer = self._layer
            if asks_for_packages(program):
                target = await _target()
                layer = layer._replace(version=target.version, target=target)
            return await provide_packages(program, self.policy, self.traits, layer, approver, tell)

        def run_of(program: Program, packages: Provided, mark: object) -> _Attempt:
            return _Attempt(partial(self.begin, place, program, tools, timeout, packages=packages), packages)

        return Attempts(in_language(program, self.traits), self.policy, approver, provide, run_of, None)


class _Attempt:
    """An attempt at a program that gets packages."""

    requests = 0

    def __init__(self, begin: Callable[[], Awaitable[EmbeddedRun]], packages: Provided) -> None:
        self._begin = begin
        self._packages = packages

    async def events(self) -> AsyncGenerator[Event]:
        """Run the program and yield its events; close its packages."""
        try:
            async with contextlib.aclosing((await self._begin()).events()) as events:
                async for event in events:
                    yield event
        finally:
            self._packages.close()


class _WasmState(State):
    """An instance that lasts from program to program, in its own worker."""

    def __init__(
        self,
        proxy: EgressProxy | None,
        volumes: tuple[Volume, ...],
        folders: Sequence[str],
        tmp_folders: set[str],
    ) -> None:
        self._proxy = proxy
        self._tmp_folders = tmp_folders
        self._folders = folders
        self._volumes = volumes
        self._worker: Worker | None = None
        self._design: Design | None = None
        self._is_over = False

    @property
    def alive(self) -> bool:
        return not self._is_over and (self._worker is None or self._worker.alive)

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        if self._worker is None:
            self._design = _design(evaluation.folder, evaluation.limits, self._volumes)
            self._worker = await _worker(self._design)
        evaluation = _importing(evaluation, self._folders)
        program = WasmProgram(self._worker, evaluation, self._proxy, self._tmp_folders)
        owner = Owner()
        program.begin(last=False)
        try:
            ended = await program.ended()
        except asyncio.CancelledError:
            program.give_up()
            if not owner.is_here:
                raise
            await whole(self._interrupted(program))
            await whole(run_blocking(_cut_back, evaluation))
            raise
        if ended.report is None or ended.is_over:
            await whole(self._end())
        program.give_up()
        if ended.limit:
            await whole(run_blocking(_cut_back, evaluation))
        return outcome_of(ended, evaluation.limits)

    async def close(self) -> None:
        """End the interpreter as a script ends, or by force if that takes long."""
        await whole(self._close())

    async def _interrupted(self, program: WasmProgram) -> None:
        """Ask the program to end, which it does at its next wait; kill it if it goes on."""
        assert self._worker is not None
        self._worker.post(_INTERRUPT)
        try:
            ended = await asyncio.wait_for(program.ended(), _GRACE_SECONDS)
        except TimeoutError:
            ended = None
        if ended is None or ended.report is None or ended.is_over:
            await self._end()

    async def _end(self) -> None:
        self._is_over = True
        if self._worker is not None and self._design is not None:
            tmp_folder = self._worker.tmp_folder
            await _end(self._worker)
            self._tmp_folders.discard(tmp_folder)
            worker_pool().replace(self._design)

    async def _close(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._worker is None or self._design is None:
            return
        self._tmp_folders.discard(self._worker.tmp_folder)
        if await run_blocking(self._worker.finish, _END, _GRACE_SECONDS):
            worker_pool().give(self._worker, self._design)
        else:
            await _end(self._worker)


def _importing(evaluation: Evaluation, folders: Sequence[str]) -> Evaluation:
    """Return an evaluation whose program imports from directories after those that the policy's variables name."""
    if not folders:
        return evaluation
    return dataclasses.replace(evaluation, variables=with_folders(evaluation.variables, folders))


async def _target() -> Target:
    """Return what packages for this interpreter must fit; it is asked for its version once in a process."""
    global _known_target
    if _known_target is None:
        async with WasmSandbox(Policy()) as box:
            version = (await box.run("import sys\n'%d.%d' % sys.version_info[:2]")).value
        if not isinstance(version, str):
            raise SandboxUnavailable("the interpreter of the wasm engine does not say its version")
        _known_target = Target(version)
    return _known_target


_known_target: Target | None = None


def _design(folder: str, limits: Limits, volumes: tuple[Volume, ...]) -> Design:
    return Design(
        folder=folder,
        volumes=volumes,
        memory_mib=limits.memory_mib,
        file_mib=limits.file_mib,
        open_files=limits.open_files,
    )


def _cut_back(evaluation: Evaluation) -> None:
    """Remove what a killed program has written beyond its limit. Blocks."""
    most, folder = _most_mib(evaluation.limits) * 2**20, evaluation.folder
    if room(most, *_counted(evaluation)) >= 0:
        return
    output, files = output_of(folder), evaluation.workspace
    if isinstance(files, ServedWorkspace):
        removes: dict[str, Remove] = {
            folder: lambda path, _: files.discard(path),
            output: lambda path, _: files.discard(f"output/{path}"),
        }
        cut_back(most, removes, [evaluation.input_folder])
        return
    from actbox.sandbox.workspace import Workspace, open_folder  # not every system can import it

    with contextlib.ExitStack() as stack:
        removes = {}
        for top in (folder, output):  # each on its own; the other directories have placeholders in it
            own = Workspace(open_folder(top), "/workspace")
            stack.callback(own.close)
            removes[top] = own.remove
        cut_back(most, removes, [evaluation.input_folder])


def _most_mib(limits: Limits) -> int:
    """Return how much the workspace may hold."""
    return min(limits.workspace_mib, limits.disk_mib or limits.workspace_mib)


def _counted(place: Place | Evaluation) -> tuple[str, ...]:
    return place.folder, place.input_folder, output_of(place.folder)


async def _worker(design: Design) -> Worker:
    worker = worker_pool().at_hand(design)
    return worker if worker is not None else await whole(run_blocking(worker_pool().take, design), _end)


async def _end(worker: Worker) -> None:
    await run_blocking(worker.end)


async def _left(_: None) -> None:
    worker_pool().leave()
