"""Detection of argument types that hide a part of a value from an approver.

pydantic's serializers leave out excluded fields and write secrets as stars, and a host's own may leave out anything.
Calls that then look the same are told apart by a digest of the program's arguments. A dataclass does not even store the
value of an `InitVar`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from actbox.core.values import pack

from .large_values import json_pieces
from .watched_schema import nodes

# Digests are shown where a password must not be; without a key, passwords could be guessed by computing digests.
_KEY = secrets.token_bytes(32)
_EXCLUSIONS = ("serialization_exclude", "serialization_exclude_if")
_PARTIAL = frozenset({"format", "include-exclude-sequence", "include-exclude-dict"})
_SEES_ALL = frozenset({"function-before", "function-wrap"})
_RECORDS = frozenset({"model", "model-fields", "dataclass", "dataclass-args"})


class HiddenParts:
    """The fields of a pydantic core schema whose types hide a part of their values.

    `hiding` are the fields that may hide a part; `lost` has the name of an `InitVar` for each field that has one.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        definitions = {each["ref"]: each for node in nodes(schema) for each in _definitions(node)}
        self.hiding: set[str] = set()
        self.lost: dict[str, str] = {}
        for name, field in _fields(schema, definitions).items():
            for node in _reached(field, definitions):
                if node.get("init_only") is True:
                    self.lost[name] = str(node["name"])
                if _hides(node):
                    self.hiding.add(name)


def digest(value: Any) -> str:
    """Return a keyed digest of an argument as the program gave it; nobody outside this process can compute the
    digest.
    """
    made = hmac.new(_KEY, digestmod=hashlib.sha256)
    for piece in json_pieces(pack(value)):
        made.update(piece.encode())
    return made.hexdigest()


def _definitions(node: Mapping[str, Any]) -> list[Any]:
    return node["definitions"] if node.get("type") == "definitions" else []


def _fields(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    while "fields" not in schema or schema["type"] == "dataclass":
        if schema["type"] == "definition-ref":
            schema = definitions[schema["schema_ref"]]
        elif isinstance(schema.get("schema"), dict):
            schema = schema["schema"]
        else:
            return {}
    return schema["fields"] if isinstance(schema["fields"], dict) else {each["name"]: each for each in schema["fields"]}


def _reached(field: Any, definitions: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of a field's schema, and of the definitions to which it refers."""
    left, seen = [field], set()
    while left:
        for node in nodes(left.pop()):
            yield node
            ref = node["schema_ref"] if node.get("type") == "definition-ref" else ""
            if ref in definitions and ref not in seen:
                seen.add(ref)
                left.append(definitions[ref])


def _hides(node: Mapping[str, Any]) -> bool:
    if any(node.get(key) for key in _EXCLUSIONS) or node.get("custom_init") is True:
        return True
    inner = node.get("schema")
    if node.get("type") in _SEES_ALL and isinstance(inner, dict) and inner.get("type") in _RECORDS:
        return True  # the host's own code sees the whole value and may keep parts of it outside the fields
    written = node.get("serialization")
    if not isinstance(written, dict):
        return False
    kind = written.get("type")
    if kind in ("function-plain", "function-wrap"):
        return not _is_whole(written["function"])
    return kind in _PARTIAL


def _is_whole(serializer: Any) -> bool:
    """Return True for a serializer of pydantic's own that writes a value completely, such as those of paths and
    addresses.
    """
    module = getattr(serializer, "__module__", None) or ""
    is_pydantic = module in ("builtins", "operator") or module.startswith("pydantic.")
    return is_pydantic and "secret" not in getattr(serializer, "__name__", "")
