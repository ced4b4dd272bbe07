"""Values between a host and a machine, over a stand-in: in the tagged form, in both languages."""

from __future__ import annotations

import datetime
import decimal
import shutil
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import Program, Sandbox

pytestmark = pytest.mark.usefixtures("stand_in")


def echo(value: Any) -> Any:
    """Return what it is given."""
    return value


def look(key: str) -> str:
    """Return what has a key."""
    return {"a": "b"}[key]


@pytest_asyncio.fixture
async def script() -> AsyncIterator[Sandbox]:
    if shutil.which("node") is None:
        pytest.skip("there is no node, over which JavaScript's stand-in runs")
    async with actbox.open_sandbox("hyperlight", backend="javascript", machines=1) as opened:
        yield opened


async def test_python_has_times_and_what_else_there_is_a_module_for() -> None:
    given = [
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone(datetime.timedelta(hours=1))),
        [datetime.date(2026, 1, 2), datetime.time(1, 2), datetime.timedelta(1, 2, 3)],
        [{(1, "a"): {2}}, float("nan"), b"x"],
    ]
    async with actbox.open_sandbox("hyperlight", machines=1) as box:
        result = await box.run(Program("[given, echo(given)]", inputs={"given": given}), tools=[echo])
        assert repr(result.value) == repr([given, given]), result
        # The interpreter of the stand-in has every module of the standard library, but knows no path to these two.
        given = [decimal.Decimal("1.10"), uuid.UUID(int=5)]
        result = await box.run(Program("[given, echo(given)]", inputs={"given": given}), tools=[echo])
        assert result.value == [["1.10", str(uuid.UUID(int=5))]] * 2, result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ("[NaN, -Infinity]", [float("nan"), float("-inf")]),
        ("new Set([1])", {1}),
        ("new Map([[1, 'a'], ['1', 'b']])", {1: "a", "1": "b"}),
        ("new Date(5)", datetime.datetime(1970, 1, 1, 0, 0, 0, 5000, datetime.UTC)),
        ("[10n ** 20n, 2 ** 60]", [10**20, 2.0**60]),
        ("({'!set': [1], b: new Uint8Array([1, 255])})", {"!set": [1], "b": b"\x01\xff"}),
        ("({'!set': [1]})", {"!set": [1]}),
    ],
)
async def test_values_of_javascript_cross_whole(script: Sandbox, value: str, arrives: Any) -> None:
    got: list[Any] = []

    def take(value: Any) -> Any:
        got.append(value)
        return value

    assert repr((await script.run(f"({value})")).value) == repr(arrives)
    result = await script.run(f"take({{ value: {value} }}).then((back) => back)", tools=[take])
    assert (repr(got), repr(result.value)) == (repr([arrives]), repr(arrives)), result


async def test_inputs_of_javascript_are_opened(script: Sandbox) -> None:
    given = {"a": {1, 2}, "b": [2**70, datetime.datetime(2026, 1, 2, 3, 4, 5, 6)], "c": {1: b"x"}}
    code = "[given, given.a instanceof Set, given.b[1] instanceof Date, given.c.get(1)]"
    result = await script.run(Program(code, "javascript", inputs={"given": given}))
    assert result.value == [given, True, True, b"x"], result


@pytest.mark.slow
async def test_what_cannot_cross_from_javascript_is_told_with_its_place(script: Sandbox) -> None:
    result = await script.run("({a: [() => 1]})")
    assert result.value is None and result.value_text is not None
    assert "value.a[0] is a function" in result.warnings[0]
    result = await script.run("(() => { let d = [1]; for (let i = 0; i < 40; i++) d = [d, d]; return d })()")
    assert "more than 2000000 values" in result.warnings[0]
    result = await script.run("new Set(Array.from({length: 400}, (_, i) => BigInt(i) * (2n ** 61n - 1n)))")
    assert "numbers as keys or members that have one hash in Python" in result.warnings[0]
    code = "echo({ value: { a: new Set([[1]]) } }).catch((e) => [e instanceof ToolError, e.message])"
    kind, message = (await script.run(code, tools=[echo])).value
    assert kind and message.startswith("the call was not made: arguments.value.a has a value of type Array as a key")
    code = "look('x').catch((e) => [e instanceof ToolError, e.builtin])"
    assert (await script.run(code, tools=[look])).value == [True, "KeyError"]
