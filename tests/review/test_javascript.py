"""Programs in JavaScript are read like those in Python: what they do is found by whatever name, within bounds."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from actbox import Unsupported
from actbox.review import Rules, Verdict, check_readable, javascript_tree, review

pytest.importorskip("tree_sitter_javascript", reason="the extra actbox[review] is not installed")

SPEC = Rules.preset("spec")


def found(source: str, **more: Any) -> set[tuple[str, str]]:
    """Return rules and subjects, without imports."""
    findings = review(source, language="javascript", **more).findings
    return {(one.rule, one.subject) for one in findings if one.rule != "import"}


EXEC = ("process", "child_process.exec")
HANDED_ON = ("dynamic", "child_process")
EVAL = ("code", "eval")
FUNCTION = ("code", "Function")
REQUIRE = ("dynamic", "require")
PASSWD = ("system-read", "/etc/passwd")

FOUND = [
    ("require('child_process').exec('ls')", EXEC),
    ("require('node:child_process').exec('ls')", EXEC),
    ("const {exec} = require('child_process'); exec('ls')", EXEC),
    ("import {exec as e} from 'node:child_process'\ne('ls')", EXEC),
    ("import * as cp from 'child_process'; cp.exec('ls')", EXEC),
    ("import cp from 'child_process'; cp.exec('ls')", EXEC),
    ("import {default as cp} from 'child_process'; cp.exec('ls')", EXEC),
    ("const cp = require('child' + '_process'); cp['ex' + 'ec']('ls')", EXEC),
    ("require(['child', 'process'].join('_')).exec('ls')", EXEC),
    ("require(atob('Y2hpbGRfcHJvY2Vzcw==')).exec('ls')", EXEC),
    ("require(Buffer.from('6368696c645f70726f63657373', 'hex').toString()).exec('ls')", EXEC),
    ("const part = 'child'; require(`${part}_process`).exec('ls')", EXEC),
    ("const cp = await import('child_process'); cp.exec('ls')", EXEC),
    ("import('child_process').then(({exec: run}) => run('ls'))", EXEC),
    ("(m => m.exec('ls'))(require('child_process'))", EXEC),
    ("const load = require; const cp = load('child_process'); cp.exec('ls')", EXEC),
    ("process.getBuiltinModule('child_process').exec('ls')", EXEC),
    ("module.require('child_process').exec('ls')", EXEC),
    ("const {createRequire: c} = require('module'); c('/x')('child_process').exec('ls')", EXEC),
    ("require.call(null, 'child_process').exec.call(null, 'ls')", EXEC),
    ("const {['ex' + 'ec']: e} = require('child_process'); e('ls')", EXEC),
    ("for (const name of ['child_process']) require(name).exec('ls')", EXEC),
    ("const {cp = require('child_process')} = {}; cp.exec('ls')", EXEC),
    ("function f(cp = require('child_process')) { cp.exec('ls') }", EXEC),
    ("let cp; ({exec: cp} = require('child_process')); cp('ls')", EXEC),
    ("let cp; cp ??= require('child_process'); cp.exec('ls')", EXEC),
    ("let a, b; a = b; b = a; b = require('child_process'); a.exec('ls')", EXEC),
    ("const x = cond ? require('child_process') : 1; x.exec('ls')", EXEC),
    ("Reflect.get(require('child_process'), 'exec')('ls')", EXEC),
    ("setTimeout(require('util').promisify(require('child_process').exec), 1)", EXEC),
    ("function f(m) { m.exec('ls') } f(require('child_process'))", HANDED_ON),
    ("class A { cp = require('child_process'); go() { this.cp.exec('ls') } }", HANDED_ON),
    ("const {[name()]: e} = require('child_process'); e('ls')", HANDED_ON),
    ("require('child_process')[name()]('ls')", HANDED_ON),
    ("import('child_process').then(go)", HANDED_ON),
    ("with (require('child_process')) { exec('ls') }", HANDED_ON),
    ("const cp = require('child_process'); with (cp) { exec('ls') }", HANDED_ON),
    ("eval('1')", EVAL),
    ("(0, eval)('1')", EVAL),
    ("const e = globalThis['ev' + 'al']; e('1')", EVAL),
    ("this.eval('1')", EVAL),
    (r"\u0065val('1')", EVAL),
    ("const text = '\0'; eval(text)", EVAL),
    ("while (n --> 0) eval('1')", EVAL),
    ("new Function('return 1')()", FUNCTION),
    ("(() => {}).constructor('return 1')()", FUNCTION),
    ("''.constructor.constructor('return process')()", FUNCTION),
    ("[].map.constructor('return 1')()", FUNCTION),
    ("function f() { arguments.callee.constructor('return 1')() }", FUNCTION),
    ("new (x.map.constructor)('return 1')", FUNCTION),
    ("function f(x) { return new (x.map.constructor)('return 1') }", ("dynamic", "constructor")),
    ("Object.getPrototypeOf(async () => {}).constructor('1')()", FUNCTION),
    ("const {Script: S} = require('vm'); new S('1')", ("code", "vm.Script")),
    ("import 'data:text/javascript,x()'", ("code", "import")),
    ("require(name)", REQUIRE),
    ("require(...names)", REQUIRE),
    ("require(`./${name}`)", REQUIRE),
    ("Reflect.apply(require, null, names)", REQUIRE),
    ("import(name)", ("dynamic", "import")),
    ("require('fs').readFileSync('/etc/passwd')", PASSWD),
    ("import {readFile as r} from 'fs/promises'; await r('/etc/passwd')", PASSWD),
    ("const {join} = require('path'); require('fs').createReadStream(join('/', 'etc', 'passwd'))", PASSWD),
    ("require('fs').readFileSync(new URL('file:///etc/passwd'))", PASSWD),
    ("require('fs').openSync('../etc/passwd', 'r')", PASSWD),
    ("require('fs').openSync('/etc/passwd', 'w')", ("system-write", "/etc/passwd")),
    ("require('fs').promises.writeFile(`/etc/${x}`, '')", ("system-write", "/etc")),
    ("require('fs').copyFileSync('/etc/passwd', 'x')", PASSWD),
    ("require('fs').rmSync('/data', {recursive: true})", ("delete-tree", "/data")),
    ("const {Socket} = require('net'); new Socket()", ("network", "net.Socket")),
    ("import net from 'node:net'; net.connect(80)", ("network", "net.connect")),
    ("fetch('https://example.com')", ("network", "fetch")),
    ("require('https').get('https://example.com')", ("network", "https.get")),
    ("process.dlopen(module, '/x.node')", ("native", "process.dlopen")),
    ("require('node-serialize').unserialize(x)", ("unpickle", "node-serialize.unserialize")),
]

NOTHING = [
    "const fs = require('fs'); fs.writeFileSync('/output/a.txt', fs.readFileSync('input/a.csv', 'utf8'))",
    "const exec = /a/.exec('b'); 'eval(1)'; // eval('1')",
    "function f(require, eval_) { return require('x') + db.exec('select 1') }",
    "const child_process = {exec(x) { return x }}; child_process.exec('ls')",
    "class A { name() { return this.constructor.name } make() { return new this.constructor(1) } }",
    "try { x() } catch (error) { console.log(error.constructor.name) }",
    "x instanceof Function || typeof eval",
    "const rows = data.map(row => row[key]).filter(Boolean); const {a, ...rest} = rows[0]; rest",
    "require('http').STATUS_CODES[404] + require('net').isIP('::1')",
    "console.log(require('child_process')); const unused = require('vm')",
]


@pytest.mark.parametrize(("source", "expected"), FOUND, ids=[source for source, _ in FOUND])
def test_what_a_program_does_is_found(source: str, expected: tuple[str, str]) -> None:
    assert expected in found(source)


@pytest.mark.parametrize("source", NOTHING)
def test_what_only_looks_like_it_is_not(source: str) -> None:
    assert found(source) == set()


@pytest.mark.parametrize(
    "source",
    [
        "require('child_process').execSync('ls')",
        "new Function('1')",
        "eval('1')",
        "require('fs').readFileSync('/etc/passwd')",
        "require('dgram').createSocket('udp4')",
        "import(name)",
        "require('node-serialize').unserialize(x)",
        "require('vm').runInThisContext('1')",
    ],
)
def test_the_counterparts_of_the_specifications_patterns_are_blocked(source: str) -> None:
    assert review(source, SPEC, language="javascript").verdict is Verdict.BLOCK


def test_findings_have_the_lines_and_columns_of_the_source() -> None:
    (one,) = review("const s = `\r\nä`\r\n  /* é */ eval(s) // x", language="javascript").findings
    assert (one.line, one.column, one.source) == (3, 11, "/* é */ eval(s) // x")
    assert one.message == "calls eval, which runs code that is made or loaded at run time"


def test_tools_are_found_by_their_names() -> None:
    source = "await pay(5); const p = pay; p(1); go(pay); call_tool('pay'); call_tool(name); function f(pay) { pay() }"
    findings = review(source, language="javascript", tools=["pay"]).findings
    assert [(one.rule, one.message) for one in findings] == [
        ("tool", "calls the tool pay"),
        ("tool", "calls the tool pay"),
        ("tool", "hands on the tool pay"),
        ("tool", "calls the tool pay"),
        ("dynamic-tool", "calls a tool that is chosen at run time"),
    ]


def test_what_does_not_parse_is_a_finding_beside_what_does() -> None:
    findings = review("const a = 1;\nlet = = 2;\neval(a)", SPEC, language="javascript").findings
    assert [(one.rule, one.line) for one in findings] == [("syntax", 2), ("code", 3)]


HOSTILE = {
    "quotes": "'",
    "brackets": "[",
    "braces": "{",
    "templates": "`${",
    "arrows": "a=>",
    "calls": "f(",
    "commas": "(a,",
    "null bytes": "a\0b;",
    "elements": "<a>",
    "assignments": "[a]=[",
    "scopes": "{a=b;",
    "long chains": "a.b(",
    "sums": "'a'+",
    "evals": "eval(",
    "surrogates": "\ud800;",
    "bindings": "var a=a;",
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_source_is_read_or_said_not_to_be(part: str) -> None:
    findings = review(part * (20_000 // len(part)), language="javascript").findings
    assert part == "var a=a;" or {"syntax", "not-read"} & {one.rule for one in findings}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quotes", "brackets", "calls", "null bytes"])
def test_a_megabyte_of_it_is_too(kind: str) -> None:
    part = HOSTILE[kind]
    findings = review(part * (2**20 // len(part)), language="javascript").findings
    assert {"syntax", "not-read"} & {one.rule for one in findings}


@pytest.mark.parametrize(
    "source",
    [
        "".join(f"a{n} = a{n + 1};" for n in range(3000)) + "a0('x')",
        "x = 'a';" + "x = x + x;" * 3000 + "require(x)",
        "".join(f"a{n} = a{n * 7 % 50}.b + a{n * 3 % 50}[a{n * 5 % 50}];" for n in range(2000)),
        "const f = " + "(" * 200 + "x" + ")" * 200,
        "f(" * 150 + ")" * 150,
    ],
    ids=["names", "doubled texts", "names of names", "parentheses", "calls in calls"],
)
def test_involved_source_is_followed_within_bounds(source: str) -> None:
    assert {one.rule for one in review(source, language="javascript").findings} <= {"not-read", "dynamic"}


def test_long_programs_are_not_read() -> None:
    (one,) = review("x;" * 100, language="javascript", most_characters=100).findings
    assert (one.rule, one.message) == ("not-read", "the program has 200 characters; at most 100 are read")


def test_without_its_package_the_reader_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("tree_sitter"):
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **more)

    javascript_tree.parser.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    (one,) = review("eval(1)", language="javascript").findings
    assert one.rule == "not-read" and one.message.endswith("pip install 'actbox[review]'")
    with pytest.raises(Unsupported, match="pip install 'actbox"):
        check_readable("javascript")


def test_other_languages_are_not_readable() -> None:
    check_readable("python")
    with pytest.raises(Unsupported, match="reads Python and JavaScript, and not 'rtfs'"):
        check_readable("rtfs")
