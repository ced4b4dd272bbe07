"""`EffectLog`: what the attempts at a task have done outside their sandboxes, so that no later one does it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final

from actbox.content.safe_text import spelt_out
from actbox.core.call_log import MOST_ERROR_CHARS, ToolCallRecord, json_text
from actbox.core.errors import ToolError
from actbox.core.events import Event, NetworkRequest
from actbox.core.labels import PUBLIC, Label
from actbox.core.values import Packed, copy_of
from actbox.sandbox.taint import LabelRefused, call_taint
from actbox.tools import Tool, Toolset
from actbox.tools.hidden_parts import digest
from actbox.tools.large_values import aside
from actbox.tools.prepared_call import PreparedCall

MOST_LISTED: Final = 30
"""The most calls, and the most requests, that `EffectLog.happened` lists one by one."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""The methods of HTTP that are safe (RFC 9110, 9.2.1)."""

_NOT_AGAIN: Final = "it is not made a second time, since its tool is not marked `retry_safe`"


class NeedsEffect(ToolError):
    """Raised for a call with effects of a program that may have none."""


@dataclass(slots=True)
class _Call:
    """A call that was begun. `label` is that of the calling workspace when the call had ended."""

    record: ToolCallRecord
    answer: Any = None
    error: ToolError | None = None
    label: Label = PUBLIC


class EffectLog:
    """The calls of tools with effects that the attempts at one task make: each call is made once.

    A tool has effects unless it is `retry_safe`. Each attempt gets its tools from `attempt()`. Where one makes the same
    call that an earlier one has made (the same tool and arguments, for the n-th time), nothing happens: it gets the
    same result or the same error. A call that the end of its run has cut off may have taken effect, and then is an
    error, too. Within one attempt equal calls are different calls.

    `charge` is called before each call that is made, also of a tool that is `retry_safe`; it raises `ToolError` for one
    that must not be made.

    The log holds all arguments' digests and all results, in memory. Approvers are asked about a call that is repeated,
    as about any other. Use it in one event loop.
    """

    def __init__(
        self,
        tools: Toolset | Iterable[Tool | Callable[..., Any]] | None = None,
        charge: Callable[[], object] | None = None,
    ) -> None:
        self._tools = Toolset.of(tools)
        self._charge = charge
        self._by_key: dict[str, list[_Call]] = {}
        self._calls: list[_Call] = []
        self._requests: Counter[tuple[int, str]] = Counter()

    def attempt(self, *, holds_back: bool = False) -> AttemptTools:
        """Begin another attempt, and return its tools.

        With `holds_back` it makes no call with effects of its own: such a call raises `NeedsEffect`.
        """
        return AttemptTools(self, holds_back)

    def feed(self, event: Event, candidate: int = 1) -> None:
        """Record an event of a candidate's run: requests to the network that change something count here."""
        if isinstance(event, NetworkRequest) and event.decision == "allowed" and event.method not in SAFE_METHODS:
            status = f" → {event.status}" if event.status else ""
            self._requests[candidate, f"{event.method} {event.host}:{event.port}{event.path}{status}"[:300]] += 1

    @property
    def calls(self) -> tuple[ToolCallRecord, ...]:
        """The calls with effects, in the order in which they began; their ids count all attempts' calls from 1."""
        return tuple(call.record for call in self._calls)

    @property
    def happened(self) -> tuple[str, ...]:
        """A line for each call and request. The lines have no results."""
        return self._lines(self._requests)

    def happened_for(self, candidate: int) -> tuple[str, ...]:
        """Return the lines for the model that writes a candidate: it may not be cleared for what others have sent."""
        return self._lines({key: count for key, count in self._requests.items() if key[0] == candidate})

    def _lines(self, sent: Mapping[tuple[int, str], int]) -> tuple[str, ...]:
        calls = [f"{spelt_out(one.tool)}({_arguments(one)}) → {_status(one)}" for one in self.calls]
        requests = [
            f"{spelt_out(text)}{f', {count} times' if count > 1 else ''}; it is sent again if a program sends it again"
            for (_, text), count in sent.items()
        ]
        return (*_bounded(calls, "calls"), *_bounded(requests, "requests"))

    def _begin(self, tool: str, key: str, shown: Any) -> _Call:
        record = ToolCallRecord(
            call_id=len(self._calls) + 1, tool=tool, arguments=json_text(shown), status="unfinished"
        )
        call = _Call(record)
        self._by_key.setdefault(key, []).append(call)
        self._calls.append(call)
        return call


class AttemptTools:
    """The tools of one attempt."""

    def __init__(self, log: EffectLog, holds_back: bool) -> None:
        self._log = log
        self._holds_back = holds_back
        self._made: Counter[str] = Counter()
        self._needed: list[str] = []
        self.tools = log._tools.with_each(self._recorded)
        """The toolset for the attempt's run."""
        if holds_back:  # nobody needs to approve a call that will not be made
            self.tools = self.tools.approved([tool.name for tool in log._tools if not tool.retry_safe])

    @property
    def needed(self) -> tuple[str, ...]:
        """The calls that were held back, as lines. If there are any, the program has not shown what it comes to."""
        return tuple(self._needed)

    def hold_back(self, line: str) -> None:
        """Add something that was refused only until the program is chosen, as a line."""
        self._needed.append(line)

    def _recorded(self, tool: Tool) -> Tool:
        if tool.retry_safe and self._log._charge is None:
            return tool
        once = self._charged if tool.retry_safe else self._once
        return _RecordedTool(**{one.name: getattr(tool, one.name) for one in fields(Tool)}, _once=once)

    async def _charged(self, tool: str, key: str, shown: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call that may be made again."""
        if self._log._charge is not None:
            self._log._charge()
        return await make()

    async def _once(self, tool: str, key: str, shown: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call unless an earlier attempt has made it; return and raise as `Tool.answer` does."""
        known, place = self._log._by_key.get(key, ()), self._made[key]
        if place < len(known):
            self._made[key] += 1
            return await _repeated(known[place])
        if self._holds_back:
            self._needed.append(f"{spelt_out(tool)}({json_text(shown)})")
            raise NeedsEffect(f"{tool!r} has effects, and none are made before this program is chosen", tool=tool)
        if self._log._charge is not None:
            self._log._charge()
        self._made[key] += 1
        call = self._log._begin(tool, key, shown)
        try:
            answer = await make()
            call.answer = await aside(_copied, answer)  # its receiver may change it
            call.record = replace(call.record, status="returned")
            return answer
        except ToolError as error:
            call.error = error
            call.record = replace(call.record, status="failed", error=str(error)[:MOST_ERROR_CHARS])
            raise
        finally:
            if (taint := call_taint.get()) is not None:
                call.label = taint.label


@dataclass(frozen=True, kw_only=True, eq=False)
class _RecordedTool(Tool):
    """A tool whose calls go through an `EffectLog`."""

    _once: Callable[[str, str, Any, Callable[[], Awaitable[Any]]], Awaitable[Any]] = field(repr=False)

    answers_in_thread = False

    def answer_small(self, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Do as `answer`."""
        return self.answer(arguments)

    async def answer(self, arguments: Mapping[str, Any]) -> Any:
        """Return the result of the call, or the recorded one, as `Tool.answer` does."""
        shown, hidden = await aside(self._identity, arguments)
        key = await aside(partial(_key, self.name), [shown, hidden])
        return await self._once(self.name, key, shown, partial(super().answer, arguments))

    def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Return the prepared call, which is made only if it is not recorded."""
        prepared = super().prepare(arguments)
        shown = prepared.shown()
        key = _key(self.name, [shown, prepared.hidden])
        return PreparedCall(partial(self._once, self.name, key, shown, prepared.make), shown, prepared.hidden)

    def _identity(self, arguments: Mapping[str, Any]) -> tuple[Any, Mapping[str, str]]:
        """Return the converted arguments as JSON data with all defaults, and digests of their hidden parts."""
        bound = self._bind(arguments)
        try:
            _, shown = self._settle(bound)
        except ToolError:  # they have no JSON form once they are converted, so they are compared as the program's
            return dict(arguments), {}
        return shown, {name: digest(value) for name, value in arguments.items() if self._may_hide(name)}


async def _repeated(call: _Call) -> Any:
    """Return what a call has returned, or raise what it has raised."""
    name, record = call.record.tool, call.record
    if (taint := call_taint.get()) is not None:
        try:
            taint.raise_to(call.label)
        except LabelRefused as refused:
            raise ToolError(str(refused), tool=name) from None
    if record.status == "returned":
        return await aside(_copied, call.answer)
    if call.error is None:
        raise ToolError(
            f"this call was cut off in an earlier attempt, and may have taken effect: {_NOT_AGAIN}", tool=name
        )
    error = call.error
    raise ToolError(
        f"{error} (so this call ended in an earlier attempt: {_NOT_AGAIN})",
        tool=name,
        builtin=error.builtin,
        os_error=error.os_error,
        members=error.members,
    )


def _key(tool: str, identity: list[Any]) -> str:
    return f"{tool}:{digest(_plain(identity))}"


def _plain(value: Any) -> Any:
    """Return JSON data in which equal numbers are written alike: 30 and 30.0 are one argument."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _copied(answer: Any) -> Any:
    return Packed(copy_of(answer.form)) if isinstance(answer, Packed) else copy_of(answer)


def _arguments(record: ToolCallRecord) -> str:
    return "" if record.arguments == "{}" else record.arguments


def _status(record: ToolCallRecord) -> str:
    if record.status == "unfinished":
        return "was cut off, and may or may not have taken effect"
    return f"failed: {spelt_out(' '.join(record.error.split()))}" if record.status == "failed" else "returned"


def _bounded(lines: list[str], what: str) -> list[str]:
    further = len(lines) - MOST_LISTED
    return lines if further <= 0 else [*lines[:MOST_LISTED], f"and {further} further {what}"]
