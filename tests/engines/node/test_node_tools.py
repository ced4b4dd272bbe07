"""Tools as programs in JavaScript call them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actbox import (
    ApprovalDecision,
    ApprovalRequest,
    ErrorKind,
    Limits,
    Policy,
    Sandbox,
    ToolError,
    Toolset,
    open_sandbox,
    tool,
)


def search(query: str, limit: int = 3) -> list[str]:
    """Search."""
    if query == "bad":
        raise ToolError("nothing is called bad")
    return [query] * limit


def echo(value: Any) -> Any:
    return value


async def test_arguments_are_given_by_name_or_in_their_order(box: Sandbox) -> None:
    code = (
        "[await search({query: 'a', limit: 1}), await search('b', 2), await search({query: 'c'}),"
        " await call_tool('search', {query: 'd', limit: 0}), await search('e', undefined)]"
    )
    result = await box.run(code, tools=[search])
    assert result.error is None
    assert result.value == [["a"], ["b", "b"], ["c", "c", "c"], [], ["e", "e", "e"]]
    assert result.usage.tool_calls == 5


async def test_an_object_that_names_no_argument_is_one(box: Sandbox) -> None:
    def pick(row: dict[str, int], key: str = "a") -> int:
        return row[key]

    code = "[await pick({a: 1, b: 2}), await pick({a: 1, b: 2}, 'b'), await pick({row: {a: 3}}), await pick({row: {c: 4}, key: 'c'})]"
    assert (await box.run(code, tools=[pick])).value == [1, 2, 3, 4]
    error = (await box.run("await pick({row: {a: 1}, kye: 'a'})", tools=[pick])).error
    assert error is not None and "did you mean 'key'?" in error.message


async def test_calls_are_under_way_at_once(box: Sandbox) -> None:
    both = asyncio.Event()
    waiting = 0

    async def meet(name: str) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 3:
            both.set()
        await both.wait()
        return name

    result = await box.run("await Promise.all(['a', 'b', 'c'].map(name => meet({ name })))", tools=[meet], timeout=20)
    assert result.value == ["a", "b", "c"]


async def test_a_call_that_nobody_awaits_is_made_all_the_same(box: Sandbox) -> None:
    made: list[str] = []

    async def note(text: str) -> None:
        await asyncio.sleep(0.05)
        made.append(text)

    result = await box.run("note('one').then(() => console.log('done')); undefined", tools=[note])
    assert (made, result.stdout) == (["one"], "done\n")


async def test_a_failed_call_is_a_tool_error_with_the_tool_s_name(box: Sandbox) -> None:
    code = "try { await search('bad') } catch (e) { [e instanceof ToolError, e.name, e.tool, e.message, e.refused] }"
    assert (await box.run(code, tools=[search])).value == [True, "ToolError", "search", "nothing is called bad", False]
    result = await box.run(
        "const a = 1;\nconst f = async () => {\n  await search('bad');\n}\nawait f()", tools=[search]
    )
    error = result.error
    assert error is not None
    assert (error.kind, error.type, error.line) == (ErrorKind.TOOL, "ToolError", 3)
    assert "    at f (program.js:3:9)" in error.traceback and "  await search('bad');" in error.traceback


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("NaN", "NaN at value"),
        ("[1, -Infinity]", "-Infinity at value[1]"),
        ("(() => 1)", "a function at value"),
        ("[undefined]", "undefined at value[0]"),
        ("new Map()", "a Map at value"),
        ("({a: [new Set([1])]})", "a Set at value.a[0]"),
        ("/x/", "a RegExp at value"),
        ("new Error('x')", "a Error at value"),
        ("search('a')", "a Promise, which has to be awaited first, at value"),
        ("(() => { const c = {}; c.me = [c]; return c })()", "a cycle at value.me[0]"),
        ("new Proxy({}, {})", "a Proxy at value"),
        ("Symbol()", "a symbol at value"),
        ("(() => { let d = []; for (let i = 0; i < 300; i++) d = [d]; return d })()", "nested more than 200 deep"),
        ("10n ** 5000n", "an integer of more than 4300 digits"),
        ("new Array(200001).fill([])", "more than 2000000 values"),
    ],
)
async def test_what_is_no_json_is_refused_by_name(box: Sandbox, value: str, why: str) -> None:
    result = await box.run(f"await echo({{ value: {value} }})", tools=[echo, search])
    assert result.error is not None
    assert (result.error.kind, result.error.type) == (ErrorKind.TOOL, "ToolError")
    assert "the arguments must be JSON values or bytes" in result.error.message
    assert why in result.error.message
    assert result.error.line == 1


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ("[1, 2.5, 'x', null, true, {a: {}}]", [1, 2.5, "x", None, True, {"a": {}}]),
        ("'\\u00fc\\u{1F600}\\0\\n'", "ü😀\0\n"),
        ("12345678901234567890n", 12345678901234567890),
        ("1e21", 1e21),
        ("({'__proto__': 1, ['\\0']: 2, a: undefined})", {"\0": 2}),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("Object.create(null)", {}),
        ("new (class Point { x = 1; #y = 2 })()", {"x": 1}),
    ],
)
async def test_json_arrives_as_it_is_and_comes_back(box: Sandbox, value: str, arrives: Any) -> None:
    got: list[Any] = []

    def take(value: Any) -> Any:
        got.append(value)
        return value

    result = await box.run(f"await take({{ value: {value} }})", tools=[take])
    assert result.error is None
    assert got == [arrives]
    assert result.value == arrives


async def test_bytes_are_typed_arrays(box: Sandbox) -> None:
    got: list[Any] = []

    def turn(data: bytes, more: dict[str, Any]) -> bytes:
        got.append((data, more))
        return data[::-1]

    code = (
        "const b = await turn({ data: new Uint8Array([1, 2, 255]), more: { b: Buffer.from('hi'), '\\0': 1 } });\n"
        "[b instanceof Uint8Array, Array.from(b)]"
    )
    result = await box.run(code, tools=[turn])
    assert result.error is None
    assert got == [(b"\x01\x02\xff", {"b": b"hi", "\0": 1})]
    assert result.value == [True, [255, 2, 1]]


async def test_ten_megabytes_go_there_and_back(box: Sandbox) -> None:
    result = await box.run("const t = 'x'.repeat(10_000_000); (await echo({ value: t })) === t", tools=[echo])
    assert result.value is True


async def test_a_message_that_is_too_large_is_refused(node_works: None) -> None:
    async with open_sandbox("node", policy=Policy(limits=Limits(message_bytes=100_000))) as box:
        error = (await box.run("await echo({ value: 'x'.repeat(200_000) })", tools=[echo])).error
        assert error is not None and "the arguments are too large" in error.message
        result = await box.run("'x'.repeat(200_000)")
        assert result.success and result.value is None and result.value_text is not None


async def test_a_flood_of_calls_is_answered(box: Sandbox) -> None:
    code = "const all = await Promise.all(Array.from({ length: 3000 }, (_, value) => echo({ value }))); all.reduce((a, b) => a + b)"
    assert (await box.run(code, tools=[echo])).value == 3000 * 2999 // 2


async def test_a_large_flood_waits_instead_of_getting_stuck(box: Sandbox) -> None:
    code = (
        "const text = 'x'.repeat(1_000_000);\n"
        "(await Promise.all(Array.from({ length: 60 }, () => echo({ value: text })))).every(t => t.length === 1_000_000)"
    )
    assert (await box.run(code, tools=[echo], timeout=50)).value is True


async def test_without_tools_there_is_nothing_to_call(box: Sandbox) -> None:
    assert (await box.run("[typeof call_tool, typeof search, typeof ToolError]")).value == [
        "undefined",
        "undefined",
        "function",
    ]


async def test_a_tool_that_there_is_not_is_told(box: Sandbox) -> None:
    error = (await box.run("await call_tool('serch', {})", tools=[search])).error
    assert error is not None and "did you mean 'search'?" in error.message


async def test_too_many_arguments_are_a_type_error(box: Sandbox) -> None:
    error = (await box.run("await search('a', 1, 2)", tools=[search])).error
    assert error is not None and error.type == "TypeError"
    assert "at most 2 in this order (query, limit), not 3" in error.message


async def test_a_tool_named_as_a_word_of_the_language_can_be_called(box: Sandbox) -> None:
    @tool(name="delete")
    def remove(path: str) -> str:
        return f"gone: {path}"

    @tool(name="get-page")
    def get_page(url: str) -> str:
        return f"page: {url}"

    code = "[await delete_('a'), await call_tool('delete', { path: 'b' }), await get_page('c')]"
    assert (await box.run(code, tools=[remove, get_page])).value == ["gone: a", "gone: b", "page: c"]


async def test_tools_are_out_of_reach_in_a_worker(box: Sandbox) -> None:
    code = (
        "const { Worker } = require('worker_threads');\n"
        "const w = new Worker('require(\"worker_threads\").parentPort.postMessage(typeof search)', { eval: true });\n"
        "await new Promise(done => w.once('message', done))"
    )
    assert (await box.run(code, tools=[search])).value == "undefined"


async def test_somebody_who_is_asked_sees_the_line_of_the_call(box: Sandbox) -> None:
    asked: list[ApprovalRequest] = []

    class Asked:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            asked.append(request)
            return ApprovalDecision(approved=request.arguments["query"] == "yes", reason="as asked")

    tools = Toolset.of([tool(search, approval="always_require")]).asking(Asked())
    code = "const a = await search('yes');\nlet b;\ntry {\n  b = await search('no');\n} catch (e) { b = e.refused }\n[a.length, b]"
    result = await box.run(code, tools=tools)
    assert result.value == [3, True]
    assert [request.line for request in asked] == [1, 4]


async def test_a_program_that_is_out_of_calls_is_ended(node_works: None) -> None:
    async with open_sandbox("node", policy=Policy(limits=Limits(tool_calls=3))) as box:
        error = (await box.run("for (;;) await echo({ value: 1 })", tools=[echo])).error
        assert error is not None and (error.kind, error.limit) == (ErrorKind.BUDGET, "tool_calls")
