"""One program in a worker's instance: receives its messages and output, and answers its calls."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from actbox.core.errors import ToolError
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.channel.calls import MAX_CALLS_AT_ONCE, MESSAGES_HELD
from actbox.sandbox.channel.decoding import STEP_BYTES, at_once
from actbox.sandbox.channel.encoding import encode_aside
from actbox.sandbox.channel.messages import Call, Done, parse, take_in, unreadable
from actbox.sandbox.embedded import CallRefused, Evaluation
from actbox.sandbox.embedded.http_request import NAME as HTTP_REQUEST
from actbox.sandbox.embedded.http_request import charset_of
from actbox.sandbox.guest import wire
from actbox.sandbox.nursery.share_of_time import Share
from actbox.sandbox.requests import encode_program, resolved, run_message
from actbox.tools.large_values import aside

from .disk_usage import ENTRY_BYTES, ENTRY_SECONDS, room, written_by
from .folders import output_of
from .worker import Worker

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.embedded.http import Requests

# The most bytes added to the inbox in the event loop; more are added in a thread.
_MIB: Final = 2**20
_AT_ONCE_BYTES: Final = 256 * 1024
_LONGEST_STILL_SECONDS: Final = 1.0
_MOST_UNREACHED: Final = 100
# After a full look at the files, the next optional look waits this many times as long as it took.
_REST: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The known facts about how a program ended."""

    done: Done | None = None
    """The guest's result, if it sent one."""
    report: Mapping[str, Any] | None = None
    """The worker's report, or `None` if the worker has ended."""
    is_over: bool = True
    """True if the program's instance has ended with it."""
    has_begun: bool = True
    """True if any of the program may have run; false if its worker had ended before."""
    broke_rules: str = ""
    limit: str = ""
    """The limit that the host enforced, or ""."""
    exit_code: int = 0
    """The exit code of the worker, if that has ended."""
    unreached: Collection[str] = ()
    """The proxy's sentences on requests that were refused, or failed."""


class WasmProgram:
    """Listens to a worker until a program has ended. Must be created in the event loop in which tools are called."""

    def __init__(
        self, worker: Worker, evaluation: Evaluation, proxy: EgressProxy | None, tmp_folders: set[str]
    ) -> None:
        """`tmp_folders` are the directories at `/tmp` of all programs and sessions of the sandbox; it is added."""
        self._tmp_folders = tmp_folders
        tmp_folders.add(worker.tmp_folder)
        self._worker = worker
        self._evaluation = evaluation
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # the caller's context, which tools see
        self._over: asyncio.Future[Ended] = self._loop.create_future()
        self._reader = wire.FrameReader(evaluation.limits.message_bytes + wire.ENVELOPE_BYTES)
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._done: Done | None = None
        self._broke_rules = ""
        self._limit = ""
        limits = evaluation.limits
        # An instance has one thread, so it uses at most one processor.
        self._share = Share(limits.cpus, 0.0, time.monotonic()) if limits.cpus < 1 else None
        self._room = threading.Condition()
        self._held_calls = self._held_bytes = 0
        self._posting = asyncio.Lock()
        self._requests: Requests | None = None
        if proxy is not None:
            from actbox.sandbox.embedded.http import Requests  # its dependencies take long to import

            self._requests = Requests(proxy, evaluation.calls.tell, limits.message_bytes)
        self._may_have_written = -1
        self._looked_at = self._next_look = 0.0
        self._unreached: deque[str] = deque(maxlen=_MOST_UNREACHED)
        self._answering: set[asyncio.Task[None]] = set()

    def begin(self, *, last: bool) -> None:
        """Run the program in the instance; with `last` no other one will follow. Raises `InvalidValue`."""
        asked = self._evaluation
        program = asked.program
        self._worker.begin(
            self,
            encode_program(
                run_message(program, asked.toolset, "/workspace")
                | {
                    "last": last,
                    "http": self._requests is not None,
                    "variables": resolved(asked.variables, "/workspace"),
                    "message_bytes": asked.limits.message_bytes,
                    "file_bytes": asked.limits.file_mib * 2**20,
                    "workspace": "/workspace",
                }
            ),
            last=last,
        )

    async def ended(self) -> Ended:
        """Wait for the end of the program and return it."""
        return await asyncio.shield(self._over)

    def give_up(self) -> None:
        """Stop answering calls, because nobody waits for the end any more."""
        with self._room:
            self._broke_rules = self._broke_rules or "given up"
            self._room.notify_all()
        for task in self._answering:
            task.cancel()
        if self._requests is not None:
            self._requests.close()

    # Called in the worker's threads

    def on_begin(self) -> None:
        """Measure the free room while the interpreter starts."""
        self._has_written_too_much(look=True)

    def on_message(self, data: bytes) -> None:
        """Handle data of messages; wait while too many calls are under way."""
        if self._broke_rules or self._has_written_too_much():
            return
        try:
            self._reader.receive(data)
            while (frame := self._reader.take()) is not None:
                size = self._reader.size
                said = _read(*frame)
                if self._done is not None:
                    raise wire.ProtocolError("a message after the last")
                if isinstance(said, Done):
                    self._done = said
                else:
                    self._begin_call(said, size)
        except wire.ProtocolError as error:
            self._broke_rules = str(error)
            self._tell(Ended(broke_rules=str(error)))

    def on_output(self, name: Literal["stdout", "stderr"], data: bytes) -> None:
        """Report printed output."""
        if self._has_written_too_much():
            return
        if text := self._decoders[name].decode(data):
            self._evaluation.say(name, text)

    def on_tick(self, cpu_seconds: float) -> None:
        """Check the limits."""
        if cpu_seconds > self._evaluation.limits.cpu_seconds:
            self._reached("cpu_seconds")
        elif not self._has_written_too_much(look=True):
            self._share_out(cpu_seconds)

    def on_end(self, report: Mapping[str, Any], is_over: bool) -> None:
        """Handle the end of a program that ended by itself."""
        self._next_look = 0.0  # however long the one before took, the last look is made
        if not self._limit and self._is_disk_full(look=True):
            self._limit = "workspace_mib"
        self._say_rest()
        self._tell(
            Ended(
                done=self._done,
                report=report,
                is_over=is_over,
                broke_rules=self._broke_rules,
                limit=self._limit,
                unreached=self._unreached,
            )
        )

    def on_lost(self, exit_code: int, has_begun: bool) -> None:
        """Handle the end of the worker, by itself or because it was killed."""
        self._say_rest()
        self._tell(Ended(broke_rules=self._broke_rules, limit=self._limit, exit_code=exit_code, has_begun=has_begun))

    # Inside

    def _reached(self, limit: str) -> None:
        self._limit = limit
        self._tell(Ended(limit=limit))

    def _has_written_too_much(self, *, look: bool = False) -> bool:
        """Return whether the program has filled more than it may; kill it if so.

        This is checked before any of its output is handled, so nothing that it did beyond the limit is reported.
        """
        if not self._limit and self._is_disk_full(look):
            self._reached("workspace_mib")
        return self._limit == "workspace_mib"

    def _is_disk_full(self, look: bool) -> bool:
        """Measure the files, unless the worker has written less than the room left at the last measurement.

        New files and directories since then are not counted; with `look`, as many are assumed as there was time to
        make.
        """
        if self._worker.is_ended:  # it writes nothing more, and the excess is removed
            return False
        begun = time.monotonic()
        look = look and begun >= self._next_look
        asked = self._evaluation
        limits = asked.limits
        written = written_by(self._worker.process)
        made = (begun - self._looked_at) / ENTRY_SECONDS * ENTRY_BYTES if look else 0
        others_write = limits.disk_mib is not None and len(self._tmp_folders) > 1 and begun >= self._next_look
        if not others_write and written is not None and written + made <= self._may_have_written:
            return False
        most = limits.workspace_mib * _MIB
        folders = asked.folder, asked.input_folder, output_of(asked.folder)
        left = min(room(most, *folders), room(most, self._worker.tmp_folder))
        if limits.disk_mib is not None:
            left = min(left, room(limits.disk_mib * _MIB, *folders, *list(self._tmp_folders)))
        self._may_have_written = (written or 0) + left
        now = time.monotonic()
        self._looked_at = begun
        self._next_look = now + _REST * (now - begun)
        return left < 0

    def _share_out(self, cpu_seconds: float) -> None:
        """Stop the worker for as long as it has used more than its share of a processor."""
        if self._share is not None and (still := self._share.still_seconds(cpu_seconds, time.monotonic())):
            self._worker.stand_still(min(still, _LONGEST_STILL_SECONDS))

    def _say_rest(self) -> None:
        if self._limit == "workspace_mib":
            return
        for name, decoder in self._decoders.items():
            if text := decoder.decode(b"", final=True):
                self._evaluation.say(name, text)  # type: ignore[arg-type]

    def _tell(self, ended: Ended) -> None:
        def tell() -> None:
            if not self._over.done():
                self._over.set_result(ended)

        self._in_loop(tell)

    def _in_loop(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(function)

    def _begin_call(self, call: Call, size: int) -> None:
        most_bytes = MESSAGES_HELD * self._evaluation.limits.message_bytes
        with self._room:
            self._room.wait_for(
                lambda: self._broke_rules or (self._held_calls < MAX_CALLS_AT_ONCE and self._held_bytes <= most_bytes)
            )
            self._held_calls += 1
            self._held_bytes += size

        def begin() -> None:
            task = self._loop.create_task(self._answer(call), context=self._context.copy())
            self._answering.add(task)
            task.add_done_callback(lambda task: self._answered(task, size))

        self._in_loop(begin)

    def _answered(self, task: asyncio.Task[None], size: int) -> None:
        self._answering.discard(task)
        with self._room:
            self._held_calls -= 1
            self._held_bytes -= size
            self._room.notify_all()

    async def _answer(self, call: Call) -> None:
        answer: dict[str, Any] = {"id": call.id}
        try:
            if self._requests is not None and call.tool == HTTP_REQUEST:
                answer["value"] = await self._response(self._requests, call.arguments)
            else:
                value = await self._evaluation.calls.call(call.tool, call.arguments, call.line)
                await aside(partial(wire.put_value, answer, "value"), value)
        except ToolError as error:
            answer |= error.as_answer()
            if isinstance(error, CallRefused):
                answer["refused"] = True
        most = self._evaluation.limits.message_bytes + wire.ENVELOPE_BYTES
        frame = await encode_aside(answer, most)
        async with self._posting:
            if len(frame) <= _AT_ONCE_BYTES:
                self._worker.post(frame)
            else:
                await run_blocking(self._worker.post, frame)

    async def _response(self, requests: Requests, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Make an HTTP request, and return the guest's answer."""
        try:
            response = await requests.request((), arguments)
            del response["text"]  # the guest decodes it from the content
            return {**response, "charset": charset_of(response["headers"])}
        except (OSError, TypeError, ValueError) as error:
            kind = next(kind for kind in (PermissionError, OSError, TypeError, ValueError) if isinstance(error, kind))
            if isinstance(error, OSError):
                self._unreached.append(str(error))
            return {"raises": kind.__name__, "message": str(error)}


def _read(text: bytes, blobs: bytes) -> Call | Done:
    """Return a decoded and validated message. Raises `ProtocolError`."""
    try:
        return parse(wire.decode(text, blobs)) if len(text) <= STEP_BYTES else at_once(take_in(text, blobs))[0]
    except wire.ProtocolError:
        raise
    except Exception as error:
        raise unreadable(error) from error
