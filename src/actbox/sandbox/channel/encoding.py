"""Encodes messages to a guest; large ones in small parts, so that other threads can run in between."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from functools import partial
from typing import Any

from actbox.sandbox.guest import wire
from actbox.sandbox.guest.tagged import Packed
from actbox.tools.large_values import FEW_BYTES, blocks, in_thread, is_large


async def encode_aside(message: dict[str, Any], max_bytes: int) -> bytes:
    """Encode a message as `encode` does, a large one in a worker thread."""
    if not is_large(message):
        return wire.encode(message, max_bytes)
    return await in_thread(partial(_encode_in_parts, max_bytes=max_bytes), message)


def answer_aside(call_id: int, value: Any, max_bytes: int) -> Awaitable[bytes]:
    """Encode an answer with a large value, as `encode_answer` does, in a worker thread."""
    return in_thread(partial(encode_answer, call_id, max_bytes=max_bytes), value)


def encode_answer(call_id: int, value: Any, max_bytes: int) -> bytes:
    """Return the frame of a tool's result, which is JSON data, `bytes` or `Packed`; raise as `encode` does.

    For a large value the caller must call this in a worker thread.
    """
    if type(value) is Packed:
        return encode({"t": "return", "id": call_id, "value": value.form, "tagged": ["value"]}, max_bytes)
    if type(value) is bytes or is_large(value):
        return encode({"t": "return", "id": call_id, "value": value}, max_bytes)
    return wire.frame_of(f'{{"t":"return","id":{call_id},"value":{wire.plain_text(value)}}}', max_bytes)


def encode(message: dict[str, Any], max_bytes: int) -> bytes:
    """Encode a message as `wire.encode` does, with the same errors.

    For a large message the caller must call this in a worker thread.
    """
    return _encode_in_parts(message, max_bytes) if is_large(message) else wire.encode(message, max_bytes)


def _encode_in_parts(message: dict[str, Any], max_bytes: int) -> bytes:
    try:
        return _Encoder(max_bytes, lifts=False).frame(message)
    except TypeError:  # it contains bytes
        return _Encoder(max_bytes, lifts=True).frame(message)


class _Encoder:
    """Encodes a large message. Each part of it is written and checked separately, in C."""

    def __init__(self, max_bytes: int, *, lifts: bool) -> None:
        self._max_bytes = max_bytes
        self._lifts = lifts
        self._blobs: list[bytes] = []
        self._text: list[str] = []
        self._left = max_bytes
        self._values = 0

    def frame(self, message: dict[str, Any]) -> bytes:
        self._write(message, 0)
        if self._lifts:
            self._text[-1:] = [',"blobs":', json.dumps(list(map(len, self._blobs)), separators=(",", ":")), "}"]
        return wire.framed("".join(self._text).encode("ascii"), b"".join(self._blobs), self._max_bytes)

    def _write(self, value: Any, depth: int) -> None:
        if isinstance(value, (list, tuple, dict)) and is_large(value):
            self._write_container(value, depth + 1)
        elif type(value) is str and len(value) > FEW_BYTES:
            self._add('"')
            for start in range(0, len(value), FEW_BYTES):
                self._add(self._json(value[start : start + FEW_BYTES])[1:-1])
            self._add('"')
        else:
            self._add_checked(self._json(value), depth)

    def _write_container(self, value: Any, depth: int) -> None:
        is_object = isinstance(value, dict)
        self._add_checked("{}" if is_object else "[]", depth - 1)
        self._text[-1] = "{" if is_object else "["
        for number, block in enumerate(blocks(value)):
            if number:
                self._add(",")
            part = {key: value[key] for key in block} if is_object else block
            if not is_large(part):
                self._add_checked(self._json(part)[1:-1], depth)
                continue
            for place, item in enumerate(block):
                if place:
                    self._add(",")
                if is_object:
                    self._add(self._json({item: 0})[1:-2])
                    self._write(value[item], depth)
                else:
                    self._write(item, depth)
        self._add("}" if is_object else "]")

    def _json(self, value: Any) -> str:
        return json.dumps(wire.lift(value, self._blobs) if self._lifts else value, separators=(",", ":"))

    def _add_checked(self, text: str, depth: int) -> None:
        """Add text of whole values, after checking that a guest can read it back."""
        wire.check_text("[" * depth + text)
        self._values += wire.count_values(text)
        self._add(text)

    def _add(self, text: str) -> None:
        self._values += text == ","
        self._left -= len(text)
        if self._values > wire.MAX_VALUES:
            raise ValueError(wire.TOO_MANY_VALUES)
        if self._left < 0:
            raise wire.MessageTooLong(f"a message of more than the {self._max_bytes} bytes that it may have")
        self._text.append(text)
