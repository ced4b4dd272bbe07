"""Configuration files as plain data: mappings, lists, text, numbers and booleans from TOML or YAML."""

from __future__ import annotations

import codecs
import importlib
import os
import re
import reprlib
import stat
import tomllib
from collections.abc import Iterator
from typing import Any, Final

from actbox.core.errors import ActboxError, InvalidValue

_MOST_BYTES: Final = 2**20
_MOST_DEPTH: Final = 10
_MOST_RESOLVED: Final = 100
"""Longer plain scalars of YAML are text. PyYAML takes quadratic time for long numbers of base 60."""
_BYTE_ORDER_MARKS: Final = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMENT: Final = re.compile(r"[ \t]+#[ \t]*([^\r\n]*)")


class Commented(str):
    """An item of a YAML list, with the comment that follows it on its line."""

    comment: str = ""


def is_toml(file: str) -> bool:
    """Return True for the name of a TOML file."""
    return file.lower().endswith(".toml")


def read_document(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return a file's path as text, and its content. Raises `InvalidValue`, and `ActboxError` if PyYAML is missing."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidValue(f"Config.load takes paths, each as an argument of its own, not {reprlib.repr(path)}")
    file = os.fspath(path)
    if not file.lower().endswith((".toml", ".yaml", ".yml")):
        raise InvalidValue(f"{file!r} is no configuration: its name ends neither in .toml nor in .yaml")
    text = _read(file)
    document = _toml(text, file) if is_toml(file) else _Yaml(text, file).document()
    if not document:
        raise InvalidValue(f"{file} is empty; write the configuration, or leave the file out")
    if not isinstance(document, dict):
        raise InvalidValue(f"{file} must begin with a key, not with {reprlib.repr(document)}")
    return file, document


def yaml_texts(text: str, file: str) -> Any:
    """Return a YAML document whose scalars all are text, as written; `None` for one of comments alone.

    Raises as `read_document` does, with the name `file`.
    """
    return _Yaml(text, file, typed=False).document()


def _read(file: str) -> str:
    try:
        # Opening a named pipe would wait until something writes to it.
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise InvalidValue(f"{file} is no regular file, but a directory, pipe or device; name the file itself")
        with open(file, "rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidValue(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise InvalidValue(f"{file} is larger than {_MOST_BYTES // 2**20} MiB, which no configuration is")
    if data.startswith(_BYTE_ORDER_MARKS):
        raise InvalidValue(f"{file} begins with a byte order mark; save it as UTF-8 without one")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidValue(f"{file} is not UTF-8 text; save it as UTF-8") from None


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"{file} is not TOML: {error}") from None


class _Yaml:
    """A reader of one YAML document, which takes time and memory in proportion to its length.

    It builds plain data of PyYAML's events, and has no aliases, anchors, tags, or mappings with two equal keys.
    """

    def __init__(self, text: str, file: str, *, typed: bool = True) -> None:
        try:
            self._yaml: Any = importlib.import_module("yaml")
        except ImportError:
            raise ActboxError(f"{file} is YAML, and PyYAML is not installed: pip install pyyaml") from None
        self._text, self._file, self._typed = text, file, typed
        self._events: Iterator[Any] = self._yaml.parse(
            text, Loader=getattr(self._yaml, "CSafeLoader", self._yaml.SafeLoader)
        )
        self._scalars = self._yaml.SafeLoader("")

    def document(self) -> Any:
        """Return the content; `None` for a file of comments alone."""
        try:
            next(self._events)  # the stream begins
            if isinstance(next(self._events), self._yaml.StreamEndEvent):
                return None
            value = self._value(next(self._events), 0)
            next(self._events)  # the document ends
            if not isinstance(next(self._events), self._yaml.StreamEndEvent):
                raise InvalidValue(f"{self._file} has several YAML documents; leave one of them")
            return value
        except InvalidValue:
            raise
        except (self._yaml.YAMLError, ValueError, ArithmeticError) as error:
            mark = getattr(error, "problem_mark", None)
            place = f" in line {mark.line + 1}" if mark else ""
            problem = getattr(error, "problem", None) or str(error).splitlines()[0]
            raise InvalidValue(f"{self._file} is not YAML{place}: {problem}") from None

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, self._yaml.AliasEvent) or event.anchor or event.tag:
            raise self._refused(event, "has an anchor, alias or tag; write the value itself")
        if depth > _MOST_DEPTH:
            raise self._refused(event, f"is nested more than {_MOST_DEPTH} deep")
        if isinstance(event, self._yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, self._yaml.SequenceStartEvent):
            return [self._commented(self._value(item, depth + 1), item) for item in self._until_end()]
        found: dict[str, Any] = {}
        for key_event in self._until_end():
            key = self._value(key_event, depth + 1)
            if not isinstance(key, str):
                raise self._refused(key_event, "has a key that is no text; write it between quotes")
            if key in found:
                raise self._refused(key_event, f"has the key {reprlib.repr(key)} a second time; remove one")
            found[key] = self._value(next(self._events), depth + 1)
        return found

    def _until_end(self) -> Iterator[Any]:
        """Yield the events of a list or mapping, without those of values inside, which `_value` takes."""
        ends = (self._yaml.SequenceEndEvent, self._yaml.MappingEndEvent)
        while not isinstance(event := next(self._events), ends):
            yield event

    def _scalar(self, event: Any) -> Any:
        is_plain, _ = event.implicit
        if not (is_plain and self._typed) or len(event.value) > _MOST_RESOLVED:
            return event.value
        tag = self._scalars.resolve(self._yaml.ScalarNode, event.value, event.implicit)
        return self._scalars.construct_object(self._yaml.ScalarNode(tag, event.value))

    def _commented(self, value: Any, event: Any) -> Any:
        found = _COMMENT.match(self._text, event.end_mark.index) if isinstance(value, str) else None
        if found is None:
            return value
        text = Commented(value)
        text.comment = found[1].rstrip()
        return text

    def _refused(self, event: Any, why: str) -> InvalidValue:
        return InvalidValue(f"{self._file}: line {event.start_mark.line + 1} {why}")
