"""Calling a tool: arguments that fit, and the sentences for those that do not."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import threading
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from actbox.core.errors import ToolError
from actbox.tools import Tool, tool


class Filter(BaseModel):
    field: str
    values: list[int | str] = []


@tool
def search(
    query: str,
    limit: Annotated[int, Field(ge=1)] = 10,
    filters: list[Filter] = [],  # noqa: B006
    order: Literal["asc", "desc"] = "asc",
) -> list[Any]:
    return [query, limit, [f.field for f in filters], order]


async def problem(made: Tool, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as caught:
        await made.call(arguments)
    assert caught.value.tool == made.name
    return str(caught.value)


async def test_arguments_are_converted_where_their_meaning_is_plain():
    assert await search.call({"query": "x", "limit": "3", "filters": [{"field": "f"}]}) == ["x", 3, ["f"], "asc"]


async def test_values_that_only_python_has_are_made_from_text():
    def year(day: datetime.date) -> int:
        return day.year

    assert await Tool.from_function(year).call({"day": "2024-02-29"}) == 2024


async def test_bytes_reach_a_tool_that_takes_bytes():
    def size(data: bytes) -> int:
        return len(data)

    assert await Tool.from_function(size).call({"data": b"\xff\x00"}) == 2


async def test_the_callers_mapping_is_left_alone():
    def add(a: int, **more: int) -> int:
        return a + sum(more.values())

    arguments = {"a": "1", "b": "2"}
    assert await Tool.from_function(add).call(arguments) == 3
    assert arguments == {"a": "1", "b": "2"}


async def test_a_missing_argument_is_named_with_its_type_and_how_to_call():
    text = await problem(search, {})
    assert text.splitlines()[0] == "argument 'query' is missing; it is str"
    assert "call it as search(query: str, limit: int = 10" in text


async def test_a_misspelled_argument_gets_a_suggestion():
    assert "there is no argument 'qurey'; did you mean 'query'?" in await problem(search, {"qurey": "x"})
    assert "there is no argument 'zzz'\n" in await problem(search, {"query": "x", "zzz": 1})


async def test_all_problems_are_told_at_once_each_on_a_line_of_its_own():
    text = await problem(search, {"qurey": "x", "limit": 0, "order": "up", "filters": [{"values": [1.5]}]})
    lines = text.splitlines()
    assert len(lines) == 7
    assert "argument 'limit' should be greater than or equal to 1; got 0" in lines
    assert "argument 'order' should be 'asc' or 'desc'; got 'up'" in lines
    assert "argument 'filters' at [0] lacks 'field'" in lines


async def test_a_wrong_type_says_what_was_expected_and_what_came():
    text = await problem(search, {"query": "x", "limit": "many"})
    assert text.startswith("argument 'limit' should be a valid integer")
    assert "; got 'many'" in text


async def test_a_union_that_nothing_fits_is_one_sentence_at_its_place():
    text = await problem(search, {"query": "x", "filters": [{"field": "f", "values": ["a", None]}]})
    assert text.splitlines()[0] == (
        "argument 'filters' at [0]['values'][1] should be a valid integer or should be a valid string; got None"
    )


async def test_a_validators_own_words_are_passed_on():
    def odd(n: int) -> int:
        if n % 2 == 0:
            raise ValueError("must be odd")
        return n

    made = Tool.from_function(lambda n: n, name="take")
    assert await made.call({"n": 2}) == 2

    def take(n: Annotated[int, AfterValidator(odd)]) -> int:
        return n

    assert "argument 'n' is wrong: must be odd; got 2" in await problem(Tool.from_function(take), {"n": 2})


async def test_a_validator_that_breaks_is_a_tool_error_too():
    def broken(n: int) -> int:
        raise KeyError("lost")

    def take(n: Annotated[int, AfterValidator(broken)]) -> int:
        return n

    assert "KeyError: 'lost'" in await problem(Tool.from_function(take), {"n": 2})


async def test_what_was_given_is_shown_short_however_large_it_is():
    def total(numbers: list[int], text: str = "") -> int:
        return sum(numbers)

    made = Tool.from_function(total)
    assert len(await problem(made, {"numbers": ["x"] * 100_000})) < 4_000
    assert len(await problem(made, {"numbers": "x" * 1_000_000})) < 300
    assert len(await problem(made, {"y" * 1_000_000: 1, "numbers": []})) < 300


async def test_a_host_exception_becomes_its_type_and_message_and_stays_the_cause():
    @tool
    def fails(kind: str) -> None:
        if kind == "value":
            raise ValueError("no such row")
        if kind == "empty":
            raise RuntimeError
        raise KeyError("k")

    assert await problem(fails, {"kind": "value"}) == "ValueError: no such row"
    assert await problem(fails, {"kind": "empty"}) == "RuntimeError"
    assert await problem(fails, {"kind": "key"}) == "KeyError: 'k'"
    with pytest.raises(ToolError) as caught:
        await fails.call({"kind": "value"})
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_failed_file_does_not_tell_where_the_host_keeps_its_files(tmp_path: Any):
    secret = tmp_path / "customers.db"

    @tool
    def read() -> str:
        return secret.read_text()

    text = await problem(read, {})
    assert text == "FileNotFoundError: No such file or directory"


async def test_a_tool_error_of_the_function_keeps_its_message():
    @tool
    async def strict() -> None:
        raise ToolError("ask for fewer rows")

    assert await problem(strict, {}) == "ask for fewer rows"


@pytest.mark.parametrize("is_async", [True, False])
async def test_sys_exit_in_a_tool_does_not_end_the_host(is_async: bool):
    def leave() -> None:
        raise SystemExit(3)

    async def leave_async() -> None:
        raise SystemExit(3)

    assert await problem(Tool.from_function(leave_async if is_async else leave), {}) == "SystemExit: 3"


async def test_an_exception_whose_message_cannot_be_read_is_still_told():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    def fails() -> None:
        raise Mute

    assert (await problem(fails, {})).startswith("Mute: ")


async def test_an_endless_message_is_cut():
    @tool
    def fails() -> None:
        raise ValueError("x" * 1_000_000)

    assert len(await problem(fails, {})) < 10_000


async def test_cancelling_passes_through_an_async_tool():
    stopped = asyncio.Event()
    started = asyncio.Event()

    @tool
    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(forever.call({}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


async def test_a_sync_tool_runs_off_the_event_loop_with_the_callers_context():
    user = contextvars.ContextVar("user", default="nobody")
    user.set("ada")

    @tool
    def who() -> list[Any]:
        return [user.get(), threading.current_thread() is threading.main_thread()]

    assert await who.call({}) == ["ada", False]


async def test_an_async_callable_object_is_awaited():
    class Fetch:
        async def __call__(self, url: str) -> str:
            await asyncio.sleep(0)
            return url

    made = Tool.from_function(Fetch(), name="fetch")
    assert made.is_async and await made.call({"url": "u"}) == "u"


async def test_a_name_that_is_no_text_takes_the_place_of_no_argument():
    passed: list[Any] = []

    def write_file(path: Annotated[str, Field(pattern="^/safe/")], **more: Any) -> None:
        passed.append((path, more))

    written = tool(write_file)
    with pytest.raises(ToolError, match="there is no argument b'path'"):
        await written.call({"path": "/safe/x", b"path": "/etc/evil"})  # type: ignore[dict-item]
    await written.call({"path": "/safe/x", "mode": 1})
    assert passed == [("/safe/x", {"mode": 1})]


async def test_an_argument_without_a_name_is_one_like_others():
    @tool
    def add_up(**numbers: int) -> int:
        return sum(numbers.values())

    assert await add_up.call({"": 5, "a": 1}) == 6
    assert await add_up.prepare({"": 5}).make() == 5
