"""The conversion of a host function's result for the channel: JSON data, bytes, or the tagged form; never a silent
`str()`.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python

from actbox.core.errors import ToolError
from actbox.core.values import CannotCross, Packed, pack

from .annotation_schema import ReturnAdapter
from .host_function import EMPTY
from .large_values import blocks, is_large
from .table_classes import plain_type

_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.JSONDecoder().decode

# The nesting that a channel message may have.
_MOST_DEPTH = 200
_PLAIN = frozenset({str, bool, types.NoneType})
_LARGE = 1 << 1024
_BYTES = (bytes, bytearray, memoryview)
_ANY: TypeAdapter[Any] = TypeAdapter(Any)


class ResultCheck:
    """A converter of one tool's results into sendable values, or into an error that says why not.

    Models and dataclasses become dicts of their fields, enums their values, and types of the tagged form stay. Further
    types (paths, addresses, …) get their JSON form from pydantic if the return annotation names them, or a model has
    them.
    """

    def __init__(self, tool: str, returns: Any = EMPTY) -> None:
        self._tool = tool
        self._adapter = ReturnAdapter(Any if returns is EMPTY else returns)
        self._declared = tuple(_declared_classes(returns, set()))
        self._declares_models = any(map(_has_own_fields, self._declared))

    def __call__(self, value: Any) -> Any:
        """Return a copy of `value` as JSON data, `bytes` or `Packed`. Raises `ToolError` that names the type and
        place.
        """
        kind = type(value)
        if kind in _PLAIN or (kind is int and -_LARGE < value < _LARGE):
            return value
        if kind in _BYTES:
            return bytes(value)
        try:
            # The common case, at C speed. If the round trip changes anything (a tuple, a key that is not text), the
            # slow path decides; otherwise the copy has plain types only.
            return _copied(value)
        except (TypeError, ValueError, RecursionError):
            pass  # the slow path finds the type and the place
        try:
            written = self._adapter.plain(value) if self._declared else value
            return Packed(pack(written, keeps_bytes=True, default=self._form_of))
        except CannotCross as error:
            raise self._error(error.within("result")) from None
        except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
            raise self._error(f"result ({kind.__name__}) has no JSON form: {error}") from error
        finally:
            if isinstance(value, types.CoroutineType):
                value.close()  # else Python warns that it was never awaited

    def _form_of(self, value: Any) -> Any:
        if _has_own_fields(type(value)):
            return pack(_ANY.dump_python(value, mode="python", warnings=False), keeps_bytes=True, default=_json_of)
        return _json_of(value) if self._declares_models or isinstance(value, self._declared) else None

    def _error(self, message: str) -> ToolError:
        return ToolError(f"tool {self._tool!r} cannot give its result: {message}", tool=self._tool)


def _has_own_fields(kind: type) -> bool:
    return issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)


def _json_of(value: Any) -> Any:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return None  # the error is then that for values without a JSON form


def _copied(value: Any, depth: int = 0) -> Any:
    """Return a copy of JSON data, made in parts by C code; raise `ValueError` for any other value."""
    kind = type(value)
    if kind is str:
        return value
    if not is_large(value):
        copy = _decode(_encode(value))
        if copy != value:
            raise ValueError("not JSON data")
        return copy
    if depth == _MOST_DEPTH or kind not in (list, dict) or (kind is dict and set(map(type, value)) != {str}):
        raise ValueError("not JSON data, or nested too deeply")
    items: list[Any] = []
    for block in blocks(value.values() if kind is dict else value):
        items += [_copied(item, depth + 1) for item in block] if is_large(block) else _copied(block)
    return dict(zip(value, items, strict=True)) if kind is dict else items


def _declared_classes(annotation: Any, seen: set[Any]) -> Iterator[type]:
    """Yield the classes that a return annotation names, except those of containers and those of pandas and NumPy."""
    if annotation is EMPTY or annotation is Any or get_origin(annotation) is typing.Literal:
        return
    if plain_type(get_origin(annotation) or annotation) is not None:
        return  # its values need no help to cross
    inner = getattr(annotation, "__value__", None) or getattr(annotation, "__supertype__", None)  # type alias, NewType
    if inner is not None:
        if annotation not in seen:
            yield from _declared_classes(inner, seen | {annotation})
    elif get_origin(annotation) is not None:
        if get_origin(annotation) is collections.deque:
            yield collections.deque
        for part in get_args(annotation):
            yield from _declared_classes(part, seen)
    elif isinstance(annotation, type) and annotation not in seen:
        if issubclass(annotation, (dict, tuple)):  # a TypedDict or NamedTuple names the types of its fields
            if annotation not in (dict, tuple):
                for part in typing.get_type_hints(annotation).values():
                    yield from _declared_classes(part, seen | {annotation})
        elif annotation is not object and annotation.__module__ not in ("collections.abc", "typing"):
            yield annotation
