from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from actbox.rtfs.conversion import from_json
from actbox.rtfs.errors import ReadError
from actbox.rtfs.failures import BudgetExhausted
from actbox.rtfs.reader import read
from actbox.rtfs.schemas import Problem, Schema, SchemaError, check, explain, parse_schema, predicates, validate
from actbox.rtfs.schemas.literals import form_of_value, value_of
from actbox.rtfs.schemas.nodes import Primitive, UnionOf, VectorOf, form_of
from actbox.rtfs.syntax import Keyword, Literal, Resource, Symbol
from actbox.rtfs.values import List, Map, Value, Vector
from tests.rtfs.rtfs_schemas import json_data, schemas

URL = '"https://a.example/b?c"'


def schema(source: str) -> Schema:
    (form,) = read(source)
    return parse_schema(form)


def value(source: str) -> Value:
    (form,) = read(source)
    return value_of(form)


@pytest.mark.parametrize(
    ("source", "fits", "fits_not"),
    [
        (":int", ["1", "-1"], ["1.0", "true", '"1"', "nil"]),
        ("Int", ["1"], ["1.0"]),
        (":Integer", ["1"], ["1.0"]),
        (":float", ["1.5", "1"], ["true", '"1"']),
        (":number", ["1.5", "1"], ["nil"]),
        ("string", ['""'], [":a", "nil"]),
        (":bool", ["true", "false"], ["nil", "0"]),
        (":boolean", ["true"], ["1"]),
        (":nil", ["nil"], ["false"]),
        ("nil", ["nil"], ["false"]),
        (":keyword", [":a"], ['"a"']),
        (":symbol", ["a"], [":a"]),
        (":any", ["nil", "[]"], []),
        (":never", [], ["nil"]),
        (":bytes", ['""', '"YQ=="', '"+/Ab"'], ['"a"', '"a=b="', '"===="', '"é==="', "1"]),
        (":int?", ["1", "nil"], ["1.5"]),
        ("[:maybe [:vector :int]]", ["nil", "[1]"], ["[nil]"]),
        ("[:vector :int]", ["[]", "[1 2]"], ["[1 :a]", "{}", '"1"']),
        ("[:vector]", ["[1 :a]"], ["{}"]),
        (":vector", ["[1 :a]"], ["{}"]),
        ("[:tuple :int :string]", ['[1 "a"]'], ["[1]", '[1 "a" 2]', "[1 1]", "1"]),
        ("[:map [:a :int] [:b :string ?]]", ["{:a 1}", '{:a 1 :b "" :c nil}'], ["{}", "{:a 1 :b 2}", "[]"]),
        ("[:map [:a :int] [:b {:optional true} :string]]", ["{:a 1}", '{:a 1 :b ""}'], ["{:a 1 :b 2}"]),
        ("[:record {:a :int}]", ["{:a 1}"], ["{}"]),
        ("{:a :int :b :any}", ["{:a 1 :b nil}"], ["{:a 1}"]),
        ("[:map [:a :int] [:* :string]]", ['{:a 1 :b "c"}'], ["{:a 1 :b 2}"]),
        ("[:map {:closed true} [:a :int]]", ["{:a 1}"], ["{:a 1 :b 2}"]),
        ('[:map ["a" :int] [1 :int]]', ['{"a" 1 1 2}'], ["{:a 1 1 2}"]),
        ("[:map]", ["{}", "{1 2}"], ["[]"]),
        ("[:map-of :keyword :int]", ["{}", "{:a 1}"], ['{"a" 1}', "{:a nil}", "[]"]),
        ("[:dict :string :int]", ['{"a" 1}'], ["{:a 1}"]),
        ("[:map :string :bytes]", ['{"a" "YQ=="}'], ['{"a" "?"}']),
        ("[:enum :a 1 [2]]", [":a", "1", "[2]"], ["1.0", '"a"', "[3]"]),
        ("[:val 1.0]", ["1.0"], ["1"]),
        ("[:union :int :string]", ["1", '"a"'], ["nil"]),
        ("[:or :int nil]", ["1", "nil"], ["true"]),
        ("[:array :int [2 ?]]", ["[[1] []]"], ["[[1]]", "[1 2]", "[[1] [:a]]"]),
        ("[:array :int]", ["[1]"], ["[[1]]"]),
        ("[:resource File]", ["resource://a"], ['"resource://a"']),
        ("[:fn [:int] :int]", [], ["1", ":a"]),
        ("[:and :int [:> 1] [:<= 3]]", ["2", "3"], ["1", "4", "2.5"]),
        ("[:and :int :float]", ["1"], ["1.5"]),
        ("[:> 1]", ["1.5"], ["1", '"a"']),
        ("[:>= 1]", ["1"], ["0"]),
        ("[:< 1]", ["0"], ["1"]),
        ("[:= 1]", ["1"], ["1.0"]),
        ("[:!= nil]", ["1"], ["nil"]),
        ("[:in-range 1 2]", ["1", "2"], ["2.5", "nil"]),
        ("[:min-length 2]", ['"éé"'], ['"é"', "[1 2]"]),
        ("[:max-length 1]", ['"é"'], ['"ab"']),
        ("[:length 1]", ['"é"'], ['""']),
        ('[:matches-regex "\\\\(?R"]', ['"R"', '"(R"'], ['"("']),
        ('[:matches-regex "b+$"]', ['"abb"'], ['"ba"', "1"]),
        ("[:min-count 1]", ["[1]", "{:a 1}"], ["[]", '"a"']),
        ("[:max-count 1]", ["[1]"], ["[1 2]"]),
        ("[:count 1]", ["[1]"], ["[]"]),
        ("[:non-empty]", ["[1]", '"a"', "{:a 1}"], ["[]", '""', "{}", "1"]),
        ("[:and :string :non-empty]", ['"a"'], ['""', "[1]"]),
        ("[:has-key :a]", ["{:a nil}"], ["{}", "[:a]"]),
        ("[:required-keys [:a :b]]", ["{:a 1 :b 2}"], ["{:a 1}"]),
        ("[:and :string :is-url]", [URL], ['"a"', '"https://"', '"https://[a"', '"https://a b"']),
        (":is-email", ['"a.b@c.example"'], ['"a"', '"a@b"', '"@b.c"', '"a@b@c.d"', '"a@.c"', '"a @b.c"']),
    ],
)
def test_what_fits_a_schema(source: str, fits: list[str], fits_not: list[str]):
    for text in fits:
        assert validate(value(text), schema(source)), text
    for text in fits_not:
        assert not validate(value(text), schema(source)), text


def test_a_list_is_no_vector_and_has_a_type_of_its_own():
    assert not validate(List((1,)), schema("[:vector :int]"))
    assert validate(List((1,)), schema("[:list :int]"))
    assert not validate(List((None,)), schema("[:list :int]"))
    assert not validate(Vector((1,)), schema("[:list :int]"))


def test_data_that_came_as_json_has_strings_for_keywords():
    data = from_json({"code": "1", "inputs": {"a": 1}, "x": 2}, loose=True)
    capability = "[:map [:code :string] [:inputs {:optional true} [:map]] [:timeout_ms {:optional true} :int]]"
    assert validate(data, schema(capability))
    assert [str(problem) for problem in explain(data, schema("[:map {:closed true} [:code :int] [:inputs :any]]"))] == [
        "TypeMismatch at [:code]: expected :int, found string '1'",
        "ShapeViolation at [x]: the key 'x' is none of the schema's",
    ]
    assert validate(data, schema("[:map-of :keyword :any]"))
    assert not validate(from_json({"code": 1}), schema("[:map [:code :int]]"))


def test_problems_say_where_and_what():
    found = explain(
        value('{:a [1 "x" 2.0] :b {:c nil} :n [[1] [2 3]] :s "" :k {1 2}}'),
        schema(
            "[:map [:a [:vector :int]] [:b [:map [:c [:union :int :string]] [:d :int]]] [:e :any]"
            " [:n [:array :int [2 1]]] [:s [:and :string [:min-length 1] :is-url]] [:k [:map-of :keyword :string]]]"
        ),
    )
    assert [str(problem) for problem in found] == [
        "TypeMismatch at [:a 1]: expected :int, found string 'x'",
        "TypeMismatch at [:a 2]: expected :int, found float 2.0",
        "TypeMismatch at [:b :c]: expected [:union :int :string], found nil",
        "MissingRequiredKey at [:b :d]: the key :d is missing",
        "MissingRequiredKey at [:e]: the key :e is missing",
        "ShapeViolation at [:n 1]: expected 1 elements, found 2",
        "PredicateViolation at [:s]: string '' does not meet [:min-length 1]",
        "PredicateViolation at [:s]: string '' does not meet :is-url",
        "TypeMismatch at [:k 1]: as a key: expected :keyword, found integer 1",
        "TypeMismatch at [:k 1]: expected :string, found integer 2",
    ]
    assert found[0].path == (Keyword("a"), 1)


def test_the_first_problem_alone():
    assert check(value("[1 :a :b]"), schema("[:vector :int]")) == Problem(
        (1,), "TypeMismatch", "expected :int, found keyword :a"
    )
    assert check(1, schema(":int")) is None


def test_problems_are_named_up_to_a_number():
    assert len(explain(value("[:a :b :c]"), schema("[:vector :int]"), max_problems=2)) == 2


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("1", "TypeValidationError", "the type of one value is `\\[:val x\\]`"),
        ("(int)", "TypeValidationError", "a type is a word, a vector or a map"),
        ("[]", "TypeValidationError", "begins with its word"),
        ("[1]", "TypeValidationError", "begins with its word"),
        (":it", "TypeValidationError", "`it` is no type; there are :int"),
        ("?", "TypeValidationError", "`\\?` is no type"),
        (":is-odd", "UnknownPredicate", "`:is-odd` is no predicate"),
        ("[:it 1]", "TypeValidationError", "`:it` begins no type"),
        ("[:and :int [:odd]]", "UnknownPredicate", "line 1, column 12: `:odd` is no predicate"),
        ("[:and :int :odd]", "UnknownPredicate", "`odd` is no type"),
        ("[:and]", "TypeValidationError", "at least a type"),
        ('[:and :string [:matches-regex "("]]', "InvalidRegexPattern", "is no regular expression: missing \\)"),
        (f'[:matches-regex "{"(" * 200}{")" * 200}"]', "InvalidRegexPattern", "more than 100 groups"),
        (f'[:matches-regex "{"a" * 2000}"]', "InvalidRegexPattern", "it has 2000 characters"),
        ('[:matches-regex "a{9999999999999999999999}"]', "InvalidRegexPattern", "is no regular expression"),
        ('[:matches-regex "a(?R)?b"]', "InvalidRegexPattern", "it calls itself"),
        ("[:matches-regex 1]", "TypeValidationError", "must be a string"),
        ("[:> :a]", "TypeValidationError", "must be a number"),
        ("[:>]", "TypeValidationError", "takes 1 arguments, not 0"),
        ("[:min-count -1]", "TypeValidationError", "must be a whole number from 0"),
        ("[:has-key nil]", "TypeValidationError", "must be a keyword"),
        ("[:required-keys :a]", "TypeValidationError", "must be a vector of keywords"),
        ("[:= ~x]", "TypeValidationError", "a Unquote is no literal"),
        ("[:vector :int :int]", "TypeValidationError", "one type is the type of all elements"),
        ("[:map :int]", "TypeValidationError", "`\\[:map-of K V\\]`"),
        ("[:map [:a]]", "TypeValidationError", "an entry of a map is"),
        ("[:map [a :int]]", "TypeValidationError", "a key in a map's type is a keyword"),
        ("[:map [:a :int :b]]", "TypeValidationError", "after an entry's type only"),
        ("[:map [:a :int] [:a :int]]", "TypeValidationError", "stands twice"),
        ("[:map [:a {:optional 1} :int]]", "TypeValidationError", "must be a bool"),
        ("[:map [:a {:opt true} :int]]", "TypeValidationError", "known here are :optional, :description, :default"),
        ("[:map [:* :int :int]]", "TypeValidationError", "`\\[:\\* T\\]`"),
        ("[:map-of :int]", "TypeValidationError", "is what can stand here"),
        ("[:maybe]", "TypeValidationError", "`\\[:maybe T\\]`"),
        ("[:union]", "TypeValidationError", "at least one type"),
        ("[:enum]", "TypeValidationError", "at least one value"),
        ("[:val]", "TypeValidationError", "`\\[:val x\\]`"),
        ("[:array]", "TypeValidationError", "an array is"),
        ("[:array :int 3]", "TypeValidationError", "shape is a vector"),
        ("[:array :int [-1]]", "TypeValidationError", "a length in an array's shape"),
        ("[:fn :int :int]", "TypeValidationError", "a function's type is"),
        ("[:fn [:int &] :int]", "TypeValidationError", "`& T` at the end"),
        ("[:resource 1]", "TypeValidationError", "is named by"),
    ],
)
def test_what_is_no_schema(source: str, name: str, message: str):
    with pytest.raises(SchemaError, match=message) as caught:
        schema(source)
    assert caught.value.name == name
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_types_of_the_callers_own():
    point = schema("[:map [:x :int] [:y :int]]")
    (form,) = read("[:vector Point?]")
    points = parse_schema(form, names={"Point": point})
    assert validate(value("[{:x 1 :y 2} nil]"), points)
    assert not validate(value("[{:x 1}]"), points)


def test_a_schema_may_be_a_value():
    written = value("[:map [:a [:vector :int]] [:b {:optional true} :string?]]")
    assert parse_schema(written) == schema("[:map [:a [:vector :int]] [:b :string? ?]]")
    with pytest.raises(SchemaError, match="a function is no part of a schema"):
        parse_schema(Vector((Keyword("vector"), len)))


def test_the_dialects_say_the_same():
    assert schema("[:map [:a :int ?]]") == schema("[:map [:a {:optional true} :int]]")
    assert schema("[:map-of :string :bytes]") == schema("[:map :string :bytes]")
    assert schema("[:=> [:int] :int]") == schema("[:fn [Int] :Int]")
    assert schema(":int") != schema(":float")
    assert len({schema(":int"), schema("Int"), schema(":int?")}) == 2


@pytest.mark.slow
@given(schemas)
def test_a_schema_is_parsed_from_what_it_is_written_as(some: Schema):
    assert parse_schema(form_of(some)) == some
    assert schema(str(some)) == some


@given(schemas, json_data)
def test_explaining_and_validating_agree(some: Schema, data: object):
    found = from_json(data, loose=True)
    problems = explain(found, some)
    assert validate(found, some) is (not problems)
    assert check(found, some) == (problems[0] if problems else None)
    for problem in problems:
        assert str(problem).startswith(problem.error_name)


@given(json_data)
def test_values_are_literals_and_back(data: object):
    found = from_json(data)
    assert value_of(form_of_value(found)) == found


@pytest.mark.slow
def test_deep_schemas_and_values_use_no_stack():
    depth = 20_000
    (form,) = read("[:vector " * depth + ":int" + "]" * depth, max_depth=depth)
    deep = parse_schema(form)
    found: Value = 1
    for _ in range(depth):
        found = Vector((found,))
    assert validate(found, deep)
    assert form_of(deep) == form
    assert deep == parse_schema(form)
    assert repr(deep) == "<schema [:vector …]>"
    wrong: Value = None
    for _ in range(depth):
        wrong = Vector((wrong,))
    (problem,) = explain(wrong, deep)
    assert len(problem.path) == depth
    assert explain(wrong, schema("[:union :int]"))[0].message == "expected [:union :int], found vector"
    assert value_of(form_of_value(found)) == found


def test_deep_unions_end_within_their_steps():
    some: Schema = Primitive("int")
    for _ in range(60):
        some = UnionOf((VectorOf(some), VectorOf(some)))
    found: Value = None
    for _ in range(60):
        found = Vector((found,))
    with pytest.raises(BudgetExhausted, match="too many parts") as caught:
        validate(found, some, max_steps=10_000)
    assert caught.value.limit == "steps"


def test_a_wide_value_ends_within_its_steps():
    with pytest.raises(BudgetExhausted):
        validate(Vector((1,) * 1001), schema("[:vector :int]"), max_steps=1000)


def test_a_regular_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(predicates, "SECONDS", 0.05)
    some = schema('[:matches-regex "^(a|aa)+$"]')
    with pytest.raises(BudgetExhausted, match="took longer") as caught:
        validate("a" * 5000 + "b", some)
    assert caught.value.limit == "wall_seconds"


def test_messages_stay_short():
    wide = schema(f"[:enum {' '.join(str(number) for number in range(5000))}]")
    (problem,) = explain("x" * 100_000, wide)
    assert problem.message.startswith("expected [:enum …], found string 'xxx")
    assert len(problem.message) < 200
    assert validate(4999, wide)


def test_other_values_have_types_too():
    assert validate(Symbol("a"), schema(":symbol"))
    assert validate(Resource("resource://a"), schema("[:resource s]"))
    assert validate(len, schema("[:fn [:any] :int]"))
    assert check(len, schema(":int")) == Problem((), "TypeMismatch", "expected :int, found function")
    assert not validate(Map({}), schema("[:tuple]"))
    assert parse_schema(Literal(None)) == schema(":nil")


def test_a_schema_is_read_from_its_text():
    assert parse_schema("[:map [:id :int]]") == parse_schema(read("[:map [:id :int]]")[0])
    with pytest.raises(SchemaError, match="has 2"):
        parse_schema(":int :string")
    with pytest.raises(ReadError):
        parse_schema("[:vector")
