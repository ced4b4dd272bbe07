"""Answers the requests of one run's program to the host."""

from __future__ import annotations

import asyncio
import codecs
import errno
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from actbox.core.errors import ToolError
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.channel.decoding import decode_by_turns
from actbox.sandbox.channel.encoding import encode_aside
from actbox.sandbox.channel.messages import Call, Done, parse
from actbox.sandbox.embedded import CallRefused, Evaluation
from actbox.sandbox.guest import wire
from actbox.tools.large_values import aside

from .guest_files import GuestFiles

if TYPE_CHECKING:
    from actbox.sandbox.embedded.http import Requests

_STREAMS: Final[dict[str, Literal["stdout", "stderr"]]] = {"o": "stdout", "e": "stderr"}


class ProgramRequests:
    """Answers the requests of one run; each message is validated before it is used.

    `done` is the program's result, if it sent one; `lacks` is the line that uses an unsupported feature; `exit_code` is
    the argument of `os._exit`, which ends the machine.
    """

    def __init__(self, evaluation: Evaluation, files: GuestFiles, requests: Requests | None = None) -> None:
        """`files` are opened at the first file request; `requests` makes HTTP requests, if there is a network."""
        self.done: Done | None = None
        self.lacks: int | None = None
        self.exit_code: int | None = None
        self._evaluation = evaluation
        self._files = files
        self._uses_files = False
        self._requests = requests
        self._max_bytes = evaluation.limits.message_bytes
        self._decoders = {letter: codecs.getincrementaldecoder("utf-8")("replace") for letter in _STREAMS}

    def say(self, letter: str, data: bytes) -> None:
        """Report output of the program."""
        text = self._decoders[letter].decode(data)
        if text:
            self._evaluation.say(_STREAMS[letter], text)

    async def take_result(self, frame: bytes) -> None:
        """Record the program's result, its last message. Raises `ProtocolError`."""
        message = await _decoded(frame, self._max_bytes)
        if self.done is not None or message.get("t") != "done":
            raise wire.ProtocolError("a result that is none, or a second one")
        self.done = cast(Done, parse(message))

    async def finish(self) -> None:
        """Report the rest of incomplete characters, and close files and HTTP requests."""
        for letter, decoder in self._decoders.items():
            if text := decoder.decode(b"", final=True):
                self._evaluation.say(_STREAMS[letter], text)
        if self._requests is not None:
            self._requests.close()
        if self._uses_files:
            await run_blocking(self._files.close)

    async def open_files(self) -> None:
        """Open the files before any request. Raises `SandboxUnavailable` if a mount has another file now."""
        self._uses_files = True
        await run_blocking(self._files.open)

    async def answer(self, frame: bytes) -> bytes:
        """Return the answer to a request. Raises `ProtocolError` for an invalid one, or an error that ends the run."""
        message = await _decoded(frame, self._max_bytes)
        answer = await self._answered(message)
        # A response contains its body as text and as bytes; a character of text takes up to six bytes of a message.
        most = self._max_bytes * (8 if message.get("t") == "request" else 1)
        return await encode_aside(answer, most + wire.ENVELOPE_BYTES)

    async def _answered(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.done is not None:
            raise wire.ProtocolError("a message after the result")
        match message.get("t"):
            case "call" | "done":
                parsed = parse(message)
                if isinstance(parsed, Call):
                    return await self._called(parsed)
                self.done = parsed
                return {}
            case "file":
                return await self._filed({name: value for name, value in message.items() if name != "t"})
            case "request" if type(message.get("args")) is list and type(message.get("kwargs")) is dict:
                return await self._requested(message["args"], message["kwargs"])
            case "sleep" if _is_number(message.get("seconds"), 1e9):
                await asyncio.sleep(message["seconds"])
                return {}
            case "lacks" if _is_number(message.get("line"), 2**31):
                self.lacks = int(message["line"])
                return {}
            case "exit" if _is_number(message.get("code"), 255):
                self.exit_code = int(message["code"])
                return {}
        raise wire.ProtocolError("a message of an unknown kind")

    async def _called(self, call: Call) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = {}
            value = await self._evaluation.calls.call(call.tool, call.arguments, call.line)
            await aside(partial(wire.put_value, answer, "value"), value)
            return answer
        except ToolError as error:
            answer = error.as_answer()
            if isinstance(error, CallRefused):
                answer["refused"] = True
            return answer

    async def _requested(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self._requests is None:
            raise wire.ProtocolError("a request where there is no network")
        try:
            return {"value": await self._requests.request(tuple(args), kwargs)}
        except (OSError, TypeError, ValueError) as error:
            kinds = (PermissionError, OSError, TypeError, ValueError)
            kind = next(kind.__name__ for kind in kinds if isinstance(error, kind))
            return {"raised": kind, "text": str(error)}

    async def _filed(self, message: dict[str, Any]) -> dict[str, Any]:
        if not self._uses_files:
            await self.open_files()
        try:
            return {"value": await run_blocking(self._files.do, message)}
        except OSError as error:
            number = error.errno or errno.EIO
            return {"errno": errno.errorcode.get(number, "EIO"), "text": error.strerror or "Input/output error"}


def _parts(frame: bytes, max_bytes: int) -> tuple[bytes, bytes]:
    reader = wire.FrameReader(max_bytes + wire.ENVELOPE_BYTES)
    reader.receive(frame)
    message = reader.take()
    if message is None or reader.pending:
        raise wire.ProtocolError("a message that is not whole, or more than one")
    return message


async def _decoded(frame: bytes, max_bytes: int) -> dict[str, Any]:
    message, _ = await decode_by_turns(*_parts(frame, max_bytes))
    return message


def _is_number(value: object, most: float) -> bool:
    return type(value) in (int, float) and 0 <= value <= most  # type: ignore[operator]
