"""The most that a program may pass to a tool of a framework, which checks and traces calls whole, in the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actbox.core.errors import ToolError
from actbox.tools.large_values import is_large

MOST_VALUES: Final = 20_000
MOST_BYTES: Final = 4 * 2**20


def check_size(name: str, arguments: Mapping[str, Any]) -> None:
    """Raise `ToolError` for arguments of more than 20,000 values, or 4 MiB of text, together."""
    if is_large(arguments, MOST_VALUES, MOST_BYTES):
        raise ToolError(
            f"the call of {name!r} has more than {MOST_VALUES:,} values or {MOST_BYTES // 2**20} MiB of text, and was"
            " not made: write them to a file and pass its path, or make several calls",
            tool=name,
        )
