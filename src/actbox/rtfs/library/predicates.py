"""Questions about values: equality, truth and type."""

from __future__ import annotations

from itertools import pairwise

from actbox.rtfs.budget import COPIED_PER_STEP, Meter
from actbox.rtfs.syntax import Keyword, Symbol
from actbox.rtfs.values import List, Map, Value, Vector, equal, is_true, size_of, type_name

from .table import Table

PREDICATES = Table()


@PREDICATES.metered("=", least=1, most=None, shown="x …")
def are_equal(meter: Meter, *values: Value) -> bool:
    """Whether all values are equal; 1 and 1.0 are not, nor are a vector and a list."""
    for left, right in pairwise(values):
        _charge(meter, left, right)
        if not equal(left, right):
            return False
    return True


@PREDICATES.metered("!=", "not=", least=2, shown="x y")
def are_different(meter: Meter, left: Value, right: Value) -> bool:
    """Whether the two values are not equal."""
    _charge(meter, left, right)
    return not equal(left, right)


def _charge(meter: Meter, left: Value, right: Value) -> None:
    meter.charge(min(size_of(left), size_of(right)) // COPIED_PER_STEP)


@PREDICATES.plain("and", least=0, most=None, shown="x …")
def all_true(*values: Value) -> Value:
    """The first value that is false or nil, else the last one; all of them are evaluated."""
    last: Value = True
    for last in values:
        if not is_true(last):
            break
    return last


@PREDICATES.plain("or", least=0, most=None, shown="x …")
def any_true(*values: Value) -> Value:
    """The first value that is neither false nor nil, else the last one; all of them are evaluated."""
    last: Value = False
    for last in values:
        if is_true(last):
            break
    return last


@PREDICATES.plain("not", least=1, shown="x")
def is_not(x: Value) -> bool:
    """Whether x is false or nil."""
    return not is_true(x)


@PREDICATES.plain("int?", least=1, shown="x")
def is_int(x: Value) -> bool:
    """Whether x is an integer."""
    return type(x) is int


@PREDICATES.plain("float?", least=1, shown="x")
def is_float(x: Value) -> bool:
    """Whether x is a float."""
    return type(x) is float


@PREDICATES.plain("number?", least=1, shown="x")
def is_number(x: Value) -> bool:
    """Whether x is an integer or a float."""
    return type(x) is int or type(x) is float


@PREDICATES.plain("string?", "string-p", least=1, shown="x")
def is_string(x: Value) -> bool:
    """Whether x is a string."""
    return type(x) is str


@PREDICATES.plain("bool?", least=1, shown="x")
def is_bool(x: Value) -> bool:
    """Whether x is true or false."""
    return type(x) is bool


@PREDICATES.plain("nil?", least=1, shown="x")
def is_nil(x: Value) -> bool:
    """Whether x is nil."""
    return x is None


@PREDICATES.plain("map?", least=1, shown="x")
def is_map(x: Value) -> bool:
    """Whether x is a map."""
    return type(x) is Map


@PREDICATES.plain("vector?", least=1, shown="x")
def is_vector(x: Value) -> bool:
    """Whether x is a vector."""
    return type(x) is Vector


@PREDICATES.plain("list?", least=1, shown="x")
def is_list(x: Value) -> bool:
    """Whether x is a list."""
    return type(x) is List


@PREDICATES.plain("keyword?", least=1, shown="x")
def is_keyword(x: Value) -> bool:
    """Whether x is a keyword."""
    return type(x) is Keyword


@PREDICATES.plain("symbol?", least=1, shown="x")
def is_symbol(x: Value) -> bool:
    """Whether x is a symbol, as a quasiquote makes them."""
    return type(x) is Symbol


@PREDICATES.plain("fn?", least=1, shown="x")
def is_function(x: Value) -> bool:
    """Whether x is a function."""
    return type_name(x) == "function"


@PREDICATES.plain("type-name", least=1, shown="x")
def name_of_type(x: Value) -> str:
    """The name of x's type: nil, boolean, integer, float, string, keyword, vector, list, map, function, …"""
    return type_name(x)
