"""An index of the names that a form mentions, which saves walking the form for each question."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from .budget import Meter
from .shapes import head_name
from .syntax import ListForm, Node, Symbol, VectorForm, walk

VISIT_STEPS = 4
"""The cost, in steps, of visiting one form."""


class MentionedNames:
    """The index of the names in one form. Its parts are numbered in source order, so a part is an interval of numbers.

    It is made when it is first needed. Forms that were made since, around parts of that form, are walked each time.
    """

    def __init__(self, meter: Meter, top: Node) -> None:
        self._meter = meter
        self._top: Node | None = top
        self._spans: dict[int, tuple[int, int]] = {}
        self._places: dict[str, list[int]] = defaultdict(list)

    def means(self, form: Node, name: str) -> bool:
        """Return True if the name, at its place in the form, can refer to a binding outside of the form."""
        self._meter.charge(1)
        if not self.has(form, name):
            return False
        left = [form]
        while left:
            node = left.pop()
            self._meter.charge(VISIT_STEPS)
            if isinstance(node, Symbol):
                if node.name == name:
                    return True
            elif self.has(node, name):
                left.extend(_outside(node, name))
        return False

    def has(self, form: Node, name: str) -> bool:
        """Return True if the symbol occurs in the form."""
        if self._top is not None:
            self._index(self._top)
            self._top = None
        left = [form]
        while left:
            node = left.pop()
            span = self._spans.get(id(node))
            if span is None:
                self._meter.charge(VISIT_STEPS)
                if isinstance(node, Symbol) and node.name == name:
                    return True
                left.extend(node.parts())
                continue
            places = self._places.get(name, [])
            index = bisect_left(places, span[0])
            if index < len(places) and places[index] < span[1]:
                return True
        return False

    def _index(self, form: Node) -> None:
        order = list(walk(form))
        sizes: dict[int, int] = {}
        for node in reversed(order):
            sizes[id(node)] = 1 + sum([sizes[id(part)] for part in node.parts()])
        # A form that occurs in several places, after a macro, has the same names in each.
        for index, node in enumerate(order):
            self._spans[id(node)] = (index, index + sizes[id(node)])
            if isinstance(node, Symbol):
                self._places[node.name].append(index)


def _outside(form: Node, name: str) -> tuple[Node, ...]:
    """Return the parts of a form in which the name may refer to a binding outside of the form."""
    parts = form.parts()
    if not isinstance(form, ListForm) or len(parts) < 2 or not isinstance(parts[1], VectorForm):
        return parts
    head = head_name(form)
    if head in ("fn", "λ"):
        return () if Symbol(name) in parts[1].items else parts[2:]
    if head in ("let", "loop", "for", "dotimes") and Symbol(name) in parts[1].items[::2]:
        # For untyped pairs, the values before that of the name, which may mean itself in a `let`.
        before = parts[1].items[::2].index(Symbol(name))
        return parts[1].items[1 : 2 * before + (0 if head == "let" else 2) : 2]
    return parts
