"""Checks of the content of configuration files: mappings, lists and text, each with the place that an error names."""

from __future__ import annotations

import contextlib
import difflib
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from actbox.core.errors import InvalidValue


def mapping_of(value: object, known: Iterable[str], where: str) -> Mapping[str, Any]:
    """Return a mapping. Raises `InvalidValue` for anything else, and for an unknown key."""
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{where} has keys ({', '.join(known)}); it cannot be {reprlib.repr(value)}")
    check_keys(value, known, where)
    return value


def list_of(value: object, where: str) -> list[Any]:
    """Return a list. Raises `InvalidValue` for anything else."""
    if not isinstance(value, list):
        raise InvalidValue(f"{where} is a list, [] if it is empty, not {reprlib.repr(value)}")
    return value


def text_of(value: object, where: str) -> str:
    """Return text that is not empty. Raises `InvalidValue` for anything else."""
    if not isinstance(value, str) or not value:
        raise InvalidValue(
            f"{where}: expected text, not {reprlib.repr(value)}; numbers and words such as yes need quotes"
        )
    return str(value)  # a `Commented` becomes plain text


def check_keys(keys: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise `InvalidValue` for an unknown key."""
    for key in keys:
        if key not in known:
            raise InvalidValue(f"{where}: unknown key {unknown_name(key, known)}")


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the name, the nearest known name, and all of them."""
    names = list(known)
    (nearest,) = difflib.get_close_matches(name[:100].lower(), names, n=1, cutoff=0)
    return f"{reprlib.repr(name)}; the nearest known one is {nearest!r} ({', '.join(names)})"


@contextlib.contextmanager
def placed(where: str) -> Iterator[None]:
    """Name the place of an invalid value in its error."""
    try:
        yield
    except InvalidValue as error:
        raise InvalidValue(f"{where}: {error}") from None
