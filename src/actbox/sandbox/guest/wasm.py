"""One interpreter in WebAssembly: runs one program in a fresh interpreter, or a session's programs one after the other.

The library runs the interpreter in its own event loop, which waits for the host to announce a request in the inbox.
While a program runs, that loop is detached, and the program has its own, as on other engines.
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

from . import display, file_server
from .error_hints import describe_exception
from .figures import save_into
from .finish import flush_all, flush_output, note_exit, send_result, wait_for_threads
from .inbox import Inbox, InboxLoop
from .missing import name_what_is_missing
from .program import Compiled, FileNames, compile_program, import_from, new_main, run_in, set_out
from .randomness import reseed
from .tools import bind_tools, bind_types
from .traces import keep_guest_out_of_warnings, leave_out
from .value import describe_value

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Awaitable, Callable, Coroutine, Dict, Iterator, Optional, Union

_MOST_ANSWER_BYTES = 64 * 2**20
# The built-in exceptions that the host names for a failed HTTP request.
_HTTP_ERRORS = {kind.__name__: kind for kind in (OSError, PermissionError, TypeError, ValueError)}
_MESSAGES = 0  # the library's own standard output, used only for messages


async def serve(path: str, next_order: Callable[[int], Awaitable[Any]]) -> int:
    """Serve the requests in the inbox at `path` until the last one.

    `next_order` is called with the number of bytes sent so far, and returns when there is a request. Returns that
    number at the end.
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
    """Detach the library's event loop and `__main__` for a block, which can then have its own."""
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
        self._file_names = FileNames()
        self._has_run = False
        self._bound: Dict[str, Any] = {}
        self._loop: Optional[InboxLoop] = None
        _own_streams()
        reseed()
        keep_guest_out_of_warnings()
        _own_event_loops(inbox)
        os.symlink = os.link = _no_links  # type: ignore[assignment]
        name_what_is_missing()
        leave_out("/python-stdlib/", "<socket_eryx>", "<ssl_eryx>")
        gc.freeze()  # so that the final collection examines only the program's objects

    def obey(self, order: Dict[str, Any]) -> bool:
        """Serve one request: run a program, a file operation, or the end; return whether another may follow."""
        if order["t"] == "files":
            self._inbox.max_bytes = _MOST_ANSWER_BYTES
            self._inbox.send(file_server.serve(order))
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
        """End as a script ends: cancel tasks, run `atexit` functions, flush files."""
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
        if not self._has_run:
            sys.path.insert(0, order["workspace"])
            import_from(order["variables"])
            os.chdir(order["workspace"])
            save_into(os.path.join(order["workspace"], "output"))
            display.catch_pictures()
            self._has_run = True
        name = self._file_names.unused(order["name"])
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
        display.finish(done)
        return done

    def _bind(self, order: Dict[str, Any], compiled: Compiled, program_name: str) -> None:
        """Bind a program's tools and inputs, and unbind tools of earlier programs that it was not given."""
        namespace = self._main.__dict__
        for name, function in self._bound.items():
            if namespace.get(name) is function:  # unless a program has rebound the name
                del namespace[name]
        self._bound = bind_tools(order["tools"], self._inbox, compiled.awaits, program_name)  # type: ignore[arg-type]
        if order["http"]:
            self._bound.setdefault("http_request", _http_request(self._inbox, compiled.awaits))
        namespace.update(self._bound)
        namespace.update(order["inputs"])
        bind_types(order, namespace)
        sys.modules["__main__"] = self._main  # a program may have replaced it

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
                self._main.__dict__.clear()  # reporting the error needs memory too
            done["error"] = describe_exception(error, name, [spec["alias"] for spec in order["tools"]])
            done["exit"] = 1
            if isinstance(error, OSError) and error.errno == errno.EIO:
                done["error"].update(_why_it_failed(error, order["file_bytes"]))

    def _in_the_loop(self, program: Coroutine[Any, Any, None]) -> None:
        """Run a program in the event loop shared by a session's programs."""
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
    """Return the likely limit and a hint for a failed I/O operation, for which the library gives no reason."""
    if error.filename is not None:  # the file could not even be opened
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
    """Replace `os.symlink`, because the library can no longer list a directory with a dangling link.

    Replaces `os.link` too, which the library lacks.
    """
    raise OSError(errno.ENOTSUP, "no links can be made in this sandbox", str(target))


def _own_event_loops(inbox: Inbox) -> None:
    """Make every way of creating an event loop return one that can wait here."""

    class Policy(asyncio.events._BaseDefaultEventLoopPolicy):  # type: ignore[name-defined,misc]
        @staticmethod
        def _loop_factory() -> InboxLoop:
            return InboxLoop(inbox)

    asyncio.events._event_loop_policy = Policy()  # type: ignore[attr-defined]


def _own_streams() -> None:
    """Open Python's standard streams anew: the library's keep all output in memory."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False), 64 * 1024),
            encoding="utf-8",
            errors="backslashreplace",  # a lone surrogate is shown, not an error
            line_buffering=True,
        )
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)


def _http_request(inbox: Inbox, awaited: bool) -> Callable[..., Any]:
    """Return `http_request` for a program: a coroutine function if the program uses `await`."""

    def http_request(
        url: str,
        method: str = "GET",
        headers: Optional[Dict[str, str]] = None,
        body: Optional[Union[str, bytes]] = None,
    ) -> Any:
        """Make an HTTP request; return its `status`, `headers`, `text` and `content`.

        Raises `PermissionError` for a request that is not allowed, and `OSError` for a host that cannot be reached.
        """
        arguments = {"url": url, "method": method, "headers": headers, "body": body}
        if awaited:
            return _awaited_response(inbox, arguments)
        return _response(inbox.call("http_request", arguments))

    http_request.__module__ = "__main__"
    http_request.__qualname__ = "http_request"
    return http_request


async def _awaited_response(inbox: Inbox, arguments: Dict[str, Any]) -> Dict[str, Any]:
    return _response(await inbox.call_async("http_request", arguments))


def _response(answer: Dict[str, Any]) -> Dict[str, Any]:
    if "raises" in answer:
        raise _HTTP_ERRORS[answer["raises"]](answer["message"])
    try:
        answer["text"] = answer["content"].decode(answer.pop("charset"), "replace")
    except (LookupError, ValueError):  # an encoding that Python does not know
        answer["text"] = answer["content"].decode("utf-8", "replace")
    return answer
