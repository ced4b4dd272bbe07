"""Schemas of capabilities have one form, wherever they come from."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from actbox.capabilities import Schema
from actbox.core.errors import InvalidValue


class Chart(BaseModel):
    title: str = Field(description="shown above")
    sizes: list[int] = []
    inner: Chart.Point | None = None

    class Point(BaseModel):
        x: int


Chart.model_rebuild()
RTFS = """[:map [:title {:description "shown above"} :string] [:sizes {:optional true :default []} [:vector :int]]
           [:inner {:optional true :default nil} [:maybe [:map [:x :int]]]]]"""


def test_a_model_its_json_schema_and_rtfs_give_the_same_schema() -> None:
    schema = Schema.of(Chart)
    assert schema == Schema.of(Chart.model_json_schema()) == Schema.of(RTFS) == Schema.of(schema)
    assert Schema.of(schema.to_rtfs()) == schema == Schema.of(schema.to_json())
    assert schema.fields == ("title", "sizes", "inner")


def test_fields_that_the_schema_lacks_are_refused_at_every_depth() -> None:
    schema = Schema.of(Chart)
    assert schema.problems({"title": "t", "inner": {"x": 1}}) == ()
    assert schema.problems({"title": "t", "titel": "u"}) == ("titel: the key 'titel' is none of the schema's",)
    assert schema.problems({"title": "t", "inner": {"x": 1, "y": 2}}) == (
        "inner.y: the key 'y' is none of the schema's",
    )
    assert schema.to_json()["additionalProperties"] is False


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("[:map]", {"any": 1}),
        ("[:map [:a :int] [:* :any]]", {"a": 1, "b": 2}),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, {"b": 2}),
        ("[:map [:options [:map]]]", {"options": {"any": 1}}),
        (dict[str, int], {"any": 1}),
        ("[:and [:map [:a :int]] [:map [:b :int]]]", {"a": 1, "b": 2}),
        ("[:enum :a :b]", "a"),
        ("[:list :keyword]", ["a"]),
        ({"type": "string", "format": "date", "x-python": "datetime.date"}, "2026-01-02"),
        (True, None),
    ],
)
def test_a_value_that_fits_has_no_problems(given: Any, value: Any) -> None:
    schema = Schema.of(given)
    assert schema.problems(value) == ()
    assert Schema.of(schema.to_rtfs()) == schema == Schema.of(schema.to_json())


@pytest.mark.parametrize(
    ("given", "value", "problem"),
    [
        ("[:map [:a :int]]", {}, "a: the key :a is missing"),
        ("[:map [:a [:vector :int]]]", {"a": [1, "x"]}, "a[1]: expected :int, found string 'x'"),
        ("[:map [:a :int]]", {"a": 2**70}, "an integer beyond 64 bits"),
        ("[:map]", {"a": object()}, "a Python object is no value"),
        ("[:map]", {"a": [float("nan")]}, "NaN is a number that JSON cannot say"),
        ("[:map]", {1: 1}, "a key of type int is none of JSON"),
        ("[:and [:map [:a :int]] [:map [:b :int]]]", {"a": 1, "b": 2, "c": 3}, "c: the key 'c' is none"),
        (False, 1, "expected"),
    ],
)
def test_a_problem_has_its_place(given: Any, value: Any, problem: str) -> None:
    assert problem in Schema.of(given).problems(value)[0]


def test_problems_are_few_and_a_value_that_contains_itself_is_one() -> None:
    assert len(Schema.of(list[int]).problems(["x"] * 1000)) == 10
    loop: list[Any] = []
    loop.append(loop)
    assert Schema.of("[:vector :any]").problems(loop) == ("data that contains itself is no value, at [0]",)


class Tree(BaseModel):
    children: list[Tree]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


_CYCLE: dict[str, Any] = {"type": "array"}
_CYCLE["items"] = _CYCLE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Tree, "refers to itself"),
        ({"$ref": "#"}, "refers to itself"),
        (_CYCLE, "more than 100000 parts"),
        (nested(100), "at most 64 schemas inside each other"),
        ({"enum": ["x" * 300_000]}, "at most 256 KiB"),
        ("[:map [:a :int]", "this is no schema: line 1"),
        ("[:no-such]", "this is no schema"),
        ({"type": "object", "patternProperties": {}}, "`patternProperties` is not known"),
        (3, "a schema is a JSON Schema, RTFS or a type with a JSON form, not 3"),
        (memoryview, "a schema is a JSON Schema, RTFS or a type with a JSON form"),
        ("[:and [:map [:a :int]] [:map-of :string :int]]", "write one object"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Schema.of(given)
