"""What is kept of the tool calls of a run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox import Sandbox, ToolError
from actbox.core.call_log import (
    MOST_ARGUMENT_CHARS,
    MOST_CALLS,
    MOST_ERROR_CHARS,
    MOST_NAME_CHARS,
    MOST_TOOLS,
    OTHER_TOOLS,
    CallLog,
    ToolCallRecord,
    json_text,
)
from actbox.core.events import Output, ToolFinished, ToolStarted


def fed(*events: Any) -> CallLog:
    log = CallLog()
    for event in events:
        log.feed(event)
    return log


async def test_the_calls_of_a_real_run_are_recorded_in_their_order(box: Sandbox) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    def refuse(why: str) -> None:
        raise ToolError(f"no: {why}")

    log = CallLog()
    async for event in box.stream("add(a=1, b=2)\nrefuse('é')", tools=[add, refuse]):
        log.feed(event)
    first, second = log.records
    assert (first.call_id, first.tool, first.arguments, first.status) == (1, "add", '{"a": 1, "b": 2}', "returned")
    assert (second.tool, second.arguments, second.status, second.error) == (
        "refuse",
        '{"why": "é"}',
        "failed",
        "no: é",
    )
    assert first.wall_ms > 0
    assert log.further == {}


def test_a_call_that_was_not_finished_is_unfinished() -> None:
    assert fed(ToolStarted(7, "f", {}), Output("stdout", "x")).records == (
        ToolCallRecord(call_id=7, tool="f", arguments="{}", status="unfinished"),
    )


def test_calls_that_overlap_are_told_apart_by_their_ids() -> None:
    log = fed(
        ToolStarted(2, "f", {"a": 2}),
        ToolStarted(1, "f", {"a": 1}),
        ToolFinished(1, "f", None, "no", 2.0),
        ToolFinished(2, "f", 5, None, 3.0),
    )
    assert [(call.call_id, call.status, call.wall_ms) for call in log.records] == [
        (2, "returned", 3.0),
        (1, "failed", 2.0),
    ]


def test_an_empty_error_is_a_failure() -> None:
    assert fed(ToolStarted(1, "f", {}), ToolFinished(1, "f", None, "")).records[0].status == "failed"


def test_further_calls_are_counted_by_tool() -> None:
    log = fed(*(ToolStarted(number, "f" if number % 2 else "g", {}) for number in range(1, MOST_CALLS + 4)))
    log.feed(ToolFinished(MOST_CALLS + 1, "f", 1))
    assert len(log.records) == MOST_CALLS
    assert log.further == {"f": 2, "g": 1}


def test_records_and_counts_that_were_read_do_not_change() -> None:
    log = fed(ToolStarted(1, "f", {}))
    before = log.records
    log.feed(ToolFinished(1, "f", 1))
    assert before[0].status == "unfinished"
    with pytest.raises(TypeError):
        log.further["f"] = 1  # type: ignore[index]


def test_a_log_stays_small_whatever_is_called_and_said() -> None:
    log = CallLog()
    for number in range(10_000):
        name = f"{number}" + "n" * 1_000
        log.feed(ToolStarted(number, name, {f"k{key}": "v" * 1_000 for key in range(10)}))
        log.feed(ToolFinished(number, name, "v" * 1_000, "e" * 1_000))
    assert len(log.records) == MOST_CALLS
    assert len(log.further) == MOST_TOOLS + 1
    assert log.further[OTHER_TOOLS] == 10_000 - MOST_CALLS - MOST_TOOLS
    for call in log.records:
        assert (len(call.tool), len(call.error)) == (MOST_NAME_CHARS, MOST_ERROR_CHARS)
        assert len(call.arguments) <= MOST_ARGUMENT_CHARS
        assert call.error.endswith("…")
    assert max(map(len, log.further)) <= MOST_NAME_CHARS


# Arguments as text


def test_values_of_json_are_written_as_json() -> None:
    value = {"a": [1, -2.5, True, False, None, "é\n\"'"], "b": {}, "c": [], "": {"d": 10**100}}
    assert json.loads(json_text(value)) == value


def test_what_json_lacks_is_named() -> None:
    assert json_text(
        {"a": math.nan, "b": -math.inf, "c": math.inf, "d": b"abc", "e": (1,), "f": 10**5_000, "g": object(), 3: 4}
    ) == (
        '{"a": "NaN", "b": "-Infinity", "c": "Infinity", "d": "<3 bytes>", "e": [1], "f": "<integer of 16,610 bits>", '
        '"g": "<object>", "3": 4}'
    )


def test_a_long_string_leaves_room_for_what_follows_it() -> None:
    text = json_text({"body": "x" * 10_000, "to": "a"})
    assert text.endswith('x…", "to": "a"}')


def test_text_is_one_printable_line() -> None:
    text = json_text({"a": "\n\u2028\x85\ud800\U000e0001\u202e"})
    assert text == '{"a": "\\n\\u2028\\u0085\\ud800\\udb40\\udc01\\u202e"}'
    assert json.loads(text) == {"a": "\n\u2028\x85\ud800\U000e0001\u202e"}


def test_only_what_is_shown_of_a_value_is_looked_at() -> None:
    class Endless(Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            return 1

        def __iter__(self) -> Iterator[str]:
            number = 0
            while True:
                number += 1
                yield f"k{number}"

        def __len__(self) -> int:
            return sys.maxsize

    text = json_text(Endless())
    assert text.startswith('{"k1": 1, "k2": 1, ')
    assert len(text) == MOST_ARGUMENT_CHARS


def test_nesting_without_end_is_cut() -> None:
    value: list[Any] = []
    value.append(value)
    assert json_text(value) == "[" * 21 + "…" + "]" * 21
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert "…" in json_text(MappingProxyType(deep))
    while deep:  # a value so deep cannot be let go of at once
        deep = deep.pop("a")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner),
)


@pytest.mark.slow
@given(_VALUES, st.integers(1, 300))
def test_no_value_is_too_odd_or_too_long(value: Any, most: int) -> None:
    text = json_text(value, most)
    assert len(text) <= most
    assert text.isprintable()
    text.encode()
