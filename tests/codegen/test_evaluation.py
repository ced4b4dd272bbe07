"""The evaluation of coding agents: its exercises, the public sets that it reads, and its report."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import actbox
from actbox import Sandbox, Tool
from actbox.capabilities import TokenPrice
from actbox.codeact.blocks import fenced
from actbox.codeact.model import ScriptedModel
from actbox.core.errors import InvalidValue
from actbox.core.result import Artifact, ExecutionResult
from benchmarks.codegen.__main__ import main
from benchmarks.codegen.exercise import Case, Exercise, difference, run_alone
from benchmarks.codegen.exercises import EXERCISES
from benchmarks.codegen.m3tooleval import m3_tool_eval
from benchmarks.codegen.public_sets import big_code_bench, human_eval, mbpp
from benchmarks.codegen.record import Record
from benchmarks.codegen.report import Report, keep, tables
from benchmarks.codegen.solving import solve, solve_scripted
from tests.conftest import engine_check

MACHINE = dict.fromkeys(["date", "processors", "processor", "kernel", "python", "load", "actbox"], "")


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the programs run in the linux engine, which does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as opened:
        yield opened


# The project's own exercises


def test_each_exercise_says_what_it_gives_and_wants() -> None:
    assert len(EXERCISES) >= 60
    assert len({exercise.name for exercise in EXERCISES}) == len(EXERCISES)
    assert min(Counter(exercise.group for exercise in EXERCISES).values()) >= 12
    for exercise in EXERCISES:
        case = exercise.case(0)
        named = [*case.inputs, *case.files, *(function.__name__ for function in (*case.lookups, *case.actions))]
        unnamed = [name for name in named if name not in exercise.goal and not name.startswith("app.log.")]
        assert unnamed == [], exercise.name
        assert exercise.right != exercise.wrong, exercise.name
        for function in (*case.lookups, *case.actions):
            assert Tool.from_function(function).description, function.__name__


def test_a_seed_makes_the_same_data_again_and_other_seeds_make_other_data() -> None:
    for exercise in EXERCISES:
        assert _data(exercise, 0) == _data(exercise, 0), exercise.name
        assert any(_data(exercise, 0) != _data(exercise, seed) for seed in range(1, 9)), exercise.name


def _data(exercise: Exercise, seed: int) -> list[Any]:
    case = exercise.case(seed)
    files = {name: expected for name, expected in case.files.items() if not callable(expected)}
    return [case.inputs, files, case.answer]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
async def test_each_right_program_passes_and_each_wrong_one_fails(box: Sandbox, seed: int) -> None:
    faults = {exercise.name: await run_alone(exercise.right, exercise.case(seed), box) for exercise in EXERCISES}
    assert {name: fault for name, fault in faults.items() if fault} == {}
    passed = [exercise.name for exercise in EXERCISES if not await run_alone(exercise.wrong, exercise.case(seed), box)]
    assert passed == []


# The check


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (41, 42),
        (True, 1),
        ("42", 42),
        (None, 0),
        ([1, 2], [1, 2, 77]),
        ((1, 3), [1, 77]),
        ({"a": 1}, {"a": 1, "hidden": 77}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": [0.1, {"b": 5}]}, {"a": [0.1, {"b": 77}]}),
        ("text", ["text"]),
        (3, {"a": 3}),
    ],
)
def test_a_wrong_answer_is_found_and_the_right_one_is_not_told(found: Any, expected: Any) -> None:
    fault = difference(found, expected, "the answer", 1e-6)
    assert fault.startswith("the answer")
    assert "77" not in fault and "hidden" not in fault


@pytest.mark.parametrize(
    ("found", "expected"),
    [((1, [2.0]), [1, (2,)]), (0.1 + 0.2, 0.3), (Decimal("1.5"), 1.5), ({"b": 1, "a": None}, {"a": None, "b": 1.0})],
)
def test_an_answer_may_have_another_type_of_the_same_meaning(found: Any, expected: Any) -> None:
    assert difference(found, expected, "the answer", 1e-6) == ""


def test_files_are_compared_by_content() -> None:
    files = {"a.json": {"x": [1]}, "b.csv": [("n", "m"), (1, "x")], "c.txt": ["one", "two"], "d.bin": b"\0"}
    right = {"a.json": b'{ "x":\n[1] }', "b.csv": b"n,m\r\n1.0,x\r\n", "c.txt": b"one \ntwo\n\n", "d.bin": b"\0"}
    wrong = {"a.json": b"{", "b.csv": b"n,m\n2,x\n", "c.txt": b"two\none\n", "d.bin": b"\1"}
    case = Case(files=files)
    assert case.check(_result(right)) == ""
    for name, data in wrong.items():
        assert name in case.check(_result({**right, name: data}))
        others = {key: value for key, value in right.items() if key != name}
        assert case.check(_result(others)) == f"there is no file {name}"


def _result(files: dict[str, bytes]) -> ExecutionResult:
    return ExecutionResult(artifacts=tuple(Artifact(name, data) for name, data in files.items()))


# Public sets, with tasks of our own in their forms

ADD = {
    "task_id": "HumanEval/7",
    "prompt": 'def plus(a, b):\n    """Return the sum."""\n',
    "canonical_solution": "    return a + b\n",
    "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n",
    "entry_point": "plus",
}
TWICE = {"task_id": 7, "text": "Write a function that doubles.", "code": "def twice(a):\r\n    return 2 * a"}
TWICE_TESTS = ["assert twice(2) == 4", "assert twice(math.inf) == math.inf"]
FIRST = {
    "task_id": "BigCodeBench/7",
    "instruct_prompt": "Write task_func, which returns the first word.",
    "complete_prompt": "import re\n\ndef task_func(text):\n",
    "canonical_solution": "    return re.split(' ', text)[0]\n",
    "test": dedent("""
        import unittest

        class TestCases(unittest.TestCase):
            def test_first(self):
                self.assertEqual(task_func("one two"), "one")
    """),
    "entry_point": "task_func",
}


def _public_sets(folder: Path) -> list[Exercise]:
    (folder / "HumanEval.jsonl.gz").write_bytes(gzip.compress(json.dumps(ADD).encode() + b"\n"))
    (folder / "mbpp.jsonl").write_text(
        json.dumps({**TWICE, "test_list": TWICE_TESTS, "test_setup_code": "import math", "challenge_test_list": []})
    )
    sanitized = {**TWICE, "prompt": TWICE["text"], "test_imports": ["import math"], "test_list": TWICE_TESTS}
    del sanitized["text"]
    (folder / "sanitized-mbpp.json").write_text(json.dumps([sanitized], indent=2))
    (folder / "BigCodeBench.jsonl").write_text(json.dumps(FIRST))
    found = [*human_eval(folder / "HumanEval.jsonl.gz"), *mbpp(folder / "mbpp.jsonl")]
    return [*found, *mbpp(folder / "sanitized-mbpp.json"), *big_code_bench(folder / "BigCodeBench.jsonl")]


def test_public_sets_are_read_in_their_own_forms(tmp_path: Path) -> None:
    exercises = _public_sets(tmp_path)
    assert [exercise.name for exercise in exercises] == ["HumanEval 7", "MBPP 7", "MBPP 7", "BigCodeBench 7"]
    assert "def plus(a, b):" in exercises[0].goal
    assert all(TWICE_TESTS[0] in exercise.goal for exercise in exercises[1:3])
    assert not any(TWICE_TESTS[1] in exercise.goal for exercise in exercises[1:3])


@pytest.mark.slow
async def test_the_tests_of_public_sets_pass_their_solutions_and_nothing_else(box: Sandbox, tmp_path: Path) -> None:
    for exercise in _public_sets(tmp_path):
        assert await run_alone(exercise.right, exercise.case(0), box) == "", exercise.name
        for wrong in (exercise.right.replace("return", "return None and"), "pass", "import sys\nsys.exit()"):
            assert await run_alone(wrong, exercise.case(0), box), exercise.name


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mbpp.jsonl"
    path.write_text(json.dumps(TWICE))
    with pytest.raises(InvalidValue, match="row 1 lacks test_list"):
        mbpp(path)
    for data in (b"no JSON", b"\xff", b"3"):
        path.write_bytes(data)
        with pytest.raises(InvalidValue, match=r"mbpp\.jsonl"):
            mbpp(path)
    with pytest.raises(InvalidValue, match="cannot be read"):
        human_eval(tmp_path / "missing.jsonl.gz")


M3 = {
    "tasks/__init__.py": "from .base import Task, get_task_iterator\nfrom .impl import bakery\n",
    "tasks/repl.py": "from IPython.core.interactiveshell import InteractiveShell\nfrom IPython.utils import io\n",
    "tasks/base.py": """
        from collections import namedtuple
        from tqdm import tqdm
        from .repl import io

        ToolType = namedtuple("ToolType", ["name", "description", "function", "fn_signature"])
        found = []

        class Task:
            def __init__(self, name, tools, instruction, expected_output, is_single_tool_task=True):
                self.name, self.instruction, self.expected_output = name, instruction, expected_output
                self.tools = tools() if callable(tools) else tools
                print(name)

        def get_task_iterator():
            progress = tqdm(total=len(found))
            for task in found:
                yield task
                progress.update(1)
    """,
    "tasks/impl/__init__.py": "",
    "tasks/impl/bakery.py": """
        from ..base import Task, ToolType, found

        def bake(cakes, *, each=2):
            if cakes > 9:
                raise ValueError("the oven is too small")
            return cakes * each

        def tools():
            baked = []
            return {
                "bake": ToolType("bake", "Bakes.", bake, "bake(cakes: int) -> int"),
                "remember": ToolType("remember", "Counts calls.", lambda: baked.append(1) or len(baked), "remember()"),
                "max": ToolType("max", "Finds the maximum.", max, "max(*args: float) -> float"),
            }

        for name in ("one", "two"):
            found.append(Task(f"bakery/{name}", tools, "Bake 3 cakes, and answer as xx.xx", 6.0041))
    """,
}


@pytest.mark.slow
async def test_the_tools_of_m3tooleval_run_in_a_sandbox_of_their_own(box: Sandbox, tmp_path: Path) -> None:
    for name, text in M3.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    async with m3_tool_eval(tmp_path, box) as exercises:
        assert [exercise.name for exercise in exercises] == ["M3ToolEval bakery/one", "M3ToolEval bakery/two"]
        one, two = (exercise.case(0) for exercise in exercises)
        tools = {tool.name: tool for tool in map(Tool.from_function, one.actions)}
        assert tools["bake"].description == "Bakes.\n\nbake(cakes: int) -> int"
        assert await run_alone("bake(3)", one, box) == ""
        assert await run_alone("str(bake(cakes=3))", one, box) == ""
        assert await run_alone("max(bake(2), bake(3, each=2), 1)", one, box) == ""
        assert "the answer is wrong" in await run_alone("bake(2)", one, box)
        assert "the oven is too small" in await run_alone("bake(10)", one, box)
        for case, expected in ((one, 1), (one, 2), (two, 1)):  # tools of one task share no state with another's
            counted = Case(answer=expected, actions=case.actions)
            assert await run_alone("remember()", counted, box) == ""


async def test_a_directory_that_is_not_m3tooleval_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="scripts/eval/m3tooleval"):
        async with m3_tool_eval(tmp_path, None):  # type: ignore[arg-type]  # no sandbox is needed
            raise AssertionError("it was loaded")


# The report

RECORDS = (
    Record(name="a", group="data", solved=True, holds=True, attempts=("",), forms=("blocks",), input_tokens=1000),
    Record(name="b", group="data", solved=True, holds=False, attempts=("check_failed", ""), forms=("json", "blocks")),
    Record(
        name="c",
        group="text",
        stopped="attempts",
        attempts=("no_code", "check_failed"),
        forms=("words", "unknown_tool"),
    ),
    Record(name="d", group="text", failure="TimeoutError: the provider", output_tokens=500),
)


def test_the_report_counts_by_group_by_class_of_error_and_by_form_of_the_answer() -> None:
    price = TokenPrice(input=2, output=8)
    groups, classes, forms = tables(Report("openai:some", MACHINE, 0, RECORDS, price)).values()
    assert groups[0][:5] == ["group", "exercises", "solved", "at first", "right for other data"]
    assert [row[:5] for row in groups[1]] == [
        ["data", "2", "2 (100%)", "1 (50%)", "1 of 2"],
        ["text", "2", "0 (0%)", "0 (0%)", "not tried"],
        ["all", "4", "2 (50%)", "1 (25%)", "1 of 2"],
    ]
    assert [row[groups[0].index("US dollars")] for row in groups[1]] == ["0.0020", "0.0040", "0.0060"]
    assert classes[1] == [["passed", "2", ""], ["check_failed", "2", "1 of 2"], ["no_code", "1", "0 of 1"]]
    assert forms[1] == [
        ["blocks", "code", "2", "40%"],
        ["json", "code", "1", "20%"],
        ["words", "words", "1", "20%"],
        ["unknown_tool", "a JSON call", "1", "20%"],
    ]


def test_every_record_is_kept(tmp_path: Path) -> None:
    keep(Report("", MACHINE, 3, RECORDS), tmp_path / "new" / "codegen.json")
    kept = json.loads((tmp_path / "new" / "codegen.json").read_text())
    assert (kept["model"], kept["seed"], kept["usd"]) == (None, 3, None)
    assert [Record(**{**each, "attempts": (), "forms": ()}).name for each in kept["records"]] == list("abcd")


# Solving


@pytest.mark.slow
async def test_a_scripted_model_is_wrong_first_and_right_then(box: Sandbox) -> None:
    for exercise in EXERCISES:
        found = await solve_scripted(exercise, box, seed=0)
        assert found.failure == "" and found.solved and found.holds, exercise.name
        assert len(found.attempts) == 2 and found.attempts[0] and not found.attempts[1], exercise.name
        assert found.forms == ("blocks", "blocks")
        assert found.machinery_ms is not None


@pytest.mark.slow
async def test_a_reply_without_code_is_an_attempt_and_a_model_that_fails_is_recorded(box: Sandbox) -> None:
    exercise = EXERCISES[0]
    model = ScriptedModel(["I would need the file first.", fenced(exercise.right, "python")])
    found = await solve(exercise, model, box, seed=0)
    assert found.solved and found.holds and not found.at_first
    assert (found.attempts, found.forms) == (("no_code", ""), ("words", "blocks"))

    class Broken:
        name = "broken"

        async def complete(self, messages: Any, tools: Any, *more: Any, **named: Any) -> Any:
            raise TimeoutError("the provider does not answer")

    found = await solve(exercise, Broken(), box, seed=0)
    assert (found.solved, found.stopped, found.attempts) == (False, "model", ())


def test_an_evaluation_of_nothing_is_refused_before_it_replaces_a_record(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--most", "0", "--results", str(tmp_path)])
    assert not list(tmp_path.iterdir())
