"""Calls that are shown before they are made: what is shown is what is passed, whole and as JSON data."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    Field,
    PlainSerializer,
    PrivateAttr,
    Secret,
    SecretBytes,
    SecretStr,
    WithJsonSchema,
    field_serializer,
)

from actbox.core.errors import ToolError
from actbox.tools import Tool, tool


class Colour(enum.Enum):
    RED = "red"


class Parcel(BaseModel):
    weight: decimal.Decimal
    label: bytes = b""
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Place:
    street: str
    floor: int = 0


HOME = Place("x")


def taking(annotation: Any) -> tuple[Tool, list[Any]]:
    passed: list[Any] = []

    def take(value):  # annotated below, since the case is a parameter
        passed.append(value)

    take.__annotations__ = {"value": annotation}
    return Tool.from_function(take), passed


@pytest.mark.parametrize(
    ("annotation", "given", "shown", "passed"),
    [
        (int, " 1000 ", 1000, 1000),
        (bool, "yes", True, True),
        (float, "nan", "NaN", None),
        (float, "-inf", "-Infinity", float("-inf")),
        (bytes, "a", {"base64": "YQ=="}, b"a"),
        (bytes, b"\xff\x00", {"base64": "/wA="}, b"\xff\x00"),
        (Any, {"in": [b"\xff"]}, {"in": [{"base64": "/w=="}]}, {"in": [b"\xff"]}),
        (Any, float("inf"), "Infinity", float("inf")),
        (datetime.date, "2024-02-29", "2024-02-29", datetime.date(2024, 2, 29)),
        (decimal.Decimal, "1e3", "1E+3", decimal.Decimal(1000)),
        (Colour, "red", "red", Colour.RED),
        (dict[int, Colour], {"1": "red"}, {"1": "red"}, {1: Colour.RED}),
        (set[int], ["1", 1], [1], {1}),
        (Place, {"street": "x", "floor": "2"}, {"street": "x", "floor": 2}, Place("x", 2)),
        (
            list[Parcel],
            [{"weight": "1.50", "label": b"\xff"}],
            [{"weight": "1.50", "label": {"base64": "/w=="}, "colour": "red"}],
            [Parcel(weight=decimal.Decimal("1.50"), label=b"\xff")],
        ),
        (SecretStr, "hush", "**********", SecretStr("hush")),
    ],
)
async def test_values_are_shown_converted_and_in_their_json_form(annotation: Any, given: Any, shown: Any, passed: Any):
    made, calls = taking(annotation)
    prepared = made.prepare({"value": given})
    assert prepared.shown() == {"value": shown}
    assert type(prepared.shown()["value"]) is type(shown)
    json.dumps(prepared.shown(), allow_nan=False)
    await prepared.make()
    (value,) = calls
    assert value == passed or (passed is None and value != value)


async def test_what_was_left_out_is_shown_with_its_default_and_stays_the_functions_own():
    sentinel = object()

    def pay(
        amount: int,
        /,
        to: str = "me",
        tags: list[Place] = [HOME],  # noqa: B006
        limit: int = Field(3, ge=1),
        on: datetime.date = datetime.date(2024, 2, 29),
        seal: bytes = b"\xff",
        other: Any = sentinel,
        **more: int,
    ) -> bool:
        return other is sentinel

    prepared = Tool.from_function(pay).prepare({"amount": "5", "extra": "7", "**": 1})
    shown = {
        "amount": 5,
        "to": "me",
        "tags": [{"street": "x", "floor": 0}],
        "limit": 3,
        "on": "2024-02-29",
        "seal": {"base64": "/w=="},
        "extra": 7,
        "**": 1,
    }
    assert prepared.shown() == shown
    assert list(prepared.shown()) == list(shown)
    assert await prepared.make() is True


async def test_nothing_that_is_done_to_what_was_sent_or_shown_reaches_the_call():
    def take(value: Any, items: list[dict[str, int]]) -> list[Any]:
        return [value, items]

    for made in (Tool.from_function(take), Tool.from_schema("take", "", {"type": "object"}, take)):
        sent: dict[str, Any] = {"value": {"a": [1]}, "items": [{"n": 1}]}
        prepared = made.prepare(sent)
        for arguments in (sent, prepared.shown()):
            arguments["value"]["a"].append(2)
            arguments["items"][0]["n"] = 2
        assert prepared.shown() == {"value": {"a": [1]}, "items": [{"n": 1}]}
        assert await prepared.make() == [{"a": [1]}, [{"n": 1}]]


async def test_arguments_are_converted_once():
    seen: list[int] = []

    def count(n: int) -> int:
        seen.append(n)
        return n + len(seen)

    def take(n: Annotated[int, AfterValidator(count)]) -> int:
        return n

    prepared = Tool.from_function(take).prepare({"n": 10})
    assert prepared.shown() == {"n": 11}
    assert await prepared.make() == 11
    assert seen == [10]


async def test_what_can_be_read_only_once_is_read_checked_and_passed_whole():
    def total(numbers: Iterable[int], more: Iterable[int] = ()) -> list[Any]:
        return [isinstance(numbers, Iterator), sum(numbers)]

    made = Tool.from_function(total)
    prepared = made.prepare({"numbers": ["1", 2]})
    assert prepared.shown() == {"numbers": [1, 2], "more": []}
    assert await prepared.make() == [True, 3]
    with pytest.raises(ToolError, match=r"argument 'numbers' at \[1\] should be a valid integer.*got 'x'"):
        made.prepare({"numbers": [1, "x"]})


def test_what_cannot_be_shown_is_refused():
    class Account:
        pass

    opaque, _ = taking(Annotated[str, AfterValidator(lambda name: Account())])
    with pytest.raises(ToolError, match=r"argument 'value' cannot be shown .*: Account has no JSON form"):
        opaque.prepare({"value": "x"})
    nested, _ = taking(list[Iterable[int]])
    with pytest.raises(ToolError, match=r"'value' cannot be shown .* read only once"):
        nested.prepare({"value": [[1]]})

    def fails(value: Any) -> str:
        raise KeyError("lost")

    broken, _ = taking(Annotated[str, PlainSerializer(fails)])
    with pytest.raises(ToolError, match=r"'value' cannot be shown .*: its serialiser failed \(\w+\)$"):
        broken.prepare({"value": "x"})
    two, _ = taking(dict[str, int])
    assert two.prepare({"value": {"1": 1}}).shown() == {"value": {"1": 1}}
    two, _ = taking(Annotated[dict[str, int], AfterValidator(lambda d: {1: 1, "1": 2})])
    with pytest.raises(ToolError, match="two of its keys are '1' in JSON"):
        two.prepare({"value": {}})


def test_a_serialiser_for_json_alone_is_used_where_there_is_no_other_form():
    class Account:
        pass

    made, _ = taking(
        Annotated[
            Any,
            AfterValidator(lambda name: Account()),
            PlainSerializer(lambda account: "the account", return_type=str, when_used="json"),
            WithJsonSchema({"type": "string"}),
        ]
    )
    assert made.prepare({"value": "x"}).shown() == {"value": "the account"}


async def test_of_a_tool_from_a_schema_defaults_that_fit_are_shown_and_passed():
    schema = {
        "type": "object",
        "properties": {
            "amount": {"type": "integer"},
            "to": {"type": "string", "default": "me"},
            "tags": {"$ref": "#/$defs/Tags"},
            "near": {"type": "string", "default": None},
        },
        "required": ["amount"],
        "$defs": {"Tags": {"type": "array", "default": ["x"]}},
    }

    def pay(**arguments: Any) -> dict[str, Any]:
        return arguments

    made = Tool.from_schema("pay", "", schema, pay)
    prepared = made.prepare({"amount": 5})
    assert prepared.shown() == await prepared.make() == {"amount": 5, "to": "me", "tags": ["x"]}
    assert made.prepare({"amount": 5, "to": "you"}).shown()["to"] == "you"
    assert await made.call({"amount": 5}) == {"amount": 5}
    with pytest.raises(ToolError, match="'amount' should be an integer"):
        made.prepare({"amount": "5"})


@pytest.mark.parametrize("bytes_given", [b"\xff", b"a"])
def test_bytes_for_a_tool_from_a_schema_are_shown_as_such(bytes_given: bytes):
    schema = {"type": "object", "properties": {"data": {"type": "string", "format": "binary"}}}
    made = Tool.from_schema("keep", "", schema, lambda **arguments: None)
    assert set(made.prepare({"data": bytes_given}).shown()["data"]) == {"base64"}


def test_what_cannot_cross_is_no_call():
    @tool(approval="always_require")
    def pay(amount: Any) -> None: ...

    deep: list[Any] = []
    for _ in range(2_000):
        deep = [deep]
    for amount, why in ((object(), r"arguments\['amount'\] is of type object"), (deep, "nested")):
        with pytest.raises(ToolError, match=why):
            pay.prepare({"amount": amount})


@pytest.mark.parametrize(
    "value", ["\ud800", {"\ud800": 1, "\\ud800": 2}, ["\udfff"] * 2_000], ids=["text", "keys", "many"]
)
def test_half_of_a_surrogate_pair_which_would_be_spelt_as_other_text_is_not_shown(value: Any):
    made, _ = taking(Any)
    elsewhere = Tool.from_schema("t", "", {"type": "object"}, made.function)
    for each in (made, elsewhere):
        with pytest.raises(ToolError, match="surrogate"):
            each.prepare({"value": value})
    with pytest.raises(ToolError, match="surrogate"):
        elsewhere.prepare({"\ud800": 1})
    assert made.prepare({"value": ["\U0001f600"] * 2_000}).shown()["value"][0] == "\U0001f600"


@pytest.mark.parametrize("annotation", [int, int | str, Any, list[int], fractions.Fraction])
def test_an_integer_of_more_digits_than_python_writes_is_a_tool_error(annotation: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)  # pydantic reports a fraction to it
    made, _ = taking(annotation)
    value = decimal.Decimal("1E+4300")
    given = int(value) if annotation is Any else [value] if annotation == list[int] else value
    with pytest.raises(ToolError):
        made.prepare({"value": given})


@dataclasses.dataclass
class Post:
    to: str
    body: dataclasses.InitVar[str] = ""


@pytest.mark.parametrize("annotation", [Post, list[Post], dict[str, Post | None]])
def test_what_a_dataclass_takes_and_does_not_keep_is_not_hidden_from_whoever_approves(annotation: Any):
    made, _ = taking(annotation)
    given = {"to": "bob", "body": "all the secrets"}
    value = given if annotation is Post else [given] if annotation == list[Post] else {"a": given}
    with pytest.raises(ToolError, match="'body' is an InitVar"):
        made.prepare({"value": value})


class Pay(BaseModel):
    who: str
    amount: Annotated[int, Field(exclude=True)] = 1


class Starred(BaseModel):
    a: str

    @field_serializer("a")
    def _stars(self, value: str) -> str:
        return "*"


class Keeping(BaseModel):
    a: int = 0
    _more: Any = PrivateAttr(None)

    def __init__(self, **given: Any) -> None:
        super().__init__(a=given.get("a", 0))
        self._more = given


class Node(BaseModel):
    key: Secret[int]
    next: Node | None = None


@pytest.mark.parametrize(
    ("annotation", "one", "other"),
    [
        (SecretStr, "a", "b"),
        (SecretBytes, b"a", b"b"),
        (Node, {"key": 1}, {"key": 2}),
        (list[Pay], [{"who": "bob", "amount": 1}], [{"who": "bob", "amount": 999_999}]),
        (Starred, {"a": "x"}, {"a": "y"}),
        (Keeping, {"a": 1, "b": 1}, {"a": 1, "b": 2}),
        (Annotated[float, PlainSerializer(lambda value: 1)], 1.25, 1.5),
    ],
)
def test_calls_that_look_alike_since_a_type_hides_a_part_are_told_apart_by_a_digest(
    annotation: Any, one: Any, other: Any
):
    made, _ = taking(annotation)
    first, again, second = (made.prepare({"value": value}) for value in (one, one, other))
    assert first.shown() == second.shown()
    assert first.hidden == again.hidden != second.hidden
    assert first.hidden.keys() == {"value"}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 1),
        (Parcel, {"weight": "1"}),
        (Place, {"street": "x"}),
        (pathlib.Path, "/x"),
        (ipaddress.IPv4Address, "127.0.0.1"),
        (AnyUrl, "http://a/"),
    ],
)
def test_types_that_hide_nothing_have_no_digest(annotation: Any, value: Any):
    made, _ = taking(annotation)
    assert made.prepare({"value": value}).hidden == {}
