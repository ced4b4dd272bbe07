"""`EmbeddedSandbox`: the whole contract for engines that evaluate programs in an interpreter of a library's."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from actbox.core.after_fork import Owner
from actbox.core.errors import ErrorKind, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.core.events import Event
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Command, Session, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.files import WorkspaceFiles, place_files
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.languages import cannot_fork, engine_instead, in_language
from actbox.sandbox.requests import check_names, seconds_of
from actbox.sandbox.siblings import AloneInSiblings, Siblings
from actbox.sandbox.slots import Slots
from actbox.sandbox.storage import Storage
from actbox.sandbox.whole import whole
from actbox.tools import Toolset

from .calls import HostCalls
from .evaluation import Evaluation, Outcome, Say, State
from .running import Asked, EmbeddedRun
from .session import EmbeddedSession

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")

OpenStorage = Callable[[str, str], Storage]
"""From where a workspace and its `input` lie on the host to its files. May raise `OSError`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace, and where it lies on the host."""

    workspace: Storage
    folder: str
    input_folder: str
    """Where `input` lies: in the workspace's folder, or beside it, where no program has a way to it but the one that
    the engine makes. In the workspace's folder there is then an empty one in its place."""

    @classmethod
    def make(cls, opened: OpenStorage, *, input_apart: bool = False) -> Place:
        """Make one with nothing in it, whose files `opened` reaches. Raises `OSError`."""
        folder = make_folder()
        inside = f"{folder}/workspace" if input_apart else folder
        for path in dict.fromkeys((inside, f"{folder}/input", f"{inside}/input", f"{inside}/output")):
            if path != folder:
                os.mkdir(path)
        return cls(opened(inside, f"{folder}/input"), inside, f"{folder}/input")

    def copy(self, opened: OpenStorage) -> Place:
        """Make one with the same in it; links stay what they are. Raises `OSError`."""
        folder = make_folder()
        try:
            shutil.copytree(self._top, folder, symlinks=True, dirs_exist_ok=True)
            inside, given = f"{folder}{self.folder[len(self._top) :]}", f"{folder}/input"
            return Place(opened(inside, given), inside, given)
        except RecursionError:
            remove_folder(folder)
            raise OSError(errno.ELOOP, "its folders are nested too deeply") from None
        except BaseException:
            remove_folder(folder)
            raise

    def remove(self) -> None:
        """Remove it, and all that is in it."""
        self.workspace.close()
        remove_folder(self._top)

    @property
    def _top(self) -> str:
        return os.path.dirname(self.input_folder)


def by_descriptor(folder: str, input_folder: str) -> Storage:
    """Return the files of a workspace as this process reaches them on a POSIX system. Raises `OSError`."""
    from actbox.sandbox.workspace import Workspace, open_folder  # which not every system can import

    apart = None if os.path.dirname(input_folder) == folder else open_folder(input_folder)
    return Workspace(open_folder(folder), "/workspace", input_descriptor=apart)


class EmbeddedSandbox(WorkspaceFiles, AloneInSiblings):
    """A sandbox whose programs are evaluated by `_evaluate`, which is what an engine adds.

    Its files lie in a temporary folder of the host's, which the engine shows to its programs as `/workspace`.
    """

    _leaves_no_trace = True
    """Whether all that a program can leave behind for the next one is in the workspace."""
    _input_apart = False
    """Whether `input` is to lie beside the workspace's folder, and not in it."""

    def __init__(self, policy: Policy) -> None:
        """Raise `Unsupported` for what a policy gives or restricts and this engine does not have."""
        traits = self.traits
        for mount in policy.mounts:
            if mount.mode not in traits.mounts:
                raise Unsupported(f"the {traits.engine} engine cannot mount folders as {mount.mode!r}; linux can")
        for name in () if traits.domains else ("domains", "secrets"):
            if getattr(policy, name):
                raise Unsupported(f"the {traits.engine} engine cannot keep Policy.{name}; the linux engine can")
        if policy.domains and sys.platform != "linux":
            raise Unsupported(
                f"the {traits.engine} engine reaches Policy.domains on Linux only, by the egress proxy;"
                " give programs a tool that makes the requests"
            )
        for secret in policy.secrets:
            if secret.as_file:
                raise Unsupported(
                    f"the {traits.engine} engine cannot place the secret {secret.name!r} as a file; linux can"
                )
        self.policy = policy
        self._place: Place | None = None
        self._begin_in_this_process()

    def _begin_in_this_process(self) -> None:
        self._owner = Owner()
        self._starting = Slots(1, tools_wait=True)
        self._siblings: Siblings[EmbeddedSandbox] = Siblings(self._sibling)
        self._runs: set[EmbeddedRun] = set()
        self._sessions: set[EmbeddedSession] = set()

    # What an engine adds

    @abstractmethod
    async def _evaluate(self, evaluation: Evaluation) -> Outcome:
        """Evaluate a program from a fresh start."""

    async def _open_state(self) -> State:
        """Return an interpreter for a session. Raises `SandboxUnavailable`."""
        raise self._no_sessions()

    async def _open(self) -> None:
        """Make ready what programs need. Raises `SandboxUnavailable`."""

    async def _close(self) -> None:
        """Let go of what `_open` made ready; no program runs any more."""

    def _leave_to_parent(self) -> None:
        """In a forked child: close the descriptors of what is the parent's, and let go of it."""
        place, self._place = self._place, None
        self._begin_in_this_process()
        if place is not None:
            place.workspace.close()

    def _sibling(self) -> Self:
        """Return another sandbox like this one."""
        return type(self)(self.policy)

    def _storage(self, folder: str, input_folder: str) -> Storage:
        """Return the files of a workspace that lies there on the host. Blocks. Raises `OSError`."""
        return by_descriptor(folder, input_folder)

    # The contract

    async def start(self) -> None:
        if not self._owner.is_here:
            if self._place is not None:
                self._owner.check()
            self._leave_to_parent()
        async with self._starting.one():
            if self._place is None:
                self._place = await whole(self._opened(), self._let_go)

    async def stop(self) -> None:
        if not self._owner.is_here:
            self._leave_to_parent()
            return
        async with self._starting.one():
            place, self._place = self._place, None
            if place is None:
                return
            try:
                await asyncio.gather(self._siblings.stop(), *(session.close() for session in tuple(self._sessions)))
                runs = tuple(self._runs)
                for run in runs:
                    run.end(_STOPPED)
                await asyncio.gather(*(asyncio.wrap_future(run.ended) for run in runs))
            finally:
                await self._let_go(place)

    @property
    def root(self) -> str:
        return "/workspace"

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        run = await self._begun(program, tools, timeout)
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await (await self._begun(program, tools, timeout)).finish()

    def session(self, *, forkable: bool = False) -> Session:
        if not self.traits.sessions:
            raise self._no_sessions()
        if forkable and not self.traits.fork:
            raise cannot_fork(self.traits)
        place = self._there()

        def check_open() -> None:
            if self._place is not place:
                raise SandboxStopped("the session has ended with its sandbox, which was stopped; open a new one")

        session = EmbeddedSession(
            self._open_state,
            self._begun_in,
            place,
            self._sessions,
            storage=self._storage,
            check_open=check_open,
            traits=self.traits,
            forkable=forkable,
        )
        self._sessions.add(session)
        return session

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        self._refuse_commands()

    async def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        self._refuse_commands()

    def trace(self) -> object:
        """Return what is otherwise once a program has done something to the workspace, `None` where nobody can tell."""
        return self._place.workspace.trace() if self._place is not None and self._leaves_no_trace else None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left of what has run here."""
        return not self._runs

    # From a call to a run

    async def _begun(self, program: Program | str, tools: Tools, timeout: float | None) -> EmbeddedRun:
        return await self._begun_in(self._there(), program, tools, timeout, self._evaluate, None)

    async def _begun_in(
        self,
        place: Place,
        program: Program | str,
        tools: Tools,
        timeout: float | None,
        evaluate: Callable[[Evaluation], Coroutine[Any, Any, Outcome]],
        keeps_state: Callable[[], bool] | None,
        ready: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> EmbeddedRun:
        """Check what is to be run, place its files, and return the run, which has not begun to evaluate."""
        engine, limits = self.traits.engine, self.policy.limits
        seconds = seconds_of(timeout, limits.wall_seconds)
        asked = in_language(program, self.traits)
        toolset = Toolset.for_run(tools)
        if len(toolset) and not self.traits.tools:
            other = engine_instead(self.traits.languages)
            raise Unsupported(f"the {engine} engine has no tools; the {other} engine has")
        check_names(asked, toolset)
        await place_files(asked, place.workspace)

        def evaluation(calls: HostCalls, say: Say) -> Coroutine[Any, Any, Outcome]:
            return evaluate(
                Evaluation(
                    program=asked,
                    toolset=toolset,
                    calls=calls,
                    say=say,
                    workspace=place.workspace,
                    folder=place.folder,
                    input_folder=place.input_folder,
                    variables=self.policy.variables,
                    limits=limits,
                    seconds=seconds,
                )
            )

        run = EmbeddedRun(
            Asked(
                engine=engine,
                program=asked.code,
                toolset=toolset,
                seconds=seconds,
                limits=limits,
                workspace=place.workspace,
                evaluate=evaluation,
                ready=ready,
                keeps_state=keeps_state,
            )
        )
        self._runs.add(run)
        run.ended.add_done_callback(lambda _: self._runs.discard(run))
        return run

    async def _opened(self) -> Place:
        await self._open()
        try:
            return await run_blocking(Place.make, self._storage, input_apart=self._input_apart)
        except OSError as error:  # such as too many open files in this process
            await self._close()
            raise SandboxUnavailable(f"the sandbox cannot be opened: {error.strerror or error}") from error

    async def _let_go(self, place: Place) -> None:
        try:
            await self._close()
        finally:
            await run_blocking(place.remove)

    def _there(self) -> Place:
        if self._place is None:
            raise SandboxStopped("the sandbox is not running; use it inside `async with`, or call start() first")
        self._owner.check()
        return self._place

    def _running(self) -> Storage:
        return self._there().workspace

    def _no_sessions(self) -> Unsupported:
        traits = self.traits
        return Unsupported(
            f"the {traits.engine} engine has no sessions; the {engine_instead(traits.languages)} engine has"
        )

    def _refuse_commands(self) -> NoReturn:
        raise Unsupported(f"the {self.traits.engine} engine runs no commands; the linux engine does")
