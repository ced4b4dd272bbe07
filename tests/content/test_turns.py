"""What pages and terminals show alike: tools of providers, editors, structured content, errors and numbers in words."""

from __future__ import annotations

import json

import pytest

import actbox
from actbox import ErrorInfo, ErrorKind, ExecutionResult
from actbox.content import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    Message,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UsageContent,
    code_content,
)
from actbox.content.results import content_from_result
from actbox.content.transcripts import read_transcript
from actbox.content.turns import size, turns_of, usage_in_words
from actbox.content.wire.formats import find_format
from tests.content.test_page import Seen, html_page
from tests.content.test_terminal import shown, words


def both(messages) -> list[str]:
    """Return the words on a page and on a terminal."""
    return [" ".join(Seen(html_page(messages, title="t")).text.split()), words(shown(messages=messages))]


def anthropic(*blocks):
    return find_format("anthropic").read({"messages": [{"role": "assistant", "content": list(blocks)}]})


SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "how deep"}}
FOUND = {"type": "web_search_result", "title": "Depths", "url": "https://example.com/d", "encrypted_content": "eA=="}


def test_a_search_of_anthropics_is_a_tool_with_its_query_and_what_it_found():
    messages = anthropic(SEARCH, {"type": "web_search_tool_result", "tool_use_id": "s", "content": [FOUND]})
    for text in both(messages):
        for said in ("web_search", "how deep", "Depths", "ok"):
            assert said in text
        assert "not known here" not in text
    assert "1 tool call" in both(messages)[0]


def test_a_search_of_anthropics_that_failed_says_so():
    failed = {"type": "web_search_tool_result_error", "error_code": "too_many_requests"}
    for text in both(anthropic(SEARCH, {"type": "web_search_tool_result", "tool_use_id": "s", "content": failed})):
        assert "failed" in text and "too_many_requests" in text


@pytest.mark.parametrize(("status", "outcome"), [("completed", "ok"), ("failed", "failed"), ("searching", "no result")])
def test_a_search_of_openais_is_a_tool_with_its_query(status, outcome):
    call = {"type": "web_search_call", "id": "ws", "status": status, "action": {"type": "search", "query": "how deep"}}
    for text in both(find_format("openai-responses").read([call])):
        assert "web_search" in text and "how deep" in text and outcome in text and "not known here" not in text


def test_an_item_that_is_not_known_is_shown_as_json_on_terminals_too():
    text = both(find_format("openai-responses").read([{"type": "mcp_list_tools", "id": "m", "tools": ["deep"]}]))[1]
    assert "mcp_list_tools" in text and '"deep"' in text


def test_a_file_that_an_editor_writes_is_laid_out_as_code():
    given = {"command": "create", "path": "/tmp/a.py", "file_text": "import os\nprint(1)\n"}
    messages = anthropic(
        {"type": "server_tool_use", "id": "e", "name": "text_editor_code_execution", "input": given},
        {
            "type": "text_editor_code_execution_tool_result",
            "tool_use_id": "e",
            "content": {"type": "text_editor_code_execution_create_result", "is_file_update": False},
        },
    )
    assert '<span class="tk">import</span>' in html_page(messages, title="t")
    for text in both(messages):
        assert "/tmp/a.py" in text and "create" in text and "import os" in text and "\\n" not in text and "ok" in text


def test_structured_content_of_a_tool_is_shown_unless_its_text_says_the_same():
    def read(**result):
        return both(find_format("mcp").read(result))

    same = {"rows": [1, 2]}
    for text in read(structuredContent=same) + read(structuredContent=same, content=[{"type": "text", "text": "done"}]):
        assert text.count('"rows"') == 1
    for text in read(structuredContent=same, content=[{"type": "text", "text": json.dumps(same)}]):
        assert text.count('"rows"') == 1
    for text in read(structuredContent={"result": "hello"}, content=[{"type": "text", "text": "hello"}]):
        assert text.count("hello") == 1


def test_structured_content_is_in_what_a_notebook_reads_as_text():
    (message,) = find_format("mcp").read({"structuredContent": {"rows": 7}})
    assert '"rows": 7' in message._repr_mimebundle_()["text/plain"]


def test_an_error_is_said_once():
    same = ErrorContent(message="too_long", code="too_long")
    typed = ErrorContent(message="KeyError: 'x'", code="KeyError", details="Traceback\nKeyError: 'x'")
    for text in both([Message(contents=(same,))]):
        assert text.count("too_long") == 1
    for text in both([Message(contents=(typed,))]):
        assert text.count("KeyError") == 1


def test_a_run_of_ours_without_its_program_is_called_a_result():
    for text in both([Message(contents=content_from_result(ExecutionResult(stdout="hi")))]):
        assert "result" in text and "of code" not in text and "run" not in text
    assert "result 2" in both([Message(contents=(CodeInterpreterResult(call_id="run-2"),))])[1]


def test_reasoning_is_called_that_on_a_terminal_without_colours():
    assert "reasoning: hm" in shown(ReasoningContent(text="hm"), terminal=False)


def test_usage_is_in_words():
    usage = UsageContent(counts={"output_tokens_details.reasoning_tokens": 64, "web_search_requests": 2})
    assert usage_in_words(usage) == ["64 reasoning tokens out", "2 web search requests"]


def test_cells_of_a_notebook_are_headed_as_there():
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "# Depths"},
        {"cell_type": "code", "execution_count": 3, "metadata": {}, "source": "1", "outputs": []},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    turns = turns_of(find_format("jupyter").read(notebook))
    assert [turn.heading for turn in turns] == ["text", "In [3]"]


def test_the_count_of_failures_leads_to_the_first_of_them():
    error = ErrorInfo(kind=ErrorKind.RUNTIME, message="no")
    failed = content_from_result(ExecutionResult(exit_code=1, error=error), call_id="a")
    within = (FunctionCall(call_id="i", called_by="a"), FunctionResult(call_id="i", is_error=True))
    page = Seen(
        html_page([Message(contents=(TextContent(text="hi"),)), Message(contents=(*failed, *within))], title="t")
    )
    assert "#failure-1" in [said["href"] for said in page.all("a")] and "2 failed" in page.text
    assert [said["id"] for said in page.all("li") if "id" in said] == ["failure-1", "failure-2"]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [150, 600, 100_000])
def test_what_is_nested_deeply_is_shown_as_it_is(depth):
    deep = '{"a":' * depth + "1" + "}" * depth
    calls = [
        CodeInterpreterCall(call_id="e", inputs=(code_content(deep, "json"),)),
        UnknownContent(format="f", raw={"type": "odd_call", "id": "o", "status": "completed", "arguments": deep}),
    ]
    for call in calls:
        for text in both([Message(contents=(call,))]):
            assert '"a"' in text
    if depth < 200:
        value = json.loads(deep)
        result = FunctionResult(call_id="m", provider_data={"mcp": {"structuredContent": value}})
        for text in both([Message(contents=(result, UnknownContent(format="f", raw=value)))]):
            assert '"a"' in text


def test_a_search_of_geminis_interactions_is_a_call_and_its_result():
    steps = [
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["deepest lake"]}},
        {"type": "google_search_result", "call_id": "s", "result": [{"url": "https://example.com", "title": "Lakes"}]},
    ]
    for text in both(find_format("gemini-interactions").read(steps)):
        assert "google_search" in text and "deepest lake" in text and "Lakes" in text and "unknown" not in text


def test_a_cell_without_output_has_no_word_on_how_it_ended():
    cell = {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "import os", "outputs": []}
    for text in both(find_format("jupyter").read(cell)):
        assert "import os" in text and "no result" not in text


def test_counts_are_words_and_no_keys_of_an_api():
    counts = {
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 4,
        "toolUsePromptTokenCount": 5,
        "cacheReadInputTokens": 6,
        "latencyMs": 700,
        "server_tool_use.web_search_requests": 2,
        "prompt_tokens_details.cached_tokens": 8,
        "max_rss_bytes": 1024,
    }
    assert usage_in_words(UsageContent(counts=counts)) == [
        "3 thought tokens",
        "4 cached content tokens",
        "5 tool use prompt tokens",
        "6 cache read input tokens",
        "latency 700 ms",
        "2 web search requests",
        "8 cached tokens in",
        "memory 1.0 KiB",
    ]


def test_the_text_of_a_value_is_there_once():
    forms = {"text/html": "<b>1</b>", "text/plain": "1"}
    page = html_page(
        [Message(contents=content_from_result(ExecutionResult(value_text="1", value_forms=forms)))], title="t"
    )
    assert page.count("<summary>as text</summary>") == 1 and "text/plain" not in page


def test_results_are_called_that_and_show_their_programs():
    results = [json.dumps({"id": number, **actbox.run(f"print({number} * 7)").to_dict()}) for number in (6, 8)]
    transcript = read_transcript("\n".join(results))
    assert [turn.heading for turn in turns_of(transcript.messages)] == ["result 6", "result 8"]
    page = Seen(html_page(transcript.messages, title="t"))
    assert "2 results" in page.text and "turn" not in page.text.replace("return", "")
    for text in both(transcript.messages):
        assert "print(6 * 7)" in text and "56" in text


def test_one_byte_is_one():
    assert [size(count) for count in (0, 1, 2, 1536)] == ["0 bytes", "1 byte", "2 bytes", "1.5 KiB"]
