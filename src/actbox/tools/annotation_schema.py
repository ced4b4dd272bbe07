"""The JSON schemas of annotations, by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, NoReturn

from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

# Before Python 3.12, pydantic accepts only the TypedDict of typing_extensions.
from typing_extensions import TypedDict

from actbox.core.errors import InvalidValue

from .host_function import EMPTY, HostFunction
from .table_classes import instead_of, plain_type
from .types_from_schema import resolve

_UNUSABLE = (PydanticUserError, TypeError, NameError)
"""The exceptions of pydantic for an annotation that cannot be used."""
# Without this, pydantic refuses a class that it does not know before `AnnotationSchema` sees it.
_ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)


def output_schema(host: HostFunction) -> dict[str, Any] | None:
    """Return the JSON schema of the function's return annotation, or `None` if it has none.

    Raises `InvalidValue` for an annotation whose values cannot cross.
    """
    if host.returns is EMPTY:
        return None
    try:
        return ReturnAdapter(host.returns).json_schema()
    except _UNUSABLE as error:
        raise InvalidValue(
            f"tool {host.name!r}: the return annotation has no JSON form: {_first_line(error)}"
        ) from None


class ReturnAdapter:
    """An adapter for a return annotation, which may name classes of pandas and NumPy."""

    def __init__(self, annotation: Any) -> None:
        """Raise an error of pydantic, `TypeError` or `NameError` for an annotation that cannot be used."""
        self._in_list = False
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        except PydanticSchemaGenerationError:
            # A dataclass or a TypedDict takes no configuration from outside, but a list of them passes one on.
            self._in_list = True
            listed: Any = GenericAlias(list, (annotation,))
            self._adapter = TypeAdapter(listed, config=_ANY_CLASS)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of what a program gets. Raises `PydanticUserError`."""
        generator = _StrictSchema if self._in_list else AnnotationSchema
        schema = self._adapter.json_schema(mode="serialization", schema_generator=generator)
        if not self._in_list:
            return schema
        item: dict[str, Any] = resolve(schema, schema["items"])
        return item | {"$defs": schema["$defs"]} if "$defs" in schema else item

    def plain(self, value: Any) -> Any:
        """Return a value with dicts in the place of models, without changing values that pydantic does not know."""
        dumped = self._adapter.dump_python([value] if self._in_list else value, mode="python", warnings=False)
        return dumped[0] if self._in_list else dumped


def arguments_adapter(host: HostFunction, fields: Mapping[str, Any]) -> TypeAdapter[Any]:
    """Return an adapter for a function's arguments, as an object of these fields.

    Raises `InvalidValue` that names the parameter whose annotation cannot be used.
    """
    # A TypedDict, not a model: its keys may have any name (`model_config`, `_private`, `class`), and omitted keys stay
    # omitted.
    try:
        return _build(fields)
    except _UNUSABLE as error:
        whole = error
    for name, annotation in fields.items():
        try:
            _build({name: annotation})
        except _UNUSABLE as error:
            raise InvalidValue(
                f"tool {host.name!r}: the type of parameter {name!r} has no JSON form: {_first_line(error)}"
            ) from None
    raise InvalidValue(f"tool {host.name!r}: its parameters have no JSON form: {_first_line(whole)}")


def _build(fields: Mapping[str, Any]) -> TypeAdapter[Any]:
    shape = TypedDict("Arguments", dict(fields))  # type: ignore[misc]  # noqa: UP013 - names known at run time
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
    except PydanticSchemaGenerationError:
        shape.__pydantic_config__ = _ANY_CLASS  # type: ignore[attr-defined]
        TypeAdapter(shape).json_schema(schema_generator=_StrictSchema)  # raises an error in our words
        raise
    adapter.json_schema(schema_generator=AnnotationSchema)  # raises for a type that validates but has no schema
    return adapter


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


_PYTHON = {
    "datetime": "datetime.datetime",
    "date": "datetime.date",
    "time": "datetime.time",
    "timedelta": "datetime.timedelta",
    "uuid": "uuid.UUID",
    "decimal": "decimal.Decimal",
    "set": "set",
    "frozenset": "frozenset",
    "int": "int",
    "float": "float",
}
_PYTHON_KEYS = {**_PYTHON, "bool": "bool", "bytes": "bytes", "tuple": "tuple"}


class AnnotationSchema(GenerateJsonSchema):
    """A JSON schema generator without field titles (they only repeat the names) and with notes of Python types.

    `x-python` names a type that JSON lacks, `x-python-keys` that of a mapping's keys. In a result, a class of pandas or
    NumPy has the schema of the plain type as which its values cross.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a field has no title."""
        return False

    def generate_inner(self, schema: Any) -> Any:
        """Return the JSON schema of one part of a type, with notes of the Python types that JSON lacks."""
        written = super().generate_inner(schema)
        kind = schema["type"]
        if kind == "dict" and (keys := _PYTHON_KEYS.get(schema.get("keys_schema", {}).get("type"))):
            written["x-python-keys"] = keys
        elif kind in _PYTHON and kind not in ("int", "float") and "serialization" not in schema:
            written["x-python"] = _PYTHON[kind]
        return written

    def is_instance_schema(self, schema: Any) -> Any:
        """Return the JSON schema of a class that pydantic does not know. Raises `PydanticUserError`."""
        plain = plain_type(schema["cls"]) if self.mode == "serialization" else None
        if plain is None:
            return super().is_instance_schema(schema)
        # In a list, so that the schema of a TypedDict becomes a definition with a name.
        listed: Any = GenericAlias(list, (plain,))
        schema_of_list: Any = TypeAdapter(listed).core_schema
        return self.generate_inner(schema_of_list.get("items_schema", {"type": "any"}))

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> NoReturn:
        """Raise the error for a type without a JSON form, with a sentence that says what to annotate instead."""
        kind = schema.get("cls")
        named = f"an instance of {getattr(kind, '__name__', schema['type'])}"
        value = "a function" if schema["type"] == "callable" else named
        if self.mode == "serialization":
            raise self._refusal(f"{value} cannot cross; return plain data, a dataclass or a model, and annotate that")
        instead = instead_of(kind) or "plain data, a dataclass or a model"
        raise self._refusal(f"no argument becomes {value}; annotate {instead}")

    def _refusal(self, message: str) -> PydanticUserError:
        return PydanticInvalidForJsonSchema(message)  # pydantic leaves out a member of a union that raises this

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Drop a default without JSON form silently: the function applies the default itself."""


class _StrictSchema(AnnotationSchema):
    """A generator that refuses a union if one of its members has no JSON form."""

    def _refusal(self, message: str) -> PydanticUserError:
        return PydanticUserError(message, code=None)
