"""The content items of messages: one model for every provider that runs code, and for sandboxes of our own.

Items are immutable values. They become JSON and come back unchanged; fields from a newer version are kept, and so are
items of an unknown kind. `provider_data` keeps, under the name of a provider's format, what only that format has and no
field here covers, so that converting back loses nothing.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_serializer,
)

from actbox.core.counted import counted

from .media import is_text, language_of_media_type, media_type_of_language

JsonObject: TypeAlias = dict[str, JsonValue]


def _to_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise ValueError(f"data must be bytes, or base64 text, and not {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"data must be base64, and is not: {error}") from error


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


Base64: TypeAlias = Annotated[
    bytes,
    PlainValidator(_to_bytes),
    PlainSerializer(_to_base64, when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]


class Part(BaseModel):
    """The base of items, messages and updates: immutable, and keeping unknown fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    provider_data: dict[str, JsonObject] = Field(default_factory=dict)
    """Fields that only one format has, by the format's name; the writer of that format restores them."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, without the fields that have their default value; bytes as base64."""
        return self.model_dump(mode="json")

    @model_serializer(mode="wrap")
    def _without_usual_values(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name, usual in _usual_values(type(self)):
            if name in data and getattr(self, name) == usual:
                del data[name]
        return data


@functools.cache
def _usual_values(kind: type[Part]) -> tuple[tuple[str, Any], ...]:
    fields = kind.model_fields.items()
    optional = ((name, field) for name, field in fields if not field.is_required() and name != "type")
    return tuple((name, field.get_default(call_default_factory=True)) for name, field in optional)


class Annotation(Part):
    """A note on a stretch of text: its source, or the file that it mentions.

    `start` and `end` count characters of the item's text, from 0, the end not included.
    """

    kind: str = "citation"
    title: str | None = None
    url: str | None = None
    file_id: str | None = None
    container_id: str | None = None
    file_name: str | None = None
    snippet: str | None = None
    start: int | None = None
    end: int | None = None


class Item(Part):
    """One item of content."""

    annotations: tuple[Annotation, ...] = ()


class TextContent(Item):
    """Text: somebody's words, or a program's printed output. `stream` is the output stream, if it was printed."""

    type: Literal["text"] = "text"
    text: str
    stream: Literal["stdout", "stderr"] | None = None


class ReasoningContent(Item):
    """A model's reasoning before its answer. `protected_data` must go back to its provider unchanged."""

    type: Literal["reasoning"] = "reasoning"
    text: str = ""
    protected_data: str | None = None


class DataContent(Item):
    """Bytes with a media type: a picture, a table, source code. A generated file has its `name`."""

    type: Literal["data"] = "data"
    media_type: str
    data: Base64 = Field(repr=False)
    name: str | None = None

    @property
    def is_text(self) -> bool:
        """True if the media type is one of text."""
        return is_text(self.media_type)

    @property
    def text(self) -> str:
        """The bytes as text, decoded as UTF-8; invalid bytes become replacement characters."""
        return self.data.decode("utf-8", "replace")

    @property
    def language(self) -> str:
        """The programming language that the media type stands for, "" for none."""
        return language_of_media_type(self.media_type)

    @property
    def data_uri(self) -> str:
        """The media type and bytes as a `data:` URI (RFC 2397)."""
        return f"data:{self.media_type};base64,{_to_base64(self.data)}"


class UriContent(Item):
    """A resource elsewhere, named by a URI."""

    type: Literal["uri"] = "uri"
    uri: str
    media_type: str | None = None
    name: str | None = None


class HostedFileContent(Item):
    """A file that a provider or a `FileStore` keeps under an id. `container_id` names its container."""

    type: Literal["hosted_file"] = "hosted_file"
    file_id: str = Field(min_length=1)
    media_type: str | None = None
    name: str | None = None
    size_bytes: int | None = None
    created_at: datetime | None = None
    purpose: str | None = None
    container_id: str | None = None


class HostedVectorStoreContent(Item):
    """A vector store that a provider keeps."""

    type: Literal["hosted_vector_store"] = "hosted_vector_store"
    vector_store_id: str = Field(min_length=1)


class ErrorContent(Item):
    """An error of a program, a tool or a request. `details` may be long, as a traceback is."""

    type: Literal["error"] = "error"
    message: str
    code: str | None = None
    details: str | None = None


class FunctionCall(Item):
    """A model's call of a tool. `arguments` is text if it is not a JSON object, or not a complete one yet."""

    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str = ""
    arguments: JsonObject | str = Field(default_factory=dict)
    called_by: str | None = None
    """The `call_id` of the code that made the call; `None` if the model itself made it."""


class FunctionResult(Item):
    """The result of a tool call: its output, or its failure."""

    type: Literal["function_result"] = "function_result"
    call_id: str
    name: str | None = None
    outputs: tuple[Content, ...] = ()
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text among the outputs, joined."""
        return text_of(self.outputs)


MergeMode: TypeAlias = Literal["append", "replace"]


class CodeInterpreterCall(Item):
    """A program that a provider or a sandbox is to run. The code is text data, whose media type tells its language.

    In a stream, `merge_mode` says whether this piece adds to the call so far, or replaces its inputs.
    """

    type: Literal["code_interpreter_call"] = "code_interpreter_call"
    call_id: str
    inputs: tuple[Content, ...] = ()
    name: str | None = None
    """The name of the tool, for a provider that has several tools for running code."""
    status: str | None = None
    merge_mode: MergeMode = "append"

    @property
    def code(self) -> str:
        """The program's source: the text among the inputs, joined."""
        return "".join(_code_of(item) for item in self.inputs)

    @property
    def language(self) -> str:
        """The language of the program; Python unless an input says otherwise."""
        languages = (item.language for item in self.inputs if isinstance(item, DataContent) and item.is_text)
        return next((language for language in languages if language), "python")


class CodeInterpreterResult(Item):
    """The result of running a program: printed output as text, files as named data or hosted files, errors.

    In a stream, `merge_mode` says whether this piece adds to the result so far, or replaces its outputs.
    """

    type: Literal["code_interpreter_result"] = "code_interpreter_result"
    call_id: str
    outputs: tuple[Content, ...] = ()
    exit_code: int | None = None
    outcome: str | None = None
    """`ok`, `failed` or `timeout`; a provider's other word is kept."""
    name: str | None = None
    status: str | None = None
    merge_mode: MergeMode = "append"

    @property
    def text(self) -> str:
        """The text among the outputs, joined in their order."""
        return text_of(self.outputs)

    @property
    def stdout(self) -> str:
        """Standard output, including text without a stream; the value is not included."""
        return self._printed("stdout")

    @property
    def stderr(self) -> str:
        """Standard error, if the provider separates it from standard output."""
        return self._printed("stderr")

    def _printed(self, stream: str) -> str:
        texts = [item for item in self.outputs if isinstance(item, TextContent)]
        is_value = [item.provider_data.get("actbox", {}).get("part") == "value" for item in texts]
        return "".join(
            item.text
            for item, value in zip(texts, is_value, strict=True)
            if not value and (item.stream or "stdout") == stream
        )

    @property
    def files(self) -> tuple[DataContent | HostedFileContent, ...]:
        """The files that the program made: named data, and files that its provider keeps."""
        return tuple(
            item
            for item in self.outputs
            if isinstance(item, HostedFileContent) or (isinstance(item, DataContent) and item.name is not None)
        )

    def __str__(self) -> str:
        """Return the output as text for a person, with files and errors named."""
        return outputs_as_text(self.outputs) or f"({self.outcome or 'no output'})"

    @property
    def success(self) -> bool | None:
        """True if the program succeeded: by exit code, else by outcome, else by the absence of error items.

        `None` if the outcome is unknown and there is no error item. Text on stderr does not count.
        """
        if self.exit_code is not None:
            return self.exit_code == 0
        if self.outcome in _OUTCOMES:
            return self.outcome == "ok"
        if any(isinstance(item, ErrorContent) for item in self.outputs):
            return False
        return True if self.outcome is None else None


_OUTCOMES = frozenset({"ok", "failed", "timeout"})


class UsageContent(Item):
    """The usage of a response in tokens; a provider's other counts are in `counts`."""

    type: Literal["usage"] = "usage"
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    counts: dict[str, int | FiniteFloat] = Field(default_factory=dict)


class UnknownContent(Item):
    """An item of an unknown kind, kept whole: `raw` is its JSON in the named format."""

    type: Literal["unknown"] = "unknown"
    format: str = ""
    raw: JsonValue = None


_KINDS: tuple[type[Item], ...] = (
    TextContent,
    ReasoningContent,
    DataContent,
    UriContent,
    HostedFileContent,
    HostedVectorStoreContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    CodeInterpreterCall,
    CodeInterpreterResult,
    UsageContent,
    UnknownContent,
)
_NAMES = frozenset(kind.model_fields["type"].default for kind in _KINDS)


class LaterContent(Item):
    """An item of a kind from a later version; it becomes the same JSON again."""

    type: str


def _kind_of(value: object) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in _NAMES else "later"


Content: TypeAlias = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ReasoningContent, Tag("reasoning")]
    | Annotated[DataContent, Tag("data")]
    | Annotated[UriContent, Tag("uri")]
    | Annotated[HostedFileContent, Tag("hosted_file")]
    | Annotated[HostedVectorStoreContent, Tag("hosted_vector_store")]
    | Annotated[ErrorContent, Tag("error")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionResult, Tag("function_result")]
    | Annotated[CodeInterpreterCall, Tag("code_interpreter_call")]
    | Annotated[CodeInterpreterResult, Tag("code_interpreter_result")]
    | Annotated[UsageContent, Tag("usage")]
    | Annotated[UnknownContent, Tag("unknown")]
    | Annotated[LaterContent, Tag("later")],
    Discriminator(_kind_of),
]
"""Any item. In JSON, the field `type` tells the kind."""

FunctionResult.model_rebuild()
CodeInterpreterCall.model_rebuild()
CodeInterpreterResult.model_rebuild()

_ADAPTER: TypeAdapter[Content] = TypeAdapter(Content)


def content_from_dict(data: Mapping[str, Any]) -> Content:
    """Return the item from which `to_dict` made this data. Raises `pydantic.ValidationError` with the place and the
    reason.
    """
    return _ADAPTER.validate_python(dict(data))


def arguments_from_json(text: str) -> JsonObject | str:
    """Return a call's arguments from a provider's JSON text; the text itself if it is not a JSON object."""
    if not text.rstrip().endswith("}"):
        return text
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    return arguments if isinstance(arguments, dict) else text


def arguments_to_json(arguments: JsonObject | str) -> str:
    """Return arguments as JSON text, for providers that take text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def code_content(code: str, language: str = "python") -> DataContent:
    """Return a program as an input item of a `CodeInterpreterCall`."""
    return DataContent(media_type=media_type_of_language(language), data=code.encode("utf-8", "surrogatepass"))


def text_of(items: Iterable[Content]) -> str:
    """Return the joined text of all `TextContent` items."""
    return "".join(item.text for item in items if isinstance(item, TextContent))


def _code_of(item: Content) -> str:
    if isinstance(item, TextContent) or (isinstance(item, DataContent) and item.is_text):
        return item.text
    return ""


def outputs_as_text(outputs: Iterable[Content]) -> str:
    """Return outputs as text for a model that takes only text, each on lines of its own."""
    text = ""
    for item in outputs:
        piece = as_text(item)
        if piece and text and not isinstance(item, TextContent) and not text.endswith("\n"):
            text += "\n"
        text += piece
    return text


def as_text(item: Content) -> str:
    """Return an item as text; "" for an item that is not meant to be read, such as usage."""
    match item:
        case TextContent():
            return item.text
        case ErrorContent():
            return _error_as_text(item)
        case DataContent():
            return f"[{item.name or 'data'}: {item.media_type}, {counted(len(item.data), 'byte')}]"
        case HostedFileContent():
            return f"[file {item.name or item.file_id}: {item.file_id}]"
        case HostedVectorStoreContent():
            return f"[vector store {item.vector_store_id}]"
        case UriContent():
            return f"[{item.name or item.media_type or 'link'}: {item.uri}]"
        case FunctionCall():
            return f"[calls {item.name} with {arguments_to_json(item.arguments)}]"
        case CodeInterpreterCall():
            return f"```{item.language}\n{item.code.rstrip()}\n```"
        case FunctionResult() | CodeInterpreterResult():
            return outputs_as_text(item.outputs)
        case UnknownContent():
            return f"[{item.format} item: {json.dumps(item.raw, ensure_ascii=False)}]"
        case ReasoningContent() | UsageContent():
            return ""
        case _:
            return f"[{item.type}]"


def _error_as_text(item: ErrorContent) -> str:
    code = f" {item.code}" if item.code else ""
    details = f"\n{item.details}" if item.details else ""
    return f"error{code}: {item.message}{details}"
