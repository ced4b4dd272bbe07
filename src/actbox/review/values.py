"""What an expression may be, as far as a reader can tell: a handful of kinds of values, and texts folded to one."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Ref:
    """Something imported or built in, by its full name: `os`, `os.system`, `builtins.eval`, `os.__dict__`."""

    path: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text or bytes; `whole=False` says that only its beginning is known."""

    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number."""

    number: int


@dataclass(frozen=True, slots=True)
class Items:
    """A container of anything in `values`. What is `mutable` may later get other elements."""

    values: frozenset[Value]
    mutable: bool = True


@dataclass(frozen=True, slots=True)
class FilePath:
    """A `pathlib.Path`."""

    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """The function of a tool, or `call_tool` where `name` is `None`."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Plain:
    """Nothing of interest: a number, `None`, a function or class of the program's own."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything. `unbound` says that the program binds no such name: an earlier program of a session may have."""

    unbound: bool = False


Value = Ref | Text | Number | Items | FilePath | ToolFunction | Plain | Unknown
Values = frozenset[Value]

NONE: Final[Values] = frozenset()
UNKNOWN: Final[Values] = frozenset([Unknown()])
PLAIN: Final[Values] = frozenset([Plain()])

MAX_VALUES: Final = 8
"""What may have more values than this may have any. References are not counted: a program spells each of them out."""
MAX_TEXT: Final = 4096


def bounded(values: Iterable[Value]) -> Values:
    """Return a set of values, or where there are too many, one that says "anything" beside the references in it."""
    found = frozenset(values)
    if len(found) <= MAX_VALUES:
        return found
    references = frozenset(value for value in found if isinstance(value, (Ref, ToolFunction)))
    return found if len(found) - len(references) <= MAX_VALUES else references | UNKNOWN


def shallow(values: Values) -> Values:
    """Return the elements of a container, with "anything" for containers that hold containers themselves."""
    inner = [value for value in values if isinstance(value, Items)]
    if any(isinstance(value, Items) for items in inner for value in items.values):
        return bounded(elements(values, deep=True) | UNKNOWN)
    return bounded(values)


def elements(values: Values, *, deep: bool = False) -> Values:
    """Return what the elements of containers may be; with `deep`, the containers and all that is inside them."""
    found: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Items):
            inner = value.values
            found |= inner
            if deep:
                waiting.extend(inner)
        elif isinstance(value, Text):
            found.add(Unknown())
        elif deep:
            found.add(value)
        else:
            found.add(Unknown())
    return bounded(found)


def constant(value: object) -> Values:
    """Return what a literal of the source is."""
    if isinstance(value, str):
        return frozenset([text(value)])
    if isinstance(value, bytes):
        return frozenset([text(value.decode("latin-1"))])
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31:
        return frozenset([Number(value)])
    return PLAIN


def text(value: str, whole: bool = True) -> Text:
    """Return a text, of which no more is known than a reader needs."""
    return Text(value, whole) if len(value) <= MAX_TEXT else Text(value[:MAX_TEXT], False)


def combined(operator: ast.operator, left: Value, right: Value) -> Value:
    """Return what an operator makes of two values."""
    match operator, left, right:
        case ast.Add(), Text(whole=True), Text():
            return text(left.text + right.text, right.whole)
        case ast.Add(), Text(whole=True), _:
            return Text(left.text, False)
        case ast.Add(), Text(whole=False), _:
            return left
        case ast.Add(), Items(), Items():
            return Items(bounded(left.values | right.values), left.mutable)
        case ast.Add(), Number(), Number():
            return Number((left.number + right.number) % 2**31)
        case ast.Sub(), Number(), Number():
            return Number((left.number - right.number) % 2**31)
        case ast.Mult(), Text(whole=True), Number(number=times):
            return text(left.text * max(min(times, MAX_TEXT // max(len(left.text), 1) + 1), 0))
        case ast.Mod(), Text(), _:
            known, percent, _rest = left.text.partition("%")
            return Text(known, left.whole and not percent)
        case ast.Div(), FilePath(whole=True), Text() | FilePath():
            return FilePath(posixpath.join(left.text, right.text), right.whole)
        case ast.Div(), FilePath(), _:
            return FilePath(left.text + "/", False)
        case ast.Div(), Text(whole=True), FilePath():
            return FilePath(posixpath.join(left.text, right.text), right.whole)
    return Unknown()


def method(base: Value, name: str, arguments: list[Value]) -> Value:
    """Return what a method of a text or a path gives, where that can be told; nothing of the program is called."""
    match base, name, arguments:
        case Text(whole=True), "join", [Items(values=values)] if len(values) == 1:
            return Unknown()  # the order and number of elements is not known
        case Text(whole=True), "replace", [Text(whole=True), Text(whole=True)]:
            old, new = arguments[0], arguments[1]
            assert isinstance(old, Text) and isinstance(new, Text)
            if len(base.text) * len(new.text) <= MAX_TEXT:
                return text(base.text.replace(old.text, new.text))
        case Text(
            whole=True
        ), "lower" | "upper" | "strip" | "swapcase" | "title" | "casefold" | "lstrip" | "rstrip", []:
            return text(getattr(base.text, name)())
        case Text(), "encode" | "decode", [] | [Text(text="utf-8" | "utf8" | "ascii" | "latin-1")]:
            return base
        case Text(), "format", _:
            known, brace, _rest = base.text.partition("{")
            return Text(known, base.whole and not brace)
        case FilePath(whole=True), "joinpath", [Text() as part]:
            return FilePath(posixpath.join(base.text, part.text), part.whole)
        case FilePath(), "resolve" | "absolute" | "expanduser", []:
            return base
        case FilePath(), "as_posix", []:
            return Text(base.text, base.whole)
        case FilePath(whole=True), "with_name" | "with_suffix", _:
            return FilePath(posixpath.dirname(base.text) + "/", False)
    return Unknown()


def sliced(base: Value, part: ast.Slice) -> Value:
    """Return a slice of a text whose bounds are literals."""
    bounds = []
    for bound in (part.lower, part.upper, part.step):
        try:
            bounds.append(None if bound is None else ast.literal_eval(bound))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return Unknown()
    if (
        isinstance(base, Text)
        and base.whole
        and all(b is None or isinstance(b, int) for b in bounds)
        and bounds[2] != 0
    ):
        return Text(base.text[slice(*bounds)])
    return base if isinstance(base, Items) else Unknown()


def folded(path: str, arguments: list[Value]) -> Value | None:
    """Return what a function that only makes text or paths gives for these arguments, `None` for any other function."""
    first = arguments[0] if arguments else None
    match path, first:
        case "builtins.str", Text() | FilePath():
            return Text(first.text, first.whole)
        case "builtins.chr", Number(number=code) if 0 <= code < 0xD800:
            return Text(chr(code))
        case "builtins.ord", Text(text=character, whole=True) if len(character) == 1:
            return Number(ord(character))
        case "os.fspath" | "os.fsencode" | "os.fsdecode", Text() | FilePath():
            return Text(first.text, first.whole)
        case "os.path.expanduser" | "os.path.abspath" | "os.path.realpath" | "os.path.normpath", Text():
            return first
        case "os.path.join", Text():
            return _joined(arguments)
        case "base64.b64decode" | "base64.standard_b64decode" | "base64.urlsafe_b64decode", Text(whole=True):
            try:
                return text(base64.b64decode(first.text).decode("latin-1"))
            except (binascii.Error, ValueError):
                return Unknown()
        case "binascii.unhexlify" | "builtins.bytes.fromhex" | "bytes.fromhex", Text(whole=True):
            try:
                return text(bytes.fromhex(first.text).decode("latin-1"))
            except ValueError:
                return Unknown()
        case "codecs.decode" | "codecs.encode", Text(whole=True) if arguments[1:] in (
            [Text("rot13")],
            [Text("rot_13")],
        ):
            return text(codecs.encode(first.text, "rot13"))
    return None


def _joined(arguments: list[Value]) -> Value:
    path = ""
    for part in arguments:
        if not isinstance(part, (Text, FilePath)):
            return Text(posixpath.join(path, ""), False)
        path = posixpath.join(path, part.text)
        if not part.whole:
            return Text(path, False)
    return Text(path)


def file_path(arguments: list[Value]) -> FilePath | Unknown:
    """Return what `pathlib.Path(*arguments)` is."""
    if not arguments:
        return FilePath(".")
    joined = _joined(arguments)
    if not isinstance(joined, Text) or not isinstance(arguments[0], (Text, FilePath)):
        return Unknown()
    return FilePath(joined.text, joined.whole)
