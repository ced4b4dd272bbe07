"""Obedience to the protocol: constraints before a program runs, requirements and examples as checks after it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.result import ExecutionResult

from .dependencies import dependencies_of
from .prompts import value_text
from .response import CodingResponse
from .task import ANY_LANGUAGE, Check, Example, FileCheck, Task

_shown: Final = partial(value_text, most=200)
_MOST_REQUIREMENT_CHARS: Final = 1_000
_CLOSE: Final = 1e-9
_ENDINGS: Final = (
    "png|jpe?g|gif|webp|svg|pdf|csv|tsv|jsonl?|ndjson|html?|md|txt|log|xlsx|parquet|db|sqlite3?|zip|xml|ya?ml|toml|npy"
)
_FILE_NAME: Final = re.compile(
    rf"(?<![\w/.*-])(?:/?(?:workspace/)?output/)?([\w-]+(?:[./][\w-]+)*\.(?:{_ENDINGS}))(?![\w/])", re.IGNORECASE
)
_NEGATED: Final = re.compile(r"\b(?:no|not|never|without|avoid|nothing)\b[^.,;:]*\Z|n't\b[^.,;:]*\Z", re.IGNORECASE)
"""Words by which a requirement forbids what follows them."""
_STDOUT: Final = re.compile(r"\b(?:stdout|standard output|prints?|printed|console)\b", re.IGNORECASE)
_FORMATS: Final[Mapping[str, tuple[tuple[str, ...], bytes]]] = {
    r"png": ((".png",), b"\x89PNG\r\n"),
    r"jpe?g": ((".jpg", ".jpeg"), b"\xff\xd8\xff"),
    r"gif": ((".gif",), b"GIF8"),
    r"webp": ((".webp",), b"RIFF"),
    r"svg": ((".svg",), b""),
    r"pdf": ((".pdf",), b"%PDF-"),
    r"csv": ((".csv",), b""),
    r"tsv": ((".tsv",), b""),
    r"json(?: lines|l)": ((".jsonl", ".ndjson"), b""),
    r"json": ((".json",), b""),
    r"html": ((".html", ".htm"), b""),
    r"markdown": ((".md", ".markdown"), b""),
    r"excel|xlsx": ((".xlsx",), b"PK\x03\x04"),
    r"parquet": ((".parquet",), b"PAR1"),
    r"sqlite": ((".db", ".sqlite", ".sqlite3"), b"SQLite format 3\0"),
    r"zip": ((".zip",), b"PK"),
}
"""The file formats that a requirement may name, with the suffixes of such files and their first bytes."""
_A_FILE: Final = re.compile(
    r"\b(?:file|image|picture|chart|plot|figure|workbook|spreadsheet|document|table)s?\b", re.IGNORECASE
)


def lines_of(response: CodingResponse) -> int:
    """Return the number of lines of a program that are neither blank nor a comment alone, of all its files."""
    lines = (line.strip() for source in response.sources for line in source.split("\n"))
    return sum(bool(line) and not line.startswith(response.comment_mark) for line in lines)


def broken_constraints(response: CodingResponse, task: Task) -> tuple[str, ...]:
    """Return what a program breaks of a task's language and constraints, in sentences for its author."""
    bounds, problems = task.constraints, []
    if not _may_be_in(task.language, response.language):
        problems.append(f"The program is in {response.language}; write it in {task.language}.")
    if bounds.max_lines is not None and (lines := lines_of(response)) > bounds.max_lines:
        problems.append(f"The program has {lines} lines of code; at most {bounds.max_lines} are allowed.")
    packages = dependencies_of(response)
    named = ", ".join(packages)
    if not bounds.dependencies_allowed and packages:
        problems.append(f"No dependencies are allowed, and the program needs {named}: use the standard library alone.")
    elif bounds.max_dependencies is not None and len(packages) > bounds.max_dependencies:
        most = bounds.max_dependencies
        problems.append(f"The program needs {len(packages)} dependencies ({named}); at most {most} are allowed.")
    expected = response.estimated_runtime_ms
    if bounds.timeout_ms is not None and expected is not None and expected > bounds.timeout_ms:
        problems.append(f"The program is said to run for {expected} ms; it has {bounds.timeout_ms} ms: make it faster.")
    return tuple(problems)


def constraint_error(problems: Iterable[str]) -> ErrorInfo:
    """Return the error of a program that was not run because it breaks constraints; its author may mend it."""
    return ErrorInfo(
        kind=ErrorKind.TYPE,  # found before the program ran, so it counts as a `syntax_error`
        type="ConstraintBroken",
        message=" ".join(problems),
        hint="keep to the task's constraints, and send the whole program again",
    )


def required_checks(task: Task) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return the checks that a task's outputs and output requirements become, and the requirements that become none.

    A requirement becomes a check if it names a file, a format of files, or the standard output.
    """
    checks: list[Check] = [FileCheck(name) for name in task.outputs]
    left = []
    for text in task.output_requirements:
        found = _checks_of(text)
        checks += [one for one in found if one not in checks]
        if not found:
            left.append(text)
    return tuple(checks), tuple(left)


def example_problem(example: Example, result: ExecutionResult, answer: Any = None) -> str:
    """Return why a run on an example's input did not have its output, "" if it had.

    The output is the value of the program's last expression, or `answer` if the program gave one, or what it printed.
    Numbers may differ in the last digits, and text in white space at its ends.
    """
    wanted = example.expected_output
    given = f"for the input {_shown(example.input)}"
    if result.error is not None:
        return f"{given} the program failed: {result.error.type or result.error.kind.value}: {result.error.message}"
    if result.exit_code:
        return f"{given} the program ended with exit code {result.exit_code}"
    printed = result.stdout.strip()
    found = [one for one in (answer, result.value) if one is not None]
    last = printed.rpartition("\n")[2]
    said = [printed, last, *_parsed(printed), *_parsed(last)] if printed else [] if found else [None]
    if any(is_same(one, wanted) for one in [*found, *said]):
        return ""
    had = _shown(found[0]) if found else _shown(printed) if printed else "nothing"
    return f"{given} the output was {had} instead of {_shown(wanted)}"


def is_same(found: Any, wanted: Any) -> bool:
    """Return True if two values are equal as JSON data, or as text."""
    if isinstance(wanted, bool) or isinstance(found, bool) or wanted is None or found is None:
        return found is wanted or ((isinstance(wanted, str) or isinstance(found, str)) and str(found) == str(wanted))
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return found == wanted or math.isclose(found, wanted, rel_tol=_CLOSE)
    if isinstance(found, str) and isinstance(wanted, str):
        return found.strip() == wanted.strip()
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        names = {str(name): value for name, value in found.items()}
        return names.keys() == {str(name) for name in wanted} and all(
            is_same(names[str(name)], value) for name, value in wanted.items()
        )
    if isinstance(wanted, str) and isinstance(found, int | float):
        return str(found) == wanted.strip()
    return bool(found == wanted)


def value_schema(value: Any, depth: int = 6) -> dict[str, Any]:
    """Return the JSON Schema of a value as it came out of a run; {} for what JSON has no type for."""
    if value is None or isinstance(value, bool | int | float | str):
        names = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
        return {"type": names[type(value)]} if type(value) in names else {}
    if depth and isinstance(value, list | tuple):
        items = [value_schema(one, depth - 1) for one in value[:100]]
        different = [one for at, one in enumerate(items) if one not in items[:at]]
        if len(different) > 1:
            return {"type": "array", "items": {"anyOf": different}}
        return {"type": "array", **({"items": different[0]} if different else {})}
    if depth and isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        fields = {name: value_schema(one, depth - 1) for name, one in list(value.items())[:100]}
        return {"type": "object", "properties": fields, "required": list(fields)}
    return {}


def output_schema(result: ExecutionResult, answer: Any = None) -> dict[str, Any]:
    """Return what came out of a run, as a JSON Schema of its answer, the types of its files, and whether it printed."""
    value = result.value if answer is None else answer
    found: dict[str, Any] = {} if value is None else {"value": value_schema(value)}
    if result.artifacts:
        found["files"] = {one.name: one.media_type for one in result.artifacts}
    return {**found, "prints": bool(result.stdout.strip())}


def _may_be_in(asked: str, language: str) -> bool:
    """Return True if a program in a language is one in the language asked for. JavaScript is TypeScript too."""
    return language in ("", asked) or asked == ANY_LANGUAGE or (asked, language) == ("typescript", "javascript")


def _checks_of(text: str) -> list[Check]:
    text = text[:_MOST_REQUIREMENT_CHARS]
    found: list[Check] = [FileCheck(one[1]) for one in _FILE_NAME.finditer(text) if not _is_negated(text, one)]
    if stdout := _STDOUT.search(text):
        if not _is_negated(text, stdout):
            found.append(prints_something)
    elif not found:
        for words, (suffixes, begin) in _FORMATS.items():
            named = re.search(rf"\b(?:{words})\b", text, re.IGNORECASE)
            if named and not _is_negated(text, named) and (_A_FILE.search(text) or len(text.split()) <= 3):
                found.append(_writes(words, suffixes, begin))
                break
    return found


def _is_negated(text: str, found: re.Match[str]) -> bool:
    """Return True if a requirement forbids what it names, as in `no output on stdout` and `prints nothing`."""
    after = text[found.end() :].lstrip().lower()
    return bool(_NEGATED.search(text[: found.start()])) or after.startswith(("nothing", "no "))


def prints_something(result: ExecutionResult) -> bool | str:
    """Check that a program has printed something."""
    return bool(result.stdout.strip()) or "the program printed nothing, and the task asks for printed output"


def _writes(words: str, suffixes: tuple[str, ...], begin: bytes) -> Callable[[ExecutionResult], bool | str]:
    kind = suffixes[0].removeprefix(".").upper()

    def writes_a_file(result: ExecutionResult) -> bool | str:
        named = [one for one in result.artifacts if one.name.lower().endswith(suffixes)]
        if not named:
            return f"the program wrote no {kind} file below output/"
        fine = any(one.data.startswith(begin) and one.data for one in named)
        return fine or f"{named[0].name} is not {kind} by its content"

    writes_a_file.__name__ = f"writes_{kind.lower()}_file"
    return writes_a_file


def _parsed(text: str) -> list[Any]:
    """Return the JSON data that a text is, in a list, or an empty list."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return []
