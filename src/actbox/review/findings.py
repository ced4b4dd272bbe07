"""The findings about one program, as a reader of its language adds them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any, Final

from actbox.core.program import Program
from actbox.tools import Toolset

from .rules import RULES, Finding, ToolCall
from .source import Lines
from .values import Text, Values

Tools = Toolset | Iterable[str] | None

_UNREADABLE: Final = frozenset(["syntax", "not-read", "code", "dynamic", "introspection", "unpickle", "native"])
"""Rules about code that cannot be followed, whose findings may stand for any tool call."""
_URL: Final = re.compile(r"(https?|ftps?|s3|s3a|gs|gcs|az|abfss?|hdfs|sftp|ssh)://", re.IGNORECASE)
_FILE_URL: Final = re.compile(r"file:(//[^/]*)?(?=/)", re.IGNORECASE)
_ACCESS: Final = {
    "reads": ("system-read", "reads"),
    "writes": ("system-write", "writes to or changes"),
    "removes": ("delete-tree", "removes the directory tree"),
}
_OWN: Final = re.compile(r"/(workspace|input|output|tmp|dev/(shm|null|zero|full|u?random|std(in|out|err)))(/|$)")
"""A pattern for the program's own directories, and for harmless devices."""
_SYSTEM: Final = re.compile(r"~|/(bin|boot|dev|etc|home|lib[^/]*|opt|proc|root|run|sbin|srv|sys|usr|var)?(/|$)")
"""A pattern for system directories: neither the program's own nor those that a policy mounts, such as `/data`."""


class Findings:
    """The findings and tool calls of one program. A reader gives places of its own syntax tree (`_position`)."""

    def __init__(self, program: Program, tools: Tools) -> None:
        self.calls: list[ToolCall] = []
        self.found: dict[tuple[str, int, int, str], Finding] = {}
        self._lines = Lines(program.code.removeprefix("\ufeff"))
        self._tools = tools
        self._aliases: dict[str, str] = (
            {alias: name for name, alias in tools.aliases.items()}
            if isinstance(tools, Toolset)
            else {name: name for name in ([tools] if isinstance(tools, str) else tools or ())}
        )
        """The tools' own names by their aliases in programs."""

    def _position(self, node: Any) -> tuple[int, int]:
        """Return the line and the column of a place, from 1."""
        raise NotImplementedError

    def _paths(self, function: str, values: Values, node: Any, access: str) -> None:
        """Judge the path arguments of a function that reads, writes or removes files."""
        rule, verb = _ACCESS[access]
        for text in [value for value in values if isinstance(value, Text)]:
            found = _outside(text)
            if function.startswith((".", "pandas.", "polars.", "numpy.", "xml.")) and _URL.match(text.value):
                self._add("network", node, f"opens {text.value!r} by {function}", function)
            elif _SYSTEM.match(found) or (found and access == "removes"):
                more = "" if text.whole else " and what follows"
                self._add(rule, node, f"{verb} {found!r}{more}, by {function}", found)

    def _add_tool(self, verb: str, node: Any, tool: str | None, **more: Any) -> None:
        self._add_call(node, tool, **more)
        rule, what = ("tool", f"the tool {tool}") if tool else ("dynamic-tool", "a tool that is chosen at run time")
        self._add(rule, node, f"{verb} {what}", tool or "call_tool")

    def _add(self, rule: str, node: Any, message: str, subject: str = "") -> None:
        line, column = self._position(node)
        key = rule, line, column, subject
        if key not in self.found:
            self.found[key] = Finding(
                rule=rule,
                severity=RULES[rule].severity,
                line=line,
                column=column,
                message=message,
                subject=subject,
                source=self._lines.shown(line),
            )
            if rule in _UNREADABLE:
                self._add_call(node)

    def _add_call(self, node: Any, tool: str | None = None, *, dynamic: bool = True, **more: Any) -> None:
        line, column = self._position(node)
        self.calls.append(ToolCall(tool=tool, line=line, column=column, dynamic=dynamic, **more))


def _outside(text: Text) -> str:
    """Return the normal form of a path outside the program's own directories, as seen inside a sandbox.

    It is empty for any other path, and for one of which not enough is known.
    """
    known = text.value if text.whole else text.value.rpartition("/")[0]  # the last name could go on
    known = _FILE_URL.sub("", known)
    path = posixpath.normpath(known if known.startswith("~") else posixpath.join("/workspace", known))
    return "" if _OWN.match(path) else path.replace("//", "/")
