"""`EmbeddedSandbox`: the whole contract for engines that evaluate programs in a library's interpreter."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.files import WorkspaceFiles, place_files
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.requests import check_given
from actbox.sandbox.run_slots import slots
from actbox.sandbox.siblings import AloneInSiblings, Siblings
from actbox.sandbox.storage import Storage
from actbox.sandbox.traits import check_lacking
from actbox.tools import Toolset

from .calls import HostCalls
from .evaluation import Evaluation, State
from .host import EmbeddedHost, EmbeddedSession
from .running import Asked, EmbeddedRun, Outcome

OpenStorage = Callable[[str, str], Storage]
"""Opens the files of a workspace, given its path and that of its `input` on the host. May raise `OSError`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace, and its place on the host."""

    workspace: Storage
    folder: str
    input_folder: str
    """The path of `input`: in the workspace's directory, or beside it, where only the engine gives programs access.

    The workspace's directory then has an empty one in its place.
    """

    @classmethod
    def make(cls, opened: OpenStorage, *, input_apart: bool = False) -> Place:
        """Return a new, empty place, whose files are opened with `opened`. Raises `OSError`."""
        folder = make_folder()
        inside = f"{folder}/workspace" if input_apart else folder
        for path in dict.fromkeys((inside, f"{folder}/input", f"{inside}/input", f"{inside}/output")):
            if path != folder:
                os.mkdir(path)
        return cls(opened(inside, f"{folder}/input"), inside, f"{folder}/input")

    def copy(self, opened: OpenStorage) -> Place:
        """Return a copy of the place with its files; links are copied as links. Raises `OSError`."""
        folder = make_folder()
        try:
            shutil.copytree(self._top, folder, symlinks=True, dirs_exist_ok=True)
            inside, given = f"{folder}{self.folder[len(self._top) :]}", f"{folder}/input"
            return Place(opened(inside, given), inside, given)
        except RecursionError:
            remove_folder(folder)
            raise OSError(errno.ELOOP, "its directories are nested too deeply") from None
        except BaseException:
            remove_folder(folder)
            raise

    def remove(self) -> None:
        """Remove the place, with everything in it."""
        self.workspace.close()
        remove_folder(self._top)

    @property
    def _top(self) -> str:
        return os.path.dirname(self.input_folder)


def by_descriptor(folder: str, input_folder: str) -> Storage:
    """Return the files of a workspace as this process reaches them on a POSIX system. Raises `OSError`."""
    from actbox.sandbox.workspace import Workspace, open_folder  # not every system can import it

    apart = None if os.path.dirname(input_folder) == folder else open_folder(input_folder)
    return Workspace(open_folder(folder), "/workspace", input_descriptor=apart)


Evaluate = Callable[[Evaluation], Coroutine[Any, Any, Outcome]]


class EmbeddedSandbox(WorkspaceFiles, AloneInSiblings, EmbeddedHost[Place, State]):
    """A sandbox whose programs are evaluated by the result of `_fresh`, which an engine implements.

    Its files lie in a temporary directory of the host, which the engine shows to its programs as `/workspace`.
    """

    _leaves_no_trace = True
    """True if everything a program can leave behind for the next one lies in the workspace."""
    _input_apart = False
    """True if `input` must lie beside the workspace's directory, not in it."""

    def __init__(self, policy: Policy) -> None:
        """Raise `Unsupported` for features of a policy that this engine lacks."""
        traits = self.traits
        for mount in policy.mounts:
            if mount.mode not in traits.mounts:
                raise Unsupported(f"the {traits.engine} engine cannot mount directories as {mount.mode!r}; linux can")
        if not traits.domains:
            check_lacking(policy, traits.engine, "domains", "secrets")
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
        super().__init__(policy)

    def _begin_in_this_process(self) -> None:
        super()._begin_in_this_process()
        self._siblings: Siblings[EmbeddedSandbox] = Siblings(self._sibling)

    # Methods for engines to implement

    @abstractmethod
    def _fresh(self) -> AbstractAsyncContextManager[Evaluate]:
        """Return the context of a function that evaluates one program afresh; it is entered before the clock starts."""

    async def _open(self) -> None:
        """Prepare what programs need. Raises `SandboxUnavailable`."""

    async def _close(self) -> None:
        """Release what `_open` prepared; no program runs any more."""

    def _sibling(self) -> Self:
        """Return another sandbox with the same policy."""
        return type(self)(self.policy)

    def _storage(self, folder: str, input_folder: str) -> Storage:
        """Return the files of a workspace at this path of the host. Blocks. Raises `OSError`."""
        return by_descriptor(folder, input_folder)

    # Overridden methods of `EmbeddedHost`

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

    def _leave_to_parent(self) -> None:
        place = self._place
        super()._leave_to_parent()
        if place is not None:
            place.workspace.close()

    async def _end_more(self) -> None:
        await self._siblings.stop()

    async def _check(self, program: Program, toolset: Toolset, place: Place) -> None:
        check_given(program, toolset, self.policy, self.root)
        await place_files(program, place.workspace)

    def _run_of(self, asked: Asked, place: Place, state: State | None) -> EmbeddedRun:
        return _LibraryRun(asked, place, self.policy, self._fresh() if state is None else nullcontext(state.evaluate))

    def _session_of(self, place: Place, forkable: bool) -> EmbeddedSession[Place, State]:
        return _FileSession(self, place, forkable=forkable)

    async def copy_place(self, place: Place) -> Place:
        try:
            return await run_blocking(place.copy, self._storage)
        except OSError as error:
            raise SandboxUnavailable(f"the session's files cannot be copied: {error.strerror or error}") from error

    async def remove_place(self, place: Place) -> None:
        await run_blocking(place.remove)

    def _running(self) -> Storage:
        return self._open_place().workspace

    def trace(self) -> object:
        """Return a change marker of the workspace. Equal markers mean it is untouched; `None` means unknown."""
        return self._place.workspace.trace() if self._place is not None and self._leaves_no_trace else None

    @property
    def is_quiet(self) -> bool:
        """True if no run is left."""
        return not self._runs


class _FileSession(WorkspaceFiles, EmbeddedSession[Place, State]):
    """A session whose programs have files."""

    def _running(self) -> Storage:
        self._check_open()
        return self._place.workspace


class _LibraryRun(EmbeddedRun):
    """A run whose program a library evaluates."""

    def __init__(
        self, asked: Asked, place: Place, policy: Policy, evaluator: AbstractAsyncContextManager[Evaluate]
    ) -> None:
        self.slots = slots()
        self.workspace = place.workspace
        self._place = place
        self._variables = policy.variables
        self._evaluator = evaluator
        super().__init__(asked)

    def _answering(self) -> HostCalls:
        calls = self._host_calls = HostCalls(self)
        return calls

    @asynccontextmanager
    async def _ready(self) -> AsyncIterator[None]:
        async with self._evaluator as self._evaluator_in_turn:
            yield

    def _evaluate(self) -> Coroutine[Any, Any, Outcome]:
        asked, place = self.asked, self._place
        return self._evaluator_in_turn(
            Evaluation(
                program=asked.program,
                toolset=asked.toolset,
                calls=self._host_calls,
                say=self.say,
                workspace=place.workspace,
                folder=place.folder,
                input_folder=place.input_folder,
                variables=self._variables,
                limits=asked.limits,
                seconds=asked.wall.seconds,
                packages=asked.packages.folder,
            )
        )
