"""Which tools a run has called and what came of each call, kept small however much was called."""

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
"""Calls that are recorded one by one; further ones are counted."""
MOST_TOOLS: Final = 100
"""Names under which further calls are counted: a program may call what does not exist, by as many names as it likes."""
MOST_ARGUMENT_CHARS: Final = 400
"""Characters of one call's arguments as JSON text."""
MOST_STRING_CHARS: Final = 120
"""Characters of one string in them, so that a long one leaves room for the others."""
MOST_ERROR_CHARS: Final = 400
MOST_NAME_CHARS: Final = 100

OTHER_TOOLS: Final = "(other tools)"
"""What further calls are counted under when there are `MOST_TOOLS` names. No tool can have this name."""

_MOST_DEPTH = 20

Status = Literal["returned", "failed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """One call that a program made.

    `call_id` is that of its `ToolStarted`. `arguments` are what the program sent, as JSON text on one line: what is too
    long is cut at a `…`, bytes are named by their number, and a number that JSON lacks is a string (`"NaN"`). `error`
    is what the program got as `ToolError`, cut at a `…`. A call that is `unfinished` was cut off by the end of its run,
    if that is over: whether it took effect is not known. `wall_ms` is how long it took, 0 while it is unfinished.
    """

    call_id: int
    tool: str
    arguments: str
    status: Status
    error: str = ""
    wall_ms: float = 0.0


class CallLog:
    """The tool calls of one run, in the order in which they were started. Feed it all events of that run.

    The first `MOST_CALLS` calls are recorded, further ones counted by tool. A call that was refused approval was never
    started, and is not here. What it takes in memory has a bound, and so does feeding it one event.
    """

    def __init__(self) -> None:
        self._records: dict[int, ToolCallRecord] = {}
        self._further: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """Take in an event; most kinds say nothing about calls."""
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
        """The first calls, as they are by now."""
        return tuple(self._records.values())

    @property
    def further(self) -> Mapping[str, int]:
        """How many calls there were beyond the records, by tool."""
        return MappingProxyType(self._further)

    def copy(self) -> CallLog:
        """Return a log of its own that has taken in the same by now."""
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
    """Return a value as one line of JSON text of at most `most` characters, the last of which is `…` where it is cut.

    Only what is shown is looked at, however large the value is. What JSON has no form for is named by its type.
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
        # Digits take quadratic time, and Python refuses to write very many.
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
    # Line separators, lone surrogates and what else is not printed would be more than one line, or no text at all.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in written)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
