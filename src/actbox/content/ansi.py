"""Terminal text split into runs by their colors and styles (ECMA-48, SGR)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from .safe_text import visible

_SGR = re.compile(r"\x1b\[([0-9;:]{0,64})m")
_LINE_PARTS = re.compile(r"[\r\n]|[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a run of text: its colors and styles. A color is 0 to 15 (the terminal's own), `#rrggbb`, or `None`
    for the default color.

    Styles that make text unreadable (concealed, blinking) are left out.
    """

    colour: int | str | None = None
    background: int | str | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False


PLAIN = Look()
_Run: TypeAlias = tuple[str, Look]


def runs_of(text: str) -> Iterator[tuple[str, Look]]:
    """Yield runs of text, each with its look. Control characters other than colors are made visible.

    A carriage return goes back to the start of its line, as on a terminal: later text replaces what was there.
    """
    text = text.replace("\r\n", "\n")
    runs = _coloured(text)
    for piece, look in _overwritten(runs) if "\r" in text else runs:
        yield visible(piece), look


def _coloured(text: str) -> Iterator[_Run]:
    look = PLAIN
    place = 0
    for found in _SGR.finditer(text):
        if found.start() > place:
            yield text[place : found.start()], look
        look = _after(look, found[1])
        place = found.end()
    if place < len(text):
        yield text[place:], look


def _overwritten(runs: Iterable[_Run]) -> Iterator[_Run]:
    """Yield the runs that remain visible: for each column of a line, the text written there last."""
    passes: list[list[_Run]] = [[]]
    for text, look in runs:
        for piece in _LINE_PARTS.findall(text):
            if piece == "\r":
                passes.append([])
            elif piece == "\n":
                yield from _last_of_each_column(passes)
                yield piece, look
                passes = [[]]
            else:
                passes[-1].append((piece, look))
    yield from _last_of_each_column(passes)


def _last_of_each_column(passes: list[list[_Run]]) -> Iterator[_Run]:
    columns = 0
    for runs in reversed(passes):
        column = 0
        for text, look in runs:
            if column + len(text) > columns:
                yield text[max(0, columns - column) :], look
            column += len(text)
        columns = max(columns, column)


def _after(look: Look, parameters: str) -> Look:
    codes = [int(code) if code.isdigit() else 0 for code in parameters.replace("::", ":").replace(":", ";").split(";")]
    place = 0
    while place < len(codes):
        code = codes[place]
        place += 1
        match code:
            case 0:
                look = PLAIN
            case 1:
                look = replace(look, bold=True)
            case 2:
                look = replace(look, dim=True)
            case 3:
                look = replace(look, italic=True)
            case 4:
                look = replace(look, underline=True)
            case 22:
                look = replace(look, bold=False, dim=False)
            case 23:
                look = replace(look, italic=False)
            case 24:
                look = replace(look, underline=False)
            case 38 | 48:
                colour, place = _extended(codes, place)
                look = replace(look, colour=colour) if code == 38 else replace(look, background=colour)
            case 39:
                look = replace(look, colour=None)
            case 49:
                look = replace(look, background=None)
            case _ if 30 <= code <= 37 or 90 <= code <= 97:
                look = replace(look, colour=code - 30 if code < 40 else code - 82)
            case _ if 40 <= code <= 47 or 100 <= code <= 107:
                look = replace(look, background=code - 40 if code < 50 else code - 92)
            case _:
                pass
    return look


def _extended(codes: list[int], place: int) -> tuple[int | str | None, int]:
    """Return the color that `38;5;n` or `38;2;r;g;b` names, and the position after it."""
    kind = codes[place] if place < len(codes) else None
    if kind == 5 and place + 1 < len(codes):
        return _of_256(codes[place + 1]), place + 2
    if kind == 2 and place + 3 < len(codes):
        red, green, blue = (min(value, 255) for value in codes[place + 1 : place + 4])
        return f"#{red:02x}{green:02x}{blue:02x}", place + 4
    return None, len(codes)


def _of_256(number: int) -> int | str | None:
    if number < 16:
        return number
    if number > 255:
        return None
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    steps = (0, 95, 135, 175, 215, 255)
    red, green, blue = ((number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6)
    return f"#{steps[red]:02x}{steps[green]:02x}{steps[blue]:02x}"
