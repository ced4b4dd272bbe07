"""The tagged form: values cross whole; forged tags make small values of the standard library, or an error."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import json
import math
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox import ExecutionResult
from actbox.sandbox.channel.decoding import decode_in_steps
from actbox.sandbox.guest import tagged, wire
from actbox.sandbox.guest.members import MAX_KEYS

_FIXED = st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, min_value=-(10**30), max_value=10**30)
    | st.uuids()
    | st.dates()
    | st.datetimes(timezones=st.none() | _FIXED)
    | st.times()
    | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=6,
)
KEYS = st.sampled_from(["!set", "!map", "!", "a", "\0", "!tuple"]) | HASHABLE
VALUES = st.recursive(
    HASHABLE | st.just(math.nan),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.sets(HASHABLE, max_size=4)
    ),
    max_leaves=12,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*tagged._OPENERS, *tagged._GATHERED, "!x", "a"]), inner, max_size=2)
    ),
    max_leaves=15,
)
OPENED = (
    *(dict, list, str, int, float, bool, type(None), tuple, set, frozenset, bytes, decimal.Decimal, uuid.UUID),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
)


class Number(enum.Enum):
    ONE = 1
    MANY = [1, 2]  # noqa: RUF012


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal with all their types, NaN being NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(same, one.items(), other.items()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def types_in(value: Any) -> set[type]:
    inner = [*value.items()] if isinstance(value, dict) else value
    if not isinstance(inner, (list, tuple, set, frozenset)):
        return {type(value)}
    return {type(value)}.union(*map(types_in, inner))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(VALUES)
def test_values_come_out_as_they_went_in(value: Any) -> None:
    assert same(tagged.unpack(copy.deepcopy(tagged.pack(value, keeps_bytes=True))), value)
    document = json.dumps({"value": tagged.pack(value)}, allow_nan=False)
    assert same(tagged.unpack(json.loads(document))["value"], value)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_they_cross_the_channel_and_a_results_document(value: Any) -> None:
    message: dict[str, Any] = {"t": "return"}
    wire.put_value(message, "value", value)
    frame = wire.encode(message, 2**20)
    (received,) = wire.FrameReader(2**20).feed(frame)
    assert same(received["value"], value) and received.keys() == {"t", "value"}
    document = json.dumps(ExecutionResult(value=value).to_dict(), allow_nan=False)
    assert same(ExecutionResult.from_dict(json.loads(document)).value, value)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(JSON)
def test_forged_tags_open_to_the_standard_library_or_not_at_all(form: Any) -> None:
    try:
        value = tagged.unpack(copy.deepcopy(form))
    except ValueError:
        return
    assert types_in(value) <= {*OPENED, tuple}
    tagged.pack(value)  # so the result can be written down


@pytest.mark.parametrize(
    "form",
    [
        {"!unknown": 1},
        {"!": 1},
        {"!set": 1},
        {"!set": {"a": 1}},
        {"!set": [[]]},
        {"!set": [{"a": 1}]},
        {"!set": [{"!tuple": [[]]}]},
        {"!set": [1, 1.0]},
        {"!set": [{"!decimal": "sNaN"}]},
        {"!map": [[1, 2, 3]]},
        {"!map": [1]},
        {"!map": [["a", 1], ["a", 2]]},
        {"!tuple": "ab"},
        {"!float": "1e400"},
        {"!float": 1},
        {"!bytes": "AB"},
        {"!bytes": "AB=="},
        {"!bytes": "AA==\n"},
        {"!bytes": "A\nB="},
        {"!bytes": ["AA=="]},
        {"!decimal": "1E+4301"},
        {"!decimal": "1" * 4301},
        {"!decimal": "1_000"},
        {"!decimal": "١"},
        {"!decimal": 1},
        {"!date": "2026-13-01"},
        {"!date": "20260101"},
        {"!datetime": "2026-01-01T00:00:00+99:00"},
        {"!datetime": "2026-01-01T00:00:00" + "0" * 1000},
        {"!time": None},
        {"!timedelta": [10**4000, 0, 0]},
        {"!timedelta": [1.5, 0, 0]},
        {"!timedelta": [1]},
        {"!uuid": "1" * 36},
        {"!uuid": "{00000000-0000-0000-0000-000000000001}"},
        {"!set": list(range(MAX_KEYS + 1))},
        {"!map": [[(2**61 - 1) * n, 1] for n in range(1, 400)]},
    ],
    ids=lambda form: repr(form)[:40],
)
def test_a_tag_that_is_not_as_we_write_it_is_refused(form: Any) -> None:
    with pytest.raises(ValueError):
        tagged.unpack({"at": [copy.deepcopy(form)]})
    text = json.dumps({"t": "call", "args": {"a": form}, "tagged": ["args"]}).encode()
    with pytest.raises(wire.ProtocolError):
        wire.decode(text, b"")


@pytest.mark.parametrize("names", [1, {}, [1], [[]], ["nothing"], ["value"], ["args"] * 2, ["a"], ["args", "t"]])
def test_a_message_that_lists_its_tagged_fields_wrongly_is_refused(names: Any) -> None:
    text = json.dumps({"t": "call", "args": {"a": 1}, "a": 1, "b": 1, "c": 1, "tagged": names}).encode()
    with pytest.raises(wire.ProtocolError):
        wire.decode(text, b"")


def test_what_a_message_carries_can_be_packed_again() -> None:
    for text in ("[" * 198 + "1.5" + "]" * 198, '{"!x":' * 60 + "NaN" + "}" * 60):
        message = wire.decode(b'{"t":"done","value":[%s]}' % text.encode(), b"")
        document = ExecutionResult(value=message["value"]).to_dict()
        assert repr(ExecutionResult.from_dict(document).value) == repr(message["value"])
    nan = {"!decimal": "NaN"}
    same: list[list[Any]] = [[nan, nan], [math.nan, {"!float": "nan"}], [{"!tuple": [nan]}, {"!tuple": [nan]}]]
    for members in same:
        for form in ({"!set": members}, {"!map": [[member, 1] for member in members]}):
            with pytest.raises(wire.ProtocolError, match="equal"):
                wire.decode(json.dumps({"t": "done", "value": form, "tagged": ["value"]}).encode(), b"")


@pytest.mark.slow
def test_a_set_of_bytes_that_crosses_has_a_place_in_the_document() -> None:
    value = {b"%d" % number for number in range(MAX_KEYS + 1)}
    assert tagged.crossed(value) == value
    assert ExecutionResult.from_dict(json.loads(json.dumps(ExecutionResult(value=value).to_dict()))).value == value


def test_a_place_that_is_very_deep_is_told_by_its_beginning_and_end() -> None:
    value: Any = {"last": object()}
    for _ in range(150):
        value = [value]
    with pytest.raises(tagged.CannotCross) as caught:
        tagged.pack({"first": value})
    said = caught.value.within("value")
    assert said.startswith("value['first'][0][0]")
    assert "[0]['last'] is of type object" in said
    assert len(said) < 250
    assert said.count("…") == 1


def test_a_field_that_is_not_listed_is_data_whatever_it_looks_like() -> None:
    message = {"t": "call", "args": {"a": {"!set": [1]}, "!date": "2026-01-01"}}
    (received,) = wire.FrameReader(2**20).feed(wire.encode(message, 2**20))
    assert received == message


def test_json_data_is_not_copied_and_costs_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(tagged, "_Packer", refuse)
    for value in ({"a": 1, "b": "x"}, [1.5, {"a": [None, True]}], "x", True, None, {"!set": 1, "a": 2}, [], {}):
        assert tagged.pack(value) is value


@pytest.mark.slow
def test_opening_large_values_goes_in_bounded_steps() -> None:
    form = [{"!set": [f"{n}-{m}" for m in range(1000)]} for n in range(20)]
    form.append({"!map": [[n, {"!tuple": [n]}] for n in range(10_000)]})
    text = json.dumps({"t": "done", "exit": 0, "value": form, "tagged": ["value"]}).encode()
    steps = decode_in_steps(text, b"")
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as end:
        message, _ = end.value
    assert [len(item) for item in message["value"]] == [1000] * 20 + [10_000]
    assert count >= 10_000 // tagged._STEP_KEYS


@pytest.mark.slow
def test_each_way_over_a_large_value_goes_in_bounded_steps() -> None:
    texts = [str(number) for number in range(100_000)]
    assert sum(1 for _ in tagged.open_in_steps([texts])) == 10  # to find what there is, and to open it
    assert sum(1 for _ in tagged.open_in_steps([{"!set": texts}])) == 15


OLDEST = """
import sys, types
sys.path.insert(0, {folder!r})
package = types.ModuleType("guest"); package.__path__ = [{guest!r}]; sys.modules["guest"] = package
from guest import tagged
import datetime, decimal, uuid
value = [{{1}}, (1, float("-inf")), {{1: "a"}}, {{"!set": 1}}, b"x", decimal.Decimal("1.10"), uuid.UUID(int=1),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone(datetime.timedelta(hours=1))), datetime.time(1, 2)]
assert repr(tagged.unpack(tagged.pack(value))) == repr(value)
print("whole")
"""


@pytest.mark.parametrize("name", ["python3.9", "python3.10", "python3.11", "python3.12", "python3.13"])
def test_the_oldest_guest_has_it_too(name: str) -> None:
    version = name.removeprefix("python")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*map(str, root.glob(f"versions/{version}.*/bin/python")), shutil.which(name)]
    python = next((each for each in found if each), None)
    if python is None:
        pytest.skip(f"there is no {name} here")
    guest = str(Path(tagged.__file__).parent)
    code = OLDEST.format(folder=guest, guest=guest)
    ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "whole\n", ran.stderr


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({n * (2**61 - 1) for n in range(400)}, "more than 250 keys or members of one hash"),
        ({Number.ONE, 1.0}, "two keys or members that are the same as plain values"),
        ({Number.MANY}, "a value of type Number as a key or member, and arrives as what cannot be one"),
        (set(range(MAX_KEYS + 1)), "more than 10000 keys or members that are no text"),
    ],
    ids=["one hash", "equal", "no member", "too many"],
)
def test_what_could_not_be_opened_is_not_packed(value: Any, why: str) -> None:
    with pytest.raises(tagged.CannotCross, match=why) as refusal:
        tagged.pack({"rows": [value]})
    assert refusal.value.place == "['rows'][0]"


def alike(length: int, first: Any = 1000) -> list[Any]:
    """Return 250 tuples of one hash that differ at their ends only."""
    bits = [[-1 if number >> bit & 1 else -2 for bit in range(8)] for number in range(250)]
    return [(*[first] * length, *ends) for ends in bits]


SHARED = 7 * 10**4000
NINES = 10**4299
MERSENNE = 2**61 - 1
# Made when a test asks for them, since making some takes a second.
ALIKE: dict[str, Callable[[], Any]] = {
    "tuples": lambda: set(alike(100)),
    "nested tuples": lambda: {(0, (each,)) for each in alike(100)},
    "texts in tuples": lambda: set(alike(1, "a" * 30_000)),
    "frozensets": lambda: {frozenset({each, "a"}) for each in alike(100)},
    "frozensets of one hash": lambda: {frozenset({(-1, *each), (-2, *each)}) for each in alike(20)},
    "keys": lambda: dict.fromkeys(alike(100), 1),
    "many sets": lambda: [set(alike(1)) for _ in range(10)],
    "integers and decimals": lambda: (
        {NINES + n * MERSENNE for n in range(100)} | {decimal.Decimal(NINES + n * MERSENNE) for n in range(100, 200)}
    ),
    "one decimal first": lambda: {
        (decimal.Decimal(NINES),),
        *((NINES + n * MERSENNE,) for n in range(1, 200)),
    },
}
# Those that take more than a tenth of a second.
_SLOW = ("integers and decimals", "one decimal first")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in _SLOW else name for name in ALIKE]


@pytest.mark.parametrize("name", NAMES)
def test_members_of_one_hash_are_few_where_comparing_them_takes_long(name: str) -> None:
    value = ALIKE[name]()
    with pytest.raises(tagged.CannotCross, match="of one hash that take too long to be compared; give a list"):
        tagged.pack({"rows": value})
    for sets in value if isinstance(value, list) else [value]:
        assert len(set(map(hash, sets))) <= 2  # so what is refused is what costs


@pytest.mark.parametrize("name", NAMES)
def test_a_guest_cannot_have_them_opened(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagged, "_check_members", lambda *args: None)
    form = tagged.pack(ALIKE[name](), keeps_bytes=True)
    with pytest.raises(ValueError, match="of one hash that take too long to be compared"):
        tagged.unpack(form)


@pytest.mark.slow
def test_short_members_of_one_hash_cross() -> None:
    value = {(x, y, z) for x in range(-10, 10) for y in range(-10, 10) for z in range(-10, 10)}
    assert tagged.crossed(value) == value
    assert tagged.crossed(set(alike(1))) == set(alike(1))


def test_many_powers_of_two_are_keys_like_others() -> None:
    value = {2**n: n for n in range(5_000)}
    assert tagged.unpack(tagged.pack(value)) == value


class Shifted(datetime.tzinfo):
    """A zone a millionth of a second from UTC, which Python writes and does not read."""

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(microseconds=1)

    def dst(self, when: datetime.datetime | None) -> None:
        return None


@pytest.mark.parametrize("value", [datetime.datetime(2026, 1, 2, tzinfo=Shifted()), datetime.time(3, tzinfo=Shifted())])
def test_a_time_whose_offset_python_does_not_read_is_refused_where_it_is_packed(value: Any) -> None:
    with pytest.raises(tagged.CannotCross, match="offset from UTC"):
        tagged.pack(value)


def test_a_time_with_an_offset_of_odd_seconds_crosses() -> None:
    value = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(seconds=61, microseconds=5)))
    assert tagged.unpack(tagged.pack(value)) == value


def test_long_texts_of_tags_are_opened_in_more_steps() -> None:
    short = [{"!decimal": "9"} for _ in range(1_000)]
    long = [{"!decimal": "9" * 4_000} for _ in range(1_000)]
    assert len(list(tagged.open_in_steps([short]))) == 0
    assert len(list(tagged.open_in_steps([long]))) >= 9
