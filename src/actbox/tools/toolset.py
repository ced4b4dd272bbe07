"""The tools of one run: frozen, so that what a program may call cannot change under it."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from actbox.core.errors import InvalidValue

from .stubs import signature_of
from .tool import Tool

# What a program gets besides its tools, in the same namespace.
_TAKEN = frozenset({"call_tool", "ToolError"})


class Toolset:
    """An ordered set of tools by name. Immutable.

    `aliases` are the names by which programs call tools whose own name is no identifier (`web-search` as `web_search`).
    """

    __slots__ = ("_by_name", "_spec", "aliases")

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Raise `InvalidValue` for two tools of one name, and for names that programs have already."""
        by_name: dict[str, Tool] = {}
        aliases: dict[str, str] = {}
        for item in tools:
            if item.name in by_name:
                raise InvalidValue(f"two tools are named {item.name!r}; give one of them another name")
            alias = _alias(item.name)
            if alias in _TAKEN:
                raise InvalidValue(f"a tool cannot be named {item.name!r}: programs have that name already")
            if alias in aliases.values():
                raise InvalidValue(f"the tool {item.name!r} would be called {alias!r} in programs, as another tool is")
            by_name[item.name] = item
            aliases[item.name] = alias
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "aliases", aliases)
        object.__setattr__(self, "_spec", None)

    _by_name: dict[str, Tool]
    _spec: list[dict[str, Any]] | None
    aliases: dict[str, str]

    @classmethod
    def of(cls, tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
        """Return a toolset of tools and plain functions; a toolset is returned as it is."""
        if isinstance(tools, Toolset):
            return tools
        if isinstance(tools, Tool) or callable(tools):
            raise InvalidValue("tools must be a list, also where there is only one")
        return cls(item if isinstance(item, Tool) else Tool.from_function(item) for item in tools or ())

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._by_name)

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name or alias, if there is one."""
        found = self._by_name.get(name)
        if found is None:
            found = next((self._by_name[own] for own, alias in self.aliases.items() if alias == name), None)
        return found

    def suggest(self, name: str) -> str | None:
        """Return the name that was probably meant."""
        close = difflib.get_close_matches(name, [*self.aliases.values(), *self.names], 1)
        return close[0] if close else None

    def unknown(self, name: str) -> str:
        """Return the sentence for a program that called a tool which is not there."""
        meant = self.suggest(name)
        suggestion = f"; did you mean {meant!r}?" if meant else "."
        have = f" The tools are: {', '.join(self.aliases.values())}" if self.names else " This run has no tools"
        return f"there is no tool {name[:100]!r}{suggestion}{have}"

    def guest_spec(self) -> list[dict[str, Any]]:
        """Return what a guest needs to know of each tool, as JSON data."""
        if self._spec is None:
            spec = [
                {
                    "name": item.name,
                    "alias": self.aliases[item.name],
                    "parameters": list(item.parameters),
                    "signature": signature_of(item),
                    "doc": item.description,
                }
                for item in self
            ]
            object.__setattr__(self, "_spec", spec)
            return spec
        return self._spec

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a toolset cannot be changed")

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self.names)})"


def _alias(name: str) -> str:
    alias = re.sub(r"\W", "_", name)
    return alias + "_" if keyword.iskeyword(alias) else alias
