"""The check of a tool's arguments by a JSON schema that comes from elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from actbox.core.errors import InvalidValue
from actbox.core.values import pack

from .json_form import NoJsonForm, json_form, spelled_out
from .problems import missing, place, refusal, shown, unknown, unshown
from .signature_text import signature_text, type_text
from .step_budget import StepBudget, TooManySteps
from .types_from_schema import resolve

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
# Some 0.1 s: the longest that a small call may hold the event loop.
_STEPS = 5_000
_ARTICLES = {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}


_Problem = tuple[Any, ...]
"""A problem: the steps to its place, then its text or a function that writes the expected type, and the value if it is
shown. A union collects problems of choices that it then discards, so sentences are written only at the end.
"""


class SchemaArguments:
    """The check of one tool's arguments by its JSON schema.

    Checked are names, `required`, `type`, `enum`, `const`, `properties`, `items`, `anyOf`, `oneOf` (as any of them)
    and references within the schema. Other keywords are left to the function. A name that the schema does not list is
    refused unless `additionalProperties` allows it: it is nearly always a misspelling.
    """

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
            raise InvalidValue(f"tool {tool!r}: input_schema must be the schema of an object with properties")
        self._tool = tool
        self._schema = schema
        self._properties: Mapping[str, Any] = schema.get("properties", {})
        self._required = [str(name) for name in schema.get("required", ())]
        optional = [name for name in self._properties if name not in self._required]
        self.parameters: tuple[str, ...] = (*(name for name in self._properties if name in self._required), *optional)
        """Required properties first: positional arguments bind in this order."""
        self.variadic: bool = bool(schema.get("additionalProperties", "properties" not in schema))
        self._signature = signature_text(tool, schema, None, self.parameters).rpartition(" -> ")[0]

    def bind(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as plain JSON data. Raises `ToolError` with a line for each problem."""
        given = dict(arguments)
        if pack(given) is not given:
            given = spelled_out(given)
        problems = self._problems(given)
        try:
            first = next(problems, None)
            if first is not None:
                raise refusal(self._tool, self._signature, chain([first], problems))
        except TooManySteps as error:
            raise refusal(self._tool, self._signature, [str(error)]) from None
        return (), given

    def settle(
        self, bound: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
        """Return the arguments to be passed, and all of them as JSON data. Raises `ToolError` if they have no JSON
        form.

        An omitted property with a valid `default` is passed with that default, so that the shown arguments are
        complete, whatever the function's own defaults are.
        """
        _, given = bound
        try:
            passed = self._with_defaults(given)
        except TooManySteps as error:
            raise refusal(self._tool, self._signature, [str(error)]) from None
        return ((), passed), self._shown(passed)

    def may_hide(self, name: str) -> bool:
        """Return False: arguments are shown as the program gave them, so nothing is hidden."""
        return False

    def _with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {**given, **{name: default for name, default in self._defaults() if name not in given}}

    def _shown(self, passed: Mapping[str, Any]) -> dict[str, Any]:
        form: dict[str, Any] = {}
        for name, value in passed.items():
            try:
                form |= json_form({name: value})
            except NoJsonForm as error:
                raise unshown(self._tool, name, error) from error
        return form

    def _refuse_unknown(self, arguments: Mapping[str, Any]) -> None:
        strangers = [] if self.variadic else [name for name in arguments if name not in self._properties]
        if strangers:
            raise refusal(self._tool, self._signature, (unknown(name, self.parameters) for name in strangers))

    def _defaults(self) -> Iterator[tuple[str, Any]]:
        for name, written in self._properties.items():
            for schema in (written, resolve(self._schema, written)):
                if isinstance(schema, Mapping) and "default" in schema:
                    if not any(self._check(schema["default"], written, (), StepBudget(schema["default"], _STEPS))):
                        yield name, copy.deepcopy(schema["default"])
                    break

    def _problems(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        for name in self._required:
            if name not in arguments:
                yield missing(name, type_text(self._schema, self._properties.get(name, True)))
        extra = self._schema.get("additionalProperties", True)
        budget = StepBudget(arguments, _STEPS)
        for name, value in arguments.items():
            if name in self._properties:
                schema = self._properties[name]
            elif self.variadic:
                schema = extra
            else:
                yield unknown(name, self.parameters)
                continue
            for problem in self._check(value, schema, (), budget):
                yield self._sentence(name, problem)

    def _sentence(self, name: str, problem: _Problem) -> str:
        steps, expected, *value = problem
        text = expected if isinstance(expected, str) else f"should be {expected()}"
        return f"{place(name, steps)} {text}" + (f"; got {shown(value[0])}" if value else "")

    def _check(self, value: Any, schema: Any, steps: tuple[str | int, ...], budget: StepBudget) -> Iterator[_Problem]:
        schema = resolve(self._schema, schema)
        if not isinstance(schema, Mapping):
            if schema is False:
                yield steps, "is not allowed"
            return
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices and all(any(self._check(value, choice, steps, budget)) for choice in choices):
            yield steps, partial(type_text, self._schema, schema), value
            return
        if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
            yield steps, partial(_listed, schema["enum"]), value
            return
        if "const" in schema and not _same(value, schema["const"]):
            yield steps, partial(repr, schema["const"]), value
            return
        kinds = schema.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind in _CHECKS]
        binary = isinstance(value, bytes) and schema.get("format") == "binary"
        if kinds and not binary and not any(_CHECKS.get(kind, _anything)(value) for kind in kinds):
            expected = " or ".join(_ARTICLES.get(kind, f"a {kind}") for kind in kinds)
            yield steps, f"should be {expected}", value
        elif isinstance(value, Mapping):
            yield from self._check_object(value, schema, steps, budget)
        elif isinstance(value, (list, tuple)) and "items" in schema:
            for index, item in enumerate(value):
                budget.spend()
                yield from self._check(item, schema["items"], (*steps, index), budget)

    def _check_object(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], steps: tuple[str | int, ...], budget: StepBudget
    ) -> Iterator[_Problem]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        for key in schema.get("required", ()):
            if key not in value:
                yield steps, f"lacks {key!r}"
        # Fields that distinguish the choices of a union come first: a wrong choice then costs few steps.
        telling = dict.fromkeys(key for key in properties if key in value and _is_telling(properties[key]))
        for key in chain(telling, (key for key in value if key not in telling)):
            budget.spend()
            if key in properties:
                yield from self._check(value[key], properties[key], (*steps, key), budget)
            elif extra is False:
                yield steps, f"has no field {key!r}"
            else:
                yield from self._check(value[key], extra, (*steps, key), budget)


def _is_telling(schema: Any) -> bool:
    return isinstance(schema, Mapping) and ("const" in schema or "enum" in schema)


def _anything(value: Any) -> bool:
    return True


def _same(value: Any, allowed: Any) -> bool:
    # In JSON, true differs from 1; in Python they are equal.
    return isinstance(value, bool) == isinstance(allowed, bool) and bool(value == allowed)


def _listed(values: list[Any]) -> str:
    return "one of " + ", ".join(repr(value) for value in values)
