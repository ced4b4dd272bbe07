"""The contract that every engine keeps. The suite in `tests/contract/` has a test for each sentence.

The file methods of sandboxes and sessions are declared in `storage.py`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias, overload

from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.events import Completed, Event
from actbox.core.labels import Label
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Toolset

from .storage import Files
from .traits import Traits

if TYPE_CHECKING:
    from actbox.tools import Tool

    from .mapping import Programs, RunAlone

Tools: TypeAlias = "Toolset | Iterable[Tool | Callable[..., Any]] | None"
Command = str | Sequence[str]

NOT_RUNNING: Final = (
    "the sandbox is not running; use it inside its `with` block (`async with` in asynchronous code), or call start()"
    " first"
)
"""The message of `SandboxStopped` for a sandbox that was not started, or was stopped."""


class Session(Files):
    """Live interpreter state that several programs share, one after the other.

    Variables, imports, functions, classes, open files, threads, child processes and the working directory last from
    run to run; `/workspace` belongs to the sandbox. Names that a run bound before it failed stay bound, also after
    `sys.exit()`, which ends the run only. Each run binds its own inputs and tools. Inputs then stay bound like any
    variable. Tools of an earlier run that this run does not have are unbound, unless a program rebound the name.
    Each program decides for itself whether tools are coroutines, and that also holds for functions of earlier
    programs when they are called from it.

    Programs that use `await` share one event loop. Its tasks go on while such a program runs and between runs, not
    while a program without `await` runs. Tools answer only during a run: a call that is still unanswered when its run
    ends, or that is made between two runs, fails with `ToolError`. Output printed between two runs belongs to the
    next run.

    Packages that a program asks for, also by `%pip install`, stay for later programs and for copies made afterwards.

    Tracebacks show each program under its own file name: `program.py`, then `program-2.py`. An error's `line` is a
    line of the program that just ran.

    Runs queue: each begins when the previous run has ended or its stream is closed. The limits on wall time, output,
    tool calls and artifacts hold for each run; the limits on processor time, memory, processes and files hold for the
    session as a whole. A program that runs out of time, output or tool calls, or whose caller is cancelled, is
    interrupted: `KeyboardInterrupt` is raised in it, or its `await` is cancelled. If it has not ended two seconds
    later, the session is ended. `ExecutionResult.state_kept` is false in that case. A session that has ended by
    itself, by a crash or by a limit, answers every further run with `ErrorKind.SANDBOX` and exit code 125.

    A session that was opened as forkable can be copied: `fork()`, `snapshot()`, `branches()`. A copy starts with the
    variables and the files of `/workspace`, `/tmp` and `/dev/shm` as they are at that moment, and changes only its
    own from then on. Copying takes time in proportion to the files' size. Open files keep their names, positions and
    modes. Mounts that programs may write to are shared, and so are pipes, sockets and memory that was mapped as
    shared. Child processes stay with the original session: in a copy, its `Popen` objects have no process to wait
    for. The random generators of `random` and `numpy.random` are seeded anew. All copies and the original share the
    policy's limits on memory, processor time and processes. Copied files that lie in memory count as memory. A limit
    that is reached ends all of them, snapshots too. They trust each other: they see each other's processes. Each may
    be closed without the others.

    Methods raise `SandboxStopped` after `close()` and after the sandbox's `stop()`, which ends its sessions.
    """

    @property
    @abstractmethod
    def alive(self) -> bool:
        """True if a program could run in the session now: it is neither closed nor ended.

        It need not be started yet.
        """

    @abstractmethod
    async def start(self) -> None:
        """Make the interpreter ready; without this call the first run does so. A second call does nothing.

        Raises `SandboxUnavailable` if no interpreter can be started.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the interpreter as a script ends, or by force if a program is running. A second call does nothing."""

    @abstractmethod
    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Run a program in the session's state and yield its events, as `Sandbox.stream` does.

        `timeout` is in seconds and counts from the start of the program; time in the queue does not count.
        """

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program in the session's state and return its result."""
        return await _last(self.stream(program, tools=tools, timeout=timeout))

    @abstractmethod
    async def fork(self) -> Session:
        """Return a live copy of the session, which can be forked again. Waits for a running program to end.

        Raises `CannotFork` for a session that has ended, that has threads of its own (the message names them), or that
        has no processes left (`Limits.processes` counts the processes of all copies). Raises `Unsupported` for a
        session that was not opened as forkable, and `SandboxUnavailable` if the files cannot be copied.
        """

    async def snapshot(self) -> Snapshot:
        """Return a frozen copy of the session, from which live copies can be forked later.

        Raises what `fork` raises.
        """
        return Snapshot(await self.fork())

    @asynccontextmanager
    async def branches(self, count: int) -> AsyncIterator[Branches]:
        """Make `count` live copies for a block; its end closes all copies except those passed to `Branches.keep`.

        Raises what `fork` raises, and `InvalidValue` for a count below one.
        """
        branches = await Branches.of(self, count)
        try:
            yield branches
        finally:
            await branches.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "write `async with box.session() as session`, or open the sandbox with `actbox.sync.open_sandbox`"
        )

    def __exit__(self, *exc_info: object) -> None:
        """Exist only so that Python calls `__enter__`, which raises the helpful error."""


class Sandbox(Files):
    """A place where programs run.

    Every run starts fresh: variables, processes, memory, working directory and `/tmp` belong to one run. Only the files
    below `/workspace` last from run to run, until `stop()`. Runs may overlap; overlapping runs may race on files.
    `/input` (which programs cannot write) and `/output` are the same directories as `/workspace/input` and
    `/workspace/output`. If a program removed `/output`, or replaced it by something else, the next run makes it anew
    and adds a warning to its result.

    A sandbox belongs to the process that started it. In a forked child of that process, its methods and those of its
    sessions raise `SandboxUnavailable`, and `stop()` only closes the child's descriptors: the parent's runs and files
    stay as they are.

    A program that fails does not raise: its result gives the error. Methods raise `SandboxStopped` before `start()` and
    after `stop()`, `Unsupported` for what the engine lacks, and `InvalidValue` for invalid arguments.
    """

    traits: Traits
    _opener: Callable[[Policy], Sandbox] | None = None
    """The function that `open_sandbox` leaves, to open another one like it under another policy (`opened_under`)."""

    @abstractmethod
    async def start(self) -> None:
        """Make the sandbox ready. A second call does nothing. Raises `SandboxUnavailable` if it cannot be made."""

    @abstractmethod
    async def stop(self) -> None:
        """End every run and remove everything that the sandbox made. A second call does nothing."""

    @abstractmethod
    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Run a program and yield its events as they happen; the last event is `Completed`.

        `timeout` in seconds may only lower the policy's wall limit; a longer one adds a warning to the result. The
        tools are frozen when the run starts. Before each call of a tool that requires approval, the approver of
        `Toolset.asking` is asked, and the run's clock is paused; without an approver or an approval
        (`Toolset.approved`) such a run is refused with `InvalidValue`. Closing the iterator early, or cancelling the
        task that waits for it, ends the program and all its processes.
        """

    @abstractmethod
    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        """Run a shell command (text) or a program with arguments (a sequence) in the sandbox, as `stream` does.

        The shell is bash if the sandbox has it, else `/bin/sh`. `cwd` is a directory inside the sandbox (default:
        `/workspace`). `env` is added to the environment variables of every run.
        """

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program and return its result."""
        return await _last(self.stream(program, tools=tools, timeout=timeout))

    async def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        """Run a command and return its result."""
        return await _last(self.execute_stream(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

    # Many programs. Each has its own workspace, so none sees the files of another program or of this sandbox.

    @abstractmethod
    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Run a program as `run_alone` does, and yield its events as `stream` does."""

    @abstractmethod
    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program as `run` does, under the same policy, in a throwaway workspace of its own.

        Cancelling the call, or `stop()`, ends the program; the files that it wrote are gone when this returns. Raises
        `SandboxUnavailable` if there is no room for another workspace.
        """

    def run_alone_of_one_call(self) -> RunAlone:
        """Return `run_alone` for the programs of one call, such as `map`.

        They may follow one another behind the same walls, as the runs of an open sandbox do where an engine has lanes.
        Programs that must not, because different callers gave them, need `run_alone` itself.
        """
        return self.run_alone

    def map(
        self,
        programs: Programs,
        *,
        tools: Tools = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        ordered: bool = True,
    ) -> AsyncGenerator[ExecutionResult]:
        """Run many programs, each as `run_alone` does, and yield exactly one result for each.

        `programs` is any iterable, also an asynchronous or an endless one. It is read as results are taken, at most 8 ×
        `concurrency` ahead of them (2 × without `ordered`); an iterable that waits should be an asynchronous one.
        `concurrency` is how many run at once (default: two for each processor); `timeout`, in seconds for each, may
        only lower the policy's wall limit. The tools are frozen when `map` is called. With `ordered` results come in
        the order of the programs, else as they are ready: `map_indexed` also gives each program's index.

        A program that cannot be run (not text, an input with a tool's name, another language) yields a failed result
        with `ErrorKind.UNSUPPORTED`; if the sandbox failed, the result has `ErrorKind.SANDBOX`. The other programs go
        on. If `programs` itself raises, the results of the programs that it gave before come first. After `stop()`,
        programs under way yield `CANCELLED`, and then `SandboxStopped` is raised.

        Closing the iterator early, or cancelling the task that waits for it, ends all programs under way before it
        returns. Raises `InvalidValue` at once for invalid arguments.
        """
        from .mapping import without_index

        pairs = self.map_indexed(programs, tools=tools, concurrency=concurrency, timeout=timeout, ordered=ordered)
        return without_index(pairs)

    def map_indexed(
        self,
        programs: Programs,
        *,
        tools: Tools = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        ordered: bool = False,
    ) -> AsyncGenerator[tuple[int, ExecutionResult]]:
        """Run many programs as `map` does and yield `(index, result)`; by default in the order in which they finish.

        The index counts the programs from 0.
        """
        from .mapping import map_programs

        return map_programs(
            self.run_alone_of_one_call(),
            programs,
            engine=self.traits.engine,
            tools=Toolset.for_run(tools),
            concurrency=concurrency,
            timeout=timeout,
            ordered=ordered,
        )

    def session(self, *, forkable: bool = False) -> Session:
        """Return a session: live interpreter state, which starts with `async with` or the first run.

        A `forkable` session can be copied (`Session.fork`) and takes some milliseconds more to start. Raises
        `Unsupported` if `traits.sessions` is false or, for a `forkable` session, if `traits.fork` is.
        """
        raise Unsupported(
            f"the {self.traits.engine} engine keeps no state between runs; the linux engine does. Write values that"
            " must last to a file in the workspace"
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "write `async with actbox.open_sandbox(…) as box`, or `with actbox.sync.open_sandbox(…)` in plain code"
        )

    def __exit__(self, *exc_info: object) -> None:
        """Exist only so that Python calls `__enter__`, which raises the helpful error."""


@asynccontextmanager
async def closing(events: AsyncIterator[Event]) -> AsyncIterator[None]:
    """Close a stream of events when the block ends, however it ends; an iterator without `aclose` is left alone."""
    try:
        yield
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


async def _last(events: AsyncIterator[Event]) -> ExecutionResult:
    async with closing(events):
        async for event in events:
            if isinstance(event, Completed):
                return event.result
    raise AssertionError("a stream ended without Completed")


class Snapshot:
    """A frozen copy of a session: no program runs in it, and live copies can be forked from it at any time."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def alive(self) -> bool:
        """True if the snapshot could be forked now."""
        return self._session.alive

    @property
    def label(self) -> Label:
        """The label of the session's workspace, which copies share: the join of what their programs could have read."""
        return self._session.label

    async def fork(self) -> Session:
        """Return a live copy of the session as it was at the snapshot. Raises what `Session.fork` raises."""
        return await self._session.fork()

    async def close(self) -> None:
        """Close the frozen copy; copies forked from it live on. A second call does nothing."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


class Branches(Sequence["Session"]):
    """Live copies of a session, to try several continuations of it: `async with session.branches(10) as branches`."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = tuple(sessions)
        self._kept: set[int] = set()

    @classmethod
    async def of(cls, session: Session, count: int) -> Branches:
        """Return `count` copies of a session. Raises `InvalidValue`, and what `Session.fork` raises."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidValue(f"branches() takes the number of copies, a whole number above zero, not {count!r}")
        made: list[Session] = []
        try:
            for _ in range(count):
                made.append(await session.fork())
        except BaseException:
            await asyncio.shield(cls(made).close())
            raise
        return cls(made)

    async def run(
        self, programs: Sequence[Program | str], *, tools: Tools = None, timeout: float | None = None
    ) -> list[ExecutionResult]:
        """Run one program in each branch, all at once, and return the results in the same order.

        `timeout` is in seconds, for each program. Raises `InvalidValue` unless there are as many programs as branches.
        """
        if isinstance(programs, (str, Program)) or len(programs) != len(self):
            raise InvalidValue(f"run() takes a sequence of {len(self)} programs, one for each branch")
        pairs = zip(self, programs, strict=True)
        return await asyncio.gather(*(branch.run(program, tools=tools, timeout=timeout) for branch, program in pairs))

    def keep(self, branch: int | Session) -> Session:
        """Keep a branch open at the end of the block and return it: the caller closes it. `branch` may be its index."""
        if isinstance(branch, int):
            if branch not in range(-len(self), len(self)):
                raise IndexError(
                    f"keep() takes one of the {len(self)} branches, or its place, and {branch} is the place of none"
                )
            self._kept.add(range(len(self))[branch])
            return self._sessions[branch]
        if branch not in self._sessions:
            raise InvalidValue("keep() takes one of the branches, or its index")
        return self.keep(self._sessions.index(branch))

    async def close(self) -> None:
        """Close all branches that are not kept."""
        await asyncio.gather(
            *(session.close() for place, session in enumerate(self._sessions) if place not in self._kept)
        )

    @overload
    def __getitem__(self, place: int) -> Session: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Session, ...]: ...

    def __getitem__(self, place: int | slice) -> Session | tuple[Session, ...]:
        return self._sessions[place]

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions)
