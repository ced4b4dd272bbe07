"""The hints of errors that a model makes first: what a program writes as in a notebook, and as on the host."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import actbox
from actbox.sandbox.guest.notebook import is_installed
from tests.conftest import engine_check


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    a: int
    b: str


@dataclasses.dataclass
class Order:
    id: int
    colour: Colour = Colour.RED


def order(colour: Colour, pair: Pair) -> Order:
    return Order(pair.a, colour)


def pair() -> Pair:
    return Pair(1, "x")


@pytest.fixture(scope="module")
def box() -> Iterator[actbox.sync.SyncSandbox]:
    with actbox.sync.open_sandbox("process", allow_unisolated=True) as opened:
        yield opened


def hint_of(box: actbox.sync.SyncSandbox, code: str) -> str:
    result = box.run(code, tools=[order, pair])
    assert result.error is not None, result
    return result.error.hint


LITERAL = "Colour stands for plain values here: write one of 'red', 'blue'"
DICT = "Order is a dict here: make it as Order(id=…, colour=…), read o['id'], and ask isinstance(o, dict)"
TUPLE = "Pair is a plain tuple here: write its 2 items in parentheses"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("Colour.RED", LITERAL),
        ("Colour('red')", LITERAL),
        ("isinstance('red', Colour)", LITERAL),
        ("Order(1)", DICT),
        ("isinstance({}, Order)", DICT),
        ("order('red', (1, 'x')).id", "it is a dict here: write ['id'] in place of .id"),
        ("Pair(1, 'x')", TUPLE),
        ("Pair(a=1, b='x')", TUPLE),
        (
            "pair().a",
            "a tuple, also a named one that a tool returns, has items without names here: write [0] for the first",
        ),
        ("from order import Order", "Order: there without an import, so leave this line out"),
        ("o: Order = 1 + 'a'", ""),
        ("order(Order(id=1), Colour.RED)", LITERAL),
        ("o = Order(id=1)\norder(o, Colour.RED)", LITERAL),
        ("order(\n    Order(id=1),\n    Colour.RED,\n)", LITERAL),
        ("order(Order(1), Colour.RED)", DICT),
        ("Order(id=1).total", DICT),
        ("order(Order(id=1), 1 + 'a')", ""),
        ("1 + Order(id=1)", ""),
        ("'%d' % len(Order.__annotations__) + 1", ""),
        ("(1, 2).append(3)", ""),
        ("{}.id", ""),
    ],
)
def test_a_class_of_a_tools_signature_that_is_used_as_on_the_host_gets_a_hint(
    box: actbox.sync.SyncSandbox, code: str, hint: str
) -> None:
    assert hint_of(box, code) == hint


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("x = !ls", "a line with `!` is a notebook's"),
        ("x = %time f()", "a line with `%` is a notebook's"),
        ("?print", "call help(print) instead"),
        ("print??", "call help(print) instead"),
        (">>> print(1)\n1", "leave the prompts"),
        ("```python\nprint(1)\n```", "leave the fences"),
        ("x = 1 1", "correct line 1"),
    ],
)
def test_a_line_of_a_notebook_a_prompt_or_a_chat_gets_a_hint(
    box: actbox.sync.SyncSandbox, code: str, hint: str
) -> None:
    assert hint in hint_of(box, code)


@pytest.mark.slow
def test_an_editable_install_is_named_where_there_is_one(box: actbox.sync.SyncSandbox) -> None:
    assert "editable" not in hint_of(box, "import no_such_package_here")
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    if not is_installed("actbox", editable=True):
        pytest.skip("actbox is no editable install here")
    result = actbox.sync.run("import actbox", engine="linux")
    assert result.error is not None
    assert result.error.hint.startswith("actbox is an editable install, which programs do not see")


@pytest.mark.slow
def test_a_directory_of_packages_that_programs_may_not_read_is_named() -> None:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    program = "import os, sys\nos.mkdir('packages', 0)\nsys.path.append('packages')\nimport no_such_package_here"
    result = actbox.sync.run(program, engine="linux")
    assert result.error is not None
    assert "no_such_package_here was not found, and programs may not read packages" in result.error.hint
