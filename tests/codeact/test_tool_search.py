"""The two tools by which programs search a large toolset: what they return, and what they refuse."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from actbox import InvalidValue, Sandbox, ToolError
from actbox.codeact import tool_search
from actbox.codeact.tool_index import ToolIndex
from actbox.codeact.tool_search import DESCRIBE_TOOL, SEARCH_TOOLS, Listing, search_tools_of
from actbox.tools import Tool, Toolset, stubs
from tests.codeact.many_tools import MEANT, find_hits, made, many_tools, names

TOOLS, GROUPS = many_tools()


def test_the_two_tools_have_their_names_and_never_need_approval():
    pay = Tool.from_function(find_hits, name="pay", approval="always_require")
    search, describe = search_tools_of(Toolset([pay]), {})
    assert (search.name, describe.name) == (SEARCH_TOOLS, DESCRIBE_TOOL) == ("search_tools", "describe_tool")
    assert Toolset([search, describe]).requiring == ()
    assert search.signature == "(query: str = '', limit: int = 10, group: str | None = None) -> list[FoundTool]"
    assert describe.signature == "(name: str) -> str"
    assert "It calls none of them" in search.description and "does not call" in describe.description


@pytest.mark.parametrize("name", [SEARCH_TOOLS, DESCRIBE_TOOL, "search-tools", "describe.tool", "ｓearch_tools"])
def test_a_tool_that_programs_would_call_by_one_of_the_names_is_refused(name: str):
    with pytest.raises(InvalidValue, match=f"a tool cannot be called '{name}' where"):
        search_tools_of(names("other", name), {})


async def test_what_is_found_says_how_it_is_called():
    search, _ = search_tools_of(Toolset.of([find_hits, made("other")]), {"find_hits": "shelf"})
    assert await search.call({"query": "hits"}) == [
        {
            "name": "find_hits",
            "group": "shelf",
            "signature": "(text: str, limit: int = 3) -> list[Hit]",
            "summary": "Find hits.",
        }
    ]


async def test_names_are_those_that_programs_write():
    toolset = names("read-file", "read_file", "crm.find")
    search, _ = search_tools_of(toolset, {"read-file": "files"})
    (first, *_) = await search.call({"query": "read-file"})
    assert first["name"] == toolset.aliases["read-file"] == "read_file_2" and first["group"] == "files"
    assert [tool["name"] for tool in await search.call({"query": "crm"})] == ["crm_find"]


async def test_a_summary_is_one_short_line():
    long = "word " * 100
    toolset = Toolset(
        [made("a", "First\n  line.\n\nMore."), made("b", long), made("c", "x" * 300), made("d", "\x1b[1m")]
    )
    search, _ = search_tools_of(toolset, {})
    first, second, third, fourth = [tool["summary"] for tool in await search.call({})]
    assert first == "First line." and fourth == "[1m"
    assert second.endswith("word…") and len(second) <= 200
    assert third == "x" * 199 + "…"


async def test_ten_are_returned_or_as_many_as_asked():
    search, _ = search_tools_of(TOOLS, GROUPS)
    assert len(await search.call({"query": "customer"})) == 10
    assert len(await search.call({"query": "customer", "limit": 3})) == 3
    assert len(await search.call({"query": "create", "limit": 100})) > 20


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": 101}, {"query": "x" * 1_001}, {"query": 7}])
async def test_a_query_out_of_bounds_is_refused(arguments: dict[str, Any]):
    search, _ = search_tools_of(TOOLS, GROUPS)
    with pytest.raises(ToolError, match="call it as search_tools"):
        await search.call(arguments)


@pytest.mark.parametrize("query", ["", "  \n"])
async def test_without_a_query_all_tools_are_listed_by_group_and_name(query: str):
    search, _ = search_tools_of(TOOLS, GROUPS)
    listed = await search.call({"query": query})
    assert len(listed) == len(TOOLS)
    assert [(tool["group"], tool["name"]) for tool in listed] == [
        (group, name) for group, listed_names in Listing.of(TOOLS, GROUPS).groups for name in listed_names
    ]
    assert listed[-1]["group"] == ""


async def test_a_group_is_all_that_is_searched():
    search, _ = search_tools_of(TOOLS, GROUPS)
    assert {tool["group"] for tool in await search.call({"group": "mail"})} == {"mail"}
    assert len(await search.call({"group": "mail"})) == 8
    assert [tool["name"] for tool in await search.call({"query": "send", "group": "billing"})] == [
        "billing_send_invoice"
    ]
    assert "turn_on" in [tool["name"] for tool in await search.call({"group": ""})]


async def test_a_group_that_there_is_not_is_an_error_that_names_some():
    search, _ = search_tools_of(TOOLS, GROUPS)
    with pytest.raises(
        ToolError, match=r"no group 'biling'; did you mean 'billing'\? Groups: billing, calendar, "
    ) as one:
        await search.call({"group": "biling"})
    assert one.value.tool == SEARCH_TOOLS
    crowd = names(*(f"tool_{number}" for number in range(30)))
    search, _ = search_tools_of(crowd, {name: f"g{name[5:]:0>2}" for name in crowd.names})
    with pytest.raises(ToolError, match=r"Groups: g00, .*, g19 and 10 more$"):
        await search.call({"group": "nowhere"})
    search, _ = search_tools_of(crowd, {})
    with pytest.raises(ToolError, match="Groups: none"):
        await search.call({"group": "nowhere"})


async def test_a_description_is_the_stub_with_the_types_that_it_needs():
    _, describe = search_tools_of(Toolset.of([find_hits, made("other")]), {})
    text = await describe.call({"name": "find_hits"})
    assert text == stubs(Toolset.of([find_hits]), awaitable=False)
    assert "class Hit(TypedDict)" in text and "def find_hits(text: str, limit: int = 3) -> list[Hit]:" in text


async def test_a_tool_is_described_as_programs_call_it_by_either_name():
    _, describe = search_tools_of(names("read-file", "read_file"), {})
    for name in ("read-file", "read_file_2"):
        text = await describe.call({"name": name})
        assert "def read_file_2(" in text and "call_tool('read-file', …) calls it too." in text
    assert "def read_file(" in await describe.call({"name": "read_file"})


async def test_the_two_tools_describe_themselves():
    search, describe = search_tools_of(TOOLS, GROUPS)
    for tool in (search, describe):
        text = await describe.call({"name": tool.name})
        assert text == stubs(Toolset([search, describe]), awaitable=False, only=[tool.name]) and tool.signature in text


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("crm_find_contcat", "crm_find_contact"),
        ("github_create_isue", "github_create_issue"),
        ("refundTheCustomer", "billing_refund_payment"),
    ],
)
async def test_an_unknown_tool_is_an_error_that_names_the_nearest(name: str, meant: str):
    _, describe = search_tools_of(TOOLS, GROUPS)
    with pytest.raises(ToolError) as one:
        await describe.call({"name": name})
    assert (
        str(one.value) == f"there is no tool '{name}'; did you mean '{meant}'? search_tools(query) finds tools by words"
    )
    assert one.value.tool == DESCRIBE_TOOL


async def test_an_unknown_tool_that_resembles_none_and_a_huge_name_are_told_in_one_line():
    _, describe = search_tools_of(TOOLS, GROUPS)
    with pytest.raises(ToolError, match=r"^there is no tool 'zzzzz'\. search_tools"):
        await describe.call({"name": "zzzzz"})
    with pytest.raises(ToolError) as one:
        await describe.call({"name": "crm " * 1_000_000})
    assert len(str(one.value)) < 300
    with pytest.raises(ToolError, match=r"'\. search_tools"):
        await describe.call({"name": "x" * 1_000 + " weather"})


async def test_the_index_is_built_once_and_not_before_a_query(monkeypatch: pytest.MonkeyPatch):
    built: list[Toolset] = []

    class Counted(ToolIndex):
        def __init__(self, toolset: Toolset, groups: Any) -> None:
            built.append(toolset)
            time.sleep(0.05)  # the other searches begin meanwhile
            super().__init__(toolset, groups)

    monkeypatch.setattr(tool_search, "ToolIndex", Counted)
    search, describe = search_tools_of(TOOLS, GROUPS)
    await search.call({})
    await describe.call({"name": "turn_on"})
    assert built == []
    await asyncio.gather(*(search.call({"query": query}) for query in MEANT))
    assert built == [TOOLS]


async def test_two_searches_do_not_share_their_tools():
    first, _ = search_tools_of(names("alpha"), {})
    second, _ = search_tools_of(names("beta"), {})
    assert [tool["name"] for tool in await first.call({})] == ["alpha"]
    assert [tool["name"] for tool in await second.call({})] == ["beta"]
    assert first.name == second.name


PLAIN = """
name = search_tools("greeting")[0]["name"]
print(describe_tool(name))
try:
    describe_tool("greet_peple")
except ToolError as error:
    print(error)
call_tool(name, who="you")
"""


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_program_finds_a_tool_reads_how_it_is_called_and_calls_it(box: Sandbox, awaits: bool):
    def greet_people(who: str) -> str:
        """Say a greeting."""
        return f"Hello {who}"

    tools = TOOLS.with_tools(Tool.from_function(greet_people))
    program = PLAIN
    if awaits:
        for call in ("search_tools(", "describe_tool(", "call_tool("):
            program = program.replace(call, f"await {call}")
        program = program.replace('await search_tools("greeting")', '(await search_tools("greeting"))')
    result = await box.run(program, tools=tools.with_tools(*search_tools_of(tools, GROUPS)))
    assert result.value == "Hello you" and result.error is None
    assert "def greet_people(who: str) -> str:" in result.stdout
    assert "there is no tool 'greet_peple'; did you mean 'greet_people'?" in result.stdout
