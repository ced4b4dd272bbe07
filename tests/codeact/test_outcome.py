"""What a model reads of one call of `execute_code`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actbox import Artifact, ErrorInfo, ErrorKind, ExecutionResult, InvalidValue
from actbox.codeact.outcome import CodeActOutcome
from actbox.codeact.settings import CodeActSettings
from actbox.content.render import LEAST_CHARS
from actbox.core.call_log import CallLog
from actbox.core.events import ToolStarted
from actbox.core.labels import Label


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


def test_a_failure_in_the_shape_of_json_has_the_lines_of_the_program() -> None:
    assert "[the program at line 2]\n  1 | first\n> 2 | second" in outcome(20_000).to_json_shape()["stderr"]


def claiming(**came: Any) -> CodeActOutcome:
    """Return the outcome of a program whose guest says that it is no program."""
    error = ErrorInfo(kind=ErrorKind.SYNTAX, type="SyntaxError", message="never closed", line=1)
    result = ExecutionResult(exit_code=1, error=error, **came)
    settings = CodeActSettings(max_output_file_bytes=1)
    return CodeActOutcome.of(result, settings, program="(", calls=CallLog(), file_surface=True)


def test_both_forms_say_of_a_program_that_nothing_ran_only_where_it_left_no_trace() -> None:
    nothing = "nothing ran, and no tool was called"
    for came in ({"stdout": "so far"}, {"artifacts": (Artifact("a", b"12"),)}, {"artifacts": (Artifact("a", b"1"),)}):
        told = claiming(**came)
        assert nothing not in told.text
        assert nothing not in told.to_json_shape()["stderr"]
    told = claiming()
    assert nothing in told.text
    assert nothing in told.to_json_shape()["stderr"]


def test_standard_error_is_cut_with_what_stands_below_it_and_pretends_no_heading() -> None:
    error = ErrorInfo(kind=ErrorKind.RUNTIME, message="it is over")
    result = ExecutionResult(stderr="[error RUNTIME] no\n" + "x" * 50_000, exit_code=1, error=error)
    settings = CodeActSettings(max_chars=4_000)
    told = CodeActOutcome.of(result, settings, program="x", calls=CallLog(), file_surface=False).to_json_shape()
    assert len(told["stderr"]) <= 3_000
    assert told["stderr"].startswith("\\[error RUNTIME] no\nxxx")
    assert told["stderr"].endswith("[error RUNTIME, exit code 1]\nit is over")


TEXT = st.text(st.characters(categories=["L", "N", "P", "Z", "C", "Cs"]), max_size=300)


@pytest.mark.slow
@given(
    stdout=TEXT,
    stderr=TEXT,
    value=st.none() | TEXT,
    warnings=st.lists(TEXT, max_size=5),
    names=st.lists(TEXT.filter(bool), max_size=9),
    message=st.none() | TEXT,
    program=TEXT,
    times=st.integers(1, 40),
)
@example("", "", None, ["\x00" * 300] * 3, ["\x01" * 300] * 9, "\ud800", "\ud800", 40)
@example("\x00" * 300, "\x00" * 300, "\x00" * 300, [], [], None, "", 40)
def test_whatever_came_both_forms_keep_to_their_characters_and_can_be_written(
    stdout: str,
    stderr: str,
    value: str | None,
    warnings: list[str],
    names: list[str],
    message: str | None,
    program: str,
    times: int,
) -> None:
    error = None if message is None else ErrorInfo(kind=ErrorKind.RUNTIME, type=message, message=message, line=1)
    calls = CallLog()
    calls.feed(ToolStarted(1, program, {program: stdout}))
    result = ExecutionResult(
        stdout=stdout * times,
        stderr=stderr * times,
        value_text=value,
        exit_code=0 if error is None else 1,
        error=error,
        warnings=tuple(warnings * times),
        artifacts=tuple(Artifact(name, b"1") for name in names),
    )
    settings = CodeActSettings(max_chars=2_000)
    told = CodeActOutcome.of(result, settings, program=program, calls=calls, file_surface=True)
    for text in (told.text, told.with_calls_listed().text, json.dumps(told.to_json_shape(), ensure_ascii=False)):
        assert len(text.encode().decode()) <= 2_000
    shape = told.to_json_shape()
    listed = len(shape.get("output_files", []))
    assert (
        listed == len(names) or f"{len(names) - listed} more file" in shape["stderr"] or "left out" in shape["stderr"]
    )


def test_one_byte_and_one_file_are_told_as_one() -> None:
    files = (Artifact("a", b"1"), Artifact("b", b"22"), Artifact("c", b"3"))
    settings = CodeActSettings(max_output_files=1, max_output_file_bytes=1)
    result = ExecutionResult(artifacts=files)
    told = CodeActOutcome.of(result, settings, program="x", calls=CallLog(), file_surface=True)
    assert told.text == (
        "[files in output/]\na (application/octet-stream, 1 byte)\n\n[warnings]\n"
        "output/b (2 bytes) does not come back, since one file may have 1 byte\n"
        "output/c (1 byte) does not come back, since 1 file may come back from one call"
    )


def test_the_least_of_characters_is_enough_for_both_forms_and_less_is_refused() -> None:
    least = outcome(2 * LEAST_CHARS, stdout="x" * 10_000)
    shape = least.to_json_shape()
    assert len(least.text) <= 2 * LEAST_CHARS
    assert len(shape["stdout"]) + len(shape["stderr"]) <= 2 * LEAST_CHARS
    with pytest.raises(InvalidValue, match="max_chars must be a whole number of at least 2000"):
        CodeActSettings(max_chars=2 * LEAST_CHARS - 1)


def labelled(label: str, **settings: Any) -> CodeActOutcome:
    result = ExecutionResult(stdout="ann@example.org", value=1, artifacts=(Artifact("a", b"1"),), label=Label(label))
    calls = CallLog()
    calls.feed(ToolStarted(1, "load", {"who": "ann@example.org"}))
    return CodeActOutcome.of(result, CodeActSettings(**settings), program="1", calls=calls, file_surface=True)


@pytest.mark.parametrize("settings", [{"egress_max": "public"}, {"model_cleared": "internal"}])
def test_a_result_above_what_the_model_may_read_is_replaced_by_a_sentence(settings: dict[str, str]) -> None:
    kept = labelled("pii.email", **settings)
    assert kept.withheld is not None
    assert kept.withheld.stdout == "ann@example.org"
    (cleared,) = settings.values()
    assert f"another label than {cleared}, up to which you may read results" in kept.text
    for shown in (kept.text, kept.with_calls_listed().text, str(kept.to_json_shape()), kept.printed()):
        assert "ann" not in shown
        assert "pii" not in shown  # a program chooses the text of its label
    assert kept.artifacts == ()


@pytest.mark.parametrize(
    ("label", "settings"),
    [
        ("public", {"egress_max": "public"}),
        ("pii.email", {"egress_max": "public", "model_cleared": "pii"}),
        ("pii", {}),
    ],
)
def test_a_result_that_the_model_may_read_is_as_it_is(label: str, settings: dict[str, str]) -> None:
    shown = labelled(label, **settings)
    assert shown.withheld is None
    assert "ann@example.org" in shown.text
