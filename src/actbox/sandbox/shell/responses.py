"""Parses the responses to a request from the shell's output.

Pure: text in, responses out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

from actbox.core.errors import ActboxError
from actbox.sandbox.guest.shell_requests.responses import PIECE_BYTES

KINDS: Final = frozenset("soecmpxfbrz")
# The most text of a shell's greeting before the first response.
_MOST_BEFORE = 256 * 1024
_MOST_OF_A_LINE = 2 * PIECE_BYTES


class ShellError(ActboxError):
    """Raised when the shell did not do what it was asked for; the message says what it did instead."""


class AnswerTooLong(ShellError):
    """Raised when the shell returned more data than it was asked for; the message says how much."""


class NoShell(ShellError):
    """Raised when the shell could not be started."""


class ResponseParser:
    """Parses lines of one letter and base64, after the line with the token. Raises `ShellError` for other lines."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._has_begun = False
        self._rest = ""

    def feed(self, text: str) -> Iterator[tuple[str, bytes]]:
        """Yield each response that is complete now: its kind and its bytes."""
        *lines, self._rest = (self._rest + text).split("\n")
        if not self._has_begun:
            # A shell may use its own line ends.
            bare = [line.rstrip("\r") for line in lines]
            if self._token not in bare:
                self._rest = self._rest[-_MOST_BEFORE:]
                return
            self._has_begun = True
            lines = lines[bare.index(self._token) + 1 :]
        for line in lines:
            yield self._parse(line.rstrip("\r"))
        if len(self._rest) > _MOST_OF_A_LINE:
            raise ShellError("the shell said a line that is longer than any answer")

    def _parse(self, line: str) -> tuple[str, bytes]:
        kind = line[:1]
        if kind not in KINDS or len(line) > _MOST_OF_A_LINE:
            raise ShellError(f"the shell said what is no answer: {line[:80]!r}")
        try:
            return kind, base64.b64decode(line[1:], validate=True)
        except (binascii.Error, ValueError):
            raise ShellError(f"the shell said what is no answer: {line[:80]!r}") from None
