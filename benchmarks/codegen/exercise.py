"""`Exercise`: a goal, inputs that a seed makes, the right answer, and two programs, of which one only looks right."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from math import isclose
from random import Random
from textwrap import dedent
from typing import Any, Final

from actbox.core.counted import counted
from actbox.core.result import ExecutionResult

UNCHECKED: Final = object()
"""The answer of a case that has none."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An exercise with its data: the inputs, and all that is right about the result.

    Bytes among the `inputs` are files; other values are variables of the program. `answer` is compared with the
    program's answer: numbers within `tolerance`, which for whole numbers does not matter, and tuples like lists.
    `files` are compared with the artifacts of these names: `.json` and `.csv` by content, other text by lines; a
    function takes the file's bytes and returns what is wrong with it, or "". `outside` returns what is wrong with what
    the tools have done, or "". `tests` is the source of pytest tests for the program's names, in place of an answer.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = UNCHECKED
    tolerance: float = 1e-6
    files: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Callable[..., Any]] = ()
    outside: Callable[[], str] = lambda: ""
    tests: str = ""

    def check(self, result: ExecutionResult) -> bool | str:
        """Return True if a result is right, else a sentence. The sentence names the place, never the right value."""
        found = "" if self.answer is UNCHECKED else difference(result.value, self.answer, "the answer", self.tolerance)
        by_name = {artifact.name: artifact.data for artifact in result.artifacts}
        for name, expected in self.files.items():
            found = found or _wrong_file(name, by_name.get(name), expected, self.tolerance)
        return found or self.outside() or True


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A task of the evaluation. `case` makes its data with a random generator of the given seed.

    `right` and `wrong` are programs; both are empty if nobody has written any.
    """

    name: str
    group: str
    goal: str
    make: Callable[[Random], Case]
    right: str = ""
    wrong: str = ""

    def case(self, seed: int) -> Case:
        """Return the exercise with the data of a seed: the same seed makes the same data, for tools with new state."""
        return self.make(Random(f"{seed} {self.name}"))

    @property
    def has_other_data(self) -> bool:
        """True if another seed makes other data, so that a program can be tried with it."""
        return not self.case(0).tests and bool(self.right)


class Group:
    """A list of exercises, to which `@group.exercise(…)` adds one. The decorated function makes its data."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exercises: list[Exercise] = []

    def exercise(self, *, goal: str, right: str, wrong: str) -> Callable[[Callable[[Random], Case]], None]:
        """Add an exercise with the name of the decorated function; the texts may be indented."""

        def add(make: Callable[[Random], Case]) -> None:
            name = make.__name__.replace("_", " ")
            texts = {"goal": " ".join(goal.split()), "right": _program(right), "wrong": _program(wrong)}
            self.exercises.append(Exercise(name=name, group=self.name, make=make, **texts))

        return add


def difference(found: Any, expected: Any, where: str, tolerance: float) -> str:
    """Return where a value differs from the expected one, or "". The expected value itself is never in it."""
    found = _plain(found)
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return f"{where} is not a dict"
        if missing := [key for key in expected if key not in found]:
            return f"{where} lacks {counted(len(missing), 'key')}"
        if extra := [key for key in found if key not in expected]:
            return f"{where} has the key {str(extra[0])[:100]!r}, which does not belong there"
        pairs: Iterable[tuple[Any, Any, Any]] = ((repr(key), found[key], value) for key, value in expected.items())
    elif isinstance(expected, list | tuple):
        if not isinstance(found, list | tuple):
            return f"{where} is not a list"
        if len(found) != len(expected):
            return f"{where} has {len(found)} items, which are too {'few' if len(found) < len(expected) else 'many'}"
        pairs = ((number, *both) for number, both in enumerate(zip(found, expected, strict=True)))
    else:
        return "" if _same(found, expected, tolerance) else f"{where} is wrong: {str(found)[:100]!r}"
    places = (difference(one, other, f"{where}[{place}]", tolerance) for place, one, other in pairs)
    return next(filter(None, places), "")


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Return a CSV file, its lines ended by a line feed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def json_bytes(value: Any) -> bytes:
    """Return a JSON file."""
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


def text_bytes(lines: Iterable[str]) -> bytes:
    """Return a text file of these lines, each ended by a line feed."""
    return "".join(f"{line}\n" for line in lines).encode()


def shuffled(random: Random, values: Iterable[Any]) -> list[Any]:
    """Return the values in another order."""
    found = list(values)
    random.shuffle(found)
    return found


def _program(text: str) -> str:
    return dedent(text).strip() + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, date):  # a datetime too
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _same(found: Any, expected: Any, tolerance: float) -> bool:
    numbers = isinstance(found, int | float) and isinstance(expected, int | float)
    if numbers and not isinstance(found, bool) and not isinstance(expected, bool):
        return isclose(found, expected, rel_tol=1e-9, abs_tol=tolerance)
    return type(found) is type(expected) and bool(found == expected)


def _wrong_file(name: str, data: bytes | None, expected: Any, tolerance: float) -> str:
    if data is None:
        return f"there is no file {name}"
    if callable(expected):
        return str(expected(data))
    if isinstance(expected, bytes):
        return "" if data == expected else f"{name} has other bytes than it should have"
    try:
        text = data.decode()
        if name.endswith(".json"):
            return difference(json.loads(text), expected, name, tolerance)
    except ValueError as error:
        return f"{name} cannot be read: {type(error).__name__}"
    if name.endswith(".csv"):
        rows = [list(map(_number_or_text, row)) for row in csv.reader(text.splitlines()) if row]
        wanted = [[_number_or_text(str(cell)) for cell in row] for row in expected]
        return difference(rows, wanted, name, tolerance)
    return difference([line.rstrip() for line in text.rstrip().splitlines()], list(expected), name, tolerance)


def _number_or_text(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell
