"""Types of the vendors' SDKs. An SDK takes up to two seconds to import, so the first test that needs one imports it."""

from __future__ import annotations

import functools
import pkgutil
from typing import Any

from pydantic import TypeAdapter


class SdkType:
    """A type by its module and name, such as `openai.types.responses:Response`, or a list of it."""

    def __init__(self, name: str, *, many: bool = False) -> None:
        self._name = name
        self._many = many

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        found: Any = pkgutil.resolve_name(self._name)
        return TypeAdapter(list[found] if self._many else found)

    def validate(self, document: Any) -> Any:
        """Return a document as the SDK takes it. Raises `pydantic.ValidationError` where the SDK does not take it."""
        return self._adapter.validate_python(document)

    def names(self) -> set[str]:
        """Return the values that the field `type` has in the members of a union."""
        schema = self._adapter.json_schema()
        found: set[str] = set()
        for member in schema.get("oneOf") or schema.get("anyOf") or [schema]:
            kind = schema["$defs"][member["$ref"].rpartition("/")[2]] if "$ref" in member else member
            said = kind["properties"]["type"]
            found.update(said["enum"] if "enum" in said else [said["const"]] if "const" in said else [])
        return found
