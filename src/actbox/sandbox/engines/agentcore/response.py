"""Parses the service's response to one invocation from the events of its stream. Pure: events in, a response out.

The shapes are those of `InvokeCodeInterpreter` in botocore's model `bedrock-agentcore`. Every field but `content` may
be missing; a missing field is unknown, and gets no invented value. A field of another type is an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_EXCEPTION = "Exception"


class StreamException(Exception):
    """Raised for a stream with an exception as an event; `code` is its name, such as `ThrottlingException`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidResponse(ValueError):
    """Raised for a stream with a value of another type than the model has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceResponse:
    """All results of one stream, combined.

    `content` has the blocks of all results. The texts of `structuredContent` are joined; of its other fields the last
    value counts.
    """

    content: tuple[Mapping[str, Any], ...] = ()
    is_error: bool = False
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    task_id: str = ""
    task_status: str = ""

    @property
    def text(self) -> str:
        """The text of all text blocks, one per line."""
        return "\n".join(block["text"] for block in self.content if isinstance(block.get("text"), str))


def response_of(events: Iterable[Mapping[str, Any]]) -> ServiceResponse:
    """Read a stream to its end. Raises `StreamException` for an exception in it, and `InvalidResponse`."""
    content: list[Mapping[str, Any]] = []
    stdout: list[str] = []
    stderr: list[str] = []
    last: dict[str, Any] = {}
    is_error = False
    for event in events:
        for name, member in event.items():
            if name.endswith(_EXCEPTION):
                said = member.get("message") if isinstance(member, Mapping) else None
                raise StreamException(name[0].upper() + name[1:], str(said or name))
        result = _member(event, "result", Mapping, {})
        is_error = _member(result, "isError", bool, False) or is_error
        for block in _member(result, "content", list, []):
            if not isinstance(block, Mapping):
                raise InvalidResponse(f"content has a block that is {_kind(block)}")
            content.append(block)
        structured = _member(result, "structuredContent", Mapping, {})
        stdout.append(_member(structured, "stdout", str, ""))
        stderr.append(_member(structured, "stderr", str, ""))
        last |= {name: value for name, value in structured.items() if value is not None}
    return ServiceResponse(
        content=tuple(content),
        is_error=is_error,
        stdout="".join(stdout),
        stderr="".join(stderr),
        exit_code=_member(last, "exitCode", int, None),
        task_id=_member(last, "taskId", str, ""),
        task_status=_member(last, "taskStatus", str, ""),
    )


def _member(of: Mapping[str, Any], name: str, kind: type[Any], missing: Any) -> Any:
    value = of.get(name)
    if value is None:
        return missing
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidResponse(f"{name} is {_kind(value)}")
    return value


def _kind(value: object) -> str:
    return f"of the type {type(value).__name__}"


def files_in(answer: ServiceResponse) -> dict[str, bytes]:
    """Return the files in an answer to `readFiles`, by the last part of their names."""
    found = {}
    for block in answer.content:
        resource = block.get("resource")
        if block.get("type") != "resource" or not isinstance(resource, Mapping):
            continue
        name = _last_name(resource.get("uri") or block.get("uri"))
        data = bytes_of(resource)
        if data is not None:
            found[name] = data
    return found


def bytes_of(resource: Mapping[str, Any]) -> bytes | None:
    """Return the content of a resource: its bytes, or its text as UTF-8; `None` if neither is usable."""
    blob, text = resource.get("blob"), resource.get("text")
    if isinstance(blob, bytes):
        return blob
    with contextlib.suppress(UnicodeEncodeError):
        return text.encode() if isinstance(text, str) else None
    return None


def names_in(answer: ServiceResponse) -> dict[str, int | None]:
    """Return the files in an answer to `listFiles`: the size of each by its name, `None` if it is unknown."""
    found: dict[str, int | None] = {}
    for block in answer.content:
        if block.get("type") != "resource_link":
            continue
        name = _last_name(block.get("name") or block.get("uri"))
        size = block.get("size")
        if name:
            found[name] = size if isinstance(size, int) and size >= 0 else None
    return found


def _last_name(path: object) -> str:
    return path.rstrip("/").rpartition("/")[2] if isinstance(path, str) else ""


def pieces_in(answer: ServiceResponse) -> dict[str, bytes]:
    """Return the pieces that `wait.sh` has printed, by name, in order. Raises `ValueError` if the end is missing."""
    said = answer.stdout or answer.text
    # A terminal in between would change line ends; pieces are text without carriage returns.
    parts = ("\n" + said.replace("\r", "")).split("\n#")[1:]
    if not parts:
        return {}
    if parts[-1].rstrip("\n") != ".":
        raise ValueError("the end of it is missing")
    return {name: data.encode() for name, _, data in (part.partition("\n") for part in parts[:-1])}
