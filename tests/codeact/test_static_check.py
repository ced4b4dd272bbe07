"""What the static check finds, with the real checker."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.codeact.static_check import check, check_types
from actbox.codeact.static_check.check import RULES
from actbox.codeact.static_check.checker import Finding
from actbox.codeact.static_check.reading import Reading
from actbox.core.errors import InvalidValue
from actbox.core.program import Program
from actbox.review.source import Unread, parse
from actbox.sandbox.guest.program import compile_program
from actbox.tools import Tool, Toolset, tool
from tests.codeact.checking import LONG, found
from tests.codeact.programs_to_check import GOOD, TOOLS


@pytest.mark.slow
@pytest.mark.parametrize("name", GOOD)
async def test_programs_of_the_kind_that_models_write_pass(name: str) -> None:
    given = {"rows": [{"ok": True}]}
    assert await check_types(GOOD[name], TOOLS, inputs=given, timeout=LONG) is None


# Each rule: the program is wrong in its last line, and the words are the checker's.
WRONG: list[tuple[str, str, str]] = [
    ("undefined", "prnt(1)", "unresolved-reference"),
    ("missing", "search()", "missing-argument"),
    ("unknown", "search('a', lim=3)", "unknown-argument"),
    ("too many", "search('a', 3, 'score', 4)", "too-many-positional-arguments"),
    ("twice", "search('a', query='b')", "parameter-already-assigned"),
    ("number for text", "search(5)", "invalid-argument-type"),
    ("text for a number", "search('a', 'ten')", "invalid-argument-type"),
    ("no choice", "search('a', order='size')", "invalid-argument-type"),
    ("none", "search(query=None)", "invalid-argument-type"),
    ("result for text", "search(get_user(1))", "invalid-argument-type"),
    ("text for a list", "add('abc')", "invalid-argument-type"),
    ("list for an object", "save([1])", "invalid-argument-type"),
    ("key", "print(search('a')[0]['titel'])", "invalid-typed-dict-key"),
    ("key in a variable", "key = 'titel'\nprint(search('a')[0][key])", "invalid-typed-dict-key"),
    ("key of what may be none", "print(find_user('a')['titel'])", "invalid-typed-dict-key"),
    ("attribute", "print(get_user(1).name)", "missing-attribute"),
    ("attribute of a list", "print(search('a').titles)", "missing-attribute"),
    ("call", "search('a')()", "not-callable"),
    ("call of a module", "import pprint\npprint(1)", "not-callable"),
    ("await", "hits = await search('a')\nawait hits", "invalid-await"),
    ("await left out", "await get_user(1)\nsave({'id': 1, 'name': 'a'})", "unused-awaitable"),
    ("await left out before a key", "await get_user(1)\nprint(search('a')[0])", "not-subscriptable"),
    ("await left out before a loop", "await get_user(1)\nfor h in search('a'): pass", "not-iterable"),
    ("await left out in a sum", "await get_user(1)\nprint(1 + add([1]))", "unsupported-operator"),
    ("await left out before with", "await get_user(1)\nasync with search('a') as s: pass", "invalid-context-manager"),
    ("await left out before an attribute", "await get_user(1)\nprint(search('a').x)", "missing-attribute"),
    ("await left out in an argument", "await get_user(1)\nprint(len(search('a')))", "invalid-argument-type"),
]


@pytest.mark.parametrize(("name", "program", "rule"), WRONG, ids=[name for name, *_ in WRONG])
async def test_each_rule_finds_what_it_is_for_on_its_line(
    name: str, program: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"# first\n\n{program}"
    rules: set[str] = set()

    def noted(*given: Any) -> tuple[list[Finding], bool]:
        wrong, awaits = counted(*given)
        rules.update(finding.rule for finding in wrong)
        return wrong, awaits

    counted = check._counted
    monkeypatch.setattr(check, "_counted", noted)
    error = await found(program)
    last = program.count("\n") + 1
    assert error.line == last
    assert all(line.startswith(f"line {last}: ") for line in error.message.split("\n"))
    assert rules == {rule}
    assert error.type == "TypeCheck"
    assert "nothing of the program has run" in error.hint
    assert ("awaited" in error.hint) is ("await left out" in name)
    assert "_actbox" not in error.message


def test_every_rule_of_the_table_is_tried_above() -> None:
    assert {rule for *_, rule in WRONG} == set(RULES)


async def test_a_program_that_is_indented_as_a_whole_is_checked() -> None:
    error = await check_types('    x = """\n  a"""\n    display(x)\n    prnt(x)\n', TOOLS, timeout=LONG)
    assert error is not None
    assert (error.line, "prnt" in error.message) == (4, True), error


# call_tool


@pytest.mark.slow
async def test_call_tool_by_a_name_in_quotes_is_checked_as_that_tool() -> None:
    error = await found(
        "call_tool('search', query=5)\n"
        "call_tool('fetch-page', uri='a')\n"
        "call_tool('serch', query='a')\n"
        "print(call_tool('get_user', id=1)['mail'])\n"
        "for name in TOOL_NAMES: call_tool(name, anything=1)\n"
        "call_tool('search', 'a')\n",
        extra_names=["TOOL_NAMES"],
    )
    lines = {line.partition(":")[0] for line in error.message.split("\n")}
    assert lines == {"line 1", "line 2", "line 3", "line 4", "line 6"}
    assert "call_tool" in error.message


async def test_a_call_tool_of_the_programs_own_is_not_the_one_of_tools() -> None:
    program = "def call_tool(name, n): return n\nprint(call_tool('search', 3) + 1, call_tool('no', 1))"
    assert await check_types(program, TOOLS, timeout=LONG) is None


# What programs find


async def test_tools_are_coroutines_exactly_where_the_guest_makes_them_so() -> None:
    programs = [*GOOD.values(), "async def f():\n    return [x async for x in y]", "async def f(): pass\nf()"]
    for program in programs:
        tree = parse(Program(program))
        assert not isinstance(tree, Unread)
        assert Reading(program, tree).awaits is compile_program(program, "p.py").awaits


@pytest.mark.slow
async def test_a_tool_may_have_the_name_of_a_builtin_type() -> None:
    @tool(name="list")
    def listing(path: str) -> list[str]:
        raise NotImplementedError

    @tool(name="str")
    def text(number: int) -> str:
        raise NotImplementedError

    tools = Toolset.of([listing, text])
    assert await check_types("print(list('a')[0].upper(), str(3))", tools, timeout=LONG) is None
    assert "`list`" in (await found("list()", tools)).message


@pytest.mark.slow
async def test_inputs_take_the_place_of_tools_and_types_that_stubs_name_are_there() -> None:
    assert await check_types("search.x()", TOOLS, inputs={"search": 1}, timeout=LONG) is None
    given = {"call_tool": print}
    assert await check_types("call_tool('search', 'a')", TOOLS, inputs=given, timeout=LONG) is None
    program = "def first(hits: list[Hit]) -> Hit:\n    return hits[0]\nx: Hit = {}\nprint(Hit(title='a'))"
    assert await check_types(program, TOOLS, timeout=LONG) is None
    assert (await found("print(Any)")).line == 1


async def test_parameters_that_a_stub_cannot_write_are_not_checked() -> None:
    schema = {"type": "object", "properties": {"class": {"type": "integer"}, "__x": {"type": "string"}}}
    odd = Tool.from_schema("odd", "", {**schema, "required": ["class"]}, lambda **given: None)
    program = "odd(**{'class': 1})\nodd(__x='a')\ncall_tool('odd', __x='a')\nodd(1, 'a')"
    assert await check_types(program, Toolset.of([odd]), timeout=LONG) is None


@pytest.mark.parametrize("name", ["a b", "class", "x: int\nimport os"])
async def test_a_name_that_is_no_variable_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="variable"):
        await check_types("1", TOOLS, inputs={name: 1})
    with pytest.raises(InvalidValue, match="variable"):
        await check_types("1", TOOLS, extra_names=[name])


# How it is told


async def test_ten_findings_are_told_and_the_rest_counted() -> None:
    error = await found("\n".join(f"name_{n}" for n in range(14)))
    lines = error.message.split("\n")
    assert lines[0] == "line 1: Name `name_0` used when not defined"
    assert len(lines) == 11
    assert lines[-1] == "and 4 more"


@pytest.mark.slow
async def test_lines_are_the_models_own_whatever_ends_them_and_whatever_stands_before() -> None:
    assert (await found("\ufeffx = '🙂é'\r\ny = 1\rz = 2\n'🙂🙂'; search(1)")).line == 4
    assert (await found("'''\n\n'''\nprint(f'''\n{search(5)}\n''')")).line == 5


async def test_messages_are_one_line_each_without_colours_and_without_places_of_the_host() -> None:
    error = await found("search(('\\x1b[31m' 'a\\nb', 1))\nsearch(['" + "x" * 5000 + "'])")
    assert len(error.message.split("\n")) == 2
    assert "\x1b" not in error.message
    assert "/tmp" not in error.message
    assert len(error.message) < 1000


@pytest.mark.parametrize("program", ["def f(:", "x = '\0'", "x = '\ud800'", "(" * 5000, "", "# nothing"])
async def test_what_is_no_program_is_left_to_its_run(program: str) -> None:
    assert await check_types(program, TOOLS, timeout=LONG) is None


@pytest.mark.slow
async def test_many_awaits_at_the_top_level_hide_nothing() -> None:
    assert (await found("await get_user(1)\n" * 1500 + "await search(5)")).line == 1501
