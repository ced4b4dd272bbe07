"""The reader: from source text to forms, in one pass over the tokens, with its own stack of open brackets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf
from typing import NoReturn

from . import tokens
from .errors import ReadError, excerpt_of, position_of
from .syntax import (
    Annotated,
    Context,
    Form,
    Keyword,
    ListForm,
    Literal,
    MapForm,
    Position,
    Quasiquote,
    Resource,
    Splice,
    Symbol,
    Timestamp,
    Unquote,
    Uuid,
    VectorForm,
)

MAX_DEPTH = 10_000
"""The default limit for the nesting of forms."""
MAX_BYTES = 4 * 1024 * 1024
"""The default limit for the size of source, in bytes of UTF-8; the forms of this much take about 600 MB."""

TOKENS_BETWEEN_LOOKS = 4096
_MOST_PLACEHOLDERS = 20
_PLACEHOLDER = re.compile(r"%([0-9]*)")
_WRONG_ESCAPE = re.compile(r"(?:[^\\]|\\[ntr\\\"])*+\\([\s\S])")
"""A pattern for text up to its first invalid escape; the group is the character after the backslash."""
_A_FORM = "a form"
_MENDS = {
    ",": ("`,` is not white space in RTFS", "a space"),
    "'": ("`'` does not quote in RTFS", "a quasiquote: `` ` ``"),
    '"': ("the string is never closed", '`"` before the end of the source'),
    "#": ("`#` begins no form here", "`#(…)`, `##Inf`, `##-Inf`, `##NaN` or a comment `#| … |#`"),
    ":": ("`:` begins no keyword here", "a keyword's name, or a space and a type"),
    "@": ("`@` begins no name here", "`@name` or `@:name`"),
    ".": ("`.` begins no form here", "`(.method target …)`"),
    "\\": ("RTFS has no character literals", "a string"),
    "\x00": ("a NUL character stands outside of a string", _A_FORM),
}


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet, or a prefix that waits for its forms."""

    mark: str
    at: Position
    wanted: int
    """The number of forms that complete it; 0 for a bracket, which its closer completes."""
    items: list[Form] = field(default_factory=list)
    placeholders: int = 0
    """The highest parameter named so far in the body of a short function."""


def read(
    source: str | bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
    look: Callable[[int], None] | None = None,
) -> tuple[Form, ...]:
    """Return the top-level forms of a program, none for one that is empty.

    `source` is text or UTF-8; a byte order mark at its beginning is left out. `max_depth` bounds the forms inside each
    other, brackets and prefixes alike, and `max_bytes` the size in UTF-8. Reading takes time and memory in proportion
    to the size, and never uses the host's stack.

    `look` is called every few thousand tokens with their number so far; what it raises ends the reading.

    Raises `ReadError` for everything else that is not RTFS.
    """
    return _Reader(_text(source, max_bytes), max_depth).forms(look)


def _text(source: str | bytes, max_bytes: int) -> str:
    """Return the source as text, without a byte order mark."""
    # Each character takes at least a byte, so text that is too long is refused without encoding it.
    size = len(source) if isinstance(source, bytes) or len(source) > max_bytes else len(_encoded(source))
    if size > max_bytes:
        message = f"the source has {size} bytes or more, and {max_bytes} is the most"
        raise ReadError(message, 1, 1, "a smaller program")
    text = source if isinstance(source, str) else _decoded(source)
    return text.removeprefix("\ufeff")


def _encoded(source: str) -> bytes:
    try:
        return source.encode()
    except UnicodeEncodeError as problem:
        at = position_of(source, problem.start)
        message = f"U+{ord(source[problem.start]):04X} is half of a surrogate pair, and no character"
        raise ReadError(message, *at, "text", excerpt_of(source, problem.start)) from None


def _decoded(source: bytes) -> str:
    try:
        return source.decode()
    except UnicodeDecodeError as problem:
        before = source[: problem.start].decode()
        at = position_of(before, len(before))
        message = f"byte 0x{source[problem.start]:02X} is not UTF-8"
        raise ReadError(message, *at, "text in UTF-8", excerpt_of(before + "\ufffd", len(before))) from None


class _Reader:
    """The reading of one text."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth
        self.line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.open: list[_Open] = []
        """The open brackets and prefixes, from the outermost to the innermost; the first stands for the whole
        program.
        """
        self.short: list[_Open] = []
        """The open short functions."""

    def at(self, offset: int) -> Position:
        """Return the position of the character at this offset."""
        line = bisect_right(self.line_starts, offset)
        return Position(line, offset - self.line_starts[line - 1] + 1)

    def fail(self, offset: int, message: str, expected: str) -> NoReturn:
        """Raise `ReadError` for the text at this offset."""
        raise ReadError(message, *self.at(offset), expected, excerpt_of(self.text, offset))

    def forms(self, look: Callable[[int], None] | None) -> tuple[Form, ...]:
        """Return the forms of the whole text; `look` is called every few thousand tokens with their number."""
        program = _Open("", Position(1, 1), 0)
        self.open.append(program)
        frame, append = program, program.items.append
        atoms = _ATOMS
        line, line_start, line_starts = 1, 0, self.line_starts
        next_line = line_starts[1] if len(line_starts) > 1 else len(self.text) + 1
        for number, token in enumerate(tokens.TOKEN.finditer(self.text)):
            if look is not None and number and not number % TOKENS_BETWEEN_LOOKS:
                look(number)
            kind = token.lastindex
            assert kind is not None, "every alternative is a group"
            start, end = token.span(kind)
            if start >= next_line:
                line = bisect_right(line_starts, start, line)
                line_start = line_starts[line - 1]
                next_line = line_starts[line] if line < len(line_starts) else len(self.text) + 1
            if kind == tokens.SYMBOL:
                name = token[kind]
                at = Position(line, start - line_start + 1)
                if name in tokens.CONSTANTS:
                    append(Literal(tokens.CONSTANTS[name], at))
                elif name[0] == "%" and self.short:
                    append(self.placeholder(name, at, start))
                else:
                    append(Symbol(name, at))
            elif kind == tokens.OPENER:
                frame = self.push(token[kind], Position(line, start - line_start + 1), 0)
                append = frame.items.append
                continue
            elif kind == tokens.CLOSER:
                frame = self.close(token[kind], start)
                append = frame.items.append
            elif kind == tokens.KEYWORD:
                append(Keyword(self.text[start + 1 : end], Position(line, start - line_start + 1)))
            elif kind in atoms:
                append(atoms[kind](self, token[kind], Position(line, start - line_start + 1), start))
            elif kind == tokens.PREFIX:
                mark = token[kind]
                frame = self.push(mark, Position(line, start - line_start + 1), 2 if mark == "^" else 1)
                append = frame.items.append
                continue
            elif kind == tokens.COMMENT:
                continue
            elif kind == tokens.END:
                break
            else:
                self.fail_other(token[kind], start)
            if frame.wanted:
                frame = self.complete()
                append = frame.items.append
        if frame is not program:
            self.fail_unclosed(frame)
        return tuple(program.items)

    def push(self, mark: str, at: Position, wanted: int) -> _Open:
        """Open a bracket or a prefix."""
        if len(self.open) > self.max_depth:
            self.fail(self.offset(at), f"more than {self.max_depth} forms stand inside each other", "a flatter program")
        frame = _Open(mark, at, wanted)
        self.open.append(frame)
        if mark == "#(":
            self.short.append(frame)
        return frame

    def close(self, closer: str, start: int) -> _Open:
        """Close the innermost bracket, add its form to the enclosing bracket, and return the enclosing one."""
        frame = self.open[-1]
        if frame.wanted:
            self.fail(start, f"{_quoted(frame.mark)} has no form after it", _A_FORM)
        if len(self.open) == 1:
            self.fail(start, f"`{closer}` closes nothing", f"{_A_FORM} or the end")
        if tokens.CLOSERS[frame.mark] != closer:
            line, column = frame.at
            message = f"`{closer}` does not close the `{frame.mark}` of line {line}, column {column}"
            self.fail(start, message, f"`{tokens.CLOSERS[frame.mark]}`")
        self.open.pop()
        around = self.open[-1]
        around.items.append(self.closed(frame))
        return around

    def closed(self, frame: _Open) -> Form:
        """Return the form that a closed bracket makes."""
        at = frame.at
        items = tuple(frame.items)
        if frame.mark == "{":
            return MapForm(self.entries(frame), at)
        if frame.mark == "#(":
            self.short.pop()
            parameters = ("%", *(f"%{number}" for number in range(2, frame.placeholders + 1)))[: frame.placeholders]
            body = ListForm(items, at) if items else VectorForm((), at)
            return ListForm(
                (Symbol("fn", at), VectorForm(tuple(Symbol(name, at) for name in parameters), at), body), at
            )
        if frame.mark == "(" and items:
            return ListForm(items, at)
        return VectorForm(items, at)

    def entries(self, frame: _Open) -> tuple[tuple[Form, Form], ...]:
        """Return the entries of a map, after checking that its keys are valid and distinct."""
        keys, values = frame.items[::2], frame.items[1::2]
        seen: set[tuple[type, object]] = set()
        for key in keys:
            if isinstance(key, Keyword | Symbol):
                name: object = key.name
            elif isinstance(key, Literal) and type(key.value) in (str, int):
                name = key.value
            else:
                message = f"{_described(key)} cannot be a key of a map"
                self.fail(self.offset(key.at), message, "a keyword, a string, an integer or, in a pattern, a symbol")
            known = len(seen)
            seen.add((key.__class__, name))
            if len(seen) == known:
                shown = f"`:{name}`" if isinstance(key, Keyword) else f"`{name}`"
                self.fail(self.offset(key.at), f"the key {shown} stands twice in the map", "each key once")
        if len(keys) != len(values):
            key_at = self.offset(keys[-1].at)
            self.fail(key_at, "the last key of the map has no value", "as many values as keys")
        return tuple(zip(keys, values, strict=True))

    def complete(self) -> _Open:
        """Complete the prefixes that have all of their forms, and return the innermost open bracket or prefix."""
        frame = self.open[-1]
        while frame.wanted and len(frame.items) == frame.wanted:
            self.open.pop()
            around = self.open[-1]
            around.items.append(self.prefixed(frame))
            frame = around
        return frame

    def prefixed(self, frame: _Open) -> Form:
        """Return the form of a complete prefix."""
        at = frame.at
        if frame.mark == "`":
            return Quasiquote(frame.items[0], at)
        if frame.mark == "~":
            return Unquote(frame.items[0], at)
        if frame.mark == "~@":
            return Splice(frame.items[0], at)
        meta, form = frame.items
        if isinstance(meta, MapForm) or (isinstance(meta, Keyword) and meta.name == "delegation"):
            return Annotated(meta, form, at)
        self.fail(self.offset(meta.at), f"{_described(meta)} is no metadata", "`^{:key value} form` or `^:delegation`")

    def offset(self, at: Position) -> int:
        """Return the offset of a position of this text."""
        return self.line_starts[at.line - 1] + at.column - 1

    def placeholder(self, name: str, at: Position, start: int) -> Symbol:
        """Return a symbol in the body of a short function; it may name a parameter: `%`, `%1`, `%2`…"""
        found = _PLACEHOLDER.fullmatch(name)
        if found is None:
            return Symbol(name, at)
        digits = found[1].lstrip("0") if found[1] else "1"
        if not digits or len(digits) > 2 or int(digits) > _MOST_PLACEHOLDERS:
            self.fail(start, f"`{name[:9]}` is no parameter of a short function", f"`%` to `%{_MOST_PLACEHOLDERS}`")
        number = int(digits)
        self.short[-1].placeholders = max(self.short[-1].placeholders, number)
        return Symbol("%" if number == 1 else f"%{number}", at)

    def integer(self, text: str, at: Position, start: int) -> Literal:
        """Read a 64-bit integer."""
        digits = text.lstrip("+-").lstrip("0")
        if len(digits) <= 19:
            value = -int(digits or "0") if text[0] == "-" else int(digits or "0")
            if tokens.INT_MIN <= value <= tokens.INT_MAX:
                return Literal(value, at)
        self.fail(start, "the integer does not fit in 64 bits", "-9223372036854775808 to 9223372036854775807")

    def number(self, text: str, at: Position, start: int) -> Literal:
        """Read a float."""
        value = float(text)
        if isinf(value):
            self.fail(start, "the number is too large for a float", "at most 1.7976931348623157e308, or ##Inf")
        return Literal(value, at)

    def string(self, text: str, at: Position, start: int) -> Literal:
        """Read a string in its quotes."""
        if "\\" not in text:
            return Literal(text[1:-1], at)
        wrong = _WRONG_ESCAPE.match(text)
        if wrong is not None:
            shown = wrong[1] if wrong[1].isprintable() else " "
            self.fail(start + wrong.start(1) - 1, f"`\\{shown}` is no escape", r"`\n`, `\t`, `\r`, `\\` or `\"`")
        # Pairs of backslashes are handled first: any backslash left then begins another escape.
        parts = text[1:-1].split("\\\\")
        for letter, meant in tokens.ESCAPES.items():
            if letter != "\\":
                parts = [part.replace(f"\\{letter}", meant) for part in parts]
        return Literal("\\".join(parts), at)

    def method(self, text: str, at: Position, start: int) -> Symbol:
        """Read `.name` at the head of a list as the function of that name."""
        frame = self.open[-1]
        if frame.mark not in ("(", "#(") or frame.items:
            self.fail(start, f"`{text[:40]}` stands where no method is called", "`(.method target …)`")
        if tokens.NO_SYMBOL.fullmatch(text[1:]):
            self.fail(start, f"`{text[:40]}` names no method", "a symbol after the point")
        return Symbol(text[1:], at)

    def fail_other(self, text: str, start: int) -> NoReturn:
        """Raise `ReadError` that explains why a text is no token."""
        if self.text.startswith("#|", start):
            self.fail(start, "the comment is never closed", "`|#` before the end of the source")
        if text[0].isdigit() or len(text) > 1:
            self.fail(
                start, f"`{text[:40]}` is no number", "an integer, or a float with digits on both sides of its point"
            )
        shown = _quoted(text) if text.isprintable() else f"U+{ord(text):04X}"
        self.fail(start, *_MENDS.get(text, (f"{shown} begins no form", _A_FORM)))

    def fail_unclosed(self, frame: _Open) -> NoReturn:
        """Raise `ReadError` for source that ends inside a bracket or after a prefix."""
        if frame.wanted:
            self.fail(self.offset(frame.at), f"{_quoted(frame.mark)} has no form after it", _A_FORM)
        expected = f"`{tokens.CLOSERS[frame.mark]}` before the end of the source"
        self.fail(self.offset(frame.at), f"this `{frame.mark}` is never closed", expected)


_ATOMS: dict[int, Callable[[_Reader, str, Position, int], Form]] = {
    tokens.INTEGER_TOKEN: _Reader.integer,
    tokens.FLOAT_TOKEN: _Reader.number,
    tokens.STRING: _Reader.string,
    tokens.METHOD: _Reader.method,
    tokens.MARK: lambda reader, text, at, start: Symbol(text, at),
    tokens.UUID_TOKEN: lambda reader, text, at, start: Uuid(text, at),
    tokens.RESOURCE_TOKEN: lambda reader, text, at, start: Resource(text, at),
    tokens.TIMESTAMP_TOKEN: lambda reader, text, at, start: Timestamp(text, at),
    tokens.SPECIAL_FLOAT: lambda reader, text, at, start: Literal(tokens.SPECIAL_FLOATS[text], at),
    tokens.CONTEXT: lambda reader, text, at, start: Context(text.lstrip("@:"), text[1] == ":", at),
}


def _quoted(text: str) -> str:
    """Return a piece of source, shortened and quoted for a message."""
    return "`` ` ``" if text == "`" else f"`{text}`"


def _described(form: Form) -> str:
    """Return the name of a form's kind for a message."""
    kinds = {ListForm: "a list", VectorForm: "a vector", MapForm: "a map", Symbol: "a symbol", Keyword: "this keyword"}
    if isinstance(form, Literal):
        return {bool: "a truth value", float: "a float", str: "a string", int: "an integer"}.get(
            type(form.value), "nil"
        )
    return kinds.get(type(form), "this form")
