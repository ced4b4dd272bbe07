"""Schemas: types of values, in both dialects of RTFS and as JSON Schema."""

from .checking import Path, Problem, check, explain, validate
from .from_json import from_json_schema
from .nodes import Schema, SchemaError
from .parsing import parse_schema
from .to_json import to_json_schema

__all__ = [
    "Path",
    "Problem",
    "Schema",
    "SchemaError",
    "check",
    "explain",
    "from_json_schema",
    "parse_schema",
    "to_json_schema",
    "validate",
]
