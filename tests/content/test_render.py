"""What a model reads of a result."""

from __future__ import annotations

from actbox import Artifact, ErrorInfo, ErrorKind, ExecutionResult
from actbox.content.render import render


def test_every_part_has_its_heading() -> None:
    text = render(
        ExecutionResult(
            stdout="out\n",
            stderr="err\n",
            value_text="[1]",
            artifacts=(Artifact("a.png", b"12345"),),
            warnings=("output/x was not collected",),
        )
    )
    assert text == (
        "[stdout]\nout\n\n[stderr]\nerr\n\n[value]\n[1]\n\n[files in output/]\na.png (image/png, 5 bytes)\n\n"
        "[warnings]\noutput/x was not collected"
    )


def test_an_error_has_kind_traceback_and_hint() -> None:
    error = ErrorInfo(
        kind=ErrorKind.RUNTIME, type="KeyError", message="'a'", traceback="Traceback…\nKeyError: 'a'\n", hint="look"
    )
    assert render(ExecutionResult(exit_code=1, error=error)) == (
        "[error RUNTIME, exit code 1]\nTraceback…\nKeyError: 'a'\nhint: look"
    )
    bare = ErrorInfo(kind=ErrorKind.TIMEOUT, message="stopped after 2 seconds")
    assert "stopped after 2 seconds" in render(ExecutionResult(exit_code=124, error=bare))


def test_nothing_is_said_in_words() -> None:
    assert "printed nothing" in render(ExecutionResult())


def test_long_output_keeps_beginning_and_end_and_says_what_is_missing() -> None:
    text = render(ExecutionResult(stdout="begin" + "x" * 100_000 + "end", value_text="y" * 100_000), max_chars=10_000)
    assert len(text) < 11_000
    assert "begin" in text
    assert "end" in text
    assert "of 100,008 characters left out" in text
