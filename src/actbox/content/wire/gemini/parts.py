"""The parts of a message into items, in their order: a result without an id belongs to what came before.

The API gives ids to some calls only. One without gets `code-1` or `call-1` by its number, which `no_id` in its
`provider_data` tells the writer; a result without one is of the earliest call that has none yet: for functions, of
that name. Inline data and files that directly follow a result of code are what that code made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
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
    code_content,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.reading import rest_of, text_or_none

from .names import FILES_API, NAME, camel_or_none, decoded, marked
from .partial import PartialArguments

OUTCOMES = {"OUTCOME_OK": "ok", "OUTCOME_FAILED": "failed", "OUTCOME_DEADLINE_EXCEEDED": "timeout"}
UNSPECIFIED = "OUTCOME_UNSPECIFIED"
_ERROR_LINE = re.compile(r"([A-Za-z_][\w.]*): .*", re.DOTALL)


class PartsReader:
    """Reads the parts of one conversation, or of one candidate of a stream."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._numbers = {"code": 0, "call": 0, "file": 0}
        self._code_calls: list[str] = []
        self._function_calls: list[tuple[str, str]] = []
        self._result_of_code: str | None = None
        self._open_call: tuple[str, PartialArguments] | None = None

    def read_all(self, parts: Sequence[Any]) -> tuple[Content, ...]:
        """Return the items of a message's parts."""
        self._result_of_code = self._open_call = None
        items: list[Content] = []
        for part in parts:
            item, adds = self.read(part)
            last = items[-1] if adds else None
            if isinstance(last, CodeInterpreterResult) and isinstance(item, CodeInterpreterResult):
                items[-1] = last.model_copy(update={"outputs": (*last.outputs, *item.outputs)})
            elif isinstance(last, FunctionCall) and isinstance(item, FunctionCall):
                items[-1] = last.model_copy(update={"arguments": item.arguments})
            else:
                items.append(item)
        return tuple(items)

    def read(self, part: Any) -> tuple[Content, bool]:
        """Return the item of a part, and whether it adds to the one before; then it has that one's call id."""
        after, self._result_of_code = self._result_of_code, None
        open_call, self._open_call = self._open_call, None
        fields = camel_or_none(part) or {}
        kinds = fields.keys() & _READERS.keys()
        if len(kinds) == 1:
            (kind,) = kinds
            inner = fields[kind] if kind == "text" else camel_or_none(fields[kind])
            if kind == "functionCall" and open_call is not None and isinstance(inner, dict):
                continued = self._continue_call(inner, open_call)
                if continued is not None:
                    return continued, True
            rest = rest_of(fields, (kind,))
            item = _READERS[kind](self, inner, rest) if inner is not None else None
            if item is not None and after is not None and kind in _FILES and rest.get("thought") is not True:
                self._result_of_code = after
                return CodeInterpreterResult(call_id=after, outputs=(self._named(item),)), True
            if item is not None:
                return item, False
        return UnknownContent(format=NAME, raw=part), False

    def _next_id(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{self._prefix}{kind}-{self._numbers[kind]}"

    def _named(self, item: Content) -> Content:
        """Return a file that code made with a name, so that it is told from the others and never joined with one."""
        if not isinstance(item, DataContent) or item.name is not None:
            return item
        name = f"{self._next_id('file')}.{_ending_of(item.media_type)}"
        ours = {**item.provider_data.get(NAME, {}), "no_name": True}
        return item.model_copy(update={"name": name, "provider_data": {NAME: ours}})

    def _read_text(self, text: Any, rest: JsonObject) -> Content | None:
        if not isinstance(text, str):
            return None
        if rest.get("thought") is not True:
            return TextContent(text=text, provider_data=marked(part=rest))
        signature = text_or_none(rest.get("thoughtSignature"))
        protected = signature if decoded(signature) is not None else None
        known = ("thought",) if protected is None else ("thought", "thoughtSignature")
        return ReasoningContent(text=text, protected_data=protected, provider_data=marked(part=rest_of(rest, known)))

    def _read_inline_data(self, inner: JsonObject, rest: JsonObject) -> Content | None:
        data, media_type = decoded(inner.get("data")), text_or_none(inner.get("mimeType"))
        if data is None or media_type is None:
            return None
        name, others = _name_and_rest(inner, ("data", "mimeType"))
        return DataContent(media_type=media_type, data=data, name=name, provider_data=marked(part=rest, inner=others))

    def _read_file_data(self, inner: JsonObject, rest: JsonObject) -> Content | None:
        uri, media_type = text_or_none(inner.get("fileUri")), text_or_none(inner.get("mimeType"))
        if not uri:
            return None
        name, others = _name_and_rest(inner, ("fileUri", *(("mimeType",) if media_type is not None else ())))
        file_id = file_id_of(uri)
        if file_id is None:
            data = marked(part=rest, inner=others)
            return UriContent(uri=uri, media_type=media_type, name=name, provider_data=data)
        data = marked(part=rest, inner=others, uri=uri if uri_of(file_id) != uri else None)
        return HostedFileContent(file_id=file_id, media_type=media_type, name=name, provider_data=data)

    def _read_call(self, inner: JsonObject, rest: JsonObject) -> Content | None:
        said_id, name, arguments = inner.get("id", ""), inner.get("name", ""), inner.get("args", {})
        if not isinstance(said_id, str) or not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        call_id = said_id or self._next_id("call")
        others = rest_of(inner, ("id", "name", "args"))
        if "partialArgs" in others or others.get("willContinue") is True:
            partial = PartialArguments(arguments)
            if partial.add(others.get("partialArgs", [])):
                others = rest_of(others, ("partialArgs", "willContinue"))
                arguments = partial.arguments
                if inner.get("willContinue") is True:
                    self._open_call = (call_id, partial)
        self._function_calls.append((call_id, name))
        data = marked(part=rest, inner=others, no_id=not said_id, no_name="name" not in inner)
        return FunctionCall(call_id=call_id, name=name, arguments=arguments, provider_data=data)

    def _continue_call(self, inner: JsonObject, open_call: tuple[str, PartialArguments]) -> Content | None:
        call_id, partial = open_call
        if inner.get("id", call_id) != call_id or not inner.keys() <= {"id", "name", "partialArgs", "willContinue"}:
            return None
        if not partial.add(inner.get("partialArgs", [])):
            return None
        if inner.get("willContinue") is True:
            self._open_call = open_call
        return FunctionCall(call_id=call_id, arguments=partial.arguments)

    def _read_response(self, inner: JsonObject, rest: JsonObject) -> Content | None:
        said_id, name, response = inner.get("id", ""), inner.get("name"), inner.get("response", {})
        parts = inner.get("parts", [])
        if not isinstance(said_id, str) or not isinstance(name, str | None) or not isinstance(response, dict):
            return None
        if not isinstance(parts, list):
            return None
        outputs, key = _outputs_of(response)
        call_id = said_id or next((call for call, called in self._function_calls if name in (None, called)), None)
        self._function_calls = [(call, called) for call, called in self._function_calls if call != call_id]
        return FunctionResult(
            call_id=call_id or self._next_id("call"),
            name=name,
            outputs=(*outputs, *(_read_response_part(part) for part in parts)),
            is_error=bool(response.get("error")) or any(isinstance(item, ErrorContent) for item in outputs),
            provider_data=marked(
                part=rest,
                inner=rest_of(inner, ("id", "name", "response", "parts")),
                no_id=not said_id,
                no_name=name is None,
                key=key,
            ),
        )

    def _read_code(self, inner: JsonObject, rest: JsonObject) -> Content | None:
        said_id, code, language = inner.get("id", ""), inner.get("code", ""), inner.get("language", "PYTHON")
        if not isinstance(said_id, str) or not isinstance(code, str) or not isinstance(language, str):
            return None
        call_id = said_id or self._next_id("code")
        self._code_calls.append(call_id)
        named = "python" if language in ("", "LANGUAGE_UNSPECIFIED") else language.lower()
        data = marked(
            part=rest,
            inner=rest_of(inner, ("id", "code", "language")),
            no_id=not said_id,
            no_language="language" not in inner,
            language=language if language != "PYTHON" else None,
        )
        return CodeInterpreterCall(call_id=call_id, inputs=(code_content(code, named),), provider_data=data)

    def _read_result(self, inner: JsonObject, rest: JsonObject) -> Content | None:
        said_id, outcome, output = inner.get("id", ""), inner.get("outcome", UNSPECIFIED), inner.get("output")
        if not isinstance(said_id, str) or not isinstance(outcome, str) or not isinstance(output, str | None):
            return None
        call_id = said_id or next(iter(self._code_calls), None) or self._next_id("code")
        self._code_calls = [call for call in self._code_calls if call != call_id]
        self._result_of_code = call_id
        data = marked(
            part=rest,
            inner=rest_of(inner, ("id", "outcome", "output")),
            no_id=not said_id,
            no_outcome="outcome" not in inner,
        )
        word = OUTCOMES.get(outcome, outcome)
        printed = () if output is None else (_failure(output) if word == "failed" else _printed(output),)
        return CodeInterpreterResult(call_id=call_id, outputs=printed, outcome=word, provider_data=data)


_READERS: dict[str, Callable[[PartsReader, Any, JsonObject], Content | None]] = {
    "text": PartsReader._read_text,
    "inlineData": PartsReader._read_inline_data,
    "fileData": PartsReader._read_file_data,
    "functionCall": PartsReader._read_call,
    "functionResponse": PartsReader._read_response,
    "executableCode": PartsReader._read_code,
    "codeExecutionResult": PartsReader._read_result,
}
KINDS = frozenset(_READERS)
_FILES = frozenset({"inlineData", "fileData"})


def file_id_of(uri: str) -> str | None:
    """Return the id of the file that a `fileUri` means, as the Files API names it; `None` where it lies elsewhere."""
    if uri.startswith("https://generativelanguage.googleapis.com/") and "/files/" in uri:
        name = uri.rpartition("/files/")[2].partition(":")[0]
        return f"files/{name}" if name else None
    return None if ":" in uri else uri


def uri_of(file_id: str) -> str:
    """Return the `fileUri` of a file; the API takes no bare name of the Files API's."""
    return FILES_API + file_id if file_id.startswith("files/") else file_id


def _name_and_rest(inner: JsonObject, known: tuple[str, ...]) -> tuple[str | None, JsonObject]:
    name = text_or_none(inner.get("displayName"))
    return name, rest_of(inner, known if name is None else (*known, "displayName"))


def _ending_of(media_type: str) -> str:
    subtype = bare_media_type(media_type).partition("/")[2]
    return _ENDINGS.get(subtype, subtype if subtype.isascii() and subtype.isalnum() else "bin")


_ENDINGS = {"plain": "txt", "jpeg": "jpg", "javascript": "js", "x-python": "py", "svg+xml": "svg"}


def _printed(output: str) -> Content:
    return TextContent(text=output, stream="stdout")


def _failure(output: str) -> Content:
    """Return what the API says of a failure, one text of both streams and the reason, which is in its last line."""
    lines = output.rstrip().splitlines()
    message = lines[-1].strip() if lines else output
    found = _ERROR_LINE.fullmatch(message)
    details = output if output != message else None
    return ErrorContent(message=message, code=found.group(1) if found else None, details=details)


def _outputs_of(response: JsonObject) -> tuple[tuple[Content, ...], str | None]:
    """Return the items of a function's response, and the name of the field for output where it is not `output`."""
    keys = [key for key in response if key in ("output", "result", "error")]
    only_text = all(isinstance(response[key], str) for key in keys)
    if len(keys) != len(response) or not only_text or {"output", "result"} <= response.keys():
        return (TextContent(text=json.dumps(response, ensure_ascii=False), provider_data=marked(json=True)),), None
    key = next((key for key in keys if key != "error"), None)
    outputs: list[Content] = [TextContent(text=str(response[key]))] if key is not None else []
    if "error" in response:
        outputs.append(ErrorContent(message=str(response["error"])))
    return tuple(outputs), key if key == "result" else None


def _read_response_part(part: Any) -> Content:
    is_file = (camel_or_none(part) or {}).keys() & KINDS <= _FILES
    return PartsReader().read(part)[0] if is_file else UnknownContent(format=NAME, raw=part)
