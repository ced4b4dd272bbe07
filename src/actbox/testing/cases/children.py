"""Cases of processes that a program forks, or starts anew as `multiprocessing` does with `spawn` and `forkserver`."""

from __future__ import annotations

import pytest

from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases
from .needs import SESSIONS, TOOLS, case, python

_EVERY_WAY = pytest.mark.parametrize("way", ["spawn", "forkserver"])

# Statements other than imports, functions, classes and constants print, or fail, if a child runs them again.
_PROGRAM = """
import multiprocessing
from collections import namedtuple
from dataclasses import dataclass

print("once")
open("once", "x").close()
FACTOR = 3

def load():
    print("loaded")
    return {{}}

class Client:
    @staticmethod
    def set(key, value):
        print("set")

    @staticmethod
    def list():
        print("listed")

class Store:
    data = load()

answer = Client.set("k", 1)
listed = [Client.list()]
Point = namedtuple("Point", "x y")

@dataclass
class Number:
    value: int
    print("once more")

    def times(self, factor: int) -> "Number":
        return Number(self.value * factor)

def work(point):
    return Number(point.x + point.y).times(FACTOR)

with multiprocessing.get_context({way!r}).Pool(2) as pool:
    found = pool.map(work, [Point(n, 1) for n in range(3)])
[number.value for number in found]
"""

# Each writes a line when it runs, which is when the program defines or names something.
_RUN_BY_DEFINITIONS = """
import collections, multiprocessing


def note(what):
    with open("notes", "a") as file:
        file.write(what + "\\n")


def partial(number):
    note("a function named as a maker")
    return number


three = partial(3)


def run(function):
    note("a decorator")
    return function


@run
def decorated():
    pass


class Meta(type):
    def __init__(cls, *given):
        note("a metaclass")


class Made(metaclass=Meta):
    pass


class Base:
    def __init_subclass__(cls):
        note("a hook of a base")

    def __class_getitem__(cls, key):
        note("a subscript")
        return key


class Derived(Base):
    pass


key = Base[1]


def base():
    note("a base")
    return object


class Based(base()):
    pass


class Inside:
    def date(number):
        note("a method named as a maker")

    today = date(1)


def work(number):
    return number


with multiprocessing.get_context("WAY").Pool(1) as pool:
    found = pool.map(work, [1, 2])
counted = collections.Counter(open("notes").read().splitlines())
[found, [note for note in counted if counted[note] > 1]]
"""
_WRAPPED = """
import functools, multiprocessing
from functools import wraps


def timed(function):
    @wraps(function)
    def inner(*given):
        return function(*given)

    return inner


def times(factor):
    def wrap(function):
        @functools.wraps(function)
        def inner(*given):
            return factor * function(*given)

        return inner

    return wrap


class Whole:
    def __init_subclass__(cls, **given):
        super().__init_subclass__(**given)
        cls.kind = cls.__name__


class Part(Whole):
    @property
    def size(self):
        return self.kept

    @size.setter
    def size(self, value):
        self.kept = value


@timed
def one():
    return 2


@times(3)
def two():
    return 2


def work(number):
    return [one(), Part.kind, two()]


with multiprocessing.get_context("WAY").Pool(1) as pool:
    found = pool.map(work, [1])
found
"""


class ChildCases(Cases):
    """A newly started process finds the program's functions, and runs none of the program's code twice."""

    @_EVERY_WAY
    @case(python("full"))
    async def test_a_pool_of_new_processes_finds_what_the_program_defines(self, box: Sandbox, way: str) -> None:
        """Imports, functions, classes and constants are there; nothing else of the program runs again."""
        result = await box.run(_PROGRAM.format(way=way))
        assert result.success, result
        assert (result.value, result.stdout, result.stderr) == ([3, 6, 9], "once\nloaded\nset\nlisted\nonce more\n", "")

    @_EVERY_WAY
    @case(python("full"), TOOLS)
    async def test_a_tool_in_a_new_process_is_refused_in_a_sentence(self, box: Sandbox, way: str) -> None:
        """Tools can be called from the program's first process only."""

        def double(number: int) -> int:
            raise AssertionError("it was called")

        code = f"""
import multiprocessing

def work(number):
    return double(number)

with multiprocessing.get_context({way!r}).Pool(1) as pool:
    pool.map(work, [1])
"""
        error = (await box.run(code, tools=[double])).error
        assert error is not None, NO_ERROR
        assert error.type == "ToolError" and "first process only" in error.message, error

    @case(python("full"), TOOLS)
    async def test_a_tool_in_another_interpreter_is_refused_in_a_sentence(self, box: Sandbox) -> None:
        """Tools can be called from the program's first interpreter only."""

        def double(number: int) -> int:
            raise AssertionError("it was called")

        code = """
try:
    import _interpreters
except ImportError:  # before Python 3.13
    import _xxsubinterpreters as _interpreters

refused = "try:\\n    double(1)\\nexcept ToolError as error:\\n    print(error)"
made = _interpreters.create()
_interpreters.run_string(made, refused)
_interpreters.destroy(made)  # which writes out what it printed
"""
        result = await box.run(code, tools=[double])
        assert result.success, result
        assert "first process only" in result.stdout, result

    @case(python("full"))
    async def test_what_a_new_process_lacks_is_an_error_that_names_it(self, box: Sandbox) -> None:
        """A variable that is not a constant is missing in a new process, and the error says what to do."""
        code = """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing

count = 1
count += 1

def work(number):
    return number + count

with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
    pool.submit(work, 1).result()
"""
        error = (await box.run(code)).error
        assert error is not None, NO_ERROR
        assert error.type == "NameError" and "count" in error.message, error
        assert "argument" in error.hint, error

    @case(python("full"))
    async def test_a_function_that_a_new_process_lacks_is_an_error_without_another_hint(self, box: Sandbox) -> None:
        """The error's message says what is missing and what to do; no hint repeats it."""
        code = """
import multiprocessing

def work(number):
    return number

twice = work
twice.__name__ = twice.__qualname__ = "twice"
twice = twice

with multiprocessing.get_context("spawn").Pool(1) as pool:
    pool.map(twice, [1])
"""
        error = (await box.run(code)).error
        assert error is not None, NO_ERROR
        assert error.message.startswith("twice is not there in a spawned process"), error
        assert (error.type, error.hint) == ("NameError", ""), error

    @case(python("full"))
    async def test_an_attribute_that_a_new_process_lacks_is_an_error_and_no_value_of_a_base(self, box: Sandbox) -> None:
        """A missing class attribute is an error when it is read, and never the value of a base class.

        Classes of libraries, which go through the attributes of a class, can be made all the same.
        """
        code = """
import dataclasses, enum, multiprocessing

def made():
    return 5

class Base:
    limit = 1

class Order(Base):
    size = 3
    limit = made()

@dataclasses.dataclass
class Item:
    name: str = "tea"
    price: int = made()

class Level(enum.Enum):
    LOW = 1
    HIGH = made()

def work(item):
    assert (Order.size, item.price, list(Level), Item("milk").name) == (3, 7, [Level.LOW], "milk")
    return Order().limit

with multiprocessing.get_context("spawn").Pool(1) as pool:
    pool.map(work, [Item("tea", 7)])
"""
        error = (await box.run(code)).error
        assert error is not None, NO_ERROR
        assert error.type == "AttributeError", error
        assert error.message.startswith("Order.limit is not there in a spawned process"), error

    @case(python("full"))
    async def test_a_field_whose_default_a_new_process_lacks_is_a_field_there(self, box: Sandbox) -> None:
        """A field stays in its class without its default: otherwise no instance could be unpickled, and a `Pool` would
        start processes for ever.
        """
        code = """
import dataclasses, multiprocessing, typing

def made():
    return 5

class Place(typing.NamedTuple):
    x: int
    y: int = made()

@dataclasses.dataclass
class Item:
    name: str = "tea"
    price: int = made()
    count: int = 1

def work(values):
    return [*values, repr(Item("milk").price)]

with multiprocessing.get_context("spawn").Pool(1) as pool:
    (found,) = pool.map(work, [[Place(1, 2), Item("tea", 7)]])
[found[0].y, found[1].price, found[1].count, found[2]]
"""
        result = await box.run(code)
        assert result.error is None, result
        *fields, said = result.value
        assert fields == [2, 7, 1]
        assert said.startswith("Item.price is not there in a spawned process")

    @_EVERY_WAY
    @case(python("full"))
    async def test_no_function_of_the_program_runs_again_in_a_new_process(self, box: Sandbox, way: str) -> None:
        """No decorator, base, metaclass or subscript of the program runs again in a new process, whatever its name."""
        result = await box.run(_RUN_BY_DEFINITIONS.replace("WAY", way))
        assert result.value == [[1, 2], []], result

    @_EVERY_WAY
    @case(python("full"))
    async def test_a_new_process_has_what_decorators_of_the_program_only_wrap(self, box: Sandbox, way: str) -> None:
        """A new process finds a decorated function or class if the decorator, or a hook, only wraps or records it."""
        result = await box.run(_WRAPPED.replace("WAY", way))
        assert result.value == [[2, "Part", 6]], result

    @case(python("full"))
    async def test_a_function_that_the_program_has_run_as_it_was_defined_says_that_it_is_missing(
        self, box: Sandbox
    ) -> None:
        """A function that would have to run again is missing in a new process, and the error says so."""
        code = """
import multiprocessing

def noted(function):
    print(function)
    return function

@noted
def work(number):
    return number

with multiprocessing.get_context("spawn").Pool(1) as pool:
    pool.map(work, [1])
"""
        error = (await box.run(code)).error
        assert error is not None, NO_ERROR
        assert error.message.startswith("work is not there in a spawned process"), error

    @case(python("full"), SESSIONS)
    async def test_a_new_process_finds_what_earlier_programs_of_a_session_define(self, box: Sandbox) -> None:
        """A new process finds the definitions of a session's earlier programs."""
        async with box.session() as session:
            for code in ("STEP = 1", "STEP = 2", "def work(number):\n    return number + STEP"):
                assert (await session.run(Program(code))).success
            for first in (1, 5):
                result = await session.run(
                    "import multiprocessing\nwith multiprocessing.get_context('spawn').Pool(1) as pool:\n"
                    f"    found = pool.map(work, [{first}])\nfound"
                )
                assert result.value == [first + 2], result
            assert (await session.run(Program("STEP = len('abc')"))).success
            error = (
                await session.run(
                    Program(
                        "with multiprocessing.Pool(1) as pool: pool.map(work, [1])\n"
                        "with multiprocessing.get_context('spawn').Pool(1) as pool: pool.map(work, [1])"
                    )
                )
            ).error
            assert error is not None and (error.type, error.line) == ("NameError", 2), error

    @case(python("full"))
    async def test_a_file_that_a_forked_child_opens_stays_open_in_a_child_of_its_own(self, box: Sandbox) -> None:
        """A file that a forked child opens may get a descriptor number that the sandbox used before."""
        code = """
import os

if os.fork() == 0:
    with open("mine", "w") as file:
        if os.fork() == 0:
            file.write("mine")
            file.flush()
            os._exit(0)
        os.wait()
    os._exit(0)
os.wait()
open("mine").read()
"""
        result = await box.run(code)
        assert result.value == "mine", result
