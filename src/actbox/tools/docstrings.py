"""What a docstring says of a function and of its parameters, in Google's, NumPy's or Sphinx's style."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_SECTIONS = (
    "Args|Arguments|Parameters|Params|Returns|Return|Yields|Raises|Examples?|Notes?|Warnings?|See Also|Attributes"
)
_GOOGLE = re.compile(rf"^(?P<name>{_SECTIONS}):\s*$")
_NUMPY = re.compile(rf"^(?P<name>{_SECTIONS})\s*$")
_SPHINX = re.compile(
    r"^:(?P<field>param|parameter|arg|argument|type|returns?|rtype|raises?)\b\s*(?P<what>[^:]*):\s*(?P<text>.*)$"
)
_GOOGLE_ENTRY = re.compile(r"^(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"^(?P<names>\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_ARGUMENTS = {"Args", "Arguments", "Parameters", "Params"}


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return a function's description, without its sections, and the description of each parameter."""
    lines = (inspect.getdoc(function) or "").splitlines()
    description: list[str] = []
    parameters: dict[str, str] = {}
    position = 0
    while position < len(lines):
        line = lines[position]
        field = _SPHINX.match(line.strip())
        if field:
            end = _block_end(lines, position)
            if field["field"] in ("param", "parameter", "arg", "argument") and field["what"].split():
                parameters[field["what"].split()[-1]] = _joined([field["text"], *lines[position + 1 : end]])
            position = end
            continue
        section, is_numpy = _section(lines, position)
        if section is None:
            description.append(line)
            position += 1
            continue
        start = position + (2 if is_numpy else 1)
        end = _numpy_end(lines, start) if is_numpy else _block_end(lines, position)
        if section in _ARGUMENTS:
            entries = _numpy_entries(lines[start:end]) if is_numpy else _google_entries(lines[start:end])
            parameters.update(entries)
        position = end
    return "\n".join(description).strip(), parameters


def _section(lines: list[str], position: int) -> tuple[str | None, bool]:
    google = _GOOGLE.match(lines[position])
    if google:
        return google["name"], False
    numpy = _NUMPY.match(lines[position])
    underline = lines[position + 1].strip() if position + 1 < len(lines) else ""
    if numpy and len(underline) >= 3 and set(underline) == {"-"}:
        return numpy["name"], True
    return None, False


def _block_end(lines: list[str], position: int) -> int:
    """Return where the indented lines after this one end."""
    end = position + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    return end


def _numpy_end(lines: list[str], position: int) -> int:
    while position < len(lines) and _section(lines, position)[0] is None:
        position += 1
    return position


def _google_entries(lines: list[str]) -> dict[str, str]:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        entry = _GOOGLE_ENTRY.match(line.strip())
        if entry and len(line) - len(line.lstrip()) == min(indents):
            current = found.setdefault(entry["name"].lstrip("*"), [])
            current.append(entry["text"])
        else:
            current.append(line)
    return {name: _joined(text) for name, text in found.items()}


def _numpy_entries(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while position < len(lines):
        entry = _NUMPY_ENTRY.match(lines[position])
        end = _block_end(lines, position)
        if entry:
            for name in entry["names"].split(","):
                found[name.strip()] = _joined(lines[position + 1 : end])
        position = end
    return found


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
