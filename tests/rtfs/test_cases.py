"""The reference's own tests as cases: `cases.json` says where they are from and under which licence."""

import json
from pathlib import Path
from typing import Any

import pytest

from actbox.rtfs.errors import ReadError
from actbox.rtfs.evaluator import evaluate
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.syntax import Keyword
from actbox.rtfs.values import Map, Value, Vector, equal

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "cases.json").read_text())["cases"]

WRONG = {
    "stdlib_e2e_tests.rs:398": "the entries of the inner maps were written down as entries of the outer one, too, so"
    " that its keys stand there several times: no map has that form. The right value is tested below.",
}


def value_of(expected: dict[str, Any]) -> Value:
    kind, said = expected["t"], expected.get("v")
    if kind == "vector":
        return Vector(value_of(item) for item in said)
    if kind == "map":
        return Map.of((value_of(key), value_of(item)) for key, item in said)
    if kind == "keyword":
        return Keyword(said)
    return float(said) if kind == "float" else said


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] not in WRONG], ids=lambda case: case["id"])
def test_the_reference_s_cases_hold(case):
    if case.get("phase") == "parse":
        with pytest.raises(ReadError):
            evaluate(case["source"])
    elif "error_contains" in case:
        with pytest.raises(RtfsError) as caught:
            evaluate(case["source"])
        assert case["error_contains"] in caught.value.name
    else:
        found = evaluate(case["source"])
        assert equal(found, value_of(case["expected"])), found


def test_the_one_case_that_was_written_down_wrongly_holds_as_it_was_meant():
    found = evaluate(
        '(group-by :state [{:state "open" :id 1} {:state "closed" :id 2} {:state "open" :id 3}])',
    )
    meant = evaluate('{"open" [{:state "open" :id 1} {:state "open" :id 3}] "closed" [{:state "closed" :id 2}]}')
    assert equal(found, meant)
    assert len(WRONG) == 1
    assert len(CASES) == 288
