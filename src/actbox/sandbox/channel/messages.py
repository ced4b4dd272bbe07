"""What the host believes of what a guest says: two kinds of message, every field of the right type, or nothing."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.sandbox.guest.wire import ProtocolError

# Kinds that a guest may name. The others are the host's to find out; a guest that claims one is not believed.
_GUEST_KINDS = frozenset(
    {
        ErrorKind.SYNTAX,
        ErrorKind.MISSING_DEPENDENCY,
        ErrorKind.RUNTIME,
        ErrorKind.TOOL,
        ErrorKind.EXIT,
        ErrorKind.MEMORY,
        ErrorKind.DISK,
        ErrorKind.PROCESSES,
        ErrorKind.POLICY,
        ErrorKind.NETWORK,
    }
)
_MAX_FORMS = 32
_MAX_LINE = 2**31
# So much of a value is looked at in one step.
_STEP_VALUES = 20_000


@dataclass(frozen=True, slots=True)
class Call:
    """The guest calls a tool."""

    id: int
    tool: str
    arguments: dict[str, Any]
    line: int | None = None
    """Where in the program, by the guest's word alone: nothing may be decided by it."""


@dataclass(frozen=True, slots=True)
class Done:
    """The program ended by itself; what the guest says of it."""

    exit_code: int
    value: Any
    value_text: str | None
    forms: dict[str, str | bytes]
    error: ErrorInfo | None
    cpu_ms: float
    max_rss_bytes: int
    alone: bool
    """Whether the guest has no other process and no other thread, by its own word: others would have to be ended."""
    run: int = 0
    """In a session, the number of the run that ended."""


def parse(message: dict[str, Any]) -> Call | Done:
    """Return what a message says. Raises `ProtocolError` for an unknown kind, or a field unknown or of a wrong type."""
    steps = parse_in_steps(message)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            parsed: Call | Done = end.value
            return parsed


def parse_in_steps(message: dict[str, Any]) -> Generator[None, None, Call | Done]:
    """Return what `parse` returns, with a yield after each step. Raises `ProtocolError`."""
    fields = _Fields(message)
    kind = fields.take("t", str)
    if kind == "call":
        line = fields.take("line", int, None)
        call = Call(fields.take("id", int), fields.take("tool", str), fields.take("args", dict), line)
        if not 0 < call.id < 2**53 or len(call.tool) > 256 or (line is not None and not 0 < line < _MAX_LINE):
            raise ProtocolError("a tool call with an id, name or line out of bounds")
        fields.finish()
        return call
    if kind == "done":
        cpu_ms = fields.take("cpu_ms", (int, float), 0.0)
        if not 0 <= cpu_ms < 1e12:  # before it is made a fraction, which not every integer can be
            raise ProtocolError("a result with usage out of bounds")
        value = fields.take("value", object, None)
        yield from _check_plain(value)
        done = Done(
            exit_code=fields.take("exit", int),
            value=value,
            value_text=fields.take("text", str, None),
            forms=_forms(fields.take("forms", dict, {})),
            error=_error(fields.take("error", dict, None)),
            cpu_ms=float(cpu_ms),
            max_rss_bytes=fields.take("max_rss_bytes", int, 0),
            alone=fields.take("alone", object, False) is True,
            run=fields.take("run", int, 0),
        )
        fields.finish()
        if not 0 <= done.exit_code <= 255 or (done.exit_code != 0) != (done.error is not None):
            raise ProtocolError("a result whose exit code and error contradict each other")
        if not 0 <= done.max_rss_bytes < 2**53:
            raise ProtocolError("a result with usage out of bounds")
        return done
    raise ProtocolError(f"a message of an unknown kind {kind[:40]!r}")


def _check_plain(value: Any) -> Generator[None, None, None]:
    """Refuse, in steps, a value that cannot be written as JSON again: with bytes, NaN or infinity in it."""
    left: list[Any] = [[value]]
    work = 0
    while left:
        holder = left.pop()
        for item in holder.values() if isinstance(holder, dict) else holder:
            work += 1
            if work % _STEP_VALUES == 0:
                yield
            if isinstance(item, (dict, list)):
                left.append(item)
            elif isinstance(item, bytes) or (isinstance(item, float) and not math.isfinite(item)):
                raise ProtocolError("a result whose value is not JSON")


def _forms(given: dict[str, Any]) -> dict[str, str | bytes]:
    if len(given) > _MAX_FORMS:
        raise ProtocolError("a result with too many forms")
    for media_type, form in given.items():
        if len(media_type) > 200 or not isinstance(form, (str, bytes)):
            raise ProtocolError("a result with a form that is neither text nor bytes")
    return given


def _error(given: dict[str, Any] | None) -> ErrorInfo | None:
    if given is None:
        return None
    fields = _Fields(given)
    name = fields.take("kind", str)
    kind = next((kind for kind in _GUEST_KINDS if kind.value == name), None)
    if kind is None:
        raise ProtocolError("a result with an error of a kind that is not the guest's to say")
    line = fields.take("line", int, None)
    error = ErrorInfo(
        kind=kind,
        type=fields.take("type", str, "")[:200],
        message=fields.take("message", str, "")[:100_000],
        line=line,
        traceback=fields.take("traceback", str, "")[:200_000],
        hint=fields.take("hint", str, "")[:2_000],
        limit=fields.take("limit", str, "")[:40],
    )
    fields.finish()
    return error


_MISSING: Any = object()


class _Fields:
    """Takes fields out of a message one by one, so that what is left over is what nobody knows."""

    def __init__(self, message: dict[str, Any]) -> None:
        self._left = dict(message)

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = _MISSING) -> Any:
        value = self._left.pop(name, _MISSING)
        if value is _MISSING or (value is None and default is None):
            if default is _MISSING:
                raise ProtocolError(f"a message without {name!r}")
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
            raise ProtocolError(f"a message whose {name!r} is of a wrong type")
        return value

    def finish(self) -> None:
        if self._left:
            raise ProtocolError("a message with a field that nobody knows")
