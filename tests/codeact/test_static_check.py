"""What the static check finds, with the real checkers. Of `pyright` all is tried where it and node are installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actbox.codeact.static_check import Checker, check, check_types
from actbox.codeact.static_check.reading import Reading
from actbox.codeact.static_check.rules import RULES, Wrong, ids
from actbox.core.errors import InvalidValue
from actbox.core.program import Program
from actbox.review.source import Unread, parse
from actbox.sandbox.guest.program import compile_program
from actbox.tools import Tool, Toolset, tool
from tests.codeact.checking import LONG, found
from tests.codeact.programs_to_check import GOOD, TOOLS


@pytest.mark.parametrize("name", GOOD)
async def test_programs_of_the_kind_that_models_write_pass(name: str, checker: Checker) -> None:
    given = {"rows": [{"ok": True}]}
    assert await check_types(GOOD[name], TOOLS, checker=checker, inputs=given, timeout=LONG) is None


# Each rule: the program is wrong in its last line, and the words are the checker's.
WRONG: list[tuple[str, Wrong, str, Mapping[Checker, str]]] = [
    ("undefined", Wrong.UNDEFINED, "prnt(1)", {"ty": "unresolved-reference", "pyright": "reportUndefinedVariable"}),
    ("missing", Wrong.ARGUMENTS, "search()", {"ty": "missing-argument", "pyright": "reportCallIssue"}),
    ("unknown", Wrong.ARGUMENTS, "search('a', lim=3)", {"ty": "unknown-argument", "pyright": "reportCallIssue"}),
    (
        "too many",
        Wrong.ARGUMENTS,
        "search('a', 3, 'score', 4)",
        {"ty": "too-many-positional-arguments", "pyright": "reportCallIssue"},
    ),
    (
        "twice",
        Wrong.ARGUMENTS,
        "search('a', query='b')",
        {"ty": "parameter-already-assigned", "pyright": "reportCallIssue"},
    ),
    ("number for text", Wrong.ARGUMENT, "search(5)", {"ty": "invalid-argument-type", "pyright": "reportArgumentType"}),
    (
        "text for a number",
        Wrong.ARGUMENT,
        "search('a', 'ten')",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
    (
        "no choice",
        Wrong.ARGUMENT,
        "search('a', order='size')",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
    (
        "none",
        Wrong.ARGUMENT,
        "search(query=None)",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
    (
        "result for text",
        Wrong.ARGUMENT,
        "search(get_user(1))",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
    (
        "text for a list",
        Wrong.ARGUMENT,
        "add('abc')",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
    (
        "list for an object",
        Wrong.ARGUMENT,
        "save([1])",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
    (
        "key",
        Wrong.KEY,
        "print(search('a')[0]['titel'])",
        {"ty": "invalid-typed-dict-key", "pyright": "reportGeneralTypeIssues"},
    ),
    (
        "key of what may be none",
        Wrong.KEY,
        "print(find_user('a')['titel'])",
        {"ty": "invalid-typed-dict-key", "pyright": "reportGeneralTypeIssues"},
    ),
    (
        "attribute",
        Wrong.ATTRIBUTE,
        "print(get_user(1).name)",
        {"ty": "missing-attribute", "pyright": "reportAttributeAccessIssue"},
    ),
    (
        "attribute of a list",
        Wrong.ATTRIBUTE,
        "print(search('a').titles)",
        {"ty": "missing-attribute", "pyright": "reportAttributeAccessIssue"},
    ),
    ("call", Wrong.CALL, "search('a')()", {"ty": "not-callable", "pyright": "reportCallIssue"}),
    ("call of a module", Wrong.CALL, "import pprint\npprint(1)", {"ty": "not-callable", "pyright": "reportCallIssue"}),
    (
        "await",
        Wrong.AWAIT,
        "hits = await search('a')\nawait hits",
        {"ty": "invalid-await", "pyright": "reportGeneralTypeIssues"},
    ),
    (
        "await left out",
        Wrong.COROUTINE,
        "await get_user(1)\nsave({'id': 1, 'name': 'a'})",
        {"ty": "unused-awaitable", "pyright": "reportUnusedCoroutine"},
    ),
    (
        "await left out before a key",
        Wrong.COROUTINE,
        "await get_user(1)\nprint(search('a')[0])",
        {"ty": "not-subscriptable", "pyright": "reportIndexIssue"},
    ),
    (
        "await left out before a loop",
        Wrong.COROUTINE,
        "await get_user(1)\nfor h in search('a'): pass",
        {"ty": "not-iterable", "pyright": "reportGeneralTypeIssues"},
    ),
    (
        "await left out in a sum",
        Wrong.COROUTINE,
        "await get_user(1)\nprint(1 + add([1]))",
        {"ty": "unsupported-operator", "pyright": "reportOperatorIssue"},
    ),
    (
        "await left out before with",
        Wrong.COROUTINE,
        "await get_user(1)\nasync with search('a') as s: pass",
        {"ty": "invalid-context-manager", "pyright": "reportGeneralTypeIssues"},
    ),
    (
        "await left out before an attribute",
        Wrong.COROUTINE,
        "await get_user(1)\nprint(search('a').x)",
        {"ty": "missing-attribute", "pyright": "reportAttributeAccessIssue"},
    ),
    (
        "await left out in an argument",
        Wrong.COROUTINE,
        "await get_user(1)\nprint(len(search('a')))",
        {"ty": "invalid-argument-type", "pyright": "reportArgumentType"},
    ),
]


@pytest.mark.parametrize(("name", "wrong", "program", "rules"), WRONG, ids=[name for name, *_ in WRONG])
async def test_each_rule_finds_what_it_is_for_on_its_line(
    name: str, wrong: Wrong, program: str, rules: Mapping[Checker, str], checker: Checker
) -> None:
    program = f"# first\n\n{program}"
    with pytest.MonkeyPatch.context() as patch:
        seen = []

        def noted(finding: Any, *given: Any) -> Wrong | None:
            why = certain(finding, *given)
            seen.append((finding.rule, why))
            return why

        certain = check.certain
        patch.setattr(check, "certain", noted)
        error = await found(program, checker)
    last = program.count("\n") + 1
    assert error.line == last
    assert all(line.startswith(f"line {last}: ") for line in error.message.split("\n"))
    assert (rules[checker], wrong) in seen
    assert error.type == "TypeCheck"
    assert "nothing of the program has run" in error.hint
    assert ("awaited" in error.hint) is (wrong is Wrong.COROUTINE)
    assert "_actbox" not in error.message


@pytest.mark.parametrize("name", ["ty", "pyright"])
def test_every_rule_of_the_table_is_tried_above(name: Checker) -> None:
    assert {rule.id for rule in RULES} >= set(ids(name))
    assert {rules[name] for _, _, _, rules in WRONG} == set(ids(name))


# call_tool


async def test_call_tool_by_a_name_in_quotes_is_checked_as_that_tool(checker: Checker) -> None:
    error = await found(
        "call_tool('search', query=5)\n"
        "call_tool('fetch-page', uri='a')\n"
        "call_tool('serch', query='a')\n"
        "print(call_tool('get_user', id=1)['mail'])\n"
        "for name in TOOL_NAMES: call_tool(name, anything=1)\n"
        "call_tool('search', 'a')\n",
        checker,
        extra_names=["TOOL_NAMES"],
    )
    lines = {line.partition(":")[0] for line in error.message.split("\n")}
    assert lines == {"line 1", "line 2", "line 3", "line 4", "line 6"}
    assert "call_tool" in error.message


async def test_a_call_tool_of_the_programs_own_is_not_the_one_of_tools(checker: Checker) -> None:
    program = "def call_tool(name, n): return n\nprint(call_tool('search', 3) + 1, call_tool('no', 1))"
    assert await check_types(program, TOOLS, checker=checker, timeout=LONG) is None


# What programs find


async def test_tools_are_coroutines_exactly_where_the_guest_makes_them_so() -> None:
    programs = [*GOOD.values(), "async def f():\n    return [x async for x in y]", "async def f(): pass\nf()"]
    for program in programs:
        tree = parse(Program(program))
        assert not isinstance(tree, Unread)
        assert Reading(program, tree).awaits is compile_program(program, "p.py").awaits


async def test_a_tool_may_have_the_name_of_a_builtin_type(checker: Checker) -> None:
    @tool(name="list")
    def listing(path: str) -> list[str]:
        raise NotImplementedError

    @tool(name="str")
    def text(number: int) -> str:
        raise NotImplementedError

    tools = Toolset.of([listing, text])
    assert await check_types("print(list('a')[0].upper(), str(3))", tools, checker=checker, timeout=LONG) is None
    assert "`list`" in (await found("list()", "ty", tools)).message


async def test_inputs_take_the_place_of_tools_and_types_of_results_are_no_names(checker: Checker) -> None:
    assert await check_types("search.x()", TOOLS, checker=checker, inputs={"search": 1}, timeout=LONG) is None
    assert (await found("print(Hit)", checker)).line == 1
    assert (await found("print(Any)", checker)).line == 1


async def test_parameters_that_a_stub_cannot_write_are_not_checked(checker: Checker) -> None:
    schema = {"type": "object", "properties": {"class": {"type": "integer"}, "__x": {"type": "string"}}}
    odd = Tool.from_schema("odd", "", {**schema, "required": ["class"]}, lambda **given: None)
    program = "odd(**{'class': 1})\nodd(__x='a')\ncall_tool('odd', __x='a')\nodd(1, 'a')"
    assert await check_types(program, Toolset.of([odd]), checker=checker, timeout=LONG) is None


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


async def test_lines_are_the_models_own_whatever_ends_them_and_whatever_stands_before(checker: Checker) -> None:
    assert (await found("\ufeffx = '🙂é'\r\ny = 1\rz = 2\n'🙂🙂'; search(1)", checker)).line == 4
    assert (await found("'''\n\n'''\nprint(f'''\n{search(5)}\n''')", checker)).line in (4, 5)


async def test_messages_are_one_line_each_without_colours_and_without_places_of_the_host() -> None:
    error = await found("search(('\\x1b[31m' 'a\\nb', 1))\nsearch(['" + "x" * 5000 + "'])")
    assert len(error.message.split("\n")) == 2
    assert "\x1b" not in error.message
    assert "/tmp" not in error.message
    assert len(error.message) < 1000


@pytest.mark.parametrize("program", ["def f(:", "x = '\0'", "x = '\ud800'", "(" * 5000, "", "# nothing"])
async def test_what_is_no_program_is_left_to_its_run(program: str, checker: Checker) -> None:
    assert await check_types(program, TOOLS, checker=checker, timeout=LONG) is None


async def test_many_awaits_at_the_top_level_hide_nothing(checker: Checker) -> None:
    assert (await found("await get_user(1)\n" * 1500 + "await search(5)", checker)).line == 1501
