"""Arguments checked by a JSON schema that comes from elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from actbox.core.errors import InvalidValue

from .json_form import NoJsonForm, json_form
from .problems import missing, place, refusal, shown, unknown, unshown
from .schema_types import resolve
from .signature_text import signature_text, type_text

_CHECKS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, (list, tuple)),
    "object": lambda value: isinstance(value, Mapping),
}
_ARTICLES = {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}


class SchemaArguments:
    """The arguments of one tool by its JSON schema.

    Checked are names, `required`, `type`, `enum`, `const`, `properties`, `items`, `anyOf`, `oneOf` (as any of them)
    and references within the schema. Other keywords are left to whoever answers the call. A name that the schema does
    not list is refused unless `additionalProperties` allows it: it is nearly always a misspelling.
    """

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
            raise InvalidValue(f"tool {tool!r}: input_schema must be the schema of an object with properties")
        self._tool = tool
        self._schema = schema
        self._properties: Mapping[str, Any] = schema.get("properties", {})
        self._required = [str(name) for name in schema.get("required", ())]
        optional = [name for name in self._properties if name not in self._required]
        self.parameters = (*(name for name in self._properties if name in self._required), *optional)
        """Required properties first: positional arguments bind in this order."""
        self.variadic = bool(schema.get("additionalProperties", "properties" not in schema))
        self._signature = signature_text(tool, schema, None, self.parameters)

    def bind(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they are. Raises `ToolError`, a line for each problem."""
        problems = list(self._problems(arguments))
        if problems:
            raise refusal(self._tool, self._signature, problems)
        return (), dict(arguments)

    def settle(
        self, bound: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
        """Return what will be passed, and all of it as JSON data. Raises `ToolError` where there is no such form.

        A property that is left out and has a `default` that fits it is passed as that: what is shown is then whole,
        whatever the function assumes by itself.
        """
        _, given = bound
        passed = self._with_defaults(given)
        return ((), passed), self._shown(passed)

    def _with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {**given, **{name: default for name, default in self._defaults() if name not in given}}

    def _shown(self, passed: Mapping[str, Any]) -> dict[str, Any]:
        form: dict[str, Any] = {}
        for name, value in passed.items():
            try:
                form[name] = json_form(value)
            except NoJsonForm as error:
                raise unshown(self._tool, name, error) from error
        return form

    def _refuse_unknown(self, arguments: Mapping[str, Any]) -> None:
        strangers = [] if self.variadic else [name for name in arguments if name not in self._properties]
        if strangers:
            raise refusal(self._tool, self._signature, [unknown(name, self.parameters) for name in strangers])

    def _defaults(self) -> Iterator[tuple[str, Any]]:
        for name, written in self._properties.items():
            for schema in (written, resolve(self._schema, written)):
                if isinstance(schema, Mapping) and "default" in schema:
                    if not any(self._check(schema["default"], written, name, ())):
                        yield name, copy.deepcopy(schema["default"])
                    break

    def _problems(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        for name in self._required:
            if name not in arguments:
                yield missing(name, type_text(self._schema, self._properties.get(name, True)))
        extra = self._schema.get("additionalProperties", True)
        for name, value in arguments.items():
            if name in self._properties:
                yield from self._check(value, self._properties[name], name, ())
            elif self.variadic:
                yield from self._check(value, extra, name, ())
            else:
                yield unknown(name, self.parameters)

    def _check(self, value: Any, schema: Any, name: str, steps: tuple[str | int, ...]) -> Iterator[str]:
        schema = resolve(self._schema, schema)
        if not isinstance(schema, Mapping):
            if schema is False:
                yield f"{place(name, steps)} is not allowed"
            return
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices and all(any(self._check(value, choice, name, steps)) for choice in choices):
            yield f"{place(name, steps)} should be {type_text(self._schema, schema)}; got {shown(value)}"
            return
        if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
            yield f"{place(name, steps)} should be one of {_listed(schema['enum'])}; got {shown(value)}"
            return
        if "const" in schema and not _same(value, schema["const"]):
            yield f"{place(name, steps)} should be {schema['const']!r}; got {shown(value)}"
            return
        kinds = schema.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind in _CHECKS]
        binary = isinstance(value, bytes) and schema.get("format") == "binary"
        if kinds and not binary and not any(_CHECKS.get(kind, _anything)(value) for kind in kinds):
            expected = " or ".join(_ARTICLES.get(kind, f"a {kind}") for kind in kinds)
            yield f"{place(name, steps)} should be {expected}; got {shown(value)}"
        elif isinstance(value, Mapping):
            yield from self._check_object(value, schema, name, steps)
        elif isinstance(value, (list, tuple)) and "items" in schema:
            for index, item in enumerate(value):
                yield from self._check(item, schema["items"], name, (*steps, index))

    def _check_object(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], name: str, steps: tuple[str | int, ...]
    ) -> Iterator[str]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        for key in schema.get("required", ()):
            if key not in value:
                yield f"{place(name, steps)} lacks {key!r}"
        for key, item in value.items():
            if key in properties:
                yield from self._check(item, properties[key], name, (*steps, key))
            elif extra is False:
                yield f"{place(name, steps)} has no field {key!r}"
            else:
                yield from self._check(item, extra, name, (*steps, key))


def _anything(value: Any) -> bool:
    return True


def _same(value: Any, allowed: Any) -> bool:
    # JSON tells true from 1; Python does not.
    return isinstance(value, bool) == isinstance(allowed, bool) and bool(value == allowed)


def _listed(values: list[Any]) -> str:
    return ", ".join(repr(value) for value in values)
