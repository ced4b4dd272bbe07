"""The adapter to pydantic-monty, whose API changes often: no other file uses its names.

The library runs programs in its own worker processes, with an empty environment. Everything here blocks and is called
in threads. The library's asynchronous API is not used: it delivers the result of a cancelled step after the event loop
has closed, which aborts the whole process at the interpreter's exit.
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
from actbox.sandbox.traits import NotInstalled

from .steps import Answer, Asked, Awaiting, Called, Ended, Failed, Frame, IllTyped, Lost, Named, Settings, Step

_ADVICE = "pip install 'actbox[monty]'"

_MOST_WORKERS = 1024
_TRIAL_SECONDS = 10.0
# The library counts each name lookup, file operation and call; here time and `Limits` bound them instead.
_MOST_SUSPENSIONS = 2**31 - 1
_FEED = re.compile(r"<python-input-(\d+)>")
_SIGNAL = re.compile(r"\(signal: (\d+)")
# Two copies of a session must not continue with the same random numbers.
_SEED_ANEW = "exec('import random\\nrandom.seed()', {})"
# A forked child does not have the library's threads, so waiting for one there would never end.
_FORKED = (
    "the process from which this one was forked has used the monty engine, whose library does not outlive that: start"
    " a new process, such as with multiprocessing's 'spawn', or use the linux engine"
)
_users: set[int] = set()
"""The ids of processes that used the library: this one, if it did, and those that it was forked from."""
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


_holders: weakref.WeakSet[Workers | Interpreter] = weakref.WeakSet()


class Workers:
    """A pool of worker processes, shared by all sandboxes that opened it; the last `close` ends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._pool: Any = None
        _holders.add(self)

    def held(self) -> tuple[Any, ...]:
        """Return the library's objects that this pool refers to."""
        return (self._pool,)

    def open(self) -> None:
        """Start the pool, or count another user of it. Raises `SandboxUnavailable`."""
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
        """Count one user less; the last one ends the pool."""
        with self._lock:
            self._users -= 1
            if not self._users:
                pool, self._pool = self._pool, None
                if not _is_parents():  # the pool would wait for the parent's threads
                    pool.__exit__(None, None, None)

    def checkout(self, settings: Settings) -> Any:
        """Return a started session of the library. Raises `Lost`."""
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
        """The session starts at the first call of a method: fresh, or from the `state` of another session's dump.

        `state` is not authenticated: it must come from `dump` in this process.
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
        """True if no more programs can be fed."""
        _holders.add(self)

    def held(self) -> tuple[Any, ...]:
        """Return the library's objects that this interpreter refers to."""
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
        """Start a program and return its first step. Like all methods that resume it: raises `Failed`, `IllTyped`,
        `Lost`.
        """
        return self._turn(
            lambda: self._session.feed_start(
                code, inputs=dict(inputs), print_callback=say, cwd=cwd, skip_type_check=not checked
            )
        )

    def answer(self, answer: Answer) -> Step:
        """Resume with the result of a call or of a request to the operating system."""
        return self._turn(lambda: self._snapshot.resume(_result(answer)))

    def later(self) -> Step:
        """Resume a call with an awaitable, whose result `settle` delivers."""
        return self._turn(lambda: self._snapshot.resume({"future": ...}))

    def settle(self, answers: Mapping[int, Answer]) -> Step:
        """Resume with the results of calls that were answered with `later`."""
        return self._turn(lambda: self._snapshot.resume({id: _result(answer) for id, answer in answers.items()}))

    def decline(self) -> Step:
        """Resume with the library's own error for an unsupported request or an undefined name."""
        if isinstance(self._snapshot, _library().NameLookupSnapshot):
            return self._turn(lambda: self._snapshot.resume())
        return self._turn(lambda: self._snapshot.resume_not_handled())

    def bind(self, function: str) -> Step:
        """Resume a name lookup with a function of that name; calls of the function arrive as `Called`."""

        def host_function() -> None: ...

        host_function.__name__ = host_function.__qualname__ = function
        return self._turn(lambda: self._snapshot.resume(value=host_function))

    def dump(self) -> bytes:
        """Return the serialized state, between two programs. Raises `Lost`."""
        dumped: bytes = self._in_worker(lambda: self._session.dump())
        return dumped

    @property
    def closed(self) -> bool:
        """True if the worker was returned to the pool, or none was ever taken."""
        return self._closed or self._session is None

    def kill(self) -> None:
        """Kill the worker: a call under way raises `Lost`, and so do all later ones."""
        with self._lock:
            self.ended = True
            if self._in_turn and self._pid and not _is_parents():
                with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(self._pid, _KILL)

    def wait(self) -> None:
        """Wait until no call is under way."""
        with self._lock:
            while self._in_turn:
                self._turn_over.wait()

    def close(self) -> None:
        """Return the worker to the pool, which forgets the session. A second call does nothing."""
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
            if self._session.worker_pid is None:  # the worker has ended, such as by one huge allocation
                self.ended = True
            raise _failed(error, is_syntax=isinstance(error, library.MontySyntaxError)) from None
        finally:
            with self._lock:
                self._in_turn = False
                self._turn_over.notify_all()


def check_installed() -> None:
    """Raise `SandboxUnavailable` if the library is missing."""
    _library()


def check_not_forked() -> None:
    """Record that this process uses the library. Raises `SandboxUnavailable` if a process it was forked from did."""
    if _is_parents():
        raise SandboxUnavailable(_FORKED)
    _users.add(os.getpid())


def _is_parents() -> bool:
    return bool(_users) and os.getpid() not in _users


def try_worker() -> None:
    """Start a worker and have it evaluate `1 + 1`. Raises `SandboxUnavailable`."""
    library = _library()
    check_not_forked()
    try:
        with library.Monty(max_processes=1, request_timeout=_TRIAL_SECONDS) as pool, pool.checkout() as session:
            if session.feed_run("1 + 1") != 2:
                raise SandboxUnavailable("pydantic-monty's worker does not add up")
    except (OSError, RuntimeError, library.MontyError) as error:
        raise SandboxUnavailable(f"pydantic-monty cannot start its worker: {error}") from error


def file_handle(path: str, mode: str) -> Any:
    """Return the program's file object for `open(path, mode)`. Raises `ValueError` for an invalid mode."""
    return _library().MontyFileHandle(path, mode)


def path_of(argument: Any) -> str:
    """Return the absolute path of a file, given as a path or as a file object."""
    return str(getattr(argument, "path", argument))


def mode_of(handle: Any) -> str:
    """Return a file object's mode in its normal spelling, such as `rb`."""
    return str(handle.mode)


def file_status(status: os.stat_result) -> Any:
    """Return the program's `stat` result: an entry's kind, permissions, size and time, and nothing more."""
    from pydantic_monty import StatResult

    is_folder = (status.st_mode & 0o170000) == 0o040000
    if is_folder:
        return StatResult.dir_stat(status.st_mode & 0o777, status.st_mtime)
    return StatResult.file_stat(status.st_size, status.st_mode & 0o777, status.st_mtime)


def scan_entry(path: str, *, is_folder: bool, is_file: bool, is_link: bool) -> Any:
    """Return one entry of `Path.scan`; `path` is relative to the scanned directory."""
    from pydantic_monty import ScanEntry

    return ScanEntry(path, is_folder, is_file, is_link)


def shown_class(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the class name and attributes of an instance of a program's own class, else `None`."""
    if isinstance(value, _library().MontyClassProxy):
        return value.name, dict(value.attributes)
    return None


def _keep_for_good() -> None:
    """In a forked child, keep the parent's objects alive: freeing them would end the parent's workers."""
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
