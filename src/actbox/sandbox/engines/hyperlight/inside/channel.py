"""The program's one way to the host: a function that the library lends, which takes and gives short texts of JSON."""

from __future__ import annotations

import binascii
import io
import json
from collections.abc import Callable
from typing import Any

from ....guest import wire

# The library's buffer for one call has 16 KiB; as base64 this many bytes take four thirds, beside a few for names.
_PIECE_BYTES = 8 * 1024


class ToolError(Exception):
    """A tool call failed; the message says how. `tool` is the tool's name; `refused`, whether approval was refused."""

    def __init__(self, message: str, tool: str = "", refused: bool = False) -> None:
        super().__init__(message)
        self.tool = tool
        self.refused = refused


# Programs see the name alone, as with a built-in exception.
ToolError.__module__ = "builtins"


class HostChannel:
    """Asks the host and waits for the answer; one program, one thread, one question at a time."""

    def __init__(self, dispatch: Callable[[str, str], str]) -> None:
        self.max_bytes = 2**20
        self._dispatch = dispatch
        self._last_id = 0

    def begin(self, given: str) -> dict[str, Any]:
        """Return the message that says what to run: it is `given`, or fetched where it was too long for that."""
        frame = binascii.a2b_base64(given) if given else self._answer(self._call({}))
        message = wire.decode(*self._split(frame))
        self.max_bytes = message["message_bytes"]
        self._last_id = 0
        return message

    def call(self, tool: str, arguments: dict[str, Any], line: int | None = None) -> Any:
        """Call a tool and wait for its value; `line` is where the program does so. Raises `ToolError`."""
        self._last_id += 1
        message = {"t": "call", "id": self._last_id, "tool": tool, "args": arguments}
        if line is not None:
            message["line"] = line
        try:
            answer = self.ask(message)
        except wire.MessageTooLong as error:
            raise ToolError("the arguments are too large: %s" % error, tool) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError("the arguments must be JSON values or bytes: %s" % error, tool) from None
        if "error" in answer:
            raise ToolError(answer["error"], tool, bool(answer.get("refused")))
        return answer["value"]

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return its answer. Raises what `wire.encode` raises."""
        frame = memoryview(wire.encode(message, self.max_bytes))
        while len(frame) > _PIECE_BYTES:
            self._call({"m": _text(frame[:_PIECE_BYTES])})
            frame = frame[_PIECE_BYTES:]
        return wire.decode(*self._split(self._answer(self._call({"q": _text(frame)}))))

    def as_result(self, message: dict[str, Any]) -> str:
        """Return the last message as text that the library hands on at the end; "" for one that has to be asked.

        Raises what `wire.encode` raises.
        """
        frame = wire.encode(message, self.max_bytes)
        return _text(frame) if len(frame) <= _PIECE_BYTES else ""

    def say(self, stream: str, data: bytes) -> None:
        """Hand on what was written to standard output (`o`) or error (`e`)."""
        for start in range(0, len(data), _PIECE_BYTES):
            self._call({stream: _text(data[start : start + _PIECE_BYTES])})

    def _call(self, given: dict[str, Any]) -> Any:
        return json.loads(self._dispatch("actbox", json.dumps(given)))

    def _answer(self, first: dict[str, Any]) -> bytes:
        answer = binascii.a2b_base64(first["piece"])
        if len(answer) == first["size"]:
            return answer
        pieces = [answer]
        have = len(answer)
        while have < first["size"]:
            pieces.append(binascii.a2b_base64(self._call({"p": have})["piece"]))
            have += len(pieces[-1])
        return b"".join(pieces)

    def _split(self, frame: bytes) -> tuple[bytes, bytes]:
        reader = wire.FrameReader(len(frame))
        reader.receive(frame)
        taken = reader.take()
        if taken is None:
            raise wire.ProtocolError("half a message")
        return taken


class HostStream(io.RawIOBase):
    """Standard output or error: what is written goes to the host."""

    def __init__(self, channel: HostChannel, stream: str, number: int) -> None:
        self._channel = channel
        self._stream = stream
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any) -> int:
        taken = bytes(data)
        self._channel.say(self._stream, taken)
        return len(taken)


def _text(data: bytes | memoryview) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
