"""Which names a form mentions, answered without walking the form each time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from .budget import Meter
from .syntax import Node, Symbol, walk

FORMS_PER_STEP = 4


class Mentions:
    """An index of the names in some forms. Forms are numbered in the order of the source, so a part is an interval."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._spans: dict[int, tuple[int, int]] = {}
        self._places: dict[str, list[int]] = defaultdict(list)
        self._kept: list[Node] = []
        self._count = 0

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
