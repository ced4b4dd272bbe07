"""The contract that every engine keeps. The suite in `tests/contract/` has a test for each sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Self

from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Tool, Toolset

from .forks import Branches, Snapshot
from .mapping import Programs, map_programs, without_index
from .traits import Traits

Tools = Toolset | Iterable[Tool | Callable[..., Any]] | None
Command = str | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One entry of the workspace: `path` relative to `/workspace`, `size` in bytes, `modified` as Unix time."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    modified: float


class Files(ABC):
    """The files below `/workspace`, from outside.

    A path is relative to `/workspace`, or absolute below it (or `/input`, `/output`). None of the methods follows a
    link. Failures raise `FileError`, with the errno of the operating system where it gave one.
    """

    @property
    @abstractmethod
    def root(self) -> str:
        """Where the workspace lies for a program: `/workspace` on every engine that can place it."""

    @abstractmethod
    async def read_file(self, path: str) -> bytes:
        """Return a file's content."""

    @abstractmethod
    async def write_file(self, path: str, data: bytes) -> None:
        """Create or replace a file, making its parent folders. Also below `/input`, which programs cannot write."""

    @abstractmethod
    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty folder; with `recursive` a folder and all below it."""

    @abstractmethod
    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """Return the entries of a folder, sorted by path."""

    @abstractmethod
    async def stat(self, path: str) -> FileInfo:
        """Return one entry; a link is described, not followed."""

    @abstractmethod
    async def make_dir(self, path: str) -> None:
        """Make a folder and its parents; one that exists already is fine."""

    @abstractmethod
    async def move(self, source: str, target: str) -> None:
        """Rename within the workspace, making the target's parent folders and replacing a file that is there."""

    async def read_text(self, path: str) -> str:
        """Return a file's content as UTF-8 text."""
        return (await self.read_file(path)).decode("utf-8")

    async def write_text(self, path: str, text: str) -> None:
        """Create or replace a UTF-8 text file."""
        try:
            data = text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError) as error:
            raise InvalidValue(f"write_text() takes text that UTF-8 can say: {error}") from None
        await self.write_file(path, data)


class Session(Files):
    """Live interpreter state that several programs share, one after the other.

    Variables, imports, functions, classes, open files, threads, child processes and the working folder last from run
    to run; `/workspace` is the sandbox's. What a run bound before it failed stays bound, also after `sys.exit()`,
    which ends the run only. A program's inputs and tools are bound anew in each run; inputs then stay like any
    variable, tools that an earlier run had and this one has not are unbound, unless a program gave the name another
    meaning. Whether tools are coroutines is decided for each program by itself, and holds for functions of earlier
    programs too when they are called from it.

    Programs that use `await` share one event loop. Its tasks go on while such a program runs and between runs, not
    while a program without `await` runs. Tools answer only during a run: a call that is not answered at its end, or
    that is made between two, fails with `ToolError`. What is printed between two runs belongs to the next one's output.

    Tracebacks show each program under a file name of its own: `program.py`, then `program-2.py`; an error's `line` is
    one of the program that just ran.

    Runs queue: the next begins when the one before is over or its stream is closed. The limits on wall time, output,
    tool calls and artifacts hold for each run; those on processor time, memory, processes and files for the session
    as a whole. A program that runs out of time, output or tool calls, or whose caller is cancelled, is interrupted:
    `KeyboardInterrupt` is raised in it, or its waiting cancelled. If it has not ended a second later the session is
    ended. `ExecutionResult.state_kept` says which. A session that has ended by itself, by a crash or by a limit,
    answers every further run with `ErrorKind.SANDBOX` and exit code 125.

    A session that was opened as forkable can be copied: `fork()`, `snapshot()`, `branches()`. A copy has the variables
    that the origin had at that moment, and from then on its own; likewise the files of `/workspace`, `/tmp` and
    `/dev/shm`, at the price of their size, and with the same names, positions and modes what was open of them. Mounts
    that programs may write to are shared, and so are pipes, sockets and memory that was mapped as shared. Child
    processes stay the origin's: in a copy a `Popen` of the origin's has nobody to wait for. The random generators of
    `random` and `numpy.random` are seeded anew. All copies and the origin share the policy's limits on memory,
    processor time and processes: copied files count as memory where they lie in it, and a limit that is reached ends
    them all, snapshots too. They trust each other: they see each other's processes. Each may be closed without the
    others.

    Methods raise `SandboxStopped` after `close()` and after the sandbox's `stop()`, which ends its sessions.
    """

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether a program could run in it now: not closed, not ended; it need not have been started yet."""

    @abstractmethod
    async def start(self) -> None:
        """Make the interpreter ready, which the first run does otherwise. A second call does nothing.

        Raises `SandboxUnavailable` where it cannot be had.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the interpreter as a script ends, or by force if a program runs. A second call does nothing."""

    @abstractmethod
    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Run a program in the session's state and yield its events, as `Sandbox.stream` does.

        `timeout` counts from when the program begins, not while it queues.
        """

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program in the session's state and return what it came to."""
        return await _last(self.stream(program, tools=tools, timeout=timeout))

    @abstractmethod
    async def fork(self) -> Session:
        """Return a live copy, which can be forked again; it waits for a program that runs.

        Raises `CannotFork` for a session that has threads of its own, naming them, that has ended, or that may have no
        more processes (`Limits.processes` counts those of all copies); `Unsupported` for one that was not opened as
        forkable; and `SandboxUnavailable` where the files cannot be copied.
        """

    async def snapshot(self) -> Snapshot:
        """Return a frozen copy: what the session is now, to be forked from later. Raises what `fork` raises."""
        return Snapshot(await self.fork())

    @asynccontextmanager
    async def branches(self, count: int) -> AsyncIterator[Branches]:
        """Have so many live copies for a block; at its end all are closed but those that were kept.

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
        """Beside `__enter__`, without which Python would raise an error of its own first."""


class Sandbox(Files):
    """A place where programs run.

    Every run starts fresh: variables, processes, memory, working folder and `/tmp` belong to one run. What lasts from
    run to run is the files below `/workspace`, until `stop()`. Runs may go on at once; they may then race on files.
    `/input` (which programs cannot write) and `/output` are the same places as `/workspace/input` and
    `/workspace/output`. Where a program has removed `/output`, or put something else in its place, the next one finds
    it made anew, and its result has a warning.

    A sandbox belongs to the process that started it. In a forked child of that its methods and those of its sessions
    raise `SandboxUnavailable`, and `stop()` only lets go of it there: the parent's runs and files stay as they are.

    A program that fails does not raise: its result says why. Methods raise `SandboxStopped` before `start()` and
    after `stop()`, `Unsupported` for what the engine lacks, and `InvalidValue` for arguments that make no sense.
    """

    traits: Traits

    @abstractmethod
    async def start(self) -> None:
        """Make the sandbox ready. Raises `SandboxUnavailable` where it cannot be had; a second call does nothing."""

    @abstractmethod
    async def stop(self) -> None:
        """End every run and remove everything that the sandbox made. A second call does nothing."""

    @abstractmethod
    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Run a program and yield what it says as it goes; the last event is `Completed`.

        `timeout` in seconds may only lower the policy's wall limit. The tools are frozen when the run starts. Before a
        call of one that requires approval the approver of `Toolset.asking` is asked, and the run's clock stands still;
        without an approver or an approval (`Toolset.approved`) such a run is refused with `InvalidValue`.
        Closing the iterator early, or cancelling the task that waits for it, ends the program and all its processes.
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

        `cwd` is a folder inside the sandbox, `/workspace` unless told. `env` is added to the variables of every run.
        """

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program and return what it came to."""
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
        """Run a command and return what it came to."""
        return await _last(self.execute_stream(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

    # Many programs. Each has a workspace of its own, so that none sees what another left, nor this sandbox's files.

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

        Cancelling it ends the program, and `stop()` ends it too; what it wrote is gone when this returns. Raises
        `SandboxUnavailable` where there is no room for another workspace.
        """

    def map(
        self,
        programs: Programs,
        *,
        tools: Tools = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        ordered: bool = True,
    ) -> AsyncGenerator[ExecutionResult]:
        """Run many programs, each as `run_alone` does, and yield a result for each: none is lost, none comes twice.

        `programs` is any iterable, also an asynchronous or an endless one. It is read as results are taken, at most
        8 × `concurrency` ahead of them (2 × without `ordered`); an iterable that waits should be an asynchronous one.
        `concurrency` is how many run at once, two for each processor unless told; `timeout`, in seconds for each, may
        only lower the policy's wall limit. The tools are frozen when `map` is called. With `ordered` results come in
        the order of the programs, else as they are ready: `map_indexed` says which is whose.

        A program that cannot be run (no text, an input named as a tool, another language) has a failed result in its
        place with `ErrorKind.UNSUPPORTED`, one that the sandbox failed with `ErrorKind.SANDBOX`; the rest goes on.
        Where `programs` itself raises, the results of what it gave before come first. After `stop()`, what was under
        way is `CANCELLED`, and then `SandboxStopped` is raised.

        Closing the iterator early, or cancelling the task that waits for it, ends all programs under way before it
        returns. Raises `InvalidValue` at once for arguments that make no sense.
        """
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
        """Run many programs as `map` does and yield `(index, result)`, as they are ready unless told.

        The index counts the programs from 0.
        """
        return map_programs(
            self.run_alone,
            programs,
            engine=self.traits.engine,
            tools=Toolset.for_run(tools),
            concurrency=concurrency,
            timeout=timeout,
            ordered=ordered,
        )

    def session(self, *, forkable: bool = False) -> Session:
        """Open live interpreter state, which begins with `async with` or the first run.

        A `forkable` one can be copied (`Session.fork`); it takes some milliseconds more to begin. Raises `Unsupported`
        where `traits.sessions` is false or, for a `forkable` one, `traits.fork`.
        """
        raise Unsupported(
            f"the {self.traits.engine} engine keeps no state between runs; the linux engine does. Write what must last"
            " to a file in the workspace"
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
        """Beside `__enter__`, without which Python would raise an error of its own first."""


@asynccontextmanager
async def closing(events: AsyncIterator[Event]) -> AsyncIterator[None]:
    """Close a stream at the end of the block, however it is left; an iterator that cannot be closed is left alone."""
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
