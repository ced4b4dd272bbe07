"""`Toolset`: the frozen set of tools that one run has."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self

from actbox.core.errors import InvalidValue

from .approval import Approver
from .definition import Tool
from .problems import shown, suggestion
from .signature_text import identifier

RESERVED = frozenset({"call_tool", "ToolError"})
"""What programs have beside their tools, in the same namespace; no tool may take its place."""


class Toolset:
    """The tools of one run, in order. It cannot change; make one with `Toolset.of`.

    It also says what becomes of tools that require approval: `asking` has somebody asked before each call of theirs,
    `approved` says that it was given. A run whose tools require approval and have neither is refused.
    """

    __slots__ = ("_aliases", "_approver", "_left_out", "_requiring", "_tools")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.unbound:
                raise InvalidValue(f"the tool {tool.name!r} is a method without its object; take it from an instance")
            if tool.name in RESERVED:
                raise InvalidValue(f"no tool may be called {tool.name!r}: programs have something of that name")
            if tool.name in by_name:
                raise InvalidValue(f"two tools are called {tool.name!r}; give one another name: tool(name=…)")
            by_name[tool.name] = tool
        self._tools: Mapping[str, Tool] = MappingProxyType(by_name)
        self._aliases: Mapping[str, str] = MappingProxyType(_aliases(by_name))
        self._requiring = frozenset(name for name, tool in by_name.items() if tool.approval == "always_require")
        self._approver: Approver | None = None
        self._left_out: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
        """Return the toolset of these tools and host functions; a toolset is returned as it is.

        Raises `InvalidValue` for two of the same name, for a reserved name, and for what cannot be a tool.
        """
        if isinstance(tools, Toolset):
            return tools
        if tools is None:
            return cls()
        if callable(tools) or isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
            raise InvalidValue(f"tools must be a list of tools or functions, not {shown(tools)}")
        return cls(tool if isinstance(tool, Tool) else Tool.from_function(tool) for tool in tools)

    @classmethod
    def for_run(cls, tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
        """Return the toolset of a run that is about to begin. Raises what `of` raises.

        Raises `InvalidValue` also where a tool requires approval that was not given and nobody is there to be asked.
        """
        toolset = cls.of(tools)
        if toolset._requiring and toolset._approver is None:
            tool = toolset.requiring[0]
            raise InvalidValue(
                f"the tool {tool!r} requires approval, and nobody is there to be asked: run with"
                " tools=Toolset.of(tools).asking(approver), or with .approved() once it was given"
            )
        return toolset

    def asking(self, approver: Approver) -> Toolset:
        """Return these tools with somebody who is asked before each call of one that requires approval.

        Raises `InvalidValue` for what is no `Approver`: a function becomes one by `actbox.codeact.CallbackApprover`.
        """
        _check_approver(approver)
        changed = self._copy()
        changed._approver = approver
        return changed

    def approved(self, names: Iterable[str] | None = None) -> Toolset:
        """Return these tools with the approval given, for all of them or for those named: nobody is asked for them."""
        given = self._requiring if names is None else frozenset(names)
        unknown = sorted(given.difference(self._tools))
        if unknown:
            raise InvalidValue(self.unknown(unknown[0]))
        changed = self._copy()
        changed._requiring = self._requiring - given
        return changed

    def with_tools(self, *tools: Tool) -> Toolset:
        """Return these tools and further ones, with what was said of approval for these. Raises what `of` raises."""
        changed = Toolset([*self, *tools])
        given = {tool.name for tool in self} - self._requiring
        changed._requiring -= given
        changed._approver = self._approver
        changed._left_out = self._left_out
        return changed

    def only(self, names: Iterable[str]) -> Toolset:
        """Return those of these tools, under the same aliases, with what was said of approval for them.

        They are the ones that a program names: to one that calls another of these, `unknown` says what it has to do.
        """
        kept = frozenset(names)
        changed = self._copy()
        left_out = [name for name in self._tools if name not in kept]
        changed._left_out = self._left_out.union(left_out, (self._aliases[name] for name in left_out))
        changed._tools = MappingProxyType({name: tool for name, tool in self._tools.items() if name in kept})
        changed._aliases = MappingProxyType({name: alias for name, alias in self._aliases.items() if name in kept})
        changed._requiring = self._requiring & kept
        return changed

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        for slot in Toolset.__slots__:
            setattr(copy, slot, getattr(self, slot))
        return copy

    @property
    def requiring(self) -> tuple[str, ...]:
        """The names of the tools that require approval which was not given, in order."""
        return tuple(name for name in self._tools if name in self._requiring)

    @property
    def approver(self) -> Approver | None:
        """Who is asked before a call of a tool that requires approval."""
        return self._approver

    def requires(self, tool: Tool) -> bool:
        """Return whether somebody must be asked before a call of this tool."""
        return tool.name in self._requiring

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._tools)

    @property
    def aliases(self) -> Mapping[str, str]:
        """What each tool is called inside programs: its name, or an identifier made from it."""
        return self._aliases

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, else the one of that alias."""
        if name in self._tools:
            return self._tools[name]
        return next((self._tools[own] for own, alias in self._aliases.items() if alias == name), None)

    def suggest(self, name: str) -> str | None:
        """Return the name that was most likely meant."""
        return suggestion(name, self._tools)

    def unknown(self, name: str) -> str:
        """Return the sentence for a call of a tool that there is not."""
        if name in self._left_out:
            return (
                f"this program has only the tools that it names, and {shown(name)} is none of them: write its name out"
                f" in the program, as that of the function or as call_tool({name!r}, …), in place of one that is"
                f" computed. Tools: {', '.join(self._tools) or 'none'}"
            )
        meant = self.suggest(name)
        question = f"; did you mean {meant!r}?" if meant else "."
        return f"there is no tool {shown(name)}{question} Tools: {', '.join(self._tools) or 'none'}"

    def guest_spec(self) -> list[dict[str, Any]]:
        """Return as JSON data what the guest needs to make the functions that programs call.

        Of a tool about which somebody is asked, the guest says with each call where in the program it is made.
        """
        specs: list[dict[str, Any]] = [
            {
                "name": tool.name,
                "alias": self._aliases[tool.name],
                "parameters": list(tool.parameters),
                "variadic": tool.variadic,
                "signature": tool.signature,
                "doc": tool.documentation,
            }
            for tool in self
        ]
        for spec in specs:
            if spec["name"] in self._requiring:
                spec["asks"] = True
        return specs

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self._tools)})"


def _check_approver(given: object) -> None:
    if isinstance(given, type):
        raise InvalidValue(f"an approver is an object, not the class {given.__name__}: write {given.__name__}(…)")
    if not isinstance(given, Approver):
        if callable(given):
            raise InvalidValue(
                "a function becomes an approver by actbox.codeact.CallbackApprover:"
                " write asking(CallbackApprover(function))"
            )
        raise InvalidValue(f"an approver has a method `async def decide(request)`, which {shown(given)} has not")


def _aliases(names: Iterable[str]) -> dict[str, str]:
    """Give each name an identifier of its own. Names that are identifiers keep them, whatever the order."""
    given = list(names)
    aliases: dict[str, str] = {}
    taken = set(RESERVED)
    for name in given:
        if _is_variable(name) and unicodedata.normalize("NFKC", name) == name:
            aliases[name] = name
            taken.add(name)
    for name in given:
        if name not in aliases:
            # Python reads identifiers in this normal form, so two names may be one for a program.
            normal = unicodedata.normalize("NFKC", name)
            wanted = alias = normal if _is_variable(normal) else identifier(name)
            number = 2
            while alias in taken:
                alias, number = f"{wanted}_{number}", number + 1
            aliases[name] = alias
            taken.add(alias)
    return aliases


def alias_of(name: str) -> str:
    """Return what a tool of this name is called inside programs, if it is the only one."""
    return _aliases([name])[name]


def _is_variable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)
