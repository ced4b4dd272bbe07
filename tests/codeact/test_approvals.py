"""`Approvals`, the state machine of questions that wait for answers: no clock, no event loop, nothing that runs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from actbox.codeact.approvals import MOST_ENDED, MOST_KNOWN, Approvals, Step, Waits
from actbox.core.call_log import CallLog


class Run:
    """A run that waits in the middle, until it came to something."""

    def __init__(self) -> None:
        self.outcome: Any = None

    @property
    def is_over(self) -> bool:
        return self.outcome is not None


class Question(Waits):
    """What waits: about the program `shown`, which has begun or not."""

    def __init__(self, shown: str = "p", *, has_begun: bool = False, owner: Hashable = None) -> None:
        self.shown = shown
        self.owner = owner
        self.run = Run()
        self.paused = self.run if has_begun else None


@pytest.fixture
def approvals() -> Approvals[str, Question]:
    return Approvals(most=2, timeout=10)


@pytest.mark.parametrize(
    ("has_begun", "approved", "step"),
    [(False, True, "begin"), (False, False, "reject"), (True, True, "resume"), (True, False, "resume")],
)
def test_an_answer_counts_once(
    approvals: Approvals[str, Question], has_begun: bool, approved: bool, step: Step
) -> None:
    question = Question(has_begun=has_begun)
    assert approvals.ask("k", question, 0).state == "waits"
    assert approvals.answer("k", "p", approved=approved, now=1) == (step, question)
    assert approvals.answer("k", "p", approved=approved, now=1) == ("gone", None)


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_approval_does_not_cover_a_program_that_was_not_shown(
    approvals: Approvals[str, Question], has_begun: bool
) -> None:
    question = Question(has_begun=has_begun)
    approvals.ask("k", question, 0)
    assert approvals.answer("k", "another", approved=True, now=1) == ("ask", question)


@pytest.mark.parametrize(("has_begun", "step"), [(False, "begin"), (True, "ask")])
def test_a_program_can_be_edited_by_whoever_approves_it_only_before_it_begins(
    approvals: Approvals[str, Question], has_begun: bool, step: Step
) -> None:
    question = Question(has_begun=has_begun)
    approvals.ask("k", question, 0)
    assert approvals.answer("k", "edited", approved=True, edited=True, now=1) == (step, question)


def test_a_program_that_waited_too_long_does_not_begin(approvals: Approvals[str, Question]) -> None:
    approvals.ask("k", Question(), 0)
    assert approvals.is_taken("k", 10)
    assert not approvals.is_taken("k", 10.5)
    assert approvals.answer("k", "p", approved=True, now=10.5) == ("gone", None)
    assert approvals.has_begun("k") is False


def test_a_run_that_waits_in_the_middle_says_itself_how_long(approvals: Approvals[str, Question]) -> None:
    question = Question(has_begun=True)
    approvals.ask("k", question, 0)
    assert approvals.answer("k", "p", approved=True, now=99) == ("resume", question)


def test_a_second_question_is_not_asked_under_a_key_at_which_one_waits(approvals: Approvals[str, Question]) -> None:
    first, second = Question(), Question()
    approvals.ask("k", first, 0)
    assert approvals.ask("k", second, 5).state == "taken"
    assert approvals.ask("k", second, 11).state == "waits"
    assert approvals.answer("k", "p", approved=True, now=12) == ("begin", second)


def test_the_oldest_makes_room(approvals: Approvals[str, Question]) -> None:
    questions = [Question() for _ in range(3)]
    given_up = [approvals.ask(key, question, 0).given_up for key, question in zip("abc", questions, strict=True)]
    assert given_up == [(), (), (questions[0],)]
    assert ["a" in approvals, "b" in approvals, "c" in approvals] == [False, True, True]


def test_where_the_oldest_are_kept_a_further_question_is_not_asked() -> None:
    approvals: Approvals[str, Question] = Approvals(most=2, keeps_oldest=True)
    approvals.ask("a", Question())
    assert approvals.ask("a", Question()).state == "taken"
    approvals.ask("b", Question())
    assert approvals.ask("c", Question()).state == "full"
    assert ["a" in approvals, "b" in approvals, "c" in approvals] == [True, True, False]


def test_the_owner_with_the_most_makes_room() -> None:
    approvals: Approvals[str, Question] = Approvals(most=4, most_of_owner=3)
    questions = {key: Question(has_begun=True, owner=key[0]) for key in ("a1", "b1", "b2", "b3", "b4", "a2")}
    given_up = {key: approvals.ask(key, question).given_up for key, question in questions.items()}
    assert given_up["b4"] == (questions["b1"],)  # of its own, which has as many as one may
    assert given_up["a2"] == (questions["b2"],)
    assert [there.key for there in approvals.open()] == ["a1", "b3", "b4", "a2"]


def test_whoever_takes_a_question_decides_it(approvals: Approvals[str, Question]) -> None:
    question = Question()
    approvals.ask("k", question, 0)
    assert approvals.take("k", Question()) is None
    assert approvals.take("k", question) is question
    assert approvals.take("k") is None


def test_what_came_of_a_run_that_nobody_answered_is_told_once(approvals: Approvals[str, Question]) -> None:
    question, further = Question(has_begun=True), [Question(has_begun=True) for _ in range(2)]
    approvals.ask("k", question, 0)
    assert approvals.ended("k") is None
    question.run.outcome = "done"
    for key, other in zip("ab", further, strict=True):
        approvals.ask(key, other, 0)
    assert "k" not in approvals
    assert [approvals.ended("k"), approvals.ended("k")] == ["done", None]
    further[0].run.outcome = "done too"
    assert [approvals.ended("a"), approvals.ended("a")] == ["done too", None]


def test_whether_a_program_has_begun_is_remembered(approvals: Approvals[str, Question]) -> None:
    calls = CallLog()
    assert approvals.has_begun("k") is None
    approvals.ask("k", Question(), 0)
    assert approvals.has_begun("k") is False
    approvals.begin("k", calls)
    assert approvals.has_begun("k") is True
    assert approvals.calls("k") is calls
    for number in range(MOST_KNOWN):
        approvals.begin(str(number), CallLog())
    assert approvals.has_begun("k") is None


def test_outcomes_that_nobody_asks_for_are_bounded() -> None:
    approvals: Approvals[str, Question] = Approvals(most=1)
    for number in range(MOST_ENDED + 2):
        question = Question(has_begun=True)
        approvals.ask(str(number), question)
        question.run.outcome = number
    assert [approvals.ended("0"), approvals.ended("1"), approvals.ended(str(MOST_ENDED))] == [None, 1, MOST_ENDED]


def test_after_a_stop_nothing_waits_and_no_answer_counts(approvals: Approvals[str, Question]) -> None:
    waiting, later = Question(), Question()
    approvals.ask("k", waiting, 0)
    assert approvals.stop() == (waiting,)
    assert approvals.answer("k", "p", approved=True, now=1) == ("gone", None)
    assert approvals.ask("later", later, 1).given_up == (later,)
    assert approvals.answer("later", "p", approved=True, now=1) == ("gone", None)
