"""Scopes at compile time: the slot and frame that each name means, and the values that a function must capture."""

from __future__ import annotations

from typing import Any

from .code import WIDE_FRAME, Code, Instruction
from .syntax import NOWHERE, Position


class Slot:
    """The place of a local value. A boxed value is set after it may have been captured: its slot holds a list of one.

    `recursive`: it is bound by a `let` whose values mention their own names, and read too early it is a TypeError.
    """

    __slots__ = ("boxed", "index", "recursive")

    def __init__(self, index: int, *, boxed: bool = False, recursive: bool = False) -> None:
        self.index = index
        self.boxed = boxed
        self.recursive = recursive


class Label:
    """A place in the instructions that is not known yet."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index = -1


class Builder:
    """The function that is being compiled."""

    def __init__(self, name: str, arity: int, rest: bool, scope: Scope | None) -> None:
        self.code = Code(name, arity, rest)
        self.outer = scope
        """The scope that contains the function."""
        self.depth: int = scope.builder.depth + 1 if scope is not None else 0
        """The number of enclosing functions."""
        self.captures: dict[int, tuple[int, Slot, Builder]] = {}
        """The captured values: by the identity of the original slot, the index in the closure and the slot in the
        enclosing function.
        """
        self.kept: list[Slot] = []
        self.instructions: list[Instruction | Label | None] = []
        self.count = 0
        """The number of instructions so far, without reserved places."""
        self.slots = 1 + arity + (1 if rest else 0)
        self._first_blank = self.slots

    def slot(self) -> int:
        """Return a new slot."""
        self.slots += 1
        return self.slots - 1

    def emit(
        self, operation: int, cost: int, a: Any = None, b: Any = None, c: Any = None, at: Position = NOWHERE
    ) -> None:
        """Add an instruction."""
        self.instructions.append((operation, cost, a, b, c, at))
        self.count += 1

    def reserve(self) -> int:
        """Return a reserved place here, for an instruction that may be needed later."""
        self.instructions.append(None)
        return len(self.instructions) - 1

    def fill(
        self, place: int, operation: int, cost: int, a: Any = None, b: Any = None, c: Any = None, at: Position = NOWHERE
    ) -> None:
        """Put an instruction into a reserved place."""
        self.instructions[place] = (operation, cost, a, b, c, at)
        self.count += 1

    def mark(self, label: Label) -> None:
        """Set a label to the present place."""
        self.instructions.append(label)

    def finish(self) -> Code:
        """Return the function's code, with reserved places removed and labels resolved."""
        index = 0
        for item in self.instructions:
            if isinstance(item, Label):
                item.index = index
            elif item is not None:
                index += 1
        self.code.instructions = [
            (
                item[0],
                item[1],
                item[2],
                item[3].index if isinstance(item[3], Label) else item[3],
                item[4],
                item[5],
            )
            for item in self.instructions
            if item is not None and not isinstance(item, Label)
        ]
        self.code.blank = [None] * (self.slots - self._first_blank)
        if len(self.code.blank) > WIDE_FRAME:
            self.code.exact = -1
        return self.code


class Scope:
    """The names of one block. `builder` is the enclosing function; the global scope has no parent."""

    __slots__ = ("builder", "depth", "names", "parent")

    def __init__(self, builder: Builder, parent: Scope | None) -> None:
        self.builder = builder
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent is not None else 0
        """The number of enclosing blocks."""
        self.names: dict[str, Slot] = {}

    @property
    def is_global(self) -> bool:
        """True if definitions in this scope are global."""
        return self.parent is None

    def find(self, name: str) -> tuple[Slot, Builder] | None:
        """Return the slot of a name and the function that owns it; `None` for a global name."""
        scope: Scope | None = self
        while scope is not None:
            slot = scope.names.get(name)
            if slot is not None:
                return slot, scope.builder
            scope = scope.parent
        return None


def capture(slot: Slot, owner: Builder, user: Builder) -> int:
    """Return the index of another function's slot among the values that `user` captures; functions in between capture
    it too.
    """
    chain = []
    builder = user
    while builder is not owner:
        chain.append(builder)
        assert builder.outer is not None
        builder = builder.outer.builder
    for inner in reversed(chain):
        if id(slot) not in inner.captures:
            assert inner.outer is not None
            inner.captures[id(slot)] = (len(inner.captures), slot, owner)
            inner.kept.append(slot)
    return user.captures[id(slot)][0]
