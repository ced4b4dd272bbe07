"""A coding agent in a real sandbox: stories of tasks that a model fails at first, and mends or does not."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ApprovalDecision, ApprovalRequest, InvalidValue, Policy, Sandbox
from actbox.codeact import ModelReply, ScriptedModel, ToolCall
from actbox.codegen import (
    CodingAgent,
    Constraints,
    ErrorClass,
    Example,
    InputFile,
    Profiles,
    RetryPolicy,
    Task,
    TextCheck,
)
from actbox.codegen.outcome import AttemptFinished, AttemptStarted, Finished, Outcome, Planned
from actbox.codegen.profiles import Profile
from actbox.core.packages import PackagePolicy, PackageRule, PackageRules
from actbox.review import Rules
from tests.codegen.stories import answered, block, linux_box, reply
from tests.conftest import engine_check

QUICK = RetryPolicy(attempt_backoff_ms=[0])
SALES = "region,amount\nnorth,1\nsouth,2\nnorth,3\n"
TOTALS = """\
import csv
total = {}
for row in csv.DictReader(open("input/sales.csv")):
    total[row["region"]] = total.get(row["region"], 0) + int(row["amount"])
open("output/totals.txt", "w").write(str(total))
total
"""


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with linux_box() as opened:
        yield opened


async def solved_by(replies: Sequence[str | ModelReply], box: Sandbox, task: Task | str, **options: Any) -> Outcome:
    """Return the outcome of a task with a model that gives these replies, asked without a delay."""
    options.setdefault("retry", QUICK)
    return await CodingAgent(ScriptedModel(replies), box, **options).solve(task)


# Each class of errors

FAILING = {
    ErrorClass.SYNTAX_ERROR: "def f{}(:\n    pass",
    ErrorClass.IMPORT_ERROR: "import no_such_package_{}",
    ErrorClass.RUNTIME_ERROR: "1 / 0 + {}",
    ErrorClass.TIMEOUT: "import time; time.sleep(60) # {}",
    ErrorClass.RESOURCE_EXHAUSTED: "print('x' * 10**8) # {}",
    ErrorClass.POLICY: "refused = {}",
    ErrorClass.CHECK_FAILED: "'wrong {}'",
}


def approve(request: ApprovalRequest) -> ApprovalDecision:
    return ApprovalDecision("refused" not in request.program, reason=request.program)


@pytest.mark.parametrize("error_class", FAILING)
async def test_a_model_that_mends_an_error_of_any_class_solves_the_task(box: Sandbox, error_class: ErrorClass) -> None:
    outcome = await solved_by(
        [reply(FAILING[error_class].format(1), 10, 2), reply("42", 20, 3)],
        box,
        Task("the answer", checks=[lambda result: result.value == 42]),
        retry=RetryPolicy(error_specific={error_class: 1}, attempt_backoff_ms=[0]),
        timeout=1 if error_class is ErrorClass.TIMEOUT else None,
        approval="always_require",
        approver=approve,
    )
    assert (outcome.solved, outcome.stopped, outcome.answer) == (True, "solved", 42)
    first, second = outcome.attempts
    assert (first.error_class, second.error_class) == (error_class, None)
    assert (first.code.strip(), second.code.strip()) == (FAILING[error_class].format(1), "42")
    assert first.result is not None and second.result is not None and second.result.success
    assert (first.tokens.input_tokens, second.tokens.output_tokens) == (10, 3)
    assert (outcome.usage.model_calls, outcome.usage.runs, outcome.usage.tokens.input_tokens) == (2, 2, 30)
    assert outcome.code.strip() == "42"


@pytest.mark.parametrize("error_class", FAILING)
@pytest.mark.parametrize("further", [0, 1])
async def test_a_model_that_does_not_is_stopped_as_the_policy_says(
    box: Sandbox, error_class: ErrorClass, further: int
) -> None:
    outcome = await solved_by(
        [block(FAILING[error_class].format(number)) for number in range(5)],
        box,
        Task("the answer", checks=[lambda result: result.value == 42]),
        retry=RetryPolicy(max_attempts=5, error_specific={error_class: further}, attempt_backoff_ms=[0]),
        timeout=0.4 if error_class is ErrorClass.TIMEOUT else None,
        approval="always_require",
        approver=approve,
    )
    assert (outcome.solved, outcome.stopped, outcome.answer) == (False, error_class.value, None)
    assert [attempt.error_class for attempt in outcome.attempts] == [error_class] * (further + 1)
    assert [attempt.number for attempt in outcome.attempts] == list(range(1, further + 2))
    assert outcome.reason and outcome.artifacts == ()


async def test_replies_without_code_are_attempts_and_end_the_story(box: Sandbox) -> None:
    outcome = await solved_by(["Sure!", "<html><body>502</body></html>", ""], box, "add")
    assert (outcome.stopped, [one.error_class for one in outcome.attempts]) == ("attempts", [ErrorClass.NO_CODE] * 3)
    assert [one.response.form for one in outcome.attempts] == ["words", "html", "nothing"]
    assert outcome.code == "" and outcome.last is None


async def test_every_attempt_says_why_it_failed(box: Sandbox) -> None:
    task = Task("add", checks=[lambda result: result.value == 3 or "not 3"])
    outcome = await solved_by(
        [block("1 / 0"), "Sure!", block("2"), block("3")], box, task, retry=RetryPolicy(max_attempts=4)
    )
    zero, words, wrong, right = (one.problems for one in outcome.attempts)
    assert zero == ("ZeroDivisionError: division by zero",) and words and right == ()
    assert len(wrong) == 1 and wrong[0].endswith("not 3")
    assert [tuple(one["problems"]) for one in outcome.to_dict()["attempts"]] == [zero, words, wrong, right]


async def test_the_same_program_again_is_a_repetition(box: Sandbox) -> None:
    outcome = await solved_by([block("a = 1\na['x']"), block("a = 1\n\na['x']")], box, "add")
    assert (outcome.stopped, len(outcome.attempts)) == ("repetition", 2)


async def test_attempts_start_from_an_empty_workspace(box: Sandbox) -> None:
    leaves = "open('output/old.txt', 'w').write('1'); open('note', 'w'); left = 1\n1 / 0"
    looks = "import os\n[os.listdir('output'), os.path.exists('note'), 'left' in globals()]"
    outcome = await solved_by([block(leaves), block(looks)], box, "look")
    assert outcome.answer == [[], False, False]
    assert outcome.artifacts == ()


# Answers, files, checks


async def test_the_sales_by_region_are_answer_and_file(box: Sandbox) -> None:
    model = ScriptedModel([block(TOTALS.replace('"region"', '"regio"')), block(TOTALS)])
    task = Task("total by region", inputs={"sales.csv": SALES}, outputs=["totals.txt"])
    agent = CodingAgent(model, box, retry=QUICK)
    kinds = []
    async for event in agent.stream(task):
        kinds.append(type(event))
        if isinstance(event, Finished):
            outcome = event.outcome
    assert outcome.answer == {"north": 4, "south": 2}
    assert [(file.name, file.data) for file in outcome.artifacts] == [("totals.txt", b"{'north': 4, 'south': 2}")]
    assert "region: text" in model.asked[0][1].text and "KeyError: 'regio'" in model.asked[1][-1].text
    assert kinds[0] is Planned and kinds[-1] is Finished
    assert (kinds.count(AttemptStarted), kinds.count(AttemptFinished)) == (2, 2)


async def test_a_final_answer_goes_before_the_last_expression(box: Sandbox) -> None:
    outcome = await solved_by([block("final_answer({'a': (1, 2)})\n'no'")], box, "add")
    assert outcome.answer == {"a": (1, 2)}


async def test_a_missing_output_file_is_an_objection(box: Sandbox) -> None:
    replies = [
        block("1"),
        block("open('output/a.json', 'w').write('{')"),
        block("open('output/a.json', 'w').write('{}')"),
    ]
    outcome = await solved_by(replies, box, Task("write", outputs=["a.json"]))
    assert [one.error_class for one in outcome.attempts] == [ErrorClass.CHECK_FAILED, ErrorClass.CHECK_FAILED, None]


async def test_requirements_of_the_output_become_checks_or_notes(box: Sandbox) -> None:
    task = Task("greet", output_requirements=["print the greeting to stdout", "be polite"])
    outcome = await solved_by([block("'hello'"), block("print('hello')")], box, task)
    assert [one.error_class for one in outcome.attempts] == [ErrorClass.CHECK_FAILED, None]
    assert outcome.notes == ("nothing checks this requirement: be polite",)


async def test_examples_are_run_as_checks(box: Sandbox) -> None:
    task = Task("double n", inputs={"n": 2}, examples=[Example(3, 6), Example({"n": 0}, 0)])
    outcome = await solved_by([block("n + 2"), block("n * 2")], box, task)
    first, second = outcome.attempts
    assert (first.error_class, second.error_class, outcome.answer) == (ErrorClass.CHECK_FAILED, None, 4)
    assert first.checks is not None and "for the input 3 the output was 5 instead of 6" in first.checks.sentences[0]
    assert second.checks is not None and len(second.checks.passed) == 2
    assert outcome.usage.runs == 6


async def test_a_program_runs_on_the_first_example_if_the_task_has_no_inputs(box: Sandbox) -> None:
    task = Task("Write add(a, b).", examples=[Example([3, 4], 7), Example([1, 1], 2)])
    add = answered(code="def add(a, b):\n    return a * b if a == 1 else a + b", entry_point="add")
    model = ScriptedModel([add, answered(code="def add(a, b):\n    return a + b", entry_point="add")])
    outcome = await CodingAgent(model, box, retry=QUICK).solve(task)
    assert (outcome.answer, [one.error_class for one in outcome.attempts]) == (7, [ErrorClass.CHECK_FAILED, None])
    assert "given = [3, 4]" in model.asked[0][-1].text


async def test_an_example_has_no_effects(box: Sandbox) -> None:
    sent: list[int] = []

    @actbox.tool
    def send(number: int) -> None:
        """Send."""
        sent.append(number)

    task = Task("send n", inputs={"n": 1}, examples=[Example(2, 2), Example(1, 1)])
    outcome = await solved_by([block("send(n)\nn")], box, task, tools=[send])
    assert (outcome.solved, sent) == (True, [1])
    assert outcome.notes == ("example 1 was not tried, since the program would have effects for it",)
    assert outcome.attempts[-1].checks is not None
    assert [(one.passed, one.weight) for one in outcome.attempts[-1].checks.outcomes] == [(False, 0.0), (True, 1.0)]


async def test_a_broken_constraint_is_said_before_the_program_runs(box: Sandbox) -> None:
    task = Task("add", constraints=Constraints(max_lines=2, dependencies_allowed=False))
    outcome = await solved_by([block("a = 1\nb = 2\na + b"), block("import numpy\n3"), block("1 + 2")], box, task)
    assert [one.error_class for one in outcome.attempts] == [ErrorClass.SYNTAX_ERROR, ErrorClass.SYNTAX_ERROR, None]
    assert all(one.result is not None and one.result.exit_code == 125 for one in outcome.attempts[:2])
    assert (outcome.answer, outcome.usage.runs) == (3, 1)


async def test_a_package_that_the_agents_rules_block_is_not_run(box: Sandbox) -> None:
    rules = PackagePolicy(python=PackageRules(blocked=[PackageRule("requests", reason="use the tool")]))
    replies, once = [block("import requests\n1"), block("1")], RetryPolicy(error_specific={"policy": 1})
    assert (await solved_by(replies, box, "one", packages=rules)).stopped == "policy"
    outcome = await solved_by(replies, box, "one", packages=rules, retry=once)
    assert (outcome.answer, outcome.usage.runs, outcome.attempts[0].error_class) == (1, 1, ErrorClass.POLICY)
    assert outcome.attempts[0].result is not None and outcome.attempts[0].result.error is not None
    assert outcome.attempts[0].result.error.message == "The package requests is blocked: use the tool."


async def test_a_limit_of_time_is_that_of_the_constraint(box: Sandbox) -> None:
    task = Task("wait", constraints=Constraints(timeout_ms=1_000))
    outcome = await solved_by([block("import time; time.sleep(60)"), block("'fast'")], box, task)
    assert [one.error_class for one in outcome.attempts] == [ErrorClass.TIMEOUT, None]


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"code": "def total(numbers):\n    return sum(numbers)", "entry_point": "total"}, 6),
        ({"code": "import sys, json\nsum(json.loads(sys.argv[1]))", "input_parsing": "first argument"}, 6),
        ({"code": "import json\nsum(json.loads(input()))", "input_parsing": "stdin"}, 6),
        ({"files": {"main.py": "from lib.add import add\nadd(numbers)", "lib/add.py": "add = sum"}}, 6),
    ],
)
async def test_the_protocol_of_a_response_is_obeyed(box: Sandbox, fields: dict[str, Any], answer: int) -> None:
    outcome = await solved_by([answered(**fields)], box, Task("total", inputs={"numbers": [1, 2, 3]}))
    assert (outcome.stopped, outcome.answer) == ("solved", answer), outcome.attempts[0].result


# Tests

TWICE = "def twice(n):\n    return {}\ntwice(2)"
TESTS = "from solution import twice\ndef test_twice():\n    assert twice(3) == 6\n"


async def test_tests_that_the_model_writes_before_any_program_are_checks(box: Sandbox) -> None:
    model = ScriptedModel([block(TESTS), block(TWICE.format("n + 2")), block(TWICE.format("2 * n"))])
    agent = CodingAgent(model, box, retry=QUICK, write_tests=True)
    outcome = await agent.solve("write twice(n)")
    assert outcome.solved and [one.error_class for one in outcome.attempts] == [ErrorClass.CHECK_FAILED, None]
    assert outcome.attempts[1].checks is not None
    (check,) = outcome.attempts[1].checks.passed
    assert (check.written_by, check.weight, check.can_fail) == ("model", 0.5, True)
    assert outcome.usage.model_calls == 3
    assert "def twice" not in model.asked[0][0].text


async def test_tests_of_the_author_do_not_reject_and_those_that_cannot_fail_weigh_nothing(box: Sandbox) -> None:
    wrong = answered(code=TWICE.format("n + 2"), tests=TESTS)
    outcome = await solved_by([wrong], box, "write twice(n)")
    assert outcome.solved and outcome.attempts[0].checks is not None
    assert [one.written_by for one in outcome.attempts[0].checks.failed] == ["author"]
    empty = TextCheck("import solution\ndef test_it():\n    assert True\n", written_by="model")
    outcome = await solved_by([block(TWICE.format("n + 2"))], box, Task("write twice(n)", checks=[empty]))
    assert outcome.attempts[0].checks is not None
    (check,) = outcome.attempts[0].checks.outcomes
    assert (check.can_fail, check.weight) == (False, 0.0)


# Effects


async def test_a_call_with_effects_happens_once_over_all_attempts_and_a_safe_one_again(box: Sandbox) -> None:
    did: list[str] = []

    @actbox.tool
    def send(text: str) -> int:
        """Send."""
        did.append(f"send {text}")
        return len(did)

    @actbox.tool(retry_safe=True)
    def look(text: str) -> str:
        """Look up."""
        did.append(f"look {text}")
        return text

    ends = ["1 / 0", "x", "a"]
    replies = [block(f"a = send('hello')\nlook('it')\n{end}") for end in ends]
    model = ScriptedModel(replies)
    agent = CodingAgent(model, box, tools=[send, look], retry=QUICK)
    outcome = await agent.solve("send hello")
    assert (outcome.solved, outcome.answer) == (True, 1)
    assert did == ["send hello", "look it", "look it", "look it"]
    assert outcome.happened == ('send({"text": "hello"}) → returned',)
    assert outcome.happened[0] in model.asked[1][-1].text


# Labels


async def test_the_model_reads_a_sentence_and_the_outcome_is_whole() -> None:
    secret = "ann@example.org"
    replies = [block("open('input/people.txt').read()\n1 / 0"), block("print(open('input/people.txt').read())\n'done'")]
    model = ScriptedModel(replies)
    async with linux_box(Policy(model_cleared="internal")) as box:
        agent = CodingAgent(model, box, retry=QUICK)
        task = Task("count", inputs={"people.txt": InputFile(secret.encode(), "pii")})
        outcome = await agent.solve(task)
        with pytest.raises(InvalidValue, match="the model may read up to"):
            await agent.solve(Task("mail ann", label="pii"))
    assert outcome.solved and str(outcome.label) == "pii"
    assert outcome.attempts[1].result is not None and outcome.attempts[1].result.stdout == f"{secret}\n"
    told = json.dumps([[getattr(one, "text", "") for one in messages] for messages in model.asked])
    assert secret not in told and "ZeroDivisionError" not in told
    assert "It could have read data of another label" in model.asked[1][-1].text


async def test_the_label_of_the_inputs_holds_in_an_engine_that_follows_none() -> None:
    if not engine_check("monty").works:
        pytest.skip("the monty engine does not work here")
    reads = "text = open('input/people.txt').read()\n"
    model = ScriptedModel([block(f"{reads}raise ValueError(text)"), block(f"{reads}len(text)")])
    async with linux_box(Policy(model_cleared="internal")) as box, actbox.open_sandbox("monty") as other:
        agent = CodingAgent(model, box, retry=QUICK, sandboxes={"python": other})
        people = InputFile(b"ann@example.org", "pii")
        outcome = await agent.solve(Task("count", inputs={"people.txt": people}))
    assert outcome.answer == 15 and str(outcome.label) == "pii", outcome
    assert outcome.attempts[0].result is not None and outcome.attempts[0].result.error is not None
    assert "ann@" in outcome.attempts[0].result.error.message
    assert all("ann@" not in getattr(one, "text", "") for one in model.asked[1])


# Approval and review


async def test_a_blocked_program_does_not_run(box: Sandbox) -> None:
    outcome = await solved_by(
        [block("import subprocess\nsubprocess.run(['ls'])")], box, "list", review=Rules.preset("spec")
    )
    assert (outcome.stopped, outcome.usage.runs) == ("policy", 1)
    assert outcome.attempts[0].result is not None and outcome.attempts[0].result.error is not None
    assert outcome.attempts[0].result.error.type == "ReviewBlocked"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": None}, "a model is a name"),
        ({"budget": 0.2}, "budget is of the type Budget, not float"),
        ({"retry": {"max_attempts": 3}}, "retry is of the type RetryPolicy, not dict"),
        ({"packages": ["pandas"]}, "packages is of the type PackagePolicy, not list"),
    ],
)
def test_what_an_agent_cannot_be_given_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(words)):
        CodingAgent(**{"model": ScriptedModel([]), "box": actbox.open_sandbox("linux"), **given})


def test_approval_without_an_approver_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no approver"):
        CodingAgent(ScriptedModel([]), actbox.open_sandbox("linux"), approval="always_require")


# Who writes the program, and in which language


def intent(**fields: Any) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall("i", "intent", {"goal": "add", **fields}),))


async def test_a_language_left_open_is_the_one_of_the_intent(box: Sandbox) -> None:
    said: list[str | ModelReply] = [intent(language="python", lines=3), block("1 + 2")]
    outcome = await solved_by(said, box, Task("add", language="auto"))
    assert outcome.decision is not None and outcome.intent is not None
    assert (outcome.decision.way, outcome.decision.language, outcome.answer) == ("direct", "python", 3)
    assert (outcome.intent.lines, outcome.usage.model_calls, len(outcome.attempts)) == (3, 2, 1)


async def test_calls_that_plan_and_write_tests_are_taken_from_the_turns(box: Sandbox) -> None:
    said = [
        intent(language="python", lines=3),
        block(TESTS),
        block(TWICE.format("n + 2")),
        block(TWICE.format("2 * n")),
    ]
    retry = RetryPolicy(attempt_backoff_ms=[0], max_coding_turns=3)
    outcome = await solved_by(said, box, Task("write twice(n)", language="auto"), write_tests=True, retry=retry)
    assert (outcome.stopped, outcome.usage.model_calls, len(outcome.attempts)) == ("max_turns", 3, 1)
    retry = RetryPolicy(attempt_backoff_ms=[0], max_coding_turns=1)
    outcome = await solved_by([block("1")], box, Task("one", language="auto"), write_tests=True, retry=retry)
    assert (outcome.answer, outcome.intent, outcome.usage.model_calls) == (1, None, 1)
    assert outcome.notes == ("no tests were written, since the model may be asked no more",)


async def test_a_pure_computation_is_written_in_rtfs(box: Sandbox) -> None:
    said = [intent(language="rtfs", lines=1, pure=True), block("(reduce + 0 numbers)", "clojure")]
    outcome = await solved_by(said, box, Task("add", language="auto", inputs={"numbers": [1, 2, 3]}))
    assert outcome.decision is not None
    assert (outcome.decision.way, outcome.stopped, outcome.answer) == ("rtfs", "solved", 6), outcome


async def test_javascript_runs_in_an_engine_of_its_own(box: Sandbox) -> None:
    if not engine_check("node").works:
        pytest.skip("the node engine does not work here")
    said = [block("require('fs').writeFileSync('output/a.txt', 'x'); n * 2", "js")]
    outcome = await solved_by(said, box, Task("double n", language="js", inputs={"n": 4}, outputs=["a.txt"]))
    assert (outcome.stopped, outcome.answer, [one.name for one in outcome.artifacts]) == ("solved", 8, ["a.txt"])


@pytest.mark.parametrize("task", [Task("add", language="auto"), Task("add", language="Rust")])
async def test_rust_is_returned_without_a_run(box: Sandbox, task: Task) -> None:
    said = [intent(language="rust", lines=5)] if task.language == "auto" else []
    outcome = await solved_by([*said, block("fn main() {}", "rust")], box, task)
    assert (outcome.solved, outcome.stopped, outcome.usage.runs) == (False, "returned", 0)
    assert "no engine here runs rust" in outcome.reason
    assert outcome.code.strip() == "fn main() {}" and outcome.attempts[0].error_class is None


async def test_a_long_program_is_delegated_to_the_profile(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ScriptedModel([block("'by the profile'")])

    class Connected:
        async def __aenter__(self) -> ScriptedModel:
            return writer

        async def __aexit__(self, *about: object) -> None:
            pass

    monkeypatch.setattr(Profile, "connect", lambda self: Connected())
    profiles = Profiles(default="openrouter:a/b")
    planner = ScriptedModel([intent(language="python", lines=500)])
    outcome = await CodingAgent(planner, box, profiles=profiles).solve("write it")
    assert outcome.decision is not None
    assert (outcome.decision.way, outcome.answer, len(writer.asked)) == ("delegated", "by the profile", 1)
    planner = ScriptedModel([intent(language="python", lines=5), block("'by itself'")])
    outcome = await CodingAgent(planner, box, profiles=profiles).solve("write it")
    assert (outcome.answer, len(writer.asked)) == ("by itself", 1)


async def test_a_program_that_is_only_written_is_not_run(box: Sandbox) -> None:
    model = ScriptedModel(["words", block("1 / 0")])
    outcome = await CodingAgent(model, box, retry=QUICK).write("divide")
    assert (outcome.stopped, outcome.code.strip(), outcome.usage.runs) == ("returned", "1 / 0", 0)
    assert "Send one whole program" in model.asked[1][-1].text
