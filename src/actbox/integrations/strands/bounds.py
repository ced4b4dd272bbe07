"""What may be said of tools, and of the programs that call an agent's tools, wherever they come from."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from actbox.core.errors import InvalidValue


def check_bounds(
    *, timeout: Any, paused_timeout: Any, max_tool_calls: Any, allowed_tools: Collection[str] | None
) -> frozenset[str] | None:
    """Return the names of `allowed_tools`. Raises `InvalidValue` for what makes no sense."""
    if timeout is not None and not _is_seconds(timeout):
        raise InvalidValue(f"timeout must be a number of seconds above zero, not {timeout!r}")
    if not _is_seconds(paused_timeout):
        raise InvalidValue(f"paused_timeout must be a number of seconds above zero, not {paused_timeout!r}")
    is_count = isinstance(max_tool_calls, int) and not isinstance(max_tool_calls, bool)
    if max_tool_calls is not None and not (is_count and max_tool_calls >= 1):
        raise InvalidValue(f"max_tool_calls must be a whole number, at least 1, not {max_tool_calls!r}")
    if allowed_tools is None:
        return None
    if isinstance(allowed_tools, str):
        raise InvalidValue(f"allowed_tools is a list of names, such as [{allowed_tools!r}]")
    if not isinstance(allowed_tools, Collection) or not all(isinstance(name, str) for name in allowed_tools):
        raise InvalidValue(f"allowed_tools is a list of names, not {allowed_tools!r}")
    return frozenset(allowed_tools)


def check_tool_name(name: Any) -> None:
    """Raise `InvalidValue` for what providers take for no name of a tool."""
    if not isinstance(name, str) or not re.fullmatch("[a-zA-Z0-9_-]{1,64}", name):
        raise InvalidValue(f"the name of a tool is 1 to 64 letters of ASCII, digits, '_' and '-', not {name!r}")


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
