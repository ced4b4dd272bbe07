"""The tool calls of an embedded interpreter, answered by the same code as calls over the channel."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from actbox.core.errors import ToolError
from actbox.sandbox.channel.calls import ToolCalls
from actbox.sandbox.channel.decoding import VALUE_BYTES, content_of, decode_by_turns
from actbox.sandbox.channel.encoding import encode
from actbox.sandbox.channel.messages import Call
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.tagged import CannotCross
from actbox.tools.large_values import aside

if TYPE_CHECKING:
    from .running import EmbeddedRun


class CallRefused(ToolError):
    """Raised when a call was not made because approval was refused."""


class HostCalls:
    """Answers the tool calls of one run.

    Arguments and results are checked, bounded and copied as if they had gone over the channel: the interpreter and the
    tools never share an object.
    """

    on_drained: Callable[[], None]
    backlog_bytes = 0  # the caller takes each answer at once

    def __init__(self, run: EmbeddedRun) -> None:
        self._loop = asyncio.get_running_loop()
        self.tell = run.tell
        """Reports an event of the run, in its event loop."""
        asked, limits = run.asked, run.asked.limits
        self._max_bytes = limits.message_bytes
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._over = False
        context = contextvars.copy_context()
        self._calls = ToolCalls(asked.toolset, asked.program.code, run.clock, limits, run, self, context)

    @property
    def count(self) -> int:
        """The number of calls made."""
        return self._calls.count

    async def call(self, tool: str, arguments: Mapping[str, Any], line: int | None = None) -> Any:
        """Call a tool by name and return a copy of its value. `line` is the program's line of the call.

        Raises `ToolError` with the sentence for the program, or `CallRefused` if approval was refused. If the run is
        being ended instead, because of this call or for another reason, the wait is cancelled.
        """
        await self._room.wait()
        if self._over:
            raise ToolError("no program is running, so that nobody answers", tool=tool)
        self._last_id += 1
        number = self._last_id
        call, size, weight = await self._as_sent(number, tool, arguments, line)
        if self._over:
            raise ToolError("no program is running, so that nobody answers", tool=tool)
        waiting = self._waiting[number] = self._loop.create_future()
        try:
            self._calls.start(call, size, weight)
            answer, _ = await decode_by_turns(*content_of(await waiting))
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            kind = CallRefused if answer.get("refused") else ToolError
            raise kind.of_answer(answer, tool)
        return answer["value"]

    def call_blocking(self, tool: str, arguments: Mapping[str, Any], line: int | None = None) -> Any:
        """Do as `call` from another thread than the event loop's. Also raises `concurrent.futures.CancelledError`."""
        return asyncio.run_coroutine_threadsafe(self.call(tool, arguments, line), self._loop).result()

    def cancel(self) -> None:
        """Answer no more calls, and start none."""
        self._over = True
        self._calls.cancel()
        for waiting in self._waiting.values():
            waiting.cancel()
        self._room.set()

    # The interface that `ToolCalls` needs for answers

    def answer(self, call_id: int, frame: bytes, *, soon: bool = False) -> None:
        """Pass an answer to the call, if it still waits."""
        waiting = self._waiting.get(call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    def lend(self) -> None:
        """Return `None`: there is no socket."""

    def take_back(self) -> None:
        """Do nothing: nothing is lent."""

    def pause(self) -> None:
        """Make further calls wait, because too much is held for those under way."""
        self._room.clear()

    def resume(self) -> None:
        """Let calls start again."""
        self._room.set()

    async def _as_sent(
        self, number: int, tool: str, arguments: Mapping[str, Any], line: int | None
    ) -> tuple[Call, int, int]:
        """Return a call as it would have come over the channel, with its size and weight in bytes."""
        if not isinstance(tool, str) or len(tool) > 256:
            raise ToolError("a tool is called by its name, which is text of at most 256 characters")

        def encoded(given: dict[str, Any]) -> bytes:
            message: dict[str, Any] = {}
            wire.put_value(message, "args", given)
            return encode(message, self._max_bytes)

        try:
            frame = await aside(encoded, dict(arguments))
        except CannotCross as error:
            raise ToolError(error.within("the call was not made: arguments"), tool=tool) from None
        except wire.MessageTooLong as error:
            raise ToolError(f"the arguments are too large: {error}", tool=tool) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError(f"the arguments cannot be sent: {error}", tool=tool) from None
        message, values = await decode_by_turns(*content_of(frame))
        return Call(number, tool, message["args"], line), len(frame), len(frame) + VALUE_BYTES * values
