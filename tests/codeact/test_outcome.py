"""What a model reads of one call of `execute_code`."""

from __future__ import annotations

import pytest

from actbox import ErrorInfo, ErrorKind, ExecutionResult, InvalidValue
from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.settings import CodeActSettings
from actbox.content.render import LEAST_CHARS
from actbox.core.call_log import CallLog
from actbox.core.events import ToolStarted


def outcome(max_chars: int, stdout: str = "") -> CodeActOutcome:
    calls = CallLog()
    calls.feed(ToolStarted(1, "create_order", {"id": 1}))
    error = ErrorInfo(kind=ErrorKind.TIMEOUT, message="m", line=2)
    return CodeActOutcome.of(
        ExecutionResult(stdout=stdout, exit_code=124, error=error, warnings=("w" * 10_000,)),
        CodeActSettings(max_chars=max_chars),
        program="first\nsecond",
        calls=calls,
        file_surface=True,
    )


def test_a_failure_has_the_program_s_lines_and_the_calls_that_it_had_made() -> None:
    text = outcome(20_000).text
    assert "> 2 | second" in text
    assert '1. create_order({"id": 1}) → was still running' in text


def test_a_failure_in_the_shape_of_json_has_the_calls_too() -> None:
    assert '1. create_order({"id": 1}) → was still running' in outcome(20_000).to_json_shape()["stderr"]


def test_the_least_of_characters_is_enough_for_both_forms_and_less_is_refused() -> None:
    least = outcome(2 * LEAST_CHARS, stdout="x" * 10_000)
    shape = least.to_json_shape()
    assert len(least.text) <= 2 * LEAST_CHARS
    assert len(shape["stdout"]) + len(shape["stderr"]) <= 2 * LEAST_CHARS
    with pytest.raises(InvalidValue, match="max_chars must be a whole number of at least 2000"):
        CodeActSettings(max_chars=2 * LEAST_CHARS - 1)
