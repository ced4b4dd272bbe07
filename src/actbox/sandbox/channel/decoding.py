"""Decodes a large message in small steps, so that the event loop can do something else between any two.

The text is cut before commas that stand outside of its texts. A piece is JSON again once what is open where it begins
is opened before it, and what is open where it ends is closed behind it; what comes of it is added to what is open.
All that looks at each byte runs at the speed of C, and what runs in Python is bounded by how many lists and objects a
message may have.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from actbox.sandbox.guest.wire import (
    MAX_DEPTH,
    MAX_VALUES,
    NO_BRACKETS,
    VALUES_OF_A_CONTAINER,
    ProtocolError,
    place_blobs,
)

STEP_BYTES = 64 * 1024
"""So much text, or the length of one text or number that is longer, is decoded in one step."""
# A number takes 24 bytes, and 8 more in its list; ten of them are as much as the greatest object of one key.
VALUE_BYTES = 32
_CLOSING = {ord("["): ord("]"), ord("{"): ord("}")}


def count_values(text: bytes) -> int:
    """Return how many values JSON text has at most, where a list or an object counts as several."""
    return text.count(b",") + VALUES_OF_A_CONTAINER * (text.count(b"[") + text.count(b"{"))


def decode_in_steps(text: bytes, blobs: bytes) -> Generator[None, None, tuple[dict[str, Any], int]]:
    """Return what `wire.decode` returns and how many values it has, with a yield after each step.

    Raises `ProtocolError`.
    """
    document = _Document()
    start = values = 0
    for cut, outside in _cut(text):
        values += count_values(outside)
        if values > MAX_VALUES:
            raise ProtocolError(f"a message of more than {MAX_VALUES} values")
        brackets = outside.translate(None, NO_BRACKETS)
        if cut:
            document.add(text[start:cut], brackets, is_last=cut == len(text))
            start = cut
        else:
            document.look_at(brackets)
        yield
    message = document.root
    if type(message) is not dict:
        raise ProtocolError("a message is not a JSON object")
    yield from place_blobs(message, blobs)
    return message, values


def _cut(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where each piece ends, and what stands outside of texts since the last yield; 0 where a piece goes on."""
    start = 0
    inside = False
    while start < len(text):
        window = text[start : start + STEP_BYTES]
        is_last = start + len(window) == len(text)
        if not is_last and (len(window) - len(window.rstrip(b"\\"))) % 2:
            window = window[:-1]  # nothing is cut between a backslash and what it escapes
        window = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        parts = window.split(b'"')
        comma = 0 if is_last else _last_comma(parts, inside)
        if comma:
            window = window[:comma]
            parts = window.split(b'"')
        start += len(window)
        outside = b"".join(parts[1 if inside else 0 :: 2])
        inside ^= len(parts) % 2 == 0
        yield start if comma or is_last else 0, outside


def _last_comma(parts: list[bytes], inside: bool) -> int:
    """Return where the last comma outside of texts stands in a window that was split at its quotes; 0 for nowhere.

    That the window begins with one does not count: there the last piece ended.
    """
    end = sum(map(len, parts)) + len(parts) - 1
    for number in range(len(parts) - 1, -1, -1):
        end -= len(parts[number])
        if number % 2 == inside:
            comma = parts[number].rfind(b",")
            if comma >= 0:
                return end + comma
        end -= 1
    return 0


class _Document:
    """A JSON document that is put together of pieces, of which each but the first begins with a comma."""

    def __init__(self) -> None:
        self.root: Any = None
        self._is_begun = False
        self._open: list[Any] = []
        """The lists and objects that are open where the last piece ended, from the root on."""
        self._before = b""
        """What would close them, in the same order."""
        self._closing = bytearray()
        self._kept = 0
        """How many of them are still open after the brackets that were looked at."""
        # Keys and a value that no guest can guess, so that none of them is taken for one of the message's own.
        self._head, self._tail = secrets.token_hex(8), secrets.token_hex(8)

    def look_at(self, brackets: bytes) -> None:
        """Take in the brackets of a piece, or of some of it."""
        closing, kept = self._closing, self._kept
        for bracket in brackets:
            if bracket in _CLOSING:
                closing.append(_CLOSING[bracket])
                if len(closing) > MAX_DEPTH:
                    raise ProtocolError(f"a message nested more than {MAX_DEPTH} deep")
            elif not closing or closing.pop() != bracket:
                raise ProtocolError("a message is not JSON: its brackets do not match")
            elif len(closing) < kept:
                kept = len(closing)
        self._kept = kept

    def add(self, piece: bytes, brackets: bytes, *, is_last: bool) -> None:
        """Take in a piece, and the brackets of it that were not looked at. Raises `ProtocolError`."""
        self.look_at(brackets)
        if (self._is_begun and not self._before) or not (is_last or self._closing):
            raise ProtocolError("a message is not JSON: there is more than one value")
        opening = "".join("[" if closing == ord("]") else f'{{"{self._head}":' for closing in self._before)
        if opening:
            opening += "0"
        ending = ""
        if not is_last:
            ending = f',"{self._tail}"' if self._closing[-1] == ord("]") else f',"{self._tail}":"{self._tail}"'
            ending += self._closing[::-1].decode("ascii")
        try:
            whole = opening + piece.decode("utf-8") + ending
            parsed = json.loads(whole)
            spine = self._last_spine(parsed, is_last)
            if spine is None:  # one of those on it took the place of a key that its object had already
                parsed = json.loads(whole, object_pairs_hook=_in_order_of_the_last)
                spine = self._last_spine(parsed, is_last)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a message is not JSON: {error}") from None
        assert spine is not None  # its brackets match, and the mark is what comes last
        if not self._is_begun:
            self._is_begun = True
            self.root = parsed
        self._join(parsed)
        self._open[self._kept :] = spine[self._kept :]
        self._before, self._kept = bytes(self._closing), len(self._closing)

    def _last_spine(self, parsed: Any, is_last: bool) -> list[Any] | None:
        """Return what is open at the end of a piece, from the root on, without the mark there."""
        if is_last:
            return []
        spine = []
        for _ in self._closing:
            spine.append(parsed)
            if type(parsed) is list and parsed:
                parsed = parsed[-1]
            elif type(parsed) is dict and parsed:
                parsed = next(reversed(parsed.values()))
            else:
                return None
        if parsed != self._tail:
            return None
        if type(spine[-1]) is list:
            spine[-1].pop()
        else:
            spine[-1].popitem()
        return spine

    def _join(self, parsed: Any) -> None:
        """Add to what was open before a piece what the piece has of it."""
        for container in self._open:
            first = parsed[0] if type(parsed) is list else parsed.pop(self._head)
            if type(parsed) is list:
                container.extend(islice(parsed, 1, None))
            else:
                container.update(parsed)
            parsed = first


def _in_order_of_the_last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object in which a key stands where it was given last; `json` lets it stand where it came first."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        members.pop(key, None)
        members[key] = value
    return members
