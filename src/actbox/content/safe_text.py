"""Text from a stranger, made safe to show: on a terminal, and on a page."""

from __future__ import annotations

import re
from typing import Final

RESET: Final = "\x1b[0m"

# Colour, weight and underline (SGR) do nothing but look different. Every other control sequence can do harm: move the
# cursor and overwrite what was shown, set the title, write the clipboard, make the terminal type an answer.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_COLOUR_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,64})?\Z")

# Control characters of both sets (C0, DEL, C1), and lone surrogates, which stand for bytes that a terminal that is not
# set to UTF-8 could take for C1.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")


class TerminalText:
    """Makes one stream of guest text safe, piece by piece: a sequence may be cut anywhere between two pieces.

    What stays as it is: printable text, newlines, tabs and colours. What else a terminal would act on is shown as
    people write it: `^[` for an escape, `^M` for a lone carriage return, `\\x9b` for a C1 character.
    """

    def __init__(self) -> None:
        self._held = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """Return what can be shown now. The beginning of a sequence that may yet be a colour is held back."""
        text = self._held + text
        begun = _COLOUR_BEGUN.search(text) or re.search(r"\r\Z", text)
        self._held = text[begun.start() :] if begun else ""
        return self._safe(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """Return what was held back, and the end of any colour, so that it does not run on into the shell."""
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
    """Return text that can be written as UTF-8: lone surrogates are spelt out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def spelt_out(text: str) -> str:
    """Return one line of text in which nothing acts on a terminal and nothing hides.

    Everything but printable characters and tabs is spelt out: colours too, which can make text invisible, and the marks
    that change the direction of writing or take no room, with which code can be made to look like other code.
    """
    return "".join(c if c.isprintable() else "    " if c == "\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    """Return text in which control characters are shown as people write them, colours too; newlines and tabs stay."""
    return _UNSAFE.sub(_name, text.replace("\r\n", "\n"))


def without_turns(text: str) -> str:
    """Return text in which the marks that change the direction of writing are spelt out.

    With them code can be made to look like other code (CVE-2021-42574).
    """
    return _TURNS.sub(lambda mark: _escape(mark[0]), text)


def _name(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
