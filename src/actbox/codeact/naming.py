"""Which tools a program names, read out of its text before it runs. Nothing is awaited or run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actbox.tools import Toolset

MOST_CHARACTERS: Final = 64_000
"""A longer program is not read: it is many times what models write, and the worst of this size take a second."""


@dataclass(frozen=True, slots=True)
class NamedTools:
    """The tools that a program calls by names that can be read out of it, in the order of the toolset.

    Where `all_told` is false it has calls that cannot be read, and may call any tool by them.
    """

    names: tuple[str, ...]
    all_told: bool

    def requiring(self, toolset: Toolset) -> tuple[str, ...]:
        """Return the tools that require approval and that the program may call."""
        return tuple(name for name in toolset.requiring if name in self.names or not self.all_told)


def named_tools(program: str, toolset: Toolset) -> NamedTools:
    """Return the tools that a program names: none, and that this is not all, where it is too long to be read."""
    if len(program) > MOST_CHARACTERS:
        return NamedTools((), all_told=False)
    from actbox.review import tool_calls  # what it costs is for those who ask

    found, all_told = set(), True
    for call in tool_calls(program, (*toolset.names, *toolset.aliases.values())):
        tool = toolset.get(call.tool) if call.tool is not None else None
        if tool is not None:
            found.add(tool.name)
        all_told = all_told and call.tool is not None
    return NamedTools(tuple(name for name in toolset.names if name in found), all_told)
