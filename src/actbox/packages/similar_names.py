"""Names one slip away from a known one: a letter too many, missing, swapped or wrong, a separator, a look-alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_LOOK_ALIKES: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s"})


class SimilarNames:
    """Known names, found by a name that resembles one of them; the first of those given counts most.

    A name resembles another at a Damerau-Levenshtein distance of 1, or if the two differ only in separators, the order
    of their words, or characters that look alike. The search takes time by the length of the name, not by the number of
    known ones: two names one slip apart become equal when one letter of each, or of one, is left out.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._order = {name: place for place, name in enumerate(dict.fromkeys(known))}
        self._by_key: dict[str, list[str]] = {}
        for name in self._order:
            for key in _keys(name):
                self._by_key.setdefault(key, []).append(name)

    def nearest(self, name: str) -> str:
        """Return the known name that resembles a name; empty if there is none, or if the name is known itself."""
        if name in self._order:
            return ""
        forms = set(_forms(name))
        alike = (
            other
            for key in _keys(name)
            for other in self._by_key.get(key, ())
            if _is_one_slip(name, other) or not forms.isdisjoint(_forms(other))
        )
        return min(alike, key=self._order.__getitem__, default="")


def _keys(name: str) -> Iterator[str]:
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]
    for form in _forms(name):
        yield f"={form}"


def _forms(name: str) -> tuple[str, str]:
    """Return a name without separators and look-alikes, with its words in their own order and in alphabetical order."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    return _shape("".join(words)), _shape("".join(sorted(words)))


def _shape(text: str) -> str:
    return text.replace("rn", "m").replace("vv", "w").translate(_LOOK_ALIKES)


def _is_one_slip(one: str, other: str) -> bool:
    """Return True if one insertion, deletion, substitution or swap of neighbors makes one name the other."""
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return max(len(one), len(other)) == 1 or (len(one) == len(other) == 2 and one == other[::-1])
