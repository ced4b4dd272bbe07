"""`PreparedCall`: a call that was checked and converted, to be shown before it is made."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any


class PreparedCall:
    """One call of a tool, not made yet. Its arguments were converted once: what is shown is what will be passed."""

    __slots__ = ("_make", "_shown")

    def __init__(self, make: Callable[[], Awaitable[Any]], shown: dict[str, Any]) -> None:
        self._make = make
        self._shown = json.dumps(shown)

    def shown(self) -> dict[str, Any]:
        """Return the arguments by name as JSON data: a new copy each time, and no part of what is passed."""
        arguments: dict[str, Any] = json.loads(self._shown)
        return arguments

    async def make(self) -> Any:
        """Make the call, at most once. Returns and raises what `Tool.call` does."""
        return await self._make()
