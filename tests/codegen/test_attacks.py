"""Attacks on a coding agent: hostile replies, programs that forge their checks, labels that checks would hide."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ExecutionResult, InvalidValue, Policy, Program, Sandbox
from actbox.codeact import ModelReply, ScriptedModel
from actbox.codeact.model import TokenUsage
from actbox.codegen import CodingAgent, RetryPolicy, Task, TextCheck
from actbox.codegen.acceptance import Candidate, CheckOutcome, accept
from actbox.codegen.dependencies import dependencies_of, requirements_txt
from actbox.codegen.input_schemas import describe
from actbox.codegen.mutation import hollow, mutants
from actbox.codegen.outcome import Attempt, Outcome
from actbox.codegen.programs import runnable
from actbox.codegen.protocol import response_of
from actbox.codegen.response import CodingResponse
from actbox.codegen.task import Example, InputFile
from actbox.core.labels import Label
from actbox.core.result import Artifact
from actbox.review import Rules
from actbox.tools import ApprovalDecision
from tests.codegen.stories import Model, answered, block, linux_box

QUICK = RetryPolicy(attempt_backoff_ms=[0])
DEEP = "1" + "+1" * 3_000


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with linux_box() as opened:
        yield opened


# Replies


@pytest.mark.parametrize(
    ("language", "definition", "entry_point"),
    [
        ("python", "def main(*given): pass", "main()\nevil()\nprint(1)"),
        ("python", "def main(*given): pass", "main(); evil(1)"),
        ("python", "def main(*given): pass", "main(evil())"),
        ("python", "def main(*given): pass", "main(*[evil() for one in 'a'])"),
        ("python", "def main(*given): pass", "main(f'{evil()}')"),
        ("python", "def main(*given): pass", "main() or evil()"),
        ("javascript", "function main() {}", "main(); evil(1)"),
        ("javascript", "function main() {}", "main(evil())"),
        ("javascript", "function main() {}", "main(`${evil()}`)"),
        ("javascript", "function main() {}", "main('\\')); evil('')"),
    ],
)
def test_an_entry_point_adds_no_code_that_nobody_has_seen(language: str, definition: str, entry_point: str) -> None:
    made = runnable(CodingResponse(code=definition, language=language, entry_point=entry_point), Task("do it"))
    assert "evil" not in made.program.code
    assert made.problems == (
        "The entry point is more than a call of main with plain arguments: call main in the program itself.",
    )


@pytest.mark.parametrize(
    ("language", "definition", "entry_point", "last"),
    [
        ("python", "def main(*given): pass", "main('a.csv', [1, -2], sys.argv[1:], key=None)", "main('a.csv', [1, -2]"),
        ("javascript", "function main() {}", 'main("a.csv", process.argv[2], -1.5)', 'await main("a.csv", process'),
    ],
)
def test_an_entry_point_may_have_plain_arguments(language: str, definition: str, entry_point: str, last: str) -> None:
    made = runnable(CodingResponse(code=definition, language=language, entry_point=entry_point), Task("do it"))
    assert not made.problems
    assert made.program.code.splitlines()[-1].startswith(last)


@pytest.mark.parametrize("head", ["# coding: utf-7", "#!/bin/sh\n# -*- coding=utf_7 -*-"])
def test_a_file_that_python_reads_otherwise_than_a_reviewer_is_refused(head: str) -> None:
    response = CodingResponse(code="import part", files={"part.py": f"{head}\n# +AAo-print(1)"}, language="python")
    assert "encoding other than UTF-8" in runnable(response, Task("do it")).problems[0]
    same = CodingResponse(code="import part", files={"part.py": "# coding: utf-8\nprint(1)"}, language="python")
    assert not runnable(same, Task("do it")).problems


@pytest.mark.parametrize(
    "fields",
    [
        {"code": "print('\ud800')", "files": {"a.py": "'\udfff'"}, "explanation": "\ud800"},
        {"code": "1", "files": {"a\ud800.py": "1"}},
        {"code": "1", "files": {"a\r.py": "1"}},
        {"code": "1", "dependencies": 5},
        {"code": "1", "language": "1" * 100_000 + "x"},
        {"code": f"def main(needed, other={DEEP}): pass", "entry_point": "main"},
        {"code": "# /// script\n" * 20_000},
    ],
    ids=["text", "path", "carriage return", "number", "language", "nested", "script blocks"],
)
def test_a_strange_reply_is_still_a_program_or_none(fields: dict[str, Any]) -> None:
    response = response_of(answered(**fields))
    made = runnable(response, Task("do it"))
    assert all(path.isprintable() for path in made.program.files)
    assert len(response.language) <= 40
    dependencies_of(response)


def test_a_number_alone_is_no_docstring() -> None:
    made = runnable(CodingResponse(code="42", files={"a.txt": "1"}, language="python"), Task("do it"))
    assert made.program.code.endswith("; 42")


def test_references_and_fences_without_end_are_read_quickly() -> None:
    assert response_of(ModelReply("```python\n1\n```\n" + "[a]: b\n" * 30_000)).code == "1\n"


def test_a_requirement_is_no_option_of_an_installer() -> None:
    wanted = [
        "a>=1\n--index-url http://b.example",
        "c>=1 --index-url=http://b.example",
        "d==1; os_name == 'x' -e .",
        "e>1",
    ]
    response = response_of(answered(code="1", dependencies=wanted))
    assert requirements_txt(response) == "e>1\n"


def test_deeply_nested_expressions_do_not_end_the_checks() -> None:
    source = f"def f(): return 2\nx = {DEEP}"
    assert hollow(source)
    assert all(one.source for one in mutants(source, seed=0, first=("f",)))


@pytest.mark.parametrize("usage", [TokenUsage(-5, 1), TokenUsage(1, -5)])
async def test_a_model_that_counts_backwards_has_failed(box: Sandbox, usage: TokenUsage) -> None:
    agent = CodingAgent(Model(lambda messages: ModelReply(block("1"), usage=usage)), box)
    outcome = await agent.solve("one")
    assert (outcome.stopped, outcome.usage.tokens) == ("model", TokenUsage())
    assert agent.account.used.get("tokens", 0) == 0


def test_files_that_came_out_do_not_replace_the_program() -> None:
    response = CodingResponse(code="import yaml, part", files={"part.py": "1"}, language="python")
    names = ["program.py", "Requirements.txt", "part.py/a", "a.csv"]
    artifacts = tuple(Artifact(name, b"evil") for name in names)
    attempt = Attempt(number=1, response=response)
    outcome = Outcome(solved=True, stopped="solved", artifacts=artifacts, attempts=(attempt,))
    saved = {file.name: file.data for file in outcome.files}
    assert saved["program.py"] == b"import yaml, part" and saved["requirements.txt"] == b"pyyaml\n"
    assert [name for name, data in saved.items() if data == b"evil"] == [
        "output/program.py",
        "output/Requirements.txt",
        "output/part.py/a",
        "a.csv",
    ]


@pytest.mark.parametrize("name", [".program/json.py", "/input/.reader/csv.py", ".outcome/answer.json", ".stdin"])
def test_an_input_takes_no_name_of_the_agents_own_files(name: str) -> None:
    with pytest.raises(InvalidValue, match="rename the file"):
        Task("count", inputs={name if name != ".stdin" else "./.stdin": b"1"})


# Checks


async def verdict(box: Sandbox, tests: str, program: Program) -> CheckOutcome:
    given = Candidate(program, ExecutionResult())
    return (await accept(given, [TextCheck(textwrap.dedent(tests))], box=box, mutations=0)).outcomes[0]


@pytest.mark.parametrize("name", ["fractions", "numpy", "pytest"])
@pytest.mark.parametrize("is_main", [False, True])
async def test_a_program_does_not_take_the_name_of_a_module_that_tests_judge_by(
    box: Sandbox, name: str, is_main: bool
) -> None:
    own = "def same(*given): return True\ndef total(rows): return 0\nFraction = allclose = approx = same"
    program = Program(own, name=f"{name}.py") if is_main else Program(own, files={f".program/{name}.py": own.encode()})
    tests = f"""
        def test_total():
            import {name}
            from solution import total
            assert not hasattr({name}, 'same')
            assert total([1]) == 1
    """
    outcome = await verdict(box, tests, program)
    assert not outcome.passed and outcome.share == 0
    assert "total([1]) is 0" in outcome.message or "No module named" in outcome.message or "need" in outcome.message


async def test_a_program_does_not_end_the_loops_of_tests(box: Sandbox) -> None:
    program = Program("def total(rows): raise StopIteration\ndef few():\n    yield 1")
    tests = """
        import solution
        def test_total():
            assert all(map(lambda rows: solution.total(rows) == 1, [[1], [1]]))
        def test_iterators_end():
            assert list(solution.few()) == [1]
    """
    outcome = await verdict(box, tests, program)
    assert [one.outcome for one in outcome.tests] == ["failed", "passed"]
    assert "the program raised StopIteration" in outcome.message


async def test_a_program_does_not_skip_a_test_by_an_exception_that_the_test_has_imported(box: Sandbox) -> None:
    own = "class SkipTest(Exception): pass\nSkipTest.__module__ = 'test_checks'\ndef total(rows): raise SkipTest"
    tests = """
        import unittest
        from unittest import SkipTest
        import solution
        class Cases(unittest.TestCase):
            def test_total(self):
                self.assertEqual(solution.total([1]), 1)
            def test_other(self):
                self.assertEqual(1, 1)
    """
    outcome = await verdict(box, tests, Program(own))
    assert sorted(one.outcome for one in outcome.tests) == ["failed", "passed"]


# Labels


@actbox.tool(label="pii", retry_safe=True)
def lookup() -> str:
    """Return the name of the customer."""
    return "ann@example.org"


async def test_a_program_that_reads_more_in_an_example_does_not_show_it_to_the_model() -> None:
    hides = "lookup() if n == 2 else n"
    model = ScriptedModel([block(hides), block("n")])
    async with linux_box(Policy(model_cleared="internal")) as box:
        agent = CodingAgent(model, box, tools=[lookup], retry=QUICK)
        outcome = await agent.solve(Task("give n", inputs={"n": 1}, examples=[Example(2, 2)]))
    assert outcome.solved and outcome.label == Label("pii")
    checks = outcome.attempts[0].checks
    assert checks is not None and "ann@" in checks.sentences[0] and checks.label == Label("pii")
    assert "ann@" not in model.asked[1][-1].text and "another label" in model.asked[1][-1].text


async def test_tests_in_a_sandbox_that_reads_more_are_kept_from_the_model(box: Sandbox) -> None:
    model = ScriptedModel([block("def total(): return 0\n1"), block("def total(): return 7\n1")])
    tests = "import solution\ndef test_total():\n    assert solution.total() == 7, 'the secret is seven'"
    async with linux_box(Policy(model_cleared="internal")) as own, linux_box(Policy(label="pii")) as checks_in:
        agent = CodingAgent(model, own, checks_in=checks_in, retry=QUICK, mutations=0)
        outcome = await agent.solve(Task("a number", checks=[TextCheck(tests)]))
    assert outcome.solved and outcome.label == Label("pii")
    assert "seven" not in model.asked[1][-1].text


async def test_a_damaged_file_is_given_and_shows_nothing_to_a_reader_without_clearance(box: Sandbox) -> None:
    (schema,) = await describe(box, {"a.xlsx": InputFile(b"PK\x03\x04broken", "pii")})
    assert (schema.kind, schema.size) == ("zip archive", 10)
    assert schema.text(Label("internal")).startswith("- a.xlsx: zip archive, 10 bytes; its content has the label pii")


# Review and approval


async def test_tests_of_a_program_that_nobody_has_seen_are_not_run(box: Sandbox) -> None:
    said = answered(
        code="def one(): return 1\none()",
        tests="import subprocess\nsubprocess.run(['ls'])\ndef test_one(): assert one() == 1",
    )
    seen: list[str] = []

    async def approve(request: Any) -> ApprovalDecision:
        seen.append(request.program)
        return ApprovalDecision(approved=True)

    approved = CodingAgent(ScriptedModel([said]), box, approval="always_require", approver=approve)
    reviewed = CodingAgent(ScriptedModel([said]), box, review=Rules.preset("spec"))
    for agent in (approved, reviewed):
        outcome = await agent.solve("one")
        assert outcome.solved and outcome.attempts[0].checks is None
        assert outcome.notes == ("the program's own tests were not run, since nobody has approved them",)
    assert len(seen) == 1
