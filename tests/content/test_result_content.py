"""Results of real runs become content, and content results again, with nothing lost."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import actbox
from actbox.content import (
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    TextContent,
    UriContent,
    UsageContent,
    coalesce,
    content_from_dict,
)
from actbox.content.files import LocalFileStore
from actbox.content.results import content_from_result, result_from_content, updates_from_events

RICH = """
import sys
class Table:
    def __repr__(self): return "<Table>"
    def _repr_html_(self): return "<table></table>"
    def _repr_png_(self): return b"\\x89PNG not really"
print("to stdout")
print("to stderr", file=sys.stderr)
open("output/table.csv", "w").write("a,b")
open("output/note.txt", "w").write("text")
Table()
"""
PROGRAMS = {
    "rich": RICH,
    "a value": "{'a': [1, 2.5, None]}",
    "nothing": "pass",
    "an exception": "print('before')\n1/0",
    "an exit": "import sys\nsys.exit(3)",
    "a syntax error": "def",
    "too much output": "while True: print('x' * 1000)",
    "a signal": "import os\nos.kill(os.getpid(), 9)",
}
POLICY = actbox.Policy(limits=actbox.Limits(output_bytes=10_000))


@pytest.fixture(scope="module")
def results() -> dict[str, actbox.ExecutionResult]:
    return {name: actbox.run(code, policy=POLICY) for name, code in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_result_comes_back_from_its_content(results, name) -> None:
    assert result_from_content(content_from_result(results[name])) == results[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_result_comes_back_from_its_content_as_json(results, name) -> None:
    documents = json.loads(json.dumps([item.to_dict() for item in content_from_result(results[name])]))
    assert result_from_content(map(content_from_dict, documents)) == results[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_result_comes_back_from_its_own_document(results, name) -> None:
    assert actbox.ExecutionResult.from_dict(json.loads(json.dumps(results[name].to_dict()))) == results[name]


def test_what_a_result_is_made_of(results) -> None:
    result, usage = content_from_result(results["rich"], call_id="c1")
    assert isinstance(result, CodeInterpreterResult)
    assert (result.call_id, result.exit_code, result.outcome, result.success) == ("c1", 0, "ok", True)
    printed, warned, text, html, png, *files = result.outputs
    assert (printed, warned) == (
        TextContent(text="to stdout\n", stream="stdout"),
        TextContent(text="to stderr\n", stream="stderr"),
    )
    assert isinstance(text, TextContent)
    assert text.text == "<Table>"
    assert {(form.media_type, form.data) for form in (html, png)} == {
        ("text/html", b"<table></table>"),
        ("image/png", b"\x89PNG not really"),
    }
    assert [(file.name, file.media_type) for file in files] == [("note.txt", "text/plain"), ("table.csv", "text/csv")]
    assert isinstance(usage, UsageContent)
    assert usage.counts["wall_ms"] > 0


def test_stderr_is_no_error_and_an_exception_is_one(results) -> None:
    assert not any(isinstance(item, ErrorContent) for item in content_from_result(results["rich"])[0].outputs)
    error = content_from_result(results["an exception"])[0].outputs[-1]
    assert isinstance(error, ErrorContent)
    assert error.message == "ZeroDivisionError: division by zero"
    assert "1/0" in (error.details or "")


@pytest.mark.slow
def test_a_run_that_took_too_long_says_so() -> None:
    result = actbox.run("while True: pass", timeout=0.2)
    assert content_from_result(result)[0].outcome == "timeout"


def test_large_files_go_into_a_store_and_come_back(results, tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    items = content_from_result(results["rich"], store=store, inline_bytes=3)
    note, table = items[0].outputs[-2:]
    assert isinstance(note, HostedFileContent)
    assert isinstance(table, DataContent)
    assert store.get(note.file_id) == b"text"
    assert result_from_content(items, store=store) == results["rich"]


def test_a_file_that_cannot_be_had_is_named(results, tmp_path: Path) -> None:
    items = content_from_result(results["rich"], store=LocalFileStore(tmp_path), inline_bytes=3)
    result = result_from_content(items)
    assert [artifact.name for artifact in result.artifacts] == ["table.csv"]
    assert "note.txt" in result.warnings[-1]


def test_the_result_of_a_provider_becomes_one_of_ours() -> None:
    outputs = (
        TextContent(text="out", stream="stdout"),
        TextContent(text="err", stream="stderr"),
        ErrorContent(message="NameError: x", details="Traceback"),
        DataContent(media_type="image/png", data=b"png"),
    )
    result = result_from_content([CodeInterpreterResult(call_id="c", outputs=outputs)])
    assert (result.stdout, result.stderr, result.exit_code, result.success) == ("out", "err", 1, False)
    assert result.error is not None
    assert (result.error.message, result.error.traceback) == ("NameError: x", "Traceback")
    assert [(artifact.media_type, artifact.data) for artifact in result.artifacts] == [("image/png", b"png")]


def test_content_without_a_result_is_refused() -> None:
    with pytest.raises(ValueError, match="no result"):
        result_from_content([TextContent(text="hi")])


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({"stdout": 1}, "stdout"),
        ({"artifacts": [{"name": "a", "media_type": "", "data": "?"}]}, "artifacts"),
        ({"error": {"kind": "NEW"}}, "error"),
        ({"value_forms": []}, "value_forms"),
        ({"exit_code": "0"}, "exit_code"),
        ({"artifacts": None}, "artifacts"),
    ],
)
def test_a_document_that_is_not_as_it_should_be_is_refused_by_the_field(document, named) -> None:
    with pytest.raises(ValueError, match=named):
        actbox.ExecutionResult.from_dict(document)


CALLS = """
print(double(21))
try:
    fail()
except Exception as error:
    print(error)
open("output/a.txt", "w").write("a")
"""


@actbox.tool
def double(n: int) -> int:
    """Double it."""
    return 2 * n


@actbox.tool
def fail() -> None:
    """Fail."""
    raise ValueError("not today")


TOOLS = actbox.Toolset.of([double, fail])


@pytest.mark.parametrize("code", [CALLS, *PROGRAMS.values()], ids=["tools", *PROGRAMS])
async def test_the_updates_of_a_live_run_come_to_the_content_of_its_result(code) -> None:
    events = []

    async def watched(stream):
        async for event in stream:
            events.append(event)
            yield event

    async with actbox.open_sandbox(policy=POLICY) as box:
        stream = updates_from_events(watched(box.stream(code, tools=TOOLS)), call_id="c")
        items = coalesce([item async for update in stream for item in update.contents])
    result = events[-1].result
    came_to = result_from_content(items)
    assert came_to == dataclasses.replace(result, stdout=came_to.stdout, stderr=came_to.stderr)
    assert (came_to.stdout, came_to.stderr) == (result.stdout, result.stderr)


async def test_calls_of_tools_are_told_as_calls_by_the_program() -> None:
    async with actbox.open_sandbox() as box:
        updates = [update async for update in updates_from_events(box.stream(CALLS, tools=TOOLS), call_id="c")]
    items = coalesce(item for update in updates for item in update.contents)
    calls = [item for item in items if isinstance(item, FunctionCall)]
    assert [(call.name, call.arguments, call.called_by) for call in calls] == [
        ("double", {"n": 21}, "c"),
        ("fail", {}, "c"),
    ]
    returned = {item.call_id: item for item in items if isinstance(item, FunctionResult)}
    assert returned[calls[0].call_id].text == "42"
    assert returned[calls[1].call_id].is_error
    assert "not today" in returned[calls[1].call_id].outputs[0].message


async def test_output_comes_as_it_is_printed() -> None:
    async with actbox.open_sandbox() as box:
        code = (
            "import os, time\nfor n in range(3):\n    print(n, flush=True)\n"
            "    while not os.path.exists(f'seen-{n + 1}'): time.sleep(0.01)"
        )
        updates = []
        async for update in updates_from_events(box.stream(code)):
            updates.append(update)
            await box.write_file(f"seen-{len(updates)}", b"")
    pieces = [update.contents[0].outputs for update in updates[:-1]]
    assert [piece[0].text for piece in pieces] == ["0\n", "1\n", "2\n"]


def result_with(*outputs, **fields) -> actbox.ExecutionResult:
    return result_from_content([CodeInterpreterResult(call_id="c", outputs=outputs, **fields)])


def test_files_of_one_name_are_both_there_and_a_warning_says_so() -> None:
    files = [DataContent(media_type="text/csv", data=data, name="t.csv") for data in (b"a", b"b")]
    result = result_with(*files)
    assert {file.name: file.data for file in result.artifacts} == {"t.csv": b"a", "t-2.csv": b"b"}
    assert "t-2.csv" in result.warnings[0]


def test_a_file_without_a_name_takes_nobody_elses() -> None:
    unnamed = DataContent(media_type="image/png", data=b"u")
    named = DataContent(media_type="image/png", data=b"n", name="output-1")
    assert {file.data for file in result_with(unnamed, named).artifacts} == {b"u", b"n"}


def test_what_a_result_has_no_place_for_is_a_warning() -> None:
    link = UriContent(uri="https://example.com/a.png")
    errors = [ErrorContent(message=message) for message in ("first", "second")]
    result = result_with(link, *errors, exit_code=1)
    assert result.error is not None
    assert result.error.message == "second"
    assert "https://example.com/a.png" in result.warnings[1]
    assert "first" in result.warnings[0]
    assert "second" in result_with(errors[1], exit_code=0).warnings[0]


def test_an_outcome_alone_says_that_time_was_up() -> None:
    result = result_with(outcome="timeout")
    assert result.error is not None
    assert (result.exit_code, result.error.kind) == (124, actbox.ErrorKind.TIMEOUT)


def test_our_own_marks_in_a_strangers_document_are_no_crash() -> None:
    value = DataContent(media_type="text/html", data=b"\xff", provider_data={"actbox": {"part": "value"}})
    assert result_with(value, provider_data={"actbox": {"warnings": None}}).value_forms == {"text/html": b"\xff"}


def test_a_result_is_printed_as_a_person_reads_it():
    result = actbox.run("print('hi')\n6 * 7", policy=POLICY)
    assert str(result) == "[stdout]\nhi\n\n[value]\n42"
    assert "ExecutionResult(" in repr(result)


def test_content_of_a_result_has_its_streams_and_files_and_is_printed_as_a_person_reads_it():
    outputs = (
        TextContent(text="out\n", stream="stdout"),
        TextContent(text="careful\n", stream="stderr"),
        DataContent(media_type="text/csv", data=b"a,b", name="t.csv"),
        DataContent(media_type="text/html", data=b"<b>1</b>"),
        HostedFileContent(file_id="file-1", name="big.bin"),
        ErrorContent(message="KeyError: 'x'", code="KeyError"),
    )
    content = CodeInterpreterResult(call_id="c", outputs=outputs, outcome="failed")
    assert (content.stdout, content.stderr) == ("out\n", "careful\n")
    assert [file.name for file in content.files] == ["t.csv", "big.bin"]
    for words in ("out\ncareful\n", "t.csv", "big.bin", "KeyError: 'x'"):
        assert words in str(content)
    assert "call_id" not in str(content) and "CodeInterpreterResult" in repr(content)
    assert str(CodeInterpreterResult(call_id="c")) == "(no output)"
