"""A measurement of the features that survive each format, by writing and reading; it makes docs/conversions.md.

    python -m tests.content.matrix

A message with everything is written in a format and read again; then the same once more through a second format.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from actbox.content import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    Message,
    ReasoningContent,
    TextContent,
    UriContent,
    UsageContent,
    code_content,
)
from actbox.content.wire.formats import NAMES, find_format

WRITTEN = tuple(name for name in NAMES if not find_format(name).read_only)
READ_ONLY = "read only"
PAGE = Path(__file__).parents[2] / "docs" / "conversions.md"

CODE, R_CODE = "print(6 * 7)\n", "x <- 6 * 7\n"
PICTURE = b"\x89PNG\r\n\x1a\n picture"
CHART = b"\x89PNG\r\n\x1a\n chart"

TRANSCRIPT = (
    Message(role="system", contents=(TextContent(text="You can run code."),)),
    Message(
        role="user",
        contents=(
            TextContent(text="What is six times seven?"),
            DataContent(media_type="image/png", data=PICTURE),
            UriContent(uri="https://example.com/cat.png", media_type="image/png"),
            HostedFileContent(file_id="file-input", name="numbers.csv", media_type="text/csv"),
        ),
    ),
    Message(
        role="assistant",
        id="msg-1",
        model="some-model",
        finish_reason="stop",
        contents=(
            ReasoningContent(text="I had better run it.", protected_data="c2VhbGVk"),
            TextContent(text="Let me see."),
            FunctionCall(call_id="call-f", name="look_up", arguments={"what": "seven"}),
        ),
    ),
    Message(
        role="tool",
        contents=(FunctionResult(call_id="call-f", name="look_up", outputs=(TextContent(text="it is 7"),)),),
    ),
    Message(
        role="assistant",
        contents=(FunctionCall(call_id="call-g", name="look_up", arguments={"what": "eight"}, called_by="call-c"),),
    ),
    Message(
        role="tool",
        contents=(
            FunctionResult(
                call_id="call-g", name="look_up", outputs=(ErrorContent(message="no such number"),), is_error=True
            ),
        ),
    ),
    Message(
        role="assistant",
        contents=(
            CodeInterpreterCall(call_id="call-c", inputs=(code_content(CODE), HostedFileContent(file_id="file-c"))),
            CodeInterpreterResult(
                call_id="call-c",
                outputs=(
                    TextContent(text="42\n", stream="stdout"),
                    TextContent(text="careful\n", stream="stderr"),
                    DataContent(media_type="image/png", data=CHART, name="chart.png"),
                    DataContent(media_type="text/plain", data=b"a note", name="note.txt"),
                    HostedFileContent(file_id="file-made", name="big.bin"),
                ),
                exit_code=0,
                outcome="ok",
            ),
            CodeInterpreterCall(call_id="call-r", inputs=(code_content(R_CODE, "r"),)),
            CodeInterpreterResult(
                call_id="call-r",
                outputs=(ErrorContent(message="NameError: no x", code="NameError", details="Traceback, line 1"),),
                exit_code=3,
                outcome="failed",
            ),
            TextContent(
                text="It is 42.",
                annotations=(Annotation(url="https://example.com/math", title="Maths", start=6, end=8),),
            ),
            UsageContent(input_tokens=12, output_tokens=34),
        ),
    ),
)


def _all(messages: Sequence[Message]) -> Iterator[Content]:
    for message in messages:
        yield from _within(message.contents)


def _within(items: Sequence[Content]) -> Iterator[Content]:
    for item in items:
        yield item
        yield from _within(getattr(item, "outputs", ()))
        yield from _within(getattr(item, "inputs", ()))


def _says(text: str, role: str) -> Callable[[Sequence[Message]], bool]:
    return lambda messages: any(text in message.text and message.role == role for message in messages)


def _has(kind: type, test: Callable[[Content], bool]) -> Callable[[Sequence[Message]], bool]:
    return lambda messages: any(isinstance(item, kind) and test(item) for item in _all(messages))


def _result_of(messages: Sequence[Message], code: str) -> CodeInterpreterResult | None:
    """Return the result of the call with this code."""
    ids = [item.call_id for item in _all(messages) if isinstance(item, CodeInterpreterCall) and code in item.code]
    found = (item for item in _all(messages) if isinstance(item, CodeInterpreterResult) and item.call_id in ids)
    return next(found, None)


def _result(code: str, test: Callable[[CodeInterpreterResult], bool]) -> Callable[[Sequence[Message]], bool]:
    return lambda messages: (result := _result_of(messages, code)) is not None and test(result)


FEATURES: dict[str, Callable[[Sequence[Message]], bool]] = {
    "what the user says": _says("six times seven", "user"),
    "what the model says": _says("Let me see.", "assistant"),
    "the system's word": lambda messages: any(
        "You can run code." in message.text and message.role in ("system", "developer") for message in messages
    ),
    "reasoning": _has(ReasoningContent, lambda item: "better run it" in item.text),
    "protected reasoning": _has(ReasoningContent, lambda item: item.protected_data == "c2VhbGVk"),
    "a picture": _has(DataContent, lambda item: item.data == PICTURE and item.media_type == "image/png"),
    "a link to a picture": _has(UriContent, lambda item: item.uri == "https://example.com/cat.png"),
    "a hosted file": _has(HostedFileContent, lambda item: item.file_id == "file-input"),
    "a call of a function": _has(
        FunctionCall, lambda item: item.name == "look_up" and item.arguments == {"what": "seven"}
    ),
    "its result": _has(FunctionResult, lambda item: "it is 7" in item.text),
    "that a result is an error": _has(FunctionResult, lambda item: item.is_error),
    "that a program called": _has(FunctionCall, lambda item: item.called_by is not None),
    "code": _has(CodeInterpreterCall, lambda item: CODE.strip() in item.code),
    "code in other languages than Python": _has(
        CodeInterpreterCall, lambda item: R_CODE.strip() in item.code and item.language == "r"
    ),
    "code's call id": _has(CodeInterpreterCall, lambda item: item.call_id == "call-c" and CODE.strip() in item.code),
    "code's files": _has(
        CodeInterpreterCall,
        lambda item: any(isinstance(other, HostedFileContent) and other.file_id == "file-c" for other in item.inputs),
    ),
    "what code printed": _result(CODE, lambda result: "42" in result.text),
    "stderr apart": _result(
        CODE,
        lambda result: any(
            isinstance(item, TextContent) and item.stream == "stderr" and item.text.strip() == "careful"
            for item in result.outputs
        ),
    ),
    "that code succeeded": _result(CODE, lambda result: result.success is True),
    "that code failed": _result(R_CODE, lambda result: result.success is False),
    "its exit code": _result(R_CODE, lambda result: result.exit_code == 3),
    "its error": _result(
        R_CODE,
        lambda result: any(isinstance(item, ErrorContent) and "no x" in item.message for item in result.outputs),
    ),
    "a picture it made": _result(
        CODE, lambda result: any(isinstance(item, DataContent) and item.data == CHART for item in result.outputs)
    ),
    "a text file it made": _result(
        CODE,
        lambda result: any(
            isinstance(item, DataContent) and item.data == b"a note" and item.name == "note.txt"
            for item in result.outputs
        ),
    ),
    "a hosted file it made": _result(
        CODE,
        lambda result: any(
            isinstance(item, HostedFileContent) and item.file_id == "file-made" for item in result.outputs
        ),
    ),
    "citations": lambda messages: any(
        note.url == "https://example.com/math" for item in _all(messages) for note in item.annotations
    ),
    "usage": _has(UsageContent, lambda item: (item.input_tokens, item.output_tokens) == (12, 34)),
}


def through(name: str, messages: Sequence[Message]) -> list[Message]:
    """Return messages as they come back from a format."""
    format = find_format(name)
    document = format.write(messages).document
    return format.read(document) if document else []


def features_of(messages: Sequence[Message]) -> list[str]:
    """Return which features some messages have."""
    return [name for name, test in FEATURES.items() if test(messages)]


def _counted(alone: dict[str, list[Message]], first: str, second: str) -> str:
    if not {first, second} <= alone.keys():
        return READ_ONLY
    there = features_of(alone[first])
    return f"{len(set(there) & set(features_of(through(second, alone[first]))))}/{len(there)}"


def page() -> str:
    """Return the page, in Markdown."""
    alone = {name: through(name, TRANSCRIPT) for name in WRITTEN}
    lines = [
        "# What survives a conversion",
        "",
        "Made by `python -m tests.content.matrix`, which writes one transcript with everything in each format and",
        "reads it again; a test fails where this page is out of date. What a format cannot say, its writer reports.",
        "",
        "## What each format can say",
        "",
        f"| | {' | '.join(NAMES)} |",
        f"|---|{'---|' * len(NAMES)}",
    ]
    for feature in FEATURES:
        marks = [
            READ_ONLY if name not in alone else "yes" if feature in features_of(alone[name]) else "–" for name in NAMES
        ]
        lines.append(f"| {feature} | {' | '.join(marks)} |")
    lines += [
        "",
        "## From one format into another",
        "",
        f"How many of the {len(FEATURES)} features above are there after content was written in the format at the",
        "left, read, written in the format above, and read again; and, after the slash, of how many that were there",
        "after the first.",
        "",
        f"| from, to | {' | '.join(NAMES)} |",
        f"|---|{'---|' * len(NAMES)}",
    ]
    for first in NAMES:
        counts = [_counted(alone, first, second) for second in NAMES]
        lines.append(f"| {first} | {' | '.join(counts)} |")
    lines += ["", "## What is lost, and how"]
    for name in NAMES:
        lines += ["", f"### {name}", ""]
        if name not in WRITTEN:
            lines.append("It is read only: the service was shut down, and takes nothing any more.")
            continue
        losses = sorted({(loss.what, loss.how) for loss in find_format(name).write(TRANSCRIPT).losses})
        lines += [f"- `{what}`: {how}" for what, how in losses] or ["Nothing."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE, file=sys.stderr)
