"""Pages as text: what is in them and how it is put, without a browser."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from actbox import ErrorInfo, ErrorKind, ExecutionResult, Usage
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
    UnknownContent,
    UriContent,
    UsageContent,
    code_content,
)
from actbox.content.page import html_fragment, html_page
from actbox.content.page.embedded import _Reader, embedded
from actbox.content.page.files import LINKED_BYTES, PICTURE_BYTES
from actbox.content.page.links import _without_trailing
from actbox.content.page.prose import _text
from actbox.content.results import content_from_result
from tests.content import items_to_try


class Seen(HTMLParser):
    """A page as its elements, with the text that each has itself."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._in_style = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._in_style = tag == "style"

    def handle_endtag(self, tag):
        self._in_style = False

    def handle_data(self, data):
        if not self._in_style:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def shown(*items: Content, role: str = "assistant") -> Seen:
    return Seen(html_page([Message(role=role, contents=items)], title="t"))


def step(result: ExecutionResult, code: str = "1\n") -> Seen:
    return shown(
        CodeInterpreterCall(call_id="c", inputs=(code_content(code),)), *content_from_result(result, call_id="c")
    )


ALLOWED = {
    *("html", "head", "meta", "link", "title", "style", "body", "main", "header", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("p", "article", "div", "span", "a", "ol", "ul", "li", "dl", "dt", "dd", "pre", "code", "details", "summary"),
    *("strong", "em", "s", "blockquote", "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "figure"),
    *("figcaption", "img", "iframe"),
}


def check_nothing_acts(page: Seen) -> None:
    for tag, attributes in page.elements:
        assert tag in ALLOWED, tag
        assert not any(name.startswith("on") for name in attributes), attributes
        for name in ("href", "src", "action", "formaction", "data", "poster", "background", "srcset", "ping"):
            value = attributes.get(name, "#")
            assert re.match(
                r"#|data:,$|data:image/[a-z+]+;base64,|data:application/octet-stream;base64,|https?://", value
            )
        assert tag == "a" or not attributes.get("src", "").startswith("http")
    for frame in page.all("iframe"):
        assert frame["sandbox"] == ""
        inner = Seen(frame["srcdoc"])
        assert not {"script", "link", "base", "iframe", "form", "object", "svg"} & {tag for tag, _ in inner.elements}
        assert not any(name.startswith("on") or name == "href" for _, said in inner.elements for name in said)


def test_its_policy_allows_style_and_pictures_that_are_in_it_and_nothing_else():
    (policy,) = [said["content"] for said in shown().all("meta") if said.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "script" not in policy and "http" not in policy


@pytest.mark.slow
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(items_to_try.messages, max_size=3))
def test_no_messages_become_anything_that_acts(messages):
    check_nothing_acts(Seen(html_page(messages, title="t")))


ATTACKS = [
    "<script>x</script>",
    "</style><script>x</script>",
    "</pre></code></details><img src=http://x onerror=x>",
    "\" onmouseover=x a='",
    "[a](javascript:x) ![b](javascript:x) ![c](http://x/y.png) <http://x> [d](data:text/html,x)",
    "[a]: javascript:x\n\n[a]",
    "&lt;script&gt; &#x3c;script>",
    "-->]]><!--",
    '```html " onclick=x\n<script>\n```',
    "\x00\x1b[31m\x1b]8;;http://x\x07\x9b\ud800\u202e",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_is_shown_wherever_it_is(attack):
    data = attack.encode("utf-8", "surrogatepass")
    items: list[Content] = [
        TextContent(text=attack, annotations=(Annotation(title=attack, url=attack),)),
        TextContent(text=attack, stream="stderr"),
        ReasoningContent(text=attack),
        ErrorContent(message=attack, code=attack, details=attack + attack),
        FunctionCall(call_id=attack, name=attack, arguments={attack: attack}),
        FunctionResult(call_id=attack, name=attack, outputs=(TextContent(text=attack),)),
        CodeInterpreterCall(call_id="c", inputs=(code_content(attack, attack),), name=attack),
        CodeInterpreterResult(call_id="c", outputs=(TextContent(text=attack),), outcome=attack),
        HostedFileContent(file_id="f", name=attack, media_type=attack, container_id=attack),
        UriContent(uri=attack, name=attack, media_type=attack),
        UnknownContent(format=attack, raw={"type": attack}),
        UsageContent(counts={attack: 1}),
        *(
            DataContent(media_type=kind, data=data, name=name)
            for kind in ("text/html", "image/svg+xml", "text/csv", "text/markdown", "application/json", attack)
            for name in (None, attack)
        ),
    ]
    message = Message(role=attack, author=attack, model=attack, finish_reason=attack, contents=tuple(items))
    page = Seen(html_page([message], title=attack))
    check_nothing_acts(page)
    check_nothing_acts(Seen(html_fragment([message])))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]", page.text)


def test_a_call_and_its_result_stand_together_also_when_the_result_is_a_message_of_its_own():
    page = html_page(
        [
            Message(contents=(FunctionCall(call_id="a", name="first"), FunctionCall(call_id="b", name="second"))),
            Message(role="tool", contents=(FunctionResult(call_id="b", outputs=(TextContent(text="of second"),)),)),
            Message(role="tool", contents=(FunctionResult(call_id="a", outputs=(TextContent(text="of first"),)),)),
        ],
        title="t",
    )
    assert [page.index(words) for words in ("first", "of first", "second", "of second")] == sorted(
        page.index(words) for words in ("first", "of first", "second", "of second")
    )
    assert page.count("<article") == 1


def test_a_result_without_a_call_and_a_second_result_are_shown_too():
    page = shown(
        FunctionResult(call_id="lost", outputs=(TextContent(text="alone"),)),
        CodeInterpreterCall(call_id="c", inputs=(code_content("x"),)),
        CodeInterpreterResult(call_id="c", outputs=(TextContent(text="one"),)),
        CodeInterpreterResult(call_id="c", outputs=(TextContent(text="two"),)),
    )
    for words in ("result of tool lost", "alone", "one", "another result", "two"):
        assert words in page.text


def test_a_result_within_a_result_is_shown_as_one():
    inner = CodeInterpreterResult(call_id="i", outputs=(TextContent(text="deep"),), exit_code=2)
    page = shown(FunctionResult(call_id="f", outputs=(inner,)))
    assert "deep" in page.text and "exit code 2" in page.text and "not known here" not in page.text


def test_what_a_program_calls_is_within_its_step_with_how_long_it_took():
    call = CodeInterpreterCall(call_id="c", inputs=(code_content("f()"),))
    inner = FunctionCall(call_id="i", name="look_up", called_by="c")
    took = {"actbox": {"wall_ms": 83.4}}
    page = shown(call, inner, FunctionResult(call_id="i", provider_data=took), CodeInterpreterResult(call_id="c"))
    assert len(page.all("ol")) == 2
    assert "83 ms" in page.text


def test_a_run_of_ours_says_how_long_it_took():
    assert "1.5 s" in step(ExecutionResult(usage=Usage(wall_ms=1500))).text


def test_the_line_that_failed_is_marked_in_the_code():
    error = ErrorInfo(kind=ErrorKind.RUNTIME, type="ValueError", message="no", line=2, hint="try another")
    page = html_page(
        [
            Message(
                contents=(
                    CodeInterpreterCall(call_id="c", inputs=(code_content("a\nbad\nc"),)),
                    *content_from_result(ExecutionResult(exit_code=1, error=error), call_id="c"),
                )
            )
        ],
        title="t",
    )
    assert '<span class="line marked">bad</span>' in page
    assert "ValueError: no" in page and "line 2" in page and "hint: try another" in page


def test_stdout_and_stderr_are_told_apart_in_words_too():
    page = step(ExecutionResult(stdout="usual", stderr="unusual"))
    assert [said["class"] for said in page.all("pre")] == ["code", "out stdout", "out stderr"]
    assert "stderr" in page.text


def test_colours_of_terminals_stay_and_other_control_characters_are_seen():
    page = html_page(
        [Message(contents=content_from_result(ExecutionResult(stdout="\x1b[1;31mred\x1b[0m\x1b[2J")))], title="t"
    )
    assert '<span class="bold c1">red</span>^[[2J' in page


@pytest.mark.parametrize(
    ("sequence", "markup"),
    [
        ("38;5;196", 'style="color:#ff0000"'),
        ("48;2;1;2;300", 'style="background:#0102ff"'),
        ("38:2::1:2:3", 'style="color:#'),
        ("94", 'class="c12"'),
        ("4;3;2", 'class="dim italic underline"'),
        ("8", "<pre"),
        ("38;5", "<pre"),
        ("38;5;999", "<pre"),
        (";;;", "<pre"),
        ("³", "<pre"),
    ],
)
def test_colours_of_every_kind_are_understood_and_none_hides_text(sequence, markup):
    page = html_fragment([Message(contents=(TextContent(text=f"\x1b[{sequence}mwords", stream="stdout"),))])
    assert markup in page and "words" in page


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"])
def test_pictures_are_in_the_page(kind):
    (picture,) = shown(DataContent(media_type=kind, data=b"bytes", name="a chart")).all("img")
    assert picture == {"src": f"data:{kind};base64,{base64.b64encode(b'bytes').decode()}", "alt": "a chart"}


def test_other_files_are_links_that_save_them_and_large_ones_are_named():
    page = shown(
        DataContent(media_type="application/zip", data=b"PK", name='../a"b.zip'),
        DataContent(media_type="application/zip", data=bytes(LINKED_BYTES + 1), name="large.zip"),
        DataContent(media_type="image/png", data=bytes(PICTURE_BYTES + 1), name="large.png"),
    )
    (link,) = [said for said in page.all("a") if "download" in said]
    assert link["download"] == "a_b.zip"
    assert link["href"] == "data:application/octet-stream;base64,UEs="
    assert "large.zip" in page.text and "large.png" in page.text and "too large" in page.text
    assert not page.all("img")


def test_a_table_is_a_table_and_says_how_many_rows_it_leaves_out():
    rows = "name,count\n" + "".join(f"n{number},{number}\n" for number in range(60))
    page = shown(DataContent(media_type="text/csv", data=rows.encode(), name="t.csv"))
    assert len(page.all("tr")) == 51
    assert "50 of 60 rows" in page.text


def test_only_links_to_the_web_are_links():
    uris = [
        "https://example.com/a",
        "javascript:x",
        "file:///etc/passwd",
        "data:text/html,x",
        "https:",
        "http://[",
        "x",
    ]
    page = shown(*(UriContent(uri=uri, name="name") for uri in uris))
    assert [said["href"] for said in page.all("a")] == ["#turn-1", "https://example.com/a"]
    assert all(uri in page.text for uri in uris[1:])


def test_text_is_markdown_and_its_headings_rank_below_the_pages():
    page = shown(TextContent(text="# Title\n\n**bold** `code`\n\n```python\nprint(1)\n```\n\n|a|\n|-|\n|b|"))
    assert [tag for tag, _ in page.elements if tag in ("h1", "h2", "h3")] == ["h1", "h2", "h3"]
    assert page.all("strong") and page.all("table")
    assert "print(1)" in page.text


def test_a_picture_that_is_whole_in_markdown_is_shown():
    uri = "data:image/png;base64,AAAA"
    page = shown(TextContent(text=f"![chart]({uri}) ![far](https://example.com/a.png) [l]({uri})"))
    assert page.all("img") == [{"src": uri, "alt": "chart"}]
    assert "[far]" in page.text


def test_code_has_numbered_lines_and_colours_and_any_language_will_do():
    page = html_fragment(
        [Message(contents=(CodeInterpreterCall(call_id="c", inputs=(code_content("def f(): 'x'"),)),))]
    )
    assert '<span class="tk">def</span>' in page and '<span class="ts">&#x27;x&#x27;</span>' in page
    other = html_fragment(
        [Message(contents=(CodeInterpreterCall(call_id="c", inputs=(code_content("x <- 1", "no such"),)),))]
    )
    assert "x &lt;- 1" in other


def test_the_best_form_of_a_value_is_shown_and_the_others_are_folded():
    result = ExecutionResult(
        value_text="<Figure>", value_forms={"text/html": "<b>bold</b>", "image/png": b"\x89PNG\r\n\x1a\n"}
    )
    page = step(result)
    assert len(page.all("img")) == 1 and not page.all("iframe")
    assert "as text/html" in page.text and "as text" in page.text and "<b>bold</b>" in page.text


def test_a_strangers_html_is_made_anew_of_what_is_harmless():
    made = Seen(embedded('<table class=d><tr><td style="color:red" onclick=x>1 &lt; 2</td></tr></table>', name="n"))
    inner = Seen(made.all("iframe")[0]["srcdoc"])
    assert inner.all("td") == [{"style": "color:red"}]
    assert inner.text.strip() == "1 < 2"
    kept = Seen(embedded("<style>td{color:red}</style><p>a<script>b</script>c<svg><a>d</a></svg>e", name="n"))
    inner = Seen(kept.all("iframe")[0]["srcdoc"])
    assert inner.text == "ace" and "td{color:red}" in kept.all("iframe")[0]["srcdoc"]


def test_what_is_not_known_is_folded_json():
    page = shown(UnknownContent(format="gemini", raw={"type": "odd", "n": 1}))
    assert page.all("details") and "gemini" in page.text and '"n": 1' in page.text


def test_arguments_that_are_code_are_shown_as_code():
    page = html_fragment(
        [Message(contents=(FunctionCall(call_id="f", name="run", arguments={"code": "import os\nx"}),))]
    )
    assert '<span class="tk">import</span>' in page


def test_broken_arguments_are_shown_as_they_are():
    assert '{"a": ' in shown(FunctionCall(call_id="f", name="run", arguments='{"a": ')).text


@pytest.mark.parametrize(
    "item",
    [
        TextContent(text="a " * 3_000_000),
        TextContent(text="x" * 6_000_000, stream="stdout"),
        CodeInterpreterCall(call_id="c", inputs=(code_content("x = 1\n" * 1_000_000),)),
        DataContent(media_type="text/csv", data=b"1,2\n" * 2_000_000, name="t.csv"),
        DataContent(media_type="application/json", data=b"[" * 4_000_000),
        DataContent(media_type="text/html", data=b"<b>" * 4_000_000),
    ],
)
def test_what_is_huge_is_cut(item):
    assert len(html_fragment([Message(contents=(item,))])) < 8_000_000


@pytest.mark.parametrize("source", ["[" * 190_000, "[a](" * 45_000, "- a\n" * 45_000, "`a" * 90_000, "> " * 90_000])
def test_text_that_is_hard_to_read_as_markdown_is_shown_as_it_is(source):
    assert "prose plain" in html_fragment([Message(contents=(TextContent(text=source),))])


def test_a_long_system_message_is_folded_and_an_empty_message_says_so():
    assert shown(TextContent(text="rule " * 1000), role="system").all("details")
    assert "(empty)" in shown().text


def test_a_fragment_styles_nothing_but_itself():
    (style,) = re.findall(r"<style>(.*?)</style>", html_fragment([]), re.S)
    rules = re.sub(r"@media[^{]*\{", "", style)
    for selector in re.findall(r"(?:^|[{}])\s*([^{}]+?)\s*\{", rules):
        for part in re.split(r",(?![^(]*\))", selector):
            assert re.match(r"(div)?\.actbox\b", part.strip()), part


def test_tags_that_never_end_are_shown_as_text() -> None:
    # A parser that looks for each one's end again takes minutes for so many.
    frame = embedded("<b>x</b>" + "<a " * 50_000, name="x")
    assert frame.count("&amp;lt;a ") == 50_000


def test_a_link_to_a_file_of_the_sandbox_leads_to_where_the_file_is_named():
    note = Annotation(kind="container_file_citation", file_name="revenue.png", file_id="cfile_1")
    path = "sandbox:/mnt/data/revenue.png"
    page = shown(TextContent(text=f"See [the chart]({path}) and [another](sandbox:/b.csv).", annotations=(note,)))
    assert "See the chart and another." in page.text and "sandbox:" not in page.text
    (source,) = [said["id"] for said in page.all("li")]
    assert [said.get("href") for said in page.all("a")] == ["#turn-1", f"#{source}", None]
    start = len("See [the chart](")
    ranged = Annotation(kind="file_path", file_id="file-1", start=start, end=start + len(path))
    page = shown(TextContent(text=f"See [the chart]({path}).", annotations=(ranged,)))
    assert page.all("a")[1]["href"] == f"#{page.all('li')[0]['id']}"


def test_a_picture_of_any_height_is_shown() -> None:
    frame = embedded(f'<img alt="x" height="{"9" * 5_000}"><img alt="y" height="40">', name="x")
    assert "--wide:392px" in frame  # of the first, whose height is none, as of a picture that says nothing


class Steps(list[Any]):
    """A list that counts what is looked at in it."""

    taken = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.taken += len(found) if isinstance(place, slice) else 1
        return found

    def __contains__(self, item: object) -> bool:
        self.taken += len(self)
        return super().__contains__(item)

    def index(self, *args: Any) -> int:
        self.taken += len(self)
        return super().index(*args)


@pytest.mark.parametrize("source", ["<svg>" * 500 + "</math>" * 500, "<svg>" * 500 + "<math></math>" * 500])
def test_ends_of_elements_that_are_not_shown_are_not_searched_for(source: str) -> None:
    reader = _Reader()
    silent = reader._silent = Steps()
    reader.feed(source)
    assert silent.taken <= 1_000


def test_each_text_of_a_paragraph_is_looked_at_once() -> None:
    tokens = Steps([Token("text", "", 0, content="see http://a.example")] * 500)
    written = [_text(RendererHTML(), tokens, place, {}, {"links_open": 0}) for place in range(500)]
    assert all("<a " in text for text in written) and tokens.taken <= 1_000
    assert "<a" not in _text(RendererHTML(), tokens, 0, {}, {"links_open": 1})


def test_an_address_in_a_link_and_after_one_is_a_link_once() -> None:
    page = shown(TextContent(text="[http://b.example](http://a.example) http://c.example"))
    assert [said.get("href") for said in page.all("a")][1:] == ["http://a.example", "http://c.example"]


class CharactersRead(str):
    """Text that counts how many characters are copied from it and counted in it."""

    read = 0

    def __getitem__(self, place: Any) -> str:
        found = CharactersRead(super().__getitem__(place))
        CharactersRead.read += len(found)
        return found

    def count(self, *args: Any) -> int:
        CharactersRead.read += len(self)
        return super().count(*args)


def test_brackets_that_end_an_address_are_counted_once() -> None:
    address = CharactersRead("http://a/(b)" + ")" * 1_000)
    assert _without_trailing(address) == "http://a/(b)"
    assert CharactersRead.read <= 3_000


def test_an_address_in_an_error_is_a_link_as_it_is_in_a_traceback() -> None:
    said = 'see https://example.org/err?a=1&b=<b>"2". Not javascript:alert(1) nor file:///etc/passwd'
    ours = {"actbox": {"error": {"hint": "https://example.org/hint"}}}
    page = shown(ErrorContent(code="E", message=said, details="at https://example.org/trace\n", provider_data=ours))
    links = [link for link in page.all("a") if "rel" in link]
    assert [link["href"] for link in links] == [
        "https://example.org/err?a=1&b=",
        "https://example.org/trace",
        "https://example.org/hint",
    ]
    assert {link["rel"] for link in links} == {"noopener noreferrer nofollow"}
    assert said in page.text and not page.all("b")
