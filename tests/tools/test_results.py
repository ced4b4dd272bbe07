"""A tool's results: JSON data, bytes, what the tagged form knows, and the sentences for everything else."""

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


@dataclass(frozen=True)
class Frozen:
    x: int


class Number(enum.Enum):
    ONE = 1


class Row(TypedDict):
    day: datetime.date


class Pair(NamedTuple):
    left: int
    right: decimal.Decimal


class Text(str):
    pass


DAY = datetime.date(2024, 2, 29)


def iter_of(count: int) -> Any:
    yield from range(count)


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
        ({"a": Colour.RED, "b": Level.LOW}, {"a": "red", "b": 1}),
        ([Text("x"), collections.Counter("aa")], ["x", {"a": 2}]),
        (Hit(title="t", seen=DAY), {"title": "t", "seen": DAY, "extra": None}),
        ({"hits": [Hit(title="t", extra=(1,))]}, {"hits": [{"title": "t", "seen": None, "extra": (1,)}]}),
        ([Point(1.0, ("a",))], [{"x": 1.0, "tags": ("a",), "colour": "red", "when": datetime.datetime(2024, 1, 2)}]),
        (Pair(1, decimal.Decimal(2)), (1, decimal.Decimal(2))),
    ],
)
async def test_models_and_their_like_are_converted_to_types_of_the_standard_library(value: Any, plain: Any):
    result = await returned(value)
    assert result == plain and repr(result) == repr(plain)


WHOLE = [
    (1, (2,)),
    float("nan"),
    {"at": [float("-inf")]},
    {1, 2},
    [frozenset({(1, 2)})],
    {"a": [b"x"]},
    {1: "a", "1": "b", None: 3},
    {"!set": [1]},
    DAY,
    [datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC), datetime.time(1, 2), datetime.timedelta(3)],
    {"at": [uuid.UUID(int=1), decimal.Decimal("1.10")]},
]


@pytest.mark.parametrize("annotation", [None, Any, object])
@pytest.mark.parametrize("value", WHOLE, ids=repr)
async def test_what_the_tagged_form_knows_comes_back_as_it_is(value: Any, annotation: Any):
    assert repr(await returned(value, annotation)) == repr(value)


@pytest.mark.slow
async def test_numpy_and_pandas_are_numbers_lists_and_records():
    import numpy as np
    import pandas as pd

    assert repr(await returned({"a": np.float32(1.5), "b": np.arange(2)})) == "{'a': 1.5, 'b': [0, 1]}"
    frame = pd.DataFrame({"n": [1, 2], "day": [pd.Timestamp(DAY), pd.NaT]})
    found = await returned(frame)
    assert found["records"] == [{"n": 1, "day": datetime.datetime(2024, 2, 29)}, {"n": 2, "day": None}]
    assert found["dtypes"]["n"] == "int64" and "index" not in found
    assert await returned(pd.Series([1], name="n", index=["a"])) == {
        "name": "n",
        "dtype": "int64",
        "values": [1],
        "index": ["a"],
    }


async def test_the_names_of_labels_and_columns_cross_with_a_table():
    import pandas as pd

    table = pd.DataFrame({"city": ["x", "y"], "year": [1, 2], "sum": [3, 4]})
    found = await returned(table.groupby("city").sum())
    assert (found["index"], found["index_names"]) == (["x", "y"], ["city"])
    found = await returned(table.groupby(["city", "year"])["sum"].sum())
    assert (found["name"], found["index_names"], found["index"]) == ("sum", ["city", "year"], [("x", 1), ("y", 2)])
    found = await returned(table.pivot(index="city", columns="year", values="sum"))
    assert (found["index_names"], found["column_names"]) == (["city"], ["year"])
    assert set(await returned(table)) == {"dtypes", "records"}


async def test_a_table_or_array_that_is_too_large_is_refused_with_its_size():
    import numpy as np
    import pandas as pd

    assert "of 100,001 rows and 1 columns, and one of more than 100,000 cells" in await refused(
        pd.DataFrame({"a": range(100_001)})
    )
    assert "an array of 1,000,001 items" in await refused({"a": np.zeros(1_000_001)})


async def test_the_result_is_a_copy_that_the_host_no_longer_changes():
    kept = [{"a": [1]}]
    result = await returned(kept)
    kept[0]["a"].append(2)
    assert result == [{"a": [1]}]


Serial = NewType("Serial", uuid.UUID)


@pytest.mark.parametrize(
    ("annotation", "value", "plain"),
    [
        (datetime.date | None, DAY, DAY),
        (dict[str, decimal.Decimal | None], {"a": decimal.Decimal("1.10")}, {"a": decimal.Decimal("1.10")}),
        (list[pathlib.Path], [pathlib.Path("/output/a")], ["/output/a"]),
        (Serial, uuid.UUID(int=1), uuid.UUID(int=1)),
        (list[Row], [{"day": DAY}], [{"day": DAY}]),
        (Pair, Pair(1, decimal.Decimal("2")), (1, decimal.Decimal("2"))),
        (dict[int, str], {1: "a"}, {1: "a"}),
        (set[int] | None, {7}, {7}),
        (collections.deque[int], collections.deque([1, 2]), [1, 2]),
        (Hit, Hit(title="t", extra=pathlib.Path("/x")), {"title": "t", "seen": None, "extra": "/x"}),
        (Annotated[datetime.date, PlainSerializer(lambda day: day.year)], DAY, 2024),
    ],
)
async def test_a_return_annotation_says_how_further_types_are_written(annotation: Any, value: Any, plain: Any):
    assert await returned(value, annotation) == plain


@pytest.mark.parametrize("annotation", [None, Any, dict[str, Any], list[object]])
async def test_a_path_is_refused_where_it_does_not(annotation: Any):
    text = await refused({"at": [pathlib.Path("/x")]}, annotation)
    assert "result['at'][0] is of type PosixPath, which cannot cross; give str(…) of it" in text


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"items": [0, 1, 2, {range(3)}]}, "result['items'][3] is of type range, which cannot cross; give list(…)"),
        (object(), "result is of type object"),
        ({"a": (None, object())}, "result['a'][1] is of type object"),
        ({Frozen(1): 2}, "result[Frozen(x=1)] has a value of type Frozen as a key"),
        ({1, Number.ONE}, "result has two keys or members that are the same as plain values"),
        (set(range(10_001)), "result has more than 10000 keys or members that are no text; give a list"),
        (decimal.Decimal("1E+5000"), "result is a decimal of more than 4,300 digits, or with a greater exponent"),
    ],
)
async def test_what_cannot_cross_is_refused_with_type_and_place(value: Any, sentence: str):
    assert sentence in await refused(value)


async def test_a_model_that_holds_what_has_no_form_is_refused():
    assert "[0]['extra'] is of type object" in await refused([Hit(title="t", extra=object())])


@pytest.mark.slow
async def test_a_list_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    assert "contains itself" in await refused(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested more than" in await refused(deep)


async def test_a_generator_within_a_result_is_refused_and_says_what_to_do():
    assert "result['n'] is of type generator, which cannot cross; give list" in await refused({"n": iter_of(3)})


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


@pytest.mark.slow
async def test_big_results_come_whole():
    rows = [{"n": n, "name": f"row {n}", "half": n / 2} for n in range(20_000)]
    assert json.dumps(await returned(rows)) == json.dumps(rows)


async def test_a_number_of_too_many_digits_is_refused():
    assert "result[0] is an integer of more than 4,300 digits; give it as hex()" in await refused([10**5000])
