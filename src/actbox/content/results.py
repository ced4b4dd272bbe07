"""Conversion of our own results to content and back, and of a live run's events to updates of a stream.

A result becomes one `CodeInterpreterResult` with the output, the value, the error and the files, and a `UsageContent`.
`provider_data["actbox"]` keeps the fields that these do not cover, so that converting back loses nothing.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import replace
from typing import Any, Literal

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import ArtifactCreated, Completed, Event, Output, ToolFinished, ToolStarted
from actbox.core.result import Artifact, ExecutionResult
from actbox.core.values import pack

from .files import FileStore
from .items import (
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    TextContent,
    UsageContent,
    as_text,
)
from .messages import Update

INLINE_BYTES = 1_000_000
"""The size in bytes above which a file becomes a hosted file, if there is a store for it."""

_OURS = "actbox"
_HAS_A_PLACE = (TextContent, DataContent, HostedFileContent, ErrorContent)
# Fields of the result's document that the items' other fields carry.
_SAID_ELSEWHERE = (
    "stdout",
    "stderr",
    "exit_code",
    "success",
    "value_text",
    "value_forms",
    "error",
    "artifacts",
    "usage",
)


def content_from_result(
    result: ExecutionResult,
    *,
    call_id: str = "run",
    store: FileStore | None = None,
    inline_bytes: int = INLINE_BYTES,
) -> list[Content]:
    """Return a result as content: one `CodeInterpreterResult` and one `UsageContent`.

    Files of more than `inline_bytes` bytes are put into the `store`, if there is one.
    """
    outputs = [*_printed(result), *_value(result), *_errors(result)]
    outputs += [_file(artifact, store, inline_bytes) for artifact in result.artifacts]
    return [_ended(result, call_id, outputs), _usage(result)]


def result_from_content(items: Iterable[Content], *, store: FileStore | None = None) -> ExecutionResult:
    """Return the `ExecutionResult` that content items describe, be they ours or a provider's.

    Several `CodeInterpreterResult`s are merged; the last exit code and outcome count. Hosted files are read from the
    `store`. A warning names each one that is unavailable, and everything that a result has no field for: links, further
    errors, an error of a run that succeeded. Raises `ValueError` if there is no result at all.
    """
    items = list(items)
    results = [item for item in items if isinstance(item, CodeInterpreterResult)]
    usage = [item for item in items if isinstance(item, UsageContent)]
    if not results:
        raise ValueError("there is no result of running code in this content")
    outputs = [output for result in results for output in result.outputs]
    document: dict[str, Any] = dict(results[-1].provider_data.get(_OURS, {}))
    errors = [output for output in outputs if isinstance(output, ErrorContent)]
    success = results[-1].success
    exit_code = results[-1].exit_code
    if exit_code is None:
        exit_code = 0 if success or (success is None and not errors) else 124 if results[-1].outcome == "timeout" else 1
    artifacts, missing = _artifacts(outputs, store)
    error = _error_document(errors, exit_code, results[-1].outcome)
    other_errors = errors[:-1] if error else errors
    missing += [f"an error that is not the result's: {as_text(item)}" for item in other_errors]
    missing += [f"left out: {as_text(item)}" for item in outputs if not isinstance(item, _HAS_A_PLACE)]
    before = document.get("warnings")
    printed = [output for output in outputs if isinstance(output, TextContent) and _part(output) is None]
    values = [output for output in outputs if _part(output) == "value"]
    document |= {
        "stdout": "".join(output.text for output in printed if output.stream != "stderr"),
        "stderr": "".join(output.text for output in printed if output.stream == "stderr"),
        "exit_code": exit_code,
        "value_text": next((output.text for output in values if isinstance(output, TextContent)), None),
        "value_forms": {output.media_type: _form(output) for output in values if isinstance(output, DataContent)},
        "error": error,
        "artifacts": artifacts,
        "warnings": [*(before if isinstance(before, list) else []), *missing],
        "usage": dict(usage[-1].counts) if usage else {},
    }
    return ExecutionResult.from_dict(document)


class EventReader:
    """A converter of a run's events to updates that together equal what `content_from_result` makes of the result.

    Tool calls become function calls by the program. Printed output keeps its order.
    """

    def __init__(
        self, *, call_id: str = "run", store: FileStore | None = None, inline_bytes: int = INLINE_BYTES
    ) -> None:
        """Create a reader; the arguments are those of `content_from_result`."""
        self._call_id = call_id
        self._store = store
        self._inline_bytes = inline_bytes
        self._files: set[str] = set()
        self._printed: dict[Literal["stdout", "stderr"], int] = {"stdout": 0, "stderr": 0}

    def feed(self, event: Event) -> list[Update]:
        """Return the updates for an event: none for approval questions, decisions and network requests."""
        match event:
            case Output():
                self._printed[event.stream] += len(event.text)
                return [self._added(TextContent(text=event.text, stream=event.stream))]
            case ToolStarted():
                return [Update(role="assistant", contents=(self._call(event),))]
            case ToolFinished():
                return [Update(role="assistant", contents=(self._returned(event),))]
            case ArtifactCreated():
                self._files.add(event.artifact.name)
                return [self._added(_file(event.artifact, self._store, self._inline_bytes))]
            case Completed():
                return [self._completed(event.result)]
            case _:
                return []

    def _added(self, *outputs: Content) -> Update:
        return Update(role="assistant", contents=(CodeInterpreterResult(call_id=self._call_id, outputs=outputs),))

    def _call(self, event: ToolStarted) -> FunctionCall:
        return FunctionCall(
            call_id=f"{self._call_id}.{event.call_id}",
            name=event.tool,
            arguments=pack(dict(event.arguments)),
            called_by=self._call_id,
        )

    def _returned(self, event: ToolFinished) -> FunctionResult:
        call_id = f"{self._call_id}.{event.call_id}"
        data: dict[str, JsonObject] = {_OURS: {"wall_ms": event.wall_ms}}
        if event.error is not None:
            error = ErrorContent(message=event.error)
            return FunctionResult(call_id=call_id, name=event.tool, outputs=(error,), is_error=True, provider_data=data)
        data[_OURS]["value"] = form = pack(event.value)
        value = form if isinstance(form, str) else _json(form)
        return FunctionResult(call_id=call_id, name=event.tool, outputs=(TextContent(text=value),), provider_data=data)

    def _completed(self, result: ExecutionResult) -> Update:
        # Output after the last event, or all of it if no output events came.
        unsaid = replace(
            result,
            stdout=result.stdout[self._printed["stdout"] :],
            stderr=result.stderr[self._printed["stderr"] :],
        )
        outputs = [*_printed(unsaid), *_value(result), *_errors(result)]
        new = [artifact for artifact in result.artifacts if artifact.name not in self._files]
        outputs += [_file(artifact, self._store, self._inline_bytes) for artifact in new]
        return Update(role="assistant", contents=(_ended(result, self._call_id, outputs), _usage(result)))


async def updates_from_events(
    events: AsyncIterable[Event],
    *,
    call_id: str = "run",
    store: FileStore | None = None,
    inline_bytes: int = INLINE_BYTES,
) -> AsyncIterator[Update]:
    """Yield the updates for a live run's events, as `Sandbox.stream` yields them; see `EventReader`."""
    reader = EventReader(call_id=call_id, store=store, inline_bytes=inline_bytes)
    async for event in events:
        for update in reader.feed(event):
            yield update


# The parts of a result


def _printed(result: ExecutionResult) -> list[Content]:
    both: tuple[tuple[str, Literal["stdout", "stderr"]], ...] = ((result.stdout, "stdout"), (result.stderr, "stderr"))
    return [TextContent(text=text, stream=stream) for text, stream in both if text]


def _value(result: ExecutionResult) -> list[Content]:
    mark: dict[str, JsonObject] = {_OURS: {"part": "value"}}
    found: list[Content] = []
    if result.value_text is not None:
        found.append(TextContent(text=result.value_text, provider_data=mark))
    for media_type, form in result.value_forms.items():
        data = form if isinstance(form, bytes) else form.encode("utf-8", "surrogatepass")
        as_text = isinstance(form, str)
        kept: dict[str, JsonObject] = {_OURS: {"part": "value", "as_text": as_text}}
        found.append(DataContent(media_type=media_type, data=data, provider_data=kept))
    return found


def _errors(result: ExecutionResult) -> list[Content]:
    error = result.error
    if error is None:
        return []
    message = ": ".join(filter(None, (error.type, error.message))) or error.kind.value
    kept: dict[str, JsonObject] = {_OURS: {"error": error.to_dict()}}
    return [ErrorContent(message=message, code=error.kind.value, details=error.traceback or None, provider_data=kept)]


def _file(artifact: Artifact, store: FileStore | None, inline_bytes: int) -> Content:
    if store is not None and artifact.size > inline_bytes:
        return store.put(artifact.data, name=artifact.name, media_type=artifact.media_type)
    return DataContent(media_type=artifact.media_type, data=artifact.data, name=artifact.name)


def _ended(result: ExecutionResult, call_id: str, outputs: list[Content]) -> CodeInterpreterResult:
    document = result.to_dict()
    rest: JsonObject = {name: value for name, value in document.items() if name not in _SAID_ELSEWHERE}
    timed_out = result.error is not None and result.error.kind is ErrorKind.TIMEOUT
    return CodeInterpreterResult(
        call_id=call_id,
        outputs=tuple(outputs),
        exit_code=result.exit_code,
        outcome="ok" if result.success else "timeout" if timed_out else "failed",
        status="completed",
        provider_data={_OURS: rest},
    )


def _usage(result: ExecutionResult) -> UsageContent:
    return UsageContent(counts=result.usage.to_dict())


# And back


def _part(output: Content) -> str | None:
    part = output.provider_data.get(_OURS, {}).get("part")
    return part if isinstance(part, str) else None


def _form(output: DataContent) -> str | bytes:
    if not output.provider_data[_OURS].get("as_text", output.is_text):
        return output.data
    try:
        return output.data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return output.data


def _artifacts(outputs: list[Content], store: FileStore | None) -> tuple[list[JsonObject], list[str]]:
    """Return the files as documents of artifacts, and a sentence for each file that is unavailable."""
    found: dict[str, JsonObject] = {}
    missing = []
    named = {output.name for output in outputs if isinstance(output, DataContent | HostedFileContent) and output.name}
    for number, output in enumerate(outputs, 1):
        if isinstance(output, HostedFileContent):
            name, media_type, data = output.name or output.file_id, output.media_type, _stored(output, store)
            if data is None:
                missing.append(f"the file {name!r} ({output.file_id}) is not here, and not in the store")
                continue
        elif isinstance(output, DataContent) and _part(output) is None:
            name, media_type, data = output.name or f"output-{number}", output.media_type, output.data
        else:
            continue
        encoded = base64.b64encode(data).decode("ascii")
        if name in found or (name.startswith("output-") and output.name is None and name in named):
            again = _free_name(name, {*found, *named})
            missing.append(f"there is more than one file {name!r}; one of them is {again!r} here")
            name = again
        found[name] = {"name": name, "media_type": media_type or "", "data": encoded}
    return list(found.values()), missing


def _stored(file: HostedFileContent, store: FileStore | None) -> bytes | None:
    if store is None:
        return None
    try:
        return store.get(file.file_id)
    except KeyError:
        return None


def _free_name(name: str, taken: set[str]) -> str:
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (name, "")
    return next(free for number in itertools.count(2) if (free := f"{stem}-{number}{suffix}") not in taken)


def _error_document(errors: list[ErrorContent], exit_code: int, outcome: str | None) -> JsonObject | None:
    """Return the last error unless the run succeeded; a timeout error of our own if only the outcome says so."""
    if not exit_code:
        return None
    if not errors:
        timed_out = ErrorInfo(kind=ErrorKind.TIMEOUT, message="the program was stopped when its time was up")
        return timed_out.to_dict() if outcome == "timeout" else None
    error = errors[-1]
    ours = error.provider_data.get(_OURS, {}).get("error")
    if isinstance(ours, dict):
        return ours
    kind = error.code if error.code in ErrorKind.__members__ else "RUNTIME" if exit_code == 1 else "EXIT"
    if outcome == "timeout":
        kind = "TIMEOUT"
    return ErrorInfo(kind=ErrorKind(kind), message=error.message, traceback=error.details or "").to_dict()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
