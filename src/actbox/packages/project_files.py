"""Dependencies in script blocks (PEP 723) and in `pyproject.toml`: `[project]`, extras, and dependency groups."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from actbox.core.errors import InvalidValue
from actbox.core.packages import normalized_name

from .requirements import MOST_FILE_CHARS, Requirement, checked_file, parse_requirement, quoted, read_requirements

_MOST_SOURCE_CHARS: Final = 20_000_000
_BEGIN: Final = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END: Final = "# ///"
_TOML_LINE: Final = re.compile(r"at line (\d+), ")


class BadScriptBlock(InvalidValue):
    """Raised for a script block that cannot be read; `line` is the line of the mistake in the program, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class DeclaredDependencies:
    """The requirements of a script or project, and the Python versions that it works with (`requires-python`)."""

    requirements: tuple[Requirement, ...] = ()
    python: SpecifierSet = field(default_factory=SpecifierSet)
    warnings: tuple[str, ...] = ()

    def runs_on(self, version: str) -> bool:
        """Return True if a release of a version of Python, such as `3.12`, is wanted."""
        return any(self.python.contains(release, prereleases=True) for release in releases_of(version))


def releases_of(version: str) -> tuple[str, ...]:
    """Return the release of this process's Python if it is of a version such as `3.12`, else a first and a last one."""
    major, minor, micro = sys.version_info[:3]
    return (f"{version}.{micro}",) if version == f"{major}.{minor}" else (f"{version}.0", f"{version}.99")


def read_script(source: str, *, markers: Mapping[str, str] | None = None) -> DeclaredDependencies:
    """Read the block of script metadata (PEP 723) in a program's source; a program without one needs nothing.

    Only `dependencies` and `requires-python` are read. `markers` are those of `read_requirements`. A block without its
    last line is ignored (PEP 723), with a warning. Raises `BadScriptBlock` for two blocks, a block that is not TOML,
    and a requirement that is bad or that `[tool.uv.sources]` gives another source.
    """
    lines = checked_file("the program", source, _MOST_SOURCE_CHARS).split("\n")
    (begin, end), warnings = _script_block(lines)
    block = [line[2:] for line in lines[begin + 1 : end]]
    try:
        metadata = loaded_toml("the script block", "\n".join(block))
        where = "the script block's dependencies"
        declared = _declared(metadata, metadata, _strings(metadata.get("dependencies", []), where), markers)
    except InvalidValue as error:
        at = _TOML_LINE.search(str(error))
        named = [number for number, line in enumerate(block, 1) if line.startswith("dependencies")]
        line = begin + 1 + (int(at[1]) if at else named[0] if named else 0)
        raise BadScriptBlock(_TOML_LINE.sub(f"at line {line}, ", str(error)), line) from None
    return replace(declared, warnings=warnings)


def read_project(
    text: str,
    *,
    extras: Iterable[str] = (),
    groups: Iterable[str] = (),
    markers: Mapping[str, str] | None = None,
) -> DeclaredDependencies:
    """Read the text of a `pyproject.toml`: its dependencies, with those of some extras and dependency groups.

    Extras that name the project itself and groups that include others bring these in. Raises `InvalidValue` for an
    extra or group that is not there, dependencies that a build would compute (`dynamic`), and as `read_script` does.
    """
    document = loaded_toml("pyproject.toml", text)
    project = _table(document, "project")
    for name in ("dependencies", "optional-dependencies"):
        if name in _strings(project.get("dynamic", []), "project.dynamic") and (name == "dependencies" or extras):
            raise InvalidValue(f"pyproject.toml: {name} are dynamic, known to a build only; list the requirements")
    texts = _strings(project.get("dependencies", []), "project.dependencies")
    texts += _of_extras(project, extras)
    texts += _of_groups(_by_normalized_name(_table(document, "dependency-groups")), groups)
    return _declared(document, project, texts, markers)


def loaded_toml(name: str, text: str, most: int = MOST_FILE_CHARS) -> dict[str, Any]:
    """Return a document; raise `InvalidValue`, which names it, if its text is not TOML or longer than `most`."""
    try:
        return tomllib.loads(checked_file(name, text, most))
    except InvalidValue:
        raise
    except (RecursionError, ValueError) as error:
        raise InvalidValue(f"{name} is not TOML ({str(error)[:200]}); correct it") from None


def _script_block(lines: list[str]) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Return the places of the first and last line of the one block `script`, equal if there is none, and warnings.

    A block goes on to the last `# ///` before a line that is no comment (PEP 723).
    """
    blocks, at = list[tuple[int, int]](), 0
    warnings: tuple[str, ...] = ()
    while at < len(lines):
        begin, at = at, at + 1
        kind = _BEGIN.fullmatch(lines[begin])
        if not kind:
            continue
        end = begin
        while at < len(lines) and (lines[at] == "#" or lines[at].startswith("# ")):
            end = at if lines[at] == _END else end
            at += 1
        if end > begin:
            at = end + 1
            if kind[1] == "script":
                blocks.append((begin, end))
        elif kind[1] == "script":
            warnings = (f"the script block of line {begin + 1} is ignored: it has no last line '# ///'",)
    if len(blocks) > 1:
        raise BadScriptBlock(f"the program has {len(blocks)} blocks '# /// script'; keep one", blocks[1][0] + 1)
    return (blocks[0] if blocks else (0, 0)), warnings


def _declared(
    document: dict[str, Any], table: dict[str, Any], texts: list[str], markers: Mapping[str, str] | None
) -> DeclaredDependencies:
    requirements = read_requirements(texts, markers=markers)
    sources = _by_normalized_name(_table(_table(_table(document, "tool"), "uv"), "sources"))
    for requirement in requirements:
        if requirement.normalized in sources:
            raise InvalidValue(
                f"{quoted(requirement.text)} has another source in [tool.uv.sources], which is not read: "
                f"write '{requirement.name} @ git+https://…@commit'"
            )
    wanted = table.get("requires-python", "")
    try:
        return DeclaredDependencies(requirements, SpecifierSet(wanted if isinstance(wanted, str) else "?"))
    except InvalidSpecifier:
        raise InvalidValue(f"requires-python is versions such as '>=3.11', not {wanted!a:.100}") from None


def _of_extras(project: dict[str, Any], extras: Iterable[str]) -> list[str]:
    own_name = normalized_name(str(project.get("name", "")))
    table = _by_normalized_name(_table(project, "optional-dependencies"))
    found, wanted, seen = list[str](), deque(map(normalized_name, extras)), set[str]()
    while wanted:
        extra = wanted.popleft()
        if extra in seen:
            continue
        seen.add(extra)
        for text in _strings(_member(table, extra, "extra"), f"optional-dependencies.{extra}"):
            requirement = parse_requirement(text)
            if requirement.normalized == own_name:
                wanted += requirement.extras
            else:
                found.append(text)
    return found


def _of_groups(table: dict[str, Any], groups: Iterable[str]) -> list[str]:
    found, wanted, seen = list[str](), deque(map(normalized_name, groups)), set[str]()
    while wanted:
        group = wanted.popleft()
        if group in seen:
            continue
        seen.add(group)
        members = _member(table, group, "dependency group")
        for member in members if isinstance(members, list) else [members]:
            match member:
                case str():
                    found.append(member)
                case {"include-group": str(other), **rest} if not rest:
                    wanted.append(normalized_name(other))
                case _:
                    raise InvalidValue(f"dependency-groups.{group} has {member!a:.100}; it takes text or include-group")
    return found


def _member(table: dict[str, Any], name: str, kind: str) -> Any:
    if name not in table:
        known = ", ".join(sorted(table)[:20]) or "none"
        raise InvalidValue(f"pyproject.toml has no {kind} {name!a:.100}; it has {known}")
    return table[name]


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise InvalidValue(f"{name} must be a table, not {found!a:.100}")
    return found


def _by_normalized_name(table: dict[str, Any]) -> dict[str, Any]:
    return {normalized_name(name): value for name, value in table.items()}


def _strings(given: Any, where: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidValue(f"{where} must be a list of requirements, not {given!a:.100}")
    return list(given)
