"""Checks for options about tools and for the limits of programs that call an agent's tools."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from actbox.core.errors import InvalidValue

CALLS_AT_ONCE: Final = 8
"""The default number of tool calls of one program that run at once; further ones wait."""


def check_program_options(
    *,
    timeout: Any,
    paused_timeout: Any,
    max_tool_calls: Any,
    calls_at_once: Any,
    allowed_tools: Collection[str] | None,
) -> frozenset[str] | None:
    """Return the names in `allowed_tools`. Raises `InvalidValue` for an invalid option."""
    if timeout is not None and not _is_seconds(timeout):
        raise InvalidValue(f"timeout must be a number of seconds above zero, not {timeout!r}")
    if not _is_seconds(paused_timeout):
        raise InvalidValue(f"paused_timeout must be a number of seconds above zero, not {paused_timeout!r}")
    counts = {"calls_at_once": calls_at_once} | ({} if max_tool_calls is None else {"max_tool_calls": max_tool_calls})
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidValue(f"{name} must be a whole number, at least 1, not {count!r}")
    if allowed_tools is None:
        return None
    if isinstance(allowed_tools, str):
        raise InvalidValue(f"allowed_tools is a list of names, such as [{allowed_tools!r}]")
    if not isinstance(allowed_tools, Collection) or not all(isinstance(name, str) for name in allowed_tools):
        raise InvalidValue(f"allowed_tools is a list of names, not {allowed_tools!r}")
    return frozenset(allowed_tools)


def check_tool_name(name: Any) -> None:
    """Raise `InvalidValue` for a tool name that providers would reject."""
    if not isinstance(name, str) or not re.fullmatch("[a-zA-Z0-9_-]{1,64}", name):
        raise InvalidValue(f"the name of a tool is 1 to 64 letters of ASCII, digits, '_' and '-', not {name!r}")


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
