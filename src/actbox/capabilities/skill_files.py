"""The files of Agent Skills: folders with a `SKILL.md`, found and copied (https://agentskills.io/specification).

Skills come from strangers, so they are read by descriptor, without links and within bounds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from actbox.config.documents import yaml_texts
from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.sandbox.guest import beneath

SKILL_FILE: Final = "SKILL.md"
MOST_SKILLS: Final = 500
"""The most skills that one search finds."""
MOST_TEXT_BYTES: Final = 256 * 1024
"""The most bytes of a `SKILL.md`, and of a file that a model reads."""
MOST_FILES: Final = 1_000
"""The most files and directories of one skill."""
MOST_BYTES: Final = 32 * 2**20
"""The most bytes of one skill's files."""

_MOST_DEPTH: Final = 8
_SEARCH_DEPTH: Final = 5
_MOST_SEARCHED: Final = 2_000
_LEFT_OUT: Final = frozenset({".git", "__pycache__"})
_NOT_SEARCHED: Final = _LEFT_OUT | {"node_modules"}
_MOST_NAME: Final = 64
_MOST_DESCRIPTION: Final = 1_024
_MOST_COMPATIBILITY: Final = 500
_MOST_ALLOWED: Final = 4_096
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PARTS: Final = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)(.*)", re.DOTALL)
_UNQUOTED: Final = re.compile(r"^(name|description|license|compatibility):[ \t]+([^\s\"'|>\[{&*!#].*)$", re.MULTILINE)
_TOOL: Final = re.compile(r"[^\s,(]+(?:\([^)\n]*\))?")


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """A folder that is no skill though it has a `SKILL.md`, or a remark on one that is, and why."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Copies:
    """A private directory for copies of skills, which lasts as long as something refers to this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="actbox-skills-"))
        self.close = weakref.finalize(self, beneath.remove_folder, os.fspath(self.path))
        """Removes the directory. A second call does nothing. Blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill, as its `SKILL.md` describes it.

    `allowed_tools` are the tools that its author would have run without a question, such as `Bash(git:*)`: a wish, on
    which only a host can act. `files` are the paths of all its files. `digest` is the SHA-256 of all of them: a skill
    that changes in any way has another one.
    """

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] = ()
    path: Path
    """The folder where the skill was found."""
    files: tuple[str, ...]
    digest: str
    copies: Copies = field(repr=False, compare=False)
    label: Label = PUBLIC

    @property
    def copy(self) -> Path:
        """The private copy of the folder, which is what is read and run."""
        return self.copies.path / self.name

    def read(self, path: str = "") -> str:
        """Return the instructions, the `SKILL.md` below its frontmatter, or the text of another file. Blocks.

        Raises `InvalidValue` for a path that is none of `files`, a file that is no UTF-8 text, one of more than
        `MOST_TEXT_BYTES`, and once the skills were closed.
        """
        wanted = os.path.normpath(path) if path else SKILL_FILE
        if wanted not in self.files:
            shown = ", ".join(self.files[:20])
            raise InvalidValue(f"the skill {self.name} has no file {path[:200]!r}; it has {shown}")
        try:
            data = (self.copy / wanted).read_bytes()
        except OSError:
            raise InvalidValue(f"the skill {self.name} was closed; find it again") from None
        if len(data) > MOST_TEXT_BYTES:
            most = f"{len(data):,} bytes, and at most {MOST_TEXT_BYTES:,} are read"
            raise InvalidValue(f"{wanted} has {most}; let a script read it")
        text = _text(data, wanted)
        return text if path else _parted(text)[1].strip()


def find_skills(
    folders: Iterable[str | os.PathLike[str]], copies: Copies, label: Label
) -> tuple[dict[str, Skill], tuple[SkillProblem, ...]]:
    """Return the skills in folders by their names, copied below `copies`, and the problems with others.

    Raises `InvalidValue` for a folder that cannot be read, and `ActboxError` if PyYAML is not installed.
    """
    search = _Search(copies, label)
    for folder in folders:
        search.add(Path(folder).expanduser())
    return search.skills, tuple(search.problems)


class _Search:
    """A search for skills, which copies those that it finds."""

    def __init__(self, copies: Copies, label: Label) -> None:
        self.skills: dict[str, Skill] = {}
        self.problems: list[SkillProblem] = []
        self._copies = copies
        self._label = label
        self._left = _MOST_SEARCHED
        self._is_cut = False

    def add(self, folder: Path) -> None:
        """Add the skills in a folder. Raises `InvalidValue` if it cannot be read."""
        try:
            with beneath.opened_folder(os.fspath(folder), follow=True) as opened:
                self._look(opened, folder, _SEARCH_DEPTH)
        except OSError as error:
            raise InvalidValue(f"the skills in {folder} cannot be read: {error.strerror}") from None
        if self._is_cut:
            why = f"folders more than {_SEARCH_DEPTH} deep in it, or beyond {_MOST_SEARCHED:,}, were not searched"
            self.problems.append(SkillProblem(folder, why))
            self._is_cut = False

    def _look(self, folder: int, path: Path, depth: int) -> None:
        if beneath.status_in(folder, SKILL_FILE) is not None:
            self._add_skill(folder, path)
            return
        for name in _names(folder, _MOST_SEARCHED):
            status = beneath.status_in(folder, name)
            if status is None or beneath.kind_of(status.st_mode) != "folder" or name in _NOT_SEARCHED:
                continue
            if depth == 1 or self._left == 0:
                self._is_cut = True
                return
            self._left -= 1
            try:
                with beneath.opened(folder, name) as inner:
                    self._look(inner, path / name, depth - 1)
            except OSError as error:
                self.problems.append(SkillProblem(path / name, f"it cannot be read: {error.strerror}"))

    def _add_skill(self, folder: int, path: Path) -> None:
        try:
            given = _described(_text(beneath.read_file(folder, SKILL_FILE, MOST_TEXT_BYTES + 1), SKILL_FILE))
            name = given["name"]
            if name in self.skills:
                raise InvalidValue(f"{self.skills[name].path} has the name {name} already")
            if len(self.skills) == MOST_SKILLS:
                raise InvalidValue(f"{MOST_SKILLS} skills were found before, and no more are taken")
            if name != path.name:
                self.problems.append(SkillProblem(path, f"its name is {name}, and should be that of its folder"))
            copying = _Copying(self._copies.path / name)
            copying.folder(folder, copying.root, "", _MOST_DEPTH)
        except InvalidValue as error:
            self.problems.append(SkillProblem(path, str(error)))
            return
        except OSError as error:
            self.problems.append(SkillProblem(path, f"it cannot be read: {error.strerror}"))
            return
        digest = hashlib.sha256(json.dumps(copying.files).encode()).hexdigest()
        files = tuple(name for name, *_ in copying.files)
        self.skills[name] = Skill(
            **given, path=path, files=files, digest=digest, copies=self._copies, label=self._label
        )


class _Copying:
    """The copying of one skill: the path of each file, whether it is executable, and its SHA-256."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: list[tuple[str, bool, str]] = []
        self._left, self._entries = MOST_BYTES, MOST_FILES

    def folder(self, folder: int, to: Path, prefix: str, depth: int) -> None:
        """Copy a folder. Raises `InvalidValue` for one that no skill may have, and `OSError`."""
        to.mkdir()
        to.chmod(0o755)  # whatever the mask of this process
        for name in _names(folder, MOST_FILES):
            path = f"{prefix}{name}"
            if name in _LEFT_OUT:
                continue
            if not name.isprintable():
                raise InvalidValue(f"{path!r} has a name that cannot be shown")
            self._entries -= 1
            if self._entries < 0:
                raise InvalidValue(f"it has more than {MOST_FILES:,} files")
            status = beneath.status_in(folder, name)
            kind = "" if status is None else beneath.kind_of(status.st_mode)
            if kind == "folder":
                if depth == 1:
                    raise InvalidValue(f"{path} is nested more than {_MOST_DEPTH} deep")
                with beneath.opened(folder, name) as inner:
                    self.folder(inner, to / name, f"{path}/", depth - 1)
            elif kind == "file" and status is not None:
                self._file(folder, name, to / name, path, is_executable=bool(status.st_mode & 0o100))
            else:
                raise InvalidValue(f"{path} is neither a file nor a folder; a skill has no links")

    def _file(self, folder: int, name: str, to: Path, path: str, *, is_executable: bool) -> None:
        data = beneath.read_file(folder, name, self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise InvalidValue(f"its files have more than {MOST_BYTES // 2**20} MiB")
        to.write_bytes(data)
        to.chmod(0o755 if is_executable else 0o644)
        self.files.append((path, is_executable, hashlib.sha256(data).hexdigest()))


def _names(folder: int, most: int) -> list[str]:
    """Return the names in a directory, sorted; one more than `most` if there are more."""
    with os.scandir(folder) as found:
        return sorted(entry.name for entry in islice(found, most + 1))


def _text(data: bytes, name: str) -> str:
    if name == SKILL_FILE and len(data) > MOST_TEXT_BYTES:
        raise InvalidValue(f"{name} has more than {MOST_TEXT_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise InvalidValue(f"{name} is no UTF-8 text") from None


def _parted(text: str) -> tuple[str, str]:
    """Return the frontmatter and the body of a `SKILL.md`. Raises `InvalidValue`."""
    parts = _PARTS.match(text)
    if parts is None:
        raise InvalidValue(f"{SKILL_FILE} does not begin with frontmatter between two lines of ---")
    return parts[1], parts[2]


def _described(text: str) -> dict[str, Any]:
    """Return the fields of a `SKILL.md`. Fields that the format does not have are ignored. Raises `InvalidValue`."""
    head, _ = _parted(text)
    given = _frontmatter(head)
    found = {name: _field(given, name) for name in ("name", "description", "license", "compatibility")}
    if len(found["name"]) > _MOST_NAME or not _NAME.fullmatch(found["name"]):
        raise InvalidValue(f"its name is not up to {_MOST_NAME} lower-case letters, digits and single hyphens between")
    if not 0 < len(found["description"]) <= _MOST_DESCRIPTION:
        raise InvalidValue(f"its description does not have 1 to {_MOST_DESCRIPTION:,} characters")
    if len(found["compatibility"]) > _MOST_COMPATIBILITY:
        raise InvalidValue(f"its compatibility has more than {_MOST_COMPATIBILITY} characters")
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidValue("its metadata is not a mapping")
    tools = given.get("allowed-tools") or ""
    if not isinstance(tools, str | list) or not all(isinstance(tool, str) for tool in tools):
        raise InvalidValue("its allowed-tools are neither text nor a list of texts")
    if sum(map(len, tools)) > _MOST_ALLOWED:
        raise InvalidValue(f"its allowed-tools have more than {_MOST_ALLOWED:,} characters")
    named = _TOOL.findall(tools) if isinstance(tools, str) else [tool.strip() for tool in tools if tool.strip()]
    plain = {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
    return {**found, "metadata": plain, "allowed_tools": tuple(named)}


def _frontmatter(head: str) -> dict[str, Any]:
    try:
        found = yaml_texts(head, SKILL_FILE)
    except InvalidValue as error:
        # Many skills have an unquoted text with a colon in it, which other readers accept.
        quoted = _UNQUOTED.sub(lambda line: f"{line[1]}: {json.dumps(line[2].rstrip())}", head)
        try:
            found = yaml_texts(quoted, SKILL_FILE)
        except InvalidValue:
            raise error from None
    if not isinstance(found, dict):
        raise InvalidValue(f"the frontmatter of {SKILL_FILE} is no mapping")
    return found


def _field(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise InvalidValue(f"its {name} is no text")
    return value.strip()
