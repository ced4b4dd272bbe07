"""Messages on terminals of several kinds: what is shown, and that nothing of a stranger's acts there."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from actbox import ErrorInfo, ErrorKind, ExecutionResult
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
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    code_content,
)
from actbox.content.results import content_from_result
from actbox.content.terminal import TranscriptView
from actbox.content.terminal_pictures import MAX_BYTES
from tests.content import items_to_try

KITTY = {"TERM": "xterm-kitty"}
ITERM = {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}
PLAIN = {"TERM": "xterm-256color"}
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + bytes(6000)


def shown(*items: Content, environment=PLAIN, terminal: bool = True, messages=None) -> str:
    written = io.StringIO()
    console = Console(
        file=written, force_terminal=terminal, width=100, highlight=False, legacy_windows=False, _environ=environment
    )
    console.print(TranscriptView(messages or [Message(contents=items)], environment=environment))
    return written.getvalue()


def words(text: str) -> str:
    return re.sub(r"\x1b(\[[0-9;]*m|\]8;[^\x1b]*\x1b\\)", "", text)


def test_turns_code_output_and_errors_are_shown():
    error = ErrorInfo(
        kind=ErrorKind.RUNTIME, type="KeyError", message="'x'", line=2, traceback="Traceback …", hint="look"
    )
    result = ExecutionResult(stdout="printed", stderr="careful", exit_code=1, error=error)
    text = words(
        shown(
            messages=[
                Message(role="user", contents=(TextContent(text="**Why?**"),)),
                Message(
                    model="some-model",
                    contents=(
                        CodeInterpreterCall(call_id="c", inputs=(code_content("d = {}\nd['x']"),)),
                        FunctionCall(call_id="f", name="look_up", arguments={"city": "Oslo"}, called_by="c"),
                        FunctionResult(call_id="f", provider_data={"actbox": {"wall_ms": 12.0}}),
                        *content_from_result(result, call_id="c"),
                        UsageContent(input_tokens=1200),
                    ),
                ),
            ]
        )
    )
    for said in ("user", "Why?", "some-model", "❱ 2 d['x']", "look_up  ok · 12 ms", '"Oslo"', "printed", "careful"):
        assert said in text
    for said in (
        "exit code 1",
        "Traceback …",
        "error RUNTIME in line 2: KeyError: 'x'",
        "hint: look",
        "1,200 tokens in",
    ):
        assert said in text


def test_a_result_within_a_result_is_shown_as_one():
    inner = CodeInterpreterResult(call_id="i", outputs=(TextContent(text="deep"),), exit_code=2)
    text = words(shown(FunctionResult(call_id="f", outputs=(inner,))))
    assert "deep" in text and "exit code 2" in text


def test_colours_of_output_stay_and_nothing_else_of_it_acts():
    text = shown(TextContent(text="\x1b[31mred\x1b[0m\x1b[2J\x1b]0;title\x07\x9b5n\x1b[8mseen\x1b[0m", stream="stdout"))
    assert "\x1b[31mred" in text
    assert "^[[2J^[]0;title^G\\x9b5n" in words(text) and "seen" in words(text)
    assert "\x1b[8m" not in text


HARMLESS = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;(id=\d+;https?://[!-~]+|;)\x1b\\")


@pytest.mark.slow
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(items_to_try.messages, max_size=3))
def test_no_messages_act_on_the_terminal(messages):
    rest = HARMLESS.sub("", shown(messages=messages) if messages else "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rest)


@pytest.mark.parametrize(
    "attack", ["\x1b]8;;http://x\x1b\\", "\x1b[2J", "\x9b2J", "\r", "\x07", "\x1b", "\u202e", "[red]"]
)
def test_no_field_of_any_item_acts_on_the_terminal(attack):
    bad = f"a{attack}b"
    text = shown(
        messages=[
            Message(
                role=bad,
                author=bad,
                model=bad,
                contents=(
                    TextContent(text=bad, annotations=(Annotation(title=bad, url=f"https://{bad}"),)),
                    TextContent(text=f"```{bad}\n{bad}\n```\n[{bad}](https://x/{bad}) ![{bad}]({bad})\n# {bad}"),
                    CodeInterpreterCall(call_id=bad, name=bad, inputs=(code_content(bad, bad),)),
                    CodeInterpreterResult(call_id=bad, outcome=bad, outputs=(TextContent(text=bad),)),
                    FunctionCall(call_id="f", name=bad, arguments={bad: bad}),
                    FunctionResult(call_id="g", name=bad, outputs=(ErrorContent(message=bad, code=bad, details=bad),)),
                    HostedFileContent(file_id=bad, name=bad, media_type=bad),
                    UriContent(uri=bad, name=bad, media_type=bad),
                    UriContent(uri=f"https://x/{bad}"),
                    DataContent(media_type=bad, data=bad.encode(), name=bad),
                    DataContent(media_type="text/plain", data=bad.encode()),
                    UnknownContent(format=bad, raw={"type": bad}),
                    UsageContent(counts={bad: 1}),
                ),
            )
        ]
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", HARMLESS.sub("", text))
    if attack == "[red]":
        assert words(text).count("a[red]b") > 15


def test_links_to_the_web_are_links_and_no_others():
    text = shown(
        UriContent(uri="https://example.com/a", name="here"), UriContent(uri="file:///etc/passwd", name="there")
    )
    assert ";https://example.com/a\x1b\\" in text
    assert "file:///etc/passwd" in words(text) and ";file:" not in text


def test_kitty_shows_a_png_in_pieces_that_it_takes():
    text = shown(DataContent(media_type="image/png", data=PNG, name="c.png"), environment=KITTY)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    assert pieces[0][0] == "a=T,f=100,q=2,m=1" and pieces[-1][0] == "m=0"
    assert all(len(piece) <= 4096 for _, piece in pieces)


def test_kitty_is_told_how_wide_a_wide_picture_may_be():
    wide = PNG.replace((640).to_bytes(4, "big"), (6400).to_bytes(4, "big"))
    assert ",c=100," in shown(DataContent(media_type="image/png", data=wide), environment={"KITTY_WINDOW_ID": "1"})


@pytest.mark.parametrize("program", ["iTerm.app", "WezTerm"])
def test_others_show_pictures_inline(program):
    environment = {**ITERM, "TERM_PROGRAM": program}
    text = shown(DataContent(media_type="image/jpeg", data=b"\xff\xd8\xff\xe0"), environment=environment)
    assert "\x1b]1337;File=inline=1;size=4;preserveAspectRatio=1:/9j/4A==\x07" in text


@pytest.mark.parametrize(
    ("media_type", "data", "environment", "terminal"),
    [
        ("image/png", PNG, PLAIN, True),
        ("image/png", PNG, KITTY, False),
        ("image/png", PNG, {**KITTY, "TMUX": "/tmp/x"}, True),
        ("image/png", PNG, {"TERM": "screen", "KITTY_WINDOW_ID": "1"}, True),
        ("image/jpeg", b"\xff\xd8\xff", KITTY, True),
        ("image/png", b"\x1b\\ not a picture", KITTY, True),
        ("image/png", PNG + bytes(MAX_BYTES), ITERM, True),
        ("image/svg+xml", b"<svg/>", ITERM, True),
    ],
)
def test_a_picture_that_cannot_be_shown_is_named_with_what_shows_it(media_type, data, environment, terminal):
    item = DataContent(media_type=media_type, data=data, name="chart")
    text = shown(item, environment=environment, terminal=terminal)
    assert "\x1b_G" not in text and "\x1b]1337" not in text
    assert "picture chart" in words(text) and "--html" in words(text)


def test_a_value_is_shown_in_its_plainest_form():
    text = words(shown(*content_from_result(ExecutionResult(value_text="DataFrame", value_forms={"text/html": "<b>"}))))
    assert "value DataFrame" in text and "<b>" not in text


@pytest.mark.slow
def test_what_is_huge_is_cut():
    items = [TextContent(text="x" * 5_000_000, stream="stdout"), TextContent(text="word " * 1_000_000)]
    items += [CodeInterpreterCall(call_id="c", inputs=(code_content("x = 1\n" * 500_000),))]
    text = shown(*items)
    assert len(text) < 600_000 and text.count("left out") == 3


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("\r 10%|#\r100%|##########|\ndone", "100%|##########|\ndone"),
        ("long line\rshort\n", "shortline"),
        ("kept\r\nand\r", "kept\nand"),
        ("\x1b[31mabcd\x1b[0m\r\x1b[32mx\x1b[0m", "xbcd"),
    ],
)
def test_a_carriage_return_begins_the_line_anew(written, left):
    assert words(shown(TextContent(text=written, stream="stdout"))).partition("\n")[2].rstrip() == left


def test_standard_error_is_red_only_where_the_result_failed():
    warned, failed = (
        shown(
            CodeInterpreterResult(call_id="c", outputs=(TextContent(text="careful", stream="stderr"),), exit_code=code)
        )
        for code in (0, 1)
    )
    assert "\x1b[33mcareful" in warned and "\x1b[31mcareful" in failed
