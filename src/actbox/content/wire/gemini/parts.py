"""The parts of a message into items and back, in their order: a result without an id belongs to what came before.

The API gives ids to some calls only. One without gets `code-1` or `call-1` by its number, and is written without it; a
result without one is of the earliest call that has none yet: for functions, of that name. Inline data and files that
directly follow a result of code are what that code made. Both spellings of a field are read, camelCase is written.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
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
    as_text,
    code_content,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import At, Blocks, Kind
from actbox.content.wire.fields import called
from actbox.content.wire.losses import Losses
from actbox.content.wire.turns import note_unwritten, with_data
from actbox.content.wire.values import (
    bytes_or_none,
    kept,
    list_or_empty,
    text_or_none,
    to_base64,
)

NAME = "gemini"
_FILES_API = "https://generativelanguage.googleapis.com/v1beta/"
_OUTCOMES = {"OUTCOME_OK": "ok", "OUTCOME_FAILED": "failed", "OUTCOME_DEADLINE_EXCEEDED": "timeout"}
_OUTCOME_NAMES = {word: name for name, word in _OUTCOMES.items()}
_UNSPECIFIED = "OUTCOME_UNSPECIFIED"
_ERROR_LINE = re.compile(r"([A-Za-z_][\w.]*): .*", re.DOTALL)
_SNAKE = re.compile(r"[a-z]+(_[a-z]+)+")
_URL_SAFE = str.maketrans("-_", "+/")
_FILES = frozenset({"inlineData", "fileData"})
_USUAL: dict[str, JsonObject] = {
    "functionCall": {"args": {}},
    "functionResponse": {"response": {}},
    "executableCode": {"code": ""},
}
"""What parts of a kind have that did not say it."""
_NO_ID, _NO_NAME = "actbox:no_id", "actbox:no_name"
"""Keys of an item's `provider_data`: its id, or its name, was made up here, since the part had none."""


def camel(document: Mapping[str, Any]) -> JsonObject:
    """Return an object with its own fields' names in camelCase, and without those that are null, which say nothing.

    A field that would take another's place keeps its name.
    """
    fields: JsonObject = {}
    for name, value in document.items():
        if value is not None:
            other = _camel_name(name) if _SNAKE.fullmatch(name) else name
            fields[name if other != name and document.get(other) is not None else other] = value
    return fields


def camel_or_none(value: Any) -> JsonObject | None:
    """Return an object with its names in camelCase, `None` where the value is no object."""
    return camel(value) if isinstance(value, Mapping) else None


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def decoded(value: Any) -> bytes | None:
    """Return what base64 text of either alphabet stands for, `None` where it is not whole or not base64."""
    return bytes_or_none(value.translate(_URL_SAFE)) if isinstance(value, str) else None


def marked(**marks: Any) -> dict[str, JsonObject]:
    """Return the `provider_data` with these marks, without those that say nothing."""
    said = {name: value for name, value in marks.items() if value is not None and value is not False and value != {}}
    return kept(NAME, said)


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
        block = _prepared(part)
        kind = _kind_of(block)
        begun = None
        if kind == "functionCall":
            continued = None if open_call is None else self._continue_call(block[kind], open_call)
            if continued is not None:
                return continued, True
        if kind in _USUAL:
            block[kind] = _USUAL[kind] | block[kind]
        if kind == "functionCall":
            begun = _begin_call(block[kind])
        item = BLOCKS.read_one(block)
        if isinstance(item, UnknownContent):
            return UnknownContent(format=NAME, raw=part), False
        item = self._with_id(item)
        if isinstance(item, FunctionCall) and begun is not None:
            self._open_call = item.call_id, begun
        if after is not None and kind in _FILES and block.get("thought") is not True:
            self._result_of_code = after
            return CodeInterpreterResult(call_id=after, outputs=(self._named(item),)), True
        return item, False

    def _with_id(self, item: Content) -> Content:
        if getattr(item, "call_id", None) == "":
            item = with_data(item.model_copy(update={"call_id": self._made_id(item)}), NAME, **{_NO_ID: True})
        if isinstance(item, CodeInterpreterCall):
            self._code_calls.append(item.call_id)
        elif isinstance(item, FunctionCall):
            self._function_calls.append((item.call_id, item.name))
        elif isinstance(item, CodeInterpreterResult):
            self._code_calls = [call for call in self._code_calls if call != item.call_id]
            self._result_of_code = item.call_id
        elif isinstance(item, FunctionResult):
            self._function_calls = [(call, name) for call, name in self._function_calls if call != item.call_id]
        return item

    def _made_id(self, item: Content) -> str:
        """Return the id of an item that has none: of a result, that of the earliest call that waits for one."""
        if isinstance(item, CodeInterpreterResult):
            return next(iter(self._code_calls), None) or self._next_id("code")
        if isinstance(item, FunctionResult):
            waiting = (call for call, name in self._function_calls if item.name in (None, name))
            return next(waiting, None) or self._next_id("call")
        return self._next_id("code" if isinstance(item, CodeInterpreterCall) else "call")

    def _next_id(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{self._prefix}{kind}-{self._numbers[kind]}"

    def _named(self, item: Content) -> Content:
        """Return a file that code made with a name, so that it is told from the others and never joined with one."""
        if not isinstance(item, DataContent) or item.name is not None:
            return item
        name = f"{self._next_id('file')}.{_ending_of(item.media_type)}"
        named: Content = with_data(item.model_copy(update={"name": name}), NAME, **{_NO_NAME: True})
        return named

    def _continue_call(self, inner: JsonObject, open_call: tuple[str, PartialArguments]) -> Content | None:
        call_id, partial = open_call
        if inner.get("id", call_id) != call_id or not inner.keys() <= {"id", "name", "partialArgs", "willContinue"}:
            return None
        if not partial.add(inner.get("partialArgs", [])):
            return None
        if inner.get("willContinue") is True:
            self._open_call = open_call
        return FunctionCall(call_id=call_id, arguments=partial.arguments)


def _kind_of(block: Any) -> str:
    """Return the one field of a part that says its kind, "" where it has not just one."""
    kinds = block.keys() & KINDS if isinstance(block, Mapping) else set()
    return str(*kinds) if len(kinds) == 1 else ""


def _prepared(part: Any) -> dict[str, Any]:
    """Return a part with its names in camelCase and base64 of the standard alphabet; an empty one for none."""
    block: dict[str, Any] = camel_or_none(part) or {}
    kind = _kind_of(block)
    if kind in ("", "text"):
        return block
    inner = camel_or_none(block[kind])
    if inner is None:
        return {}
    if (data := decoded(inner.get("data"))) is not None:
        inner["data"] = to_base64(data)
    if inner.get("parts") == []:
        del inner["parts"]
    return {**block, kind: inner}


def _begin_call(inner: JsonObject) -> PartialArguments | None:
    """Put together the pieces of a call's arguments, and return them where more are to come."""
    goes_on = inner.get("willContinue") is True
    if not isinstance(inner["args"], dict) or not (goes_on or "partialArgs" in inner):
        return None
    partial = PartialArguments(inner["args"])
    if not partial.add(inner.get("partialArgs", [])):
        return None
    inner["args"] = partial.arguments
    for key in ("partialArgs", "willContinue"):
        inner.pop(key, None)
    return partial if goes_on else None


def _read_response(block: Mapping[str, Any]) -> FunctionResult | None:
    inner = block["functionResponse"]
    said_id, name, response = inner.get("id", ""), inner.get("name"), inner.get("response", {})
    parts = inner.get("parts", [])
    if not isinstance(said_id, str) or not isinstance(name, str | None) or not isinstance(response, dict):
        return None
    if not isinstance(parts, list):
        return None
    outputs = _outputs_of(response)
    return FunctionResult(
        call_id=said_id,
        name=name,
        outputs=(*outputs, *(_read_response_part(part) for part in parts)),
        is_error=bool(response.get("error")) or any(isinstance(item, ErrorContent) for item in outputs),
    )


def _read_code(block: Mapping[str, Any]) -> CodeInterpreterCall | None:
    inner = block["executableCode"]
    said_id, code, language = inner.get("id", ""), inner.get("code", ""), inner.get("language", "PYTHON")
    if not isinstance(said_id, str) or not isinstance(code, str) or not isinstance(language, str):
        return None
    named = "python" if language in ("", "LANGUAGE_UNSPECIFIED") else language.lower()
    return CodeInterpreterCall(call_id=said_id, inputs=(code_content(code, named),))


def _read_result(block: Mapping[str, Any]) -> CodeInterpreterResult | None:
    inner = block["codeExecutionResult"]
    said_id, outcome, output = inner.get("id", ""), inner.get("outcome", _UNSPECIFIED), inner.get("output")
    if not isinstance(said_id, str) or not isinstance(outcome, str) or not isinstance(output, str | None):
        return None
    word = _OUTCOMES.get(outcome, outcome)
    printed: tuple[Content, ...] = ()
    if output is not None:
        printed = (failure_of(output) if word == "failed" else TextContent(text=output, stream="stdout"),)
    return CodeInterpreterResult(call_id=said_id, outputs=printed, outcome=word)


def file_id_of(uri: str) -> str | None:
    """Return the id of the file that a `fileUri` means, as the Files API names it; `None` where it lies elsewhere."""
    if uri.startswith("https://generativelanguage.googleapis.com/") and "/files/" in uri:
        name = uri.rpartition("/files/")[2].partition(":")[0]
        return f"files/{name}" if name else None
    return None if ":" in uri else uri


def uri_of(file_id: str) -> str:
    """Return the `fileUri` of a file; the API takes no bare name of the Files API's."""
    return _FILES_API + file_id if file_id.startswith("files/") else file_id


def _ending_of(media_type: str) -> str:
    subtype = bare_media_type(media_type).partition("/")[2]
    return _ENDINGS.get(subtype, subtype if subtype.isascii() and subtype.isalnum() else "bin")


_ENDINGS = {"plain": "txt", "jpeg": "jpg", "javascript": "js", "x-python": "py", "svg+xml": "svg"}


def failure_of(output: str) -> ErrorContent:
    """Return what the API says of a failure, one text of both streams and the reason, which is in its last line."""
    lines = output.rstrip().splitlines()
    message = lines[-1].strip() if lines else output
    found = _ERROR_LINE.fullmatch(message)
    details = output if output != message else None
    return ErrorContent(message=message, code=found.group(1) if found else None, details=details)


def error_text(error: ErrorContent) -> str:
    """Return an error as the API says a failure: `failure_of` makes an error of this again."""
    named = error.code is not None and not error.message.startswith(error.code)
    message = f"{error.code}: {error.message}" if named else error.message
    if error.details is None or message in error.details:
        return error.details or message
    return f"{error.details}{'' if error.details.endswith(chr(10)) else chr(10)}{message}"


def _outputs_of(response: JsonObject) -> list[Content]:
    """Return the items of a function's response: text and an error, or JSON where it is no plain text."""
    keys = [key for key in response if key in ("output", "result", "error")]
    only_text = all(isinstance(response[key], str) for key in keys)
    if len(keys) != len(response) or not only_text or {"output", "result"} <= response.keys():
        return [TextContent(text=json.dumps(response, ensure_ascii=False))]
    outputs: list[Content] = [TextContent(text=str(response[key])) for key in keys if key != "error"]
    return outputs + [ErrorContent(message=str(response[key])) for key in keys if key == "error"]


def _read_response_part(part: Any) -> Content:
    block = _prepared(part)
    found = BLOCKS.read_one(block)
    is_file = _kind_of(block) in _FILES and not isinstance(found, UnknownContent)
    return found if is_file else UnknownContent(format=NAME, raw=part)


class Writing(Losses):
    """Notes of one writing of messages: the losses, and in `names` the names of functions by the ids of their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}


def write_parts(items: Iterable[Content], writing: Writing) -> list[Any]:
    """Return the parts of a message's items. A result has the name of the function that was called."""
    parts: list[Any] = []
    after_result = False
    for item in items:
        if after_result and isinstance(item, DataContent | UriContent | HostedFileContent):
            writing.add(item.type, "becomes an output of the code before it")
        after_result = isinstance(item, CodeInterpreterResult)
        if not isinstance(item, UsageContent):
            parts += _write_part(item, writing)
    return parts


def _write_part(item: Content, writing: Writing) -> list[Any]:
    """Return the part of an item, without an id or a name that was made up, and those of files that code made."""
    changes: dict[str, Any] = {"annotations": ()}
    files: list[Content] = []
    if isinstance(item, FunctionCall):
        writing.names[item.call_id] = item.name
    elif isinstance(item, CodeInterpreterResult):
        files = [output for output in item.outputs if _is_file(output)]
        others = [output for output in item.outputs if not _is_file(output)]
        if [*others, *files] != [*item.outputs]:
            writing.add("code_interpreter_result.outputs", "files come after what was printed")
        changes["outputs"] = tuple(others)
    if _has_mark(item, _NO_ID):
        changes["call_id"] = ""
    if _has_mark(item, _NO_NAME):
        changes["name"] = None
    if isinstance(item, UriContent) and file_id_of(item.uri) is not None:
        writing.add("uri", "becomes a hosted file: it has no scheme, or is one of the Files API's")
    part = BLOCKS.write_one(item.model_copy(update=changes), writing)
    return [part, *(inner for file in files for inner in _write_part(file, writing))]


def _write_response(item: FunctionResult, writing: Writing) -> JsonObject:
    name = item.name if item.name is not None else writing.names.get(item.call_id) or item.call_id
    files: list[Any] = []
    text, errors = [], []
    says_why = any(isinstance(output, ErrorContent) for output in item.outputs)
    failed = item.is_error or says_why
    for output in item.outputs:
        match output:
            case UnknownContent() | DataContent() | UriContent() | HostedFileContent() if _is_file(output):
                files += _write_part(output, writing)
            case ErrorContent():
                if output.code is not None or output.details is not None:
                    writing.add("error", "becomes text")
                plain = output.code is None and output.details is None
                errors.append(output.message if plain else as_text(output))
            case TextContent() if failed and not says_why:
                errors.append(output.text)
            case _:
                text.append(_printed(output, writing))
    response: JsonObject = {"output": "".join(text)} if text else {}
    response |= {"error": "".join(errors)} if failed else {}
    more: JsonObject = {"parts": files} if files else {}
    return {"functionResponse": {**_id(item), "name": name, "response": response, **more}}


def _write_code(item: CodeInterpreterCall, writing: Writing) -> JsonObject:
    if any(not (isinstance(input, TextContent) or _is_code(input)) for input in item.inputs):
        writing.add("code_interpreter_call.inputs", "files are left out: they go as parts of the user's")
    note_unwritten(item, ("name",), "left out: there is one tool", writing)
    if item.language != "python":
        writing.add("code_interpreter_call.language", "left out: there is Python only")
    language = "PYTHON" if item.language == "python" else "LANGUAGE_UNSPECIFIED"
    return {"executableCode": {**_id(item), "language": language, "code": item.code}}


def _write_result(item: CodeInterpreterResult, writing: Writing) -> JsonObject:
    note_unwritten(item, ("exit_code", "name"), "left out", writing)
    outcome = _outcome(item, writing)
    printed: str | None = None
    for output in item.outputs:
        piece = error_text(output) if isinstance(output, ErrorContent) else _printed(output, writing)
        is_apart = isinstance(output, ErrorContent) and printed and not printed.endswith("\n")
        printed = f"{printed or ''}{chr(10) if is_apart else ''}{piece}"
    if outcome == "OUTCOME_FAILED" and any(isinstance(output, TextContent) for output in item.outputs):
        writing.add("text", "what failed code printed is one with its error")
    elif outcome != "OUTCOME_FAILED" and any(isinstance(output, ErrorContent) for output in item.outputs):
        writing.add("error", "becomes text: code that has not failed has no error")
    said: JsonObject = {} if printed is None else {"output": printed}
    return {"codeExecutionResult": {**_id(item), "outcome": outcome, **said}}


def _outcome(item: CodeInterpreterResult, writing: Writing) -> str:
    if item.outcome == "timeout":
        return "OUTCOME_DEADLINE_EXCEEDED"
    if item.success is not None:
        return _OUTCOME_NAMES["ok" if item.success else "failed"]
    if (item.outcome or "").startswith("OUTCOME_"):
        return str(item.outcome)
    writing.add("code_interpreter_result.outcome", "a word that is not known is left out")
    return _UNSPECIFIED


def _printed(output: Content, writing: Writing) -> str:
    if isinstance(output, TextContent):
        if output.stream == "stderr":
            writing.add("text.stream", "left out: there is one output")
    else:
        writing.add(output.type, "becomes text")
    return as_text(output)


def _base64_or_none(signature: Any) -> str | None:
    return signature if decoded(signature) is not None else None


def _read_file_id(uri: Any) -> str | None:
    return file_id_of(uri) if isinstance(uri, str) and uri else None


def _read_link(uri: Any) -> str | None:
    return uri if isinstance(uri, str) and uri and file_id_of(uri) is None else None


_FILE = (At("fileData.mimeType", "media_type", optional=True), At("fileData.displayName", "name", optional=True))
_SIGNATURE = At(
    "thoughtSignature",
    "protected_data",
    _base64_or_none,
    _base64_or_none,
    optional=True,
    how="left out: a signature is base64",
)
BLOCKS = Blocks(
    NAME,
    (
        Kind("text", ReasoningContent, (At("text", "text"), _SIGNATURE), {"thought": True}),
        Kind("text", TextContent, (At("text", "text"),)),
        Kind(
            "inlineData",
            DataContent,
            (
                At("inlineData.data", "data", bytes_or_none, to_base64),
                At("inlineData.mimeType", "media_type"),
                At("inlineData.displayName", "name", optional=True),
            ),
        ),
        Kind(
            "fileData",
            HostedFileContent,
            (At("fileData.fileUri", "file_id", _read_file_id, uri_of), *_FILE),
        ),
        Kind("fileData", UriContent, (At("fileData.fileUri", "uri", _read_link), *_FILE)),
        Kind(
            "functionCall",
            FunctionCall,
            (
                At("functionCall.id", "call_id", write=lambda call_id: call_id or None),
                *called("functionCall.name", "functionCall.args"),
            ),
            usual={"call_id": "", "name": ""},
        ),
        Kind("functionResponse", FunctionResult, read=_read_response, write=_write_response),
        Kind("executableCode", CodeInterpreterCall, read=_read_code, write=_write_code),
        Kind("codeExecutionResult", CodeInterpreterResult, read=_read_result, write=_write_result),
    ),
    _kind_of,
    typed="",
    lost={"text.stream": "left out: all text is alike"},
    own=(_NO_ID, _NO_NAME),
    losses=Writing,
)
KINDS = BLOCKS.names


def _has_mark(item: Content, mark: str) -> bool:
    return mark in item.provider_data.get(NAME, {})


def _id(item: FunctionCall | FunctionResult | CodeInterpreterCall | CodeInterpreterResult) -> JsonObject:
    return {} if _has_mark(item, _NO_ID) or not item.call_id else {"id": item.call_id}


def _is_file(item: Content) -> bool:
    """Return whether an output has a part of its own."""
    if isinstance(item, UnknownContent):
        return item.format == NAME
    return isinstance(item, DataContent | UriContent | HostedFileContent)


def _is_code(item: Content) -> bool:
    return isinstance(item, DataContent) and item.is_text and item.name is None


_STEP = re.compile(r"\.([^.\[\]'\"]+)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_PATH = re.compile(rf"\$(?:{_STEP.pattern})*")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialArguments:
    """Puts together arguments that come in pieces, each a value at a JSON path (RFC 9535: names and places)."""

    def __init__(self, arguments: JsonObject) -> None:
        self._arguments: dict[str, Any] = copy.deepcopy(arguments)
        self._continued: str | None = None

    @property
    def arguments(self) -> JsonObject:
        """A copy of the arguments that have arrived so far."""
        return copy.deepcopy(self._arguments)

    def add(self, pieces: Any) -> bool:
        """Take in `partialArgs`. False where one of them cannot be understood; those before it have been taken."""
        return all(self._add(piece) for piece in list_or_empty(pieces)) and isinstance(pieces, list)

    def _add(self, value: Any) -> bool:
        piece = camel_or_none(value) or {}
        path = text_or_none(piece.get("jsonPath"))
        given = [name for name in _VALUES if name in piece]
        steps = _steps(path) if path is not None else None
        if not steps or len(given) != 1:
            return False
        said = None if given[0] == "nullValue" else piece[given[0]]
        done = self._put(steps, said, appending=path == self._continued and isinstance(said, str))
        self._continued = path if piece.get("willContinue") is True else None
        return done

    def _put(self, steps: list[str | int], value: Any, *, appending: bool) -> bool:
        place: Any = self._arguments
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if not (isinstance(place, dict) if isinstance(step, str) else isinstance(place, list)):
                return False
            if isinstance(step, int) and step > len(place):
                return False
            there = place.get(step) if isinstance(step, str) else place[step] if step < len(place) else None
            if following is not None:
                new = there if isinstance(there, dict | list) else {} if isinstance(following, str) else []
            else:
                new = there + value if appending and isinstance(there, str) else value
            if isinstance(step, int) and step == len(place):
                place.append(new)
            else:
                place[step] = new
            place = new
        return True


def _steps(path: str) -> list[str | int] | None:
    if not _PATH.fullmatch(path):
        return None
    return [int(place) if place else name or quoted or double for name, place, quoted, double in _STEP.findall(path)]
