"""The classes of errors, and the retry policy as the specification writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actbox.codegen.retry import CLASSES, ErrorClass, RetryPolicy, class_of
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.result import ExecutionResult

# Section 8.3 of the specification, word by word.
SPECIFICATION = """\
# retry-policy.yaml
max_attempts: 3
attempt_backoff_ms: [0, 100, 500]  # Delay before each retry

error_specific:
  import_error:
    max_attempts: 2  # Usually fixable
  syntax_error:
    max_attempts: 2  # Simple fix
  timeout:
    max_attempts: 1  # Likely algorithmic issue
  resource_exhausted:
    max_attempts: 0  # Don't retry, fail immediately
"""


def loaded(folder: Path, text: str) -> RetryPolicy:
    file = folder / "retry-policy.yaml"
    file.write_text(text)
    return RetryPolicy.load(file)


def test_every_kind_of_error_has_a_class_and_each_class_one_of_the_specification() -> None:
    assert set(CLASSES) == set(ErrorKind)
    in_specification = {"syntax_error", "import_error", "runtime_error", "timeout", "resource_exhausted"}
    assert {one.in_specification for one in ErrorClass} == in_specification
    assert all(ErrorClass(name).in_specification == name for name in in_specification)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("SYNTAX TYPE", "syntax_error"),
        ("MISSING_DEPENDENCY", "import_error"),
        ("RUNTIME TOOL EXIT CRASH NETWORK UNSUPPORTED PROTOCOL", "runtime_error"),
        ("TIMEOUT", "timeout"),
        ("MEMORY DISK PROCESSES OUTPUT_LIMIT BUDGET", "resource_exhausted"),
        ("POLICY", "policy"),
        ("CANCELLED", "cancelled"),
        ("SANDBOX", "sandbox"),
    ],
)
def test_kinds_of_errors_are_of_the_class_that_says_what_can_be_done(kinds: str, expected: str) -> None:
    for kind in kinds.split():
        error = ErrorInfo(kind=ErrorKind[kind])
        assert class_of(error) == class_of(ExecutionResult(exit_code=1, error=error)) == expected


def test_a_result_without_an_error_is_judged_by_its_exit_code() -> None:
    assert class_of(ExecutionResult()) is None
    assert class_of(ExecutionResult(exit_code=3)) is ErrorClass.RUNTIME_ERROR


def test_the_file_of_the_specification_is_the_default_policy(tmp_path: Path) -> None:
    policy = loaded(tmp_path, SPECIFICATION)
    assert policy == RetryPolicy()
    assert (policy.max_attempts, policy.attempt_backoff_ms, policy.max_coding_turns) == (3, (0, 100, 500), None)
    further = {name: policy.further(ErrorClass(name)) for name in policy.error_specific}
    assert further == {"import_error": 2, "syntax_error": 2, "timeout": 1, "resource_exhausted": 0}


def test_a_file_may_leave_out_keys_and_name_the_other_classes(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "max_coding_turns: 2\nerror_specific: {policy: {max_attempts: 1}}\n")
    assert policy == RetryPolicy(max_coding_turns=2, error_specific={"policy": 1})
    assert policy.further(ErrorClass.POLICY) == 1
    assert policy.further(ErrorClass.TIMEOUT) is None
    assert (policy.further(ErrorClass.SANDBOX), policy.further(ErrorClass.CANCELLED)) == (0, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_attempts: 0", "max_attempts is a whole number from 1, not 0"),
        ("max_attempts: true", "max_attempts is a whole number from 1"),
        ("max_attempts: three", "not 'three'"),
        ("max_attempt: 3", "'max_attempt' is no key; did you mean 'max_attempts'?"),
        ("max_coding_turns: 0", "max_coding_turns is a whole number from 1"),
        ("attempt_backoff_ms: 100", "attempt_backoff_ms is a list of milliseconds"),
        ("attempt_backoff_ms: [-1]", "attempt_backoff_ms is a list of milliseconds"),
        ("attempt_backoff_ms: [.inf]", "attempt_backoff_ms is a list of milliseconds"),
        ("attempt_backoff_ms: '012'", "attempt_backoff_ms is a list of milliseconds"),
        ("error_specific: [timeout]", "error_specific names classes of errors"),
        ("error_specific: {time_out: 1}", "'time_out' is no class of errors; did you mean 'timeout'?"),
        ("error_specific: {timeout: -1}", "error_specific.timeout is a whole number from 0"),
        ("error_specific: {timeout: {}}", "error_specific.timeout.max_attempts is a whole number from 0, not None"),
        ("error_specific: {timeout: {attempts: 1}}", "'attempts' is no key of error_specific.timeout"),
        ("# nothing", "is empty"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_the_file_and_the_key(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        loaded(tmp_path, text)
    assert words in str(refused.value)
    assert "retry-policy.yaml" in str(refused.value)


@pytest.mark.parametrize(
    ("delays", "expected"),
    [([0, 100, 500], [0, 100, 500, 500]), ([20], [20, 20, 20, 20]), ([], [0, 0, 0, 0])],
)
def test_each_program_has_its_delay_and_the_last_one_holds_for_the_others(delays: Any, expected: list[float]) -> None:
    policy = RetryPolicy(attempt_backoff_ms=delays)
    assert [policy.delay_ms(made) for made in range(4)] == expected


@pytest.mark.parametrize(("most", "planned", "turns"), [(None, 2, 3), (2, 0, 2), (2, 1, 1), (2, 2, 1), (9, 0, 3)])
def test_the_model_is_called_once_an_attempt_at_most(most: int | None, planned: int, turns: int) -> None:
    assert RetryPolicy(max_attempts=3, max_coding_turns=most).turns(planned) == turns
