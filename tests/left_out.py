"""Tests that the mark expression (`-m`) leaves out, found before they are made.

A test costs each worker of pytest-xdist a third of a millisecond to make, and there are ten thousand that most runs
deselect. Where test ids are on the command line all tests are made, so that one that is asked for is found.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection
from typing import Any

import pytest
from _pytest.mark.expression import Expression

_expression = ""
_known: dict[frozenset[str], bool] = {}


def configure(config: pytest.Config) -> None:
    """Read the mark expression of a run."""
    global _expression
    named = any("::" in argument for argument in config.args)
    _expression = "" if named else config.option.markexpr
    _known.clear()


def is_left_out(marks: Collection[str]) -> bool:
    """Return True if no test with these marks is selected, whichever other marks it gets."""
    if not _expression:
        return False
    names = set(re.findall(r"\w+", _expression)) - {"and", "or", "not"}
    there = frozenset(names.intersection(marks))
    if there not in _known:
        selected = Expression.compile(_expression)
        others = sorted(names - there)
        _known[there] = not any(
            selected.evaluate(functools.partial(_has, there.union(more)))
            for count in range(len(others) + 1)
            for more in itertools.combinations(others, count)
        )
    return _known[there]


def _has(marks: Collection[str], name: str, /, **_: object) -> bool:
    return name in marks


def marks_of(found: object) -> list[str]:
    """Return the names of the marks on a function or class."""
    marks: Any = getattr(found, "pytestmark", [])
    return [mark.name for mark in (marks if isinstance(marks, list) else [marks])]
