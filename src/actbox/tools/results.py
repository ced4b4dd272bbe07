"""What a tool gives back: plain JSON or bytes. What is neither is an error that names the place, never a `str()`."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable
from typing import Any

from actbox.core.errors import InvalidValue, ToolError


class Results:
    """Turns what a function returned into JSON, by its return annotation where there is one."""

    def __init__(self, name: str, annotation: Any) -> None:
        """`annotation` is `inspect.Signature.empty` where the function declares nothing."""
        self.schema: dict[str, Any] | None = None
        self._tool = name
        self._dump: Callable[[Any], Any] | None = None
        if annotation is Any or _is_empty(annotation) or annotation in (bytes, None):
            self.schema = {"type": "null"} if annotation is None else None
            return
        # Here and not above, for the sake of `import actbox`: see `SignatureArguments`.
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

        try:
            adapter: TypeAdapter[Any] = TypeAdapter(annotation)
            self.schema = adapter.json_schema(mode="serialization")
        except (PydanticSchemaGenerationError, PydanticUserError):
            return  # a class that pydantic does not know; what is returned is checked all the same
        except NameError as error:
            raise InvalidValue(f"tool {name}: its return annotation cannot be resolved: {error}") from error
        self._dump = lambda value: adapter.dump_python(value, mode="json", warnings=False)

    def plain(self, value: Any) -> Any:
        """Return JSON data, or bytes. Raises `ToolError` naming the tool, the type and the place."""
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if _is_plain(value):
            return value
        if self._dump is not None:
            try:
                dumped = self._dump(value)
            except Exception:  # it is not what was declared; below it is said what it is
                dumped = value
            if _is_plain(dumped):
                return dumped
            value = dumped
        return self._converted(value, "result", 0)

    def _converted(self, value: Any, place: str, depth: int) -> Any:
        """Convert what has a defined JSON form, step by step, and complain about the rest."""
        if depth > 200:
            raise self._wrong(value, place, "is nested too deeply, or contains itself")
        if isinstance(value, enum.Enum):
            return self._converted(value.value, place, depth + 1)
        if value is None or isinstance(value, (str, bool, int)):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._wrong(value, place, f"is {value}, which JSON does not have")
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return {name: self._converted(getattr(value, name), f"{place}.{name}", depth + 1) for name in names}
        dump = getattr(value, "model_dump", None)
        if callable(dump) and not isinstance(value, type):
            return self._converted(dump(mode="json"), place, depth + 1)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise self._wrong(key, place, f"has a key of type {type(key).__name__}, and JSON only has text")
            return {key: self._converted(item, f"{place}[{key!r}]", depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._converted(item, f"{place}[{number}]", depth + 1) for number, item in enumerate(value)]
        raise self._wrong(value, place, f"is of type {type(value).__name__}")

    def _wrong(self, value: Any, place: str, what: str) -> ToolError:
        return ToolError(
            f"{self._tool} returned something that is not JSON: {place} {what}. The tool must return JSON values",
            tool=self._tool,
        )


def _is_empty(annotation: Any) -> bool:
    import inspect

    return annotation is inspect.Signature.empty


def _is_plain(value: Any) -> bool:
    """Return whether this is JSON data exactly: what comes back from JSON is the same, types and all."""
    if value is None or type(value) in (str, bool, int):
        return True
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value) and _has_plain_types(value)
    except (TypeError, ValueError, RecursionError):
        return False


def _has_plain_types(value: Any) -> bool:
    # Tuples and keys that are numbers never survive the round trip above as equals; subclasses of str and int do.
    return type(value) in (dict, list, float)
