"""The adapter to pydantic-monty, whose API moves: nothing outside this file names anything of it.

The library runs programs in worker processes of its own, with an empty environment. Everything here blocks, and is
called in threads: its asynchronous face delivers what a cancelled turn came to after the event loop has gone, which
ends the whole process at the interpreter's exit.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import signal
import threading
import weakref
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Literal

from actbox.core.after_fork import in_a_forked_child
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.not_installed import NotInstalled

from .steps import Answer, Asked, Awaiting, Called, Ended, Failed, Frame, IllTyped, Lost, Named, Settings, Step

_ADVICE = "pip install 'actbox[monty]'"

_MOST_WORKERS = 1024
_TRIAL_SECONDS = 10.0
# Every name that is looked up, file that is touched and call that is made counts; time and `Limits` bound them here.
_MOST_SUSPENSIONS = 2**31 - 1
_FEED = re.compile(r"<python-input-(\d+)>")
_SIGNAL = re.compile(r"\(signal: (\d+)")
# Two copies of a session must not go on with the same random numbers.
_SEED_ANEW = "exec('import random\\nrandom.seed()', {})"
# The library's threads are not in a child that is forked, and whoever waits for them there waits for good.
_FORKED = (
    "the process from which this one was forked has used the monty engine, whose library does not outlive that: start"
    " a new process, such as with multiprocessing's 'spawn', or use the linux engine"
)
_users: set[int] = set()
"""The processes that have used the library, of which all but one are parents of this."""
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


_holders: weakref.WeakSet[Workers | Interpreter] = weakref.WeakSet()


class Workers:
    """A pool of worker processes, for all who have opened it; the last to close it ends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._pool: Any = None
        _holders.add(self)

    def held(self) -> tuple[Any, ...]:
        """Return what of the library's it holds."""
        return (self._pool,)

    def open(self) -> None:
        """Have it ready, until `close` was called as often as this. Raises `SandboxUnavailable`."""
        with self._lock:
            if not self._users:
                library = _library()
                check_not_forked()
                try:
                    self._pool = library.Monty(max_processes=_MOST_WORKERS).__enter__()
                except (OSError, RuntimeError, library.MontyError) as error:
                    raise SandboxUnavailable(f"pydantic-monty cannot start its worker: {error}") from error
            self._users += 1

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            self._users -= 1
            if not self._users:
                pool, self._pool = self._pool, None
                if not _is_parents():  # whose threads the pool would wait for
                    pool.__exit__(None, None, None)

    def checkout(self, settings: Settings) -> Any:
        """Return a session of the library that has begun. Raises `Lost`."""
        pool, library = self._pool, _library()
        if pool is None:
            raise Lost("the sandbox was stopped", 0)
        if _is_parents():
            raise Lost(_FORKED, 0)
        session = pool.checkout(
            script_name=settings.script_name,
            limits={
                "max_memory": settings.memory_bytes,
                "max_feed_duration_secs": settings.cpu_seconds,
                "max_suspensions": _MOST_SUSPENSIONS,
            },
            type_check=settings.type_check,
            type_check_stubs=settings.stubs or None,
            type_check_format="concise",
        )
        try:
            session.__enter__()
        except (OSError, RuntimeError, library.MontyError) as error:
            raise Lost(f"no interpreter could be had: {error}", 0) from error
        return session


class Interpreter:
    """One session of the library. Its methods block; `kill` may be called from any thread at any time."""

    def __init__(self, workers: Workers, settings: Settings, state: bytes | None = None) -> None:
        """Begin with the first method that is called: fresh, or in the state that another was dumped in.

        The state is not authenticated: it must be one that `dump` has returned in this process.
        """
        self._workers = workers
        self._settings = settings
        self._state = state
        self._session: Any = None
        self._pid = 0
        self._snapshot: Any = None
        self._lock = threading.Lock()
        self._in_turn = False
        self._turn_over = threading.Condition(self._lock)
        self._closed = False
        self.ended = False
        """Whether nothing can be fed any more."""
        _holders.add(self)

    def held(self) -> tuple[Any, ...]:
        """Return what of the library's it holds."""
        return self._session, self._snapshot

    def feed(
        self,
        code: str,
        inputs: Mapping[str, Any],
        say: Callable[[Literal["stdout", "stderr"], str], None],
        cwd: str | None,
        *,
        checked: bool = True,
    ) -> Step:
        """Begin a program, and return the first step. Raises `Failed`, `IllTyped` and `Lost`, as all that go on do."""
        return self._turn(
            lambda: self._session.feed_start(
                code, inputs=dict(inputs), print_callback=say, cwd=cwd, skip_type_check=not checked
            )
        )

    def answer(self, answer: Answer) -> Step:
        """Go on with what a call, or what was asked, came to."""
        return self._turn(lambda: self._snapshot.resume(_result(answer)))

    def later(self) -> Step:
        """Go on with something that can be awaited in the place of a call's value."""
        return self._turn(lambda: self._snapshot.resume({"future": ...}))

    def settle(self, answers: Mapping[int, Answer]) -> Step:
        """Go on with what calls came to that were answered with `later`."""
        return self._turn(lambda: self._snapshot.resume({id: _result(answer) for id, answer in answers.items()}))

    def decline(self) -> Step:
        """Go on with the library's own error for what was asked, or for a name that there is not."""
        if isinstance(self._snapshot, _library().NameLookupSnapshot):
            return self._turn(lambda: self._snapshot.resume())
        return self._turn(lambda: self._snapshot.resume_not_handled())

    def bind(self, function: str) -> Step:
        """Go on with a function of that name as the value of a name; calls of it come as `Called`."""

        def host_function() -> None: ...

        host_function.__name__ = host_function.__qualname__ = function
        return self._turn(lambda: self._snapshot.resume(value=host_function))

    def dump(self) -> bytes:
        """Return the state, between two programs. Raises `Lost`."""
        dumped: bytes = self._in_worker(lambda: self._session.dump())
        return dumped

    @property
    def closed(self) -> bool:
        """Whether the worker was given back, or never had."""
        return self._closed or self._session is None

    def kill(self) -> None:
        """End what runs: a turn that is under way raises `Lost`, and so do all after it."""
        with self._lock:
            self.ended = True
            if self._in_turn and self._pid and not _is_parents():
                with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(self._pid, _KILL)

    def wait(self) -> None:
        """Return when no turn is under way."""
        with self._lock:
            while self._in_turn:
                self._turn_over.wait()

    def close(self) -> None:
        """Give the worker back, which forgets the session. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = self.ended = True
        if self._session is not None and not _is_parents():
            self._session.__exit__(None, None, None)

    def _turn(self, act: Callable[[], Any]) -> Step:
        snapshot = self._in_worker(act)
        self._snapshot = snapshot
        return _step(snapshot)

    def _start(self) -> None:
        session = self._workers.checkout(self._settings)
        with self._lock:
            self._session, self._pid = session, session.worker_pid
            if self.ended:
                raise Lost("the interpreter was ended", 0)
        state, self._state = self._state, None
        if state is not None:
            session.load_session(state)
            session.feed_run(_SEED_ANEW, skip_type_check=True)

    def _in_worker(self, act: Callable[[], Any]) -> Any:
        library = _library()
        with self._lock:
            if self.ended:
                raise Lost("the interpreter was ended", 0)
            if _is_parents():
                self.ended = True
                raise Lost(_FORKED, 0)
            self._in_turn = True
        try:
            if self._session is None:
                self._start()
            return act()
        except library.MontyTypingError as error:
            raise IllTyped(error.display()) from None
        except library.MontyCrashedError as error:
            self.ended = True
            raise Lost(str(error), _signal_in(str(error))) from None
        except (library.MontyRuntimeError, library.MontySyntaxError) as error:
            if self._session.worker_pid is None:  # such as one that asked for too much memory at once
                self.ended = True
            raise _failed(error, is_syntax=isinstance(error, library.MontySyntaxError)) from None
        finally:
            with self._lock:
                self._in_turn = False
                self._turn_over.notify_all()


def check_installed() -> None:
    """Raise `SandboxUnavailable` where the library is missing."""
    _library()


def check_not_forked() -> None:
    """Note that this process uses the library. Raises `SandboxUnavailable` where that from which it was forked did."""
    if _is_parents():
        raise SandboxUnavailable(_FORKED)
    _users.add(os.getpid())


def _is_parents() -> bool:
    return bool(_users) and os.getpid() not in _users


def try_worker() -> None:
    """Start a worker, and have it add. Raises `SandboxUnavailable`."""
    library = _library()
    check_not_forked()
    try:
        with library.Monty(max_processes=1, request_timeout=_TRIAL_SECONDS) as pool, pool.checkout() as session:
            if session.feed_run("1 + 1") != 2:
                raise SandboxUnavailable("pydantic-monty's worker does not add up")
    except (OSError, RuntimeError, library.MontyError) as error:
        raise SandboxUnavailable(f"pydantic-monty cannot start its worker: {error}") from error


def file_handle(path: str, mode: str) -> Any:
    """Return what a program gets for `open(path, mode)`. Raises `ValueError` for a mode that there is not."""
    return _library().MontyFileHandle(path, mode)


def path_of(argument: Any) -> str:
    """Return the absolute path of a file that was asked for by its path or by what `open` gave."""
    return str(getattr(argument, "path", argument))


def mode_of(handle: Any) -> str:
    """Return the mode of a handle in one spelling, such as `rb`."""
    return str(handle.mode)


def file_status(status: os.stat_result) -> Any:
    """Return what a program gets of a file's status: its kind, size and time, and nothing else of the host's."""
    from pydantic_monty import StatResult

    is_folder = (status.st_mode & 0o170000) == 0o040000
    if is_folder:
        return StatResult.dir_stat(status.st_mode & 0o777, status.st_mtime)
    return StatResult.file_stat(status.st_size, status.st_mode & 0o777, status.st_mtime)


def scan_entry(path: str, *, is_folder: bool, is_file: bool, is_link: bool) -> Any:
    """Return an entry of what `Path.scan` asks for; `path` is relative to what is scanned."""
    from pydantic_monty import ScanEntry

    return ScanEntry(path, is_folder, is_file, is_link)


def shown_class(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the class name and the attributes of an instance of one of the program's classes, else `None`."""
    if isinstance(value, _library().MontyClassProxy):
        return value.name, dict(value.attributes)
    return None


def _keep_for_good() -> None:
    """In a forked child: what was the parent's is never let go of, which would end the parent's workers."""
    for holder in tuple(_holders):
        for thing in holder.held():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


in_a_forked_child(_keep_for_good)


@functools.cache
def _library() -> ModuleType:
    try:
        import pydantic_monty
    except ImportError as error:
        raise NotInstalled("the monty engine needs pydantic-monty, which is not installed", _ADVICE) from error
    return pydantic_monty


def _step(snapshot: Any) -> Step:
    library = _library()
    if isinstance(snapshot, library.MontyComplete):
        return Ended(snapshot.output)
    if isinstance(snapshot, library.NameLookupSnapshot):
        return Named(snapshot.variable_name)
    if isinstance(snapshot, library.FutureSnapshot):
        return Awaiting(tuple(snapshot.pending_call_ids))
    if snapshot.is_os_function:
        return Asked(snapshot.function_name, snapshot.args, snapshot.kwargs, snapshot.call_id)
    position = snapshot.position
    return Called(
        snapshot.function_name,
        snapshot.args,
        snapshot.kwargs,
        snapshot.call_id,
        _feed_in(position.filename),
        position.start,
    )


def _result(answer: Answer) -> dict[str, Any]:
    return {"return_value": answer.value} if answer.error is None else {"exception": answer.error}


def _failed(error: Any, *, is_syntax: bool) -> Failed:
    type, _, message = error.display("type-msg").partition(": ")
    frames = tuple(Frame(_feed_in(at.filename), at.line, at.function_name or "") for at in error.traceback())
    return Failed(type, message, frames, error.display(), is_syntax=is_syntax)


def _feed_in(filename: str) -> int:
    found = _FEED.fullmatch(filename)
    return int(found[1]) if found else -1


def _signal_in(message: str) -> int:
    found = _SIGNAL.search(message)
    return int(found[1]) if found else 0
