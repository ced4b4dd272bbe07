"""A bounded log of the tool calls of one run and their results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from .counted import counted
from .events import Event, ToolFinished, ToolStarted

MOST_CALLS: Final = 100
"""The number of calls that are recorded one by one; further calls are only counted."""
MOST_TOOLS: Final = 100
"""The number of names under which further calls are counted. A program may call tools that do not exist, under any
number of names.
"""
MOST_ARGUMENT_CHARS: Final = 400
"""Characters of one call's arguments as JSON text."""
MOST_STRING_CHARS: Final = 120
"""Characters of one string among the arguments, so that a long string leaves room for the other arguments."""
MOST_ERROR_CHARS: Final = 400
MOST_NAME_CHARS: Final = 100

OTHER_TOOLS: Final = "(other tools)"
"""The name under which further calls are counted once there are `MOST_TOOLS` names. No tool can have this name."""

_MOST_DEPTH = 20

Status = Literal["returned", "failed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """One tool call that a program made.

    `call_id` is that of its `ToolStarted`. `arguments` is the program's arguments as one line of JSON text: long ones
    are cut at a `…`, bytes are replaced by their number, and a number that JSON lacks is a string (`"NaN"`). `error` is
    the message of the program's `ToolError`, cut at a `…`. In a finished run, an `unfinished` call was cut off by the
    run's end, and may have taken effect. `wall_ms` is its duration, 0 while it is unfinished.
    """

    call_id: int
    tool: str
    arguments: str
    status: Status
    error: str = ""
    wall_ms: float = 0.0


class CallLog:
    """The tool calls of one run, in the order in which they were started. Feed it all events of that run.

    The first `MOST_CALLS` calls are recorded, and further ones counted by tool. A call that was refused approval was
    never started and is left out. Memory and the time for one event are bounded.
    """

    def __init__(self) -> None:
        self._records: dict[int, ToolCallRecord] = {}
        self._further: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """Record an event of the run; events other than tool calls change nothing."""
        if isinstance(event, ToolStarted):
            self._start(event)
        elif isinstance(event, ToolFinished) and event.call_id in self._records:
            self._records[event.call_id] = replace(
                self._records[event.call_id],
                status="returned" if event.success else "failed",
                error=_shortened(event.error or "", MOST_ERROR_CHARS),
                wall_ms=event.wall_ms,
            )

    @property
    def records(self) -> tuple[ToolCallRecord, ...]:
        """The records of the first `MOST_CALLS` calls, in their present state."""
        return tuple(self._records.values())

    @property
    def further(self) -> Mapping[str, int]:
        """The number of calls beyond the recorded ones, by tool name."""
        return MappingProxyType(self._further)

    def copy(self) -> CallLog:
        """Return an independent copy of this log."""
        log = CallLog()
        log._records = self._records.copy()
        log._further = self._further.copy()
        return log

    def _start(self, event: ToolStarted) -> None:
        name = _shortened(event.tool, MOST_NAME_CHARS)
        if len(self._records) < MOST_CALLS:
            self._records[event.call_id] = ToolCallRecord(
                call_id=event.call_id, tool=name, arguments=json_text(event.arguments), status="unfinished"
            )
            return
        if name not in self._further and len(self._further) >= MOST_TOOLS:
            name = OTHER_TOOLS
        self._further[name] = self._further.get(name, 0) + 1


def json_text(value: Any, most: int = MOST_ARGUMENT_CHARS) -> str:
    """Return a value as one line of JSON text of at most `most` characters; text that was cut ends in `…`.

    Only the shown part is examined, however large the value is. A value without a JSON form is replaced by its type.
    """
    written: list[str] = []
    length = 0
    for piece in _pieces(value, 0):
        written.append(piece)
        length += len(piece)
        if length > most:
            break
    return _shortened("".join(written), most)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        yield "…"
    elif isinstance(value, Mapping):
        yield from _listed("{", (_entry(key, item, depth) for key, item in value.items()), "}")
    elif isinstance(value, (list, tuple)):
        yield from _listed("[", (_pieces(item, depth + 1) for item in value), "]")
    else:
        yield _scalar(value)


def _listed(opening: str, items: Iterable[Iterator[str]], closing: str) -> Iterator[str]:
    yield opening
    for place, item in enumerate(items):
        if place:
            yield ", "
        yield from item
    yield closing


def _entry(key: Any, item: Any, depth: int) -> Iterator[str]:
    yield _string(key) if isinstance(key, str) else _string(_scalar(key))
    yield ": "
    yield from _pieces(item, depth + 1)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        # Converting an integer to digits takes quadratic time, and Python refuses very large ones.
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= 3 * MOST_STRING_CHARS else f'"<integer of {bits:,} bits>"'
    if isinstance(value, float):
        return float.__repr__(value) if math.isfinite(value) else f'"{_not_finite(value)}"'
    if isinstance(value, (bytes, bytearray)):
        return f'"<{counted(len(value), "byte")}>"'
    return _string(f"<{type(value).__name__}>")


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _string(value: str) -> str:
    written = json.dumps(_shortened(value, MOST_STRING_CHARS), ensure_ascii=False)
    # Line separators, lone surrogates and other unprintable characters would break the line or could not be encoded.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in written)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
