"""Pictures on terminals that can show them: by kitty's graphics protocol, and by iTerm2's inline images.

https://sw.kovidgoyal.net/kitty/graphics-protocol/ and https://iterm2.com/documentation-images.html
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import ControlType, Segment

from .items import DataContent
from .media import bare_media_type

Protocol: TypeAlias = Literal["kitty", "iterm2"]

MAX_BYTES = 4_000_000
"""The size in bytes above which pictures are only named: a terminal over a network would stall."""

_PNG = b"\x89PNG\r\n\x1a\n"
_STARTS = {"image/png": _PNG, "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
_CHUNK = 4096
_CELL_PIXELS = 10


def pictures_here(environment: Mapping[str, str] | None = None) -> Protocol | None:
    """Return the protocol by which a terminal with this environment (default: the process's own) shows pictures, or
    `None`.
    """
    said = os.environ if environment is None else environment
    terminal = said.get("TERM", "")
    # A multiplexer inherits the variables of the outer terminal, but does not pass pictures on.
    if "TMUX" in said or terminal.startswith(("screen", "tmux", "dumb")):
        return None
    if terminal == "xterm-kitty" or "KITTY_WINDOW_ID" in said:
        return "kitty"
    return "iterm2" if said.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm") else None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as a renderable for a `rich` console; it prints nothing if the output is not a terminal."""

    data: bytes
    protocol: Protocol

    @classmethod
    def of(cls, item: DataContent, protocol: str | None) -> Self | None:
        """Return a picture that the terminal can show, or `None` if it cannot show this one."""
        bare = bare_media_type(item.media_type)
        start = _STARTS.get(bare)
        if start is None or not item.data.startswith(start) or len(item.data) > MAX_BYTES:
            return None
        if protocol == "kitty":
            return cls(item.data, "kitty") if bare == "image/png" else None
        return cls(item.data, "iterm2") if protocol == "iterm2" else None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Marked as control codes, the sequences are written unchanged, take no room, and are left out if the output is
        # no terminal.
        text = self._kitty(options.max_width) if self.protocol == "kitty" else self._iterm2()
        yield Segment(text + "\n", None, [(ControlType.CARRIAGE_RETURN,)])

    def _kitty(self, columns: int) -> str:
        encoded = base64.b64encode(self.data).decode("ascii")
        pieces = [encoded[place : place + _CHUNK] for place in range(0, len(encoded), _CHUNK)]
        width = int.from_bytes(self.data[16:20], "big")
        # Without a given width, iTerm2 shows a picture in its full size. q=2 suppresses kitty's answers, which would be
        # typed into the shell.
        most = f",c={columns}" if width > columns * _CELL_PIXELS else ""
        written = []
        for number, piece in enumerate(pieces):
            more = int(number + 1 < len(pieces))
            keys = f"a=T,f=100,q=2{most},m={more}" if number == 0 else f"m={more}"
            written.append(f"\x1b_G{keys};{piece}\x1b\\")
        return "".join(written)

    def _iterm2(self) -> str:
        encoded = base64.b64encode(self.data).decode("ascii")
        return f"\x1b]1337;File=inline=1;size={len(self.data)};preserveAspectRatio=1:{encoded}\x07"
