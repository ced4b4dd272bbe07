"""The tool calls of an embedded interpreter: answered by the same code as those that come over the channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from actbox.core.errors import ToolError
from actbox.core.events import Event
from actbox.core.limits import Limits
from actbox.sandbox.channel.calls import ToolCalls
from actbox.sandbox.channel.decoding import VALUE_BYTES, count_values
from actbox.sandbox.channel.messages import Call
from actbox.sandbox.clock import WallClock
from actbox.sandbox.guest import wire
from actbox.tools import Toolset


class CallRefused(ToolError):
    """A call was not made, since nobody approved it."""


class HostCalls:
    """Answers the calls of one run.

    What goes in and comes out is checked, bounded and copied as if it had gone over the channel: the interpreter and
    the tools never share an object.
    """

    on_drained: Callable[[], None]
    backlog_bytes = 0  # whoever calls takes the answer at once

    def __init__(
        self,
        toolset: Toolset,
        program: str,
        clock: WallClock,
        limits: Limits,
        emit: Callable[[Event], None],
        on_budget: Callable[[str], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.tell = emit
        """Tells an event of the run, in its event loop."""
        self._max_bytes = limits.message_bytes
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._over = False
        self._calls = ToolCalls(
            toolset,
            program,
            clock,
            limits.tool_calls,
            limits.tool_bytes,
            limits.message_bytes,
            emit,
            on_budget,
            on_failure,
        )
        self._calls.attach(self)

    @property
    def count(self) -> int:
        """How many calls were made."""
        return self._calls.count

    async def call(self, tool: str, arguments: Mapping[str, Any], line: int | None = None) -> Any:
        """Call a tool by name and return its value: JSON data or bytes, a copy. `line` is where the program does so.

        Raises `ToolError` with the sentence that the program is to see, `CallRefused` where approval was refused. Where
        the run is being ended instead, because of this call or for another reason, the wait is cancelled.
        """
        await self._room.wait()
        if self._over:
            raise ToolError("no program is running, so that nobody answers", tool=tool)
        self._last_id += 1
        number = self._last_id
        call, size, weight = self._as_sent(number, tool, arguments, line)
        waiting = self._waiting[number] = self._loop.create_future()
        try:
            self._calls.start(call, size, weight)
            answer = await waiting
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            kind = CallRefused if answer.get("refused") else ToolError
            raise kind(str(answer["error"]), tool=tool)
        return answer["value"]

    def call_blocking(self, tool: str, arguments: Mapping[str, Any], line: int | None = None) -> Any:
        """Do as `call` from another thread than the event loop's. Raises `concurrent.futures.CancelledError` too."""
        return asyncio.run_coroutine_threadsafe(self.call(tool, arguments, line), self._loop).result()

    def withdraw(self) -> None:
        """Ask nobody any more: the run is being ended."""
        self._calls.withdraw()

    def cancel(self) -> None:
        """Answer nothing more, and begin no call."""
        self._over = True
        self._calls.cancel()
        for waiting in self._waiting.values():
            waiting.cancel()
        self._room.set()

    # What `ToolCalls` asks of where its answers go

    def send(self, frame: bytes) -> None:
        """Hand an answer to whoever waits for it."""
        (answer,) = wire.FrameReader(len(frame)).feed(frame)
        waiting = self._waiting.get(answer["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def pause(self) -> None:
        """Let further calls wait: too much is held for those that are under way."""
        self._room.clear()

    def resume(self) -> None:
        """Let calls begin again."""
        self._room.set()

    def _as_sent(self, number: int, tool: str, arguments: Mapping[str, Any], line: int | None) -> tuple[Call, int, int]:
        """Return a call as it would have come over the channel, its size and its weight, in bytes."""
        if not isinstance(tool, str) or len(tool) > 256:
            raise ToolError("a tool is called by its name, which is text of at most 256 characters")
        try:
            frame = wire.encode({"args": dict(arguments)}, self._max_bytes)
        except wire.MessageTooLong as error:
            raise ToolError(f"the arguments are too large: {error}", tool=tool) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError(f"the arguments must be JSON values or bytes: {error}", tool=tool) from None
        (message,) = wire.FrameReader(len(frame)).feed(frame)
        weight = len(frame) + VALUE_BYTES * count_values(frame)
        return Call(number, tool, message["args"], line), len(frame), weight
