"""The same sandboxes for scripts and notebooks: plain calls, also where an event loop is running already.

One background thread has the event loop on which all of them run. Calls may come from any thread; Ctrl-C while one
waits cancels its run, as cancelling a task does in the asynchronous API.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, overload

from .core.after_fork import in_a_forked_child
from .core.errors import InvalidValue
from .core.events import Event
from .core.policy import Policy
from .core.program import Program
from .core.result import ExecutionResult
from .sandbox.blocking import run_blocking
from .sandbox.contract import Command, FileInfo, Files, Sandbox, Session, Tools
from .sandbox.forks import Branches, Snapshot
from .sandbox.languages import language_of
from .sandbox.mapping import Programs
from .sandbox.opening import open_sandbox as _open_sandbox
from .sandbox.traits import Traits

if TYPE_CHECKING:
    from .sandbox.egress.upstream import Upstream

T = TypeVar("T")


def run(
    code: Program | str,
    *,
    inputs: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes | str] | None = None,
    tools: Tools = None,
    timeout: float | None = None,
    policy: Policy | None = None,
    env: Mapping[str, str] | None = None,
    engine: str = "auto",
    allow_unisolated: bool = False,
) -> ExecutionResult:
    """Run one program in a sandbox of its own, which is gone afterwards, and return what it came to.

    `inputs` are bound as variables, `files` placed below `/input`, `tools` are functions that the program may call;
    `timeout` is in seconds and may only lower the policy's wall limit (60 seconds unless told). The rest is as for
    `open_sandbox`, with the same exceptions.
    """
    if not isinstance(code, Program):
        given = {} if inputs is None else inputs
        code = Program(code, language_of(engine), inputs=given, files={} if files is None else files)
    elif inputs or files:
        raise TypeError("a Program brings its own inputs and files")
    with open_sandbox(engine, policy=policy, env=env, allow_unisolated=allow_unisolated) as box:
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
    """Return a sandbox to be used with `with`; everything else is as for `actbox.open_sandbox`."""
    box = _open_sandbox(engine, policy=policy, env=env, allow_unisolated=allow_unisolated, upstream=upstream, **options)
    return SyncSandbox(box)


class SyncFiles:
    """The file methods of `Files` as plain calls."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read_file(self, path: str) -> bytes:
        """See `Files.read_file`."""
        return _call(self._files.read_file(path))

    def write_file(self, path: str, data: bytes) -> None:
        """See `Files.write_file`."""
        _call(self._files.write_file(path, data))

    def read_text(self, path: str) -> str:
        """See `Files.read_text`."""
        return _call(self._files.read_text(path))

    def write_text(self, path: str, text: str) -> None:
        """See `Files.write_text`."""
        _call(self._files.write_text(path, text))

    def remove_file(self, path: str, *, recursive: bool = False) -> None:
        """See `Files.remove_file`."""
        _call(self._files.remove_file(path, recursive=recursive))

    def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        """See `Files.list_files`."""
        return _call(self._files.list_files(path, recursive=recursive))

    def stat(self, path: str) -> FileInfo:
        """See `Files.stat`."""
        return _call(self._files.stat(path))

    def make_dir(self, path: str) -> None:
        """See `Files.make_dir`."""
        _call(self._files.make_dir(path))

    def move(self, source: str, target: str) -> None:
        """See `Files.move`."""
        _call(self._files.move(source, target))


class SyncSandbox(SyncFiles):
    """A `Sandbox` whose methods are plain calls. Their contract is the one of `Sandbox`, name by name."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self._sandbox = sandbox

    @property
    def traits(self) -> Traits:
        """What the engine really does."""
        return self._sandbox.traits

    @property
    def root(self) -> str:
        """Where the workspace lies for a program."""
        return self._sandbox.root

    def start(self) -> None:
        """See `Sandbox.start`."""
        _call(self._sandbox.start())

    def stop(self) -> None:
        """See `Sandbox.stop`."""
        _call(self._sandbox.stop())

    def run(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> ExecutionResult:
        """See `Sandbox.run`."""
        return _call(self._sandbox.run(program, tools=tools, timeout=timeout))

    def stream(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> Iterator[Event]:
        """See `Sandbox.stream`. Closing the iterator early ends the program."""
        return _iterate(self._sandbox.stream(program, tools=tools, timeout=timeout))

    def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """See `Sandbox.run_alone`."""
        return _call(self._sandbox.run_alone(program, tools=tools, timeout=timeout))

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> Iterator[Event]:
        """See `Sandbox.stream_alone`. Closing the iterator early ends the program."""
        return _iterate(self._sandbox.stream_alone(program, tools=tools, timeout=timeout))

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
        return _iterate(
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
        return _iterate(
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
        return _call(self._sandbox.execute(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

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
        return _iterate(self._sandbox.execute_stream(command, stdin=stdin, cwd=cwd, env=env, timeout=timeout))

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
        """Beside `__aenter__`, without which Python would raise an error of its own first."""


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
        _call(self._session.start())

    def close(self) -> None:
        """See `Session.close`."""
        _call(self._session.close())

    def run(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> ExecutionResult:
        """See `Session.run`."""
        return _call(self._session.run(program, tools=tools, timeout=timeout))

    def stream(self, program: Program | str, *, tools: Tools = None, timeout: float | None = None) -> Iterator[Event]:
        """See `Session.stream`. Closing the iterator early interrupts the program."""
        return _iterate(self._session.stream(program, tools=tools, timeout=timeout))

    def fork(self) -> SyncSession:
        """See `Session.fork`."""
        return SyncSession(_call(self._session.fork()))

    def snapshot(self) -> SyncSnapshot:
        """See `Session.snapshot`."""
        return SyncSnapshot(_call(self._session.snapshot()))

    @contextlib.contextmanager
    def branches(self, count: int) -> Iterator[SyncBranches]:
        """See `Session.branches`."""
        branches = _call(Branches.of(self._session, count))
        try:
            yield SyncBranches(branches)
        finally:
            _call(branches.close())

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
        """Beside `__aenter__`, without which Python would raise an error of its own first."""


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
        return SyncSession(_call(self._snapshot.fork()))

    def close(self) -> None:
        """See `Snapshot.close`."""
        _call(self._snapshot.close())

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
        return _call(self._branches.run(programs, tools=tools, timeout=timeout))

    def keep(self, branch: int | SyncSession) -> SyncSession:
        """See `Branches.keep`."""
        place = branch if isinstance(branch, int) else self._place_of(branch)
        self._branches.keep(place)
        return self._sessions[place]

    def _place_of(self, branch: SyncSession) -> int:
        if branch not in self._sessions:
            raise InvalidValue("keep() takes one of the branches, or its place among them")
        return self._sessions.index(branch)

    @overload
    def __getitem__(self, place: int) -> SyncSession: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[SyncSession, ...]: ...

    def __getitem__(self, place: int | slice) -> SyncSession | tuple[SyncSession, ...]:
        return self._sessions[place]

    def __len__(self) -> int:
        return len(self._sessions)


class _Portal:
    """A daemon thread with an event loop, made anew in a forked process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="actbox-sync", daemon=True).start()

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()


_portal: _Portal | None = None
# Garbage may be collected while a loop is made, in the same thread, and a finalizer may want it: then it makes it.
_making = threading.RLock()


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the background thread, which lives as long as the process."""
    global _portal
    with _making:
        if _portal is None or _portal.owner != os.getpid():
            made = _Portal()
            if _portal is None or _portal.owner != made.owner:
                _portal = made
            else:
                made.loop.call_soon_threadsafe(made.loop.stop)
        return _portal.loop


def _forget_lock() -> None:
    global _making
    _making = threading.RLock()


in_a_forked_child(_forget_lock)  # another thread of the parent may have held it


def _call(coroutine: Coroutine[Any, Any, T]) -> T:
    future = asyncio.run_coroutine_threadsafe(coroutine, background_loop())
    try:
        return future.result()
    except BaseException:
        if not future.done():  # Ctrl-C: the run ends before we do
            finished = threading.Event()
            future.add_done_callback(lambda _: finished.set())
            future.cancel()
            finished.wait(5)
        raise


def _iterate(items: AsyncIterator[T]) -> Iterator[T]:
    async def next_item() -> T | None:
        return await anext(items, None)

    try:
        while (item := _call(next_item())) is not None:
            yield item
    finally:
        with contextlib.suppress(RuntimeError):
            _call(items.aclose())  # type: ignore[attr-defined]


def _readable(programs: Iterable[Program | str]) -> Programs:
    # What makes its programs as it goes may itself call a sandbox, and would then wait for the loop that it holds up.
    lazy = isinstance(programs, Iterable) and not isinstance(programs, (Sequence, Program))
    return _read_in_thread(programs) if lazy else programs


class _End:
    pass


async def _read_in_thread(programs: Iterable[Program | str]) -> AsyncIterator[Program | str]:
    iterator = iter(programs)
    while not isinstance(program := await run_blocking(next, iterator, _End()), _End):
        yield program
