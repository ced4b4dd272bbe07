"""Decodes a large message in small steps, so that the event loop can do other work between them.

The text is cut before commas outside strings. A piece becomes valid JSON again by adding the open brackets before it
and the closing brackets after it; its values are then added to the containers that were still open. Work on each byte
runs in C; the number of steps in Python is bounded by the number of lists and objects that a message may have.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any, TypeVar

from actbox.sandbox.guest.wire import (
    MAX_DEPTH,
    MAX_VALUES,
    NO_BRACKETS,
    VALUES_OF_A_CONTAINER,
    FrameReader,
    ProtocolError,
    decode,
    open_in_steps,
)

T = TypeVar("T")

STEP_BYTES = 64 * 1024
"""The bytes of text decoded in one step; a longer single string or number also takes one step."""
# A number takes 24 bytes, and 8 more in its list; ten of them take as much as the largest object of one key.
VALUE_BYTES = 32
_CLOSING = {ord("["): ord("]"), ord("{"): ord("}")}


def content_of(frame: bytes) -> tuple[bytes, bytes]:
    """Return the JSON and the blobs of a frame that we encoded."""
    reader = FrameReader(len(frame))
    reader.receive(frame)
    content = reader.take()
    assert content is not None
    return content


def count_values(text: bytes) -> int:
    """Return an upper bound of the values in JSON text, where a list or an object counts as several."""
    return text.count(b",") + VALUES_OF_A_CONTAINER * (text.count(b"[") + text.count(b"{"))


def decode_in_steps(text: bytes, blobs: bytes) -> Generator[None, None, tuple[dict[str, Any], int]]:
    """Decode a message as `wire.decode` does; return it and its number of values, yielding after each step.

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
    yield from open_in_steps(message, blobs)
    return message, values


async def decode_by_turns(text: bytes, blobs: bytes) -> tuple[dict[str, Any], int]:
    """Decode a message as `decode_in_steps` does, giving the event loop a turn between steps.

    Raises `ProtocolError`.
    """
    if len(text) <= STEP_BYTES:
        return decode(text, blobs), count_values(text)
    return await by_turns(decode_in_steps(text, blobs))


async def by_turns(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end and return its result; the event loop has a turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
        await asyncio.sleep(0)


def at_once(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end and return its result, without pauses; other threads may run between its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned


def _cut(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the end of each piece, and the text outside strings since the last yield; an end of 0 means it goes on."""
    start = 0
    inside = False
    while start < len(text):
        window = text[start : start + STEP_BYTES]
        is_last = start + len(window) == len(text)
        if not is_last and (len(window) - len(window.rstrip(b"\\"))) % 2:
            window = window[:-1]  # never cut between a backslash and the character that it escapes
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
    """Return the position of the last comma outside strings in a window that was split at its quotes; 0 for none.

    A comma at the window's start does not count: it is where the last piece ended.
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
    """A JSON document assembled from pieces, each of which except the first begins with a comma."""

    def __init__(self) -> None:
        self.root: Any = None
        self._is_begun = False
        self._open: list[Any] = []
        """The lists and objects still open at the end of the last piece, from the root on."""
        self._before = b""
        """The closing brackets for them, in the same order."""
        self._closing = bytearray()
        self._kept = 0
        """The number of them still open after the brackets examined so far."""
        # Random keys and a random value, so that a guest cannot use the same ones in its message.
        self._head, self._tail = os.urandom(8).hex(), os.urandom(8).hex()

    def look_at(self, brackets: bytes) -> None:
        """Examine the brackets of a piece, or of a part of it."""
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
        """Add a piece, and examine its remaining brackets. Raises `ProtocolError`."""
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
            if spine is None:  # one of the open containers replaced an earlier key of its object
                parsed = json.loads(whole, object_pairs_hook=_in_order_of_the_last)
                spine = self._last_spine(parsed, is_last)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a message is not JSON: {error}") from None
        assert spine is not None  # its brackets match, and the mark comes last
        if not self._is_begun:
            self._is_begun = True
            self.root = parsed
        self._join(parsed)
        self._open[self._kept :] = spine[self._kept :]
        self._before, self._kept = bytes(self._closing), len(self._closing)

    def _last_spine(self, parsed: Any, is_last: bool) -> list[Any] | None:
        """Return the containers still open at the end of a piece, from the root on, after removing the mark there."""
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
        """Add a piece's values to the containers that were open before it."""
        for container in self._open:
            first = parsed[0] if type(parsed) is list else parsed.pop(self._head)
            if type(parsed) is list:
                container.extend(islice(parsed, 1, None))
            else:
                container.update(parsed)
            parsed = first


def _in_order_of_the_last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys stand where they were given last; `json` keeps them where they came first."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        members.pop(key, None)
        members[key] = value
    return members
