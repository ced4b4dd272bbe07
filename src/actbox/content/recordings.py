"""A reader of HTTP recordings made by test recorders: it splits them into request and response bodies.

Cassettes of VCR.py and of Ruby's VCR are YAML or JSON: https://vcrpy.readthedocs.io. Lists of objects with a `request`
and a `response` are a common form of other recorders.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_LISTS = ("interactions", "http_interactions")
_BODIES = ("parsed_body", "body", "json", "content")
"""Fields that may hold the body of a request or response."""
_HTTP = frozenset({"parsed_body", "body", "headers", "method", "status_code"})
"""Fields that mark a request or response, as opposed to a bare body."""
_YAML = re.compile(r"(?:---\s*\n)?(?:#.*\n)*(?:version|interactions|http_interactions|recorded_with):", re.MULTILINE)
_DECODED_BYTES = 50_000_000
_MOST_DEPTH = 100
_MOST_KEYS = 1_000
_MOST_DIRECTIVES = 100


class RecordingError(ValueError):
    """A recording cannot be read. `hint` says what to do about it, if that is known."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response, each as a JSON document or as text; `None` for an empty body."""

    request: Any
    response: Any
    name: str


def is_yaml_recording(text: str) -> bool:
    """Return True if a text begins as a cassette in YAML does."""
    return _YAML.match(text) is not None


def load_yaml(text: str) -> Any:
    """Return the document of a YAML cassette. Raises `RecordingError` for other text, and if PyYAML is missing."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise RecordingError("this is YAML, and PyYAML is not installed", "pip install pyyaml") from None
    loader = _bounded_loader(yaml)
    if text.count("%TAG") > _MOST_DIRECTIVES:
        raise RecordingError(f"this YAML has more than {_MOST_DIRECTIVES} directives")
    try:
        _check_events(yaml, yaml.parse(text, Loader=loader))
        return yaml.load(text, Loader=loader)
    except RecordingError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError, ArithmeticError) as error:
        raise RecordingError(f"this is not YAML: {str(error).splitlines()[0]}") from None


def _check_events(yaml: Any, events: Iterable[Any]) -> None:
    """Raise `RecordingError` for a YAML document that could take far more time or memory than its length."""
    depth = 0
    for event in events:  # libyaml reads nested events more and more slowly
        if isinstance(event, yaml.AliasEvent):  # a few aliases of aliases can expand beyond any memory
            raise RecordingError("this YAML has aliases, which are not read")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MOST_DEPTH:
            raise RecordingError(f"this YAML is nested more than {_MOST_DEPTH} deep")


def _bounded_loader(yaml: Any) -> Any:
    """Return a YAML loader that reads `1:59:59`, and numbers with more digits than `int` accepts, as text."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            if isinstance(node, yaml.MappingNode):
                self.flatten_mapping(node)
                # Hashes of numbers can be chosen so that building a mapping takes quadratic time.
                if sum(key.tag != "tag:yaml.org,2002:str" for key, _ in node.value) > _MOST_KEYS:
                    raise RecordingError(f"this YAML has more than {_MOST_KEYS} keys that are no text in one mapping")
            return super().construct_mapping(node, deep)

    def number(name: str) -> Callable[[Any, Any], Any]:
        construct = Loader.yaml_constructors[f"tag:yaml.org,2002:{name}"]

        def as_it_is(loader: Any, node: Any) -> Any:
            text = loader.construct_scalar(node)
            return text if ":" in text else construct(loader, node)  # parsing base-60 numbers takes quadratic time

        return as_it_is

    for name in ("int", "float"):
        Loader.add_constructor(f"tag:yaml.org,2002:{name}", number(name))
    return Loader


def exchanges_of(document: Any) -> list[Exchange]:
    """Return the exchanges of a recorder's document; an empty list if it is not one."""
    listed: Any = document
    if isinstance(document, Mapping):
        listed = next((document[name] for name in _LISTS if isinstance(document.get(name), list)), [document])
    if not isinstance(listed, list) or not listed or not all(_is_exchange(one) for one in listed):
        return []
    return list(_exchanges(listed))


def _is_exchange(one: Any) -> bool:
    sides = [one.get("request"), one.get("response")] if isinstance(one, Mapping) else []
    return bool(sides) and all(isinstance(side, Mapping | list | str) for side in sides)


def _exchanges(listed: list[Any]) -> Iterator[Exchange]:
    for number, one in enumerate(listed, 1):
        request = one["request"]
        place = request.get("uri", request.get("url")) if isinstance(request, Mapping) else None
        name = f"exchange {number}" + (f" ({place})" if isinstance(place, str) else "")
        yield Exchange(_body_of(request), _body_of(one["response"]), name)


def _body_of(side: Any) -> Any:
    """Return the body of a request or response; the value itself if it has no HTTP fields."""
    if isinstance(side, Mapping) and _HTTP & side.keys():
        side = next((side[name] for name in _BODIES if side.get(name) is not None), None)
    if isinstance(side, Mapping) and side.keys() & {"string", "base64_string"} and side.keys() <= _OF_BODY:
        encoded = side.get("base64_string")
        side = side.get("string") if encoded is None else _from_base64(encoded)
    text = _text_of(side) if isinstance(side, bytes) else side
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text if text.strip() else None


_OF_BODY = frozenset({"string", "base64_string", "encoding"})


def _from_base64(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError, TypeError):
        return None


def _text_of(data: bytes) -> str | None:
    """Return the text of a body, decompressed if needed; `None` if it is not text."""
    try:
        if data.startswith(b"\x1f\x8b"):
            data = zlib.decompressobj(wbits=31).decompress(data, _DECODED_BYTES)
        return data.decode("utf-8")
    except (UnicodeDecodeError, zlib.error):
        return None
