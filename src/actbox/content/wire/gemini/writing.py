"""Messages into contents, requests and responses."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
)
from actbox.content.messages import Message
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import object_or_empty
from actbox.content.wire.written import Losses, Written

from .citations import citations_of
from .names import NAME, camel, decoded
from .parts import OUTCOMES, UNSPECIFIED, file_id_of, uri_of
from .responses import FINISH_REASONS

_ROLES = {"assistant": "model", "tool": "user", "developer": "system"}
_OUTCOME_NAMES = {word: name for name, word in OUTCOMES.items()}
_REASON_NAMES = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_FIELDS_LOST = ("author", "id", "response_id", "model", "created_at", "finish_reason")


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return a content for each message.

    The system's messages are among them as contents of the role `system`; the API takes them as `systemInstruction`,
    where `write_request` puts them. What a content has no place for is in `write_response`.
    """
    losses = Losses()
    writer = _Writer(losses)
    contents = []
    for message in messages:
        for name in _FIELDS_LOST:
            if getattr(message, name) is not None:
                losses.add(f"message.{name}", "left out: a content has no place for it")
        for item in message.contents:
            if item.annotations or any(output.annotations for output in getattr(item, "outputs", ())):
                losses.add(f"{item.type}.annotations", "left out: they are in responses only")
            if isinstance(item, UsageContent):
                losses.add("usage", "left out: it is in responses only")
        content = writer.content(message)
        if content is not None:
            contents.append(content)
    return losses.written(contents)


def write_request(messages: Sequence[Message]) -> Written[JsonObject]:
    """Return the body of a request: what the system says is apart; other fields are of the request it was read from."""
    written = write(messages)
    ours = (object_or_empty(_ours(message).get("request")) for message in messages)
    request: JsonObject = {name: value for rest in ours for name, value in rest.items()}
    spoken = [content for content in written.document if content.get("role") != "system"]
    system = [content for content in written.document if content.get("role") == "system"]
    if system:
        instruction = {name: value for name, value in system[0].items() if name != "role"}
        role = next((_ours(message).get("role") for message in messages if message.role == "system"), None)
        named = {"role": role} if role is not None else {}
        parts = [part for content in system for part in content.get("parts", [])]
        request["systemInstruction"] = {**instruction, **named, "parts": parts}
    return Written({**request, "contents": spoken}, written.losses)


def write_response(messages: Sequence[Message]) -> Written[JsonObject]:
    """Return a response with a candidate for each message of the model; those of others have no place in one."""
    losses = Losses()
    response: JsonObject = {}
    candidates: list[Any] = []
    for message in messages:
        if message.role != "assistant":
            losses.add("message", "left out: only what the model says is in a response")
            continue
        ours = _ours(message)
        said = {"responseId": message.response_id, "modelVersion": message.model}
        response |= {name: value for name, value in said.items() if value is not None and name not in response}
        if message.created_at is not None:
            response.setdefault("createTime", message.created_at.isoformat().replace("+00:00", "Z"))
        response |= object_or_empty(ours.get("response"))
        usage = next((item for item in message.contents if isinstance(item, UsageContent)), None)
        if usage is not None:
            response.setdefault("usageMetadata", _usage_metadata(usage))
        candidate = _candidate(message, _Writer(losses), losses)
        if candidate or "promptFeedback" not in _response_of(message):
            candidates.append(candidate)
    if candidates:
        response.setdefault("candidates", candidates)
    return Written(response, losses.written(None).losses)


def _candidate(message: Message, writer: _Writer, losses: Losses) -> JsonObject:
    rest = dict(object_or_empty(_ours(message).get("candidate")))
    inner = rest.pop("content", {})
    content: Any = inner
    if isinstance(inner, dict):
        parts = writer.parts(message.contents)
        content = {**({"parts": parts} if parts else {}), "role": "model", **inner}
    candidate: JsonObject = {"content": content} if content != {"role": "model"} else {}
    reason = message.finish_reason
    if reason is not None and "finishReason" not in rest and "promptFeedback" not in _response_of(message):
        name = _REASON_NAMES.get(reason, reason if reason.isupper() else "OTHER")
        if FINISH_REASONS.get(name, name) != reason:
            losses.add("message.finish_reason", f"becomes {name}")
        candidate["finishReason"] = name
    candidate |= rest
    citations, lost = citations_of(message.contents)
    if lost:
        losses.add("annotations", "become citations, which have a title, a URI and a place only")
    if citations:
        metadata = camel(object_or_empty(candidate.get("citationMetadata")))
        there = metadata.get("citations")
        candidate["citationMetadata"] = {
            **metadata,
            "citations": [*(there if isinstance(there, list) else []), *citations],
        }
    return candidate


def _response_of(message: Message) -> JsonObject:
    return dict(object_or_empty(_ours(message).get("response")))


def _usage_metadata(usage: UsageContent) -> JsonObject:
    """Return counts as the API gives them: what tools gave the model, and thoughts, are counted apart."""
    counts: JsonObject = dict(usage.counts)
    tools, thoughts = (usage.counts.get(name, 0) for name in ("toolUsePromptTokenCount", "thoughtsTokenCount"))
    if usage.input_tokens is not None:
        counts["promptTokenCount"] = usage.input_tokens - int(tools)
    if usage.output_tokens is not None:
        counts["candidatesTokenCount"] = usage.output_tokens - int(thoughts)
    if usage.total_tokens is not None:
        counts["totalTokenCount"] = usage.total_tokens
    return counts


class _Writer:
    """Writes the messages of one conversation: a result has the name of the function that was called."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._names: dict[str, str] = {}

    def content(self, message: Message) -> JsonObject | None:
        ours = _ours(message)
        parts = self.parts(message.contents)
        is_empty = not message.contents and message.role != "system"
        if not parts and not is_empty:
            return None
        role = _ROLES.get(message.role, message.role)
        if message.role == "tool" and not any(isinstance(item, FunctionResult) for item in message.contents):
            # What the API runs itself is the model's, and never the user's.
            role = "model" if any(isinstance(item, CodeInterpreterResult) for item in message.contents) else role
        said: JsonObject = {} if ours.get("no_role") and role == "user" else {"role": ours.get("role", role)}
        if role == "system":
            said = {"role": "system"}
        return {**said, "parts": parts, **object_or_empty(ours.get("content"))}

    def parts(self, items: Iterable[Content]) -> list[Any]:
        parts: list[Any] = []
        after_result = False
        for item in items:
            if after_result and isinstance(item, DataContent | UriContent | HostedFileContent):
                self._losses.add(item.type, "becomes an output of the code before it")
            after_result = isinstance(item, CodeInterpreterResult)
            parts.extend(self._parts(item))
        return parts

    def _parts(self, item: Content) -> list[Any]:
        ours = _ours(item)
        part = dict(object_or_empty(ours.get("part")))
        inner = dict(object_or_empty(ours.get("inner")))
        match item:
            case UsageContent():
                return []
            case UnknownContent() if item.format == NAME:
                return [item.raw]
            case TextContent():
                if item.stream is not None:
                    self._losses.add("text.stream", "left out: all text is alike")
                return [{"text": item.text, **part}]
            case ReasoningContent():
                return [self._reasoning(item, part)]
            case DataContent() | UriContent() | HostedFileContent():
                return [self._file(item)]
            case FunctionCall():
                return [{"functionCall": {**self._call(item, ours), **inner}, **part}]
            case FunctionResult():
                return [{"functionResponse": {**self._response(item, ours), **inner}, **part}]
            case CodeInterpreterCall():
                return [{"executableCode": {**self._code(item, ours), **inner}, **part}]
            case CodeInterpreterResult():
                result, files = self._result(item, ours)
                return [{"codeExecutionResult": {**result, **inner}, **part}, *files]
            case _:
                self._losses.add(item.type, "becomes text")
                return [{"text": as_text(item)}]

    def _reasoning(self, item: ReasoningContent, part: JsonObject) -> JsonObject:
        written: JsonObject = {"text": item.text, "thought": True}
        if item.protected_data is not None and decoded(item.protected_data) is None:
            self._losses.add("reasoning.protected_data", "left out: a signature is base64")
        elif item.protected_data is not None:
            written["thoughtSignature"] = item.protected_data
        return {**written, **part}

    def _file(self, item: DataContent | UriContent | HostedFileContent) -> JsonObject:
        ours = _ours(item)
        said: JsonObject
        if isinstance(item, DataContent):
            kind, said = "inlineData", {"data": base64.b64encode(item.data).decode("ascii")}
        elif isinstance(item, UriContent):
            kind, said = "fileData", {"fileUri": item.uri}
            if file_id_of(item.uri) is not None:
                self._losses.add("uri", "becomes a hosted file: it has no scheme, or is one of the Files API's")
        else:
            uri = ours.get("uri")
            known = uri if isinstance(uri, str) and file_id_of(uri) == item.file_id else uri_of(item.file_id)
            kind, said = "fileData", {"fileUri": known}
            for name in ("size_bytes", "created_at", "purpose", "container_id"):
                if getattr(item, name) is not None:
                    self._losses.add(f"hosted_file.{name}", "left out")
        named = {"mimeType": item.media_type, "displayName": None if ours.get("no_name") else item.name}
        said |= {name: value for name, value in named.items() if value is not None}
        return {kind: {**said, **object_or_empty(ours.get("inner"))}, **object_or_empty(ours.get("part"))}

    def _call(self, item: FunctionCall, ours: JsonObject) -> JsonObject:
        self._names[item.call_id] = item.name
        if item.called_by is not None:
            self._losses.add("function_call.called_by", "left out")
        arguments = item.arguments
        if isinstance(arguments, str):
            self._losses.add("function_call.arguments", "text that is no JSON object becomes the argument `arguments`")
            arguments = {"arguments": arguments}
        said: JsonObject = {} if ours.get("no_name") and not item.name else {"name": item.name}
        return {**_id(item.call_id, ours), **said, "args": arguments}

    def _response(self, item: FunctionResult, ours: JsonObject) -> JsonObject:
        known = self._names.get(item.call_id) or item.call_id
        name = item.name if item.name is not None else known
        said: JsonObject = {} if ours.get("no_name") and item.name is None else {"name": name}
        files: list[Any] = []
        text, errors = [], []
        structured = _structured(item)
        failed = item.is_error or any(isinstance(output, ErrorContent) for output in item.outputs)
        says_why = any(isinstance(output, ErrorContent) for output in item.outputs)
        for output in item.outputs[0 if structured is None else 1 :]:
            match output:
                case UnknownContent() if output.format == NAME:
                    files.append(output.raw)
                case DataContent() | UriContent() | HostedFileContent():
                    files.append(self._file(output))
                case ErrorContent():
                    if output.code is not None or output.details is not None:
                        self._losses.add("error", "becomes text")
                    plain = output.code is None and output.details is None
                    errors.append(output.message if plain else as_text(output))
                case TextContent() if failed and not says_why:
                    errors.append(output.text)
                case _:
                    text.append(self._printed(output))
        response: JsonObject = {str(ours.get("key", "output")): "".join(text)} if text else {}
        response = structured if structured is not None else response | ({"error": "".join(errors)} if failed else {})
        return {**_id(item.call_id, ours), **said, "response": response, **({"parts": files} if files else {})}

    def _code(self, item: CodeInterpreterCall, ours: JsonObject) -> JsonObject:
        if any(not (isinstance(input, TextContent) or _is_code(input)) for input in item.inputs):
            self._losses.add("code_interpreter_call.inputs", "files are left out: they go as parts of the user's")
        if item.name is not None:
            self._losses.add("code_interpreter_call.name", "left out: there is one tool")
        if item.status is not None:
            self._losses.add("code_interpreter_call.status", "left out")
        language = ours.get("language", "PYTHON" if item.language == "python" else "LANGUAGE_UNSPECIFIED")
        if "language" not in ours and item.language != "python":
            self._losses.add("code_interpreter_call.language", "left out: there is Python only")
        said: JsonObject = {} if ours.get("no_language") else {"language": language}
        return {**_id(item.call_id, ours), **said, "code": item.code}

    def _result(self, item: CodeInterpreterResult, ours: JsonObject) -> tuple[JsonObject, list[Any]]:
        for name in ("exit_code", "name", "status"):
            if getattr(item, name) is not None:
                self._losses.add(f"code_interpreter_result.{name}", "left out")
        outcome = self._outcome(item)
        printed, files = "", []
        has_output = False
        for output in item.outputs:
            match output:
                case UnknownContent() if output.format == NAME:
                    files.append(output.raw)
                case DataContent() | UriContent() | HostedFileContent():
                    files.append(self._file(output))
                case _:
                    if files:
                        self._losses.add("code_interpreter_result.outputs", "files come after what was printed")
                    has_output = True
                    piece = self._error(output) if isinstance(output, ErrorContent) else self._printed(output)
                    is_apart = isinstance(output, ErrorContent) and printed and not printed.endswith("\n")
                    printed += ("\n" if is_apart else "") + piece
        if outcome == "OUTCOME_FAILED" and any(isinstance(output, TextContent) for output in item.outputs):
            self._losses.add("text", "what failed code printed is one with its error")
        elif outcome != "OUTCOME_FAILED" and any(isinstance(output, ErrorContent) for output in item.outputs):
            self._losses.add("error", "becomes text: code that has not failed has no error")
        said: JsonObject = {} if ours.get("no_outcome") else {"outcome": outcome}
        return {**_id(item.call_id, ours), **said, **({"output": printed} if has_output else {})}, files

    def _outcome(self, item: CodeInterpreterResult) -> str:
        if item.outcome == "timeout":
            return "OUTCOME_DEADLINE_EXCEEDED"
        if item.success is not None:
            return _OUTCOME_NAMES["ok" if item.success else "failed"]
        if NAME in item.provider_data or (item.outcome or "").startswith("OUTCOME_"):
            return UNSPECIFIED if item.outcome is None else item.outcome
        self._losses.add("code_interpreter_result.outcome", "a word that is not known is left out")
        return UNSPECIFIED

    def _printed(self, output: Content) -> str:
        if isinstance(output, TextContent):
            if output.stream == "stderr":
                self._losses.add("text.stream", "left out: there is one output")
        else:
            self._losses.add(output.type, "becomes text")
        return as_text(output)

    def _error(self, error: ErrorContent) -> str:
        named = error.code is not None and not error.message.startswith(error.code)
        message = f"{error.code}: {error.message}" if named else error.message
        if error.details is None:
            return message
        if message in error.details:
            return error.details
        return f"{error.details}{'' if error.details.endswith(chr(10)) else chr(10)}{message}"


def _ours(part: Any) -> JsonObject:
    found: JsonObject = part.provider_data.get(NAME, {})
    return found


def _id(call_id: str, ours: JsonObject) -> JsonObject:
    return {} if ours.get("no_id") or not call_id else {"id": call_id}


def _is_code(item: Content) -> bool:
    return isinstance(item, DataContent) and item.is_text and item.name is None


def _structured(item: FunctionResult) -> JsonObject | None:
    """Return the response that was no plain text, which the first output has as JSON."""
    first = item.outputs[0] if item.outputs else None
    if not isinstance(first, TextContent) or not _ours(first).get("json"):
        return None
    if any(isinstance(output, TextContent | ErrorContent) for output in item.outputs[1:]):
        return None
    try:
        response = json.loads(first.text)
    except ValueError:
        return None
    return response if isinstance(response, dict) else None
