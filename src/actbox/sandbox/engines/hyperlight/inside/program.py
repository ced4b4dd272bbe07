"""Runs programs in the machine: receives each from the host and sends its result."""

from __future__ import annotations

import ast
import builtins
import gc
import io
import os
import random
import sys
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NoReturn, cast

from ....guest import display, error_hints
from ....guest.figures import save_into
from ....guest.indentation import parse
from ....guest.program import Compiled, FileNames, compile_program, exit_code_of, new_main, run_in
from ....guest.tools import bind_tools, bind_types
from ....guest.value import describe_value
from ....guest.wire import ENVELOPE_BYTES, MessageTooLong
from .channel import HTTP_REQUEST, HostChannel, HostStream, bind_request, is_of_network
from .files import HostFiles, install

_SHORT_TEXT = 2_000
_ONLY_ALLOWED = "only hosts that the policy allows can be reached, and as it allows"
_NO_WAY = "this sandbox has no network; use the tools or the files that it was given"
_ELSEWHERE = "this engine has a part of the standard library; the linux engine has all of it, and packages"
# The standard library's modules, not all of which this machine has; any other missing module is a package.
_KEPT_ASIDE = frozenset(sys.stdlib_module_names)
_end_machine = os._exit


class Interpreter:
    """The state that lasts between the programs of a session; a fresh run has an unused one."""

    def __init__(self, channel: HostChannel) -> None:
        self._channel = channel
        self._main: ModuleType | None = None
        self._bound: dict[str, Any] = {}
        self._file_names = FileNames()
        self._take_the_place_of_what_would_end_the_machine()
        save_into("/workspace/output")
        display.catch_pictures()

    def run(self, given: str) -> None:
        """Run the program in the host's message, and send its result."""
        self._library_out = sys.stdout
        sys.stdout, sys.stderr = self._streams[1], self._streams[2]  # the library sets its own for each run
        message = self._channel.begin(given)
        done: dict[str, Any] = {"t": "done", "exit": 0}
        random.seed(int("".join(map(str, message["seed"]))))  # all machines start from the same snapshot
        os.environ.update(message["variables"])
        name = self._file_names.unused(message["name"])
        sys.argv = [name]
        try:
            compiled: Compiled | None = compile_program(message["code"], name)
        except SyntaxError as error:
            compiled = None
            done.update(exit=1, error=_describe_exception(error, name))
        if compiled is not None and compiled.awaits:
            self._channel.ask({"t": "lacks", "what": "await", "line": _awaiting_line(message["code"])})
            done.update(exit=1, error={"kind": "RUNTIME", "type": "", "message": "await"})
        elif compiled is not None:
            self._bind(message, compiled, name)
            self._execute(compiled, message, name, done)
        display.finish(done)
        self._flush()
        self._send(done)

    def _bind(self, message: dict[str, Any], compiled: Compiled, name: str) -> None:
        if self._main is None:
            self._main = new_main({})
        namespace = self._main.__dict__
        for bound, function in self._bound.items():
            if namespace.get(bound) is function:  # unless a program has bound the name to something else
                del namespace[bound]
        self._bound = {HTTP_REQUEST: bind_request(self._channel)} if message["network"] else {}
        self._bound |= bind_tools(message["tools"], cast(Any, self._channel), compiled.awaits, name)
        namespace.update(self._bound)
        namespace.update(message["inputs"])
        bind_types(message, namespace)
        sys.modules["__main__"] = self._main

    def _execute(self, compiled: Compiled, message: dict[str, Any], name: str, done: dict[str, Any]) -> None:
        assert self._main is not None
        try:
            has_value, value = run_in(self._main, compiled)
            if has_value and value is not None:
                done.update(describe_value(value, self._channel.max_bytes // 4))
        except SystemExit as stop:
            self._note_exit(done, stop)
        except BaseException as error:
            if isinstance(error, MemoryError) and not message["session"]:
                self._main.__dict__.clear()  # describing the error needs memory too
            done.update(exit=1, error=_describe_exception(error, name, [tool["alias"] for tool in message["tools"]]))
        if not message["session"]:
            self._main.__dict__.clear()  # closes files that the program left open

    def _note_exit(self, done: dict[str, Any], stop: SystemExit) -> None:
        done["exit"], text = exit_code_of(stop)
        if text is not None:
            print(text, file=sys.stderr)
        if done["exit"]:
            said = "the program ended itself with exit code %d" % done["exit"]
            done["error"] = {"kind": "EXIT", "type": "SystemExit", "message": text or said}

    def _send(self, done: dict[str, Any]) -> None:
        try:
            if short := self._channel.as_result(done):
                self._library_out.write(short)
            else:
                self._channel.ask(done)
        except (MessageTooLong, ValueError, RecursionError):
            for part in ("forms", "value"):
                done.pop(part, None)
            for holder, part in ((done, "text"), *((done.get("error", {}), key) for key in ("message", "traceback"))):
                if isinstance(holder.get(part), str):
                    holder[part] = error_hints.cut(holder[part], _SHORT_TEXT)
            self._channel.max_bytes += ENVELOPE_BYTES
            self._channel.ask(done)

    def _flush(self) -> None:
        try:
            self._files.flush()
        except Exception as error:
            print("a file could not be written out: %s" % error, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # a program may have replaced them with anything
                continue
        for stream in self._streams.values():
            if not stream.closed:
                stream.flush()

    def _take_the_place_of_what_would_end_the_machine(self) -> None:
        """Replace functions that the machine lacks by requests to the host: it has no sleep, terminal or processes."""
        self._streams = {
            number: io.TextIOWrapper(
                io.BufferedWriter(HostStream(self._channel, letter, number)),
                encoding="utf-8",
                errors="backslashreplace",  # a lone surrogate is escaped instead of raising
                line_buffering=True,
            )
            for number, letter in ((1, "o"), (2, "e"))
        }
        sys.stdout = sys.__stdout__ = self._streams[1]  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._streams[2]  # type: ignore[misc]
        sys.stdin = sys.__stdin__ = io.StringIO()  # type: ignore[misc, assignment]
        self._files = HostFiles(self._channel)
        install(self._files, self._write)
        builtins.input = _no_input
        time.sleep = self._sleep  # type: ignore[assignment]
        os._exit = self._exit  # type: ignore[assignment]
        _set_clocks()

    def _write(self, number: int, data: Any) -> int:
        if number not in self._streams:
            raise OSError(8, "Bad file descriptor")
        self._streams[number].flush()
        self._channel.say("o" if number == 1 else "e", bytes(data))
        return len(data)

    def _sleep(self, seconds: float, /) -> None:
        seconds = float(seconds)
        if not seconds >= 0:
            raise ValueError("sleep length must be non-negative")
        self._channel.ask({"t": "sleep", "seconds": min(seconds, 1e9)})

    def _exit(self, code: int) -> NoReturn:
        self._channel.ask({"t": "exit", "code": int(code) & 0xFF})
        _end_machine(code)


def _no_input(prompt: object = "", /) -> str:
    print(prompt, end="", flush=True)
    raise EOFError("EOF when reading a line")


def _set_clocks() -> None:
    """Base all clocks on the time of day, the only clock that the machine has set."""
    begun = time.time()
    time.monotonic = time.perf_counter = time.process_time = lambda: time.time() - begun
    time.monotonic_ns = time.perf_counter_ns = time.process_time_ns = lambda: int((time.time() - begun) * 1e9)


def _awaiting_line(source: str) -> int:
    for node in ast.walk(parse(source, "")):
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return node.lineno
        if isinstance(node, ast.comprehension) and node.is_async:
            return node.iter.lineno
    return 1


def _describe_exception(error: BaseException, program_name: str, tool_names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the result's description of an exception that the program did not catch; see `guest/error_hints.py`."""
    return error_hints.describe_exception(error, program_name, tool_names, _classified)


def _classified(error: BaseException, program_name: str, tool_names: Iterable[str]) -> tuple[str, str, str]:
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name == "socket":
            return "NETWORK", "", _NO_WAY
        if name in _KEPT_ASIDE:
            return "MISSING_DEPENDENCY", "", _ELSEWHERE
        if name not in sys.modules:
            return "MISSING_DEPENDENCY", "", "%s is not there: %s" % (name, _ELSEWHERE)
    if is_of_network(error):
        return "NETWORK", "", _ONLY_ALLOWED
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "PROCESSES", "processes", "this engine has no threads; the linux engine has"
    if isinstance(error, NameError):
        if getattr(error, "name", None) == HTTP_REQUEST:
            return "NETWORK", "", _NO_WAY
        return "RUNTIME", "", _name_hint(error, tool_names)
    return error_hints.classified(error, program_name, tool_names)


def _name_hint(error: NameError, tool_names: Iterable[str]) -> str:
    """Return a hint at the tool with a similar name, without `difflib`, which this interpreter lacks."""
    name = (getattr(error, "name", None) or "").lower()
    close = [tool for tool in tool_names if name and (name in tool.lower() or tool.lower() in name)]
    return "there is a tool named %s" % close[0] if close else ""


_interpreter: Interpreter


def start(dispatch: Any) -> None:
    """Make the interpreter that the machine's snapshot contains."""
    global _interpreter
    _interpreter = Interpreter(HostChannel(dispatch))
    gc.freeze()  # a collection would write to every object, and so to every page of the snapshot


def run(given: str) -> None:
    """Run the next program in the interpreter."""
    _interpreter.run(given)
