"""Type annotations in programs: of parameters, results, bindings and structures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .budget import COPIED_PER_STEP
from .code import Environment
from .failures import RtfsError
from .schemas import Schema, SchemaError, check, parse_schema
from .shapes import malformed
from .syntax import Form
from .values import List, Value, Vector, size_of


def parse(form: Form, structs: Mapping[str, Schema]) -> Schema:
    """Return the schema that an annotation form denotes. Raises `ReadError` for a form that is no type."""
    try:
        return parse_schema(form, names=structs)
    except SchemaError as error:
        name = "" if error.name == "TypeValidationError" else f"{error.name}: "
        raise malformed(
            form, f"{name}{error.message}", "a type such as :int, [:vector :string] or [:map [:k :any]]"
        ) from None


def checker(schema: Schema, what: str, environment: Environment, *, every: bool = False) -> Callable[[Value], Value]:
    """Return a function that returns a value which fits the schema, and raises TypeValidationError for any other.

    `every`: the value is a sequence, and each of its elements must fit.
    """

    def checked(value: Value) -> Value:
        environment.meter.charge(1 + size_of(value) // COPIED_PER_STEP)
        items = value.items if every and (type(value) is List or type(value) is Vector) else (value,)
        for item in items:
            problem = check(item, schema)
            if problem is not None:
                raise RtfsError("TypeValidationError", f"{what}: {problem}")
        return value

    return checked
