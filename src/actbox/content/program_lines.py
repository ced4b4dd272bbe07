"""The lines of a program around its failure, and the traceback without repeating them."""

from __future__ import annotations

import re
from typing import Final

LINES_AROUND: Final = 2
"""The number of lines shown before the failing one, and after it."""
MOST_LINE_CHARS: Final = 160
"""The most characters of one line; longer ones are cut at a `…`."""

_FRAME = re.compile(r'^  File "[^"\n]*", line ([0-9]{1,10})(?:, in [^\n]*)?\n((?:    [^\n]*\n)*)', re.MULTILINE)
_ONE_FRAME = re.compile(
    r'(?:Traceback \(most recent call last\):\n)?  File "[^"\n]*", line ([0-9]{1,10})(?:, in <module>)?\n(?=\S)'
)


def failing_lines(program: str, line: int, traceback: str = "") -> tuple[str, str]:
    """Return the numbered lines around the failing one, and the traceback without those lines.

    The line is marked with `>`, and with the traceback's marks below it (`~~^~~`). The traceback loses source lines
    that are shown, and a single frame entirely. If the program has no such line, the first text is empty and the
    traceback unchanged.
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
    """Return the lines around a line, by number. Lines end where they do for the compiler: not at form feeds or line
    separators.
    """
    if not 0 < line <= len(program):
        return {}
    last = line + LINES_AROUND
    lines = program.replace("\r\n", "\n").replace("\r", "\n").split("\n", last)[:last]
    while len(lines) > line and not lines[-1]:
        lines.pop()
    first = max(line - LINES_AROUND, 1)
    return dict(enumerate(lines[first - 1 :], first))


def _shifted(carets: str, source: str, line: str) -> str:
    """Return a traceback's marks below a source line, shifted to fit below the unstripped line."""
    before = len(source) - len(source.lstrip())
    if carets[:before].strip() or not carets.strip():
        return ""
    # Keep the line's own white space, since tabs must stay as wide as they are.
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
