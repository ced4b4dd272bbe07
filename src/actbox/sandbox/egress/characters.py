"""The spellings of one character in the usual encodings, as regular expressions over bytes.

A character has several patterns only if one of its spellings begins another one, as `%` begins `%25`. Each pattern
alone ends in at most one place, so a search that keeps all the places reached misses nothing and never backtracks.
"""

from __future__ import annotations

import functools
import html.entities
import re

MOST_BYTES = 64
"""The most bytes of a spelling of one UTF-8 byte of a text, with a line break before each part of it."""

FULL_LINE = 16
"""The least number of base64 letters or hexadecimal digits in a line that is broken in their middle."""

_IN_LINES = rb"[A-Za-z0-9+/_-]"
_ESCAPE = rb"\\{1,8}"  # a backslash in JSON in JSON in JSON becomes eight
_LINE_BREAK = (
    rb"(?:(?<=%(line)b{%(full)d})\r?\n|(?:%(escape)br)?%(escape)bn|(?:%%(?:25)?0[dD])?%%(?:25)?0[aA]|(?:&#13;)?&#10;)"
    % {b"line": _IN_LINES, b"full": FULL_LINE, b"escape": _ESCAPE}
)
_NO_FULL_LINE = rb"(?<!%b{%d})" % (_IN_LINES, FULL_LINE)
_NO_FULL_LINE_AND_RETURN = rb"(?<!%b{%d}\r)" % (_IN_LINES, FULL_LINE)

WHOLE_LINES = re.compile(
    rb"(?s:.*)(?:%b%b\n|%b\r|[\r\n](?=[^A-Za-z0-9+/_=%%&\\\n-]|(?<=\n)\n))"
    % (_NO_FULL_LINE, _NO_FULL_LINE_AND_RETURN, _NO_FULL_LINE)
)
"""Text up to the last line end over which no spelling can continue, whatever follows."""

Patterns = tuple[re.Pattern[bytes], ...]


@functools.cache
def spelled(char: str, flags: int = 0) -> Patterns:
    """Return the patterns of one character of a text."""
    return tuple(re.compile(pattern, flags) for pattern in _spellings(char))


@functools.cache
def in_base64(char: str, flags: int = 0) -> Patterns:
    """Return the pattern of one letter of base64, of either alphabet."""
    alike = {"+": "+-", "/": "/_"}.get(char, "")
    pattern = b"|".join(_spellings(letter)[0] for letter in alike) or char.encode()
    return (re.compile(pattern, flags),)


@functools.cache
def in_hex(digit: str, flags: int = 0) -> Patterns:
    """Return the pattern of one hexadecimal digit."""
    return (re.compile(_hexadecimal(digit), flags),)


@functools.cache
def after_break(patterns: Patterns) -> Patterns:
    """Return the patterns of a base64 letter or a digit, optionally with a line break before it."""
    return tuple(re.compile(rb"%b?(?:%b)" % (_LINE_BREAK, pattern.pattern), pattern.flags) for pattern in patterns)


@functools.cache
def base64_end(char: str, flags: int = 0) -> re.Pattern[bytes]:
    """Return the pattern of the last letter and the padding of base64, any part of which may be missing."""
    ((letter,), (padding,)) = after_break(in_base64(char)), after_break(spelled("="))
    return re.compile(rb"(?:%b)?(?:%b){0,2}" % (letter.pattern, padding.pattern), flags)


def _spellings(char: str) -> list[bytes]:
    code, raw = ord(char), char.encode()
    number = _hexadecimal(f"{code:x}")
    escapes = [rb"x" + number] if code < 0x100 else []
    escapes += [rb"u" + _hexadecimal(f"{code:04x}")] if code < 0x10000 else []
    escapes += [rb"U" + _hexadecimal(f"{code:08x}"), rb"u\{0{0,4}%b\}" % number]
    escapes += [f"{code:03o}".encode()] if code < 0x80 else []
    escapes += [re.escape(raw)] if code < 0x80 and not char.isalnum() and char != "\\" else []
    names = [name.encode() for name, text in html.entities.html5.items() if text == char and name.endswith(";")]
    entities = [rb"#0{0,5}%d;" % code, rb"#[xX]0{0,5}%b;" % number, *(name for name in names if name != b"amp;")]
    ways = [
        rb"%b(?:%b)" % (_ESCAPE, b"|".join(escapes)),
        rb"&(?:amp;)?(?:%b)" % b"|".join(entities),
    ]
    if code >= 0x80:
        ways.append(b"".join(rb"(?:%b|%b|%bx%b)" % _byte(byte) for byte in raw))
    if code >= 0x10000:
        pair = char.encode("utf-16-be").hex()
        ways.append(rb"%bu%b%bu%b" % (_ESCAPE, _hexadecimal(pair[:4]), _ESCAPE, _hexadecimal(pair[4:])))
    if char == "%":
        return [b"|".join(ways), *(b"%" + b"25" * times for times in range(4))]
    if char == "&":
        return [b"|".join([*ways, rb"%(?:25){0,2}26"]), *(b"&" + b"amp;" * times for times in range(3))]
    if code < 0x80:
        ways.append(rb"%%(?:25){0,2}%b" % _hexadecimal(f"{code:02x}"))
    if char == "\\":
        return [b"|".join(ways), *(rb"\\" * times for times in (1, 2, 4, 8))]
    if char == " ":
        ways.append(rb"\+")
    if code < 0x80:
        ways.append(re.escape(raw))
    # A text in Latin-1 has one byte, while UTF-8 may have this byte and another.
    latin = [rb"%b|%b" % _byte(code)[:2]] if 0x80 <= code < 0x100 else []
    return [b"|".join(ways), *latin]


def _byte(byte: int) -> tuple[bytes, bytes, bytes, bytes]:
    number = _hexadecimal(f"{byte:02x}")
    return re.escape(bytes([byte])), rb"%(?:25){0,2}" + number, _ESCAPE, number


def _hexadecimal(digits: str) -> bytes:
    return b"".join(b"[%b%b]" % (d.encode(), d.upper().encode()) if d.isalpha() else d.encode() for d in digits)
