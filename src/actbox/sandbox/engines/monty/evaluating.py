"""Runs one program in one interpreter, from its first step to its outcome.

Each step of the interpreter runs in a thread, which also answers name lookups and file operations. The event loop
answers tool calls, sleeps and HTTP requests between two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actbox.core.after_fork import Owner
from actbox.core.counted import counted
from actbox.core.errors import ToolError
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.embedded import CallRefused, Evaluation, Outcome
from actbox.sandbox.embedded.http_request import NAME as HTTP_REQUEST
from actbox.sandbox.guest.tool_error import catchable
from actbox.sandbox.run_end import lost_value
from actbox.tools.large_values import aside
from actbox.tools.threads import ThreadPool

from . import outcome
from .files import Files, is_served
from .library import Interpreter
from .steps import Answer, Asked, Awaiting, Called, Ended, Failed, IllTyped, Lost, Named, Step
from .values import as_text, for_interpreter, is_bounded, transferred

if TYPE_CHECKING:
    from actbox.sandbox.embedded.http import Requests

T = TypeVar("T")

# A turn occupies a thread while its program computes; the pool in `library.py` has at most as many workers.
_turns = ThreadPool(limit=1024)

TOOL_ERROR: Final = "ToolError = Exception"
"""A line fed before a program that names `ToolError`.

The interpreter does not support subclasses of exceptions, so a failed call raises the built-in exception of the tool.
"""

NO_PROGRAM: Final = ""
"""The name of fed lines that are not a program, such as `TOOL_ERROR`."""

_NAMES_TOOL_ERROR = re.compile(r"\bToolError\b")
_SLEEPS = ("system.sleep", "system.async_sleep", "time.sleep", "asyncio.sleep")
_MOST_RANDOM_BYTES = 2**20
_MOST_UNDER_WAY = 1024
_INTERRUPT_SECONDS = 1.0
_MOST_FAILURES = 100
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})
_EXCEPTIONS = frozenset(
    [
        *("ArithmeticError", "AssertionError", "AttributeError", "FileExistsError", "FileNotFoundError", "IndexError"),
        *("IsADirectoryError", "KeyError", "LookupError", "NameError", "NotADirectoryError", "NotImplementedError"),
        *("OSError", "OverflowError", "PermissionError", "RuntimeError", "TimeoutError", "TypeError"),
        *("UnboundLocalError", "ValueError", "ZeroDivisionError"),
    ]
)
"""The exceptions of the interpreter that a failed call may raise."""


async def in_turn(interpreter: Interpreter, turn: Callable[[], T]) -> T:
    """Run a function of an interpreter in a thread. If the caller is cancelled, kill the interpreter and wait for it.

    A forked child does not touch the interpreter, which belongs to its parent.
    """
    owner = Owner()
    try:
        return await _turns.run(turn)
    except asyncio.CancelledError:
        if not owner.is_here:
            raise
        interpreter.kill()
        ending = asyncio.ensure_future(run_blocking(interpreter.wait))
        while not ending.done() and owner.is_here:  # even if the caller is cancelled again
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)
        raise


class Evaluating:
    """Runs one program. `names` maps the interpreter's earlier feeds to file names, and gets this program's."""

    def __init__(
        self,
        evaluation: Evaluation,
        files: Callable[[], Files],
        requests: Requests | None,
        names: dict[int, str],
        *,
        awaited: bool,
        checked: bool,
        keep: bool,
    ) -> None:
        """`files` is called in a thread, at the first file operation.

        With `keep`, the interpreter stays open at the end, because more programs of its session follow.
        """
        self._evaluation = evaluation
        self._files = files
        self._requests = requests
        self._names = names
        self._awaited = awaited
        self._checked = checked
        self._keep = keep
        self._aliases = {alias: name for name, alias in evaluation.toolset.aliases.items()}
        self._functions = {*self._aliases}
        if len(evaluation.toolset):
            self._functions.add("call_tool")
        if requests is not None:
            self._functions.add(HTTP_REQUEST)
        self._under_way: dict[int, asyncio.Task[Answer]] = {}
        self._failures: dict[str, tuple[outcome.Failure, str]] = {}
        """For the message of each failed call: the kind of failure, and the exception's name in the program."""

    async def finish(self, interpreter: Interpreter) -> Outcome:
        """Run the program. Raises `Failed`, `IllTyped` and `Lost`, which `outcome_of_failure` turns into an outcome."""
        step: Step | None = None
        try:
            step = await in_turn(interpreter, lambda: self._begin(interpreter))
            while not isinstance(step, Ended):
                step = await self._go_on(interpreter, step)
            return await aside(self._ended, step.value)
        except asyncio.CancelledError:
            if self._keep and step is not None and not interpreter.ended:
                await self._interrupt(interpreter, step)
            raise
        finally:
            for task in self._under_way.values():
                task.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way.values())
            if self._requests is not None:
                self._requests.close()

    def outcome_of_failure(self, error: Failed | IllTyped | Lost) -> Outcome:
        """Return the outcome of a program that failed with this error."""
        current = len(self._names) - 1
        if isinstance(error, IllTyped):
            del self._names[current]  # the interpreter does not count a program that it refused
            return outcome.ill_typed(error)
        if isinstance(error, Lost):
            return outcome.lost(error)
        limits, source = self._evaluation.limits, self._evaluation.program.code
        return outcome.failed(error, self._names, current, limits, self._failures, self._functions, source)

    def _ended(self, value: Any) -> Outcome:
        most = self._evaluation.limits.message_bytes
        if value is None:
            return Outcome()
        copy, lost = transferred(value, most)
        return Outcome(value=copy, value_text=as_text(value), warnings=lost_value(lost))

    # Answered in a thread

    def _begin(self, interpreter: Interpreter) -> Step:
        """Feed the program and return its first step for the event loop. Blocks."""
        program = self._evaluation.program
        if _NAMES_TOOL_ERROR.search(program.code):
            interpreter.feed(TOOL_ERROR, {}, self._evaluation.say, None, checked=False)
            self._names[len(self._names)] = NO_PROGRAM
        self._names[len(self._names)] = _unique(program.name, set(self._names.values()))
        step = interpreter.feed(
            program.code or "\n",
            for_interpreter(program.inputs),
            self._evaluation.say,
            "/workspace",
            checked=self._checked,
        )
        return self._served(interpreter, step)

    def _served(self, interpreter: Interpreter, step: Step) -> Step:
        """Answer steps that need no event loop; return the first step that does. Blocks."""
        while True:
            if isinstance(step, Named):
                known = step.name in self._functions or self._is_type(step.name)
                step = interpreter.bind(step.name) if known else interpreter.decline()
            elif isinstance(step, Asked) and step.function not in _SLEEPS:
                answer = self._of_the_system(step)
                step = interpreter.decline() if answer is None else interpreter.answer(answer)
            elif isinstance(step, Called) and step.name not in self._functions:
                unknown = Answer(error=NameError(f"name {step.name!r} is not defined"))
                step = interpreter.answer(_instance(step) if self._is_type(step.name) else unknown)
            else:
                if isinstance(step, Ended) and not self._keep:
                    interpreter.close()
                return step

    def _is_type(self, name: str) -> bool:
        """Return whether the tools' stubs declare a type with this name. The interpreter sees it as a function."""
        return self._evaluation.toolset.types_for(name) is not None

    def _of_the_system(self, asked: Asked) -> Answer | None:
        if asked.function == "os.environ":
            return Answer(dict(self._evaluation.variables))
        if asked.function == "os.getenv":
            return Answer(self._evaluation.variables.get(*asked.args))
        if asked.function == "os.urandom":
            (size,) = asked.args
            if size > _MOST_RANDOM_BYTES:
                return Answer(error=ValueError(f"os.urandom() gives at most {_MOST_RANDOM_BYTES:,} bytes here"))
            return Answer(os.urandom(size))
        if not is_served(asked.function):
            return None
        try:
            return Answer(self._files().serve(asked.function, asked.args, asked.kwargs))
        except (OSError, ValueError) as error:
            return Answer(error=error)

    # Answered in the event loop

    async def _go_on(self, interpreter: Interpreter, step: Step) -> Step:
        if isinstance(step, Awaiting):
            answers = await self._settled(step.ids)
            return await self._turn(interpreter, lambda: interpreter.settle(answers))
        assert isinstance(step, (Called, Asked)), step
        if isinstance(step, Asked):
            answering = _slept(*step.args)
            is_later = step.function.endswith("async_sleep") or step.function.startswith("asyncio")
        else:
            answering = self._answer(step)
            is_later = self._awaited
        if not is_later:
            answer = await answering
            return await self._turn(interpreter, lambda: interpreter.answer(answer))
        while (busy := [task for task in self._under_way.values() if not task.done()]) and len(busy) >= _MOST_UNDER_WAY:
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        self._under_way[step.id] = asyncio.create_task(answering)
        return await self._turn(interpreter, interpreter.later)

    async def _interrupt(self, interpreter: Interpreter, step: Step) -> None:
        """Raise `KeyboardInterrupt` in a waiting program to keep its session; kill the interpreter if it goes on."""
        interrupt = Answer(error=KeyboardInterrupt())
        if isinstance(step, Awaiting):
            act = functools.partial(interpreter.settle, dict.fromkeys(step.ids, interrupt))
        else:
            act = functools.partial(interpreter.answer, interrupt)
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self._turn(interpreter, act)
        except Failed:
            return
        except (Lost, TimeoutError):
            pass
        interpreter.kill()

    async def _turn(self, interpreter: Interpreter, act: Callable[[], Step]) -> Step:
        return await in_turn(interpreter, lambda: self._served(interpreter, act()))

    async def _settled(self, ids: tuple[int, ...]) -> dict[int, Answer]:
        awaited = {id: self._under_way[id] for id in ids}
        await asyncio.wait(awaited.values(), return_when=asyncio.FIRST_COMPLETED)
        return {id: self._under_way.pop(id).result() for id, task in awaited.items() if task.done()}

    async def _answer(self, called: Called) -> Answer:
        if called.name == HTTP_REQUEST and self._requests is not None:
            try:
                return Answer(await self._requests.request(called.args, called.kwargs))
            except (OSError, TypeError, ValueError) as error:
                if isinstance(error, OSError):
                    self._note(str(error), "network", type(error).__name__)
                return Answer(error=error)
        try:
            name, arguments = self._bound(called)
        except TypeError as error:
            return Answer(error=error)
        try:
            weigh = functools.partial(is_bounded, most_bytes=self._evaluation.limits.message_bytes)
            if not await aside(weigh, arguments):
                raise ToolError("the arguments are too large, or nested too deeply", tool=name)
            value = await self._evaluation.calls.call(name, arguments, self._line(called, name))
            return Answer(value if type(value) in _SCALARS else await aside(for_interpreter, value))
        except ToolError as error:
            kind = _raised_for(error)
            self._note(str(error), "refused" if isinstance(error, CallRefused) else "tool", kind.__name__)
            return Answer(error=kind(str(error)))

    def _note(self, message: str, failure: outcome.Failure, kind: str) -> None:
        """Record a failed call's message, in case the program ends with it. Only the last hundred are kept."""
        self._failures.pop(message, None)
        self._failures[message] = failure, kind
        if len(self._failures) > _MOST_FAILURES:
            del self._failures[next(iter(self._failures))]

    def _bound(self, called: Called) -> tuple[str, dict[str, Any]]:
        """Return the tool's name and its arguments by name."""
        args, arguments = called.args, dict(called.kwargs)
        if called.name == "call_tool":
            if not args or not isinstance(args[0], str):
                given = type(args[0]).__name__ if args else "nothing"
                raise TypeError(f"call_tool() takes a tool's name first, not {given}")
            if len(args) > 1:
                raise TypeError("call_tool() takes a tool's arguments by their names")
            return args[0], arguments
        name = self._aliases[called.name]
        tool = self._evaluation.toolset.get(name)
        parameters = () if tool is None else tool.parameters
        if tool is not None and tool.collects and len(args) > len(parameters):
            arguments = {tool.collects: list(args[len(parameters) :])} | arguments
        elif len(args) > len(parameters):
            raise TypeError(
                f"{called.name}() takes at most {counted(len(parameters), 'positional argument')}"
                f" ({', '.join(parameters)}), not {len(args)}"
            )
        for key, value in zip(parameters, args, strict=False):
            if key in arguments:
                raise TypeError(f"{called.name}() got two values for the argument {key!r}")
            arguments[key] = value
        return name, arguments

    def _line(self, called: Called, name: str) -> int | None:
        """Return the line of a call that needs approval, else `None`."""
        tool = self._evaluation.toolset.get(name)
        if tool is None or not self._evaluation.toolset.requires(tool) or called.feed != len(self._names) - 1:
            return None
        return self._evaluation.program.code.encode("utf-8", "replace")[: called.offset].count(b"\n") + 1


def _unique(name: str, used: set[str]) -> str:
    """Return a program's name made unique in its session, such as `program-2.py`."""
    stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
    number, unique = 2, name
    while unique in used:
        number, unique = number + 1, f"{stem}-{number}{dot}{suffix}"
    return unique


def _instance(called: Called) -> Answer:
    """Return the value of a call of a stub's type: an unchecked dict, as with a `TypedDict`."""
    try:
        return Answer(dict(*called.args, **called.kwargs))
    except (TypeError, ValueError) as error:
        return Answer(error=error)


def _raised_for(error: ToolError) -> type[Exception]:
    """Return the exception class to raise: the nearest class in the interpreter to the tool's built-in exception."""
    bases = (catchable(error.builtin) or RuntimeError).__mro__
    known: type[Exception] = next((each for each in bases if each.__name__ in _EXCEPTIONS), RuntimeError)
    return known


async def _slept(seconds: Any, *rest: Any) -> Answer:
    await asyncio.sleep(max(float(seconds), 0.0))
    return Answer(rest[0] if rest else None)
