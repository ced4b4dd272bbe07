"""The protocol obeyed: constraints, requirements and examples, and the schema of what came out."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.codegen import Constraints, Example, FileCheck, Task
from actbox.codegen.conformance import (
    broken_constraints,
    constraint_error,
    example_problem,
    lines_of,
    output_schema,
    required_checks,
)
from actbox.codegen.dependencies import dependencies_of, requirements_txt
from actbox.codegen.response import CodingResponse
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.result import Artifact, ExecutionResult


def response(code: str = "", **fields: Any) -> CodingResponse:
    return CodingResponse(code=code, **{"language": "python", **fields})


def broken(given: CodingResponse, **bounds: Any) -> str:
    return " ".join(broken_constraints(given, Task("do", constraints=Constraints(**bounds))))


def test_lines_are_those_of_code_in_all_files() -> None:
    assert lines_of(response("import os\n\n# why\nprint(os)\n", files={"a.py": "A = 1\n", "b.json": "{\n}\n"})) == 3


def test_constraints_are_checked_before_anything_runs() -> None:
    given = response("import pandas\nimport yaml, json\nprint(1)\n", estimated_runtime_ms=2000)
    assert broken(given) == ""
    assert "has 3 lines of code; at most 2" in broken(given, max_lines=2)
    assert broken(given, max_lines=3) == ""
    assert "needs 2 dependencies (pandas, pyyaml); at most 1" in broken(given, max_dependencies=1)
    assert broken(given, max_dependencies=2) == ""
    assert "No dependencies are allowed, and the program needs pandas, pyyaml" in broken(
        given, dependencies_allowed=False, max_dependencies=0
    )
    assert "2000 ms; it has 1000 ms" in broken(given, timeout_ms=1000)
    assert "in javascript; write it in python" in broken(response("console.log(1)", language="javascript"))
    error = constraint_error(["The program has 3 lines.", "And more."])
    assert (error.kind, error.type) == (ErrorKind.TYPE, "ConstraintBroken")
    assert error.message == "The program has 3 lines. And more."


def test_dependencies_are_those_named_imported_and_in_a_script_block() -> None:
    block = '# /// script\n# dependencies = ["rich>=13"]\n# ///\n'
    given = response(
        f"{block}import numpy as np\nfrom core import helper\nfrom . import other\nimport os.path\n",
        files={"core/__init__.py": "import requests", "notes.txt": "import torch"},
        dependencies=("pandas>=2",),
    )
    assert dependencies_of(given) == ("pandas", "rich", "numpy", "requests")
    assert requirements_txt(given) == "pandas>=2\nrich\nnumpy\nrequests\n"
    assert requirements_txt(response("print(1)")) == ""
    assert requirements_txt(response("require('lodash')", language="javascript")) == ""
    in_node = response(
        "const fs = require('fs'); import x from '@scope/name/deep'; require('./own'); import('lodash')",
        language="javascript",
    )
    assert dependencies_of(in_node) == ("@scope/name", "lodash")
    named = ("github.com/a/b v1.2.0", "github.com/c/d@latest", "serde = 1")
    in_go = CodingResponse(code="package main", language="go", dependencies=named)
    assert dependencies_of(in_go) == ("github.com/a/b", "github.com/c/d", "serde")


def test_output_requirements_become_checks_where_they_can() -> None:
    checks, left = required_checks(
        Task(
            "do",
            outputs=["chart.png"],
            output_requirements=[
                "PNG image",
                "stdout summary",
                "report.md with the totals",
                "be quick",
                "use chart.png",
            ],
        )
    )
    assert left == ("be quick",)
    named = [one.name if isinstance(one, FileCheck) else getattr(one, "__name__", "") for one in checks]
    assert named == ["chart.png", "writes_png_file", "prints_something", "report.md"]
    png, prints = checks[1], checks[2]
    assert callable(png) and callable(prints)
    assert png(ExecutionResult()) == "the program wrote no PNG file below output/"
    assert "not PNG by its content" in png(ExecutionResult(artifacts=(Artifact("a.png", b"GIF89a"),)))
    assert png(ExecutionResult(artifacts=(Artifact("a.png", b"\x89PNG\r\n\x1a\n"),))) is True
    assert "printed nothing" in prints(ExecutionResult(stdout=" \n"))
    assert prints(ExecutionResult(stdout="12")) is True


def test_what_a_requirement_forbids_is_not_asked_for() -> None:
    forbidding = ["no output on stdout", "Do not write a PNG file", "it prints nothing", "Don't write debug.log."]
    assert required_checks(Task("do", output_requirements=forbidding)) == ((), tuple(forbidding))
    (file,), left = required_checks(Task("do", output_requirements=["no title, but chart.png with a legend"]))
    assert (file, left) == (FileCheck("chart.png"), ())


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        (42, ExecutionResult(value=42)),
        (42, ExecutionResult(stdout="thinking\n42\n")),
        ("42", ExecutionResult(value=42)),
        (0.3, ExecutionResult(value=0.1 + 0.2)),
        ([1, [2]], ExecutionResult(value=(1, (2,)))),
        ({"1": "a"}, ExecutionResult(value={1: "a "})),
        ({"a": 1}, ExecutionResult(stdout='{"a": 1}')),
        (None, ExecutionResult(stdout="None")),
        (None, ExecutionResult()),
        (True, ExecutionResult(value=True)),
        ("yes", ExecutionResult(stdout=" yes\n")),
    ],
)
def test_an_example_holds_for_the_value_or_what_was_printed(wanted: Any, result: ExecutionResult) -> None:
    assert example_problem(Example(1, wanted), result) == ""


def test_an_example_that_does_not_hold_says_what_came_instead() -> None:
    said = example_problem(Example([1, 2], 3), ExecutionResult(value=4))
    assert said == "for the input [1, 2] the output was 4 instead of 3"
    assert "was nothing instead of" in example_problem(Example(1, 2), ExecutionResult())
    assert 'was "words" instead of null' in example_problem(Example(1, None), ExecutionResult(stdout="words"))
    assert "1 instead of true" in example_problem(Example(1, True), ExecutionResult(value=1))
    error = ErrorInfo(kind=ErrorKind.RUNTIME, type="ValueError", message="no")
    assert "failed: ValueError: no" in example_problem(Example(1, 2), ExecutionResult(exit_code=1, error=error))


def test_the_schema_of_the_output_is_that_of_what_came_out() -> None:
    result = ExecutionResult(
        value={"total": 3, "rows": [{"a": 1.5}, {"a": 2.5}]}, artifacts=(Artifact("a.csv", b"1"),), stdout="x"
    )
    assert output_schema(result) == {
        "value": {
            "type": "object",
            "properties": {
                "total": {"type": "integer"},
                "rows": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
                },
            },
            "required": ["total", "rows"],
        },
        "files": {"a.csv": "text/csv"},
        "prints": True,
    }
    assert output_schema(ExecutionResult(), answer=[1, "a"])["value"] == {
        "type": "array",
        "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    }
