"""Validates a guest's messages: there are two kinds, and every field must have the right type."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.lazy_dataclass import dataclass
from actbox.sandbox.guest.wire import ProtocolError

from .decoding import decode_in_steps

# The kinds of error that a guest may name. Only the host can determine the others; a guest's claim is ignored.
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
_MAX_LOST = 400
_MOST_ID = 2**53
_MOST_NAME = 256

_MISSING: Final[Any] = object()
_Field = tuple[type | tuple[type, ...], Any]
"""A field's type and its default; `_MISSING` means that the field is required."""
_CALL: Final[Mapping[str, _Field]] = {
    "t": (str, _MISSING),
    "line": (int, None),
    "id": (int, _MISSING),
    "tool": (str, _MISSING),
    "args": (dict, _MISSING),
}
_USUAL_CALL: Final = frozenset({"t", "id", "tool", "args"})
_DONE: Final[Mapping[str, _Field]] = {
    "t": (str, _MISSING),
    "cpu_ms": ((int, float), 0.0),
    "exit": (int, _MISSING),
    "value": (object, None),
    "text": (str, None),
    "forms": (dict, {}),
    "error": (dict, None),
    "max_rss_bytes": (int, 0),
    "alone": (object, False),
    "lost": (str, ""),
    "run": (int, 0),
}
_ERROR: Final[Mapping[str, _Field]] = {
    "kind": (str, _MISSING),
    "line": (int, None),
    "type": (str, ""),
    "message": (str, ""),
    "traceback": (str, ""),
    "hint": (str, ""),
    "limit": (str, ""),
}


@dataclass(slots=True)  # to make a frozen one takes a microsecond more
class Call:
    """A message by which the guest calls a tool. Never changed."""

    id: int
    tool: str
    arguments: dict[str, Any]
    line: int | None = None
    """The program's line, which only the guest claims: no decision may depend on it."""


@dataclass(frozen=True, slots=True)
class Done:
    """A message by which the guest reports that the program ended by itself, with its result."""

    exit_code: int
    value: Any
    value_text: str | None
    forms: dict[str, str | bytes]
    error: ErrorInfo | None
    cpu_ms: float
    max_rss_bytes: int
    alone: bool
    """True if the guest claims to have no other process or thread, which would have to be ended."""
    lost: str = ""
    """The reason, given by the guest, why the value is missing."""
    run: int = 0
    """In a session, the number of the run that ended."""


def parse(message: dict[str, Any]) -> Call | Done:
    """Return a validated message. Raises `ProtocolError` for an unknown kind or field, or a field of a wrong type."""
    kind = message.get("t")
    if kind == "call":
        if len(message) == len(_USUAL_CALL) and message.keys() == _USUAL_CALL:
            number, tool, arguments = message["id"], message["tool"], message["args"]
            is_typed = type(number) is int and type(tool) is str and type(arguments) is dict
            if is_typed and 0 < number < _MOST_ID and len(tool) <= _MOST_NAME:
                return Call(number, tool, _by_name(arguments))
        said = _checked(message, _CALL)
        call = Call(said["id"], said["tool"], _by_name(said["args"]), line := said["line"])
        if not 0 < call.id < _MOST_ID or len(call.tool) > _MOST_NAME or (line is not None and not 0 < line < _MAX_LINE):
            raise ProtocolError("a tool call with an id, name or line out of bounds")
        return call
    if kind == "done":
        said = _checked(message, _DONE)
        if not 0 <= said["cpu_ms"] < 1e12:  # checked before the conversion to float, which huge integers fail
            raise ProtocolError("a result with usage out of bounds")
        done = Done(
            exit_code=said["exit"],
            value=said["value"],
            value_text=said["text"],
            forms=_forms(_by_name(said["forms"])) if said["forms"] else {},
            error=_error(said["error"]) if said["error"] is not None else None,
            cpu_ms=float(said["cpu_ms"]),
            max_rss_bytes=said["max_rss_bytes"],
            alone=said["alone"] is True,
            lost=said["lost"][:_MAX_LOST],
            run=said["run"],
        )
        if not 0 <= done.exit_code <= 255 or (done.exit_code != 0) != (done.error is not None):
            raise ProtocolError("a result whose exit code and error contradict each other")
        if not 0 <= done.max_rss_bytes < 2**53:
            raise ProtocolError("a result with usage out of bounds")
        return done
    if not isinstance(kind, str):
        raise ProtocolError("a message without 't'" if "t" not in message else "a message whose 't' is of a wrong type")
    raise ProtocolError(f"a message of an unknown kind {kind[:40]!r}")


def _by_name(given: dict[Any, Any]) -> dict[str, Any]:
    # The tagged form allows other keys; pydantic would accept some of them, such as b"path", as names.
    if not {str}.issuperset(map(type, given)):
        raise ProtocolError("a message with a name that is no text")
    return given


def _forms(given: dict[str, Any]) -> dict[str, str | bytes]:
    if len(given) > _MAX_FORMS:
        raise ProtocolError("a result with too many forms")
    for media_type, form in given.items():
        if len(media_type) > 200 or not isinstance(form, (str, bytes)):
            raise ProtocolError("a result with a form that is neither text nor bytes")
    return given


def _error(given: dict[str, Any]) -> ErrorInfo:
    said = _checked(given, _ERROR)
    kind = next((kind for kind in _GUEST_KINDS if kind.value == said["kind"]), None)
    if kind is None:
        raise ProtocolError("a result with an error of a kind that is not the guest's to say")
    return ErrorInfo(
        kind=kind,
        type=said["type"][:200],
        message=said["message"][:100_000],
        line=said["line"],
        traceback=said["traceback"][:200_000],
        hint=said["hint"][:2_000],
        limit=said["limit"][:40],
    )


def _checked(message: dict[str, Any], fields: Mapping[str, _Field]) -> dict[str, Any]:
    """Return all fields of a message, with defaults for those that are left out."""
    said: dict[str, Any] = {}
    for name, (kind, default) in fields.items():
        value = message.get(name, _MISSING)
        if value is _MISSING or (value is None and default is None):
            if default is _MISSING:
                raise ProtocolError(f"a message without {name!r}")
            said[name] = default
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
            raise ProtocolError(f"a message whose {name!r} is of a wrong type")
        else:
            said[name] = value
    if not message.keys() <= fields.keys():
        raise ProtocolError("a message with a field that nobody knows")
    return said


def unreadable(error: Exception) -> ProtocolError:
    """Return a `ProtocolError` for an error in reading a message, because the guest chose the message.

    So a fault of ours in reading it does not prevent the end of the run.
    """
    return ProtocolError(f"a message that cannot be read ({type(error).__name__})")


def take_in(text: bytes, blobs: bytes) -> Generator[None, None, tuple[Call | Done, int]]:
    """Decode a large message and return it validated with its number of values, yielding after each step."""
    message, values = yield from decode_in_steps(text, blobs)
    return parse(message), values
