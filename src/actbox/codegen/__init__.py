"""Coding agents: models that write programs, which run in a sandbox until they pass their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .coding_agent import CodingAgent
    from .decision import Decision, DecisionTable, Intent, ask_intent, decide
    from .input_schemas import FileSchema, describe
    from .notebook import Cell, Notebook
    from .outcome import Attempt, CodingEvent, Outcome
    from .profiles import Profile, ProfileCheck, Profiles
    from .protocol import request_of, response_of
    from .request import CodingRequest
    from .response import CodingResponse
    from .retry import ErrorClass, RetryPolicy
    from .task import Check, Constraints, Example, FileCheck, InputFile, SchemaCheck, Task, TextCheck

__all__ = [
    "Attempt",
    "Cell",
    "Check",
    "CodingAgent",
    "CodingEvent",
    "CodingRequest",
    "CodingResponse",
    "Constraints",
    "Decision",
    "DecisionTable",
    "ErrorClass",
    "Example",
    "FileCheck",
    "FileSchema",
    "InputFile",
    "Intent",
    "Notebook",
    "Outcome",
    "Profile",
    "ProfileCheck",
    "Profiles",
    "RetryPolicy",
    "SchemaCheck",
    "Task",
    "TextCheck",
    "ask_intent",
    "decide",
    "describe",
    "request_of",
    "response_of",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "coding_agent": "CodingAgent",
        "decision": "Decision DecisionTable Intent ask_intent decide",
        "input_schemas": "FileSchema describe",
        "notebook": "Cell Notebook",
        "outcome": "Attempt CodingEvent Outcome",
        "profiles": "Profile ProfileCheck Profiles",
        "protocol": "request_of response_of",
        "request": "CodingRequest",
        "response": "CodingResponse",
        "retry": "ErrorClass RetryPolicy",
        "task": "Check Constraints Example FileCheck InputFile SchemaCheck Task TextCheck",
    },
    extra="codegen",
)
