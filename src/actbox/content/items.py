"""What a message is made of: one content model for every provider that runs code, and for sandboxes of our own.

Items are plain values that never change. They become JSON and come back the same; fields that a newer version has are
kept, and so is an item of a kind that is not known here. What only one provider has, and no field here stands for, is
in `provider_data` under the name of that provider's format, so that converting back loses nothing.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

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
    """What items, messages and updates have in common: they never change, and keep fields that are not known here."""

    model_config = ConfigDict(frozen=True, extra="allow")

    provider_data: dict[str, JsonObject] = Field(default_factory=dict)
    """What only one format has of this, by the format's name; its writer puts it back."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, without the fields that have their usual value; bytes as base64."""
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
    """What is said about a stretch of text: where it comes from, or which file it speaks of.

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
    """Text: what somebody says, or what a program printed. `stream` says where it was printed, if it was."""

    type: Literal["text"] = "text"
    text: str
    stream: Literal["stdout", "stderr"] | None = None


class ReasoningContent(Item):
    """What a model thinks before it answers. `protected_data` is what its provider wants back as it is."""

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
        """Whether the media type says that it is text."""
        return is_text(self.media_type)

    @property
    def text(self) -> str:
        """The bytes as text, in UTF-8; what is not becomes a replacement character."""
        return self.data.decode("utf-8", "replace")

    @property
    def language(self) -> str:
        """The programming language that the media type stands for, "" for none."""
        return language_of_media_type(self.media_type)

    @property
    def data_uri(self) -> str:
        """The whole as a `data:` URI (RFC 2397)."""
        return f"data:{self.media_type};base64,{_to_base64(self.data)}"


class UriContent(Item):
    """Something that lies elsewhere, at a URI."""

    type: Literal["uri"] = "uri"
    uri: str
    media_type: str | None = None
    name: str | None = None


class HostedFileContent(Item):
    """A file that a provider, or a `FileStore`, keeps, and knows by an id. `container_id` says in which container."""

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
    """Something failed: a program, a tool, a request. `details` may be long, as a traceback is."""

    type: Literal["error"] = "error"
    message: str
    code: str | None = None
    details: str | None = None


class FunctionCall(Item):
    """A call of a tool by a model. `arguments` is text where it was no JSON object, or not the whole of one yet."""

    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str = ""
    arguments: JsonObject | str = Field(default_factory=dict)
    called_by: str | None = None
    """The `call_id` of the code that made the call, where a program made it and not the model itself."""


class FunctionResult(Item):
    """What a tool returned, or that it failed."""

    type: Literal["function_result"] = "function_result"
    call_id: str
    name: str | None = None
    outputs: tuple[Content, ...] = ()
    is_error: bool = False

    @property
    def text(self) -> str:
        """What in the outputs is text, all in one."""
        return text_of(self.outputs)


MergeMode: TypeAlias = Literal["append", "replace"]


class CodeInterpreterCall(Item):
    """A program that a provider or a sandbox is to run. Code is text data, so that it has its language.

    In a stream, `merge_mode` says whether this adds to what there is of the call, or replaces it.
    """

    type: Literal["code_interpreter_call"] = "code_interpreter_call"
    call_id: str
    inputs: tuple[Content, ...] = ()
    name: str | None = None
    """The name of the tool, where its provider has several that run code."""
    status: str | None = None
    merge_mode: MergeMode = "append"

    @property
    def code(self) -> str:
        """The program: what in the inputs is text, all in one."""
        return "".join(_code_of(item) for item in self.inputs)

    @property
    def language(self) -> str:
        """The language of the program; Python where nobody says otherwise."""
        languages = (item.language for item in self.inputs if isinstance(item, DataContent) and item.is_text)
        return next((language for language in languages if language), "python")


class CodeInterpreterResult(Item):
    """What running a program came to: what it printed as text, files as named data or hosted files, errors.

    In a stream, `merge_mode` says whether this adds to what there is of the result, or replaces it.
    """

    type: Literal["code_interpreter_result"] = "code_interpreter_result"
    call_id: str
    outputs: tuple[Content, ...] = ()
    exit_code: int | None = None
    outcome: str | None = None
    """`ok`, `failed` or `timeout`; another word where a provider says one that is not known here."""
    name: str | None = None
    status: str | None = None
    merge_mode: MergeMode = "append"

    @property
    def text(self) -> str:
        """What in the outputs is text, all in one, in their order."""
        return text_of(self.outputs)

    @property
    def success(self) -> bool | None:
        """Whether the program succeeded: by exit code, else by outcome, else by whether there is an error item.

        `None` where there is an outcome that is not known here, and no error item. Text on stderr says nothing.
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
    """What a response used, in tokens; what else a provider counts is in `counts`."""

    type: Literal["usage"] = "usage"
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    counts: dict[str, int | FiniteFloat] = Field(default_factory=dict)


class UnknownContent(Item):
    """An item that is not known here, kept whole: `raw` is what the format of that name had."""

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
    """An item of a kind that a later version has; it becomes the same JSON again."""

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
"""Any item. In JSON its `type` tells which."""

FunctionResult.model_rebuild()
CodeInterpreterCall.model_rebuild()
CodeInterpreterResult.model_rebuild()

_ADAPTER: TypeAdapter[Content] = TypeAdapter(Content)


def content_from_dict(data: Mapping[str, Any]) -> Content:
    """Return the item that `to_dict` made this of. Raises `pydantic.ValidationError` with the place and the reason."""
    return _ADAPTER.validate_python(dict(data))


def arguments_from_json(text: str) -> JsonObject | str:
    """Return the arguments of a call that a provider gives as JSON text; the text itself where it is no JSON object."""
    if not text.rstrip().endswith("}"):
        return text
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    return arguments if isinstance(arguments, dict) else text


def arguments_to_json(arguments: JsonObject | str) -> str:
    """Return arguments as providers want them that take JSON text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def code_content(code: str, language: str = "python") -> DataContent:
    """Return a program as an input of a `CodeInterpreterCall`."""
    return DataContent(media_type=media_type_of_language(language), data=code.encode("utf-8", "surrogatepass"))


def text_of(items: Iterable[Content]) -> str:
    """Return the text of all `TextContent` among some items, put together."""
    return "".join(item.text for item in items if isinstance(item, TextContent))


def _code_of(item: Content) -> str:
    if isinstance(item, TextContent) or (isinstance(item, DataContent) and item.is_text):
        return item.text
    return ""
