from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.rtfs.conversion import from_json, to_json
from actbox.rtfs.reader import read
from actbox.rtfs.schemas import Schema, SchemaError, from_json_schema, parse_schema, to_json_schema, validate
from actbox.rtfs.schemas.nodes import Primitive, VectorOf, form_of
from tests.rtfs.rtfs_schemas import json_data, json_schemas


def schema(source: str) -> Schema:
    (form,) = read(source)
    return parse_schema(form)


def fits(data: Any, json_schema: Any) -> bool:
    return jsonschema.Draft202012Validator(json_schema).is_valid(data)


@pytest.mark.slow
@given(json_schemas, json_data)
def test_json_schema_means_what_the_schema_means(some: Schema, data: Any):
    json_schema = to_json_schema(some)
    jsonschema.Draft202012Validator.check_schema(json_schema)
    value = from_json(data, loose=True)
    assert validate(value, some) is fits(to_json(value), json_schema)


@pytest.mark.slow
@given(json_schemas, json_data)
def test_json_schema_is_read_as_what_it_means(some: Schema, data: Any):
    json_schema = to_json_schema(some)
    assert validate(from_json(data, loose=True), from_json_schema(json_schema)) is fits(data, json_schema)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "[:map [:code :string] [:inputs {:optional true} [:map]]"
            " [:dependencies {:optional true} [:vector :string]]]",
            {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "inputs": {"type": "object"},
                    "dependencies": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["code"],
            },
        ),
        (
            "[:map :string :bytes]",
            {"type": "object", "additionalProperties": {"type": "string", "contentEncoding": "base64"}},
        ),
        ("[:and :int [:> 0] [:<= 10]]", {"type": "integer", "exclusiveMinimum": 0, "maximum": 10}),
        ("[:and :string :non-empty :is-url]", {"type": "string", "minLength": 1, "format": "uri"}),
        (
            "[:and [:vector :int] [:count 2]]",
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        ),
        ('[:required-keys [:a "a" :b]]', {"type": "object", "required": ["a", "b"]}),
        ("[:enum :fast :slow]", {"enum": ["fast", "slow"]}),
        (":string?", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            '[:map {:closed true :description "d"} [:a {:optional true :description "e" :default 3} :int]]',
            {
                "type": "object",
                "description": "d",
                "properties": {"a": {"description": "e", "type": "integer", "default": 3}},
                "additionalProperties": False,
            },
        ),
    ],
)
def test_schemas_as_json_schema(source: str, expected: dict[str, Any]):
    assert to_json_schema(schema(source)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (True, ":any"),
        (False, ":never"),
        ({}, ":any"),
        ({"title": "T", "description": "d", "default": 1}, ":any"),
        ({"type": "integer"}, ":int"),
        ({"type": ["string", "null"]}, ":string?"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}, {"type": "string"}]}, "[:maybe [:union :int :string]]"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, '[:union [:val "a"] [:val "b"]]'),
        ({"type": "string", "format": "email", "maxLength": 9}, "[:and :string [:max-length 9] :is-email]"),
        ({"type": "string", "format": "date-time"}, ":string"),
        ({"minimum": 1}, "[:and :float [:>= 1]]"),
        ({"items": {"type": "integer"}}, "[:vector :int]"),
        (
            {
                "$defs": {"n/a": {"type": "integer"}},
                "properties": {"a": {"$ref": "#/$defs/n~1a"}},
                "required": ["a", "b"],
            },
            "[:map [:a :int] [:b :any]]",
        ),
        (
            {"type": "object", "properties": {"my key": {"type": "string", "description": "d"}}},
            '[:map ["my key" {:optional true :description "d"} :string]]',
        ),
        ({"allOf": [{"type": "integer"}, {"minimum": 0}]}, "[:and :int [:and :float [:>= 0]]]"),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False, "minItems": 1}, "[:tuple :int]"),
    ],
)
def test_json_schema_as_a_schema(data: Any, expected: str):
    assert from_json_schema(data) == schema(expected)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (1, "not a int"),
        ({"type": "integer", "multipleOf": 2}, "`multipleOf` is not known"),
        ({"patternProperties": {}}, "`patternProperties` is not known"),
        ({"if": {}}, "`if` is not known"),
        ({"type": "date"}, "'date' is no type of JSON"),
        ({"type": [1]}, "1 is no type of JSON"),
        ({"type": 1}, "`type` is a list"),
        ({"type": "string", "minimum": 1}, "`minimum` says nothing of the type 'string'"),
        ({"minimum": 1, "minLength": 1}, "cannot stand together"),
        ({"anyOf": []}, "one of nothing"),
        ({"anyOf": {}}, "`anyOf` is a list"),
        ({"not": {"type": "string"}}, "`not` is known with nothing"),
        ({"uniqueItems": True}, "`uniqueItems` is not known"),
        ({"prefixItems": [True]}, "`prefixItems` is known with"),
        ({"propertyNames": {}, "required": ["a"]}, "`propertyNames` is known where"),
        ({"properties": []}, "`properties` is an object"),
        ({"required": [1]}, "1 is no name of a property"),
        ({"properties": {1: {}}}, "1 is no name of a property"),
        ({"additionalProperties": 1}, "`additionalProperties` is a schema"),
        ({"type": "string", "contentEncoding": "quoted-printable"}, "base64 is"),
        ({"type": "string", "pattern": "("}, "is no regular expression"),
        ({"type": "integer", "exclusiveMinimum": True}, "must be a number"),
        ({"$ref": "https://a.example/b"}, "leads out of the document"),
        ({"$ref": "#/$defs/a"}, "nothing stands at"),
        ({"$ref": "#"}, "refers to itself"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "'#/\\$defs/a' refers to itself"),
        ({"const": {1: 2}}, "is none of RTFS"),
        ({"enum": [2**64]}, "is none of RTFS"),
        ({1: 2}, "`1` is not known"),
    ],
)
def test_what_a_schema_cannot_say_is_refused(data: Any, message: str):
    with pytest.raises(SchemaError, match=message):
        from_json_schema(data)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("[:vector [:fn [] :int]]", "a function has no JSON"),
        ("[:map [1 :int]]", "the key 1 is no text"),
        ('[:map [:a :int] ["a" :int]]', "two keys of one map are 'a' in JSON"),
        ("[:map-of :int :int]", "a map with keys of :int has no JSON"),
        ("[:> ##Inf]", "has no JSON"),
        ("[:has-key 1]", "the key 1 is no text"),
    ],
)
def test_what_json_schema_cannot_say_is_refused(source: str, message: str):
    with pytest.raises(SchemaError, match=message):
        to_json_schema(schema(source))


WORDS = [
    *("type", "const", "enum", "anyOf", "oneOf", "allOf", "not", "items", "prefixItems", "properties", "required"),
    *("pattern", "$ref", "minimum", "additionalProperties", "propertyNames", "minItems", "maxItems", "minLength"),
    *("format", "contentEncoding"),
]
json_anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(WORDS),
                st.text(max_size=3),
            ),
            inner | st.sampled_from(["string", "object", "array", "integer", "#", "#/a"]),
            max_size=4,
        ),
    ),
    max_leaves=10,
)


@given(json_anything)
def test_any_json_is_a_schema_or_a_schema_error(data: Any):
    try:
        some = from_json_schema(data)
    except SchemaError:
        return
    assert parse_schema(form_of(some)) == some


@pytest.mark.slow
def test_definitions_that_double_end_within_their_parts():
    definitions: dict[str, Any] = {"0": {"type": "integer"}}
    for number in range(60):
        definitions[str(number + 1)] = {"anyOf": [{"$ref": f"#/$defs/{number}"}] * 2}
    with pytest.raises(SchemaError, match="more than 100000 parts"):
        from_json_schema({"$defs": definitions, "$ref": "#/$defs/60"})


@pytest.mark.slow
def test_deep_schemas_use_no_stack():
    some: Schema = Primitive("int")
    for _ in range(20_000):
        some = VectorOf(some)
    json_schema = to_json_schema(some)
    assert from_json_schema(json_schema) == some
    # Python compares and ends deep dicts by recursion, so this one is taken apart by hand.
    while json_schema:
        json_schema = json_schema.pop("items", {})
