"""Coding agents: models that write programs, which run in a sandbox until they pass their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actbox.core.errors import Unsupported
from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .decision import Decision, DecisionTable, Intent, ask_intent, decide
    from .profiles import Profile, ProfileCheck, Profiles

__all__ = [
    "Decision",
    "DecisionTable",
    "Intent",
    "Profile",
    "ProfileCheck",
    "Profiles",
    "ask_intent",
    "decide",
]

_attribute = lazy_attributes(
    __name__,
    {
        "decision": "Decision DecisionTable Intent ask_intent decide",
        "profiles": "Profile ProfileCheck Profiles",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _attribute(name)
    except ModuleNotFoundError as error:
        raise Unsupported(f"{name} needs {error.name}: pip install 'actbox[codegen]'") from None
