"""Several descriptors at once: made all or none, and closed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def each_or_none(make: Callable[[T], int], things: Iterable[T]) -> list[int]:
    """Return a descriptor for each thing; if one cannot be made, close the others and raise its error."""
    made: list[int] = []
    try:
        for thing in things:
            made.append(make(thing))
    except BaseException:
        close_all(made)
        raise
    return made


def close_all(descriptors: list[int]) -> None:
    """Close descriptors, and empty the list."""
    while descriptors:
        os.close(descriptors.pop())
