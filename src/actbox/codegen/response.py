"""The response of a coding agent as a model, and its schema for models with structured output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from actbox.codeact.blocks import only_block_of
from actbox.codeact.model import ToolSpec
from actbox.content.safe_text import encodable

Form = Literal["json", "call", "blocks", "code", "words", "nothing", "html", "unknown_tool", "cut", "too_long"]
"""The form of a reply. The first four have a program: JSON text, a tool call, fenced blocks, or the code alone."""

_SUFFIXES: Final = {
    **{"python": "py", "javascript": "js", "typescript": "ts", "bash": "sh", "rust": "rs", "c++": "cpp", "c#": "cs"},
    **{"kotlin": "kt", "ruby": "rb", "perl": "pl", "julia": "jl"},
}
"""The suffixes of source files in languages whose name is not their suffix."""
_MOST_FILES: Final = 200
_MOST_NAME: Final = 40
"""The most characters of the name of a language."""
_LANGUAGES: Final = {
    **dict.fromkeys(("python", "py", "ipython"), "python"),
    **dict.fromkeys(("javascript", "js", "node", "nodejs", "node.js", "mjs", "cjs", "jsx"), "javascript"),
    **dict.fromkeys(("typescript", "ts", "tsx"), "typescript"),
    **dict.fromkeys(("rtfs", "clojure", "clj", "lisp"), "rtfs"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "shell-session"), "bash"),
    **dict.fromkeys(("go", "golang"), "go"),
    **dict.fromkeys(("rust", "rs"), "rust"),
    **dict.fromkeys(("c++", "cpp", "cxx", "cc", "hpp", "hh"), "c++"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("c#", "csharp", "cs"), "c#"),
    **{name: name for name in ("java", "kotlin", "ruby", "php", "perl", "r", "julia", "swift", "lua", "sql")},
    **{suffix: language for language, suffix in _SUFFIXES.items()},
}
_COMMENT_MARKS: Final = {
    **dict.fromkeys(("", "python", "ruby", "r", "perl", "julia", "bash"), "#"),
    **dict.fromkeys(("lua", "sql"), "--"),
    "rtfs": ";",
}
"""The characters that begin a comment line; // in any other language."""


def language_named(text: str) -> str:
    """Return a language by the name that somebody wrote, such as `Python3` or `js`; "" for no language."""
    return _LANGUAGES.get(text.strip().lower().rstrip("0123456789. \t"), "")


def language_called(text: str) -> str:
    """Return a language by the name that somebody wrote; a name that is not known stays, in lower case."""
    return language_named(text) or text.strip().lower()[:_MOST_NAME]


def language_of_file(path: str) -> str:
    """Return the language of a source file by the suffix of its path; "" for other files."""
    return language_named(PurePosixPath(path).suffix.removeprefix("."))


def suffix_of(language: str) -> str:
    """Return the suffix of a language's source files, with its dot."""
    return f".{_SUFFIXES.get(language, language)}"


class CodingResponse(BaseModel):
    """The answer of a coding agent: a program, and what it says about it.

    `code` is the source of the program, or of its main file; `files` are the other files, or all of them, by path. Both
    are empty if the reply had no program. Other fields of a model's JSON are left out.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    code: str = ""
    files: Mapping[str, str] = Field(default_factory=dict)
    language: str = ""
    dependencies: tuple[str, ...] = ()
    entry_point: str = ""
    input_parsing: str = ""
    output_format: str = ""
    explanation: str = ""
    tests: str = ""
    estimated_runtime_ms: int | None = None
    form: Form = Field(default="json", exclude=True)
    noted: tuple[str, ...] = Field(default=(), exclude=True)
    """Sentences on how the reply was read, such as that it was code alone."""
    call_id: str = Field(default="", exclude=True)
    """The id of the tool call that the response came in, "" if it came as text."""

    @property
    def has_program(self) -> bool:
        """True if the reply had a program."""
        return bool(self.code.strip() or any(map(str.strip, self.files.values())))

    @property
    def source(self) -> str:
        """The whole source as one text; each of several files stands below a line with its path."""
        if not self.files:
            return self.code
        named = {**({"": self.code} if self.code else {}), **self.files}
        mark = self.comment_mark
        return "\n".join(f"{mark} file: {path}\n{text.rstrip()}\n" if path else text for path, text in named.items())

    @property
    def comment_mark(self) -> str:
        """The characters that begin a comment line in the program's language."""
        return _COMMENT_MARKS.get(self.language, "//")

    @property
    def sources(self) -> tuple[str, ...]:
        """The texts of the files that are code."""
        return (self.code, *(text for path, text in self.files.items() if language_of_file(path)))

    # Models do not always keep to a schema, and what they mean is often plain.

    @field_validator("code", "tests", "explanation", "input_parsing", "output_format", "entry_point", mode="before")
    @classmethod
    def _text(cls, given: Any) -> Any:
        if given is None:
            return ""
        if isinstance(given, list) and all(isinstance(line, str) for line in given):
            given = "\n".join(line.rstrip("\n") for line in given)
        return encodable(given) if isinstance(given, str) else given

    @field_validator("code", "tests")
    @classmethod
    def _without_fence(cls, given: str) -> str:
        block = only_block_of(given) if given.lstrip().startswith(("```", "~~~")) else None
        return given if block is None else block

    @field_validator("files", mode="before")
    @classmethod
    def _by_path(cls, given: Any) -> Any:
        if isinstance(given, Sequence) and not isinstance(given, str):
            given = {
                _either(one, "path", "name", "filename"): _either(one, "content", "code", "source") for one in given
            }
        if not given:
            return {}
        if not isinstance(given, Mapping) or len(given) > _MOST_FILES:
            raise ValueError(f"files is a list of at most {_MOST_FILES} files with path and content")
        return {safe_path(path): encodable(text) if isinstance(text, str) else text for path, text in given.items()}

    @field_validator("dependencies", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = re.split(r"[,\n]", given)
        if isinstance(given, Mapping):
            given = [
                name if version in ("", "*", "latest", None) else f"{name}{version}" for name, version in given.items()
            ]
        if not isinstance(given, Sequence):
            return []
        return [one.strip() for one in given if isinstance(one, str) and one.strip()]

    @field_validator("language", mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        return language_called(given) if isinstance(given, str) else ""

    @field_validator("estimated_runtime_ms", mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        if isinstance(given, str) and (found := re.fullmatch(r"\s*~?\s*([0-9]{1,9})\s*(?:ms)?\s*", given)):
            given = int(found[1])
        return int(given) if isinstance(given, int | float) and 0 <= given < 1e12 else None


def _either(given: Any, *names: str) -> Any:
    found = next((given[name] for name in names if name in given), None) if isinstance(given, Mapping) else None
    if not isinstance(found, str):
        raise ValueError(f"a file has {names[0]!r} as text")
    return found


def safe_path(given: Any) -> str:
    """Return a file's relative path in its plain form. Raises `ValueError` for one that leaves its directory."""
    path = PurePosixPath(given) if isinstance(given, str) else PurePosixPath()
    if not path.parts or path.is_absolute() or ".." in path.parts or not str(path).isprintable():
        raise ValueError(f"{given!r:.80} is no path of a program's file, such as 'app/main.py'")
    return str(path)


def json_in(text: str) -> Any:
    """Return the JSON data that a model's text is, `None` if it is none."""
    try:
        return json.loads(text, strict=False)  # models leave line ends in strings as they are
    except (ValueError, RecursionError):
        return None


def schema_field(kind: str, description: str, **more: Any) -> dict[str, Any]:
    """Return the JSON Schema of a field that a model fills in."""
    return {"type": kind, "description": description, **more}


TEXT_SCHEMA: Final = {"type": "string"}
_FILE: Final = {
    "type": "object",
    "properties": {
        "path": schema_field("string", "Its path, such as app/main.py."),
        "content": schema_field("string", "Its text."),
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}
_FIELDS: Final = {
    "code": schema_field("string", "The whole program, or its main file; empty if all files are in `files`."),
    "files": schema_field("array", "Further files of the program; mostly none.", items=_FILE),
    "language": schema_field("string", "The language of the program."),
    "dependencies": schema_field(
        "array", "Packages that it needs beside the standard library, such as pandas>=2.", items=TEXT_SCHEMA
    ),
    "entry_point": schema_field("string", "The call that starts it, such as main(); empty if it starts by itself."),
    "input_parsing": schema_field("string", "How it gets its inputs: files by name, first argument, stdin, variables."),
    "output_format": schema_field("string", "What it leaves, and where."),
    "explanation": schema_field("string", "One or two sentences on how it works."),
    "tests": schema_field("string", "Tests of it for pytest; may be empty."),
    "estimated_runtime_ms": schema_field("integer", "How long it will run, in milliseconds."),
}
RESPONSE: Final = ToolSpec(
    "write_code",
    "Answer with a program, which is then run.",
    {"type": "object", "properties": _FIELDS, "required": list(_FIELDS), "additionalProperties": False},
)
"""The response as a schema: for a model's structured output, and as a tool for models that prefer calls."""
