"""Which names a form mentions, answered without walking the form each time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from .budget import Meter
from .shapes import head_name
from .syntax import ListForm, Node, Symbol, VectorForm, walk

FORMS_PER_STEP = 4


class Mentions:
    """An index of the names in some forms. Forms are numbered in the order of the source, so a part is an interval."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._spans: dict[int, tuple[int, int]] = {}
        self._places: dict[str, list[int]] = defaultdict(list)
        self._kept: list[Node] = []
        self._count = 0

    def means(self, form: Node, name: str) -> bool:
        """Return whether the name, where it stands in the form, can mean a binding outside of it."""
        if not self.has(form, name):
            return False
        left = [form]
        while left:
            node = left.pop()
            self._meter.charge(1)
            if isinstance(node, Symbol):
                if node.name == name:
                    return True
            elif self.has(node, name):
                left.extend(_outside(node, name))
        return False

    def has(self, form: Node, name: str) -> bool:
        """Return whether the symbol stands in the form."""
        if id(form) not in self._spans:
            self._add(form)
        places = self._places.get(name)
        if not places:
            return False
        first, end = self._spans[id(form)]
        index = bisect_left(places, first)
        return index < len(places) and places[index] < end

    def _add(self, form: Node) -> None:
        self._kept.append(form)  # so that no other form gets its identity
        order = list(walk(form))
        self._meter.charge(len(order) // FORMS_PER_STEP)
        # A form that stands in several places, after a macro, has the same names in each.
        sizes: dict[int, int] = {}
        for node in reversed(order):
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in node.parts())
        for index, node in enumerate(order, self._count):
            self._spans[id(node)] = (index, index + sizes[id(node)])
            if isinstance(node, Symbol):
                self._places[node.name].append(index)
        self._count += len(order)


def _outside(form: Node, name: str) -> tuple[Node, ...]:
    """Return the parts of a form in which the name does not certainly mean something that the form itself binds."""
    parts = form.parts()
    if not isinstance(form, ListForm) or len(parts) < 2 or not isinstance(parts[1], VectorForm):
        return parts
    head = head_name(form)
    if head in ("fn", "λ"):
        return () if Symbol(name) in parts[1].items else parts[2:]
    if head in ("let", "loop", "for", "dotimes") and Symbol(name) in parts[1].items[::2]:
        # Pairs without types only: the values up to the one that the name is bound to.
        return parts[1].items[1 : 2 * parts[1].items[::2].index(Symbol(name)) + 2 : 2]
    return parts
