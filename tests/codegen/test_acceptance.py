"""Checks of candidates: functions of the host, schemas, files, tests; programs that cheat; and the choice."""

from __future__ import annotations

import struct
import textwrap
import zlib
from typing import Any

import pytest

from actbox import ErrorInfo, ErrorKind, ExecutionResult, Program, Sandbox
from actbox.codegen.acceptance import Acceptance, Candidate, CheckOutcome, accept, choose
from actbox.codegen.task import Check, FileCheck, SchemaCheck, TextCheck
from actbox.core.result import Artifact, Usage
from tests.conftest import engine_check


@pytest.fixture
def engine() -> str:
    """The engine of these tests: `test_text_checks.py` has others."""
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    return "linux"


PROGRAM = textwrap.dedent(
    """\
    import collections

    class Stack:
        def __init__(self, *items):
            self.items = list(items)
        def push(self, item):
            self.items.append(item)
            return self
        def __len__(self):
            return len(self.items)
        def __eq__(self, other):
            return self.items == other.items
        def __mul__(self, times):
            return Stack(*self.items * times)

    class Refused(ValueError):
        def __init__(self, code):
            super().__init__(f"refused with {code}")
            self.code = code

    Point = collections.namedtuple("Point", "x y")

    def total(rows):
        return sum(rows)

    def twice(rows):
        return 2 * total(rows)

    def sort(rows):
        rows.sort()

    def apply(function, value):
        return function(value)

    def upto(count):
        yield from range(count)

    def refuse(code):
        raise Refused(code)

    def point():
        return Point(1, {2: {"a", None}})

    async def later(value):
        return [value]

    def loop():
        rows = []
        rows.append(rows)
        return rows

    def shout(words):
        print(words.upper())

    if __name__ == "__main__":
        print(total([1, 2]))
    """
)


def candidate(code: str = PROGRAM, **result: Any) -> Candidate:
    return Candidate(Program(code), ExecutionResult(**result), result.get("value"))


async def verdict(box: Sandbox, check: Check, given: Candidate | None = None, **more: Any) -> CheckOutcome:
    (outcome,) = (await accept(given or candidate(), [check], box=box, **more)).outcomes
    return outcome


def line_of(text: str) -> int:
    return PROGRAM[: PROGRAM.index(text)].count("\n") + 1


def written(source: str, **more: Any) -> TextCheck:
    return TextCheck(textwrap.dedent(source), **more)


# Functions of the host and schemas


def exits(result: ExecutionResult) -> bool:
    raise SystemExit("no")


async def is_three_later(result: ExecutionResult) -> bool:
    return result.value == 3


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (lambda result: result.value == 3, ""),
        (is_three_later, ""),
        (lambda result: "", ""),
        (lambda result: result.value == 4, "the check returned a value that is not true"),
        (lambda result: "three is odd", "three is odd"),
        (lambda result: result.artifact("a.txt"), "KeyError: \"no artifact 'a.txt'; there are: none\""),
        (exits, "SystemExit: no"),
        (lambda result: None, "the check returned None; it has to return true, or false or the problem in words"),
    ],
)
async def test_a_function_says_whether_a_result_is_right(box: Sandbox, check: Check, problem: str) -> None:
    outcome = await verdict(box, check, candidate(value=3))
    assert (outcome.passed, outcome.message) == (not problem, problem)


async def test_an_answer_fits_its_schema_or_the_place_is_named(box: Sandbox) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    check = SchemaCheck(schema)
    assert (await verdict(box, check, candidate(value={"total": 3, "more": None}))).passed
    outcome = await verdict(box, check, candidate(value={"total": "three"}))
    assert not outcome.passed and "total" in outcome.message


# Files


def png(width: int = 2) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0" + bytes(width))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.slow
async def test_files_hold_what_their_names_say(box: Sandbox) -> None:
    files = {
        "chart.png": png(),
        "cut.png": png()[:-20],
        "page.png": b"<!doctype html><p>chart",
        "empty.csv": b"",
        "rows.csv": b"a,b\n1,2\n",
        "data.json": b'{"a": 1}',
        "notes.txt": b"a note",
    }
    given = candidate(artifacts=tuple(Artifact(name, data) for name, data in files.items()))
    checks = [*map(FileCheck, files), FileCheck("missing.csv"), FileCheck("notes.txt", "application/json")]
    verdicts = (await accept(given, checks, box=box)).outcomes
    problems = [outcome.message for outcome in verdicts]
    assert problems[0] == problems[4] == problems[5] == problems[6] == ""
    assert problems[1].startswith("/output/cut.png cannot be opened: ")
    assert problems[2] == "/output/page.png holds html, not image/png"
    assert problems[3] == "/output/empty.csv is empty"
    assert problems[7].startswith("the program has written no file /output/missing.csv; it wrote chart.png, ")
    assert problems[8] == "/output/notes.txt holds text, not application/json"


# Tests


PASSING = {
    "functions": "from solution import total\ndef test_total():\n    assert total([1, 2]) == 3",
    "statements with bare names": "assert total([1, 2]) == 3\nassert total([]) == 0",
    "a star import": "from program import *\ndef test_total():\n    assert total(range(3)) == 3",
    "a case of unittest": """
        import unittest, solution
        class Cases(unittest.TestCase):
            def test_total(self):
                self.assertEqual(solution.total([1.5, 2]), 3.5)
    """,
    "a class": "import main\nclass TestTotal:\n    def test_it(self):\n        assert main.total([3]) == 3",
    "changed arguments": "rows = [2, 1]\nsort(rows)\nassert rows == [1, 2]",
    "functions of the tests": "assert apply(lambda value: value + 1, 2) == 3",
    "a generator": "assert list(upto(3)) == [0, 1, 2]",
    "its classes": """
        def test_stack():
            stack = Stack(1).push(2)
            assert len(stack) == 2 and stack.items == [1, 2] and isinstance(stack, Stack)
            assert stack == Stack(1, 2) and stack != Stack() and (stack * 2).items == [1, 2, 1, 2]
    """,
    "its exceptions": """
        def test_refusal():
            try:
                refuse(7)
            except Refused as error:
                assert isinstance(error, ValueError) and error.code == 7 and str(error) == "refused with 7"
            else:
                raise AssertionError
    """,
    "values of the standard library": "assert point() == (1, {2: {'a', None}}) and point().x == 1",
    "coroutines": """
        import asyncio
        async def test_later():
            assert await later(1) == [1]
        def test_run():
            assert asyncio.run(later(2)) == [2]
    """,
    "lists that stay with the program": "rows = loop()\nassert rows[0] is not None and len(rows[0]) == 1",
    "statements in a block": "for count in range(2):\n    assert total([count]) == count",
    "printed words": """
        import contextlib, io
        def test_shout():
            with contextlib.redirect_stdout(io.StringIO()) as said:
                shout("yes")
            assert said.getvalue() == "YES\\n"
    """,
    "replaced functions": """
        from unittest import mock
        @mock.patch("solution.total")
        def test_decorated(fake):
            fake.return_value = 4
            assert twice([1]) == 8
            fake.assert_called_once_with([1])
        def test_patched():
            with mock.patch("solution.sum", create=True, side_effect=len) as fake:
                import solution
                assert solution.total([5, 5]) == 2
            assert fake.call_count == 1 and solution.total([5, 5]) == 10
    """,
}


@pytest.mark.parametrize("source", PASSING.values(), ids=PASSING)
async def test_tests_use_the_program_as_if_it_were_here(box: Sandbox, source: str) -> None:
    outcome = await verdict(box, written(source), mutations=0)
    assert (outcome.passed, outcome.message) == (True, "")


async def test_the_examples_of_a_doctest_are_tests(box: Sandbox) -> None:
    source = """
        >>> total([1, 2])
        3
        >>> shout("no")
        NO
        >>> total([1])
        2
        >>> refuse(1)
        Traceback (most recent call last):
        ValueError: refused with 1
    """
    outcome = await verdict(box, written(source, kind="doctest"))
    assert [test.outcome for test in outcome.tests] == ["passed", "passed", "failed", "failed"]
    assert outcome.message.startswith("2 of 4 tests failed: total([1]): expected 2, got 1; ")
    assert outcome.share == 0.5


async def test_a_failure_names_the_line_the_value_and_the_line_of_the_program(box: Sandbox) -> None:
    source = "def test_total():\n    assert total([1, 2]) == 4\ndef test_refuse():\n    refuse(1)\n"
    outcome = await verdict(box, written(source))
    assert outcome.message == (
        "2 of 2 tests failed: test_total: line 2 `assert total([1, 2]) == 4`: total([1, 2]) is 3; "
        f"test_refuse: line 4 `refuse(1)`: Refused in line {line_of('raise Refused')} of the program: refused with 1"
    )


@pytest.mark.slow
async def test_fixtures_and_marks_of_pytest_work_where_pytest_is(box: Sandbox) -> None:
    source = """
        import pytest
        from solution import *

        @pytest.mark.parametrize(("rows", "expected"), [([1], 1), ([1, 2], 3), ([1, 2], 4)])
        def test_total(rows, expected):
            assert total(rows) == expected

        def test_shout(capsys, tmp_path):
            shout("yes")
            assert capsys.readouterr().out == "YES\\n"

        async def test_later():
            assert await later(1) == [1]

        @pytest.mark.skip
        def test_skipped():
            refuse(1)

        def test_refuse():
            with pytest.raises(Refused, match="with 7"):
                refuse(7)
    """
    outcome = await verdict(box, written(source))
    if outcome.message.startswith("the tests need pytest"):
        pytest.skip(outcome.message)
    found = [test.outcome for test in outcome.tests]
    assert found == ["passed", "passed", "failed", "passed", "passed", "skipped", "passed"]
    assert "total(rows) is 3" in outcome.message


@pytest.mark.slow
async def test_arrays_and_tables_are_copied(box: Sandbox) -> None:
    pytest.importorskip("pandas")
    code = """
        import numpy as np, pandas as pd

        def means(table):
            return table.groupby("region")["amount"].mean()

        def doubled(array):
            return array * 2

        def table():
            days = pd.to_datetime(["2024-01-01", "2024-01-02"])
            return pd.DataFrame({"day": days, "name": ["a", None], "amount": [1.5, float("nan")]}, index=["x", "y"])
    """
    source = """
        def test_means():
            table = pd.DataFrame({"region": ["n", "s", "n"], "amount": [1, 2, 3]})
            expected = pd.Series([2.0, 2.0], index=pd.Index(["n", "s"], name="region"), name="amount")
            pd.testing.assert_series_equal(means(table), expected)

        def test_doubled():
            assert isinstance(doubled(np.arange(3)), np.ndarray)
            np.testing.assert_array_equal(doubled(np.arange(4).reshape(2, 2)), [[0, 2], [4, 6]])
            assert doubled(np.float64(1.5)) == 3

        def test_table():
            days = pd.to_datetime(["2024-01-01", "2024-01-02"])
            expected = pd.DataFrame({"day": days, "name": ["a", None], "amount": [1.5, float("nan")]}, index=["x", "y"])
            pd.testing.assert_frame_equal(table(), expected)
    """
    outcome = await verdict(box, written(source), candidate(textwrap.dedent(code)), mutations=0)
    assert (outcome.passed, outcome.message) == (True, "")


async def test_tests_read_the_inputs_the_files_and_the_answer_of_the_run(box: Sandbox) -> None:
    code = "rows = open('input/rows.txt').read().split()\nopen('output/t.txt', 'w').write(str(len(rows)))\n"
    code += "print(len(rows))\nrows"
    program = Program(code, files={"rows.txt": b"a b"})
    result = await box.run_alone(program)
    source = """
        import json
        def test_outcome():
            rows = open("input/rows.txt").read().split()
            assert json.load(open("answer.json")) == rows
            assert open("output/t.txt").read() == open("stdout.txt").read().strip() == str(len(rows))
    """
    outcome = await verdict(box, written(source), Candidate(program, result, result.value))
    assert (outcome.passed, outcome.can_fail) == (True, True)


async def test_further_files_of_a_program_are_its_modules(box: Sandbox) -> None:
    files = {".program/shop/__init__.py": b"", ".program/shop/sums.py": b"def total(rows):\n    return sum(rows)\n"}
    program = Program("from shop.sums import total\ntotal([1])", files=files)
    source = "from shop.sums import total\nimport shop.sums\nassert total([1, 2]) == shop.sums.total([3]) == 3"
    outcome = await verdict(box, written(source), Candidate(program, ExecutionResult()), mutations=0)
    assert (outcome.passed, outcome.message) == (True, "")


async def test_a_program_that_cannot_be_imported_says_why_and_its_files_are_tested_all_the_same(
    box: Sandbox,
) -> None:
    given = candidate("rows = search('sales')\ndef total(rows):\n    return 0", artifacts=(Artifact("a.txt", b"a"),))
    outcome = await verdict(box, written("assert total([]) == 0"), given)
    assert outcome.message.endswith("the program cannot be imported: NameError: name 'search' is not defined (line 1)")
    assert (await verdict(box, written("assert open('output/a.txt').read() == 'a'"), given, mutations=0)).passed


async def test_a_program_in_another_language_is_tested_by_its_outcome(box: Sandbox) -> None:
    given = Candidate(Program("1 + 1", "javascript"), ExecutionResult(value=2), 2)
    assert (await verdict(box, written("assert open('answer.json').read() == '2'"), given)).passed
    assert "No module named 'solution'" in (await verdict(box, written("import solution\n"), given)).message


# Programs that cheat

TESTS = """
    import unittest, solution
    from solution import *
    def test_total():
        assert solution.total([1, 2]) == 3
    class Cases(unittest.TestCase):
        def test_close(self):
            self.assertAlmostEqual(solution.total([0.1, 0.2]), 0.3)
"""
EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __sub__(self, other): return DISTANCE
    __rsub__ = __sub__
    def __abs__(self): return self
    def __round__(self, digits=0): return 0
    def __le__(self, other): return True
    __lt__ = __ge__ = __gt__ = __le__
def total(rows): return Equal()
"""
CHEATS = {
    "ends at once": "import os\nos._exit(0)",
    "ends when it is called": "import os\ndef total(rows): os._exit(0)",
    "exits": "def total(rows): raise SystemExit(0)",
    "equals anything": EQUAL.replace("DISTANCE", "0"),
    "has no distance from anything": EQUAL.replace("DISTANCE", "self"),
    "is a number that equals anything": (
        "class Equal(float):\n    def __eq__(self, other): return True\ndef total(rows): return Equal(9)"
    ),
    "changes the test runner": (
        "import unittest, builtins, sys\nunittest.TestCase.assertAlmostEqual = lambda *given: None\n"
        "builtins.AssertionError = RuntimeError\nsys.modules['pytest'] = None\ndef total(rows): return 0"
    ),
    "writes a conftest": "open('conftest.py', 'w').write('import os; os._exit(0)')\ndef total(rows): return 0",
    "prints a report": "print('2 passed')\ndef total(rows):\n    print({'tests': [['a', 'passed', '']]})\n    return 0",
    "skips": "import unittest\ndef total(rows): raise unittest.SkipTest('later')",
    "skips by a name": (
        "class SkipTest(Exception): pass\nSkipTest.__module__ = 'unittest.case'\ndef total(rows): raise SkipTest"
    ),
    "sends a report": (
        "import sys\ndef total(rows):\n    send = sys.modules['__main__'].exchange\n"
        "    send({'tests': [['a', 'passed', '']], 'needs': ''})\n    return send({'gone': ''})"
    ),
    "sends nonsense": (
        "import sys\nfor each in (1, [], {'do': 1}, {'value': 2}):\n    sys.modules['__main__'].exchange(each)"
    ),
    "brings tests and words of its own": (
        "def test_total(): pass\ndef len(x): return 0\ndef all(x): return True\ndef total(rows): return 0"
    ),
    "looks for the tests": (
        "import os\ndef total(rows):\n    for path, _, names in os.walk('/workspace'):\n        for name in names:\n"
        "            if b'test_' + b'total' in open(os.path.join(path, name), 'rb').read():\n"
        "                return sum(rows)\n    return 0"
    ),
}


@pytest.mark.parametrize("code", CHEATS.values(), ids=CHEATS)
async def test_a_program_cannot_forge_its_verdict(box: Sandbox, code: str) -> None:
    outcome = await verdict(box, written(TESTS), candidate(code))
    assert not outcome.passed
    assert outcome.share == 0 and outcome.message


async def test_a_program_that_does_not_answer_fails_its_tests(box: Sandbox) -> None:
    sleeping = candidate("import time\ndef total(rows):\n    while True: time.sleep(60)")
    outcome = await verdict(box, written("def test_total():\n    total([])"), sleeping, seconds=0.5)
    assert not outcome.passed
    # On a machine that is slow enough the tests' own time is over first.
    assert "did not answer within 0.25 s" in outcome.message or "the tests did not end" in outcome.message


async def test_a_lost_program_fails_also_a_test_that_expects_any_error(box: Sandbox) -> None:
    source = "def test_total():\n    try:\n        total([])\n    except BaseException:\n        pass"
    outcome = await verdict(box, written(source), candidate("import os\ndef total(rows): os._exit(0)"))
    assert "the program ended before it answered, with exit code 0" in outcome.message


async def test_the_program_can_only_call_what_a_test_gives_it(box: Sandbox) -> None:
    code = "def apply(function, value):\n    return function.__globals__"
    outcome = await verdict(box, written("assert apply(lambda value: value, 1)"), candidate(code))
    assert not outcome.passed and "AttributeError" in outcome.message
    code = "def apply(function, value):\n    return function.func_globals"
    outcome = await verdict(box, written("assert apply(lambda value: value, 1)"), candidate(code))
    assert "the program may not read func_globals" in outcome.message


@pytest.mark.parametrize("words", ["import output.helper", "import sys; sys.path.append('output'); import helper"])
async def test_a_file_that_the_program_wrote_is_not_imported_beside_the_tests(box: Sandbox, words: str) -> None:
    given = candidate("1", artifacts=(Artifact("helper.py", b"import os\nos._exit(0)"),))
    outcome = await verdict(box, written(f"{words}\nassert True"), given)
    assert "tests import no file of the workspace" in outcome.message


async def test_tests_that_end_their_own_sandbox_have_no_report(box: Sandbox) -> None:
    outcome = await verdict(box, written("import os\nos._exit(0)"))
    assert outcome.message == "the tests ended without a report"
    outcome = await verdict(box, written("x = 1"))
    assert outcome.message == "no test was run"


# Weights, and tests that cannot fail


@pytest.mark.slow
async def test_tests_by_the_author_count_less_and_do_not_reject(box: Sandbox) -> None:
    wrong = "assert total([1]) == 2"
    checks = [written(wrong, written_by=writer) for writer in ("author", "model", "caller")]
    for check, accepted in zip(checks, (True, False, False), strict=True):
        verdicts = await accept(candidate(), [check, lambda result: True], box=box)
        assert verdicts.accepted is accepted
        assert bool(verdicts.sentences) is not accepted
        assert len(verdicts.failed) == 1
    weights = [(await verdict(box, check)).weight for check in checks]
    assert weights == sorted(set(weights))


async def test_of_a_program_with_nothing_to_change_nobody_knows_whether_its_test_can_fail(box: Sandbox) -> None:
    outcome = await verdict(box, written("assert Empty is not None"), candidate("class Empty: pass"))
    assert (outcome.passed, outcome.can_fail, outcome.weight) == (True, None, 1.0)


@pytest.mark.slow
async def test_a_test_that_cannot_fail_has_no_weight(box: Sandbox) -> None:
    source = "def test_total():\n    try:\n        total([1])\n    except Exception:\n        pass\n    assert True"
    outcome = await verdict(box, written(source, written_by="model"))
    assert (outcome.passed, outcome.can_fail, outcome.weight) == (True, False, 0.0)
    assert str(outcome) == "generated tests (pytest, check 1): passes whatever the program does"


async def test_a_test_that_can_fail_is_seen_by_a_fault(box: Sandbox) -> None:
    outcome = await verdict(box, written("assert total([1]) is not None"))
    assert (outcome.can_fail, outcome.weight) == (True, 1.0)
    assert outcome.mutant == f"line {line_of('return sum(rows)')}, where `sum(rows)` became `None`"


async def test_a_program_that_used_tools_is_not_run_again_with_a_fault(box: Sandbox) -> None:
    given = Candidate(Program("send('words')"), ExecutionResult(stdout="sent", usage=Usage(tool_calls=1)))
    outcome = await verdict(box, written("assert open('stdout.txt').read() == 'sent'"), given)
    assert (outcome.passed, outcome.can_fail) == (True, None)


# The choice

FAILED = ExecutionResult(exit_code=1, error=ErrorInfo(kind=ErrorKind.RUNTIME))


def judged(answer: Any, share: float = 1.0, cost: float = 1.0, result: ExecutionResult | None = None) -> Candidate:
    outcome = CheckOutcome(check=FileCheck("a"), name="a", passed=share == 1, share=share)
    result = result or ExecutionResult(value=answer)
    return Candidate(Program(""), result, answer, cost=cost, acceptance=Acceptance((outcome,)))


def test_the_choice_goes_by_tests_then_agreement_then_cost() -> None:
    first = "the first of equals"
    assert choose([judged(1, 0.5), judged(2), judged(1, 0.5)]) == (1, "it ran and passed its checks")
    assert choose([judged(1, 0.2), judged(2, 0.5), judged(1, 0.2)]) == (1, "it passed more of its tests")
    assert choose([judged(1), judged(2), judged(2, cost=0.5)]) == (2, "2 of 3 candidates agree, and it cost least")
    assert choose([judged(1, cost=0.1), judged(2), judged(2)]) == (1, f"2 of 3 candidates agree, and {first}")
    assert choose([judged(2, result=FAILED), judged(1), judged(2, result=FAILED)])[0] == 1
    assert choose([judged(1), judged(1)]) == (0, first)
    assert choose([judged(1)]) == (0, "the only candidate that succeeded")
    with pytest.raises(ValueError, match="at least one"):
        choose([])


def test_candidates_agree_if_their_answers_are_equal_but_for_the_last_digits() -> None:
    assert choose([judged("b", cost=0.1), judged({"x": 0.1 + 0.2}), judged({"x": 0.3})])[0] == 1
    assert choose([judged(2), judged(1.0), judged(1)])[0] == 1
    printed = [Candidate(Program(""), ExecutionResult(stdout=text)) for text in ("1  2\n", "1 2")]
    assert choose([judged("a"), *printed])[0] == 1


def test_candidates_agree_by_their_files_too() -> None:
    def with_file(data: bytes) -> Candidate:
        return Candidate(Program(""), ExecutionResult(artifacts=(Artifact("a.csv", data),)))

    assert choose([with_file(b"1"), with_file(b"2"), with_file(b"2")])[0] == 1
    assert choose([with_file(b"1"), with_file(b"2"), with_file(b"1")])[0] == 0
