"""Tools whose schema comes from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "note": {"type": "string", "default": "none"},
        "page-size": {"type": "integer", "minimum": 1},
        "query": {"type": "string", "description": "What to find"},
        "kind": {"enum": ["book", "map", 1]},
        "where": {"$ref": "#/$defs/Place"},
        "ids": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "share": {"type": ["number", "null"]},
    },
    "required": ["query"],
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"room": {"type": "string"}, "in": {"$ref": "#/$defs/Place"}},
            "required": ["room"],
            "additionalProperties": False,
        }
    },
}


def given(**arguments: Any) -> dict[str, Any]:
    return arguments


@pytest.fixture
def made() -> Tool:
    return Tool.from_schema("find-it", "Find it.", SCHEMA, given, output_schema={"type": "object"})


async def test_arguments_that_fit_are_passed_unchanged(made: Tool):
    arguments = {
        "query": "x",
        "page-size": 3,
        "kind": "map",
        "where": {"room": "a", "in": {"room": "b"}},
        "ids": [1, None],
        "share": None,
    }
    assert await made.call(arguments) == arguments


async def test_an_async_function_is_awaited():
    async def find(**arguments: Any) -> list[str]:
        return sorted(arguments)

    made = Tool.from_schema("find", "", SCHEMA, find)
    assert made.is_async and await made.call({"query": "x"}) == ["query"]


def test_required_parameters_bind_first_and_schemas_are_kept(made: Tool):
    assert made.parameters == ("query", "note", "page-size", "kind", "where", "ids", "share")
    assert made.input_schema == SCHEMA and made.input_schema is not SCHEMA
    assert made.output_schema == {"type": "object"}
    assert not made.variadic


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "argument 'query' is missing; it is str"),
        ({"query": "x", "quary": 1}, "there is no argument 'quary'; did you mean 'query'?"),
        ({"query": 3}, "argument 'query' should be a string; got 3"),
        ({"query": "x", "page-size": "3"}, "argument 'page-size' should be an integer; got '3'"),
        ({"query": "x", "page-size": True}, "argument 'page-size' should be an integer; got True"),
        ({"query": "x", "kind": True}, "argument 'kind' should be one of 'book', 'map', 1; got True"),
        ({"query": "x", "where": {}}, "argument 'where' lacks 'room'"),
        ({"query": "x", "where": {"room": "a", "in": {"room": 1}}}, "argument 'where' at ['in']['room'] should be a"),
        ({"query": "x", "where": {"room": "a", "roof": 1}}, "argument 'where' has no field 'roof'"),
        ({"query": "x", "ids": [1, "b"]}, "argument 'ids' at [1] should be int | None; got 'b'"),
        ({"query": "x", "share": "half"}, "argument 'share' should be a number or null; got 'half'"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(made: Tool, arguments: dict[str, Any], sentence: str):
    with pytest.raises(ToolError) as caught:
        await made.call(arguments)
    assert sentence in str(caught.value).splitlines()[0]
    assert caught.value.tool == "find-it"


async def test_all_problems_are_told_at_once(made: Tool):
    with pytest.raises(ToolError) as caught:
        await made.call({"note": 1, "kind": "film"})
    assert len(str(caught.value).splitlines()) == 4  # and how to call it


async def test_further_names_are_taken_where_the_schema_says_so():
    open_schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    made = Tool.from_schema("tag", "", open_schema, given)
    assert made.variadic and await made.call({"a": 1}) == {"a": 1}
    with pytest.raises(ToolError, match="argument 'a' should be an integer"):
        await made.call({"a": "x"})
    assert await Tool.from_schema("any", "", {"type": "object"}, given).call({"b": []}) == {"b": []}


async def test_a_schema_that_refers_in_a_circle_or_to_nowhere_allows_anything():
    made = Tool.from_schema(
        "odd",
        "",
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/none"}, "c": {"$ref": "http://x/y"}},
            "$defs": {"A": {"$ref": "#/$defs/A"}},
        },
        given,
    )
    assert await made.call({"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}
    assert made.signature == "(a: Any = ..., b: Any = ..., c: Any = ...) -> Any"


@pytest.mark.parametrize("schema", [{"type": "array"}, {"properties": []}, {"type": "object", "default": object()}])
def test_a_schema_that_is_none_of_an_object_is_refused(schema: dict[str, Any]):
    with pytest.raises(InvalidValue, match=r"tool 'bad'.*input_schema"):
        Tool.from_schema("bad", "", schema, given)
