"""What a tool may return: plain JSON data or bytes, and the sentences for everything else."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import pathlib
import uuid
import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, NewType

import pytest
from pydantic import BaseModel, PlainSerializer
from typing_extensions import TypedDict

from actbox.core.errors import ToolError
from actbox.tools import Tool


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = "red"


class Hit(BaseModel):
    title: str
    seen: datetime.date | None = None
    extra: Any = None


@dataclass
class Point:
    x: float
    tags: tuple[str, ...] = ()
    colour: Colour = Colour.RED
    when: datetime.datetime = field(default=datetime.datetime(2024, 1, 2))


class Row(TypedDict):
    day: datetime.date


class Pair(NamedTuple):
    left: int
    right: decimal.Decimal


class Text(str):
    pass


DAY = datetime.date(2024, 2, 29)


async def returned(value: Any, annotation: Any = None) -> Any:
    def give():
        return value

    give.__annotations__ = {} if annotation is None else {"return": annotation}
    return await Tool.from_function(give, name="give").call({})


async def refused(value: Any, annotation: Any = None) -> str:
    with pytest.raises(ToolError) as caught:
        await returned(value, annotation)
    assert caught.value.tool == "give" and "'give'" in str(caught.value)
    return str(caught.value)


def types_of(value: Any) -> set[type]:
    if type(value) is dict:
        return {dict} | set().union(*(types_of(x) for pair in value.items() for x in pair))
    if type(value) is list:
        return {list} | set().union(*map(types_of, value))
    return {type(value)}


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "text", "\ud800", [], {}, [1, [2, {"a": None}]], 10**40])
async def test_json_data_comes_back_as_it_is(value: Any):
    assert await returned(value) == value


@pytest.mark.parametrize("value", [b"\xff", bytearray(b"\xff"), memoryview(b"\xff")])
async def test_bytes_as_the_whole_result_are_bytes(value: Any):
    result = await returned(value)
    assert type(result) is bytes and result == b"\xff"
    assert await returned(b"", bytes) == b""


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2,)), [1, [2]]),
        ({"a": Colour.RED, "b": Level.LOW}, {"a": "red", "b": 1}),
        ([Text("x"), collections.Counter("aa")], ["x", {"a": 2}]),
        (Hit(title="t", seen=DAY), {"title": "t", "seen": "2024-02-29", "extra": None}),
        ({"hits": [Hit(title="t", extra=(1,))]}, {"hits": [{"title": "t", "seen": None, "extra": [1]}]}),
        ([Point(1.0, ("a",))], [{"x": 1.0, "tags": ["a"], "colour": "red", "when": "2024-01-02T00:00:00"}]),
    ],
)
async def test_what_has_a_json_form_of_its_own_is_converted_to_plain_types(value: Any, plain: Any):
    result = await returned(value)
    assert result == plain
    assert types_of(result) <= {dict, list, str, int, float, bool, type(None)}


async def test_the_result_is_a_copy_that_the_host_no_longer_changes():
    kept = [{"a": [1]}]
    result = await returned(kept)
    kept[0]["a"].append(2)
    assert result == [{"a": [1]}]


Serial = NewType("Serial", uuid.UUID)


@pytest.mark.parametrize(
    ("annotation", "value", "plain"),
    [
        (datetime.date, DAY, "2024-02-29"),
        (datetime.date | None, DAY, "2024-02-29"),
        (list[datetime.datetime], [datetime.datetime(2024, 1, 2, 3)], ["2024-01-02T03:00:00"]),
        (dict[str, decimal.Decimal | None], {"a": decimal.Decimal("1.10")}, {"a": "1.10"}),
        (pathlib.Path, pathlib.Path("/output/a"), "/output/a"),
        (Serial, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (list[Row], [{"day": DAY}], [{"day": "2024-02-29"}]),
        (Pair, Pair(1, decimal.Decimal("2")), [1, "2"]),
        (Annotated[datetime.date, PlainSerializer(lambda day: day.year)], DAY, 2024),
    ],
)
async def test_further_types_are_written_by_the_return_annotation_that_names_them(
    annotation: Any, value: Any, plain: Any
):
    assert await returned(value, annotation) == plain


@pytest.mark.parametrize("value", [DAY, uuid.UUID(int=1), decimal.Decimal("1.1"), pathlib.Path("/x")])
@pytest.mark.parametrize("annotation", [None, Any, dict[str, Any], list[object]])
async def test_they_are_refused_where_it_does_not(value: Any, annotation: Any):
    text = await refused({"at": [value]}, annotation)
    assert f"result['at'][0] is of type {type(value).__name__}, which is not JSON" in text
    assert "name the type in the return annotation" in text


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({1, 2}, "result is of type set, which is not JSON; return a sorted list"),
        ({"items": [0, 1, 2, {3}]}, "result['items'][3] is of type set"),
        (object(), "result is of type object"),
        ({"a": (None, object())}, "result['a'][1] is of type object"),
        (float("nan"), "result is nan, which JSON cannot say; return None instead"),
        ([1.0, float("-inf")], "result[1] is -inf"),
        ({1: "a"}, "result has the key 1 (int); JSON keys are text"),
        ({"a": {None: 1, "None": 2}}, "result['a'] has the key None (NoneType)"),
        ({"a": b"x"}, "result['a'] is of type bytes, which is not JSON; bytes can only be the whole result"),
        (Hit(title="t", extra=[float("nan")]), "result.extra[0] is nan"),
        ([Point(float("inf"))], "result[0].x is inf"),
        (range(3), "result is of type range"),
    ],
)
async def test_what_is_not_json_is_refused_with_type_and_place(value: Any, sentence: str):
    assert sentence in await refused(value)


@pytest.mark.parametrize("annotation", [dict[str, Any], list[Any], dict[int, str], set[str], Any])
async def test_a_set_that_the_annotation_does_not_name_does_not_become_a_list_silently(annotation: Any):
    assert "of type set" in await refused({3, 1}, annotation)


class Marks(TypedDict):
    by_day: dict[datetime.date, set[int]]


@pytest.mark.parametrize(
    ("value", "annotation", "plain"),
    [
        ({1: "a", 2: "b"}, dict[int, str], {"1": "a", "2": "b"}),
        ({7}, set[int], [7]),
        (frozenset({"a"}), frozenset[str] | None, ["a"]),
        (None, set[int] | None, None),
        (collections.deque([1, 2]), collections.deque[int], [1, 2]),
        ([{(1): {2: {3}}}], list[dict[int, dict[int, set[int]]]], [{"1": {"2": [3]}}]),
        ({datetime.date(2026, 1, 2): 3}, dict[datetime.date, int], {"2026-01-02": 3}),
        ({"by_day": {datetime.date(2026, 1, 2): {3}}}, Marks, {"by_day": {"2026-01-02": [3]}}),
        ({decimal.Decimal("1.5")}, set[decimal.Decimal], ["1.5"]),
    ],
)
async def test_containers_that_json_has_not_are_written_as_the_annotation_is_described(
    value: Any, annotation: Any, plain: Any
):
    assert await returned(value, annotation) == plain


async def test_a_model_that_holds_what_has_no_form_is_refused():
    assert "has no JSON form" in await refused([Hit(title="t", extra=object())])


async def test_a_list_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    assert "contains itself" in await refused(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in await refused(deep)


async def test_a_generator_is_refused_and_says_what_to_do():
    def give() -> Any:
        return (n for n in range(3))

    with pytest.raises(ToolError, match=r"of type generator, which is not JSON; return list\(\.\.\.\)"):
        await Tool.from_function(give).call({})


async def test_a_coroutine_that_was_not_awaited_is_refused_and_leaves_no_warning():
    async def real() -> int:
        return 1

    def give():
        return real()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ToolError, match=r"of type coroutine.*async def"):
            await Tool.from_function(give).call({})


async def test_a_result_that_is_not_what_was_declared_is_given_as_it_is_if_it_is_json():
    assert await returned({"error": "none found"}, list[Hit]) == {"error": "none found"}


async def test_big_results_come_whole():
    rows = [{"n": n, "name": f"row {n}", "half": n / 2} for n in range(20_000)]
    assert json.dumps(await returned(rows)) == json.dumps(rows)


async def test_a_number_of_too_many_digits_is_refused():
    assert "result[0] has too many digits; return it as text" in await refused([10**5000])
