"""`MontySandbox`: programs in a part of Python, run by pydantic-monty's interpreter."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from actbox.core.errors import CannotFork, Unsupported
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.embedded import EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.workspace import Workspace

from . import outcome
from .declared import awaits, declarations
from .evaluating import NO_PROGRAM, Evaluating, in_turn
from .files import Files
from .folders import HostFolder
from .lacking import not_called
from .library import Interpreter, Workers
from .mounted import Mounted
from .steps import Failed, IllTyped, Lost, Settings
from .stubs import try_stubs
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.egress.upstream import Upstream


class MontySandbox(EmbeddedSandbox):
    """Each program gets an interpreter of its own from a pool of worker processes.

    With `type_check` programs are checked before they begin, against declarations of their tools and inputs and
    `type_check_stubs`; the name that the interpreter's own messages have for a program is `script_name`.
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
        """Raise `Unsupported` for a policy that cannot be kept. `family` is a sandbox to share workers with."""
        super().__init__(policy)
        if policy.limits.cpus < 1:
            raise Unsupported("the monty engine cannot give a program less than a processor: Limits.cpus; linux can")
        self._options = {"type_check": type_check, "type_check_stubs": type_check_stubs, "script_name": script_name}
        self._type_check = type_check
        self._stubs = type_check_stubs
        self._stubs_tried = family is not None
        self._script_name = script_name
        self._workers: Workers = family._workers if family else Workers()
        self._mounted: Mounted | None = None
        self._proxy: EgressProxy | None = family._proxy if family else None
        if policy.domains and self._proxy is None:
            from actbox.sandbox.embedded.http import make_proxy  # what it needs takes long to import

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

    async def _evaluate(self, evaluation: Evaluation) -> Outcome:
        state = MontyState(self, keep=False)
        try:
            return await state.evaluate(evaluation)
        finally:
            await state.close()

    async def _open_state(self) -> State:
        return MontyState(self, keep=True)


class MontyState(State):
    """An interpreter from program to program, or what one was dumped as, until the next program."""

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
                self._lost = True  # the library gives no guarantee of what was interrupted so
            return await self._with_changes(evaluating.told(error))

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

    async def copy(self) -> State:
        dumped, names = self._dumped, dict(self._names)
        if self._interpreter is not None:
            try:
                dumped = await in_turn(self._interpreter, self._interpreter.dump)
            except Lost as error:
                raise CannotFork(f"the session has ended: {error}") from None
            names[len(names)] = NO_PROGRAM  # which seeds the random generator anew
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
        """Return the files that programs see; what they change in overlays lasts as long as this does."""
        if self._files is None or self._files[0] != evaluation.folder:
            stack = contextlib.ExitStack()
            mounted = self._sandbox._mounted
            places = () if mounted is None else mounted.places(evaluation.limits, stack)
            assert isinstance(evaluation.workspace, Workspace)  # nothing else is opened for this engine
            files = Files(HostFolder(evaluation.workspace), places, evaluation.limits)
            self._files = evaluation.folder, files, stack
        return self._files[1]
