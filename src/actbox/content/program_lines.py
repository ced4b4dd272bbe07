"""The lines of a program where it failed, and a traceback without what they say already."""

from __future__ import annotations

import re
from typing import Final

LINES_AROUND: Final = 2
"""Lines that are shown before the one that failed, and after it."""
MOST_LINE_CHARS: Final = 160
"""Characters of one line; longer ones are cut at a `…`."""

_FRAME = re.compile(r'^  File "[^"\n]*", line ([0-9]{1,10})(?:, in [^\n]*)?\n((?:    [^\n]*\n)*)', re.MULTILINE)
_ONE_FRAME = re.compile(
    r'(?:Traceback \(most recent call last\):\n)?  File "[^"\n]*", line ([0-9]{1,10})(?:, in <module>)?\n(?=\S)'
)


def failing_lines(program: str, line: int, traceback: str = "") -> tuple[str, str]:
    """Return the lines around the one that failed, numbered, and the traceback without what they say.

    The line is marked by `>`, and by what the traceback has below it (`~~^~~`). Of the traceback's frames go the lines
    that are shown, and a single frame goes whole. Where the program has no such line, the first text is empty and the
    traceback as it was.
    """
    shown = _lines_around(program, line)
    if line not in shown:
        return "", traceback
    carets = ""

    def without_source(frame: re.Match[str]) -> str:
        nonlocal carets
        number, body = int(frame[1]), frame[2].split("\n")[:-1]
        if not body or len(body) > 2 or body[0].strip() != shown.get(number, "").strip():
            return frame[0]
        below = body[1] if len(body) == 2 else ""
        if below.strip(" ~^"):
            return frame[0]
        if number == line:
            carets = _shifted(below, body[0], shown[line])
        return frame[0][: frame.start(2) - frame.start()]

    rest = _FRAME.sub(without_source, traceback)
    only = _ONE_FRAME.match(rest)
    if only and int(only[1]) == line and not _FRAME.search(rest, only.end()):
        rest = rest[only.end() :]
    return _numbered(shown, line, carets), rest


def _lines_around(program: str, line: int) -> dict[int, str]:
    """Return lines by number. They end where they do for the compiler: not at form feeds or line separators."""
    if not 0 < line <= len(program):
        return {}
    last = line + LINES_AROUND
    lines = program.replace("\r\n", "\n").replace("\r", "\n").split("\n", last)[:last]
    while len(lines) > line and not lines[-1]:
        lines.pop()
    first = max(line - LINES_AROUND, 1)
    return dict(enumerate(lines[first - 1 :], first))


def _shifted(carets: str, source: str, line: str) -> str:
    """Return the marks that a traceback has below a source line, moved to where they belong below the whole line."""
    before = len(source) - len(source.lstrip())
    if carets[:before].strip() or not carets.strip():
        return ""
    # The line's own white space, since tabs have to stay as wide as they are.
    return line[: len(line) - len(line.lstrip())] + carets[before:]


def _numbered(lines: dict[int, str], failing: int, carets: str) -> str:
    width = len(str(max(lines)))
    numbered = []
    for number, text in lines.items():
        numbered.append(f"{'>' if number == failing else ' '} {number:>{width}} | {_shortened(text)}".rstrip())
        if number == failing and carets and len(carets) <= MOST_LINE_CHARS:
            numbered.append(f"  {'':>{width}} | {carets}")
    return "\n".join(numbered)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LINE_CHARS else f"{text[: MOST_LINE_CHARS - 1]}…"
