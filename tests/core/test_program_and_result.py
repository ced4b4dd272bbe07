"""Programs are checked when they are made; results say the same to people and programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actbox import Artifact, ErrorInfo, ErrorKind, ExecutionResult, InvalidValue, Program, Usage


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"code": b"x"}, "text"),
        ({"code": "x" * (8 * 2**20 + 1)}, "8 MiB"),
        ({"code": "", "inputs": {"two words": 1}}, "variable"),
        ({"code": "", "inputs": {"class": 1}}, "variable"),
        ({"code": "", "inputs": {"a": [object()]}}, r"inputs\['a'\]\[0\] is of type object, which cannot cross"),
        ({"code": "", "files": {"../up": b""}}, "below /input"),
        ({"code": "", "files": {"/abs": b""}}, "below /input"),
        ({"code": "", "files": {"": b""}}, "below /input"),
        ({"code": "", "files": {"a": 1}}, "bytes or text"),
        ({"code": "", "name": "a/b"}, "file name"),
        ({"code": "", "name": None}, "file name"),
        ({"code": "", "inputs": [1]}, "Program.inputs is a dict .*, not list"),
        ({"code": "", "files": ["a.csv"]}, "Program.files is a dict .*, not list"),
        ({"code": "", "cwd": None}, "Program.cwd must be a path"),
        ({"code": "", "cwd": "a\0b"}, "Program.cwd must be a path"),
        ({"code": "", "cwd": "\ud800"}, "Program.cwd must be a path"),
        ({"code": "", "env": {"A=B": "1"}}, "name of an environment variable"),
        ({"code": "", "env": {"A": 1}}, "environment variable A must be text"),
        ({"code": "", "env": ["A=1"]}, "environment variables are a dict"),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        Program(**given)


def test_what_is_given_to_a_program_cannot_change_under_it() -> None:
    inputs = {"a": 1}
    program = Program("a", inputs=inputs, files={"f": "text"})
    inputs["a"] = 2
    assert program.inputs == {"a": 1}
    assert program.files == {"f": b"text"}


def test_success_is_no_error_and_exit_code_zero() -> None:
    assert ExecutionResult().success
    assert not ExecutionResult(exit_code=1).success
    assert not ExecutionResult(error=ErrorInfo(kind=ErrorKind.RUNTIME)).success


def test_the_document_of_a_result_has_every_part() -> None:
    result = ExecutionResult(
        stdout="o",
        exit_code=1,
        value_forms={"image/png": b"\x89", "text/html": "<b>"},
        error=ErrorInfo(kind=ErrorKind.TOOL, type="ToolError", message="m", line=3),
        artifacts=(Artifact("a.csv", b"1"),),
        usage=Usage(wall_ms=1.5, tool_calls=2),
        sandbox="linux",
    )
    document = json.loads(json.dumps(result.to_dict()))
    assert document["error"]["kind"] == "TOOL"
    assert document["error"]["line"] == 3
    assert document["artifacts"] == [{"name": "a.csv", "media_type": "text/csv", "size": 1, "data": "MQ=="}]
    assert document["value_forms"] == {"image/png": "iQ==", "text/html": "<b>"}
    assert document["usage"]["wall_ms"] == 1.5
    assert {"stdout", "stderr", "exit_code", "success", "value", "sandbox"} <= set(document)


def test_an_artifact_is_found_by_name_or_the_names_are_told() -> None:
    result = ExecutionResult(artifacts=(Artifact("a.csv", b"1"),))
    assert result.artifact("a.csv").size == 1
    with pytest.raises(KeyError, match=r"a\.csv"):
        result.artifact("b.csv")
