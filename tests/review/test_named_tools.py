"""Every tool that a program may call is named, or it is said that this cannot be known."""

from __future__ import annotations

import pytest

import actbox
from actbox.review import ToolCall, review, tool_calls


@actbox.tool
def search(query: str, limit: int = 10) -> list[str]:
    """Search."""
    return []


@actbox.tool(name="delete-file")
def delete_file(path: str) -> None:
    """Delete."""


TOOLS = actbox.Toolset.of([search, delete_file])


def named(source: str) -> set[str | None]:
    return {call.tool for call in tool_calls(source, TOOLS)}


def test_literal_arguments_are_given_by_parameter() -> None:
    source = "x = 1\nsearch('tea', limit=5)\nsearch(x, limit=[1, {'a': None}])\ncall_tool('search', query='b')"
    assert tool_calls(source, TOOLS) == (
        ToolCall(tool="search", arguments={"query": "tea", "limit": 5}, complete=True, line=2),
        ToolCall(tool="search", arguments={"limit": [1, {"a": None}]}, complete=False, line=3),
        ToolCall(tool="search", arguments={"query": "b"}, complete=True, line=4),
    )


def test_arguments_that_are_spread_are_not_complete() -> None:
    calls = tool_calls("search(*a, 'b')\nsearch('a', **k)", TOOLS)
    assert [(call.arguments, call.complete) for call in calls] == [({}, False), ({"query": "a"}, False)]


def test_a_tool_is_known_by_its_alias_and_by_its_name() -> None:
    alias = TOOLS.aliases["delete-file"]
    assert named(f"{alias}('x')") == named("call_tool('delete-file', path='x')") == {"delete-file"}


def test_without_names_only_call_tool_is_recognized() -> None:
    calls = tool_calls("search('a')\nawait call_tool('fetch', 1)")
    assert [(call.tool, call.arguments, call.line) for call in calls] == [("fetch", {"0": 1}, 2)]


@pytest.mark.parametrize(
    "source",
    [
        "f = search\nf('x')",
        "call = call_tool\ncall('search')",
        "import asyncio\nawait asyncio.gather(search('a'), search('b'))",
        "[search(q) for q in 'ab']",
        "call_tool('sea' + 'rch')",
        "n = 'search'\ncall_tool(n)",
        "for n in ('search',): call_tool(n)",
        "globals()['search']('x')",
        "import __main__\n__main__.search('x')",
        "def f(search): pass\nsearch('x')",
        "(search if 1 else print)('x')",
        "list(map(search, 'ab'))",
        "{'s': search}['s']('x')",
        "class A:\n    s = search\nA.s('x')",
        "@search\ndef f(): pass",
        "if 0: search = print\nsearch('x')",
    ],
)
def test_a_tool_is_found_however_it_is_called(source: str) -> None:
    assert "search" in named(source)


def test_a_name_that_may_be_several_tools_is_a_call_of_each() -> None:
    assert named("n = 'search'\nif x: n = 'delete-file'\ncall_tool(n)") == {"search", "delete-file"}


@pytest.mark.parametrize(
    "source",
    [
        "call_tool(input())",
        "call_tool(*['search'])",
        "call_tool(**{})",
        "names = ['search']\nnames.append(input())\ncall_tool(names[0])",
        "def f(n): call_tool(n)\nf('search')",
        "list(map(call_tool, names))",
        "eval('search(1)')",
        "globals()[input()]()",
        "n = 'search'\nglobals()['n'] = 'x'\ncall_tool(n)",
        "import __main__\n__main__.n = 'x'",
        "getattr(thing, input())()",
        "print.__self__",
        "import pickle\npickle.loads(b'')",
        "from_an_earlier_program('x')",
        "(",
        "x = '" + "a" * 2**20 + "'",
    ],
)
def test_what_cannot_be_followed_may_be_any_tool(source: str) -> None:
    assert None in named(source)
    assert all(call.dynamic for call in tool_calls(source, TOOLS) if call.tool is None)


@pytest.mark.parametrize(
    "source",
    [
        "# search('x')",
        "'call_tool(\"search\")'",
        "def search(q): return q\nsearch('x')",
        "def f(search): return search('x')",
        "def call_tool(name): pass\ncall_tool('search')",
        "import re\nre.search('a', 'b')",
        "print(len([1]))",
    ],
)
def test_what_is_no_tool_is_not_named(source: str) -> None:
    assert named(source) == set()


def test_a_function_that_is_handed_on_is_a_dynamic_call_of_its_tool() -> None:
    (call,) = tool_calls("list(map(search, names))", TOOLS)
    assert (call.tool, call.dynamic, call.complete) == ("search", True, False)


def test_inputs_are_known_values_and_hide_what_is_built_in() -> None:
    program = actbox.Program("call_tool(which)\neval(1)", inputs={"which": "search", "eval": 1})
    assert [call.tool for call in tool_calls(program, TOOLS)] == ["search"]
    assert [finding.rule for finding in review(program, tools=TOOLS).findings] == ["tool"]


def test_a_review_names_tools_too() -> None:
    findings = review("search('x')\ncall_tool(input())", tools=TOOLS).findings
    assert [(f.rule, f.subject) for f in findings] == [("tool", "search"), ("dynamic-tool", "call_tool")]
