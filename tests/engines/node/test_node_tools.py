"""Tools as programs in JavaScript call them."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import uuid
from typing import Any

import pytest

from actbox import (
    ApprovalDecision,
    ApprovalRequest,
    ErrorKind,
    Limits,
    Policy,
    Program,
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


@pytest.mark.slow
async def test_an_object_that_names_no_argument_is_one(box: Sandbox) -> None:
    def pick(row: dict[str, int], key: str = "a") -> int:
        return row[key]

    code = "[await pick({a: 1, b: 2}), await pick({a: 1, b: 2}, 'b'), await pick({row: {a: 3}}), await pick({row: {c: 4}, key: 'c'})]"
    assert (await box.run(code, tools=[pick])).value == [1, 2, 3, 4]
    error = (await box.run("await pick({row: {a: 1}, kye: 'a'})", tools=[pick])).error
    assert error is not None and "did you mean 'key'?" in error.message


@pytest.mark.slow
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

    result = await box.run("await Promise.all(['a', 'b', 'c'].map(name => meet({ name })))", tools=[meet], timeout=50)
    assert result.value == ["a", "b", "c"]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("(() => 1)", "value is a function, which cannot cross"),
        ("[undefined]", "value[0] is undefined"),
        ("({a: [new Set([1, Symbol()])]})", "value.a[0][Symbol()] is a symbol"),
        ("new Map([[1, /x/]])", "value[1] is of type RegExp"),
        ("new Set([[1]])", "value has a value of type Array as a key or member, which cannot be one in Python"),
        ("new Set([1, true])", "value has two keys or members that are the same in Python, such as true"),
        ("new Map([[1, 0], [1n, 0]])", "value has two keys or members that are the same in Python, such as 1"),
        ("new Set([new Uint8Array([1]), Buffer.from([1])])", "value has two keys or members that are the same"),
        (
            "new Set(Array.from({ length: 10001 }, (_, i) => i))",
            "value has more than 10000 keys or members that are no",
        ),
        ("new Date(NaN)", "value is a Date that no datetime of Python can be"),
        ("new Date(-1e14)", "value is a Date that no datetime of Python can be"),
        ("new Error('x')", "value is of type Error"),
        ("search('a')", "value is a Promise, which has to be awaited first"),
        ("(() => { const c = {}; c.me = [c]; return c })()", "value.me[0] is a cycle"),
        ("new Proxy({}, {})", "value is a Proxy"),
        ("Symbol()", "value is a symbol"),
        (
            "(() => { let d = []; for (let i = 0; i < 300; i++) d = [d]; return d })()",
            "[0] is nested more than 200 deep",
        ),
        (
            "(() => { let d = 1; for (let i = 0; i < 99; i++) d = new Set([d]); return d })()",
            "a value of type Set as a",
        ),
        ("(() => { let d = 1; for (let i = 0; i < 67; i++) d = new Map([[1, d]]); return d })()", "more than 200 deep"),
        ("10n ** 5000n", "value is an integer of more than 4300 digits"),
        ("new Array(200001).fill([])", "more than 2000000 values"),
        # A small value whose tree never ends, as far as a run's time goes.
        ("(() => { let d = [1]; for (let i = 0; i < 40; i++) d = [d, d]; return d })()", "more than 2000000 values"),
        (
            "(() => { let d = {}; for (let i = 0; i < 40; i++) d = { a: d, b: d }; return d })()",
            "more than 2000000 values",
        ),
        (
            "(() => { let d = new Map(); for (let i = 0; i < 40; i++) d = new Map([[1, d], [2, d]]); return d })()",
            "more than 2000000 values",
        ),
        ("Array.from({ length: 181000 }, () => new Uint8Array(0))", "more than 2000000 values"),
        (
            "new Set(Array.from({ length: 400 }, (_, i) => BigInt(i + 1) * (2n ** 61n - 1n)))",
            "value has too many numbers as keys or members that have one hash in Python",
        ),
        (  # of the hash of 5
            "new Set(Array.from({ length: 240 }, (_, i) => BigInt(i) * (2n ** 61n - 1n) + 5n)"
            ".concat(Array.from({ length: 10 }, (_, i) => 5 * 2 ** (-61 * (i + 1)))))",
            "value has too many numbers as keys or members that have one hash in Python",
        ),
        (
            "Array.from({ length: 100 }, () =>"
            " new Set(Array.from({ length: 240 }, (_, i) => BigInt(i) * (2n ** 61n - 1n))))",
            "has too many numbers as keys or members that have one hash in Python",
        ),
    ],
)
async def test_what_cannot_cross_is_refused_with_its_place(box: Sandbox, value: str, why: str) -> None:
    result = await box.run(f"await echo({{ value: {value} }})", tools=[echo, search])
    assert result.error is not None
    assert (result.error.kind, result.error.type) == (ErrorKind.TOOL, "ToolError")
    assert result.error.message.startswith("the call was not made: arguments") and why in result.error.message
    assert result.error.line == 1
    if "search" not in value:
        (warning,) = (await box.run(value)).warnings
        assert warning.startswith("the value is there as text only: value") and why.removeprefix("value") in warning


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ("[1, 2.5, 'x', null, true, {a: {}}]", [1, 2.5, "x", None, True, {"a": {}}]),
        ("'\\u00fc\\u{1F600}\\0\\n'", "ü😀\0\n"),
        ("12345678901234567890n", 12345678901234567890),
        ("1e21", 1e21),
        ("2 ** 60", 2.0**60),
        ("({'__proto__': 1, ['\\0']: 2, a: undefined})", {"\0": 2}),
        ("new Date(0)", datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        ("new Date(1234)", datetime.datetime(1970, 1, 1, 0, 0, 1, 234000, tzinfo=datetime.UTC)),
        ("Object.create(null)", {}),
        ("new (class Point { x = 1; #y = 2 })()", {"x": 1}),
        ("[NaN, Infinity, -Infinity]", [float("nan"), float("inf"), float("-inf")]),
        ("new Set([1, 'a', null, NaN])", {1, "a", None, float("nan")}),
        ("new Map([[1, {a: 2}], ['1', new Set()]])", {1: {"a": 2}, "1": set()}),
        ("new Map([['a', 1]])", {"a": 1}),
        ("[{'!set': [1]}, new Map([['!x', NaN]])]", [{"!set": [1]}, {"!x": float("nan")}]),
        (
            "({b: Buffer.from('hi'), '\\0': 1, '!x': new DataView(new ArrayBuffer(1))})",
            {"b": b"hi", "\0": 1, "!x": b"\0"},
        ),
        ("[new Float64Array([1.5]), new BigInt64Array([1n])]", [[1.5], [1]]),
        (
            "require('vm').runInNewContext('[new Uint8Array([1]), new ArrayBuffer(1), new Map([[1, new Set([2])]])]')",
            [b"\1", b"\0", {1: {2}}],
        ),
        ("require('vm').runInNewContext('new Date(0)')", datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        (
            "new Set(Array.from({ length: 240 }, (_, i) => BigInt(i) * (2n ** 61n - 1n)))",
            {i * (2**61 - 1) for i in range(240)},
        ),
    ],
)
async def test_values_arrive_as_they_are_and_come_back(box: Sandbox, value: str, arrives: Any) -> None:
    got: list[Any] = []

    def take(value: Any) -> Any:
        got.append(value)
        return value

    result = await box.run(f"await take({{ value: {value} }})", tools=[take])
    assert result.error is None
    assert sorted_repr(got) == sorted_repr([arrives])
    assert sorted_repr(result.value) == sorted_repr(arrives)
    assert sorted_repr((await box.run(f"({value})")).value) == sorted_repr(arrives)


def sorted_repr(value: Any) -> Any:
    """Return what tells values apart that `==` does not, whatever the order of a set."""
    if isinstance(value, set):
        return {repr(each) for each in value}
    if isinstance(value, list):
        return [sorted_repr(each) for each in value]
    return (type(value), repr(value)) if not isinstance(value, dict) else {k: sorted_repr(v) for k, v in value.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "shown", "back"),
    [
        ({1, 2}, "Set(2) { 1, 2 }", {1, 2}),
        ((1, (2,)), "[ 1, [ 2 ] ]", [1, [2]]),
        ({1: "a", "1": "b"}, "Map(2) { 1 => 'a', '1' => 'b' }", {1: "a", "1": "b"}),
        ({"!set": 1}, "{ '!set': 1 }", {"!set": 1}),
        (
            {uuid.UUID(int=5): 1},
            "Map(1) { '00000000-0000-0000-0000-000000000005' => 1 }",
            {"00000000-0000-0000-0000-000000000005": 1},
        ),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 678901), "2026-01-02T03:04:05.678Z", None),
        (
            datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone(datetime.timedelta(hours=1))),
            "2026-01-02T02:04:05.000Z",
            None,
        ),
        (datetime.date(2026, 1, 2), "2026-01-02", "2026-01-02"),
        (decimal.Decimal("1.10"), "1.10", "1.10"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005", "00000000-0000-0000-0000-000000000005"),
        (datetime.timedelta(1, 2, 500000), "86402.5", 86402.5),
        ([2**70, 2**53 + 1], "[ 1180591620717411303424n, 9007199254740993n ]", [2**70, 2**53 + 1]),
    ],
)
async def test_what_python_has_arrives_as_the_nearest_type(box: Sandbox, given: Any, shown: str, back: Any) -> None:
    def give() -> Any:
        return given

    for program in (Program("console.log(given); given", "javascript", inputs={"given": given}), "await give()"):
        result = await box.run(program, tools=[give])
        assert result.stdout.strip() in (shown, "")
        assert result.value == (given if back is None else back)
        assert type(result.value) is type(given if back is None else back)


@pytest.mark.slow
async def test_datetimes_that_differ_in_python_alone_are_two_members(box: Sandbox) -> None:
    one = datetime.datetime(2026, 1, 1, 0, 0, 0, 1)
    near, aware = one.replace(microsecond=2), one.replace(tzinfo=datetime.UTC)
    result = await box.run(Program("given", "javascript", inputs={"given": {one, near, aware}}))
    assert (result.value, result.warnings) == ({one, near, aware}, ())
    elsewhere = aware.astimezone(datetime.timezone(datetime.timedelta(hours=1)))
    program = Program("new Set(given)", "javascript", inputs={"given": [aware, elsewhere]})
    (warning,) = (await box.run(program)).warnings
    assert "has two keys or members that are the same in Python" in warning


@pytest.mark.slow
async def test_long_integers_come_beside_texts_that_look_like_their_marks(box: Sandbox) -> None:
    given = [2**70, {"integer": "1"}, {"integer0": "2"}, {"integer1": 2**71}, "integer" + "_" * 60_000, '"integer2"']
    result = await box.run(Program("given", "javascript", inputs={"given": given}))
    assert result.value == given

    def give() -> Any:
        return given

    # However many texts are nearly the mark, the message is not searched for each of them.
    code = (
        "let searches = 0;\n"
        "for (const name of ['includes', 'indexOf', 'match', 'matchAll', 'search']) {\n"
        "  const real = String.prototype[name];\n"
        "  String.prototype[name] = function (...given) { searches++; return real.apply(this, given) };\n"
        "}\n"
        "await give();\nsearches < 100"
    )
    assert (await box.run(code, tools=[give])).value is True


@pytest.mark.slow
async def test_a_value_that_only_the_whole_result_has_no_room_for_is_lost_with_a_warning(box: Sandbox) -> None:
    result = await box.run("new Array(1_999_960).fill(1)")
    assert result.error is None and result.value is None
    assert "the value is there as text only: value" in result.warnings[0]


@pytest.mark.slow
async def test_a_date_that_was_changed_goes_as_it_is_now(box: Sandbox) -> None:
    given = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    result = await box.run(Program("given.setUTCFullYear(2027); given", "javascript", inputs={"given": given}))
    assert result.value == datetime.datetime(2027, 1, 2, 3, 4, 5, 678000, datetime.UTC)


@pytest.mark.slow
async def test_the_error_of_a_call_says_which_exception_of_python_the_tool_raised(box: Sandbox) -> None:
    def look(key: str) -> str:
        return {"a": "b"}[key]

    code = "try { await look('x') } catch (e) { [e instanceof ToolError, e.name, e.builtin] }"
    assert (await box.run(code, tools=[look])).value == [True, "ToolError", "KeyError"]
    code = "try { await look(1) } catch (e) { [e instanceof ToolError, e.name, e.builtin] }"
    assert (await box.run(code, tools=[look])).value == [True, "ToolError", ""]


@pytest.mark.slow
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


@pytest.mark.slow
async def test_ten_megabytes_go_there_and_back(box: Sandbox) -> None:
    result = await box.run("const t = 'x'.repeat(10_000_000); (await echo({ value: t })) === t", tools=[echo])
    assert result.value is True


@pytest.mark.slow
async def test_a_message_that_is_too_large_is_refused(node_works: None) -> None:
    async with open_sandbox("node", policy=Policy(limits=Limits(message_bytes=100_000))) as box:
        error = (await box.run("await echo({ value: 'x'.repeat(200_000) })", tools=[echo])).error
        assert error is not None and "the arguments are too large" in error.message
        result = await box.run("'x'.repeat(200_000)")
        assert result.success and result.value is None and result.value_text is not None


@pytest.mark.slow
async def test_a_flood_of_calls_is_answered(box: Sandbox) -> None:
    code = "const all = await Promise.all(Array.from({ length: 3000 }, (_, value) => echo({ value }))); all.reduce((a, b) => a + b)"
    assert (await box.run(code, tools=[echo])).value == 3000 * 2999 // 2


@pytest.mark.slow
async def test_a_large_flood_waits_instead_of_getting_stuck(box: Sandbox) -> None:
    code = (
        "const text = 'x'.repeat(1_000_000);\n"
        "(await Promise.all(Array.from({ length: 60 }, () => echo({ value: text })))).every(t => t.length === 1_000_000)"
    )
    assert (await box.run(code, tools=[echo], timeout=50)).value is True


@pytest.mark.slow
async def test_without_tools_there_is_nothing_to_call(box: Sandbox) -> None:
    assert (await box.run("[typeof call_tool, typeof search, typeof ToolError]")).value == [
        "undefined",
        "undefined",
        "function",
    ]


@pytest.mark.slow
async def test_a_tool_that_there_is_not_is_told(box: Sandbox) -> None:
    error = (await box.run("await call_tool('serch', {})", tools=[search])).error
    assert error is not None and "did you mean 'search'?" in error.message


@pytest.mark.slow
async def test_too_many_arguments_are_a_type_error(box: Sandbox) -> None:
    error = (await box.run("await search('a', 1, 2)", tools=[search])).error
    assert error is not None and error.type == "TypeError"
    assert "at most 2 in this order (query, limit), not 3" in error.message


@pytest.mark.slow
async def test_a_tool_named_as_a_word_of_the_language_can_be_called(box: Sandbox) -> None:
    @tool(name="delete")
    def remove(path: str) -> str:
        return f"gone: {path}"

    @tool(name="get-page")
    def get_page(url: str) -> str:
        return f"page: {url}"

    code = "[await delete_('a'), await call_tool('delete', { path: 'b' }), await get_page('c')]"
    assert (await box.run(code, tools=[remove, get_page])).value == ["gone: a", "gone: b", "page: c"]


@pytest.mark.slow
async def test_tools_are_out_of_reach_in_a_worker(box: Sandbox) -> None:
    code = (
        "const { Worker } = require('worker_threads');\n"
        "const w = new Worker('require(\"worker_threads\").parentPort.postMessage(typeof search)', { eval: true });\n"
        "await new Promise(done => w.once('message', done))"
    )
    assert (await box.run(code, tools=[search])).value == "undefined"


@pytest.mark.slow
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
