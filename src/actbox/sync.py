"""The asynchronous API of actbox as plain calls, for scripts and notebooks, also where an event loop already runs.

One background thread has the event loop on which all sandboxes run. Calls may come from any other thread; Ctrl-C while
one waits cancels its run, as cancelling a task does in the asynchronous API. In that thread itself, where asynchronous
tools and callbacks run, a call raises `InvalidValue`: it would wait for ever. Only closing works there, and is done
soon, so that a finalizer may do it wherever garbage is collected. What iterates over events or results, and is dropped
before its end, is closed soon too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, overload

from .background_loop import call, close, close_soon
from .core.errors import InvalidValue
from .sandbox.opening import begin, with_environment
from .sandbox.opening import open_sandbox as _open_sandbox

if TYPE_CHECKING:
    from types import TracebackType

    from .core.events import Event
    from .core.labels import Label
    from .core.policy import Policy
    from .core.program import Program
    from .core.result import ExecutionResult
    from .sandbox.contract import Branches, Command, Sandbox, Session, Snapshot, Tools
    from .sandbox.egress.upstream import Upstream
    from .sandbox.mapping import Programs
    from .sandbox.storage import FileInfo, Files
    from .sandbox.traits import Traits

T = TypeVar("T")


def run(
    code: Program | str,
    *,
    inputs: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes | str] | None = None,
    dependencies: Sequence[str] = (),
    tools: Tools = None,
    timeout: float | None = None,
    policy: Policy | None = None,
    env: Mapping[str, str] | None = None,
    engine: str = "auto",
    allow_unisolated: bool = False,
) -> ExecutionResult:
    """Run one program in a new sandbox, remove the sandbox, and return the program's result.

    `inputs` are bound as variables, `files` placed below `/input`, `dependencies` are requirements such as
    `["openpyxl>=3.1"]` that the policy's `packages` allow, `tools` are functions that the program may call; `timeout`
    is in seconds and may only lower the policy's wall limit (default: 60 seconds). The other parameters, and the
    exceptions, are those of `open_sandbox`.
    """
    begun = begin(engine, policy)  # it gets ready while asyncio and the rest are imported
    from .core.policy import Policy
    from .core.program import Program
    from .sandbox.languages import language_of

    if not isinstance(code, Program):
        given = {} if inputs is None else inputs
        files = {} if files is None else files
        asked: Any = dependencies  # `Program` checks it
        code = Program(code, language_of(engine), inputs=given, files=files, dependencies=asked)
    elif inputs or files or dependencies:
        raise TypeError("a Program has its own inputs, files and dependencies: pass them to Program(…), not to run()")
    if isinstance(policy, Policy):
        policy = with_environment(policy, code, engine, allow_unisolated=allow_unisolated)
    with open_sandbox(engine, policy=policy, env=env, allow_unisolated=allow_unisolated) as box:
        del begun  # the sandbox has it
        return box.run(code, tools=tools, timeout=timeout)


def open_sandbox(
    engine: str = "auto",
    *,
    policy: Policy | None = None,
    env: Mapping[str, str] | None = None,
    allow_unisolated: bool = False,
    upstream: Upstream | None = None,
    **options: Any,
) -> SyncSandbox:
    """Return a synchronous sandbox, to be used with `with`. Arguments and exceptions are those of
    `actbox.open_sandbox`.
    """
    box = _open_sandbox(engine, policy=policy, env=env, allow_unisolated=allow_unisolated, upstream=upstream, **options)
    return SyncSandbox(box)


class SyncFiles:
    """The file methods of `Files` as plain calls."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read_file(self, path: str) -> bytes:
        """See `Files.read_file`."""
        return call(self._files.read_file(path))

    @property
    def label(self) -> Label:
        """See `Files.label`."""
        return self._files.label

    def write_file(self, path: str, data: bytes, *, mode: int | None = None, label: Label | str | None = None) -> None:
        """See `Files.write_file`."""
        call(self._files.write_file(path, data, mode=mode, label=label))

    def read_text(self, path: str) -> str:
        """See `Files.read_text`."""
        return call(self._files.read_text(path))

    def write_text(self, path: str, text: str, *, label: Label | str | None = None) -> None:
        """See `Files.write_text`."""
        call(self._files.write_text(path, text, label=label))

    def remove_file(self, path: str, *, recursive: bool = False) -> None:
        """See `Files.remove_file`."""
        call(self._files.remove_file(path, recursive=recursive))

    def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """See `Files.list_files`."""
        return call(self._files.list_files(path, recursive=recursive))

    def stat(self, path: str) -> FileInfo:
        """See `Files.stat`."""
        return call(self._files.stat(path))

    def make_dir(self, path: str) -> None:
        """See `Files.make_dir`."""
        call(self._files.make_dir(path))

    def move(self, source: str, target: str) -> None:
        """See `Files.move`."""
        call(self._files.move(source, target))


class SyncSandbox(SyncFiles):
    """A `Sandbox` whose methods are plain calls. Their contract is the one of `Sandbox`, name by name."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self._sandbox = sandbox

    @property
    def traits(self) -> Traits:
        """The `Traits` of the engine: its isolation, languages and enforced limits."""
        return self._sandbox.traits

    @property
    def root(self) -> str:
        """The path of the workspace as a program sees it."""
        return self._sandbox.root

    def start(self) -> None:
        """See `Sandbox.start`."""
        call(self._sandbox.start())

    def stop(self) -> None:
        """See `Sandbox.stop`."""
        close(self._sandbox.stop())

    def run(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> ExecutionResult:
        """See `Sandbox.run`."""
        return call(self._sandbox.run(program, tools=tools, timeout=timeout))

    def stream(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> Iterator[Event]:
        """See `Sandbox.stream`. Closing the iterator early ends the program."""
        return _Iterated(self._sandbox.stream(program, tools=tools, timeout=timeout))

    def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """See `Sandbox.run_alone`."""
        return call(self._sandbox.run_alone(program, tools=tools, timeout=timeout))

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> Iterator[Event]:
        """See `Sandbox.stream_alone`. Closing the iterator early ends the program."""
        return _Iterated(self._sandbox.stream_alone(program, tools=tools, timeout=timeout))

    def map(
        self,
        programs: Iterable[Program | str],
        *,
        tools: Tools = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        ordered: bool = True,
    ) -> Iterator[ExecutionResult]:
        """See `Sandbox.map`. An iterable that makes its programs as it goes is read in a thread, and so may wait.

        Closing the iterator early ends the programs under way.
        """
        source = _readable(programs)
        return _Iterated(
            self._sandbox.map(source, tools=tools, concurrency=concurrency, timeout=timeout, ordered=ordered)
        )

    def map_indexed(
        self,
        programs: Iterable[Program | str],
        *,
        tools: Tools = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        ordered: bool = False,
    ) -> Iterator[tuple[int, ExecutionResult]]:
        """See `Sandbox.map_indexed`, and `map`."""
        source = _readable(programs)
        return _Iterated(
            self._sandbox.map_indexed(source, tools=tools, concurrency=concurrency, timeout=timeout, ordered=ordered)
        )

    def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        """See `Sandbox.execute`."""
        return call(self._sandbox.execute(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Iterator[Event]:
        """See `Sandbox.execute_stream`."""
        return _Iterated(self._sandbox.execute_stream(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

    def session(self, *, forkable: bool = False) -> SyncSession:
        """See `Sandbox.session`."""
        return SyncSession(self._sandbox.session(forkable=forkable))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> NoReturn:
        raise TypeError(
            "write `with actbox.sync.open_sandbox(…) as box`, or `async with actbox.open_sandbox(…) as box`"
        )

    async def __aexit__(self, *exc_info: object) -> None:
        """Define the partner of `__aenter__`: without it Python raises its own error before `__aenter__` can explain
        `with`.
        """


class SyncSession(SyncFiles):
    """A `Session` whose methods are plain calls. Their contract is the one of `Session`, name by name."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session

    @property
    def alive(self) -> bool:
        """See `Session.alive`."""
        return self._session.alive

    def start(self) -> None:
        """See `Session.start`."""
        call(self._session.start())

    def close(self) -> None:
        """See `Session.close`."""
        close(self._session.close())

    def run(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> ExecutionResult:
        """See `Session.run`."""
        return call(self._session.run(program, tools=tools, timeout=timeout))

    def stream(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> Iterator[Event]:
        """See `Session.stream`. Closing the iterator early interrupts the program."""
        return _Iterated(self._session.stream(program, tools=tools, timeout=timeout))

    def fork(self) -> SyncSession:
        """See `Session.fork`."""
        return SyncSession(call(self._session.fork()))

    def snapshot(self) -> SyncSnapshot:
        """See `Session.snapshot`."""
        return SyncSnapshot(call(self._session.snapshot()))

    @contextlib.contextmanager
    def branches(self, count: int) -> Iterator[SyncBranches]:
        """See `Session.branches`."""
        from .sandbox.contract import Branches

        branches = call(Branches.of(self._session, count))
        try:
            yield SyncBranches(branches)
        finally:
            close(branches.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        raise TypeError("write `with box.session() as session`, or open the sandbox with `actbox.open_sandbox`")

    async def __aexit__(self, *exc_info: object) -> None:
        """Define the partner of `__aenter__`: without it Python raises its own error before `__aenter__` can explain
        `with`.
        """


class SyncSnapshot:
    """A `Snapshot` whose methods are plain calls."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def alive(self) -> bool:
        """See `Snapshot.alive`."""
        return self._snapshot.alive

    def fork(self) -> SyncSession:
        """See `Snapshot.fork`."""
        return SyncSession(call(self._snapshot.fork()))

    def close(self) -> None:
        """See `Snapshot.close`."""
        close(self._snapshot.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncBranches(Sequence[SyncSession]):
    """`Branches` whose methods are plain calls."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        self._sessions = tuple(SyncSession(session) for session in branches)

    def run(
        self, programs: Sequence[Program | str], *, tools: Tools = None, timeout: float | None = None
    ) -> list[ExecutionResult]:
        """See `Branches.run`."""
        return call(self._branches.run(programs, tools=tools, timeout=timeout))

    def keep(self, branch: int | SyncSession) -> SyncSession:
        """See `Branches.keep`."""
        place = branch if isinstance(branch, int) else self._place_of(branch)
        self._branches.keep(place)
        return self._sessions[place]

    def _place_of(self, branch: SyncSession) -> int:
        if branch not in self._sessions:
            raise InvalidValue("keep() takes one of the branches, or its index")
        return self._sessions.index(branch)

    @overload
    def __getitem__(self, place: int) -> SyncSession: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[SyncSession, ...]: ...

    def __getitem__(self, place: int | slice) -> SyncSession | tuple[SyncSession, ...]:
        return self._sessions[place]

    def __len__(self) -> int:
        return len(self._sessions)


_iterated: set[object] = set()
"""Asynchronous iterators that a synchronous iterator reads. These references keep the garbage collector from closing
the two in an arbitrary order.
"""


class _Iterated(Iterator[T]):
    """Yields what an asynchronous generator yields, which it closes.

    No generator itself: one that is dropped could not tell that from being closed, and would wait for the end of its
    program wherever garbage is collected.
    """

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items
        self._is_open = False
        self._is_over = False

    def __next__(self) -> T:
        if self._is_over:
            raise StopIteration
        if not self._is_open:
            self._is_open = True
            _iterated.add(self._items)
        try:
            item = call(self._next_item())
        except BaseException:
            with contextlib.suppress(RuntimeError):  # another thread waits for an item, or this one was interrupted
                self.close()
            raise
        if item is None:
            self.close()
            raise StopIteration
        return item

    async def _next_item(self) -> T | None:
        return await anext(self._items, None)

    def close(self) -> None:
        """End what yields the items, and wait for that. Raises `RuntimeError` if another thread waits for an item."""
        if self._is_open:
            close(self._items.aclose())  # type: ignore[attr-defined]
        self._is_left()

    def __del__(self) -> None:
        if self._is_left():
            with contextlib.suppress(RuntimeError):
                close_soon(self._items.aclose)  # type: ignore[attr-defined]

    def _is_left(self) -> bool:
        """Return True, once, if the generator has begun."""
        is_left, self._is_open, self._is_over = self._is_open, False, True
        _iterated.discard(self._items)
        return is_left


def _readable(programs: Iterable[Program | str]) -> Programs:
    # An iterable that computes its programs may itself call a sandbox; on the event loop it would block the loop that
    # it waits for.
    from .core.program import Program

    lazy = isinstance(programs, Iterable) and not isinstance(programs, (Sequence, Program))
    return _read_in_thread(programs) if lazy else programs


class _End:
    pass


async def _read_in_thread(programs: Iterable[Program | str]) -> AsyncIterator[Program | str]:
    from .sandbox.blocking import run_given

    iterator = iter(programs)
    while not isinstance(program := await run_given(next, iterator, _End()), _End):
        yield program
