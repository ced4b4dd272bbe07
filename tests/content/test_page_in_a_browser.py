"""Pages in a real browser: what is to be seen is there, and nothing is run, fetched or complained of."""

from __future__ import annotations

import base64
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from actbox import Artifact, ErrorInfo, ErrorKind, ExecutionResult
from actbox.content import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    Message,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    code_content,
)
from actbox.content.page import html_page
from actbox.content.results import content_from_result
from actbox.content.wire.formats import find_format
from tests.content.browser import CHROMIUM, MISSING, Browser
from tests.content.matrix import TRANSCRIPT, WRITTEN

pytestmark = [pytest.mark.engines, pytest.mark.skipif(CHROMIUM is None, reason=MISSING)]


def png(width: int = 4, height: int = 3) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x20\x60\xb0" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"><rect width="7" height="5"/></svg>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def visit(browser, tmp_path):
    def visit(messages, **how):
        page = tmp_path / "page.html"
        page.write_text(html_page(messages, title="a transcript"), "utf-8")
        seen = browser.visit(page, **how)
        asked = [url for url in seen.requests if not url.startswith(("data:", "about:", page.as_uri()))]
        assert asked == []
        assert seen.complaints == []
        return seen

    return visit


@pytest.fixture
def listener() -> Iterator[tuple[str, list[int]]]:
    """Somebody on the network who counts who calls, be it only to open a connection."""
    calls: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    other, _ = server.accept()
                except OSError:
                    return
                calls.append(1)
                other.close()

        thread = threading.Thread(target=listen)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", calls
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_text_code_output_errors_and_pictures_are_there_to_be_seen(visit):
    result = ExecutionResult(
        stdout="\x1b[31mred\x1b[0m words",
        stderr="careful",
        exit_code=1,
        error=ErrorInfo(kind=ErrorKind.RUNTIME, type="KeyError", message="'x'", line=2, hint="look at the keys"),
        artifacts=(Artifact("chart.png", png()), Artifact("drawing.svg", SVG), Artifact("t.csv", b"day,sales\n1,2\n")),
    )
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("d = {}\nprint(d['x'])\n"),))
    seen = visit(
        [
            Message(role="user", contents=(TextContent(text="What is **this**?"),)),
            Message(contents=(call, *content_from_result(result, call_id="c"))),
        ]
    )
    text = seen.evaluate("document.body.innerText")
    for words in ("What is this?", "print(d['x'])", "red words", "careful", "KeyError: 'x'", "line 2", "sales"):
        assert words in text
    assert seen.evaluate("document.querySelector('.marked').innerText") == "print(d['x'])"
    assert seen.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.offsetWidth > 0])") == [
        [True, 4, True],
        [True, 7, True],
    ]


def test_a_page_is_never_wider_than_its_window(visit):
    long = "x" * 3000
    messages = [
        Message(role=long, contents=(TextContent(text=f"{long}\n\n```\n{long}\n```\n\n|{long}|b|\n|-|-|\n|1|2|"),)),
        Message(contents=(CodeInterpreterCall(call_id="c", inputs=(code_content(long),)),)),
        Message(contents=(FunctionCall(call_id="d", name=long, arguments={long: long}),)),
        Message(contents=(DataContent(media_type="text/csv", data=",".join("abcdefgh" * 9).encode(), name=long),)),
        Message(contents=(UriContent(uri=f"https://example.com/{long}"), ErrorContent(message=long))),
    ]
    for width in (360, 1000):
        assert visit(messages, width=width).evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_in_light_and_dark(visit, dark):
    seen = visit([Message(contents=(TextContent(text="hello"),))], dark=dark)
    colours = (
        "[getComputedStyle(document.querySelector('.prose')).color, "
        "getComputedStyle(document.documentElement).backgroundColor]"
    )
    text, ground = (sum(map(int, colour[4:-1].split(","))) for colour in seen.evaluate(colours))
    assert (text > 600 and ground < 100) if dark else (text < 150 and ground > 700)


def test_nothing_hostile_is_run_or_fetched(visit, listener):
    address, calls = listener
    attack = (
        f"<script>window.pwned=1;fetch('{address}/a')</script><img src='{address}/b' onerror='window.pwned=1'>"
        f"</style></pre></iframe></details><svg onload='window.pwned=1'><link rel=preconnect href='{address}'>"
        f"<meta http-equiv=refresh content='0;url={address}/c'><base href='{address}/'>"
        f"<iframe src='{address}/d'></iframe><style>@import '{address}/e';body{{background:url({address}/f)}}</style>"
        f"<form action='{address}/g'><button autofocus onfocus='window.pwned=1'>x</button></form>"
        f'" onmouseover="window.pwned=1" autofocus onfocus="window.pwned=1" x="![p]({address}/h) '
        f"[l](javascript:window.pwned=1) ![q](javascript:window.pwned=1) \x00 \x1b]0;t\x07 \ud800 \u202e"
    )
    data = attack.encode("utf-8", "surrogatepass")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1"><image href="{address}/i"/></svg>'
    # Whatever HTML a value has is shown in a closed frame.
    result = ExecutionResult(stdout=attack, stderr=attack, value_text=attack, value_forms={"text/html": attack})
    error = ErrorContent(message=attack, code=attack, details=attack + "\n" + attack)
    note = Annotation(title=attack, url=f"javascript:{attack}", file_id=attack)
    seen = visit(
        [
            Message(
                role=attack, author=attack, model=attack, finish_reason=attack, contents=(TextContent(text=attack),)
            ),
            Message(
                contents=(
                    TextContent(text=f"```{attack}\n{attack}\n```", annotations=(note,)),
                    ReasoningContent(text=attack),
                    FunctionCall(call_id="f", name=attack, arguments={attack: attack, "code": "\n" + attack}),
                    FunctionResult(call_id="f", name=attack, outputs=(TextContent(text=attack), error), is_error=True),
                    CodeInterpreterCall(call_id="c", name=attack, inputs=(code_content(attack, attack),)),
                    CodeInterpreterResult(call_id="c", outcome=attack),
                    *content_from_result(result),
                    DataContent(media_type="text/html", data=data),
                    DataContent(media_type="text/html", data=data, name=attack),
                    DataContent(media_type="image/svg+xml", data=svg.encode(), name=attack),
                    DataContent(media_type=f'image/png" onerror="window.pwned=1{attack}', data=data, name=attack),
                    DataContent(media_type="text/csv", data=data, name=attack),
                    DataContent(media_type="text/markdown", data=data),
                    UriContent(uri="javascript:window.pwned=1", name=attack, media_type=attack),
                    UriContent(uri=f"{address}/picture.png", media_type="image/png"),
                    UnknownContent(format=attack, raw={attack: attack, "type": attack}),
                )
            ),
        ]
    )
    assert seen.evaluate("typeof window.pwned") == "undefined"
    assert seen.evaluate("document.querySelectorAll('script, form, base, object, embed').length") == 0
    assert seen.evaluate("[...document.links].map(a => a.protocol).filter(p => !/^(https?|data|file):$/.test(p))") == []
    assert seen.evaluate("[...document.links].filter(a => a.protocol == 'data:' && !a.download).length") == 0
    frames = seen.evaluate("[...document.querySelectorAll('iframe')].map(f => [f.getAttribute('sandbox'), f.src])")
    assert frames == [["", ""]] * 2
    assert calls == []


@pytest.mark.parametrize(
    "asking",
    [
        "<table style='background:url({})'><tr><td>x</table>",
        "<p style='list-style:square url({})'>x</p><p style='border-image:url({}) 1'>x</p>",
        "<style>@import url({});</style><p>x</p>",
        "<style>@import '{}';</style><p>x</p>",
        "<style>@font-face{font-family:f;src:url({})}p{font-family:f}</style><p>x</p>",
        "<style>p{background-image:image-set('{}' 1x);cursor:url({}),auto;mask:url({}#m)}</style><p>x</p>",
        "<img src='{}' srcset='{} 2x'><p background='{}'>x</p><link rel=stylesheet href='{}'>",
    ],
)
def test_a_result_in_a_notebook_asks_no_address_for_anything(browser, listener, tmp_path, asking):
    """A notebook's page has no policy of its own, so only the frame's can keep it silent."""
    address, calls = listener
    page = tmp_path / "notebook.html"
    result = ExecutionResult(value_forms={"text/html": asking.replace("{}", address)})
    page.write_text(f"<!doctype html><title>notebook</title>{result._repr_html_()}", "utf-8")
    seen = browser.visit(page)
    assert "x" in seen.evaluate("document.querySelector('iframe').srcdoc")
    assert calls == []


def test_a_table_of_a_values_html_is_shown_in_its_frame(visit):
    table = "<table><tr><th>day</th></tr><tr><td>first</td></tr></table>"
    seen = visit([Message(contents=tuple(content_from_result(ExecutionResult(value_forms={"text/html": table}))))])
    assert seen.evaluate("document.querySelector('iframe').offsetHeight") > 50
    assert "first" in seen.evaluate("document.querySelector('iframe').srcdoc")


# What is read of each format is the same, as its own tests say; so few are shown in every run.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if number % 4 else ()) for number, name in enumerate(WRITTEN)]
)
def test_a_transcript_of_each_format_is_shown(visit, name):
    found = find_format(name)
    seen = visit(found.read(found.write(TRANSCRIPT).document))
    assert "7" in seen.evaluate("document.body.innerText")


def test_wide_output_keeps_its_lines_and_scrolls(visit):
    wide = "  ".join(f"column{number}" for number in range(60))
    seen = visit([Message(contents=(*content_from_result(ExecutionResult(stdout=f"{wide}\n{wide}\n{wide}\n")),))])
    height, line, over = seen.evaluate(
        "(p => [p.clientHeight, parseFloat(getComputedStyle(p).lineHeight), p.scrollWidth > p.clientWidth])"
        "(document.querySelector('pre.out'))"
    )
    assert over and height < 5 * line


def test_standard_error_of_what_succeeded_does_not_look_like_an_error(visit):
    said = "[...document.querySelectorAll('.stderr > pre')].map(p => getComputedStyle(p).borderLeftColor)"
    results = [
        content_from_result(ExecutionResult(stderr="careful", exit_code=code), call_id=f"c{code}") for code in (0, 1)
    ]
    warned, failed = visit([Message(contents=(*results[0], *results[1]))]).evaluate(said)
    bad = visit([Message(contents=(ErrorContent(message="no"),))]).evaluate(
        "getComputedStyle(document.querySelector('.error')).borderLeftColor"
    )
    assert warned != bad and failed == bad


def test_a_time_stands_on_one_line_and_a_tall_picture_fits_the_window(visit):
    message = Message(
        model="some-model-with-a-long-name-2025",
        created_at=datetime(2025, 6, 15, 15, 6, 7, tzinfo=UTC),
        contents=(DataContent(media_type="image/png", data=png(50, 3000), name="tall"),),
    )
    seen = visit([message])
    assert seen.evaluate("document.querySelector('.when').innerText") == "2025-06-15 15:06 UTC"
    assert seen.evaluate("document.querySelector('.when').getClientRects().length") == 1
    assert seen.evaluate("(w => w.offsetWidth <= w.closest('header').clientWidth)(document.querySelector('.when'))")
    assert 100 < seen.evaluate("document.images[0].offsetHeight") < 800


ONE_PIXEL = f"data:image/png;base64,{base64.b64encode(png(1, 1)).decode()}"
TABLES = {
    "a small table": {"day": ["Mon", "Tue"], "sales": [1, 2]},
    "a large table": {"a": range(50), "b": range(50)},
}
HTML_OF_VALUES = {
    "one line": "<b>hello</b>",
    "a paragraph": "<div>" + "Some words that go on. " * 60 + "</div>",
    "a list": "<ul>" + "<li>item</li>" * 12 + "</ul>",
    "lines": "<pre>" + "line\n" * 15 + "</pre>",
    "large headings": "<h1>Big</h1><h1>Big</h1><p>x</p>",
    "a long paragraph": "<p>" + "word " * 400 + "</p>",
    "a long cell": "<table><tr><td>" + "long text " * 60 + "</td></tr></table>",
    "uneven cells": "<table>"
    + ("<tr><td>" + "long text " * 20 + "</td><td>" + "other " * 10 + "</td></tr>") * 5
    + "</table>",
    "many short cells": "<table><tr>" + "<td>column</td>" * 40 + "</tr></table>",
    "sizes of their own": '<div style="padding:100px;font-size:40px">big<br>more</div><b style="font-size:3em">b</b>',
    "a stretched picture": f'<img width=300 height=400 src="{ONE_PIXEL}">',
    "closed details": f"<details><summary>s</summary>{'<p>x</p>' * 10}</details>",
    "open details": f"<details open><summary>s</summary>{'<p>x</p>' * 10}</details>",
    "headings": "<h2>Title</h2><p>Text.</p><h3>More</h3><p>Text.<br>And text.</p>",
}


@pytest.mark.parametrize("window", [400, 700, 1280])
@pytest.mark.parametrize("name", [*HTML_OF_VALUES, *TABLES])
def test_a_frame_is_as_high_as_what_it_holds(visit, browser, tmp_path, name, window):
    if name in TABLES:
        import pandas as pd  # takes long, so not for those who only collect

        html = pd.DataFrame(TABLES[name])._repr_html_()
    else:
        html = HTML_OF_VALUES[name]
    values = ExecutionResult(value_forms={"text/html": html})
    seen = visit([Message(contents=tuple(content_from_result(values)))], width=window)
    frame = "document.querySelector('iframe')"
    source, height, width = seen.evaluate(f"(f => [f.srcdoc, f.clientHeight, f.clientWidth])({frame})")
    inside = tmp_path / "inside.html"
    inside.write_text(source, "utf-8")
    needed = browser.visit(inside, width=width).evaluate("document.documentElement.getBoundingClientRect().height + 14")
    most = (
        1.15 if window > 1000 and "cells" not in name else 1.4
    )  # only in wide windows is it known how wide a frame is
    assert needed - 1 <= height <= most * needed + 40


def test_what_is_wider_than_its_place_has_a_shade_at_that_side(visit):
    wide = "  ".join(f"column{number}" for number in range(60))
    call = CodeInterpreterCall(call_id="c", inputs=(code_content(f"x = '{wide}'"),))
    seen = visit([Message(contents=(call, *content_from_result(ExecutionResult(stdout=wide), call_id="c")))])
    shades = seen.evaluate(
        "[...document.querySelectorAll('pre')].map(p => [p.scrollWidth > p.clientWidth, getComputedStyle(p).overflowX,"
        " getComputedStyle(p).backgroundAttachment])"
    )
    assert shades == [[True, "auto", "local, local, scroll, scroll, scroll"]] * 2


def test_a_bare_address_can_be_followed(visit):
    said = "See https://example.com/a_b?c=1. Or (https://example.org/d)! **https://example.net/e** `https://no.example`"
    said += " www.example.org/f?g=http://h, www.no, x@www.example.org"
    printed = ExecutionResult(stdout="done: http://example.com:8080/x, javascript:alert(1) http:// https://[bad\n")
    contents = (TextContent(text=said), *content_from_result(printed))
    seen = visit([Message(contents=contents)])
    assert seen.evaluate("[...document.querySelectorAll('.prose a, pre a')].map(a => a.getAttribute('href'))") == [
        "https://example.com/a_b?c=1",
        "https://example.org/d",
        "https://example.net/e",
        "https://www.example.org/f?g=http://h",
        "http://example.com:8080/x",
    ]
    assert said.replace("**", "").replace("`", "") in seen.evaluate("document.body.innerText")


def test_a_link_in_markdown_is_one_link(visit):
    seen = visit([Message(contents=(TextContent(text="[https://example.com/x](https://example.com/y)"),))])
    assert seen.evaluate("[...document.querySelectorAll('.prose a')].map(a => a.href)") == ["https://example.com/y"]
