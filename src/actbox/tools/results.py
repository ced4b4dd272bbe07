"""What a host function returned, as plain JSON data; never a silent `str()`."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import math
import types
import typing
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from actbox.core.errors import ToolError

from .host_function import EMPTY
from .problems import shown

_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.JSONDecoder().decode

_PLAIN = frozenset({str, bool, types.NoneType})
_BYTES = (bytes, bytearray, memoryview)

_ADVICE: dict[type, str] = {
    set: "return a sorted list",
    frozenset: "return a sorted list",
    types.GeneratorType: "return list(...)",
    types.AsyncGeneratorType: "collect it into a list",
    types.CoroutineType: "write the tool as `async def` or await it",
    bytes: "bytes can only be the whole result",
    bytearray: "bytes can only be the whole result",
    memoryview: "bytes can only be the whole result",
}

# What a return annotation may name without making it JSON.
_NEVER_DECLARED = (object, set, frozenset, collections.deque, collections.abc.Iterator, *_BYTES)


class ResultCheck:
    """Turns results of one tool into plain JSON data, or says why that cannot be.

    Models, dataclasses, enums and tuples have a JSON form of their own. Further types (dates, UUIDs, decimals, paths,
    …) have one where the return annotation names them; pydantic writes them by that annotation. So it is with sets,
    queues and keys that are no text, where the whole result is what the annotation says: of `dict[int, str]` the keys
    become text, of `set[int]` a list.
    """

    def __init__(self, tool: str, returns: Any = EMPTY) -> None:
        self._tool = tool
        self._adapter: TypeAdapter[Any] = TypeAdapter(Any if returns is EMPTY else returns)
        self._declared = tuple(_declared_classes(returns, set()))
        self._declares_other_containers = any(map(_is_other_container, _parts(returns, set())))

    def __call__(self, value: Any) -> Any:
        """Return a copy of `value` as JSON data, or `bytes`. Raises `ToolError` with type and place."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _BYTES:
            return bytes(value)
        try:
            # The common case at C speed. Where the round trip changes something (a tuple, a key that is no
            # text) the slow path decides; where it does not, the copy has plain types only.
            copy = _decode(_encode(value))
            if copy == value:
                return copy
        except (TypeError, ValueError, RecursionError):
            pass  # the slow path finds out what and where
        try:
            if self._declares_other_containers and (copy := self._as_declared(value)) is not None:
                return copy
            self._refuse(value, "result", owned=False)
            return self._convert(value)
        except RecursionError:
            raise self._error("its result is nested too deeply, or contains itself") from None
        finally:
            if isinstance(value, types.CoroutineType):
                value.close()  # else Python warns that it was never awaited

    def _convert(self, value: Any) -> Any:
        try:
            return _decode(_encode(self._adapter.dump_python(value, mode="json", warnings=False)))
        except (PydanticSerializationError, TypeError, ValueError) as error:
            raise self._error(f"its result ({type(value).__name__}) has no JSON form: {error}") from error

    def _as_declared(self, value: Any) -> Any:
        """Return a value as JSON data by the return annotation; `None` for one that is something else than it says."""
        try:
            return _decode(_encode(self._adapter.dump_python(value, mode="json", warnings="error")))
        except (PydanticSerializationError, TypeError, ValueError):
            return None  # and the sentence is that of a result without an annotation

    def _refuse(self, value: Any, at: str, *, owned: bool) -> None:
        """Raise for the first thing that is not JSON. A class answers for what its instances own."""
        if value is None or isinstance(value, (str, bool)):
            return
        if isinstance(value, enum.Enum):
            self._refuse(value.value, at, owned=owned)
        elif isinstance(value, int):
            self._refuse_long(value, at)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise self._error(f"{at} is {value}, which JSON cannot say; return None instead")
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                self._refuse(item, f"{at}[{index}]", owned=owned)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str) and not owned:
                    raise self._error(f"{at} has the key {shown(key)} ({type(key).__name__}); JSON keys are text")
                self._refuse(item, f"{at}[{shown(key)}]", owned=owned)
        elif (members := _members(value)) is not None:
            for name, item in members:
                self._refuse(item, f"{at}.{name}", owned=True)
        elif not owned and not isinstance(value, self._declared):
            kind = type(value)
            advice = _ADVICE.get(kind, "return JSON data, or name the type in the return annotation")
            raise self._error(f"{at} is of type {kind.__name__}, which is not JSON; {advice}")

    def _refuse_long(self, value: int, at: str) -> None:
        try:
            _encode(value)
        except ValueError:  # sys.set_int_max_str_digits
            raise self._error(f"{at} has too many digits; return it as text") from None

    def _error(self, message: str) -> ToolError:
        return ToolError(f"tool {self._tool!r} cannot give its result: {message}", tool=self._tool)


def _members(value: Any) -> Iterator[tuple[str, Any]] | None:
    if isinstance(value, BaseModel):
        return iter(value.__dict__.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return None


def _declared_classes(annotation: Any, seen: set[Any]) -> Iterator[type]:
    """Yield the classes that a return annotation names, those of containers left out."""
    if annotation is EMPTY or annotation is Any or get_origin(annotation) is typing.Literal:
        return
    inner = getattr(annotation, "__value__", None) or getattr(annotation, "__supertype__", None)  # type alias, NewType
    if inner is not None:
        if annotation not in seen:
            yield from _declared_classes(inner, seen | {annotation})
    elif get_origin(annotation) is not None:
        for part in get_args(annotation):
            yield from _declared_classes(part, seen)
    elif isinstance(annotation, type) and annotation not in seen:
        if issubclass(annotation, (dict, tuple)):  # a TypedDict or NamedTuple names the types of its fields
            if annotation not in (dict, tuple):
                for part in typing.get_type_hints(annotation).values():
                    yield from _declared_classes(part, seen | {annotation})
        elif annotation not in _NEVER_DECLARED and annotation.__module__ not in ("collections.abc", "typing"):
            yield annotation


def _is_other_container(annotation: Any) -> bool:
    """Return whether an annotation is one of containers that JSON has not, and that its lists and objects stand for."""
    kind, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if not isinstance(kind, type):
        return False
    if issubclass(kind, collections.abc.Mapping) and not typing.is_typeddict(kind):
        return len(arguments) == 2 and arguments[0] not in (str, Any)
    return issubclass(kind, (collections.abc.Set, collections.deque))


def _parts(annotation: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield a return annotation and all that stand in it."""
    if annotation is EMPTY or get_origin(annotation) is typing.Literal:
        return
    yield annotation
    inner = getattr(annotation, "__value__", None) or getattr(annotation, "__supertype__", None)  # type alias, NewType
    if inner is not None:
        if annotation not in seen:
            yield from _parts(inner, seen | {annotation})
    elif get_origin(annotation) is not None:
        for part in get_args(annotation):
            yield from _parts(part, seen)
    elif isinstance(annotation, type) and issubclass(annotation, (dict, tuple)) and annotation not in (dict, tuple):
        for part in typing.get_type_hints(annotation).values() if annotation not in seen else ():
            yield from _parts(part, seen | {annotation})
