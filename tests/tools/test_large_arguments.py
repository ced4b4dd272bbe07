"""Calls with very many values: the event loop goes on, few errors are made, and nothing else is accepted."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import decimal
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from actbox.core.errors import ToolError
from actbox.tools import Tool, large_values, schema_arguments, threads, watched_schema
from actbox.tools.argument_schema import AnnotatedArguments
from actbox.tools.definition import MOST_SHOWN_VALUES
from actbox.tools.large_values import FEW_VALUES, is_large
from actbox.tools.problems import MAX_PROBLEMS
from actbox.tools.step_budget import TooManySteps
from actbox.tools.watched_schema import watched


def short(value: object) -> str:
    """Return an id that a person can read."""
    return str(value)[:60]


MANY = 5 * FEW_VALUES
TEXTS = ["x"] * MANY
NUMBERS = [str(number) for number in range(MANY)]
WRONG = {f"k{number}": "x" for number in range(MANY)}
RIGHT = dict.fromkeys(WRONG, 1)


class Item(BaseModel):
    a: int


class Order(BaseModel):
    items: list[Item] = []
    counts: dict[str, int] = {}


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]


class ClosedDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    a: int


@dataclasses.dataclass
class Box:
    a: int
    sizes: list[int] = dataclasses.field(default_factory=list)


class Point(NamedTuple):
    a: int
    b: int = 0


class Tree(BaseModel):
    kids: list[Tree] = []
    by_name: dict[str, Tree] = {}
    weight: int = 0


WRONG_DATA: list[tuple[Any, Any]] = [
    (list[int], TEXTS),
    (set[int], list(WRONG)),
    (frozenset[int], list(WRONG)),
    (tuple[int, ...], TEXTS),
    (collections.deque[int], TEXTS),
    (Sequence[int], TEXTS),
    (list[list[int]], [TEXTS[:10]] * (MANY // 10)),
    (dict[str, int], WRONG),
    (dict[int, str], WRONG),
    (dict[str, int | float | bool | None], WRONG),
    (dict[str, dict[str, int]], {key: {"a": "x"} for key in WRONG}),
    (Mapping[str, int], WRONG),
    (collections.Counter[str], WRONG),
    (collections.OrderedDict[str, int], WRONG),
    (collections.defaultdict[str, int], WRONG),
    (list[int] | dict[str, int], WRONG),
    (list[Item], [{"a": "x"}] * MANY),
    (list[Item | Closed], [{"a": "x"}] * MANY),
    (list[Box], [{"a": "x"}] * MANY),
    (list[Point], [{"a": "x"}] * MANY),
    (list[ClosedDict], [{"a": "x"}] * MANY),
    (Order, {"items": [{"a": "x"}] * MANY}),
    (Order, {"counts": WRONG}),
    (Box, {"a": 1, "sizes": TEXTS}),
    (Closed, {"a": 1, **WRONG}),
    (list[Closed], [{"a": 1, **WRONG}]),
    (ClosedDict, {"a": 1, **WRONG}),
    (Point, WRONG),
    (Point, TEXTS),
    (Open, WRONG),
    (Tree, {"kids": [{"weight": "x"}] * MANY}),
    (Tree, {"by_name": {key: {"weight": "x"} for key in WRONG}}),
]
RIGHT_DATA: list[tuple[Any, Any]] = [
    (list[int], NUMBERS),
    (set[int], NUMBERS),
    (frozenset[int], NUMBERS),
    (tuple[int, ...], NUMBERS),
    (collections.deque[int], NUMBERS),
    (Sequence[int], NUMBERS),
    (list[list[int]], [NUMBERS[:10]] * 100),
    (list[int] | list[str], TEXTS),
    (list[dict[str, int] | dict[str, str]], [{"a": "x"}, {"a": 1}] * 100),
    (list[int | bool | str], [1, True, "1"] * 100),
    (dict[str, int], RIGHT),
    (dict[int, str], dict.fromkeys(NUMBERS, "x")),
    (dict[str, int | float | bool | None], RIGHT),
    (Annotated[dict[str, int], Field(min_length=2)], RIGHT),
    (Mapping[str, int], RIGHT),
    (collections.Counter[str], RIGHT),
    (collections.OrderedDict[str, int], RIGHT),
    (collections.defaultdict[str, int], RIGHT),
    (list[Item | Closed], [{"a": 1}] * 100),
    (list[Box], [{"a": "1", "sizes": ["2"]}] * 100),
    (list[Point], [{"a": 1}, [1, 2]] * 100),
    (list[ClosedDict], [{"a": 1}] * 100),
    (Open, RIGHT),
    (Tree, {"kids": [{"kids": [{"weight": 1}], "by_name": {"x": {}}}]}),
]


def taking(annotation: Any) -> Tool:
    async def take(value) -> int:  # type: ignore[no-untyped-def]
        return 1

    take.__annotations__["value"] = annotation
    return Tool.from_function(take)


async def refused(made: Tool, arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(ToolError) as caught:
        await made.call(arguments)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(("annotation", "value"), WRONG_DATA, ids=short)
async def test_a_million_wrong_entries_are_no_more_errors_than_a_few(
    annotation: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    problems = AnnotatedArguments._problems

    def counted(self: AnnotatedArguments, error: ValidationError, given: Any) -> Any:
        counts.append(error.error_count())
        return problems(self, error, given)

    monkeypatch.setattr(AnnotatedArguments, "_problems", counted)
    lines = await refused(taking(annotation), {"value": value})
    assert counts[0] <= 4
    assert "argument 'value'" in lines[0]


def test_pydantic_builds_the_validator_of_a_model_anew_where_it_is_told_so() -> None:
    class Order(BaseModel):
        items: list[int]

    with pytest.raises(ValidationError) as refusal:
        watched(Order.__pydantic_core_schema__)({"items": ["one", "two"]})
    assert refusal.value.error_count() == 1


@pytest.mark.parametrize(("annotation", "value"), RIGHT_DATA, ids=short)
def test_a_watched_schema_makes_the_same_of_data(annotation: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    ours, theirs = watched(adapter.core_schema)(value), adapter.validate_python(value)
    assert repr(ours) == repr(theirs)
    assert type(ours) is type(theirs)


@pytest.mark.parametrize("lengths", [Field(min_length=MANY + 1), Field(max_length=MANY - 1)])
def test_a_watched_schema_counts_entries_as_before(lengths: Any) -> None:
    for annotation, value in ((dict[str, int], RIGHT), (list[int], NUMBERS)):
        limited: Any = Annotated[annotation, lengths]
        adapter: TypeAdapter[Any] = TypeAdapter(limited)
        with pytest.raises(ValidationError) as caught:
            watched(adapter.core_schema)(value)
        assert [detail["type"] for detail in caught.value.errors()] in (["too_short"], ["too_long"])


@pytest.mark.parametrize("annotation", [list[int], set[int], tuple[int, ...], collections.deque[int], list[Order]])
async def test_a_python_function_begins_between_any_two_entries(
    annotation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []

    def begin(value: Any) -> Any:
        begun.append(value)
        return value

    monkeypatch.setattr(watched_schema, "_tick", begin)
    value = [{"items": [{"a": 1}] * MANY}] if annotation == list[Order] else NUMBERS
    assert await taking(annotation).call({"value": value}) == 1
    assert len(begun) >= MANY


class Both(BaseModel):
    of: list[Both | Either | int]


class Either(BaseModel):
    of: list[Both | Either | int]


class Left(BaseModel):
    of: Left | Right | int


class Right(BaseModel):
    of: Left | Right | int


def either(of: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"of": of}, "required": ["of"]}


def recursive_schema(of: Any) -> Tool:
    either_of = {"anyOf": [either(of), either(of), {"type": "integer"}]}
    return Tool.from_schema(
        "take", "", {"$defs": {"E": either_of}, "properties": {"value": either_of}}, lambda value: 1
    )


RECURSIVE = {
    "a schema with lists": recursive_schema({"items": {"$ref": "#/$defs/E"}}),
    "a schema without lists": recursive_schema({"$ref": "#/$defs/E"}),
    "models with lists": taking(Both | Either),
    "models without lists": taking(Left | Right),
}


@pytest.mark.parametrize("kind", RECURSIVE)
async def test_unions_in_unions_are_not_tried_without_end(kind: str) -> None:
    def nested(depth: int, value: Any) -> Any:
        for _ in range(depth):
            value = {"of": value if "without" in kind else [value]}
        return value

    assert await RECURSIVE[kind].call({"value": nested(4, 1)}) == 1
    assert "too many ways" not in (await refused(RECURSIVE[kind], {"value": nested(4, "x")}))[0]
    said = (await refused(RECURSIVE[kind], {"value": nested(12, "x")}))[0]
    assert said.startswith("the arguments fit the types in too many ways")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a schema with lists", "models with lists"])
@pytest.mark.parametrize("collection", [list, tuple, set, frozenset])
async def test_a_check_has_more_steps_the_more_values_there_are(kind: str, collection: Any) -> None:
    assert await RECURSIVE[kind].call({"value": {"of": collection(range(2 * MANY))}}) == 1


def test_a_check_that_calls_another_keeps_its_own_steps() -> None:
    inner = watched(TypeAdapter(Tree).core_schema)
    first = Annotated[int, AfterValidator(lambda value: inner({}) and value)]
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[first, Left | Right])
    nested: Any = "x"
    for _ in range(14):
        nested = {"of": nested}
    with pytest.raises(TooManySteps):
        watched(adapter.core_schema)([1, nested])


@pytest.mark.slow
def test_a_default_that_takes_too_many_steps_fails_the_call() -> None:
    default: Any = "x"
    for _ in range(14):
        default = {"of": default}
    either_of = {"anyOf": [either({"$ref": "#/$defs/E"}), either({"$ref": "#/$defs/E"}), {"type": "integer"}]}
    schema = {"$defs": {"E": either_of}, "properties": {"value": {**either_of, "default": default}}}
    with pytest.raises(ToolError, match="in too many ways"):
        Tool.from_schema("take", "", schema, lambda value: 1).prepare({})


def test_a_default_of_many_values_has_as_many_steps() -> None:
    default = [1] * (2 * MANY)
    made = Tool.from_schema(
        "take", "", {"properties": {"value": {"items": {"type": "integer"}, "default": default}}}, lambda value: 1
    )
    assert made.prepare({}).shown() == {"value": default}


class LeftByName(BaseModel):
    kind: Literal["left"]
    of: ByName | int


class RightByName(BaseModel):
    kind: Literal["right"]
    of: ByName | int


ByName = Annotated[LeftByName | RightByName, Field(discriminator="kind")]


async def test_right_values_of_a_union_in_itself_go_deep_where_a_field_says_which_class_is_meant() -> None:
    unnamed, named = 1, 1
    for _ in range(14):
        unnamed = {"of": unnamed}
    for number in range(100):
        named = {"kind": "left" if number % 2 else "right", "of": named}
    assert "right or wrong" in (await refused(RECURSIVE["models without lists"], {"value": unnamed}))[0]
    assert await taking(ByName).call({"value": named}) == 1


@pytest.mark.parametrize("says", [lambda kind: {"const": kind}, lambda kind: {"enum": [kind]}], ids=["const", "enum"])
async def test_right_values_go_deep_where_a_property_says_which_choice_of_a_schema_is_meant(says: Any) -> None:
    def choice(kind: str) -> dict[str, Any]:
        properties = {"more": True, "of": {"$ref": "#/$defs/E"}, "kind": says(kind)}
        return {"type": "object", "properties": properties}

    either_of = {"anyOf": [{"type": "integer"}, choice("left"), choice("right")]}
    made = Tool.from_schema(
        "take", "", {"$defs": {"E": either_of}, "properties": {"value": either_of}}, lambda value: 1
    )
    named: Any = 1
    for number in range(40):
        named = {"more": 1, "of": named, "kind": "left" if number % 2 else "right"}
    assert await made.call({"value": named}) == 1


ONE_HASH = [number * (2**61 - 1) for number in range(MANY)]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (set[int], ONE_HASH),
        (set[int], list(map(str, ONE_HASH))),
        (frozenset[tuple[int]], [[number] for number in ONE_HASH]),
        (set[Any], ONE_HASH),
        (dict[int, int], dict.fromkeys(map(str, ONE_HASH), 1)),
        (list[set[int]], [ONE_HASH]),
        (set[int], list(range(10_001))),
    ],
    ids=short,
)
async def test_members_and_keys_are_few_that_may_collide(annotation: Any, value: Any) -> None:
    assert "should have fewer members or keys" in (await refused(taking(annotation), {"value": value}))[0]


LONG = [[*[1000] * 200, *(-1 if number >> bit & 1 else -2 for bit in range(8))] for number in range(250)]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[int, ...]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (set[tuple[int, ...]], LONG),
        (frozenset[frozenset[tuple[int, ...]]], [[each] for each in LONG]),
        (set[Row], [{"cells": each} for each in LONG]),
        (list[set[tuple[int, ...]]], [[each[150:] for each in LONG]] * 5),
        (dict[tuple[int, ...], int], dict.fromkeys(map(tuple, LONG), 1)),
    ],
    ids=["tuples", "frozensets", "dataclasses", "many sets", "keys"],
)
async def test_members_of_one_hash_are_few_where_comparing_them_takes_long(annotation: Any, value: Any) -> None:
    assert "take too long to be compared" in (await refused(taking(annotation), {"value": value}))[0]


def test_a_few_long_numbers_are_large() -> None:
    assert is_large([decimal.Decimal(n) for n in range(32)])
    assert is_large([10**4000] * 20)
    assert not is_large(list(range(990)))


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (set[Any], [[number] for number in range(MANY)], "should be hashable"),
        (dict[str, int], TEXTS, "should be a valid dictionary"),
    ],
    ids=["members", "mapping"],
)
async def test_values_that_can_be_no_member_and_no_mapping_are_named(annotation: Any, value: Any, why: str) -> None:
    assert why in (await refused(taking(annotation), {"value": value}))[0]


@pytest.mark.slow
async def test_equal_members_are_one() -> None:
    assert await taking(set[int]).call({"value": [-1, -2] * MANY}) == 1
    assert await taking(set[tuple[int, int]]).call({"value": [[1, 2]] * 200_000}) == 1
    assert await taking(set[int]).call({"value": [1] * MANY}) == 1
    assert await taking(dict[str, set[int]]).call({"value": {str(n): [n] for n in range(10_001)}}) == 1


@pytest.mark.parametrize("own_schema", [True, False])
async def test_a_check_ends_soon_after_the_run_that_wanted_it(
    own_schema: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, cancelled, ended = threading.Event(), threading.Event(), threading.Event()
    checked: list[Any] = []

    def check(value: Any) -> Any:
        checked.append(value)
        begun.set()
        return cancelled.wait(60) and value

    made = taking(list[Annotated[str, AfterValidator(check)]])
    if own_schema:
        monkeypatch.setitem(schema_arguments._CHECKS, "string", check)
        made = Tool.from_schema("take", "", made.input_schema, lambda **given: None)

    def bound(arguments: Any) -> Any:
        try:
            return made._bind(arguments)
        finally:
            ended.set()

    task = asyncio.ensure_future(large_values.aside(bound, {"value": TEXTS}))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    assert await asyncio.to_thread(ended.wait, 60)
    assert len(checked) < 10


async def test_large_arguments_are_checked_while_the_event_loop_goes_on() -> None:
    seen_in: list[int] = []

    def seen(value: int) -> int:
        seen_in.append(threading.get_ident())
        return value

    made = taking(list[Annotated[int, AfterValidator(seen)]])
    await made.call({"value": NUMBERS})
    assert threading.get_ident() not in seen_in
    seen_in.clear()
    await made.call({"value": [1, 2, 3]})
    assert set(seen_in) == {threading.get_ident()}


async def test_a_check_takes_no_thread_that_sync_tools_share(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    submit = threads._pool._submit

    def submitted(job: Any) -> None:
        taken.append(job.function)
        submit(job)

    monkeypatch.setattr(threads._pool, "_submit", submitted)

    def take(value: list[int]) -> int:
        return len(value)

    made = Tool.from_function(take)
    assert await made.call({"value": NUMBERS}) == MANY
    assert len(taken) == 1  # the call of the tool itself


async def test_large_arguments_by_a_schema_from_elsewhere_are_checked_while_the_event_loop_goes_on() -> None:
    release = threading.Event()

    class Arguments(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            return release.wait(60) and super().__contains__(name)

    schema = {"properties": {"value": {"items": {"type": "integer"}}}, "required": ["value"]}
    made = Tool.from_schema("take", "", schema, lambda **given: None)
    call = asyncio.ensure_future(refused(made, Arguments({"value": TEXTS})))
    await asyncio.sleep(0)
    release.set()
    lines = await call
    assert lines[0] == "argument 'value' at [0] should be an integer; got 'x'"
    assert lines[MAX_PROBLEMS:] == ["and more problems", "call it as take(value: Any)"]


@pytest.mark.parametrize("own_schema", [True, False])
async def test_of_a_million_unknown_names_a_few_are_compared_with_the_known(
    own_schema: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    from actbox.tools import problems

    suggestion = problems.suggestion

    def counted(name: str, names: Any) -> str | None:
        compared.append(name)
        return suggestion(name, names)

    monkeypatch.setattr(problems, "suggestion", counted)
    made = taking(int)
    if not own_schema:
        made = Tool.from_schema("take", "", made.input_schema, lambda **given: None)
    lines = await refused(made, {"value": 1, **WRONG})
    assert lines[0] == "there is no argument 'k0'"
    assert len(lines) == MAX_PROBLEMS + 2
    assert len(compared) <= MAX_PROBLEMS + 1


async def test_an_entry_of_many_more_arguments_that_is_wrong_is_named() -> None:
    async def take(**more: int) -> int:
        return sum(more.values())

    made = Tool.from_function(take)
    assert await made.call(RIGHT) == MANY
    assert (await refused(made, {**RIGHT, "last": "x"}))[0].startswith("argument 'last' should be a valid integer")


async def test_long_names_and_texts_make_no_long_sentence() -> None:
    made = taking(dict[str, int])
    assert sum(map(len, await refused(made, {"value": {"k" * 10**6: "x" * 10**6}}))) < 1_000
    assert sum(map(len, await refused(made, {"v" * 10**6: 1}))) < 1_000


@pytest.mark.slow
async def test_a_call_that_nobody_could_look_at_is_not_shown() -> None:
    made = taking(list[int])
    with pytest.raises(ToolError, match="more than 100,000 values"):
        made.prepare({"value": [1] * (MOST_SHOWN_VALUES + 1)})
    assert len(made.prepare({"value": [1] * (MOST_SHOWN_VALUES - 1)}).shown()["value"]) == MOST_SHOWN_VALUES - 1


def test_no_more_is_looked_at_than_tells_large_from_small() -> None:
    assert is_large([[]] * 50, 49)
    assert not is_large([[]] * 50, 50)
    assert is_large({"a": {"b": "x" * 11}}, 10, 10)
    assert is_large({"b" * 11: 1}, 10, 10)
    assert not is_large({"a": {"b": "x" * 8}}, 10, 10)
    assert is_large([10**8, 10**8], 10, 16)
    assert not is_large([10**5, 10**5], 10, 16)


class Unsized:
    __slots__ = ()

    def __len__(self) -> int:
        raise OSError("no connection")


def test_a_value_of_the_hosts_own_type_is_large_by_its_length_where_it_has_one() -> None:
    assert is_large(range(FEW_VALUES + 1))
    assert not is_large(range(FEW_VALUES))
    assert not is_large([Unsized(), object()])
