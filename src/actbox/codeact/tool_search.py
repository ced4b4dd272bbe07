"""Tool search for a large toolset: two tools by which a program finds the others, and a listing that replaces the
stubs.

If a toolset's stubs are too large for a description, the description has the text of its `Listing`, and programs have
`search_tools` and `describe_tool` beside the tools themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict  # on Python 3.11 pydantic refuses that of typing

from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool, Toolset, stubs
from actbox.tools.problems import shown, suggestion

from .tool_index import ToolIndex
from .tool_listing import Listing, group_order, one_line

__all__ = ["DESCRIBE_TOOL", "SEARCH_TOOLS", "FoundTool", "Listing", "search_tools_of"]

SEARCH_TOOLS = "search_tools"
DESCRIBE_TOOL = "describe_tool"

MAX_QUERY = 1_000
MAX_RESULTS = 100
MAX_SUMMARY = 200
"""The most characters of a description's first paragraph that a search result shows."""
MAX_GROUPS_NAMED = 20


class FoundTool(TypedDict):
    """A tool that a search found: what programs call it, and how."""

    name: str
    group: str
    signature: str
    summary: str


def search_tools_of(toolset: Toolset, groups: Mapping[str, str]) -> tuple[Tool, Tool]:
    """Return the tools `search_tools` and `describe_tool` over a toolset, for programs that have that toolset.

    `groups` has the group of each tool by its name; it may leave tools out. Neither tool ever needs approval, and
    neither changes anything. The index is built at the first search. Raises `InvalidValue` if a tool of the toolset has
    one of the two names or aliases, since it would need another one.
    """
    for name in (SEARCH_TOOLS, DESCRIBE_TOOL):
        if tool := toolset.get(name):
            raise InvalidValue(
                f"a tool cannot be called {tool.name!r} where there are so many that programs search them by {name}:"
                " rename it, or set search_above"
            )
    search = _Search(toolset, groups)
    search_tools, describe_tool = _over_nothing()
    return replace(search_tools, function=search.search_tools), replace(describe_tool, function=search.describe_tool)


@lru_cache(maxsize=1)
def _over_nothing() -> tuple[Tool, Tool]:
    """Return the two tools without a toolset. Reading their signatures costs milliseconds, so it is done once."""
    search = _Search(Toolset(), {})
    # Queries of these tools stay in this process, so they may have any label.
    return (
        Tool.from_function(search.search_tools, cleared="secret", retry_safe=True),
        Tool.from_function(search.describe_tool, cleared="secret", retry_safe=True),
    )


class _Search:
    def __init__(self, toolset: Toolset, groups: Mapping[str, str]) -> None:
        self._toolset = toolset
        self._groups = {name: one_line(groups.get(name, "")) for name in toolset.names}
        self._lock = threading.Lock()  # a sync tool runs in a worker thread
        self._index: ToolIndex | None = None

    def search_tools(
        self,
        query: Annotated[str, Field(max_length=MAX_QUERY, description="Words that say what you need, or a name")] = "",
        limit: Annotated[int, Field(ge=1, le=MAX_RESULTS, description="How many to return for a query at most")] = 10,
        group: Annotated[str | None, Field(description="Only tools of this group")] = None,
    ) -> list[FoundTool]:
        """Find tools by words of their names, groups, descriptions and parameters, the best first.

        Without a query it returns all tools, by group and name. It calls none of them.
        """
        if group is not None and group not in self._groups.values():
            raise ToolError(self._unknown_group(group), tool=SEARCH_TOOLS)
        names = self._ranked(query) if query.strip() else self._by_group()
        within = (name for name in names if group is None or self._groups[name] == group)
        return [self._found(name) for name in islice(within, limit if query.strip() else None)]

    def describe_tool(
        self, name: Annotated[str, Field(description="As search_tools or the list of tools has it")]
    ) -> str:
        """Return a tool's declaration in Python: its parameters, what it returns, the types of both, what it does.

        It does not call the tool.
        """
        for toolset in (self._toolset, Toolset(_over_nothing())):
            if tool := toolset.get(name):
                return stubs(toolset, awaitable=False, only=[tool.name])
        raise ToolError(self._unknown_tool(name), tool=DESCRIBE_TOOL)

    def _ranked(self, query: str) -> list[str]:
        with self._lock:
            if self._index is None:
                self._index = ToolIndex(self._toolset, self._groups)
        return self._index.search(query)

    def _by_group(self) -> list[str]:
        aliases, groups = self._toolset.aliases, self._groups
        return sorted(self._toolset.names, key=lambda name: (group_order(groups[name]), aliases[name]))

    def _found(self, name: str) -> FoundTool:
        tool = self._toolset.get(name)
        assert tool is not None
        return {
            "name": self._toolset.aliases[name],
            "group": self._groups[name],
            "signature": tool.signature,
            "summary": _summary(tool.description),
        }

    def _unknown_tool(self, name: str) -> str:
        """Return the error sentence for an unknown tool; it suggests one tool, since a list of all would be too
        long.
        """
        name = name[:MAX_QUERY]
        meant = self._toolset.suggest(name) or next(iter(self._ranked(name)), None)
        question = f"; did you mean {self._toolset.aliases[meant]!r}?" if meant else "."
        return f"there is no tool {shown(name)}{question} {SEARCH_TOOLS}(query) finds tools by words"

    def _unknown_group(self, group: str) -> str:
        known = sorted(set(self._groups.values()) - {""})
        meant = suggestion(group, known)
        question = f"; did you mean {meant!r}?" if meant else "."
        more = f" and {len(known) - MAX_GROUPS_NAMED} more" if len(known) > MAX_GROUPS_NAMED else ""
        return (
            f"there is no group {shown(group)}{question} Groups: {', '.join(known[:MAX_GROUPS_NAMED]) or 'none'}{more}"
        )


def _summary(description: str) -> str:
    """Return the first paragraph of a description as one line, cut between words if it is long."""
    line = one_line(description.strip().partition("\n\n")[0])
    if len(line) <= MAX_SUMMARY:
        return line
    head = line[: MAX_SUMMARY - 1]
    return (head.rpartition(" ")[0] or head) + "…"
