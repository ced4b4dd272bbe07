"""Untrusted text made safe to show on a terminal or a page."""

from __future__ import annotations

import re
from typing import Final

RESET: Final = "\x1b[0m"

# Color, weight and underline (SGR) only change the look. Any other control sequence can do harm: move the cursor and
# overwrite text, set the title, write the clipboard, or make the terminal type an answer.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_COLOUR_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,64})?\Z")

# Control characters of both sets (C0, DEL, C1), and lone surrogates. A lone surrogate stands for a byte that a terminal
# without UTF-8 could take for C1.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")


class TerminalText:
    """A filter that makes one stream of guest text safe, piece by piece; a sequence may be cut between two pieces.

    Printable text, newlines, tabs and colors stay as they are. Other control characters are shown in their usual
    notation: `^[` for an escape, `^M` for a lone carriage return, `\\x9b` for a C1 character.
    """

    def __init__(self) -> None:
        self._held = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """Return the text that can be shown now. The beginning of a sequence that may yet be a color is held back."""
        text = self._held + text
        begun = _COLOUR_BEGUN.search(text) or re.search(r"\r\Z", text)
        self._held = text[begun.start() :] if begun else ""
        return self._safe(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """Return the text held back, and a reset of any color, so that it does not run on into the shell."""
        rest = self._safe(self._held)
        self._held = ""
        return rest + (RESET if self._coloured else "")

    def _safe(self, text: str) -> str:
        shown = []
        position = 0
        for colour in _COLOUR.finditer(text):
            self._coloured = True
            shown += [visible(text[position : colour.start()]), colour[0]]
            position = colour.end()
        shown.append(visible(text[position:]))
        return "".join(shown)


def encodable(text: str) -> str:
    """Return text that can be written as UTF-8: lone surrogates are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def spelt_out(text: str) -> str:
    """Return one line of text with everything escaped that acts on a terminal or is invisible.

    Only printable characters stay, and a tab becomes four spaces. Escaped are also colors, which can make text
    invisible, and characters that change the direction of writing or take no room, which can make code look like other
    code.
    """
    return "".join(c if c.isprintable() else "    " if c == "\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    """Return text in which control characters, colors included, are shown in a readable form; newlines and tabs
    stay.
    """
    return _UNSAFE.sub(_name, text.replace("\r\n", "\n"))


def without_turns(text: str) -> str:
    """Return text in which the marks that change the direction of writing are escaped.

    Such marks can make code look like other code (CVE-2021-42574).
    """
    return _TURNS.sub(lambda mark: _escape(mark[0]), text)


def _name(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
