"""`Toolset`: the frozen set of tools that one run has.

Every run has a toolset, and most are empty: what tools need is imported with the first tool.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from actbox.core.errors import InvalidValue

if TYPE_CHECKING:
    from .approval import Approver
    from .definition import Tool

RESERVED = frozenset({"call_tool", "ToolError"})
"""Names that every program has beside its tools; no tool may have one. A tool called `display` replaces the
built-in.
"""


class Toolset:
    """The tools of one run, in order. A toolset is immutable; make one with `Toolset.of`.

    It also holds the approvals of tools that require them: after `asking` an approver is asked before each call, and
    `approved` says that approval was given. A run whose tools require approval without either is refused.
    """

    __slots__ = ("_aliases", "_approver", "_left_out", "_requiring", "_spec", "_tools")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.unbound:
                raise InvalidValue(f"the tool {tool.name!r} is a method without its object; take it from an instance")
            if tool.name in RESERVED:
                raise InvalidValue(f"a tool cannot be named {tool.name!r}: programs already have that name")
            if tool.name in by_name:
                raise InvalidValue(f"two tools are called {tool.name!r}; give one another name: tool(name=…)")
            by_name[tool.name] = tool
        self._tools: Mapping[str, Tool] = MappingProxyType(by_name)
        self._aliases: Mapping[str, str] = MappingProxyType(_aliases(by_name))
        self._requiring = frozenset([name for name, tool in by_name.items() if tool.approval == "always_require"])
        self._approver: Approver | None = None
        self._left_out: frozenset[str] = frozenset()
        self._spec: list[dict[str, Any]] | None = None

    @classmethod
    def of(cls, tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
        """Return the toolset of these tools and host functions; a given toolset is returned unchanged.

        Raises `InvalidValue` for two of the same name, for a reserved name, and for an object that cannot be a tool.
        """
        if isinstance(tools, Toolset):
            return tools
        if tools is None:
            return _NONE
        from .definition import Tool, tool_of
        from .problems import shown

        if callable(tools) or isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
            raise InvalidValue(f"tools must be a list of tools or functions, not {shown(tools)}")
        return cls([tool if isinstance(tool, Tool) else tool_of(tool) for tool in tools])

    @classmethod
    def for_run(cls, tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
        """Return the toolset for a run that is about to begin. Raises the errors of `of`.

        Raises `InvalidValue` also if a tool requires approval that was not given and there is no approver.
        """
        if tools is None:
            return _NONE
        toolset = cls.of(tools)
        if toolset._requiring and toolset._approver is None:
            tool = toolset.requiring[0]
            raise InvalidValue(
                f"the tool {tool!r} requires approval, and there is no approver: run with"
                " tools=Toolset.of(tools).asking(approver), or with .approved() after approval was given"
            )
        return toolset

    def asking(self, approver: Approver) -> Toolset:
        """Return a copy of this toolset with an approver, who is asked before each call of a tool that requires
        approval.

        Raises `InvalidValue` for any other object; `actbox.codeact.CallbackApprover` makes an approver of a function.
        """
        _check_approver(approver)
        changed = self._copy()
        changed._approver = approver
        return changed

    def approved(self, names: Iterable[str] | None = None) -> Toolset:
        """Return a copy of this toolset with approval given to all of its tools, or to those named: nobody is asked
        about them.
        """
        given = self._requiring if names is None else frozenset(names)
        unknown = sorted(given.difference(self._tools))
        if unknown:
            raise InvalidValue(self.unknown(unknown[0]))
        if not given:
            return self
        changed = self._copy()
        changed._requiring = self._requiring - given
        return changed

    def with_tools(self, *tools: Tool) -> Toolset:
        """Return a copy of this toolset with further tools; approvals and the approver stay. Raises what `of`
        raises.
        """
        changed = Toolset([*self, *tools])
        given = {tool.name for tool in self} - self._requiring
        changed._requiring -= given
        changed._approver = self._approver
        changed._left_out = self._left_out
        return changed

    def only(self, names: Iterable[str]) -> Toolset:
        """Return a copy of this toolset with only the named tools, under the same aliases and approvals.

        `names` are the tools that a program names; if it calls another tool of this toolset, `unknown` says what to do.
        """
        kept = frozenset(names)
        changed = self._copy()
        left_out = [name for name in self._tools if name not in kept]
        changed._left_out = self._left_out.union(left_out, (self._aliases[name] for name in left_out))
        changed._tools = MappingProxyType({name: tool for name, tool in self._tools.items() if name in kept})
        changed._aliases = MappingProxyType({name: alias for name, alias in self._aliases.items() if name in kept})
        changed._requiring = self._requiring & kept
        return changed

    def with_each(self, change: Callable[[Tool], Tool]) -> Toolset:
        """Return a copy of this toolset in which each tool is what `change` makes of it, under the same name, alias and
        approval.
        """
        changed = self._copy()
        changed._tools = MappingProxyType({name: change(tool) for name, tool in self._tools.items()})
        return changed

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        for slot in Toolset.__slots__:
            setattr(copy, slot, getattr(self, slot))
        copy._spec = None  # the changes that follow may invalidate the cached spec
        return copy

    @property
    def requiring(self) -> tuple[str, ...]:
        """The names, in order, of the tools that still require approval."""
        return tuple(name for name in self._tools if name in self._requiring) if self._requiring else ()

    @property
    def approver(self) -> Approver | None:
        """The approver who is asked before a call of a tool that requires approval, or `None`."""
        return self._approver

    def requires(self, tool: Tool) -> bool:
        """Return True if an approver must be asked before a call of this tool."""
        return tool.name in self._requiring

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._tools)

    @property
    def aliases(self) -> Mapping[str, str]:
        """The name of each tool inside programs: its own, or an identifier made from it."""
        return self._aliases

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, else the tool of that alias, else `None`."""
        if name in self._tools:
            return self._tools[name]
        return next((self._tools[own] for own, alias in self._aliases.items() if alias == name), None)

    def suggest(self, name: str) -> str | None:
        """Return the name of the tool that a misspelled name most likely means, or `None`."""
        from .problems import suggestion

        return suggestion(name, self._tools)

    def unknown(self, name: str, *, suggests: bool = True) -> str:
        """Return the error sentence for a call of an unknown tool, with the one that was meant if it `suggests`."""
        from .problems import shown

        if name in self._left_out:
            return (
                f"this program has only the tools that it names, and {shown(name)} is none of them: write its name out"
                f" in the program, as that of the function or as call_tool({name!r}, …), in place of one that is"
                f" computed. Tools: {', '.join(self._tools) or 'none'}"
            )
        meant = self.suggest(name) if suggests else None
        question = f"; did you mean {meant!r}?" if meant else "."
        return f"there is no tool {shown(name)}{question} Tools: {', '.join(self._tools) or 'none'}"

    def guest_spec(self) -> list[dict[str, Any]]:
        """Return the tools as JSON data from which the guest makes the functions that programs call. Treat it as
        read-only.

        For a tool that needs an approver, the guest sends the line of each call.
        """
        if self._spec is not None:
            return self._spec
        specs: list[dict[str, Any]] = [
            {
                "name": tool.name,
                "alias": self._aliases[tool.name],
                "parameters": list(tool.parameters),
                "variadic": tool.variadic,
                "signature": tool.signature,
                "doc": tool.documentation,
            }
            for tool in self._tools.values()
        ]
        for spec, tool in zip(specs, self._tools.values(), strict=True):
            if tool.name in self._requiring:
                spec["asks"] = True
            if tool.collects:
                spec["collects"] = tool.collects
        self._spec = specs
        return specs

    def types_for(self, source: str) -> dict[str, Any] | None:
        """Return the types that the tools' stubs name, as code, if the program mentions one of them, else `None`."""
        if not any(map(attrgetter("names_types"), self._tools.values())):
            return None
        names, code = self.type_code()
        mentioned = set(re.findall(r"\w+", source))
        return {"names": list(names), "code": code} if mentioned.intersection(names) else None

    def type_code(self) -> tuple[tuple[str, ...], str]:
        """Return the names of the types that the tools' stubs define, and the Python code that defines them."""
        from .signature_text import TypeWriter, imports_of

        writer = TypeWriter(reserved=self.aliases.values())
        for tool in self:
            writer.signature(tool.name, tool.input_schema, tool.output_schema, tool.parameters, tool.collects)
        body = "\n\n".join(writer.definitions)
        return writer.defined, "\n\n".join(filter(None, [imports_of(body), body]))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolset({', '.join(self._tools)})"


def _check_approver(given: object) -> None:
    from .approval import Approver
    from .problems import shown

    if isinstance(given, type):
        raise InvalidValue(f"an approver is an object, not the class {given.__name__}: write {given.__name__}(…)")
    if not isinstance(given, Approver):
        if callable(given):
            raise InvalidValue(
                "a function is not an approver: wrap it, as in asking(actbox.codeact.CallbackApprover(function))"
            )
        raise InvalidValue(f"an approver needs a method `async def decide(request)`; {shown(given)} does not have one")


def _aliases(names: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each name, all different. Names that are identifiers are kept, whatever the order."""
    given = list(names)
    aliases: dict[str, str] = {}
    if not given:
        return aliases
    import unicodedata

    from .signature_text import identifier

    taken = set(RESERVED)
    for name in given:
        if _is_variable(name) and unicodedata.normalize("NFKC", name) == name:
            aliases[name] = name
            taken.add(name)
    for name in given:
        if name not in aliases:
            # Python normalizes identifiers to NFKC, so two names may be the same name for a program.
            normal = unicodedata.normalize("NFKC", name)
            wanted = alias = normal if _is_variable(normal) else identifier(name)
            number = 2
            while alias in taken:
                alias, number = f"{wanted}_{number}", number + 1
            aliases[name] = alias
            taken.add(alias)
    return aliases


def alias_of(name: str) -> str:
    """Return the name that a tool has inside programs if it is the only tool."""
    return _aliases([name])[name]


def _is_variable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


_NONE = Toolset()
