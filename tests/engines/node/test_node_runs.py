"""What a program in JavaScript or TypeScript is, and what comes of it."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import (
    Completed,
    InvalidValue,
    Output,
    Program,
    Sandbox,
    SandboxUnavailable,
    Unsupported,
)
from actbox.sandbox.engines.node.binary import Node, find_node


async def value_of(box: Sandbox, code: str, **given: Any) -> Any:
    result = await box.run(Program(code, "javascript", **given))
    assert result.success, result
    return result.value


def test_it_is_known_by_name_and_runs_no_python() -> None:
    assert "node" in actbox.ENGINES
    assert actbox.ENGINES.index("node") > actbox.ENGINES.index("process")


async def test_a_plain_text_is_javascript_and_its_last_value_is_the_result(box: Sandbox) -> None:
    result = await box.run("const rows = [1, 2, 3];\nrows.map(n => ({n, square: n ** 2}))")
    assert result.value == [{"n": 1, "square": 1}, {"n": 2, "square": 4}, {"n": 3, "square": 9}]
    assert result.value_text is not None and "square: 4" in result.value_text
    assert result.sandbox == "node"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("const a = 1", None, None),
        ("undefined", None, None),
        ("null", None, "null"),
        ("'text'", "text", "'text'"),
        ("'\\u00fc \\u{1F600}'", "ü 😀", "'ü 😀'"),
        ("[-Infinity]", [float("-inf")], "[ -Infinity ]"),
        ("-0", 0, "-0"),
        ("10n ** 20n", 10**20, "100000000000000000000n"),
        ("new Map([[1, 2]])", {1: 2}, "Map(1) { 1 => 2 }"),
        ("new Date(0)", datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), "1970-01-01T00:00:00.000Z"),
        ("({a: undefined, b: [null, true]})", {"b": [None, True]}, "{ a: undefined, b: [ null, true ] }"),
        ("const c = {}; c.c = c; c", None, "<ref *1> { c: [Circular *1] }"),
        ("Symbol('s')", None, "Symbol(s)"),
        ("(function f() {})", None, "[Function: f]"),
        ("({get broken() { throw new Error('no') }})", None, "{ broken: [Getter] }"),
        ("new Uint8Array([1])", b"\x01", "Uint8Array(1) [ 1 ]"),
    ],
)
async def test_a_value_crosses_where_it_can_and_is_text_always(box: Sandbox, code: str, value: Any, text: str) -> None:
    result = await box.run(code)
    assert result.success, result
    assert (result.value, result.value_text) == (value, text)


@pytest.mark.slow
async def test_await_stands_at_the_top_level_and_a_promise_at_the_end_is_awaited(box: Sandbox) -> None:
    later = "new Promise(done => setTimeout(done, 5, 7))"
    assert await value_of(box, f"const a = await {later};\na + 1") == 8
    assert await value_of(box, later) == 7


@pytest.mark.slow
async def test_timers_go_on_after_the_last_line(box: Sandbox) -> None:
    result = await box.run("setTimeout(() => console.log('late'), 20); process.on('exit', () => console.log('bye')); 5")
    assert (result.stdout, result.value) == ("late\nbye\n", 5)


@pytest.mark.slow
async def test_output_comes_from_the_console_and_from_the_descriptors_of_children(box: Sandbox) -> None:
    result = await box.run(
        "console.log('one', {a: 1});\nconsole.error('two');\nprocess.stdout.write('three\\n');\n"
        "require('child_process').execSync('echo four; echo five >&2', {stdio: 'inherit'}); undefined"
    )
    assert result.stdout == "one { a: 1 }\nthree\nfour\n"
    assert result.stderr == "two\nfive\n"


@pytest.mark.slow
async def test_output_is_told_as_it_comes(box: Sandbox) -> None:
    code = "console.log('first');\nawait new Promise(done => setTimeout(done, 300));\nconsole.log('second')"
    texts = [event.text async for event in box.stream(code) if isinstance(event, Output)]
    assert texts == ["first\n", "second\n"]


@pytest.mark.slow
async def test_a_megabyte_of_output_comes_whole(box: Sandbox) -> None:
    result = await box.run("for (let i = 0; i < 20000; i++) console.log('x'.repeat(59))")
    assert len(result.stdout) == 20000 * 60


@pytest.mark.slow
async def test_output_that_nobody_reads_yet_is_waited_for(box: Sandbox) -> None:
    result = await box.run("console.log('x'.repeat(3_000_000)); process.exit(0)")
    assert len(result.stdout) == 3_000_001


@pytest.mark.slow
async def test_inputs_are_variables(box: Sandbox) -> None:
    assert await value_of(box, "rows.length + big", inputs={"rows": [1, {"a": None}], "big": 5}) == 7
    assert await value_of(box, "typeof id + id", inputs={"id": 2**60}) == f"bigint{2**60}"


async def test_an_input_that_no_variable_can_be_called_by_is_refused(box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="'function' cannot be the name of a variable in JavaScript"):
        await box.run(Program("1", "javascript", inputs={"function": 1}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import fs from 'fs'; fs.readFileSync('/etc/hostname', 'utf8').trim()",
        "import { readFileSync as read } from 'node:fs';\nread('/etc/hostname', 'utf8').trim()",
        "import * as fs from 'fs'\nfs.readFileSync('/etc/hostname', 'utf8').trim()",
        "const { readFile } = await import('fs/promises'); (await readFile('/etc/hostname', 'utf8')).trim()",
        "require('fs').readFileSync('/etc/hostname', 'utf8').trim()",
        "const f = () => import('fs'); (await f()).readFileSync('/etc/hostname', 'utf8').trim()",
    ],
)
async def test_what_node_has_is_imported_in_every_way(box: Sandbox, code: str) -> None:
    assert await value_of(box, code) == "actbox"


@pytest.mark.slow
async def test_files_of_the_workspace_are_imported(box: Sandbox) -> None:
    await box.write_text(
        "lib.mjs", "import { two } from './more.mjs';\nexport default two + 1;\nexport const name = 'lib';"
    )
    await box.write_text("more.mjs", "export const two = 2;")
    await box.write_text("old.cjs", "exports.four = 4;")
    await box.write_text("data.json", '{"five": 5}')
    code = (
        "import three, { name } from './lib.mjs';\nimport { four } from './old.cjs';\n"
        "const { five } = require('./data.json');\n[three, name, four, five, (await import('./more.mjs')).two]"
    )
    assert await value_of(box, code) == [3, "lib", 4, 5, 2]


@pytest.mark.slow
async def test_a_package_below_the_workspace_is_found(box: Sandbox) -> None:
    await box.write_text(
        "node_modules/lib/package.json", '{"name": "lib", "exports": {"import": "./a.mjs", "require": "./b.cjs"}}'
    )
    await box.write_text("node_modules/lib/a.mjs", "export default 'module'")
    await box.write_text("node_modules/lib/b.cjs", "module.exports = 'script'")
    assert await value_of(box, "import lib from 'lib';\n[lib, require('lib')]") == ["module", "script"]


@pytest.mark.slow
async def test_words_of_modules_in_texts_stay_as_they_are(box: Sandbox) -> None:
    code = "const text = `\nimport a from 'b';\nexport ${'import(1)'}`; // import x from 'y'\n[text, /export import(?!x)/.source]"
    assert await value_of(box, code) == ["\nimport a from 'b';\nexport import(1)", "export import(?!x)"]


@pytest.mark.slow
async def test_exports_are_ordinary_declarations(box: Sandbox) -> None:
    code = "export const a = 1;\nexport function f() { return a + 1 }\nexport default class C {}\nexport { a as b };\nf() + typeof C"
    assert await value_of(box, code) == "2function"


@pytest.mark.slow
async def test_a_program_knows_its_own_file(box: Sandbox) -> None:
    code = "[import.meta.url, import.meta.filename, __filename, __dirname, process.argv[1], require.main === module]"
    path = "/workspace/job.js"
    assert await value_of(box, code, name="job.js") == [f"file://{path}", path, path, "/workspace", path, True]


@pytest.mark.slow
async def test_typescript_is_javascript_with_types(box: Sandbox) -> None:
    code = "interface Row { n: number }\nconst rows: Row[] = [{ n: 2 }];\nconst f = <T,>(x: T): T => x;\nf(rows[0]!.n) as number"
    result = await box.run(Program(code, "typescript"))
    assert (result.value, result.stderr) == (2, "")
    assert (result.code, result.language) == (code, "typescript")
    assert (await box.run("1")).language == "javascript"


@pytest.mark.slow
async def test_typescript_is_refused_where_node_cannot_strip_types(node_works: None) -> None:
    from actbox.sandbox.engines.node import NodeSandbox

    old = Node(find_node().path, (20, 20, 2))
    async with NodeSandbox(actbox.Policy(), old) as box:
        assert box.traits.languages == ("javascript",)
        with pytest.raises(Unsupported, match=r"TypeScript needs Node 22\.13 or later, and this is 20\.20\.2"):
            await box.run(Program("1", "typescript"))
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.parametrize(
    ("version", "strips"),
    [((20, 20, 2), False), ((22, 12, 0), False), ((22, 13, 0), True), ((23, 1, 0), False), ((24, 0, 0), True)],
)
def test_which_node_strips_types(version: tuple[int, int, int], strips: bool) -> None:
    assert Node(Path("/node"), version).strips_types is strips


async def test_another_language_is_refused_with_the_engine_that_has_it(box: Sandbox) -> None:
    with pytest.raises(
        Unsupported, match="the node engine runs JavaScript and TypeScript; the linux engine runs Python"
    ):
        await box.run(Program("print(1)", "python"))


async def test_each_run_starts_fresh(box: Sandbox) -> None:
    await box.run("globalThis.left = 1; var also = 2; process.chdir('/tmp'); require('fs').writeFileSync('here', '')")
    code = "[typeof left, typeof also, process.cwd(), require('fs').existsSync('/tmp/here')]"
    assert await value_of(box, code) == ["undefined", "undefined", "/workspace", False]


@pytest.mark.slow
async def test_runs_at_once_are_apart(box: Sandbox) -> None:
    code = "globalThis.n = (globalThis.n ?? 0) + number; await new Promise(done => setTimeout(done, 50)); n"
    runs = [box.run(Program(code, "javascript", inputs={"number": number})) for number in range(6)]
    assert [result.value for result in await asyncio.gather(*runs)] == list(range(6))


@pytest.mark.slow
async def test_map_runs_many_programs_alone(box: Sandbox) -> None:
    programs = [
        f"require('fs').writeFileSync('only', ''); require('fs').readdirSync('.').length + {n}" for n in range(4)
    ]
    assert [result.value async for result in box.map(programs)] == [3, 4, 5, 6]


@pytest.mark.slow
async def test_nothing_of_the_guest_is_in_a_program_s_way(box: Sandbox) -> None:
    code = (
        "const shown = Object.keys(globalThis);\n"
        "[shown.filter(n => /^_|call_tool|ToolError/.test(n)), process.execArgv, typeof call_tool, process.stdin.isTTY ?? 'none']"
    )
    assert await value_of(box, code) == [[], [], "undefined", "none"]


@pytest.mark.slow
async def test_commands_run_beside_programs(box: Sandbox) -> None:
    await box.run("require('fs').writeFileSync('a.txt', 'from node')")
    result = await box.execute("cat a.txt; node -p '1 + 1'")
    assert result.stdout == "from node2\n"


@pytest.mark.slow
async def test_the_last_event_has_the_result(box: Sandbox) -> None:
    events = [event async for event in box.stream("console.log(1); 2")]
    assert isinstance(events[-1], Completed)
    assert events[-1].result.value == 2


@pytest.mark.slow
async def test_a_closed_stream_ends_the_program(box: Sandbox) -> None:
    stream = box.stream("console.log('go'); setInterval(() => require('fs').appendFileSync('ticks', 'x'), 5)")
    async for event in stream:
        if isinstance(event, Output):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    before = await box.execute("cat ticks | wc -c")
    await asyncio.sleep(0.1)
    assert (await box.execute("cat ticks | wc -c")).stdout == before.stdout


# Which Node


@pytest.mark.slow
async def test_a_node_that_lies_anywhere_is_shown_to_programs(node_works: None, tmp_path: Path) -> None:
    elsewhere = tmp_path / "node"
    elsewhere.write_bytes(find_node().path.read_bytes())
    elsewhere.chmod(0o755)
    async with actbox.open_sandbox("node", node=elsewhere) as box:
        assert await value_of(box, "process.execPath") == "/opt/actbox/node"
        assert [result.value async for result in box.map(["1", "2"])] == [1, 2]


def test_a_node_that_is_none_is_refused_with_a_sentence(tmp_path: Path) -> None:
    fake = tmp_path / "node"
    fake.write_text("#!/bin/sh\necho bun 1.0")
    fake.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="is no Node: asked for its version it said b'bun 1"):
        actbox.open_sandbox("node", node=fake)
    fake.write_text("#!/bin/sh\necho v16.20.2 ")
    with pytest.raises(
        SandboxUnavailable, match=r"needs Node 18 or later, and .* is 16\.20\.2: pip install 'actbox\[node\]'"
    ):
        actbox.open_sandbox("node", node=fake)
    with pytest.raises(InvalidValue, match="node is the path of a Node, not 3"):
        actbox.open_sandbox("node", node=3)
    with pytest.raises(SandboxUnavailable, match="there is no Node at /nowhere/node"):
        actbox.open_sandbox("node", node="/nowhere/node")


def test_without_any_node_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from actbox.sandbox.engines.node import binary

    monkeypatch.setattr(binary, "_packaged", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable, match=r"pip install 'actbox\[node\]'"):
        actbox.open_sandbox("node")
    found = actbox.check("node")
    assert not found.works and "needs Node" in found.reason and "pip install" not in found.reason
    assert "pip install 'actbox[node]'" in found.advice
