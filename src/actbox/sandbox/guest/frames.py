"""Frames between the host and an agent: many streams over one pair of pipes. Pure: bytes in, frames out; both use it.

A frame is a kind, a part, a stream number and a length (`!BBII`), then that many bytes. A stream is one guest or one
file operation; its parts are the channels of data in it. `DATA` of a part may be sent only as far as the receiver has
room: `WINDOW` bytes at first, then as much more as its `CREDIT` frames grant. So a stream that nobody reads takes
bounded memory, and blocks no other stream.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Tuple

HEADER = struct.Struct("!BBII")
MAX_PAYLOAD = 128 * 1024
WINDOW = 512 * 1024
OWED = WINDOW // 4
"""Room is given back in amounts of at least this many bytes."""
PIECE = 64 * 1024
"""The most bytes of one stream in a frame, so that other streams get their turn."""

# Kinds sent by the host:
OPEN, CALL, INTERRUPT, KILL = 1, 2, 3, 4
# Kinds sent by both:
DATA, END, CREDIT = 5, 6, 7
# Kinds sent by the agent:
HELLO, ENDED, RESULT = 8, 9, 10
# Sent by the host, over a socket only, with descriptors: a guest's ends of its channel, output and errors.
LEND = 11
LENT = 3
"""The number of descriptors with one `LEND` frame."""

# Parts of a guest's stream, and the only part of a file operation's.
CHANNEL, STDIN, STDOUT, STDERR, CONTENT = 0, 1, 2, 3, 4

_COUNT = struct.Struct("!I")


class FrameError(Exception):
    """Raised when the other end broke the rules of the protocol."""


def pack(kind: int, stream: int, part: int = 0, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return HEADER.pack(kind, part, stream, len(payload)) + payload


def pack_json(kind: int, stream: int, content: Dict[str, Any]) -> bytes:
    """Return one frame with JSON in it. Raises `FrameError` if it is too long."""
    payload = json.dumps(content).encode("ascii")
    if len(payload) > MAX_PAYLOAD:
        raise FrameError("a message of %d bytes; the limit is %d" % (len(payload), MAX_PAYLOAD))
    return pack(kind, stream, 0, payload)


def pack_credit(stream: int, part: int, count: int) -> bytes:
    """Return the frame that grants the other end room for `count` more bytes."""
    return pack(CREDIT, stream, part, _COUNT.pack(count))


def credit_of(payload: bytes) -> int:
    """Return the bytes that a `CREDIT` frame grants. Raises `FrameError`."""
    if len(payload) != _COUNT.size:
        raise FrameError("a credit is no number")
    return int(_COUNT.unpack(payload)[0])


def json_of(payload: bytes) -> Dict[str, Any]:
    """Return the JSON object of a frame. Raises `FrameError`."""
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise FrameError("a message is not JSON: %s" % error) from None
    if type(content) is not dict:
        raise FrameError("a message is not a JSON object")
    return content


class FrameParser:
    """Turns received bytes into frames; refuses one by its header, before its content takes memory."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[int, int, int, bytes]]:
        """Yield (kind, part, stream, payload) of every frame that is complete now. Raises `FrameError`."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER.size:
                kind, part, stream, length = HEADER.unpack_from(buffer, start)
                if length > MAX_PAYLOAD:
                    raise FrameError("a frame of %d bytes; the limit is %d" % (length, MAX_PAYLOAD))
                if not OPEN <= kind <= LEND or part > CONTENT:
                    raise FrameError("a frame of no known kind")
                end = start + HEADER.size + length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[start + HEADER.size : end])
                start = end
                yield kind, part, stream, payload
        finally:
            del buffer[:start]
