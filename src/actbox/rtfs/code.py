"""Compiled functions: straight lists of instructions over a frame of slots; and the environment in which they run.

A frame is a list: slot 0 holds what the closure captured, then come the arguments, then the names of the body and
what waits for a call to return. An instruction is a tuple of an operation, its cost in steps, its operands and its
place in the source. Operands are `Direct`: Python functions from a frame to a value, which call no closure of the
program and are nested at most `MAX_NESTING` deep. Everything else happens between instructions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .budget import Meter
from .syntax import Position
from .values import Value

Frame: TypeAlias = list[Any]
Direct: TypeAlias = Callable[[Frame], Value]

MAX_NESTING: Final = 24
"""The greatest nesting of operands; it bounds the host stack that one instruction can need."""

WIDE_FRAME: Final = 64
"""The number of slots from which on a frame is charged as memory."""

# The operations, with what the operands are, as the compiler writes them and the machine obeys them. The machine
# tells them apart by their order: what only goes on within a frame comes first, then what gives a value.
EVALUATE: Final = 0
"""direct, slot: put the value into the slot."""
JUMP_UNLESS: Final = 1
"""direct, target: jump to the target if the value is false or nil."""
JUMP: Final = 2
"""-, target: jump to the target."""
RETURN: Final = 3
"""direct: return the value."""
CALL: Final = 4
"""direct of the function, direct of the frame's start (a list: a place for slot 0, then the arguments), slot."""
TAIL_CALL: Final = 5
"""The same as CALL without a slot: the callee replaces the frame."""
BIND: Final = 6
"""steps of a pattern, name of the bound parameter or binding: a mismatch is a TypeError."""
MATCH: Final = 7
"""steps of a pattern, target: jump to the target on a mismatch."""
TRY: Final = 8
"""slot for the error, target: errors jump to the target from here on."""
END_TRY: Final = 9
"""Remove the innermost error handler."""
RAISE: Final = 10
"""slot: raise the error in it, if there is one."""
HOST: Final = 11
"""direct of the name, direct of arguments and metadata, slot."""

Instruction: TypeAlias = tuple[int, int, Any, Any, Any, Position]


class Code:
    """One function's instructions, and how its frame begins."""

    __slots__ = ("arity", "blank", "exact", "instructions", "leaf", "leaf_cost", "name", "rest")

    def __init__(self, name: str, arity: int, rest: bool) -> None:
        self.name = name
        self.arity = arity
        self.rest = rest
        """True if further arguments are gathered in a list, in the next slot."""
        self.exact = -1 if rest else arity + 1
        """The length of the start of a frame that needs no check; -1 if every call needs one."""
        self.blank: Frame = []
        """The empty slots that follow the arguments."""
        self.instructions: list[Instruction] = []
        self.leaf: Direct | None = None
        """The body, if it is one direct expression: such a function runs without a stack."""
        self.leaf_cost = 1


class Environment:
    """The globals and meter that an interpreter shares with its forks, whose functions have the same code. One of them
    runs at a time.
    """

    __slots__ = ("globals", "meter", "turn")

    def __init__(self, globals_: dict[str, Value], meter: Meter) -> None:
        self.globals = globals_
        self.meter = meter
        self.turn = threading.Lock()
        """The lock of the interpreter that runs, which sets the other two attributes first."""
