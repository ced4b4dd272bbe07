"""Tasks: what they take, what they refuse, and the protocol's two shapes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from actbox import InvalidValue
from actbox.codegen import CodingRequest, Constraints, Example, FileCheck, InputFile, SchemaCheck, Task, TextCheck
from actbox.codegen.protocol import request_of
from actbox.core.labels import Label
from actbox.core.result import Artifact

FLAT = {
    "task": "Create data viz",
    "inputs": ["sales.csv"],
    "outputs": ["chart.png"],
    "language": "python",
    "constraints": {"dependencies_allowed": True, "max_lines": 100},
}
"""The request of the specification's section 4.2."""
NESTED = {
    "task": "Create a bar chart from CSV data",
    "context": {
        "input_files": [{"name": "sales.csv", "schema": "region,amount,date"}],
        "output_requirements": ["PNG image", "stdout summary"],
        "constraints": {"language": "python", "max_dependencies": 5, "timeout_ms": 30000},
    },
    "examples": [{"input": "...", "expected_output": "..."}],
}
"""The request of the specification's section 7.2."""


def test_the_flat_request_of_the_specification_is_a_task() -> None:
    task = Task.of(FLAT, {"sales.csv": b"region,amount\n"})
    assert (task.goal, task.outputs, task.language) == ("Create data viz", ("chart.png",), "python")
    assert task.constraints == Constraints(max_lines=100)
    assert task.files["sales.csv"].data == b"region,amount\n"
    assert not task.declared


def test_the_nested_request_of_the_specification_is_a_task() -> None:
    task = Task.of(NESTED)
    assert task.declared == {"sales.csv": "region,amount,date"}
    assert task.output_requirements == ("PNG image", "stdout summary")
    assert task.constraints == Constraints(max_dependencies=5, timeout_ms=30000)
    assert task.examples == (Example("...", "..."),)
    assert task.examples[0].is_placeholder


@pytest.mark.parametrize("shape", [FLAT, NESTED], ids=["flat", "nested"])
def test_a_request_is_written_in_the_shape_in_which_it_was_read(shape: dict[str, Any]) -> None:
    request = CodingRequest.of(shape)
    written = request.flat() if shape is FLAT else request.nested()
    if shape is FLAT:  # dependencies are allowed unless a request says otherwise
        written["constraints"]["dependencies_allowed"] = True
    assert written == shape
    assert CodingRequest.of(written) == request


def test_a_task_makes_the_request_that_makes_it() -> None:
    task = Task.of(NESTED, {"sales.csv": "region,amount,date\n"})
    request = request_of(task)
    assert Task.of(request.model_dump(by_alias=True), {"sales.csv": "region,amount,date\n"}) == task


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": ""}, "task"),
        ({"extra": 1}, "extra"),
        ({"constraints": {"max_lines": 0}}, "constraints.max_lines"),
        ({"constraints": {"lines": 3}}, "constraints.lines"),
        ({"context": {"constraints": {"max_lines": 5}}}, "max_lines twice"),
        ({"context": {"constraints": {"language": "javascript"}}}, "language twice"),
        ({"context": {"input_files": [{"schema": "a,b"}]}}, "input_files.0.name"),
    ],
)
def test_a_request_with_what_the_protocol_does_not_have_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        Task.of({**FLAT, **change})


def test_inputs_are_files_by_their_name_and_variables_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "on-disk.csv"
    path.write_bytes(b"a,b\n")
    task = Task(
        "do",
        inputs={
            "text.csv": "a,b\n",
            "input/bytes.bin": b"\0",
            "rows.json": [{"a": 1}],
            "Makefile": path,
            "earlier.csv": Artifact("x.csv", b"1", label=Label("pii.email")),
            "limit": 3,
            "name": "no file",
        },
    )
    assert {name: one.data for name, one in task.files.items()} == {
        "text.csv": b"a,b\n",
        "bytes.bin": b"\0",
        "rows.json": json.dumps([{"a": 1}]).encode(),
        "Makefile": b"a,b\n",
        "earlier.csv": b"1",
    }
    assert task.values == {"limit": 3, "name": "no file"}
    path.write_bytes(b"changed")
    assert task.files["Makefile"].data == b"a,b\n"


def test_labels_of_inputs_are_kept_and_joined() -> None:
    task = Task("do", inputs={"a.csv": InputFile(b"1", "pii.email"), "b.csv": InputFile(b"2", Label("internal"))})
    assert task.files["a.csv"].label == Label("pii.email")
    assert task.joined_label == Label("pii.email", "internal")
    assert Task("do", label="secret").joined_label == Label("secret")


def test_a_file_that_is_no_plain_file_is_refused_with_its_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (("none", "No such file"), ("", "is a directory; give its files"), ("pipe", "no regular file")):
        with pytest.raises(InvalidValue, match=rf"'data\.csv'.*({words})"):
            Task("do", inputs={"data.csv": tmp_path / path})


def test_files_that_are_too_large_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actbox.codegen.task.MOST_INPUT_BYTES", 10)
    (tmp_path / "large").write_bytes(b"12345678901")
    with pytest.raises(InvalidValue, match=r"'large\.csv'"):
        Task("do", inputs={"large.csv": tmp_path / "large"})
    with pytest.raises(InvalidValue, match=r"'b\.csv'"):
        Task("do", inputs={"a.csv": b"123456", "b.csv": b"12345"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"inputs": {"../a.csv": b""}}, "no path below /input"),
        ({"inputs": {"two words": 1}}, "neither a file's name"),
        ({"inputs": {"a.csv": object()}}, "JSON data"),
        ({"inputs": {"value": object()}}, "Task.inputs"),
        ({"inputs": ["a.csv"]}, "Task.inputs is a dict"),
        ({"outputs": ["/etc/passwd"]}, "Task.outputs"),
        ({"outputs": "chart.png"}, "Task.outputs is a list"),
        ({"best_of": 0}, "best_of"),
        (
            {"checks": ["words"]},
            "Task.checks: each is a function, a SchemaCheck, a FileCheck or a TextCheck, not 'words'",
        ),
        ({"examples": [(1, 2)]}, "Task.examples"),
        ({"language": ""}, "Task.language"),
        ({"constraints": {"max_lines": 3}}, "Task.constraints is Constraints(…)"),
    ],
)
def test_what_a_task_cannot_have_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(words)):
        Task("do", **fields)


def test_a_goal_is_needed() -> None:
    for goal in ("", "  ", "x" * 100_001):
        with pytest.raises(InvalidValue, match=r"Task\.goal"):
            Task(goal)


def test_checks_and_constraints_are_checked_when_they_are_made() -> None:
    assert FileCheck("/workspace/output/a.png").name == "a.png"
    for make in (
        lambda: FileCheck("../a"),
        lambda: SchemaCheck("no schema"),  # type: ignore[arg-type]
        lambda: SchemaCheck({"type": "whole number"}),
        lambda: SchemaCheck({"type": "integer", "multipleOf": 2}),  # it is not known, so every answer would fail
        lambda: TextCheck(" "),
        lambda: TextCheck("x", "unittest"),  # type: ignore[arg-type]
        lambda: TextCheck("x", written_by="nobody"),  # type: ignore[arg-type]
        lambda: Constraints(max_lines=0),
        lambda: Constraints(timeout_ms=True),
        lambda: Constraints(dependencies_allowed=1),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidValue):
            make()
