"""The search in a large toolset: what is found, how it is described, and the listing that stands for the stubs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any, TypedDict

import pytest

from actbox import InvalidValue, Sandbox, ToolError
from actbox.codeact import tool_search
from actbox.codeact.tool_index import ToolIndex, stem, words
from actbox.codeact.tool_listing import MAX_TEXT
from actbox.codeact.tool_search import DESCRIBE_TOOL, SEARCH_TOOLS, Listing, search_tools_of
from actbox.tools import Tool, Toolset, stubs
from tests.codeact.many_tools import many_tools

TOOLS, GROUPS = many_tools()
INDEX = ToolIndex(TOOLS, GROUPS)

MEANT = {
    "find a customer by email": "crm_find_contact",
    "duplicate contacts": "crm_merge_contacts",
    "log a phone call": "crm_log_call",
    "add a new company": "crm_create_company",
    "sales pipeline stage": "crm_move_deal_stage",
    "revenue forecast for next quarter": "crm_forecast_revenue",
    "create invoices": "billing_create_invoice",
    "email an invoice to the customer": "billing_send_invoice",
    "unpaid overdue invoices": "billing_list_overdue",
    "refund": "billing_refund_payment",
    "refunding a payment": "billing_refund_payment",
    "charge a credit card": "billing_charge_card",
    "VAT": "billing_calculate_tax",
    "pause a subscription": "billing_pause_subscription",
    "list discount codes": "billing_list_coupon",
    "free time slot for a meeting": "calendar.find_free_slot",
    "create a calendar meeting": "calendar.create_event",
    "invite somebody to an event": "calendar.invite_attendee",
    "rescheduling": "calendar.reschedule_event",
    "open a github issue": "github-create-issue",
    "merge PR pull request": "github-merge-pull-request",
    "list pull requests": "github-list-pull-request",
    "search source code": "github-search-code",
    "run CI workflow": "github-run-workflow",
    "commit history of a branch": "github-list-commits",
    "escalate ticket to on-call engineer": "escalateSupportTicket",
    "assign ticket": "assignSupportTicket",
    "customer satisfaction score": "getCustomerSatisfaction",
    "support tickets list": "listSupportTicket",
    "approve vacation": "hr_approve_leave",
    "remaining vacation days": "hr_leave_balance",
    "payroll": "hr_run_payroll",
    "who reports to whom": "hr_org_chart",
    "list open job positions": "hr_list_job_posting",
    "units in stock": "inventory_check_stock",
    "move stock between warehouses": "inventory_transfer_stock",
    "barcode": "inventory_scan_barcode",
    "order goods from a supplier": "inventory_create_purchase_order",
    "reboot server machine": "cloud.restartInstance",
    "logs of a service": "cloud.tailLogs",
    "rotate password": "cloud.rotateSecret",
    "cpu metrics": "cloud.getMetrics",
    "monthly cloud costs": "cloud.estimateCost",
    "create bucket": "cloud.createBucket",
    "publish blog article": "cms_publish_article",
    "resize an image": "cms_resize_image",
    "read a file": "files_read_text",
    "archive files as zip": "files_zip",
    "rename file": "files_move",
    "sha256 checksum": "files_checksum",
    "weather forecast": "weather_forecast",
    "weather tomorrow": "weather_forecast",
    "storm warnings": "weather_alerts",
    "sunset": "weather_sun_times",
    "air pollution quality": "weather_air_quality",
    "send email with attachment": "mail_send",
    "sendmail": "mail_send",
    "reply to a message": "mail_reply",
    "forward mail": "mail_forward",
    "post to slack channel": "slack_post_message",
    "emoji reaction": "slack_add_reaction",
    "geocoding an address": "maps_geocode",
    "route from A to B": "maps_directions",
    "restaurants nearby": "maps_nearby_places",
    "timezone": "maps_time_zone",
    "convert euros to dollars currency": "finance_convert_currency",
    "currency conversion": "finance_convert_currency",
    "exchange rates": "finance_exchange_rate",
    "share price": "finance_stock_quote",
    "bank transfer": "finance_transfer_money",
    "account balance": "finance_account_balance",
    "translation": "text_translate",
    "summarise text": "text_summarize",
    "extract text from scanned image": "text_ocr",
    "which language is this": "text_detect_language",
    "turn on the light": "turn_on",
    "thermostat temperature": "set_thermostat",
    "sql query": "query_database",
    "table columns": "describe_table",
    "what time is it": "current_time",
    "new uuid": "generate_uuid",
    "deletebranch": "github-delete-branch",
    "getSupportMacro": "getSupportMacro",
    "get support macro": "getSupportMacro",
    "get a request for sick leave": "hr_get_leave_request",
    "cancel an invoice": "billing_void_invoice",
    "delete file": "files_delete",
    "what is the temperature in a city": "weather_current",
    "find files containing a pattern": "files_search",
    "download link for a file": "files_share_link",
    "edit a blog article": "cms_update_article",
    "list employees": "hr_list_employee",
    "remove a branch from the repository": "github-delete-branch",
    "positive or negative text": "text_sentiment",
    "driving route": "maps_directions",
    "show virtual machines": "cloud.listInstance",
    "replace a secret": "cloud.rotateSecret",
    "spending by department": "finance_budget_report",
    "upload to slack": "slack_upload_file",
    "warehouse sql": "query_database",
}


class Hit(TypedDict):
    title: str


def find_hits(text: str, limit: int = 3) -> list[Hit]:
    """Find hits."""
    return []


def made(name: str, description: str = "", **properties: Any) -> Tool:
    return Tool.from_schema(name, description, {"type": "object", "properties": properties}, lambda **arguments: None)


def names(*tools: str) -> Toolset:
    return Toolset([made(name) for name in tools])


def found(toolset: Toolset, query: str, groups: dict[str, str] | None = None) -> list[str]:
    return ToolIndex(toolset, groups or {}).search(query)


# Which tools a query finds


def test_the_set_that_is_searched_is_large():
    assert len(TOOLS) >= 200 and len(set(GROUPS.values())) >= 12


@pytest.mark.parametrize(("query", "tool"), MEANT.items())
def test_the_tool_that_is_meant_is_among_the_first_three(query: str, tool: str):
    assert tool in INDEX.search(query)[:3]


def test_most_queries_find_the_tool_first():
    first = sum(INDEX.search(query)[0] == tool for query, tool in MEANT.items())
    assert first >= 0.85 * len(MEANT)


def test_a_tool_is_found_first_by_its_name_in_any_spelling():
    for tool in TOOLS.names:
        for query in (tool, TOOLS.aliases[tool], f"  {tool}\n", " ".join(words(tool)), "-".join(words(tool)).upper()):
            assert INDEX.search(query)[0] == tool, query


def test_of_two_spellings_the_one_that_was_written_comes_first():
    toolset = names("getUser", "get_user", "get-user")
    assert found(toolset, "getUser") == ["getUser", "get_user", "get-user"]
    assert found(toolset, "get_user")[0] == "get_user"
    assert found(toolset, "get-user")[0] == "get-user"
    assert found(toolset, "Get User") == ["getUser", "get_user", "get-user"]


def test_an_exact_name_is_before_a_tool_that_speaks_of_nothing_else():
    toolset = Toolset([made("pay_all_pay", "Pay, pay, pay. To pay is to pay."), made("pay")])
    assert found(toolset, "pay") == found(toolset, "PAY?") == ["pay", "pay_all_pay"]


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("trans", "text_translator"),
        ("translations", "text_translator"),
        ("translating", "text_translator"),
        ("cancelled", "order_cancel"),
        ("cancellation", "order_cancel"),
        ("categories", "list_category"),
        ("addresses", "address_book"),
        ("organise", "organizer"),
        ("webhook", "add_web_hook"),
        ("web hook", "webhook_url"),
        ("s3", "s3_copy"),
        ("erase", "note_delete"),
        ("evenement", "événement_liste"),
        ("ÉVÉNEMENT", "événement_liste"),
        ("turn on", "turn_on"),
        ("httpserver", "startHTTPServer"),
        ("http", "startHTTPServer"),
    ],
)
def test_words_match_in_other_forms(query: str, tool: str):
    toolset = names(
        "text_translator", "order_cancel", "list_category", "address_book", "organizer", "s3_copy", "note_delete"
    ).with_tools(*names("événement_liste", "turn_on", "turn_off", "startHTTPServer", "unrelated"))
    toolset = toolset.with_tools(made("webhook_url" if query == "web hook" else "add_web_hook"))
    assert found(toolset, query)[0] == tool


def test_words_that_stand_together_in_a_name_count_more_together():
    assert found(names("a_3_s", "b_s3"), "s3 please") == ["b_s3", "a_3_s"]


def test_a_common_word_counts_less_than_others():
    assert found(names("on_x", "z_post"), "post on") == ["z_post", "on_x"]


def test_writing_without_spaces_is_searched_by_its_parts():
    toolset = Toolset([made("a", "翻译文本为另一种语言"), made("b", "查询天气预报"), made("c", "税")])
    assert found(toolset, "天气") == ["b"] and found(toolset, "文本翻译")[0] == "a" and found(toolset, "税") == ["c"]


def test_of_a_very_long_description_the_beginning_is_read():
    toolset = Toolset([made("one", "walrus " + "word " * 1_000 + "penguin")])
    assert found(toolset, "walrus") == ["one"] and found(toolset, "penguin") == []


def test_descriptions_parameters_their_notes_and_groups_are_searched():
    toolset = Toolset(
        [
            made("one", "Knows about walruses."),
            made("two", walrus={"type": "string"}),
            made("three", x={"type": "string", "description": "The walrus."}),
            made("four"),
            made("five", "Nothing."),
        ]
    )
    assert set(found(toolset, "walrus", {"four": "walrus"})) == {"one", "two", "three", "four"}


def test_a_name_weighs_more_than_a_description():
    toolset = Toolset([made("alpha", "Sends a fax."), made("fax", "Alpha.")])
    assert found(toolset, "a fax please")[0] == "fax"


def test_words_that_are_in_every_sentence_find_nothing():
    assert found(Toolset([made("one", "All of this is for you.")]), "is this for you?") == []
    assert found(TOOLS, "?!") == [] and found(TOOLS, "xylophone") == []


def test_schemas_without_properties_and_tools_without_words_are_indexed():
    toolset = Toolset([Tool.from_schema("+++", "", {"type": "object"}, lambda: None), made("plain")])
    assert found(toolset, "+++") == ["+++"] and found(toolset, "???") == [] and found(toolset, "plain") == ["plain"]
    assert found(Toolset(), "anything") == []


def test_stems_of_short_words_and_of_foreign_ones_are_the_words():
    assert [stem(word) for word in ("bus", "is", "red", "größen", "status", "string")] == [
        "bus", "is", "red", "größen", "status", "string",
    ]  # fmt: skip


def test_the_order_is_the_same_for_any_order_of_the_tools():
    backwards = ToolIndex(Toolset(reversed(list(TOOLS))), GROUPS)
    for query in MEANT:
        assert backwards.search(query) == INDEX.search(query)


def test_the_order_does_not_depend_on_the_process():
    program = (
        "from tests.codeact.test_tool_search import INDEX, MEANT; print([INDEX.search(query)[:9] for query in MEANT])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and "crm_find_contact" in outputs[0]


# The two tools


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
    with pytest.raises(InvalidValue, match=f"no tool may be called '{name}' here"):
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


# The listing

SMALL = Listing.of(names("b_one", "a-two", "lone"), {"b_one": "letters", "a-two": "letters"})


def test_a_listing_has_sorted_names_by_group_and_the_others_last():
    assert SMALL.groups == (("letters", ("a_two", "b_one")), ("", ("lone",)))
    assert SMALL.text() == "- letters: a_two, b_one\n- (no group): lone"
    assert Listing.of(Toolset(), {}).text() == ""


def test_a_listing_does_not_depend_on_the_order_of_the_tools():
    backwards = Listing.of(Toolset(reversed(list(TOOLS))), dict(reversed(GROUPS.items())))
    assert backwards == Listing.of(TOOLS, GROUPS) and hash(backwards) == hash(Listing.of(TOOLS, GROUPS))
    assert backwards.text() == Listing.of(TOOLS, GROUPS).text()
    assert len(Listing.of(TOOLS, GROUPS).text().splitlines()) == len(set(GROUPS.values())) + 1


def test_a_listing_cannot_be_changed():
    with pytest.raises(AttributeError):
        SMALL.groups = ()  # type: ignore[misc]


def test_the_text_of_thousands_of_tools_has_groups_and_numbers():
    crowd = names(*(f"tool_{number}" for number in range(3_000)))
    listing = Listing.of(crowd, {name: "even" if int(name[5:]) % 2 == 0 else "odd" for name in crowd.names[1:]})
    assert listing.text() == "- even: 1,499 tools\n- odd: 1,500 tools\n- (no group): 1 tool"
    assert "tool_2999" in listing.text(max_chars=100_000)


def test_the_text_of_thousands_of_groups_is_cut_and_counts_the_rest():
    crowd = names(*(f"tool_{number}" for number in range(3_000)))
    listing = Listing.of(crowd, {name: f"group {name[5:]:0>4}" for name in crowd.names})
    lines = listing.text().splitlines()
    assert len(listing.text()) <= MAX_TEXT and lines[0] == "- group 0000: 1 tool"
    left_out = 3_000 - (len(lines) - 1)
    assert lines[-1] == f"- and {left_out:,} groups more with {left_out:,} tools"
    assert listing.text(max_chars=10) == "- and 3,000 groups more with 3,000 tools"


def test_a_group_cannot_add_lines_to_the_text():
    listing = Listing.of(names("one"), {"one": "x\n- evil:\x00 rule  all"})
    assert listing.text() == "- x - evil: rule all: one"


async def test_groups_are_called_the_same_in_listing_and_search():
    groups = {"one": " my\ngroup "}
    search, _ = search_tools_of(names("one"), groups)
    (group, _), *_ = Listing.of(names("one"), groups).groups
    assert group == "my group" and len(await search.call({"group": group})) == 1


def test_a_listing_survives_json():
    for listing in (SMALL, Listing.of(TOOLS, GROUPS), Listing.of(Toolset(), {})):
        assert Listing.from_dict(json.loads(json.dumps(listing.to_dict()))) == listing


def test_the_text_is_the_same_when_a_store_has_mixed_up_the_keys():
    kept = json.loads(json.dumps(Listing.of(TOOLS, GROUPS).to_dict()))
    mixed = {"groups": {group: kept["groups"][group][::-1] for group in sorted(kept["groups"], reverse=True)}}
    assert Listing.from_dict(mixed).text() == Listing.of(TOOLS, GROUPS).text()


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "groups",
        {},
        {"groups": None},
        {"groups": []},
        {"groups": {}, "more": 1},
        {"groups": {"a": "b"}},
        {"groups": {"a": []}},
        {"groups": {"a": [1]}},
        {"groups": {"a": [["b"]]}},
        {"groups": {"a": ["b\n- evil"]}},
        {"groups": {"a": ["b", "b"]}},
        {"groups": {"a": ["b"], "c": ["b"]}},
        {"groups": {"a\nb": ["c"]}},
        {"groups": {1: ["c"]}},
    ],
)
def test_data_of_another_shape_is_no_listing(data: Any):
    with pytest.raises(InvalidValue, match="listing of tools"):
        Listing.from_dict(data)


# What has changed


def test_nothing_is_said_where_nothing_changed():
    assert SMALL.changes_since(SMALL) == ""
    assert SMALL.changes_since(Listing.from_dict(SMALL.to_dict())) == ""


def test_what_was_added_moved_and_removed_is_said_in_one_paragraph():
    now = Listing.of(names("a-two", "lone", "new", "newer"), {"a-two": "digits", "new": "fresh"})
    assert now.changes_since(SMALL) == (
        "The tools have changed since they were listed. Added: new (fresh), newer;"
        " now in another group: a_two (digits); gone: b_one."
    )
    assert Listing.of(names("lone"), {}).changes_since(Listing.of(names("lone", "x"), {})) == (
        "The tools have changed since they were listed. Gone: x."
    )
    assert "now in another group: x (no group)" in Listing.of(names("x", "y"), {}).changes_since(
        Listing.of(names("x"), {"x": "g"})
    )


def test_many_changes_are_counted():
    crowd = Listing.of(names(*(f"tool_{number:03}" for number in range(200))), {})
    text = crowd.changes_since(Listing.of(Toolset(), {}))
    assert "tool_049 and 150 more" in text and "tool_050" not in text
    assert "\n" not in text
    assert Listing.of(Toolset(), {}).changes_since(crowd).count("and 150 more") == 1
