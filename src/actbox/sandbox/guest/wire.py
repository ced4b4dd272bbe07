"""Frames: how one message looks on the channel. Pure: bytes in, messages out; both ends use it.

A frame is two big-endian 32-bit lengths, then that much JSON (one object) and that many bytes of blobs. A message
without bytes in it has no blobs. With them, each stands in the JSON as `{"\\0": index}` and the message's `blobs`
key lists their sizes; a key of the message's own that starts with NUL gets one more NUL, so nothing is mistaken.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

_LENGTH_BYTES = 4
_HEADER_BYTES = 2 * _LENGTH_BYTES
_MARK = "\0"
# Python's own default (`sys.int_info.default_max_str_digits`); a program may have switched it off for itself.
MAX_DIGITS = 4300
# What one message may have of values, and as how many of them a list or an object counts: `[],` is three bytes of text,
# and takes eighty of memory and as much time as ten numbers.
MAX_VALUES = 2_000_000
VALUES_OF_A_CONTAINER = 10
# Texts are told from the rest in parts of so many characters, so that a hostile message takes little more memory.
_PART = 1 << 20
# Before CPython 3.12 each level of JSON takes from the program's own stack of calls.
MAX_DEPTH = 200
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DEEPER = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# So many values are looked at in one step of putting blobs in their places.
_STEP_VALUES = 20_000
# What a message may have on top of what it carries.
ENVELOPE_BYTES = 65536
# From the first digit on only: from each it would take thousands of times as long.
_LONG_NUMBER = r"(?<![0-9])[0-9]{%d}" % (MAX_DIGITS + 1)


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
        raise ValueError(
            "more than %d values in one message, where a list or an object counts as %d; "
            "give large data as text or bytes" % (MAX_VALUES, VALUES_OF_A_CONTAINER)
        )
    body = text.encode("ascii")
    if len(body) + len(blobs) > max_bytes:
        raise MessageTooLong("a message of %d bytes; the limit is %d" % (len(body) + len(blobs), max_bytes))
    return len(body).to_bytes(_LENGTH_BYTES, "big") + len(blobs).to_bytes(_LENGTH_BYTES, "big") + body + blobs


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


def has_long_number(text: str) -> bool:
    """Return whether JSON text has an integer that Python would refuse to read back, as it does by default."""
    if len(text) <= MAX_DIGITS or re.search(_LONG_NUMBER, text) is None:  # compiled once, where it is wanted at all
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
    return text.count(",") + VALUES_OF_A_CONTAINER * (text.count("[") + text.count("{"))


def is_too_deep(text: str) -> bool:
    """Return whether JSON text is nested so deeply that some Python could not read it back."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for part in _outside_texts(text):
        brackets = part.encode("ascii", "replace").translate(None, NO_BRACKETS)
        depths = list(accumulate(map(_DEEPER.__getitem__, brackets), initial=depth))
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False


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
    """Turns received bytes into frames and messages; refuses a frame by its header, before its body takes memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._need = _HEADER_BYTES
        self.size = 0
        """How many bytes the frame had that was taken last."""

    def receive(self, data: bytes) -> None:
        """Add what was received."""
        self._buffer += data

    def take(self) -> Optional[Tuple[bytes, bytes]]:
        """Return the JSON and the blobs of the next frame, if it is complete.

        Raises `MessageTooLong`; the reader is of no use after that.
        """
        buffer = self._buffer
        if len(buffer) < self._need:
            return None
        text_length = int.from_bytes(buffer[:_LENGTH_BYTES], "big")
        blob_length = int.from_bytes(buffer[_LENGTH_BYTES:_HEADER_BYTES], "big")
        if text_length + blob_length > self._max_bytes:
            raise MessageTooLong(
                "a message of %d bytes; the limit is %d" % (text_length + blob_length, self._max_bytes)
            )
        start = _HEADER_BYTES + text_length
        end = start + blob_length
        if len(buffer) < end:
            self._need = end
            return None
        with memoryview(buffer) as view:
            text, blobs = bytes(view[_HEADER_BYTES:start]), bytes(view[start:end])
        del buffer[:end]
        self._need = _HEADER_BYTES
        self.size = end
        return text, blobs

    def feed(self, data: bytes) -> Iterator[Dict[str, Any]]:
        """Yield every message that is complete now. Raises `ProtocolError`; the reader is of no use after that."""
        self.receive(data)
        frame = self.take()
        while frame is not None:
            yield decode(*frame)
            frame = self.take()

    @property
    def missing(self) -> int:
        """Bytes that have to come, at least, before there is more to take."""
        return max(self._need - len(self._buffer), 0)

    @property
    def pending(self) -> int:
        """Bytes received that have not been taken."""
        return len(self._buffer)


def decode(text: bytes, blobs: bytes) -> Dict[str, Any]:
    """Return the message of one frame, at once. Raises `ProtocolError`."""
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
    for _ in place_blobs(message, blobs):
        pass
    return message


def place_blobs(message: Dict[str, Any], blobs: bytes) -> Iterator[None]:
    """Put a message's blobs where it names them, in steps that each look at a bounded number of values.

    Raises `ProtocolError`.
    """
    sizes = message.pop("blobs", None)
    if sizes is None:
        if blobs:
            raise ProtocolError("a message carries blobs that it does not list")
        return
    if type(sizes) is not list or len(sizes) > MAX_VALUES // VALUES_OF_A_CONTAINER:
        raise ProtocolError("a message's list of blobs makes no sense")
    if not set(map(type, sizes)) <= {int} or min(sizes, default=0) < 0:
        raise ProtocolError("a message's list of blobs makes no sense")
    if sum(sizes) != len(blobs):
        raise ProtocolError("a message's blobs do not have the sizes that it lists")
    if len(message) == 1 and _MARK in message:
        raise ProtocolError("a message is nothing but a blob")
    pieces: List[bytes] = []
    start = 0
    for size in sizes:
        pieces.append(blobs[start : start + size])
        start += size
        if len(pieces) % _STEP_VALUES == 0:
            yield
    left: List[Any] = [message]
    work = 0
    while left:
        holder = left.pop()
        marked = False
        for place, value in holder.items() if type(holder) is dict else enumerate(holder):
            work += 1
            if work % _STEP_VALUES == 0:
                yield
            if type(place) is str and place.startswith(_MARK):
                marked = True
            if type(value) is dict and len(value) == 1 and _MARK in value:
                holder[place] = _blob(value[_MARK], pieces)
            elif type(value) is dict or type(value) is list:
                left.append(value)
        if marked:
            unmarked = {}
            for key, value in holder.items():
                work += 1
                if work % _STEP_VALUES == 0:
                    yield
                unmarked[key[1:] if key.startswith(_MARK) else key] = value
            holder.clear()
            holder.update(unmarked)


def _blob(index: Any, pieces: List[bytes]) -> bytes:
    if type(index) is not int or not 0 <= index < len(pieces):
        raise ProtocolError("a message names a blob that it does not carry")
    return pieces[index]
