"""`Exercise`: a goal, inputs that a seed makes, the right answer, and two programs, of which one only looks right."""

from __future__ import annotations

import csv
import inspect
import io
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from math import isclose
from random import Random
from textwrap import dedent
from typing import Any, Final

from actbox import Program, Sandbox
from actbox.core.counted import counted
from actbox.core.result import ExecutionResult

Check = Callable[[ExecutionResult], str | Awaitable[str]]
"""A check of a result: it returns "" if the result is right, else a sentence."""

UNCHECKED: Final = object()
"""The answer of a case that has none."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An exercise with its data: the inputs, and all that is right about the result.

    Bytes among the `inputs` are files; other values are variables of the program. `answer` is compared with the
    program's answer: numbers within `tolerance`, and tuples like lists. `files` are compared with the artifacts of
    these names: `.json` and `.csv` by content, other text by lines, bytes as they are. In place of an answer or a file,
    a function takes the value or the bytes and returns a sentence on what is wrong, or "".

    Of the tools, `lookups` only read and `actions` do something; `outside` returns a sentence if they have done the
    wrong thing, or "". `tests` is source that runs after the program's own lines, in the same interpreter, and raises
    if the program is wrong.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = UNCHECKED
    tolerance: float = 1e-6
    files: Mapping[str, Any] = field(default_factory=dict)
    lookups: Sequence[Callable[..., Any]] = ()
    actions: Sequence[Callable[..., Any]] = ()
    outside: Callable[[], str] = lambda: ""
    tests: str = ""

    def check(self, result: ExecutionResult) -> str:
        """Return "" if a result is right, else a sentence, which names the place and never the right value."""
        found = "" if self.answer is UNCHECKED else self._wrong_answer(result.value)
        by_name = {artifact.name: artifact.data for artifact in result.artifacts}
        for name, expected in self.files.items():
            found = found or _wrong_file(name, by_name.get(name), expected, self.tolerance)
        return found or self.outside()

    def _wrong_answer(self, value: Any) -> str:
        if callable(self.answer):
            return str(self.answer(value))
        return difference(value, self.answer, "the answer", self.tolerance)

    def check_in(self, box: Sandbox) -> Check:
        """Return the check for results in a sandbox: `check`, or one that runs `tests` there."""
        if not self.tests:
            return self.check

        async def failing_tests(result: ExecutionResult) -> str:
            passed = secrets.token_hex(8)  # the last value, so that a program that ends early has not passed
            tested = await box.run_alone(f"{result.code}\n\n{self.tests}\n\n{passed!r}\n")
            if tested.value == passed:
                return ""
            return f"a test failed{f' with {tested.error.type}' if tested.error else ''}"

        return failing_tests


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A task of the evaluation. `right` and `wrong` are programs, empty where nobody has written one."""

    name: str
    group: str
    goal: str
    make: Callable[[Random], Case]
    right: str = ""
    wrong: str = ""

    def case(self, seed: int) -> Case:
        """Return the exercise with the data of a seed: the same seed makes the same data, for tools with new state."""
        return self.make(Random(f"{seed} {self.name}"))


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


async def run_alone(program: str, case: Case, box: Sandbox) -> str:
    """Run a program with a case's data, without an agent. Return "" if it is right, else a sentence."""
    files = {name: given for name, given in case.inputs.items() if isinstance(given, bytes)}
    values = {name: given for name, given in case.inputs.items() if name not in files}
    result = await box.run_alone(Program(program, inputs=values, files=files), tools=[*case.lookups, *case.actions])
    if not result.success:
        return f"the program failed: {result.error.type}: {result.error.message}" if result.error else "it failed"
    found = case.check_in(box)(result)
    return await found if inspect.isawaitable(found) else str(found)


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
