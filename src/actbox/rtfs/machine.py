"""The virtual machine: it executes instructions with its own stack and handlers, and keeps guest calls off Python's
stack.

`run` goes on until there is a value or an error, the program calls the host, or a slice of steps is over; the machine
then waits to be told to go on. Whoever drives it decides whether that happens at once or in an event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .budget import SLICE, Meter
from .code import (
    BIND,
    CALL,
    END_TRY,
    EVALUATE,
    HOST,
    JUMP,
    MATCH,
    RAISE,
    RETURN,
    TAIL_CALL,
    TRY,
    WIDE_FRAME,
    Code,
    Frame,
    Instruction,
)
from .failures import BudgetExhausted, RtfsError, type_error
from .functions import Closure, Function, arity_mismatch
from .library.maps import get_by_keyword
from .syntax import NOWHERE, Keyword, Position
from .values import List, Map, Value, described


@dataclass(frozen=True, slots=True)
class HostRequest:
    """The program called the host, and waits for `resume` or `fail`."""

    name: str
    arguments: tuple[Value, ...]
    meta: Map
    at: Position


class Paused:
    """A slice of steps is over; calling `run` continues."""


PAUSED: Final = Paused()


@dataclass(frozen=True, slots=True)
class Done:
    """The program ended with this value."""

    value: Value


class Machine:
    """One evaluation of one piece of code."""

    __slots__ = ("_at", "_code", "_frame", "_handlers", "_meter", "_pc", "_stack", "_waiting", "pauses")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.pauses = False
        """True if `run` returns at the end of each slice of steps."""
        self._stack: list[tuple[Any, Any, Frame, int]] = []
        """The callers that wait for a value: code, place, frame and slot; or a driven function (without code) and its
        calls.
        """
        self._handlers: list[tuple[int, Code, int, Frame, int]] = []
        """The error handlers: height of the stack, code, place, frame, slot."""
        self._frame: Frame = []
        self._code: Any = None
        self._pc = 0
        self._waiting = -1
        self._at: Position = NOWHERE

    def start(self, code: Code) -> None:
        """Begin to execute this code."""
        self._code, self._pc = code, 0
        self._frame = [(), *code.blank]
        self._stack.clear()
        self._handlers.clear()

    def roots(self) -> list[Any]:
        """Return the live values: the frames, and the values that driven functions have gathered so far."""
        found: list[Any] = [self._frame]
        for code, driven, frame, _ in self._stack:
            found.append(frame)
            if code is None and driven.gi_frame is not None:
                found.extend(driven.gi_frame.f_locals.values())
        return found

    def resume(self, value: Value) -> None:
        """Return the host's value to the program."""
        self._frame[self._waiting] = value

    def fail(self, error: RtfsError) -> None:
        """Raise the error at the program's host call. Raises it here if the program does not catch it."""
        error.located(self._at)
        if isinstance(error, BudgetExhausted) or not self._handlers:
            raise error
        self._code, self._pc, self._frame = self._caught(error)

    def _caught(self, error: RtfsError) -> tuple[Code, int, Frame]:
        height, code, pc, frame, slot = self._handlers.pop()
        del self._stack[height:]
        frame[slot] = error.with_traceback(None)
        return code, pc, frame

    def run(self) -> Done | HostRequest | Paused:
        """Run until the program ends, calls the host, or pauses. Raises `RtfsError` if the program ends with an
        error.
        """
        meter, stack, handlers = self._meter, self._stack, self._handlers
        depth = meter.budget.depth
        code, pc, frame = self._code, self._pc, self._frame
        instructions = code.instructions
        at = NOWHERE
        spent = 0
        meter.room = min(SLICE, meter.steps_left)
        # One loop with as few calls as possible: its speed is the speed of every program.
        while True:
            try:
                while True:
                    operation, cost, a, b, c, at = instructions[pc]
                    spent += cost
                    if spent > meter.room:
                        if self.pauses and spent > cost:
                            meter.charge(spent - cost)
                            meter.check_time()
                            self._code, self._pc = code, pc
                            return PAUSED
                        meter.charge(spent)
                        meter.check_time()
                        spent, meter.room = 0, min(SLICE, meter.steps_left)
                    pc += 1
                    if operation <= JUMP:
                        if operation == EVALUATE:
                            frame[b] = a(frame)
                        elif operation == JUMP:
                            pc = b
                        else:  # JUMP_UNLESS
                            test = a(frame)
                            if test is False or test is None:
                                pc = b
                        continue
                    if operation == RETURN:
                        value = a(frame)
                    elif operation <= TAIL_CALL:
                        function = a(frame)
                        arguments = b(frame)
                        if type(function) is Closure:
                            callee = function.code
                            if len(arguments) != callee.exact:
                                _fit(callee, arguments, meter)
                            arguments[0] = function.captured
                            if callee.leaf is None:
                                if operation == CALL:
                                    if len(stack) >= depth:
                                        raise meter.too_deep()
                                    stack.append((code, pc, frame, c))
                                if callee.blank:
                                    arguments += callee.blank
                                code, pc = callee, 0
                                self._frame = frame = arguments
                                instructions = callee.instructions
                                continue
                            if callee.blank:
                                arguments += callee.blank
                            spent += callee.leaf_cost
                            value = callee.leaf(arguments)
                            if operation == CALL:
                                frame[c] = value
                                continue
                        elif type(function) is Function and function.kind == "driven":
                            function.check_arity(len(arguments) - 1)
                            if operation == CALL:
                                stack.append((code, pc, frame, c))
                            if len(stack) >= depth:
                                raise meter.too_deep()
                            stack.append((None, function.call(meter, *arguments[1:]), arguments, 0))
                            value = None
                        else:
                            value = _call_plain(function, arguments, meter)
                            if operation == CALL:
                                frame[c] = value
                                continue
                    elif operation == BIND:
                        for step in a:
                            problem = step(frame)
                            if problem is not None:
                                raise type_error(f"what is taken apart {problem}")
                        continue
                    elif operation == MATCH:
                        for step in a:
                            if step(frame) is not None:
                                pc = b
                                break
                        continue
                    elif operation == TRY:
                        handlers.append((len(stack), code, b, frame, c))
                        continue
                    elif operation == END_TRY:
                        handlers.pop()
                        continue
                    elif operation == RAISE:
                        if frame[a] is not None:
                            raise frame[a]
                        continue
                    else:
                        assert operation == HOST
                        meter.charge(spent)
                        name = a(frame)
                        given, meta = b(frame)
                        self._code, self._pc, self._waiting, self._at = code, pc, c, at
                        return HostRequest(_host_name(name), given, meta, at)
                    # A value is ready: pass it to the caller that waits for it.
                    while True:
                        if not stack:
                            meter.charge(spent)
                            return Done(value)
                        entry = stack.pop()
                        if entry[0] is not None:
                            code, pc, frame, slot = entry
                            frame[slot] = value
                            self._frame = frame
                            instructions = code.instructions
                            break
                        spent += 1
                        if spent > meter.room:
                            if self.pauses:
                                meter.charge(spent - 1)  # the last step is charged when the machine continues
                                meter.check_time()
                                stack.append(entry)
                                self._code, self._pc = _returning(value), 0
                                return PAUSED
                            meter.charge(spent)
                            meter.check_time()
                            spent, meter.room = 0, min(SLICE, meter.steps_left)
                        try:
                            function, given = entry[1].send(value)
                        except StopIteration as stop:
                            value = stop.value
                            continue
                        stack.append(entry)
                        if type(function) is Closure:
                            arguments = [function.captured, *given]
                            callee = function.code
                            if len(arguments) != callee.exact:
                                _fit(callee, arguments, meter)
                            arguments += callee.blank
                            if callee.leaf is None:
                                code, pc = callee, 0
                                self._frame = frame = arguments
                                instructions = code.instructions
                                break
                            spent += callee.leaf_cost
                            value = callee.leaf(arguments)
                        elif type(function) is Function and function.kind == "driven":
                            function.check_arity(len(given))
                            if len(stack) >= depth:
                                raise meter.too_deep()
                            stack.append((None, function.call(meter, *given), [], 0))
                            value = None
                        else:
                            value = _call_plain(function, [None, *given], meter)
            except BudgetExhausted as error:
                raise error.located(_place(instructions, pc)) from None
            except RtfsError as error:
                error.located(at)
                if not handlers:
                    raise
                code, pc, frame = self._caught(error)
                self._frame = frame
                instructions = code.instructions


def _place(instructions: list[Instruction], pc: int) -> Position:
    """Return the source place of the last instruction before this one that has a place."""
    return next((instructions[i][5] for i in range(pc - 1, -1, -1) if instructions[i][5] is not NOWHERE), NOWHERE)


def _fit(callee: Code, arguments: Frame, meter: Meter) -> None:
    """Change the start of a frame to what the function expects. Raises ArityMismatch."""
    given = len(arguments) - 1
    if callee.rest:
        if given < callee.arity:
            raise arity_mismatch(callee, given)
        left = List(arguments[1 + callee.arity :])
        del arguments[1 + callee.arity :]
        arguments.append(meter.made(left))
    elif callee.arity == 0:  # a function without parameters takes any arguments
        del arguments[1:]
    elif given != callee.arity:
        raise arity_mismatch(callee, given)
    if len(callee.blank) > WIDE_FRAME:
        meter.allocate(8 * len(callee.blank))


def _call_plain(function: Any, arguments: Frame, meter: Meter) -> Value:
    """Call a function that needs no frame of its own: a library function or a keyword."""
    if type(function) is Function:
        function.check_arity(len(arguments) - 1)
        if function.kind == "plain":
            return function.call(*arguments[1:])
        return function.call(meter, *arguments[1:])
    if type(function) is Keyword:
        if not 2 <= len(arguments) <= 3:
            raise RtfsError("ArityMismatch", f":{function.name} takes a map and a default")
        return get_by_keyword(function, *arguments[1:])
    raise RtfsError("NotCallable", f"{described(function)} cannot be called")


def _host_name(name: Value) -> str:
    if type(name) is Keyword:
        return name.name
    if type(name) is str:
        return name
    raise type_error(f"call takes a capability's name, a keyword or a string, not {described(name)}")


def _returning(value: Value) -> Code:
    """Return the code of a function that returns this constant."""
    code = Code("paused", 0, False)
    code.instructions = [(RETURN, 0, lambda _: value, None, None, NOWHERE)]
    return code
