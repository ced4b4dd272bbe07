"""The refinement by itself: no model, no sandbox, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.codeact.loop import Ask, End, Loop, Run
from actbox.codeact.model import ModelReply, ToolCall
from actbox.codegen.prompts import SPEC_TEMPLATE, plain_prompt
from actbox.codegen.refinement import AttemptResult, Refinement
from actbox.codegen.retry import CLASSES, ErrorClass, RetryPolicy, class_of
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.labels import Label
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult

SOLVED = ExecutionResult(value=42, value_text="42")


def failed(
    kind: ErrorKind = ErrorKind.RUNTIME, line: int | None = 1, message: str = "", exit_code: int = 1
) -> ExecutionResult:
    return ExecutionResult(exit_code=exit_code, error=ErrorInfo(kind=kind, type="E", message=message, line=line))


def block(code: str) -> str:
    return f"```python\n{code}\n```"


@dataclass
class Story:
    """All that happened in one loop."""

    end: End
    prompts: list[str] = field(default_factory=list)
    ran: list[Run] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    classes: list[ErrorClass | None] = field(default_factory=list)
    model_calls: int = 0


def told(
    replies: Iterable[str | ModelReply],
    outcome_of: Callable[[Run], ExecutionResult | AttemptResult],
    policy: RetryPolicy | None = None,
    **options: Any,
) -> Story:
    """Drive a loop with a model that gives these replies, and a sandbox that gives these outcomes."""
    refinement = Refinement(policy, **options)
    loop = Loop("goal", "instructions", refinement.policy.turns(), after=refinement.after)
    story, given_replies = Story(End(None, "")), iter(replies)
    action = loop.begin()
    while not isinstance(action, End):
        if isinstance(action, Ask):
            if story.model_calls:
                story.prompts.append(action.messages[-1].text)
            story.model_calls += 1
            reply = next(given_replies)
            action = loop.on_reply(ModelReply(reply) if isinstance(reply, str) else reply)
            continue
        story.delays.append(refinement.delay_ms)
        story.ran.append(action)
        found = outcome_of(action)
        attempt = AttemptResult(result=found) if isinstance(found, ExecutionResult) else found
        story.classes.append(attempt.error_class)
        action = loop.on_observation("", outcome=attempt)
    story.end = action
    assert refinement.attempts >= len(story.ran)
    return story


def in_turn(outcomes: Sequence[ExecutionResult | AttemptResult]) -> Callable[[Run], ExecutionResult | AttemptResult]:
    left = iter(outcomes)
    return lambda program: next(left)


def ended(outcomes: Sequence[ExecutionResult | AttemptResult], policy: RetryPolicy | None = None) -> Story:
    """Drive a loop in which each program differs from all others."""
    return told((block(f"program_{number}") for number in range(1_000)), in_turn(outcomes), policy)


def test_exit_code_zero_is_success_and_the_answer_is_the_value_of_the_last_expression() -> None:
    assert ended([failed(), SOLVED]).end == End(42, "solved")


def test_a_final_answer_goes_before_the_value() -> None:
    loop = Loop("goal", "", 1, after=Refinement().after)
    loop.begin()
    loop.on_reply(ModelReply(block("final_answer(None)")))
    assert loop.on_observation("", answered=True, answer=None, outcome=AttemptResult(result=SOLVED)) == End(
        None, "solved"
    )


def test_a_program_that_fails_a_check_has_not_succeeded() -> None:
    story = ended([AttemptResult(result=SOLVED, failed_checks=("total is 3, not 4",)), SOLVED])
    assert (story.end.stopped, story.classes) == ("solved", [ErrorClass.CHECK_FAILED, None])
    assert "total is 3, not 4" in story.prompts[0]


def test_a_program_that_was_not_run_because_of_a_check_has_failed_it() -> None:
    assert (
        ended([AttemptResult(failed_checks=("120 lines, and 100 are the most",)), SOLVED]).classes[0] == "check_failed"
    )


def test_programs_are_counted_in_all_and_a_reply_without_one_counts_as_one() -> None:
    story = told(["Sure!", block("a"), block("b")], in_turn([failed(), failed()]))
    assert (story.end.stopped, story.model_calls, len(story.ran)) == ("attempts", 3, 2)
    assert "all 3 attempts failed" in story.end.reason
    assert "Your reply had no program" in story.prompts[0]


def test_a_driver_may_say_how_to_send_a_program() -> None:
    loop = Loop("goal", "", 2, after=Refinement().after)
    loop.begin()
    action = loop.on_reply(ModelReply("<html>"), [], text="That was a web page. Answer in JSON.")
    assert isinstance(action, Ask)
    assert action.messages[-1].text.endswith("\n\nThat was a web page. Answer in JSON.")


def test_each_program_has_its_delay() -> None:
    assert ended([failed(), failed(), SOLVED]).delays == [0, 100, 500]
    assert told(["words", block("a")], in_turn([SOLVED])).delays == [100]


@pytest.mark.parametrize(
    ("kinds", "stopped", "programs"),
    [
        ("MEMORY", "resource_exhausted", 1),
        ("TIMEOUT TIMEOUT", "timeout", 2),
        ("TIMEOUT RUNTIME TIMEOUT", "timeout", 3),
        ("SYNTAX SYNTAX SYNTAX", "syntax_error", 3),
        ("MISSING_DEPENDENCY MISSING_DEPENDENCY MISSING_DEPENDENCY", "import_error", 3),
        ("SYNTAX TIMEOUT RUNTIME RUNTIME SYNTAX RUNTIME", "attempts", 6),
        ("RUNTIME POLICY", "policy", 2),
        ("SANDBOX", "sandbox", 1),
        ("CANCELLED", "cancelled", 1),
    ],
)
def test_further_programs_are_counted_by_the_class_of_the_error_before_them(
    kinds: str, stopped: str, programs: int
) -> None:
    story = ended([failed(ErrorKind[kind], line=None) for kind in kinds.split()], RetryPolicy(max_attempts=6))
    assert (story.end.stopped, len(story.ran)) == (stopped, programs)
    assert story.end.answer is None
    assert story.end.reason


def test_a_policy_may_allow_what_stops_by_default() -> None:
    policy = RetryPolicy(error_specific={"policy": 1, "cancelled": 9})
    assert ended([failed(ErrorKind.POLICY), SOLVED], policy).end.stopped == "solved"
    assert ended([failed(ErrorKind.MEMORY), SOLVED], policy).end.stopped == "solved"
    assert ended([failed(ErrorKind.CANCELLED)], policy).end.stopped == "cancelled"


@pytest.mark.parametrize("kind", [ErrorKind.CANCELLED, ErrorKind.POLICY])
def test_an_error_that_stops_at_once_is_the_reason_also_for_a_repeated_program(kind: ErrorKind) -> None:
    story = told([block("a"), block("a")], in_turn([failed(), failed(kind)]))
    assert story.end.stopped == class_of(kind)


def test_calls_of_the_model_have_a_bound_of_their_own() -> None:
    story = ended([failed(), failed()], RetryPolicy(max_attempts=5, max_coding_turns=2))
    assert (story.end.stopped, story.model_calls) == ("max_turns", 2)


@pytest.mark.parametrize(
    ("first", "second", "repeats"),
    [
        ("a = 1\nb", "a = 1\nb", True),
        ("a = 1\nb", "\na = 1   \n\nb\n", True),
        ("a = 1\nb", "a = 2\nb", False),
        ("if a:\n  b", "if a:\nb", False),
    ],
)
def test_a_program_that_failed_twice_is_a_repetition(first: str, second: str, repeats: bool) -> None:
    story = told(
        [block(first), block("other"), block(second)],
        lambda _: failed(line=None),
        RetryPolicy(max_attempts=9, max_coding_turns=3),
    )
    assert (story.end.stopped, story.model_calls) == (("repetition", 3) if repeats else ("max_turns", 3))


def test_the_same_program_with_another_dependency_is_another_program() -> None:
    calls = [
        ModelReply(tool_calls=(ToolCall(f"c{n}", "execute_code", {"code": "import a", "dependencies": names}),))
        for n, names in enumerate([[], ["a"], ["a"]])
    ]
    refinement = Refinement(RetryPolicy(max_attempts=9))
    loop = Loop("goal", "", 9, packages=True, after=refinement.after)
    loop.begin()
    ends = []
    for number, call in enumerate(calls):
        loop.on_reply(call)
        result = failed(ErrorKind.RUNTIME, line=None, message=str(number))
        ends.append(loop.on_observation("", outcome=AttemptResult(result=result)))
    assert [isinstance(end, End) for end in ends] == [False, False, True]


@pytest.mark.parametrize(
    ("first", "second", "repeats"),
    [
        (("import os\nx = a[1]", 2, "at 0x7f01"), ("x =  a[1]", 1, "at 0x7f02"), True),
        (("x[1]", 1, "no 1"), ("x[2]", 1, "no 1"), False),
        (("x[1]", 1, "no 1"), ("y = 1\nx[1]", 2, "no 2"), False),
        (("a", None, "exited with 1"), ("b", None, "exited with 1"), False),
    ],
)
def test_the_same_error_in_the_same_line_is_a_repetition_wherever_the_line_now_stands(
    first: tuple[str, int | None, str], second: tuple[str, int | None, str], repeats: bool
) -> None:
    outcomes = [failed(line=line, message=message) for _, line, message in (first, second)]
    story = told([block(code) for code, _, _ in (first, second)], in_turn(outcomes), RetryPolicy(max_coding_turns=2))
    assert story.end.stopped == ("repetition" if repeats else "max_turns")


def test_the_same_refusal_before_the_program_began_is_a_repetition() -> None:
    refusal = failed(ErrorKind.UNSUPPORTED, line=None, message="no rust here", exit_code=EXIT_NOT_RUN)
    assert ended([refusal, refusal]).end.stopped == "repetition"


@pytest.mark.parametrize("reply", ["", "<html></html>", "I cannot do that. " * 100_000])
def test_a_model_that_says_the_same_for_ever_is_asked_twice(reply: str) -> None:
    story = told([reply] * 9, in_turn([]), RetryPolicy(max_attempts=9))
    assert (story.end.stopped, story.model_calls) == ("repetition", 2)


def test_two_programs_of_one_reply_are_two_attempts() -> None:
    reply = ModelReply(tool_calls=tuple(ToolCall(c, "execute_code", {"code": c}) for c in "abc"))
    story = told([reply], in_turn([failed(), SOLVED]))
    assert ([run.code for run in story.ran], story.end.stopped) == (["a", "b"], "solved")


def test_a_call_of_a_tool_that_does_not_exist_counts_as_an_attempt() -> None:
    replies = [ModelReply(tool_calls=(ToolCall("c", f"tool_{n}", {}),), text=str(n)) for n in range(9)]
    story = told(replies, in_turn([]))
    assert (story.end.stopped, story.model_calls) == ("attempts", 3)


def test_a_driver_must_say_what_came_of_a_program() -> None:
    loop = Loop("goal", "", 1, after=Refinement().after)
    loop.begin()
    loop.on_reply(ModelReply(block("a")))
    with pytest.raises(TypeError, match="AttemptResult"):
        loop.on_observation("text")


# Prompts


def test_the_prompt_has_the_failing_lines_what_happened_outside_and_what_was_tried() -> None:
    outcomes: list[ExecutionResult | AttemptResult] = [
        AttemptResult(result=failed(line=2, message="no key 'x'"), happened=('mail({"to": "a"}) → returned',)),
        failed(ErrorKind.MISSING_DEPENDENCY, message="no module y"),
    ]
    story = told([block("a\nd['x']\nb"), block("import y"), block("c")], in_turn([*outcomes, SOLVED]))
    first, second = story.prompts
    assert "Attempt 1 of 3 did not solve the task (runtime_error)." in first
    assert "> 2 | d['x']" in first
    assert '- mail({"to": "a"}) → returned' in first
    assert "does not happen a second time" in first
    assert "Tried before" not in first
    assert "- runtime_error: E: no key 'x' (line 2)" in second
    assert "Name the missing package" in second


def test_a_program_that_took_too_long_is_not_told_to_go_on_with_files_that_are_gone() -> None:
    error = ErrorInfo(kind=ErrorKind.TIMEOUT, message="stopped after 2 seconds", hint="save progress to a file")
    story = ended([ExecutionResult(exit_code=124, error=error), SOLVED])
    assert "stopped after 2 seconds" in story.prompts[0]
    assert "save progress" not in story.prompts[0]
    assert "use another algorithm" in story.prompts[0]


def test_the_plain_prompt_is_that_of_the_specification() -> None:
    result = ExecutionResult(
        exit_code=1,
        error=ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, type="ModuleNotFoundError", message="pandas {0}"),
    )
    story = told([block("import pandas"), block("b")], in_turn([result, SOLVED]), prompt=plain_prompt)
    assert story.prompts == [
        SPEC_TEMPLATE.replace("{error_message}", "ModuleNotFoundError: pandas {0}")
        .replace("{language}", "python")
        .replace("{original_code}", "import pandas")
    ]
    assert story.prompts[0].startswith("Previous code failed with the following error:\n\n```\nModuleNotFound")
    assert story.prompts[0].endswith("Respond with the corrected code only, no explanations.\n")


def test_results_above_the_models_label_leave_nothing_in_its_prompts() -> None:
    def prompts(message: str) -> list[str]:
        secret = ExecutionResult(
            stdout=message, exit_code=1, error=ErrorInfo(kind=ErrorKind.RUNTIME, message=message), label=Label("pii")
        )
        attempt = AttemptResult(result=secret, failed_checks=(message,), happened=(message,))
        open_one = AttemptResult(result=failed(message="open"), happened=(message,))
        return told(map(block, "abc"), in_turn([attempt, open_one, SOLVED]), cleared=Label("public")).prompts

    assert prompts("ann@example.org") == prompts("bob@example.org")


# Properties

_KINDS = st.sampled_from(list(ErrorKind))
_RESULTS = st.one_of(
    st.just(AttemptResult(result=SOLVED)),
    st.just(AttemptResult(result=SOLVED, failed_checks=("wrong",))),
    st.just(AttemptResult(failed_checks=("too long",))),
    st.builds(
        lambda kind, line, message: AttemptResult(result=failed(kind, line, message)),
        _KINDS,
        st.none() | st.integers(1, 2),
        st.sampled_from(["m", "n"]),
    ),
)
_CALLS = st.lists(st.sampled_from(["p", "q", "r\ns"]), min_size=1, max_size=3).map(
    lambda codes: ModelReply(
        tool_calls=tuple(ToolCall(f"c{n}", "execute_code", {"code": code}) for n, code in enumerate(codes))
    )
)
_REPLIES = st.one_of(
    st.sampled_from(["", "words", block("p"), block("r\ns"), "```js\nx\n```"]).map(ModelReply),
    st.integers(0, 99).map(lambda number: ModelReply(block(f"program_{number}"))),
    _CALLS,
    st.just(ModelReply(tool_calls=(ToolCall("c", "nothing", {}),))),
)
_POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 8),
    attempt_backoff_ms=st.lists(st.integers(0, 9), max_size=3),
    error_specific=st.dictionaries(st.sampled_from(list(ErrorClass)), st.integers(0, 3), max_size=4),
    max_coding_turns=st.none() | st.integers(1, 8),
)


@given(st.data(), _POLICIES)
def test_a_loop_always_ends_within_its_bounds_and_says_why(data: st.DataObject, policy: RetryPolicy) -> None:
    def replies() -> Iterable[ModelReply]:
        while True:
            yield data.draw(_REPLIES)

    story = told(replies(), lambda _: data.draw(_RESULTS), policy)
    assert story.model_calls <= min(policy.max_attempts, policy.max_coding_turns or 99)
    assert len(story.ran) <= policy.max_attempts
    assert (story.end.stopped == "solved") == (story.classes[-1:] == [None])
    assert None not in story.classes[:-1]
    assert story.end.stopped in {"solved", "repetition", "attempts", "max_turns", *ErrorClass}
    followed = Counter(story.classes[:-1])
    for error_class in set(CLASSES.values()):
        bound = policy.further(error_class)
        assert bound is None or followed[error_class] <= bound
    assert all(count <= 2 for count in Counter((run.code.strip(), run.dependencies) for run in story.ran).values())


@given(_KINDS)
def test_a_program_that_always_fails_the_same_way_runs_twice_at_most(kind: ErrorKind) -> None:
    story = told((block("x") for _ in range(99)), lambda _: failed(kind), RetryPolicy(max_attempts=50))
    assert len(story.ran) == (1 if story.end.stopped == class_of(kind) else 2)
