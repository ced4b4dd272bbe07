"""Arguments of a call that come in pieces, each a value at a JSON path (RFC 9535, of which plain names and places)."""

from __future__ import annotations

import copy
import re
from typing import Any

from actbox.content.items import JsonObject
from actbox.content.wire.reading import list_or_empty, text_or_none

from .names import camel_or_none

_STEP = re.compile(r"\.([^.\[\]'\"]+)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialArguments:
    """Puts pieces of arguments together."""

    def __init__(self, arguments: JsonObject) -> None:
        self._arguments: dict[str, Any] = copy.deepcopy(arguments)
        self._continued: str | None = None

    @property
    def arguments(self) -> JsonObject:
        """What there is so far; a copy."""
        return copy.deepcopy(self._arguments)

    def add(self, pieces: Any) -> bool:
        """Take in `partialArgs`. False where one of them cannot be understood; those before it have been taken."""
        return all(self._add(piece) for piece in list_or_empty(pieces)) and isinstance(pieces, list)

    def _add(self, value: Any) -> bool:
        piece = camel_or_none(value) or {}
        path = text_or_none(piece.get("jsonPath"))
        given = [name for name in _VALUES if name in piece]
        steps = _steps(path) if path is not None else None
        if not steps or len(given) != 1:
            return False
        said = None if given[0] == "nullValue" else piece[given[0]]
        done = self._put(steps, said, appending=path == self._continued and isinstance(said, str))
        self._continued = path if piece.get("willContinue") is True else None
        return done

    def _put(self, steps: list[str | int], value: Any, *, appending: bool) -> bool:
        place: Any = self._arguments
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if not (isinstance(place, dict) if isinstance(step, str) else isinstance(place, list)):
                return False
            if isinstance(step, int) and step > len(place):
                return False
            there = place.get(step) if isinstance(step, str) else place[step] if step < len(place) else None
            if following is not None:
                new = there if isinstance(there, dict | list) else {} if isinstance(following, str) else []
            else:
                new = there + value if appending and isinstance(there, str) else value
            if isinstance(step, int) and step == len(place):
                place.append(new)
            else:
                place[step] = new
            place = new
        return True


def _steps(path: str) -> list[str | int] | None:
    if not path.startswith("$"):
        return None
    steps: list[str | int] = []
    end = 1
    while end < len(path):
        found = _STEP.match(path, end)
        if found is None:
            return None
        name, place, quoted, double = found.groups()
        steps.append(int(place) if place is not None else next(n for n in (name, quoted, double) if n is not None))
        end = found.end()
    return steps
