"""`PreparedCall`: a tool call that was checked and converted, so that an approver can see it before it is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from actbox.core.values import copy_of

from .large_values import aside


class PreparedCall:
    """A tool call that has not been made yet. Its arguments were converted once: the arguments shown are those that
    will be passed.

    `hidden` has a digest of each argument of which its type hides a part; see `ApprovalRequest`.
    """

    __slots__ = ("_make", "_shown", "hidden")

    def __init__(
        self,
        make: Callable[[], Awaitable[Any]],
        shown: dict[str, Any],
        hidden: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._make = make
        self._shown = copy_of(shown)
        self.hidden: Mapping[str, str] = hidden

    def shown(self) -> dict[str, Any]:
        """Return the arguments by name as JSON data: a new copy each time, sharing nothing with the arguments to be
        passed.
        """
        arguments: dict[str, Any] = copy_of(self._shown)
        return arguments

    async def shown_aside(self) -> dict[str, Any]:
        """Return the arguments as `shown` does; large ones are copied in a worker thread."""
        arguments: dict[str, Any] = await aside(copy_of, self._shown)
        return arguments

    async def make(self) -> Any:
        """Make the call, at most once; return and raise as `Tool.answer` does."""
        return await self._make()
