"""Frames: how one message looks on the channel. Pure: bytes in, messages out; both ends use it.

A frame is two big-endian 32-bit lengths, then that much JSON (one object) and that many bytes of blobs. A message
without bytes in it has no blobs. With them, each stands in the JSON as `{"\\0": index}` and the message's `blobs`
key lists their sizes; a key of the message's own that starts with NUL gets one more NUL, so nothing is mistaken.

Of a message's fields, those that its `tagged` key lists are in the tagged form (`tagged.py`) and are opened when it is
decoded. All others are JSON data, whatever they look like.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate

from . import tagged

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

_LENGTH_BITS = 32
_HEADER_BYTES = 2 * _LENGTH_BITS // 8
_LENGTH_MASK = (1 << _LENGTH_BITS) - 1
_MARK = "\0"
# Python's own default (`sys.int_info.default_max_str_digits`); a program may have switched it off for itself.
MAX_DIGITS = 4300
# What one message may have of values, and as how many of them a list or an object counts: `[],` is three bytes of text,
# and takes eighty of memory and as much time as ten numbers.
MAX_VALUES = 2_000_000
VALUES_OF_A_CONTAINER = 10
TOO_MANY_VALUES = (
    "more than %d values in one message, where a list or an object counts as %d; give large data as text or bytes"
    % (MAX_VALUES, VALUES_OF_A_CONTAINER)
)
# Text outside JSON strings is separated in parts of this size, so that a hostile message takes little more memory.
_PART = 1 << 20
# Before CPython 3.12 each level of JSON takes a frame of the program's own call stack.
MAX_DEPTH = 200
EXIT_TOLD = 231
"""The exit code of a guest that leaves nothing behind, after its result was sent: the result has the program's own."""
EXIT_CHANNEL_LOST = 76
"""The exit code of a guest whose program ended, but whose result could not be sent: EX_PROTOCOL of sysexits.h."""
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DEEPER = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# The number of values examined in one step of replacing blob references.
_STEP_VALUES = 20_000
# A call has `args`, a result and an answer have `value`, a program has `inputs`. Other fields belong to the channel.
_MAY_BE_TAGGED = frozenset({"args", "value", "inputs"})
# The most bytes of a message besides the data that it carries.
ENVELOPE_BYTES = 65536
# Matches from a number's first digit only; trying every digit would take thousands of times as long.
_LONG_NUMBER = r"(?<![0-9])[0-9]{%d}" % (MAX_DIGITS + 1)


def _refuse(value: Any) -> Any:
    raise TypeError("%s is not JSON data" % type(value).__name__)


# The encoder and the scanner that `json` makes anew, or wraps in several calls, for each document.
_encoder = json.JSONEncoder(separators=(",", ":")).encode
_make_encoder = getattr(json.encoder, "c_make_encoder", None)
_pieces = _make_encoder and _make_encoder(
    None, _refuse, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class ProtocolError(Exception):
    """The other end broke the rules of the channel."""


class MessageTooLong(ProtocolError):
    """A message is longer than the channel allows."""


def put_value(message: Dict[str, Any], name: str, value: Any) -> None:
    """Set a field of a message to a value, tagged if it is not JSON data. Raises `tagged.CannotCross`."""
    message[name] = packed = tagged.pack(value, keeps_bytes=True)
    if packed is not value:
        message["tagged"] = [*message.get("tagged", ()), name]


def encode(message: Dict[str, Any], max_bytes: int) -> bytes:
    """Return one frame. Raises `TypeError`, `ValueError` or `RecursionError` for values other than JSON and bytes."""
    try:
        text, blobs = _encoder(message), b""
    except TypeError:
        pieces: List[bytes] = []
        lifted = lift(message, pieces)
        lifted["blobs"] = [len(piece) for piece in pieces]
        text, blobs = _encoder(lifted), b"".join(pieces)
    return frame_of(text, max_bytes, blobs)


def plain_text(value: Any) -> str:
    """Return the JSON text of a value that is known to be JSON data and not to contain itself."""
    return "".join(_pieces(value, 0)) if _pieces else _encoder(value)


def frame_of(text: str, max_bytes: int, blobs: bytes = b"") -> bytes:
    """Return one frame of JSON text. Raises `MessageTooLong`, and `ValueError` as `encode` does."""
    if len(text) > MAX_DEPTH and not _is_small(text):
        check_text(text)
        if has_too_many_values(text):
            raise ValueError(TOO_MANY_VALUES)
    return framed(text.encode("ascii"), blobs, max_bytes)


def framed(body: bytes, blobs: bytes, max_bytes: int) -> bytes:
    """Return one frame of JSON and blobs. Raises `MessageTooLong`."""
    if len(body) + len(blobs) > max_bytes:
        raise MessageTooLong("a message of {:,} bytes; the limit is {:,}".format(len(body) + len(blobs), max_bytes))
    return (len(body) << _LENGTH_BITS | len(blobs)).to_bytes(_HEADER_BYTES, "big") + body + blobs


def _is_small(text: str) -> bool:
    """Return whether JSON text is so short, with so few brackets, that it cannot exceed a limit."""
    return len(text) <= MAX_DIGITS and text.count("[") + text.count("{") <= MAX_DEPTH


def check_text(text: str) -> None:
    """Raise `ValueError` for JSON text that some Python could not read back."""
    if has_long_number(text):
        raise ValueError("an integer of more than %d digits" % MAX_DIGITS)
    if is_too_deep(text):
        raise ValueError("values nested more than %d deep" % MAX_DEPTH)


def lift(value: Any, pieces: List[bytes]) -> Any:
    """Return a value with a mark in place of each bytes object, which is added to the pieces."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        pieces.append(bytes(value))
        return {_MARK: len(pieces) - 1}
    if isinstance(value, dict):
        return {
            _MARK + key if isinstance(key, str) and key.startswith(_MARK) else key: lift(item, pieces)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [lift(item, pieces) for item in value]
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
    """Return whether JSON text has so many values that they would take far more memory than the text."""
    if _count_values(text) <= MAX_VALUES:
        return False
    return count_values(text) > MAX_VALUES


def count_values(text: str) -> int:
    """Return the weight of JSON text for `MAX_VALUES`: 1 for each comma, `VALUES_OF_A_CONTAINER` for each container."""
    return sum(map(_count_values, _outside_texts(text)))


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
    """Yield the text outside the strings of JSON, part by part, even if it is invalid; takes linear time."""
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
        self._buffer: Union[bytes, bytearray] = b""
        """The last data received, of which `_at` bytes were taken; or a copy of several, without the bytes taken."""
        self._at = 0
        self._need = _HEADER_BYTES
        self.size = 0
        """The number of bytes in the frame that was taken last."""
        self.pending = 0
        """The number of bytes received and not taken."""

    def receive(self, data: bytes) -> None:
        """Add received bytes."""
        buffer = self._buffer
        self.pending += len(data)
        if not buffer:
            self._buffer = bytes(data)
            return
        if isinstance(buffer, bytes):
            self._buffer = buffer = bytearray(memoryview(buffer)[self._at :])
            self._at = 0
        buffer += data

    def take(self) -> Optional[Tuple[bytes, bytes]]:
        """Return the JSON and the blobs of the next frame if it is complete, else `None`.

        Raises `MessageTooLong`; the reader is unusable after that.
        """
        buffer, at = self._buffer, self._at
        if self.pending < self._need:
            return None
        lengths = int.from_bytes(buffer[at : at + _HEADER_BYTES], "big")
        text_length, blob_length = lengths >> _LENGTH_BITS, lengths & _LENGTH_MASK
        size = _HEADER_BYTES + text_length + blob_length
        if size - _HEADER_BYTES > self._max_bytes:
            raise MessageTooLong(
                "a message of {:,} bytes; the limit is {:,}".format(text_length + blob_length, self._max_bytes)
            )
        end = at + size
        if len(buffer) < end:
            self._need = size
            return None
        start = at + _HEADER_BYTES
        middle = start + text_length
        if isinstance(buffer, bytes):
            text, blobs = buffer[start:middle], buffer[middle:end]
            self._at = end
        else:
            with memoryview(buffer) as view:
                text, blobs = bytes(view[start:middle]), bytes(view[middle:end])
            del buffer[:end]
        self.pending -= size
        if not self.pending:
            self._buffer, self._at = b"", 0
        self._need = _HEADER_BYTES
        self.size = size
        return text, blobs

    def feed(self, data: bytes) -> Iterator[Dict[str, Any]]:
        """Yield every message that is complete now. Raises `ProtocolError`; the reader is unusable after that."""
        self.receive(data)
        frame = self.take()
        while frame is not None:
            yield decode(*frame)
            frame = self.take()

    @property
    def missing(self) -> int:
        """The least number of bytes still to come before another frame is complete."""
        return max(self._need - self.pending, 0)


def decode(text: bytes, blobs: bytes) -> Dict[str, Any]:
    """Return the message of one frame, at once. Raises `ProtocolError`."""
    try:
        decoded = text.decode("utf-8")
        if len(decoded) > MAX_DEPTH and not _is_small(decoded):
            if has_too_many_values(decoded):
                raise ProtocolError("a message of more than %d values" % MAX_VALUES)
            if is_too_deep(decoded):
                raise ProtocolError("a message nested more than %d deep" % MAX_DEPTH)
        try:
            message, end = _scan(decoded, 0)
        except StopIteration:
            end = -1
        if end != len(decoded):
            message = json.loads(decoded)  # which refuses the text, or skips the spaces around it
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message is not JSON: %s" % error) from None
    if type(message) is not dict:
        raise ProtocolError("a message is not a JSON object")
    if blobs or "blobs" in message or "tagged" in message:
        for _ in open_in_steps(message, blobs):
            pass
    return message


def open_in_steps(message: Dict[str, Any], blobs: bytes) -> Iterator[None]:
    """Replace a message's blob references and open its tagged fields, in bounded steps. Raises `ProtocolError`."""
    yield from _place_blobs(message, blobs)
    names = message.pop("tagged", ())
    if type(names) not in (list, tuple) or len(names) > len(_MAY_BE_TAGGED):
        raise ProtocolError("a message's list of tagged fields makes no sense")
    if not {str}.issuperset(map(type, names)) or len({*names} & _MAY_BE_TAGGED & message.keys()) < len(names):
        raise ProtocolError("a message's list of tagged fields makes no sense")
    for name in names:
        holder = [message[name]]
        try:
            yield from tagged.open_in_steps(holder)
        except ValueError as error:
            raise ProtocolError("a message whose %r cannot be opened: %s" % (name[:40], error)) from None
        message[name] = holder[0]


def _place_blobs(message: Dict[str, Any], blobs: bytes) -> Iterator[None]:
    """Replace a message's references to blobs by the blobs, in steps that examine a bounded number of values.

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
    pieces: Dict[int, bytes] = {}
    start = 0
    for size in sizes:
        pieces[len(pieces)] = blobs[start : start + size]
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


def _blob(index: Any, pieces: Dict[int, bytes]) -> bytes:
    """Remove and return a blob; each may be referenced once, because many references would each copy it."""
    if type(index) is not int or index not in pieces:
        raise ProtocolError("a message names a blob that it does not carry, or names one twice")
    return pieces.pop(index)
