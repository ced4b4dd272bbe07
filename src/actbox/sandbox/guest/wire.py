"""Frames: how one message looks on the channel. Pure: bytes in, messages out; both ends use it.

A frame is two big-endian 32-bit lengths, then that much JSON (one object) and that many bytes of blobs. A message
without bytes in it has no blobs. With them, each stands in the JSON as `{"\\0": index}` and the message's `blobs`
key lists their sizes; a key of the message's own that starts with NUL gets one more NUL, so nothing is mistaken.
"""

from __future__ import annotations

import json
import re
import struct

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List

_HEADER = struct.Struct("!II")
_MARK = "\0"
# Python's own default (`sys.int_info.default_max_str_digits`); a program may have switched it off for itself.
MAX_DIGITS = 4300
# An empty object takes 64 bytes of memory and 3 of text.
MAX_VALUES = 2_000_000
# Texts are told from the rest in parts of so many characters, so that a hostile message takes little more memory.
_PART = 1 << 20
# Before CPython 3.12 each level of JSON takes from the program's own stack of calls.
MAX_DEPTH = 200
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
# What a message may have on top of what it carries.
ENVELOPE_BYTES = 65536
# From the first digit on only: from each it would take thousands of times as long.
_LONG_NUMBER = re.compile(r"(?<![0-9])[0-9]{%d}" % (MAX_DIGITS + 1))


class ProtocolError(Exception):
    """The other end broke the rules of the channel."""


class MessageTooLong(ProtocolError):
    """A message is longer than the channel allows."""


def encode(message: Dict[str, Any], max_bytes: int) -> bytes:
    """Return one frame. Raises `TypeError`, `ValueError` or `RecursionError` for what is no JSON and no bytes."""
    try:
        text, blobs = json.dumps(message, separators=(",", ":")), b""
    except TypeError:
        pieces: List[bytes] = []
        lifted = _lift(message, pieces)
        lifted["blobs"] = [len(piece) for piece in pieces]
        text, blobs = json.dumps(lifted, separators=(",", ":")), b"".join(pieces)
    if has_long_number(text):
        raise ValueError("an integer of more than %d digits" % MAX_DIGITS)
    if is_too_deep(text):
        raise ValueError("values nested more than %d deep" % MAX_DEPTH)
    if has_too_many_values(text):
        raise ValueError("more than %d values in one message; give large data as text or bytes" % MAX_VALUES)
    body = text.encode("ascii")
    if len(body) + len(blobs) > max_bytes:
        raise MessageTooLong("a message of %d bytes; the limit is %d" % (len(body) + len(blobs), max_bytes))
    return _HEADER.pack(len(body), len(blobs)) + body + blobs


def _lift(value: Any, pieces: List[bytes]) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        pieces.append(bytes(value))
        return {_MARK: len(pieces) - 1}
    if isinstance(value, dict):
        return {
            _MARK + key if isinstance(key, str) and key.startswith(_MARK) else key: _lift(item, pieces)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_lift(item, pieces) for item in value]
    return value


def _lower(value: Any, pieces: List[bytes]) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and _MARK in value:
            index = value[_MARK]
            if type(index) is not int or not 0 <= index < len(pieces):
                raise ProtocolError("a message names a blob that it does not carry")
            return pieces[index]
        return {key[1:] if key.startswith(_MARK) else key: _lower(item, pieces) for key, item in value.items()}
    if isinstance(value, list):
        return [_lower(item, pieces) for item in value]
    return value


def has_long_number(text: str) -> bool:
    """Return whether JSON text has an integer that Python would refuse to read back, as it does by default."""
    if _LONG_NUMBER.search(text) is None:
        return False
    try:
        json.loads(text, parse_int=_refuse_long)
    except _LongNumber:
        return True
    return False  # the digits stand in a text or a fraction


def has_too_many_values(text: str) -> bool:
    """Return whether JSON text has so many values that they would take far more memory than their text does."""
    if _count_values(text) <= MAX_VALUES:
        return False
    return sum(map(_count_values, _outside_texts(text))) > MAX_VALUES


def _count_values(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def is_too_deep(text: str) -> bool:
    """Return whether JSON text is nested so deeply that some Python could not read it back."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    brackets = "".join(_NO_BRACKETS.sub("", part) for part in _outside_texts(text))
    for _ in range(MAX_DEPTH):  # each round takes away what is innermost
        brackets = brackets.replace("[]", "").replace("{}", "")
        if not brackets:
            return False
    return True


def _outside_texts(text: str) -> Iterator[str]:
    """Yield what stands outside the texts of JSON, part by part, also of what is no JSON; takes time by its length."""
    plain = text.replace("\\\\", "").replace('\\"', "")
    inside = False
    for start in range(0, len(plain), _PART):
        pieces = plain[start : start + _PART].split('"')
        yield "".join(pieces[1 if inside else 0 :: 2])
        inside ^= len(pieces) % 2 == 0


class _LongNumber(Exception):
    pass


def _refuse_long(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise _LongNumber
    return 0


class FrameReader:
    """Turns received bytes into messages; refuses a frame by its header, before its body takes memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._need = _HEADER.size
        self.size = 0
        """How many bytes the message had that `feed` yielded last."""

    def feed(self, data: bytes) -> Iterator[Dict[str, Any]]:
        """Yield every message that is complete now. Raises `ProtocolError`; the reader is of no use after that."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= self._need:
            text_length, blob_length = _HEADER.unpack_from(buffer)
            if text_length + blob_length > self._max_bytes:
                raise MessageTooLong(
                    "a message of %d bytes; the limit is %d" % (text_length + blob_length, self._max_bytes)
                )
            end = _HEADER.size + text_length + blob_length
            if len(buffer) < end:
                self._need = end
                return
            text = bytes(buffer[_HEADER.size : _HEADER.size + text_length])
            blobs = bytes(buffer[_HEADER.size + text_length : end])
            del buffer[:end]
            self._need = _HEADER.size
            self.size = end
            yield _decode(text, blobs)

    @property
    def pending(self) -> int:
        """Bytes received of a message that is not complete."""
        return len(self._buffer)


def _decode(text: bytes, blobs: bytes) -> Dict[str, Any]:
    try:
        decoded = text.decode("utf-8")
        if has_too_many_values(decoded):
            raise ProtocolError("a message of more than %d values" % MAX_VALUES)
        if is_too_deep(decoded):
            raise ProtocolError("a message nested more than %d deep" % MAX_DEPTH)
        message = json.loads(decoded)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message is not JSON: %s" % error) from None
    if type(message) is not dict:
        raise ProtocolError("a message is not a JSON object")
    sizes = message.pop("blobs", None)
    if sizes is None:
        if blobs:
            raise ProtocolError("a message carries blobs that it does not list")
        return message
    if type(sizes) is not list or not all(type(size) is int and size >= 0 for size in sizes):
        raise ProtocolError("a message's list of blobs makes no sense")
    if sum(sizes) != len(blobs):
        raise ProtocolError("a message's blobs do not have the sizes that it lists")
    pieces, start = [], 0
    for size in sizes:
        pieces.append(blobs[start : start + size])
        start += size
    try:
        lowered: Dict[str, Any] = _lower(message, pieces)
    except RecursionError:
        raise ProtocolError("a message is nested too deeply") from None
    return lowered
