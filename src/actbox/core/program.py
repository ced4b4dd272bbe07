"""`Program`: code to run, with its language, inputs and files."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from .errors import InvalidValue
from .labels import PUBLIC, Label, label_of
from .lazy_dataclass import dataclass
from .policy import check_variables
from .values import CannotCross, crossed

MAX_SOURCE_BYTES = 8 * 2**20
_NOT_IN_A_NAME = frozenset("/\0\n")
_RTFS_NAME = re.compile(r"(?![0-9]|[+-][0-9]|(?:true|false|nil)\Z)[\w$+\-*/=<>!?%][\w$+\-*/=<>!?%.@]*")


@dataclass(frozen=True, slots=True)
class Program:
    """Code to run, with its language, inputs and files.

    `inputs` are values bound as variables before the first line runs: JSON data, and the types of the tagged form.
    `files` are placed below `/input` (`{"sales.csv": b"…"}` is read as `input/sales.csv`). `name` is the file name in
    tracebacks. `cwd` is the directory in which the program starts and from which it imports first, relative to the
    working directory, which is the default. `env` are environment variables added to those of the policy; directories
    in its `PYTHONPATH` must lie below `/workspace` or a mount. In a session both apply to later programs too.
    `dependencies` are requirements (PEP 508) of the program, such as `("pandas>=2.2", "openpyxl")`, beside those of a
    script block in its source (PEP 723); what the environment lacks is installed if the policy's `packages` allow it.
    Later programs of the same session have them too. `label` is the label of the code, inputs and files: whoever runs
    the program has read them.

    Raises `InvalidValue` for a name that cannot be a variable, a value that cannot cross, a path that leaves `/input`,
    a variable that cannot be set, or source of more than 8 MiB. Source with a syntax error raises nothing here: its run
    ends with `ErrorKind.SYNTAX`.
    """

    code: str
    language: str = "python"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    name: str = "program.py"
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    label: Label | str = PUBLIC  # a `Label` once the program is made

    def __post_init__(self) -> None:
        if not isinstance(self.code, str):
            raise InvalidValue(f"Program.code must be text, not {type(self.code).__name__}")
        if len(self.code) > MAX_SOURCE_BYTES or len(self.code.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
            raise InvalidValue(
                f"Program.code has more than {MAX_SOURCE_BYTES // 2**20} MiB; pass data as inputs or files instead"
            )
        for field_name, given, example in (
            ("inputs", self.inputs, "{'rows': [1, 2]}"),
            ("files", self.files, "{'sales.csv': b'1,2'}"),
        ):
            if type(given) is not dict and not isinstance(given, Mapping):
                raise InvalidValue(f"Program.{field_name} is a dict such as {example}, not {type(given).__name__}")
        inputs: dict[str, Any] = {}
        for name, value in self.inputs.items():
            if not isinstance(name, str) or not _can_be_variable(name, self.language):
                raise InvalidValue(f"Program.inputs: {name!r} cannot be the name of a variable")
            try:
                inputs[name] = crossed(value)
            except CannotCross as error:
                raise InvalidValue(error.within(f"Program.inputs[{name!r}]")) from None
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "files", {_file_name(k): _content(k, v) for k, v in self.files.items()})
        if not isinstance(self.name, str) or not self.name or not _NOT_IN_A_NAME.isdisjoint(self.name):
            raise InvalidValue(f"Program.name must be a file name such as 'program.py', not {self.name!r}")
        if not isinstance(self.cwd, str) or "\0" in self.cwd or (self.cwd and not can_be_bytes(self.cwd)):
            raise InvalidValue(f"Program.cwd must be a path such as 'data', not {self.cwd!r}")
        object.__setattr__(self, "env", {} if self.env == {} else check_variables(self.env))
        if self.dependencies != ():
            object.__setattr__(self, "dependencies", _requirements(self.dependencies))
        if self.label is not PUBLIC:
            object.__setattr__(self, "label", label_of(self.label, "Program.label"))


def _can_be_variable(name: str, language: str) -> bool:
    if language == "rtfs":
        return _RTFS_NAME.fullmatch(name) is not None
    return name.isidentifier() and not keyword.iskeyword(name)


def _requirements(given: object) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidValue(f"Program.dependencies is a list such as ['openpyxl'], not {given!r}")
    named = tuple(given)
    for one in named:
        if not isinstance(one, str):
            raise InvalidValue(f"Program.dependencies: {one!r} must be a requirement as text, such as 'openpyxl>=3.1'")
    return named


def can_be_bytes(text: str) -> bool:
    """Return True if a process can take a text as an argument or variable, encoded as UTF-8 with `surrogateescape`.

    Python represents the bytes of a name that is not UTF-8 as lone surrogates (PEP 383).
    """
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _file_name(name: str) -> str:
    path = PurePosixPath(name) if isinstance(name, str) else PurePosixPath()
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise InvalidValue(f"Program.files: {name!r} must be a path below /input such as 'sales.csv'")
    return str(path)


def _content(name: str, content: bytes | str) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InvalidValue(f"Program.files[{name!r}] must be bytes or text, not {type(content).__name__}")
    return bytes(content)
