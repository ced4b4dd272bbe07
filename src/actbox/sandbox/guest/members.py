"""Limits the time to rebuild sets and mappings that come from the other end of the channel.

Hashes of text and bytes cannot be predicted. Of other values a guest can choose many with the same hash, and a set
compares a new member with each one of the same hash: with n of them, n * n / 2 times, each as long as the members are.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List

MAX_KEYS = 10_000
"""The most members, other than text, of one set or keys of one mapping when it is rebuilt."""
MAX_SAME_HASHES = 250
"""The most members, other than text, with one hash. Every sixty-first power of two has the same hash."""
MAX_COMPARED = 2_000_000
"""The most comparisons of plain values with equal hashes, in all sets of one value together: some 40 ms."""
# A compared integer of many digits is first converted to a decimal. The other is for dates and UUIDs.
_COST_OF_DECIMAL = 13_000
_COST_OF_OTHERS = 32


class Comparisons:
    """The number of comparisons left for all sets and maps of one value."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_COMPARED


class Members:
    """The members of one set, or keys of one map, other than text, by hash. Its methods raise `ValueError`."""

    __slots__ = ("_comparisons", "_costs", "_same", "count")

    def __init__(self, comparisons: Comparisons) -> None:
        self.count = 0
        self._comparisons = comparisons
        self._same: Dict[int, List[Any]] = {}
        self._costs: Dict[int, int] = {}  # the cost of the most expensive member of each hash

    def like(self, member: Any) -> List[Any]:
        """Return the members with this member's hash. Raises `TypeError` for a value that cannot be a member."""
        return self._same.get(hash(member), [])

    def add(self, member: Any) -> None:
        """Count a member before it is added to its set. Raises `TypeError` for a value that cannot be one."""
        if type(member) is str or type(member) is bytes:
            return
        self.charge(member)
        same = self._same.setdefault(hash(member), [])
        same.append(member)
        self.count += 1
        if self.count > MAX_KEYS:
            raise ValueError("has more than %d keys or members that are no text" % MAX_KEYS)
        if len(same) > MAX_SAME_HASHES:
            raise ValueError("has more than %d keys or members of one hash" % MAX_SAME_HASHES)

    def charge(self, member: Any) -> None:
        """Charge the comparisons of a member with each one of its hash."""
        number = hash(member)
        same = self._same.get(number)
        if not same:
            return
        left = self._comparisons.left
        known = self._costs.get(number) or _cost(same[0], left)
        self._costs[number] = cost = max(known, _cost(member, left // len(same)))
        self._comparisons.left -= len(same) * cost
        if self._comparisons.left < 0:
            raise ValueError("has keys or members of one hash that take too long to be compared")


def _cost(value: Any, most: int) -> int:
    """Return how many plain values a comparison of this value takes; a count above `most` may be inexact."""
    if isinstance(value, int):
        return 1 + value.bit_length() // 4096
    if isinstance(value, float) or value is None:
        return 1
    if isinstance(value, (str, bytes)):
        return 1 + len(value) // 256
    if isinstance(value, dict):
        cost = _cost(value.keys() | set(), most)
        return cost + _cost([*value.values()], most - cost)
    cost = 1
    parts = value
    if not isinstance(value, (tuple, list, set, frozenset)):
        cost = _COST_OF_DECIMAL if type(value).__name__ == "Decimal" else _COST_OF_OTHERS
        fields: Any = getattr(value, "__dict__", ()) or getattr(value, "__dataclass_fields__", ())  # a host's class
        parts = [getattr(value, name, None) for name in fields]
    met: Dict[int, int] = {}
    for each in parts:
        times = 1
        if isinstance(value, (set, frozenset)):  # a set is compared with others of its hash
            number = hash(each)
            times = met[number] = met.get(number, 0) + 1
        cost += times * _cost(each, (most - cost) // times)
        if cost > most:
            break
    return cost
