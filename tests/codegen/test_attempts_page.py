"""The page of all attempts."""

from __future__ import annotations

from typing import Any

from actbox import ErrorInfo, ErrorKind, ExecutionResult
from actbox.codegen.acceptance import Acceptance, CheckOutcome
from actbox.codegen.notebook import Cell
from actbox.codegen.outcome import Attempt, Outcome
from actbox.codegen.page import attempts_messages, attempts_page, changes
from actbox.codegen.response import CodingResponse
from actbox.codegen.retry import ErrorClass
from actbox.codegen.task import FileCheck
from actbox.content import CodeInterpreterCall, TextContent
from actbox.core.result import Artifact


def _attempt(number: int, code: str, result: ExecutionResult | None = None, **more: Any) -> Attempt:
    return Attempt(number=number, response=CodingResponse(code=code, language="python"), result=result, **more)


def _outcome(attempts: list[Attempt], stopped: str = "solved", answer: Any = None) -> Outcome:
    return Outcome(solved=stopped == "solved", stopped=stopped, attempts=tuple(attempts), answer=answer)


def _attempts() -> list[Attempt]:
    error = ErrorInfo(kind=ErrorKind.RUNTIME, type="KeyError", message="'regoin'", line=2)
    failed = ExecutionResult(exit_code=1, error=error, stdout="<b>reading</b>")
    done = ExecutionResult(value=3, value_text="3", artifacts=(Artifact("chart.txt", b"chart"),))
    check = FileCheck("chart.txt")
    checks = Acceptance(
        (
            CheckOutcome(check=check, name="the file chart.txt", passed=True, share=1.0),
            CheckOutcome(check=check, name="own tests", passed=False, message="``` <i>one</i> failed", weight=0.25),
        )
    )
    return [
        _attempt(1, "rows = read()\nrows['regoin']", failed, error_class=ErrorClass.RUNTIME_ERROR, cost=0.01),
        _attempt(2, "", error_class=ErrorClass.NO_CODE),
        _attempt(3, "rows = read()\nrows['region']", done, checks=checks, cost=0.02),
    ]


def test_the_page_shows_each_attempt_with_its_change_and_its_checks() -> None:
    page = attempts_page([Cell("total <by> region", _outcome(_attempts(), answer={"a": 1}))])
    for shown in (
        "total &lt;by&gt; region",
        "attempt 1 · runtime error · $0.0100",
        "attempt 2 · no code",
        "KeyError",
        "chart.txt",
        "✓ the file chart.txt",
        "(weight 0.25)",
        "Solved after 3 attempts, $0.0300.",
    ):
        assert shown in page
    assert "<b>reading</b>" not in page and "<i>one</i>" not in page
    assert "<script" not in page


def test_a_change_is_shown_against_the_last_program() -> None:
    messages = attempts_messages("?", _outcome(_attempts(), "attempts"))
    (change,) = [text for text in messages[3].contents if "diff" in getattr(text, "text", "")]
    assert "-rows['regoin']\n+rows['region']" in change.text  # type: ignore[union-attr]
    assert messages[-1].text == "Not solved after 3 attempts, stopped by attempts, $0.0300."


def test_a_program_that_was_sent_again_is_called_so() -> None:
    twice = _outcome([_attempt(1, "1"), _attempt(2, "1")], "repetition")
    assert "The same program once more:" in attempts_messages("?", twice)[2].text


def test_programs_with_too_many_lines_to_compare_are_not_compared() -> None:
    one, other = ("\n".join(f"x{line * step % 97}" for line in range(60_000)) for step in (5, 7))
    assert list(changes(one, other)) == ["… (60,000 lines before and 60,000 now are too many to compare)"]
    assert list(changes(one, one)) == []


def test_a_program_of_a_candidate_is_compared_with_its_own_one_before() -> None:
    done = ExecutionResult(value=1, value_text="1")
    attempts = [
        _attempt(1, "one = 1", done, candidate=1),
        _attempt(1, "other = 1", done, candidate=2),
        _attempt(2, "one = 2", done, candidate=1),
    ]
    messages = attempts_messages("count", _outcome(attempts))
    authors = [message.author for message in messages[1:4]]
    assert authors == ["candidate 1 · attempt 1", "candidate 2 · attempt 1", "candidate 1 · attempt 2"]
    change = messages[3].contents[0]
    assert isinstance(change, TextContent) and "-one = 1\n+one = 2" in change.text
    calls = [part.call_id for one in messages for part in one.contents if isinstance(part, CodeInterpreterCall)]
    assert len(set(calls)) == 3


def test_the_text_of_a_dict_is_not_marked_as_json() -> None:
    done = ExecutionResult(value={"north": 1}, value_text="{'north': 1}")
    page = attempts_page([Cell("?", _outcome([_attempt(1, "total", done)]))])
    assert "{&#x27;north&#x27;: 1}" in page
