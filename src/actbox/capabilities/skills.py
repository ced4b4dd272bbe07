"""Agent Skills: folders with a `SKILL.md`, described, read and run (https://agentskills.io/specification).

    skills = Skills.find("skills")
    registry.register(*skills.capabilities(approved=["pdf"]))

A skill is a text that others wrote for a model, with scripts beside it. **Nothing in it is trusted.** Its text and its
description may tell a model to do anything, so give an agent skills only from places that you would let write its
instructions. Its scripts are programs of strangers: they run in the sandbox alone, under the registry's policy, and
unknown ones ask. `allowed-tools` is the author's wish, and by itself allows nothing.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.core.mounts import FileMount
from actbox.core.packages import HOST
from actbox.core.program import Program

from .budgets import Budget
from .capability import Capability, Resources, Runtime
from .execution import OUTPUT_TYPES, RESULT, output_of
from .invocation import Invocation
from .outcome import StepFailed
from .skill_files import Copies, Skill, SkillProblem, find_skills

APPROVAL: Final = "skill"
"""The kind of approval that unknown scripts and commands need."""
OUTPUTS: Final = (*OUTPUT_TYPES, "docx", "pptx", "zip")
"""The extensions of the output files that scripts return, unless the caller says otherwise."""

_MOUNTED_AT: Final = "/skills"
_COMMAND: Final = "command"
_MOST_COMMANDS: Final = 100
_TIMEOUT_MS: Final = 60_000
_MEMORY_MB: Final = 512
_SCRIPTS: Final = "scripts/"
_INTERPRETERS: Final = {".py": "python", ".sh": "bash", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node"}
_ALLOWED: Final = re.compile(r"Bash\((.+)\)")
_NO_WORD: Final = re.compile(r"[\s;&|<>$`()*?\"'\\]")
_LAUNCHERS: Final = re.compile(
    r"(.*/)?((ba|da|k|z|fi)?sh|python|pypy|node|deno|bun|perl|ruby|php|lua|awk|gawk|env|xargs|find|busybox|uv|uvx|npx"
    r"|nohup|nice|timeout|time|setsid|sudo|make)[0-9.]*"
)
"""Programs that run whatever their arguments say."""
_SCRIPT_BLOCK: Final = "# /// script"

_READ: Final = "[:map [:path {:optional true} :string]]"
_TEXT: Final = """[:map
  [:text :string]
  [:folder {:optional true} :string]
  [:files {:optional true} [:vector :string]]
  [:commands {:optional true} [:map :string :string]]]"""
_RUN: Final = """[:map {first}
  [:stdin {{:optional true}} :string]
  [:files {{:optional true}} [:map :string :string]]
  [:timeout_ms {{:optional true}} :int]]"""
_ARGUMENTS: Final = "[:args {:optional true} [:vector :string]]"

_PYTHON: Final = """\
import os, shutil, subprocess, sys

if command[0] in ("python", "python3"):
    command[0] = sys.executable
elif command[0] == "bash" and shutil.which("bash") is None:
    command[0] = "sh"
packages = os.pathsep.join(filter(None, sys.path))
try:
    done = subprocess.run(command, input=stdin.encode(), env={**os.environ, "PYTHONPATH": packages})
except OSError as error:
    print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    sys.exit(127)
sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
"""
_NODE: Final = """\
const { spawnSync } = require("node:child_process");
const { constants } = require("node:os");
const done = spawnSync(process.execPath, command.slice(1), { input: stdin, stdio: ["pipe", "inherit", "inherit"] });
if (done.error) throw done.error;
process.exit(done.status === null ? 128 + constants.signals[done.signal] : done.status);
"""


class Skills:
    """The skills of some folders. A copy of them is kept until `close()`, so that they stay as they were found.

    The copy is removed also once nothing refers to the skills and their capabilities any more.
    """

    def __init__(self, skills: Mapping[str, Skill], problems: tuple[SkillProblem, ...], copies: Copies) -> None:
        """Use `Skills.find`."""
        self._skills = dict(skills)
        self.problems = problems
        """The folders that were left out, and remarks on others."""
        self._copies = copies

    @classmethod
    def find(cls, *folders: str | os.PathLike[str], label: Label | str = PUBLIC) -> Skills:
        """Find the skills in folders: a folder with a `SKILL.md`, or those in its subfolders. Blocks.

        Of two skills with one name the first counts: that of an earlier folder, or of the first path. A folder that is
        no skill is left out, as `problems` says: one with a bad `SKILL.md`, with a link or a device, or with too many
        or too large files. `label` is that of everything in the folders. Raises `InvalidValue` for a folder that cannot
        be read, and `ActboxError` if PyYAML is not installed.
        """
        copies = Copies()
        try:
            return cls(*find_skills(folders, copies, Label(label)), copies)
        except BaseException:
            copies.close()
            raise

    def get(self, name: str) -> Skill:
        """Return a skill by its name. Raises `InvalidValue` if there is none."""
        if name not in self._skills:
            raise InvalidValue(f"there is no skill {name!r}; there are {', '.join(self._skills) or 'none'}")
        return self._skills[name]

    def read(self, name: str, path: str = "") -> str:
        """Return a skill's instructions, or the text of one of its files. Raises as `get` and `Skill.read` do."""
        return self.get(name).read(path)

    def capabilities(
        self, *, approved: Iterable[str] = (), environment: str = HOST, output_types: Iterable[str] = OUTPUTS
    ) -> tuple[Capability, ...]:
        """Return what an agent can do with the skills; register them in a `standard_registry`.

        `skills.NAME.read` returns the instructions, or another text. Until then a model knows the description alone.
        `skills.NAME.SCRIPT` runs a `.py`, `.sh` or `.js` of `scripts/` in the sandbox, which has the skill's folder
        read-only at `/skills/NAME`. `skills.NAME.PROGRAM` runs a program that `allowed-tools` names, as in
        `Bash(git:*)`, and `skills.NAME.command` any other command line. Of a skill with a hundred scripts or more the
        first hundred have capabilities of their own.

        `approved` are the skills whose scripts and named programs may run, as they are now, without a question: a name
        such as `pdf`, or that of one of them, such as `pdf.extract`. A program that runs whatever it is given, such as
        `bash` or `python`, needs a name of its own here. All else needs an approval of the kind `skill`,
        which shows the script; `command` always does. An approval that lasts covers a skill with exactly these files.

        `environment` is that of scripts. `output_types` are the extensions of the files that they return.

        Raises `InvalidValue` for a name in `approved` that there is not.
        """
        settings = _Settings(frozenset(approved), environment, tuple(output_types))
        made = [one for skill in self for one in _capabilities(skill, settings)]
        known = {*self._skills, *(one.id.removeprefix("skills.") for one in made)}
        for name in settings.approved:
            if name not in known or name.endswith((".read", f".{_COMMAND}")):
                raise InvalidValue(f"approved: there is no skill, script or named program {name!r}")
        return tuple(made)

    def close(self) -> None:
        """Remove the copies; the skills can then be neither read nor run. A second call does nothing. Blocks."""
        self._copies.close()

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    def __enter__(self) -> Skills:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Settings:
    approved: Collection[str]
    environment: str
    output_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Command:
    """A script or program of a skill: the words before its arguments, and the source that an approver is shown."""

    name: str
    words: tuple[str, ...]
    what: str
    source: str
    is_open: bool = True
    """True if a call may add arguments."""

    @property
    def language(self) -> Literal["python", "javascript"]:
        """The language of the program that starts it."""
        return "javascript" if self.words[:1] == ("node",) and len(self.words) > 1 else "python"

    @property
    def runs_anything(self) -> bool:
        """Whether it is any command line, or as good as one: an interpreter without a script of the skill."""
        is_script = len(self.words) > 1 and self.words[1].startswith(f"{_MOUNTED_AT}/")
        return not self.words or (not is_script and _LAUNCHERS.fullmatch(self.words[0]) is not None)


def _capabilities(skill: Skill, settings: _Settings) -> Iterator[Capability]:
    commands = {f"skills.{skill.name}.{one.name}": one for one in _commands(skill)}
    anything = _Command(_COMMAND, (), f"Run a command line for the skill {skill.name}", "")
    running = commands | ({f"skills.{skill.name}.{_COMMAND}": anything} if commands else {})
    yield _reading(skill, {id: one.what for id, one in running.items()})
    for id, one in running.items():
        is_named = id.removeprefix("skills.") in settings.approved
        is_known = is_named or (skill.name in settings.approved and not one.runs_anything)
        yield _running(skill, id, one, settings, is_known=is_known)


def _commands(skill: Skill) -> Iterator[_Command]:
    """Yield the scripts of a skill, and the programs that its `allowed-tools` name."""
    taken = {"read", _COMMAND}
    for path in skill.files:
        if len(taken) > _MOST_COMMANDS:
            return
        stem, ending = os.path.splitext(path.removeprefix(_SCRIPTS))
        if not path.startswith(_SCRIPTS) or "/" in stem or stem.startswith("_") or ending not in _INTERPRETERS:
            continue
        try:
            source = skill.read(path)
        except InvalidValue:
            continue  # an approver could not be shown it
        name = _name_of([stem, ending[1:]], taken)
        words = (_INTERPRETERS[ending], f"{_MOUNTED_AT}/{skill.name}/{path}")
        yield _Command(name, words, f"Run {path} of the skill {skill.name}", source)
    for tool in skill.allowed_tools:
        allowed = _ALLOWED.fullmatch(tool)
        if allowed is None:
            continue
        pattern = allowed[1].strip()
        given = pattern.removesuffix("*").rstrip(" :")
        words = tuple(given.split())
        if not words or any(map(_NO_WORD.search, words)) or any(_SCRIPTS in word for word in words):
            continue  # a line for a shell, or a script, which has a capability already
        name = _name_of(words, taken)
        yield _Command(name, words, f"Run {given} for the skill {skill.name}", given, pattern.endswith("*"))


def _name_of(words: Iterable[str], taken: set[str]) -> str:
    """Return a name for an id that is not taken yet: the first word, or as many as it takes, or one with a number."""
    name = ""
    for word in words:
        name = f"{name}_{word}" if name else word
        name = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:40]
        if name not in taken:
            break
    number, plain = 2, name
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    taken.add(name)
    return name


def _reading(skill: Skill, commands: Mapping[str, str]) -> Capability:
    async def handler(call: Invocation) -> dict[str, Any]:
        path = call.input.get("path", "")
        try:
            text = skill.read(path)
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_input", str(error)) from None
        if path:
            return {"text": text}
        folder = f"{_MOUNTED_AT}/{skill.name}"
        return {"text": text, "folder": folder, "files": [*skill.files], "commands": dict(commands)}

    described = " ".join(skill.description.split())
    return Capability(
        f"skills.{skill.name}.read",
        f"Read how to do something, or a file that is named there. In the skill's own words: {described}",
        _READ,
        _TEXT,
        data=skill.label,
        version=_version(skill),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        retry_safe=True,
    )


def _running(skill: Skill, id: str, command: _Command, settings: _Settings, *, is_known: bool) -> Capability:
    mount = FileMount(skill.copy, f"{_MOUNTED_AT}/{skill.name}", label=skill.label)
    is_line = not command.words

    async def prepare(call: Invocation) -> Mapping[str, Any]:
        given = call.input
        words = ("bash", "-c", given["command"]) if is_line else (*command.words, *given.get("args", ()))
        try:
            call.prepared = Program(
                _PYTHON if command.language == "python" else _NODE,
                command.language,
                inputs={"command": [*words], "stdin": given.get("stdin", "")},
                files={name: base64.b64decode(text, validate=True) for name, text in given.get("files", {}).items()},
                dependencies=_dependencies(command),
            )
        except binascii.Error as error:
            raise StepFailed("invalid", "validate_input", f"files are given as base64: {error}") from None
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_input", str(error)) from None
        return {"skill": skill.name, "program": given["command"] if is_line else command.source}

    async def handler(call: Invocation) -> dict[str, Any]:
        if call.sandboxes is None:
            raise StepFailed("unavailable", "run", "this registry has no sandboxes: take standard_registry(…)")
        timeout = call.input.get("timeout_ms", _TIMEOUT_MS)
        result = await call.sandboxes.run(
            call, call.prepared, environment=settings.environment, timeout_ms=timeout, mounts=(mount,)
        )
        return output_of(call, result, settings.output_types)

    def worst_case(capability: Capability, given: Mapping[str, Any]) -> Budget:
        wall = max(given.get("timeout_ms", _TIMEOUT_MS), 0) / 1000
        return Budget(steps=1, wall_seconds=wall, cpu_seconds=wall * (os.cpu_count() or 1), memory_mib=_MEMORY_MB)

    first = "[:command :string]" if is_line else _ARGUMENTS if command.is_open else ""
    return Capability(
        id,
        f"{command.what} in the sandbox. Files are given by name as base64, and lie below input/; those written below"
        f" output/ are returned so. The skill's own folder is {_MOUNTED_AT}/{skill.name}",
        _RUN.format(first=first),
        RESULT,
        effects=("compute",),
        risk="high",
        approvals=() if is_known else (APPROVAL,),
        resources=Resources(memory_mb=_MEMORY_MB),
        data=skill.label,
        runtime=Runtime("container"),
        version=_version(skill),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        worst_case=worst_case,
        prepare=prepare,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


def _version(skill: Skill) -> str:
    """Return the version of a skill's capabilities, which an approval is bound to."""
    return f"sha256-{skill.digest[:32]}"


def _dependencies(command: _Command) -> tuple[str, ...]:
    """Return the requirements of a Python script's block (PEP 723)."""
    if command.words[:1] != ("python",) or _SCRIPT_BLOCK not in command.source:
        return ()
    from actbox.packages.project_files import read_script  # needs the extra `packages`, as installing does

    return tuple(map(str, read_script(command.source).requirements))
