"""The spellings of values that are found in what hosts answer: by every usual encoder, in any mixture, cut anywhere."""

from __future__ import annotations

import base64
import html
import itertools
import json
import re
import string
import textwrap
import urllib.parse
from collections.abc import Callable
from re import _parser  # type: ignore[attr-defined]  # what the lengths of patterns are known by

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actbox import Secret
from actbox.sandbox.egress import characters
from actbox.sandbox.egress.redaction import Redactor, Spellings

VALUE = "aZ0-._~!*'()+/ \"<>&=%\\ü€😀#@:;,?[]{}|^`$"
TEXTS = st.text(string.ascii_letters + string.digits + string.punctuation + " üß€😀", min_size=1, max_size=12)


def spellings_of(*values: str) -> Spellings:
    return Spellings([Secret(f"n{index}", value, as_file=True) for index, value in enumerate(values)])


def redacted(spellings: Spellings, pieces: list[bytes]) -> bytes:
    redactor = Redactor(spellings)
    return b"".join(map(redactor.feed, pieces)) + redactor.finish()


def cut(body: bytes, places: list[int]) -> list[bytes]:
    places = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[start:end] for start, end in itertools.pairwise(places)]


def escaped(text: str, chars: str, form: str) -> str:
    return "".join(form.format(ord(char)) if char in chars else char for char in text)


def in_utf_16(value: str, chars: str, form: str) -> str:
    """Escape as JSON does, what is beyond the first plane in two."""
    halves = re.findall("....", value.encode("utf-16-be").hex())
    codes = [int(half, 16) for half in halves]
    return "".join(form.format(code) if code > 126 or chr(code) in chars else chr(code) for code in codes)


ENCODERS: dict[str, Callable[[str], str]] = {
    "encoding/json of Go": lambda value: escaped(json.dumps(value, ensure_ascii=False), "<>&", "\\u{:04x}"),
    "System.Text.Json of .NET": lambda value: in_utf_16(value.replace("\\", "\\\\"), "\"'<>&+`", "\\u{:04X}"),
    "json of PHP": lambda value: json.dumps(value).replace("/", "\\/"),
    "json in json": lambda value: json.dumps(json.dumps(value)),
    "json in json in json": lambda value: json.dumps(json.dumps(json.dumps(value))),
    "html.escape": html.escape,
    "htmlspecialchars of PHP": lambda value: html.escape(value).replace("&#x27;", "&#039;"),
    "html/template of Go": lambda value: value.replace("&", "&amp;").translate(
        {ord(char): f"&#{ord(char)};" for char in "\"'<>+"}
    ),
    "html in html": lambda value: html.escape(html.escape(value)),
    "character references": lambda value: "".join(f"&#x{ord(char):05X};" for char in value),
    "names of HTML": lambda value: value.replace("&", "&amp;").replace("+", "&plus;").replace("ü", "&uuml;"),
    "encodeURIComponent": lambda value: urllib.parse.quote(value, safe="!'()*"),
    "encodeURI": lambda value: urllib.parse.quote(value, safe="!'()*;/?:@&=+$,#"),
    "URLEncoder of Java": lambda value: urllib.parse.quote_plus(value, safe="*").replace("~", "%7E"),
    "QueryEscape of Go": urllib.parse.quote_plus,
    "percent twice": lambda value: urllib.parse.quote(urllib.parse.quote(value)),
    "percent in lower case": lambda value: re.sub("%..", lambda code: code[0].lower(), urllib.parse.quote(value)),
    "percent throughout": lambda value: "".join(f"%{byte:02x}" for byte in value.encode()),
    "repr of text": lambda value: repr(value)[1:-1],
    "ascii": lambda value: ascii(value)[1:-1],
    "repr of bytes": lambda value: repr(value.encode())[2:-1],
    "re.escape": re.escape,
    "a template of JavaScript": lambda value: escaped(value.replace("\\", "\\\\"), "`$", "\\u{{{:x}}}"),
    "MIME": lambda value: base64.encodebytes(b"-" * 50 + value.encode()).decode(),
    "MIME with CRLF": lambda value: base64.encodebytes(b"-" * 49 + value.encode()).decode().replace("\n", "\r\n"),
    "MIME in json": lambda value: json.dumps(base64.encodebytes(b"-" * 48 + value.encode()).decode()),
    "MIME with CRLF in json": lambda value: json.dumps(
        base64.encodebytes(b"-" * 30 + value.encode()).decode().replace("\n", "\r\n")
    ),
    "MIME in a form": lambda value: urllib.parse.quote(base64.encodebytes(b"-" * 50 + value.encode())),
    "base64 in json of .NET": lambda value: escaped(base64.b64encode(value.encode()).decode(), "+", "\\u{:04X}"),
    "base64 in json of PHP": lambda value: base64.b64encode(value.encode()).decode().replace("/", "\\/"),
    "base64 in a form": lambda value: urllib.parse.quote_plus(base64.b64encode(value.encode()).decode()),
    "hexadecimal over lines": lambda value: "\n".join(textwrap.wrap(value.encode().hex(), 60)),
    "hexadecimal": lambda value: value.encode().hex().upper(),
}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("value", [VALUE, VALUE[::-1], "p@ss<W>o+r'd*1/2~3", "\\d%41&amp;%2541\\u0041x"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_echo_is_found_whoever_encoded_it(encoder: str, value: str, size: int):
    spelled = ENCODERS[encoder](value).encode()
    body = b"<< " + spelled + b" >>"
    out = redacted(spellings_of(value), cut(body, list(range(0, len(body), size))))
    assert out.count(b"[secret n0]") == 1
    around = 4 + len(ENCODERS[encoder](""))  # letters of base64 at the edges belong to its neighbours too
    assert len(out) <= len(b"<< [secret n0] >>") + around
    assert spelled.startswith(out.partition(b"[secret n0]")[0].removeprefix(b"<< "))


def one_way(draw: st.DrawFn, char: str) -> bytes:
    """Spell a character in a way that no table here has whole."""
    code = ord(char)
    slashes = "\\" * draw(st.integers(1, 8))
    anyhow = draw(st.sampled_from([str.lower, str.upper]))
    utf8 = [f"%{'25' * draw(st.integers(0, 2))}{anyhow(f'{byte:02x}')}" for byte in char.encode()]
    ways = [
        char,
        "".join(utf8),
        f"&#{'0' * draw(st.integers(0, 5))}{code};",
        f"&amp;#x{anyhow(f'{code:x}')};",
        f"&#X{code:06X};",
        slashes + f"U{anyhow(f'{code:08x}')}",
        slashes + f"u{{{code:x}}}",
    ]
    if code < 0x10000:
        ways.append(slashes + f"u{anyhow(f'{code:04x}')}")
    else:
        ways.append("".join(f"{slashes}u{half}" for half in re.findall("....", char.encode("utf-16-be").hex())))
    if code < 0x100:
        ways.append(slashes + f"x{anyhow(f'{code:02x}')}")
    if char in string.punctuation:
        ways += [slashes + char] if char != "\\" else ["\\" * times for times in (2, 4, 8)]
    if char in "<>&\"'":
        ways += [html.escape(char), html.escape(html.escape(char))]
    if char == " ":
        ways.append("+")
    return draw(st.sampled_from(ways)).encode()


@st.composite
def mixtures(draw: st.DrawFn, values: st.SearchStrategy[str]) -> tuple[str, bytes]:
    """Draw a value and a spelling of it of which each character is in a way of its own."""
    value = draw(values.filter(lambda text: text == text.strip()))
    return value, b"".join(one_way(draw, char) for char in value)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(mixtures(TEXTS), st.lists(st.integers(0, 10_000)), st.integers(0, 5000), st.sampled_from([b"\n", b"~", b""]))
def test_any_mixture_of_spellings_is_found_however_it_is_cut(
    mixture: tuple[str, bytes], places: list[int], before: int, around: bytes
):
    value, spelled = mixture
    # What a value may begin with in the midst of another spelling of it is no concern here.
    body = b"\x00" * before + around + spelled + around + b"\x00"
    out = redacted(spellings_of(value), cut(body, places))
    assert out == b"\x00" * before + around + b"[secret n0]" + around + b"\x00"


@st.composite
def over_lines(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a value, and a text that holds it in base64 or hexadecimal in lines."""
    value = draw(st.text(string.ascii_letters + "+/?~ü", min_size=6, max_size=80))
    before = draw(st.binary(max_size=70))
    raw = before + value.encode() + draw(st.binary(max_size=5))
    whole = draw(
        st.sampled_from(
            [base64.b64encode(raw), base64.urlsafe_b64encode(raw), raw.hex().encode(), raw.hex().upper().encode()]
        )
    )
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\\n", b"\\r\\n", b"\\\\n", b"%0A", b"%0d%0a"]))
    width = draw(st.integers(characters.FULL_LINE if end.isspace() else 1, 80))
    return value, end.join(whole[start : start + width] for start in range(0, len(whole), width))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(over_lines(), st.lists(st.integers(0, 10_000), max_size=30))
@example(("?" * 29, b"A" * 23 + b"/Pz8/Pz8\r\n" + b"/Pz8" * 7 + b"/Pw\r\n=="), [])
def test_base64_and_hexadecimal_are_found_over_lines_however_they_are_cut(lines: tuple[str, bytes], places: list[int]):
    value, body = lines
    out = redacted(spellings_of(value), cut(body, places))
    assert out.count(b"[secret n0]") == 1
    assert out == redacted(spellings_of(value), [body])


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(mixtures(st.text("bcdeßé <&%\\\"'/=1234", min_size=1, max_size=30)), st.lists(st.integers(0, 10_000)), st.data())
def test_what_is_spelled_in_all_ways_but_is_not_the_value_passes_unchanged(
    mixture: tuple[str, bytes], places: list[int], data: st.DataObject
):
    text, spelled = mixture
    other = data.draw(st.integers(0, len(text)))
    value = text[:other].lstrip() + "~" + text[other:].rstrip()  # of which but one character is missing
    body = b"!" + spelled + b"!\n" + base64.b64encode(text.encode()) + b"\n" + text.encode().hex().encode()
    assert redacted(spellings_of(value), cut(body, places)) == body


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4, unique=True), st.data())
def test_of_values_that_overlap_none_comes_through_and_nothing_else_is_taken(values: list[str], data: st.DataObject):
    body = data.draw(st.text("abc", max_size=40))
    taken = [False] * len(body)
    for value in values:
        for start in range(len(body)):
            if body.startswith(value, start):
                taken[start : start + len(value)] = [True] * len(value)
    out = redacted(spellings_of(*values), cut(body.encode(), data.draw(st.lists(st.integers(0, 40)))))
    left = re.sub(rb"(\[secret n\d\])+", b"\0", out)
    expected = "".join("\0" if gone else char for char, gone in zip(body, taken, strict=True))
    assert left == re.sub("\0+", "\0", expected).encode()
    assert out == spellings_of(*values).redact(body.encode())


def test_a_value_that_is_whole_later_is_found_before_one_in_its_midst():
    assert redacted(spellings_of("baaa", "aa"), [b"baa", b"a"]) == b"[secret n0]"


@pytest.mark.slow
def test_each_of_many_secrets_is_named():
    values = [f"{index:02}-tok+en/{index}" for index in range(40)]
    body = b" ".join(urllib.parse.quote(value, safe="").encode() for value in values)
    assert spellings_of(*values).redact(body) == b" ".join(f"[secret n{index}]".encode() for index in range(40))


@pytest.mark.slow
def test_no_spelling_is_longer_than_what_is_held_back():
    def longest(patterns: characters.Patterns) -> int:
        return max(_parser.parse(pattern.pattern).getwidth()[1] for pattern in patterns)

    for char in [*map(chr, range(32, 127)), *map(chr, range(160, 256)), *"€ΩЖ中\u2233\ufb01😀𝔸"]:
        assert longest(characters.spelled(char)) <= characters.MOST_BYTES * len(char.encode())
    letters_of_64_bytes = 88
    for letter in [*map(characters.in_base64, string.ascii_letters + string.digits + "+/"), characters.spelled("=")]:
        longest_letter = longest(characters.after_break(letter))
        assert letters_of_64_bytes * longest_letter <= 64 * characters.MOST_BYTES
    for digit in "0123456789abcdef":
        assert 2 * longest(characters.after_break(characters.in_hex(digit))) <= characters.MOST_BYTES


@pytest.mark.parametrize("piece", [1000, 70_000])
def test_what_is_held_back_is_bounded(piece: int):
    for value in ("short", "x" * 64, "y" * 65):
        spellings = spellings_of(value)
        redactor = Redactor(spellings)
        said = sum(len(redactor.feed(b"QUJD" * (piece // 4))) for _ in range(50))
        assert 50 * piece - said == spellings.reach == characters.MOST_BYTES * (128 if "y" in value else 64)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(mixtures(TEXTS.filter(lambda text: len(text) > 3)), st.integers(1, 400), st.data())
def test_the_beginning_of_a_spelling_is_held_back_like_any_other_text(
    mixture: tuple[str, bytes], before: int, data: st.DataObject
):
    value, spelled = mixture
    guess = spelled[: data.draw(st.integers(0, len(spelled) - 1))]
    if b"[secret" in spellings_of(value).redact(guess):
        return
    passed = []
    for text in (guess, b"~" * len(guess)):
        redactor = Redactor(spellings_of(value))
        passed.append([len(redactor.feed(part)) for part in (b"." * before * 20, text[:3], text[3:])])
    assert passed[0] == passed[1]


@pytest.mark.parametrize(
    "hostile",
    [b"%", b"%25", b"\\", b"&", b"&amp;", b"&#0", b"&#x0", b"\\u00", b"QUJDREVGR0hJSktM\n", b"\n", b"\r", b"g", b"+"],
)
@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("ghp_%25&amp;\\\\u005c+/", 2**21),
        ("gggggggggggggggggggggggggggh", 2**12),
        ("\\\\\\\\\\\\\\\\\\\\+", 2**9),
        ("%%%%25%%%25&&&&amp;&x", 2**12),
    ],
)
def test_megabytes_made_to_keep_it_busy_pass_in_the_end(hostile: bytes, value: str, size: int):
    body = hostile * (size // len(hostile))
    assert redacted(spellings_of(value), cut(body, list(range(0, len(body), 65_536)))) == body


@pytest.mark.slow
def test_the_beginning_of_a_value_over_and_over_passes_in_the_end():
    value = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.\\%&<s3cr3t>"
    for body in (value[:-1].encode(), base64.b64encode(value.encode())[:-8], value[:-1].encode().hex().encode()):
        body *= 2**19 // len(body)
        assert redacted(spellings_of(value), cut(body, list(range(0, len(body), 65_536)))) == body
