"""Docstrings: parsing one into a description and parameter texts, and composing one for programs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

_PARAMETER_SECTIONS = {
    "args",
    "arguments",
    "parameters",
    "params",
    "keyword args",
    "keyword arguments",
    "other parameters",
}
_RETURN_SECTIONS = {"returns", "return"}
_OTHER_SECTIONS = {
    "attributes", "example", "examples", "note", "notes", "raises", "references", "see also", "todo",
    "warning", "warnings", "warns", "yield", "yields",
}  # fmt: skip
_SECTIONS = _PARAMETER_SECTIONS | _RETURN_SECTIONS | _OTHER_SECTIONS

_GOOGLE_ITEM = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NUMPY_ITEM = re.compile(r"^\*{0,2}(?P<names>\w+(\s*,\s*\*{0,2}\w+)*)\s*(:.*)?$")
_SPHINX_FIELD = re.compile(r"^:(?P<kind>\w+)\s*(?P<rest>[^:]*):\s*(?P<text>.*)$")
_SPHINX_PARAMETER = {"param", "parameter", "arg", "argument", "key", "keyword"}


def parse(doc: str) -> tuple[str, dict[str, str]]:
    """Return the description and each parameter's text, from a Google, NumPy or Sphinx style docstring.

    The description is what stands before the first section or field, and what is returned, since a program needs to
    know; raised errors, examples and notes are left out.
    """
    lines = inspect.cleandoc(doc).splitlines()
    description: list[str] = []
    parameters: dict[str, str] = {}
    returned: list[str] = []
    at = 0
    while at < len(lines):
        header, style = _header(lines, at)
        if header:
            body, end = _section(lines, at + (2 if style == "numpy" else 1), style)
            if header in _PARAMETER_SECTIONS:
                parameters |= _items(body, style)
            elif header in _RETURN_SECTIONS:
                returned += body
            at = end
        elif field := _SPHINX_FIELD.match(lines[at]):
            end = _indented_until(lines, at + 1)
            text = _join([field["text"], *lines[at + 1 : end]])
            if field["kind"] in _SPHINX_PARAMETER and field["rest"].strip():
                parameters[field["rest"].split()[-1].lstrip("*")] = text
            elif field["kind"] in _RETURN_SECTIONS:
                returned.append(text)
            at = end
        else:
            description.append(lines[at])
            at += 1
    text = "\n".join(description).strip()
    if returned and (result := _join(returned)):
        text = f"{text}\n\nReturns: {result}".strip()
    return text, {name: text for name, text in parameters.items() if text}


def compose(description: str, input_schema: Mapping[str, Any]) -> str:
    """Return the description and a line for each argument that has a note (text or limits) beyond its type."""
    properties: Mapping[str, Any] = input_schema.get("properties", {})
    lines = []
    for name, schema in properties.items():
        if note := property_note(schema):
            lines.append(f"{name if name.isidentifier() else repr(name)}: {note}")
    return "\n\n".join(part for part in (description.strip(), "\n".join(lines)) if part)


_LIMITS = {
    "minimum": ">= {}", "exclusiveMinimum": "> {}", "maximum": "<= {}", "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}", "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matches {}", "minItems": "at least {} items", "maxItems": "at most {} items", "format": "{}",
}  # fmt: skip


def property_note(schema: Any) -> str:
    """Return one line with a JSON schema's description and the limits that its Python type cannot express."""
    if not isinstance(schema, Mapping):
        return ""
    sources = [schema, *(s for s in schema.get("anyOf", ()) if isinstance(s, Mapping))]
    limits = [
        text.format(source[key])
        for source in sources
        for key, text in _LIMITS.items()
        if key in source and source[key] != "binary"
    ]
    words = " ".join(str(schema.get("description", "")).split())
    return f"{words} ({', '.join(limits)})".strip() if limits else words


def _header(lines: list[str], at: int) -> tuple[str, str]:
    line = lines[at].rstrip()
    if line.lower() in _SECTIONS and at + 1 < len(lines) and re.fullmatch(r"-{3,}\s*", lines[at + 1]):
        return line.lower(), "numpy"
    if line.endswith(":") and line[:-1].lower() in _SECTIONS:
        # "Note: …" in running text has words after the colon; a header has an indented block below it.
        following = next((text for text in lines[at + 1 :] if text.strip()), "")
        if following.startswith((" ", "\t")):
            return line[:-1].lower(), "google"
    return "", ""


def _section(lines: list[str], start: int, style: str) -> tuple[list[str], int]:
    if style == "google":
        end = _indented_until(lines, start)
    else:
        end = start
        while end < len(lines) and not _header(lines, end)[0]:
            end += 1
    return inspect.cleandoc("\n" + "\n".join(lines[start:end])).splitlines(), end


def _indented_until(lines: list[str], start: int) -> int:
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t"):
        end += 1
    return end


def _items(body: list[str], style: str) -> dict[str, str]:
    """Split a parameter section into items: an item starts at the margin, and its text continues indented."""
    items: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body:
        if line[:1] in (" ", "\t", ""):
            current.append(line)
            continue
        match = (_GOOGLE_ITEM if style == "google" else _NUMPY_ITEM).match(line)
        if match is None:
            current = []
        elif style == "google":
            current = items.setdefault(match["name"], [])
            current.append(match["text"])
        else:
            current = []
            for name in match["names"].split(","):
                items[name.strip().lstrip("*")] = current
    return {name: _join(text) for name, text in items.items()}


def _join(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
