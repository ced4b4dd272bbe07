"""A program: the code to run, its language, and what it is given."""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from .errors import InvalidValue
from .policy import check_variables

MAX_SOURCE_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Program:
    """Code, and what it is given.

    `inputs` are JSON values bound as variables before the first line runs. `files` are placed below `/input`
    (`{"sales.csv": b"…"}` is read as `input/sales.csv`). `name` is the file name that tracebacks show. `cwd` is the
    folder that it starts in and imports from first: relative to the working folder, which it is unless told. `env` are
    environment variables beside those of the policy. In a session both stay for the programs after it.

    Raises `InvalidValue` for a name that cannot be a variable, a value that is no JSON, a path that leaves `/input`,
    a variable that cannot be set, or source of more than 8 MiB. Source that is not a program is no error here: its run
    ends with `ErrorKind.SYNTAX`.
    """

    code: str
    language: str = "python"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    name: str = "program.py"
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

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
            if not isinstance(given, Mapping):
                raise InvalidValue(f"Program.{field_name} is a dict such as {example}, not {type(given).__name__}")
        for name, value in self.inputs.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise InvalidValue(f"Program.inputs: {name!r} cannot be the name of a variable")
            try:
                json.dumps(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise InvalidValue(f"Program.inputs[{name!r}] is not a JSON value: {error}") from None
        object.__setattr__(self, "inputs", dict(self.inputs))
        object.__setattr__(self, "files", {_file_name(k): _content(k, v) for k, v in self.files.items()})
        if not isinstance(self.name, str) or not self.name or any(c in self.name for c in "/\0\n"):
            raise InvalidValue(f"Program.name must be a file name such as 'program.py', not {self.name!r}")
        if not isinstance(self.cwd, str) or "\0" in self.cwd:
            raise InvalidValue(f"Program.cwd must be a path such as 'data', not {self.cwd!r}")
        object.__setattr__(self, "env", check_variables(self.env))


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
