"""`MontySandbox`: runs programs in a subset of Python, in pydantic-monty's interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat as stat_modes
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from actbox.core.errors import CannotFork, SandboxUnavailable, Unsupported
from actbox.core.indentation import without_indentation
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.embedded import EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.embedded.sandbox import Evaluate
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.workspace import Workspace, open_folder

from . import outcome
from .declarations import awaits, declarations, try_stubs
from .evaluating import NO_PROGRAM, Evaluating, in_turn
from .files import Files, Place
from .folders import Folder, HostFolder, LayeredFolder
from .lacking import not_called
from .library import Interpreter, Workers
from .steps import Failed, IllTyped, Lost, Settings
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.egress.upstream import Upstream


class MontySandbox(EmbeddedSandbox):
    """A sandbox that gives each program its own interpreter from a pool of worker processes.

    With `type_check`, programs are checked before they start, against declarations of their tools and inputs and
    `type_check_stubs`. `script_name` is the file name of a program in the interpreter's own messages.
    """

    traits = TRAITS

    def __init__(
        self,
        policy: Policy,
        upstream: Upstream | None = None,
        *,
        type_check: bool = False,
        type_check_stubs: str = "",
        script_name: str = "program.py",
        family: MontySandbox | None = None,
    ) -> None:
        """Raise `Unsupported` for a policy that cannot be enforced. `family` is a sandbox whose workers are shared."""
        super().__init__(policy)
        if policy.limits.cpus < 1:
            raise Unsupported("the monty engine cannot give a program less than a processor: Limits.cpus; linux can")
        if policy.limits.disk_mib is not None and any(mount.mode == "overlay" for mount in policy.mounts):
            raise Unsupported(
                "the monty engine keeps what programs write to an overlay apart, where Limits.disk_mib does not count"
                " it: mount the directory 'ro'"
            )
        self._options = {"type_check": type_check, "type_check_stubs": type_check_stubs, "script_name": script_name}
        self._type_check = type_check
        self._stubs = type_check_stubs
        self._stubs_tried = family is not None
        self._script_name = script_name
        self._workers: Workers = family._workers if family else Workers()
        self._mounted: Mounted | None = None
        self._proxy: EgressProxy | None = family._proxy if family else None
        if policy.domains and self._proxy is None:
            from actbox.sandbox.embedded.http import make_proxy  # its dependencies take long to import

            self._proxy = make_proxy(policy, upstream)

    def _sibling(self) -> Self:
        return type(self)(self.policy, family=self, **self._options)  # type: ignore[arg-type]

    async def _open(self) -> None:
        await run_blocking(self._workers.open)
        try:
            if self._stubs and not self._stubs_tried:
                await run_blocking(try_stubs, self._workers, self._stubs)
                self._stubs_tried = True
            self._mounted = Mounted(self.policy.mounts)
        except BaseException:
            await run_blocking(self._workers.close)
            raise

    async def _close(self) -> None:
        if self._mounted is not None:
            self._mounted.close()
        await run_blocking(self._workers.close)

    def _fresh(self) -> AbstractAsyncContextManager[Evaluate]:
        return contextlib.nullcontext(self._evaluate)

    async def _evaluate(self, evaluation: Evaluation) -> Outcome:
        state = MontyState(self, keep=False)
        try:
            return await state.evaluate(evaluation)
        finally:
            await state.close()

    async def open_state(self) -> State:
        return MontyState(self, keep=True)


class MontyState(State):
    """A session: an interpreter kept between programs, or the dump of one until the next program loads it."""

    def __init__(
        self, sandbox: MontySandbox, *, keep: bool, dumped: bytes | None = None, names: dict[int, str] | None = None
    ) -> None:
        self._sandbox = sandbox
        self._keep = keep
        self._dumped = dumped
        self._names = names or {}
        self._interpreter: Interpreter | None = None
        self._files: tuple[str, Files, contextlib.ExitStack] | None = None
        self._declared: str | None = None
        self._lost = False

    @property
    def alive(self) -> bool:
        return not self._lost and (self._interpreter is None or not self._interpreter.ended)

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        sandbox, toolset = self._sandbox, evaluation.toolset
        if evaluation.program.code[:1].isspace():
            code = await asyncio.to_thread(without_indentation, evaluation.program.code)
            evaluation = replace(evaluation, program=replace(evaluation.program, code=code))
        awaited = (len(toolset) > 0 or sandbox._proxy is not None) and awaits(evaluation.program.code)
        if (method := not_called(evaluation.program.code)) is not None:
            return outcome.not_called(*method)
        declared = ""
        if sandbox._type_check:
            declared = declarations(
                evaluation.program, toolset, awaited=awaited, network=sandbox._proxy is not None, more=sandbox._stubs
            )
            if self._declared not in (None, declared):
                return outcome.unsupported(
                    "a monty session that checks types keeps the tools and inputs of its first program",
                    "give every program of the session the same, and await tools in all or in none of them; or use the"
                    " linux engine with static_check",
                )
            self._declared = declared
        requests = None
        if sandbox._proxy is not None:
            from actbox.sandbox.embedded.http import Requests

            requests = Requests(sandbox._proxy, evaluation.calls.tell, evaluation.limits.message_bytes)
        evaluating = Evaluating(
            evaluation,
            lambda: self._files_of(evaluation),
            requests,
            self._names,
            awaited=awaited,
            checked=sandbox._type_check,
            keep=self._keep,
        )
        interpreter = self._interpreter
        if interpreter is None:
            settings = self._settings(evaluation, declared)
            interpreter = self._interpreter = Interpreter(sandbox._workers, settings, self._dumped)
        try:
            return await self._with_changes(await evaluating.finish(interpreter))
        except (Failed, IllTyped, Lost) as error:
            if isinstance(error, Failed) and error.type == "TimeoutError" and "time limit" in error.message:
                self._lost = True  # the library does not guarantee the state of an interrupted interpreter
            return await self._with_changes(evaluating.outcome_of_failure(error))

    async def _with_changes(self, outcome: Outcome) -> Outcome:
        if self._files is None or not any(mount.keep_changes for mount in self._sandbox.policy.mounts):
            return outcome
        changes, warnings = await run_blocking(self._files[1].changes)
        return replace(outcome, changes=changes, warnings=(*outcome.warnings, *warnings))

    async def close(self) -> None:
        self._lost = True
        interpreter, self._interpreter = self._interpreter, None
        files, self._files = self._files, None
        if interpreter is not None and not interpreter.closed:
            await run_blocking(interpreter.close)
        if files is not None:
            files[2].close()

    async def copy(self) -> MontyState:
        dumped, names = self._dumped, dict(self._names)
        if self._interpreter is not None:
            try:
                dumped = await in_turn(self._interpreter, self._interpreter.dump)
            except Lost as error:
                raise CannotFork(f"the session has ended: {error}") from None
            names[len(names)] = NO_PROGRAM  # the copy feeds a line that seeds its random generator anew
        copied = MontyState(self._sandbox, keep=True, dumped=dumped, names=names)
        copied._declared = self._declared
        return copied

    def _settings(self, evaluation: Evaluation, declared: str) -> Settings:
        limits = evaluation.limits
        return Settings(
            script_name=self._sandbox._script_name,
            memory_bytes=limits.memory_mib * 2**20,
            cpu_seconds=limits.cpu_seconds,
            type_check=self._sandbox._type_check,
            stubs=declared,
        )

    def _files_of(self, evaluation: Evaluation) -> Files:
        """Return the files that programs see. Their changes to overlays last until the session closes."""
        if self._files is None or self._files[0] != evaluation.folder:
            stack = contextlib.ExitStack()
            mounted = self._sandbox._mounted
            places = () if mounted is None else mounted.places(evaluation.limits, stack)
            assert isinstance(evaluation.workspace, Workspace)  # this engine opens no other kind
            files = Files(HostFolder(evaluation.workspace), places, evaluation.limits)
            self._files = evaluation.folder, files, stack
        return self._files[1]


class Mounted:
    """The policy's mounts, held open until `close`."""

    def __init__(self, mounts: Iterable[FileMount]) -> None:
        """Open all mounts. Raises `SandboxUnavailable` if a host path has another file now."""
        self._held = contextlib.ExitStack()
        self._found: list[tuple[FileMount, Folder, bool]] = []
        try:
            for mount in mounts:
                self._found.append(self._opened(mount))
        except BaseException:
            self._held.close()
            raise

    def close(self) -> None:
        """Close all mounts."""
        self._held.close()

    def places(self, limits: Limits, held: contextlib.ExitStack) -> tuple[Place, ...]:
        """Return a program's mounts as places. Changes to overlays last until `held` is closed. Blocks."""
        return tuple(self._place(mount, folder, is_file, limits, held) for mount, folder, is_file in self._found)

    def _opened(self, mount: FileMount) -> tuple[FileMount, Folder, bool]:
        try:
            status = os.lstat(mount.host_path)
            is_file = stat_modes.S_ISREG(status.st_mode)
            descriptor = open_folder(str(mount.host_path.parent if is_file else mount.host_path))
        except OSError as error:
            raise SandboxUnavailable(f"{mount.host_path} cannot be mounted: {error.strerror}") from None
        workspace = Workspace(descriptor, str(mount.mount_path))
        self._held.callback(workspace.close)
        status = (
            os.stat(mount.host_path.name, dir_fd=descriptor, follow_symlinks=False) if is_file else os.fstat(descriptor)
        )
        if (status.st_dev, status.st_ino) != mount.identity:
            raise SandboxUnavailable(
                f"{mount.host_path} is another than when it was mounted: something has come to lie in its place; make"
                " the policy anew, and mount a directory, not a file that is replaced"
            )
        return mount, HostFolder(workspace), is_file

    def _place(
        self, mount: FileMount, folder: Folder, is_file: bool, limits: Limits, held: contextlib.ExitStack
    ) -> Place:
        parts = mount.mount_path.parts[1:]
        if is_file:
            return Place(parts, folder, writable=mount.mode == "rw", inner=mount.host_path.name, is_file=True)
        if mount.mode != "overlay":
            return Place(parts, folder, writable=mount.mode == "rw")
        changes = make_folder()
        held.callback(remove_folder, changes)
        upper = Workspace(open_folder(changes), str(mount.mount_path))
        held.callback(upper.close)
        layered = LayeredFolder(HostFolder(upper), folder, limits.file_mib * 2**20)
        return Place(parts, layered, writable=True, bounded=True, keep_changes=mount.keep_changes)
