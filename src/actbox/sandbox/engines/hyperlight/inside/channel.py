"""The program's only connection to the host: a function of the library that exchanges short JSON texts."""

from __future__ import annotations

import binascii
import io
import json
from collections.abc import Callable
from typing import Any

from ....guest import wire
from ....guest.tagged import CannotCross
from ....guest.tool_error import ToolError, tool_error

HTTP_REQUEST = "http_request"
_RAISED = {error.__name__: error for error in (TypeError, ValueError, PermissionError, OSError)}
_MARK = "_actbox_network"
# The library's buffer for one call has 16 KiB; base64 makes four thirds of this, and the names take a few bytes.
_PIECE_BYTES = 8 * 1024


class HostChannel:
    """Sends requests to the host and waits for each answer: one program, one thread, one request at a time."""

    def __init__(self, dispatch: Callable[[str, str], str]) -> None:
        self.max_bytes = 2**20
        self._dispatch = dispatch
        self._last_id = 0

    def begin(self, given: str) -> dict[str, Any]:
        """Return the message with the program: decoded from `given`, or fetched if it was too long for that."""
        frame = binascii.a2b_base64(given) if given else self._answer(self._call({}))
        message = wire.decode(*self._split(frame))
        self.max_bytes = message["message_bytes"]
        self._last_id = 0
        return message

    def call(self, tool: str, arguments: dict[str, Any], line: int | None = None) -> Any:
        """Call a tool and return its value; `line` is the line of the call. Raises `ToolError`."""
        self._last_id += 1
        message: dict[str, Any] = {"t": "call", "id": self._last_id, "tool": tool}
        if line is not None:
            message["line"] = line
        try:
            wire.put_value(message, "args", arguments)
            answer = self.ask(message)
        except CannotCross as error:
            raise ToolError(error.within("the call was not made: arguments"), tool) from None
        except wire.MessageTooLong as error:
            raise ToolError("the arguments are too large: %s" % error, tool) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError("the arguments cannot be sent: %s" % error, tool) from None
        if "error" in answer:
            raise tool_error(answer, tool)
        return answer["value"]

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return its answer. Raises the errors of `wire.encode`."""
        frame = memoryview(wire.encode(message, self.max_bytes))
        while len(frame) > _PIECE_BYTES:
            self._call({"m": _text(frame[:_PIECE_BYTES])})
            frame = frame[_PIECE_BYTES:]
        return wire.decode(*self._split(self._answer(self._call({"q": _text(frame)}))))

    def as_result(self, message: dict[str, Any]) -> str:
        """Return the result message as text for the library to deliver; "" if it is too long, so that `ask` must.

        Raises the errors of `wire.encode`.
        """
        frame = wire.encode(message, self.max_bytes)
        return _text(frame) if len(frame) <= _PIECE_BYTES else ""

    def say(self, stream: str, data: bytes) -> None:
        """Send data that was written to standard output (`o`) or error (`e`)."""
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
        message = reader.take()
        if message is None:
            raise wire.ProtocolError("half a message")
        return message


class HostStream(io.RawIOBase):
    """Standard output or error, sent to the host."""

    def __init__(self, channel: HostChannel, stream: str, number: int) -> None:
        self._channel = channel
        self._stream = stream
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any) -> int:
        copy = bytes(data)
        self._channel.say(self._stream, copy)
        return len(copy)


def bind_request(channel: HostChannel) -> Callable[..., Any]:
    """Return the function `http_request` for programs."""

    def http_request(*args: Any, **kwargs: Any) -> Any:
        """Make a request; return a dict of status, headers, text and content."""
        try:
            answer = channel.ask({"t": "request", "args": list(args), "kwargs": kwargs})
        except wire.MessageTooLong as error:
            raise ValueError("the request is too large: %s" % error) from None
        if "raised" in answer:
            raised = _RAISED[answer["raised"]](answer["text"])
            setattr(raised, _MARK, isinstance(raised, OSError))
            raise raised
        return answer["value"]

    http_request.__qualname__ = HTTP_REQUEST
    http_request.__module__ = "__main__"
    return http_request


def is_of_network(error: BaseException) -> bool:
    """Return whether an exception is about a refused or failed HTTP request."""
    return getattr(error, _MARK, False) is True


def _text(data: bytes | memoryview) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
