"""One interpreter in WebAssembly: a program from a fresh start, or the programs of a session one after the other.

The library has put the interpreter into an event loop of its own, which waits for the host to say that there is an
order in the inbox. While a program runs that loop stands aside: the program has another one, as everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import io
import os
import sys

import _eryx  # type: ignore[import-not-found]

from . import clerk
from .failure import describe_exception
from .finish import flush_all, flush_output, note_exit, send_result, wait_for_threads
from .http_request import bind_http_request
from .inbox import Inbox, InboxLoop
from .missing import name_what_is_missing
from .program import Compiled, compile_program, new_main, run_in, set_out
from .randomness import reseed
from .tools import bind_tools
from .traces import keep_guest_out_of_warnings, leave_out
from .value import describe_value

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Awaitable, Callable, Coroutine, Dict, Iterator, Optional, Set

_MOST_ANSWER_BYTES = 64 * 2**20
_MESSAGES = 0  # the library's own standard output, which nothing else writes to


async def serve(path: str, next_order: Callable[[int], Awaitable[Any]]) -> int:
    """Do what the inbox at `path` says, until it says that there is nothing more.

    `next_order` is called with how many bytes have been sent, and returns when there is an order. Returns that number
    at the end.
    """
    sent = 0

    def send(frame: bytes) -> None:
        nonlocal sent
        sent += len(frame)
        _eryx._eryx_report_output(_MESSAGES, frame)

    inbox = Inbox(path, send)
    with _standing_aside():
        guest = _Guest(inbox)
    while True:
        await next_order(sent)
        with _standing_aside():
            if not guest.obey(inbox.next_order()):
                return sent


@contextlib.contextmanager
def _standing_aside() -> Iterator[None]:
    """Let a block have event loops and a `__main__` of its own, inside a task of the library's."""
    main = sys.modules["__main__"]
    loop = asyncio.get_running_loop()
    task = asyncio.tasks._swap_current_task(loop, None)  # type: ignore[attr-defined]
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        asyncio._set_running_loop(loop)
        asyncio.tasks._swap_current_task(loop, task)  # type: ignore[attr-defined]


class _Guest:
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._main = new_main({})
        self._file_names: Set[str] = set()
        self._bound: Dict[str, Any] = {}
        self._loop: Optional[InboxLoop] = None
        _own_streams()
        reseed()
        keep_guest_out_of_warnings()
        _own_event_loops(inbox)
        os.symlink = os.link = _no_links  # type: ignore[assignment]
        name_what_is_missing()
        leave_out("/python-stdlib/", "<socket_eryx>", "<ssl_eryx>")
        gc.freeze()  # at the end only what the program has made is looked through

    def obey(self, order: Dict[str, Any]) -> bool:
        """Run a program, do something with files, or end; return whether another order may follow."""
        if order["t"] == "files":
            self._inbox.max_bytes = _MOST_ANSWER_BYTES
            self._inbox.send(clerk.serve(order))
            return True
        if order["t"] == "end":
            self._end()
            return False
        done = self._run(order)
        if order["last"]:
            self._end()
        flush_output()
        self._inbox.end_calls()
        send_result(self._inbox, done)  # type: ignore[arg-type]
        return True

    def _end(self) -> None:
        """Do what is done when a script ends."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        wait_for_threads()
        self._main.__dict__.clear()
        flush_all()

    def _run(self, order: Dict[str, Any]) -> Dict[str, Any]:
        done: Dict[str, Any] = {"t": "done", "run": 0, "exit": 0}
        self._inbox.max_bytes = order["message_bytes"]
        os.environ.update(order["variables"])
        if not self._file_names:
            sys.path.insert(0, order["workspace"])
            os.chdir(order["workspace"])
        name = self._file_name(order["name"])
        sys.argv = [name]
        try:
            compiled = compile_program(order["code"], name)
        except SyntaxError as error:
            done["error"] = describe_exception(error, name)
            done["exit"] = 1
            return done
        self._bind(order, compiled, name)
        if set_out(order, done):
            self._execute(compiled, name, order, done)
        return done

    def _file_name(self, name: str) -> str:
        """Return a name that no program of the session has had: its functions' lines are looked up by it."""
        stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
        number, unique = 1, name
        while unique in self._file_names:
            number += 1
            unique = "%s-%d%s%s" % (stem, number, dot, suffix)
        self._file_names.add(unique)
        return unique

    def _bind(self, order: Dict[str, Any], compiled: Compiled, program_name: str) -> None:
        """Bind the tools and inputs of a program, and unbind tools of earlier ones that it was not given."""
        namespace = self._main.__dict__
        for name, function in self._bound.items():
            if namespace.get(name) is function:  # unless a program has given the name another meaning
                del namespace[name]
        self._bound = bind_tools(order["tools"], self._inbox, compiled.awaits, program_name)  # type: ignore[arg-type]
        if order["http"]:
            self._bound.setdefault("http_request", bind_http_request(self._inbox, compiled.awaits))  # type: ignore[arg-type]
        namespace.update(self._bound)
        namespace.update(order["inputs"])
        sys.modules["__main__"] = self._main  # where a program has replaced it

    def _execute(self, compiled: Compiled, name: str, order: Dict[str, Any], done: Dict[str, Any]) -> None:
        try:
            self._inbox.on_interrupt = _interrupt
            try:
                has_value, value = run_in(self._main, compiled, None if order["last"] else self._in_the_loop)
                if has_value and value is not None:
                    done.update(describe_value(value, self._inbox.max_bytes // 4))
                value = None
            finally:
                self._inbox.on_interrupt = lambda: None
        except SystemExit as stop:
            note_exit(done, stop)
        except BaseException as error:
            if order["last"] and issubclass(type(error), MemoryError):
                self._main.__dict__.clear()  # what is to be told needs memory too
            done["error"] = describe_exception(error, name, [spec["alias"] for spec in order["tools"]])
            done["exit"] = 1
            if isinstance(error, OSError) and error.errno == errno.EIO:
                done["error"].update(_why_it_failed(error, order["file_bytes"]))

    def _in_the_loop(self, program: Coroutine[Any, Any, None]) -> None:
        """Run a program in the event loop that those of a session share."""
        if self._loop is None or self._loop.is_closed():
            self._loop = InboxLoop(self._inbox)
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(program)
        try:
            loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            if not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.wait([task]))
            task.cancelled() or task.exception()
            raise


def _why_it_failed(error: OSError, most: int) -> Dict[str, Any]:
    """Return what to say of an input or output that has failed, of which no more is told than that."""
    if error.filename is not None:  # it could not even be opened
        return {"limit": "open_files", "hint": "close files when done with them (use `with`)"}
    for top in ("/workspace", "/output", "/tmp"):
        for folder, _, names in os.walk(top):
            for name in names:
                with contextlib.suppress(OSError):
                    if os.lstat(os.path.join(folder, name)).st_size >= most:
                        return {"kind": "DISK", "limit": "file_mib", "hint": "write smaller files"}
    return {}


def _interrupt() -> None:
    raise KeyboardInterrupt


def _no_links(source: Any, target: Any, *args: Any, **options: Any) -> None:
    """Stand for `os.symlink`: the library cannot list a folder any more in which there is a link that leads nowhere.

    And for `os.link`, which it has not.
    """
    raise OSError(errno.ENOTSUP, "no links can be made in this sandbox", str(target))


def _own_event_loops(inbox: Inbox) -> None:
    """Let whatever a program makes an event loop by make one that can wait here."""

    class Policy(asyncio.events._BaseDefaultEventLoopPolicy):  # type: ignore[name-defined,misc]
        @staticmethod
        def _loop_factory() -> InboxLoop:
            return InboxLoop(inbox)

    asyncio.events._event_loop_policy = Policy()  # type: ignore[attr-defined]


def _own_streams() -> None:
    """Make Python's standard streams anew: the library's keep all that is printed."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False), 64 * 1024),
            encoding="utf-8",
            errors="backslashreplace",  # a lone surrogate is shown, not an error
            line_buffering=True,
        )
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
