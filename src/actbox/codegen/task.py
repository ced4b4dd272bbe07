"""`Task`: a goal for a coding agent, with its inputs, the outputs that it must have, its constraints and checks."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, Self, get_args

from actbox.core.errors import InvalidValue
from actbox.core.labels import PUBLIC, Label, label_of
from actbox.core.result import Artifact
from actbox.core.values import CannotCross, crossed
from actbox.rtfs.schemas import SchemaError, from_json_schema

from .request import MOST_GOAL_CHARS, CodingRequest
from .response import language_named

MOST_INPUT_BYTES: Final = 256 * 2**20
"""The most bytes that a task's input files have together."""
MOST_CANDIDATES: Final = 64
"""The most candidates of `best_of`."""
ANY_LANGUAGE: Final = "auto"
"""The language of a task that leaves it to the model."""
_MOST_TEST_CHARS: Final = 2**20
_OWN_NAMES: Final = frozenset({".outcome", ".program", ".reader", ".stdin"})
"""The names below `/input` of the files that the agent adds to the inputs, some of which are imported."""

TestKind = Literal["pytest", "doctest"]
Writer = Literal["caller", "model", "author"]
"""The writer of a test: the caller; a model that has not seen the program; or the program's own author."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """The content of an input file, and its label."""

    data: bytes = field(repr=False)
    label: Label | str = PUBLIC  # a `Label` once it is made

    def __post_init__(self) -> None:
        given: object = self.data
        if isinstance(given, str):
            given = given.encode()
        if not isinstance(given, bytes | bytearray | memoryview):
            raise InvalidValue(f"InputFile.data is bytes or text, not {type(given).__name__}")
        object.__setattr__(self, "data", bytes(given))
        object.__setattr__(self, "label", label_of(self.label, "InputFile.label"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """The bounds on a program; `None` for no bound.

    `max_lines` counts the lines that are neither blank nor a comment, of all files. `max_dependencies` counts the
    packages that the program names or imports beside the standard library; without `dependencies_allowed` there may be
    none. `timeout_ms` is the wall time of a run, in milliseconds.
    """

    max_lines: int | None = None
    max_dependencies: int | None = None
    dependencies_allowed: bool = True
    timeout_ms: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_lines", 1), ("max_dependencies", 0), ("timeout_ms", 1)):
            given = getattr(self, name)
            if given is not None and (type(given) is not int or given < least):
                raise InvalidValue(f"Constraints.{name} is a whole number from {least}, not {given!r}")
        if not isinstance(self.dependencies_allowed, bool):
            raise InvalidValue(f"Constraints.dependencies_allowed is true or false, not {self.dependencies_allowed!r}")


@dataclass(frozen=True, slots=True)
class Example:
    """An input and the output that a program must have for it, both JSON data."""

    input: Any
    expected_output: Any

    @property
    def is_placeholder(self) -> bool:
        """True for an example such as the specification prints, whose input and output are both `...`."""
        return (self.input, self.expected_output) == ("...", "...")


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """A check that the answer fits a JSON Schema.

    Raises `InvalidValue` for a schema that is none, or that has words which cannot be checked: no program could pass.
    """

    schema: Mapping[str, Any] | bool

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Mapping | bool):
            raise InvalidValue(f"SchemaCheck takes a JSON Schema as a dict, not {type(self.schema).__name__}")
        try:
            from_json_schema(self.schema)
        except SchemaError as error:
            raise InvalidValue(f"SchemaCheck: {error}") from None


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A check that the program has written an output file of this name, and of this media type if one is given."""

    name: str
    media_type: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _file_name(self.name, "FileCheck.name", below="output"))


@dataclass(frozen=True, slots=True)
class TextCheck:
    """A check by tests: the source of a pytest module, or text with doctests. They run apart from the program."""

    source: str = field(repr=False)
    kind: TestKind = "pytest"
    written_by: Writer = "caller"

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not self.source.strip() or len(self.source) > _MOST_TEST_CHARS:
            raise InvalidValue(f"TextCheck.source is the text of tests, of at most {_MOST_TEST_CHARS} characters")
        for name, known in (("kind", get_args(TestKind)), ("written_by", get_args(Writer))):
            if getattr(self, name) not in known:
                raise InvalidValue(f"TextCheck.{name} is one of {', '.join(known)}, not {getattr(self, name)!r}")


Check = Callable[..., Any] | SchemaCheck | FileCheck | TextCheck
"""A check of a candidate. A function of the host gets the result of the run, and returns false or words if it fails."""


@dataclass(frozen=True, slots=True)
class Task:
    """A goal in words, and all that a program for it is given and held to.

    `inputs` has files and values by name. A name with a dot or a slash is that of a file, whose content is bytes, text,
    or data that is written as JSON; a path of the host (`Path`) is read when the task is made, so that every attempt
    has the same content. `InputFile` and the `Artifact` of an earlier result are files with a label. Anything else is
    the value of a variable. `outputs` are names of files that the program must write.

    `language` is that of the program; `auto` leaves it to the model.

    `declared` has input files that somebody named without giving them, with their schema in words or "". `profile`
    names the model's profile, "" for the one of the language. `label` is the label of the goal, the context and the
    values.

    Raises `InvalidValue` for anything invalid, such as a file that is missing or too large.
    """

    goal: str
    _: KW_ONLY
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ()  # a tuple once the task is made, as are those below
    language: str = "python"
    checks: Sequence[Check] = ()
    best_of: int = 1
    constraints: Constraints = Constraints()
    examples: Sequence[Example] = ()
    output_requirements: Sequence[str] = ()
    context: str = ""
    declared: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    label: Label | str = PUBLIC  # a `Label` once the task is made

    def __post_init__(self) -> None:
        if not isinstance(self.goal, str) or not self.goal.strip() or len(self.goal) > MOST_GOAL_CHARS:
            raise InvalidValue(
                f"Task.goal is what to do, in at most {MOST_GOAL_CHARS} characters, not {self.goal!r:.80}"
            )
        if not isinstance(self.inputs, Mapping):
            raise InvalidValue(f"Task.inputs is a dict such as {{'sales.csv': b'1,2'}}, not {self.inputs!r:.80}")
        if not isinstance(self.constraints, Constraints):
            raise InvalidValue(f"Task.constraints is Constraints(…), not {self.constraints!r:.80}")
        if type(self.best_of) is not int or not 1 <= self.best_of <= MOST_CANDIDATES:
            raise InvalidValue(f"Task.best_of is a number from 1 to {MOST_CANDIDATES}, not {self.best_of!r}")
        if not isinstance(self.language, str) or not self.language:
            raise InvalidValue(f"Task.language is a name such as 'python', not {self.language!r}")
        object.__setattr__(self, "language", language_named(self.language) or self.language)
        outputs = (_file_name(one, "Task.outputs", below="output") for one in _listed(self.outputs, "outputs"))
        object.__setattr__(self, "outputs", tuple(dict.fromkeys(outputs)))
        for name, kinds, meant in (
            ("checks", (SchemaCheck, FileCheck, TextCheck), "a function, a SchemaCheck, a FileCheck or a TextCheck"),
            ("examples", (Example,), "an Example(input, expected_output)"),
        ):
            given = _listed(getattr(self, name), name)
            if wrong := [
                one for one in given if not isinstance(one, kinds) and (name == "examples" or not callable(one))
            ]:
                raise InvalidValue(f"Task.{name}: each is {meant}, not {wrong[0]!r:.80}")
            object.__setattr__(self, name, given)
        object.__setattr__(self, "output_requirements", _listed(self.output_requirements, "output_requirements"))
        left = MOST_INPUT_BYTES
        inputs: dict[str, Any] = {}
        for name, given in self.inputs.items():
            found = _input(name, given, self.language, left)
            if isinstance(found, InputFile):
                name = _file_name(name, "Task.inputs", below="input")
                left -= len(found.data)
            inputs[name] = found
        object.__setattr__(self, "inputs", inputs)
        declared = {_file_name(name, "Task.declared", below="input"): text for name, text in self.declared.items()}
        object.__setattr__(self, "declared", {name: text for name, text in declared.items() if name not in inputs})
        object.__setattr__(self, "label", label_of(self.label, "Task.label"))

    @classmethod
    def of(
        cls, request: Mapping[str, Any] | CodingRequest, inputs: Mapping[str, Any] | None = None, **more: Any
    ) -> Self:
        """Return the task of a request in either shape of the protocol, with the content of its input files.

        `more` are further fields of the task, such as `checks`. Raises `InvalidValue`.
        """
        asked = request if isinstance(request, CodingRequest) else CodingRequest.of(request)
        bounds = asked.joined_constraints.model_dump(exclude={"language"})
        found: dict[str, Any] = {
            "outputs": asked.outputs,
            "language": asked.chosen_language or "python",
            "constraints": Constraints(**bounds),
            "examples": tuple(Example(one.input, one.expected_output) for one in asked.examples),
            "output_requirements": asked.context.output_requirements,
            "context": asked.context.background,
            "profile": asked.profile,
        }
        return cls(asked.task, inputs=inputs or {}, declared=asked.files, **{**found, **more})

    @property
    def files(self) -> dict[str, InputFile]:
        """The input files by name."""
        return {name: one for name, one in self.inputs.items() if isinstance(one, InputFile)}

    @property
    def values(self) -> dict[str, Any]:
        """The input values by the name of their variable."""
        return {name: one for name, one in self.inputs.items() if not isinstance(one, InputFile)}

    @property
    def joined_label(self) -> Label:
        """The join of the task's own label and those of its files: the label of whatever a program makes of them."""
        return Label(self.label, *(one.label for one in self.files.values()))

    def check_cleared(self, cleared: Label | None) -> None:
        """Raise `InvalidValue` if a model that may read up to `cleared` may not read the task's words and values."""
        if cleared is not None and not Label(self.label) <= cleared:
            raise InvalidValue(f"the task has the label {self.label}, and the model may read up to {cleared}")

    def with_inputs(self, inputs: Mapping[str, Any]) -> Task:
        """Return the task with other inputs."""
        return replace(self, inputs=inputs)


def _listed(given: object, name: str) -> tuple[Any, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidValue(f"Task.{name} is a list, not {given!r:.80}")
    return tuple(given)


def _file_name(name: object, where: str, *, below: str) -> str:
    """Return a path below the directory of the inputs or the outputs; `/output/a.png` is `a.png`."""
    if isinstance(name, str) and "\0" not in name:
        path = PurePosixPath(name)
        for folder in (f"/workspace/{below}", f"/{below}", below):
            if path.is_relative_to(folder):
                path = path.relative_to(folder)
                break
        if below == "input" and path.parts[:1] and path.parts[0] in _OWN_NAMES:
            raise InvalidValue(f"{where}: {name!r:.80} is a name of the agent's own files; rename the file")
        if path.parts and not path.is_absolute() and ".." not in path.parts:
            return str(path)
    raise InvalidValue(f"{where}: {name!r:.80} is no path below /{below}, such as 'sales.csv'")


def _input(name: object, given: Any, language: str, left: int) -> Any:
    """Return an input as an `InputFile`, or as a value that can cross into a sandbox."""
    if not isinstance(name, str) or not name:
        raise InvalidValue(f"Task.inputs: {name!r} is no name")
    if isinstance(given, os.PathLike):
        found = InputFile(_content(name, Path(given), left))
    elif isinstance(given, Artifact):
        found = InputFile(given.data, given.label)
    elif isinstance(given, InputFile):
        found = given
    elif "." not in name and "/" not in name:
        return _value(name, given, language)
    elif isinstance(given, str | bytes | bytearray | memoryview):
        found = InputFile(given)  # type: ignore[arg-type]  # made bytes there
    else:
        try:
            found = InputFile(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
        except (TypeError, ValueError) as error:
            raise InvalidValue(
                f"Task.inputs: the file {name!r} takes bytes, text, a Path or JSON data: {error}"
            ) from None
    if len(found.data) > left:
        raise InvalidValue(_too_large(name))
    return found


def _value(name: str, given: Any, language: str) -> Any:
    if not name.isidentifier() and language != "rtfs":
        raise InvalidValue(f"Task.inputs: {name!r} is neither a file's name, as 'sales.csv' is, nor a variable's")
    try:
        return crossed(given)
    except CannotCross as error:
        raise InvalidValue(error.within(f"Task.inputs[{name!r}]")) from None


def _content(name: str, path: Path, left: int) -> bytes:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise InvalidValue(f"Task.inputs: {name!r}: {path} is no regular file")
            data = b"" if about.st_size > left else file.read(left + 1)
    except IsADirectoryError:
        raise InvalidValue(
            f"Task.inputs: {name!r}: {path} is a directory; give its files, or mount it by a policy"
        ) from None
    except OSError as error:
        raise InvalidValue(f"Task.inputs: {name!r}: {path} cannot be read: {error.strerror}") from None
    if about.st_size > left or len(data) > left:
        raise InvalidValue(_too_large(name))
    return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # else a named pipe would wait for a writer


def _too_large(name: str) -> str:
    most = f"{MOST_INPUT_BYTES // 2**20} MiB"
    return f"Task.inputs: with {name!r} the files have more than {most}; mount their directory by a policy instead"
