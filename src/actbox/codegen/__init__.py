"""Coding agents: models that write programs, which run in a sandbox until they pass their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actbox.core.errors import Unsupported
from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .input_schemas import FileSchema, describe
    from .protocol import request_of, response_of
    from .request import CodingRequest
    from .response import CodingResponse
    from .task import Check, Constraints, Example, FileCheck, InputFile, SchemaCheck, Task, TextCheck

__all__ = [
    "Check",
    "CodingRequest",
    "CodingResponse",
    "Constraints",
    "Example",
    "FileCheck",
    "FileSchema",
    "InputFile",
    "SchemaCheck",
    "Task",
    "TextCheck",
    "describe",
    "request_of",
    "response_of",
]

_attribute = lazy_attributes(
    __name__,
    {
        "input_schemas": "FileSchema describe",
        "protocol": "request_of response_of",
        "request": "CodingRequest",
        "response": "CodingResponse",
        "task": "Check Constraints Example FileCheck InputFile SchemaCheck Task TextCheck",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _attribute(name)
    except ModuleNotFoundError as error:
        raise Unsupported(f"{name} needs {error.name}: pip install 'actbox[codegen]'") from None
