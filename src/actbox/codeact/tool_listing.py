"""`Listing`: the names of a toolset by group, which replaces the stubs if these would be too long."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from actbox.core.counted import counted
from actbox.core.errors import InvalidValue
from actbox.tools import Tool, Toolset
from actbox.tools.problems import shown

MAX_TEXT = 20_000
"""The most characters of a listing in a description: the names of about a thousand tools, some 5,000 tokens."""
MAX_CHANGES = 50
"""The most names of each kind that a note of changes lists."""

_REST = 60
"""The characters reserved for the last line, which counts the omitted groups."""
_UNGROUPED = "(no group)"


def one_line(text: str) -> str:
    """Return untrusted text as one line of printable characters."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def group_order(group: str) -> tuple[bool, str]:
    """Return the sort key of a group: the tools without a group come last."""
    return group == "", group


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of a toolset's tools by group, both sorted; tools without a group come last, under `""`.

    Names are those in programs: the alias of a tool whose name is no identifier. A conversation keeps the listing of
    its first run and shows its text in every later run, so that the beginning of the prompt stays byte for byte the
    same; `changes_since` describes later changes, for the end.
    """

    groups: tuple[tuple[str, tuple[str, ...]], ...]
    digests: tuple[tuple[str, str], ...] = ()
    """A short hash for each name of what a program could look up about it; empty in a listing that was stored without
    hashes.
    """

    @classmethod
    def of(cls, toolset: Toolset, groups: Mapping[str, str]) -> Listing:
        """Return the listing of a toolset. `groups` has the group of each tool by its name; it may leave tools out."""
        gathered: dict[str, list[str]] = {}
        for name, alias in toolset.aliases.items():
            gathered.setdefault(one_line(groups.get(name, "")), []).append(alias)
        return cls._sorted(gathered, {toolset.aliases[tool.name]: _digest(tool) for tool in toolset})

    @classmethod
    def _sorted(cls, names: Mapping[str, Iterable[str]], digests: Mapping[str, str]) -> Listing:
        groups = tuple((group, tuple(sorted(names[group]))) for group in sorted(names, key=group_order))
        return cls(groups, tuple(sorted(digests.items())))

    def text(self, *, max_chars: int = MAX_TEXT) -> str:
        """Return a line for each group with its names, without a line break at the end.

        If that is longer than `max_chars` characters, the lines have the number of tools instead of their names; if
        that is still longer, groups are left out and counted at the end.
        """
        whole = "\n".join(f"- {_title(group)}: {', '.join(names)}" for group, names in self.groups)
        if len(whole) <= max_chars:
            return whole
        counts = [f"- {_title(group)}: {counted(len(names), 'tool')}" for group, names in self.groups]
        if len("\n".join(counts)) <= max_chars:
            return "\n".join(counts)
        return _cut(counts, [len(names) for _, names in self.groups], max_chars)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data: `{"groups": {"crm": ["find_contact", …], …}, "digests": {"find_contact": "…", …}}`."""
        return {"groups": {group: list(names) for group, names in self.groups}, "digests": dict(self.digests)}

    @classmethod
    def from_dict(cls, data: Any) -> Listing:
        """Return the listing that `to_dict` wrote, whatever order its keys and names now have.

        The digests may be missing: then changes of a tool's signature or description are not noticed. Raises
        `InvalidValue` for anything else: the text goes into prompts, so each name must be an identifier, and each group
        one line.
        """
        is_one = isinstance(data, Mapping) and {"groups"} <= set(data) <= {"groups", "digests"}
        groups, digests = (data["groups"], data.get("digests", {})) if is_one else (None, None)
        if not isinstance(groups, Mapping) or not isinstance(digests, Mapping):
            raise InvalidValue('a listing of tools is {"groups": {group: [name, …]}, …}, as to_dict() wrote it')
        seen: set[str] = set()
        for group, names in groups.items():
            if not isinstance(group, str) or group != one_line(group):
                raise InvalidValue(f"a group in a listing of tools is one line of text, not {shown(group)}")
            if not isinstance(names, (list, tuple)) or not names:
                raise InvalidValue(f"the group {shown(group)} in a listing of tools must have a list of names")
            for name in names:
                if not isinstance(name, str) or not name.isidentifier() or name in seen:
                    raise InvalidValue(f"a name in a listing of tools is an identifier, once; not {shown(name)}")
                seen.add(name)
        for name, digest in digests.items():
            if name not in seen or not isinstance(digest, str):
                raise InvalidValue(f"a digest in a listing of tools is text for one of its names, not {shown(name)}")
        return cls._sorted(groups, digests)

    def changes_since(self, pinned: Listing) -> str:
        """Return a paragraph that says how these tools differ from those of an earlier listing; `""` for no difference.

        It names added tools with their groups, tools in another group, removed tools, and tools with another signature
        or description.
        """
        before, now = pinned._group_of(), self._group_of()
        known, today = dict(pinned.digests), dict(self.digests)
        parts = [
            ("added", [_placed(name, group) for name, group in now.items() if name not in before]),
            (
                "now in another group",
                [f"{name} ({group or 'no group'})" for name, group in now.items() if before.get(name, group) != group],
            ),
            ("gone", [name for name in before if name not in now]),
            (
                "changed, so look them up again",
                [name for name in now if known.get(name, today.get(name)) != today.get(name)],
            ),
        ]
        changes = "; ".join(f"{what}: {_some(names)}" for what, names in parts if names)
        return f"The tools have changed since they were listed. {changes[0].upper()}{changes[1:]}." if changes else ""

    def _group_of(self) -> dict[str, str]:
        return {name: group for group, names in self.groups for name in names}


def _digest(tool: Tool) -> str:
    return hashlib.sha256(f"{tool.signature}\n{tool.documentation}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _title(group: str) -> str:
    return group or _UNGROUPED


def _placed(name: str, group: str) -> str:
    return f"{name} ({group})" if group else name


def _some(names: Sequence[str]) -> str:
    left_out = len(names) - MAX_CHANGES
    return ", ".join(names[:MAX_CHANGES]) + (f" and {left_out} more" if left_out > 0 else "")


def _cut(lines: Sequence[str], tools: Sequence[int], max_chars: int) -> str:
    """Return the lines that leave room for a last one, and that last line, which counts the rest and is always
    there.
    """
    lengths = accumulate(len(line) + 1 for line in lines)
    kept = sum(length + _REST <= max_chars for length in lengths)
    rest = f"- and {counted(len(lines) - kept, 'group')} more with {counted(sum(tools[kept:]), 'tool')}"
    return "\n".join([*lines[:kept], rest])
