"""The classes of pandas and NumPy in annotations, and the plain types as which their values cross."""

from __future__ import annotations

import datetime
import sys
from typing import Any, Final, NotRequired

# Before Python 3.12, pydantic accepts only the TypedDict of typing_extensions.
from typing_extensions import TypedDict


class DataFrame(TypedDict):
    """A table of pandas: each record is a row. `index` has the labels of the rows, unless they count from 0."""

    dtypes: dict[str, str]
    records: list[dict[str, Any]]
    index: NotRequired[list[Any]]
    index_names: NotRequired[list[Any]]
    column_names: NotRequired[list[Any]]


class Series(TypedDict):
    """A column of pandas: `index` has the labels of the values, unless they count from 0."""

    name: Any
    dtype: str
    values: list[Any]
    index: NotRequired[list[Any]]
    index_names: NotRequired[list[Any]]


# Each row has a class, the type as which its values cross, and what a parameter can be annotated with instead. A
# subclass is described by the first row that fits.
_CLASSES: Final[dict[str, tuple[tuple[str, Any, str], ...]]] = {
    "pandas": (
        ("DataFrame", DataFrame, "dict, and make the table in the function: pandas.DataFrame(given['records'])"),
        ("Series", Series, "dict, and make the column in the function: pandas.Series(given['values'])"),
        ("Index", list[Any], "list, and make the index in the function: pandas.Index(given)"),
        ("Timestamp", datetime.datetime, "datetime.datetime"),
        ("Timedelta", datetime.timedelta, "datetime.timedelta"),
    ),
    "numpy": (
        ("ndarray", list[Any], "list, and make the array in the function: numpy.array(given)"),
        ("timedelta64", datetime.timedelta, "datetime.timedelta"),
        ("datetime64", datetime.datetime, "datetime.datetime"),
        ("bool_", bool, "bool"),
        ("integer", int, "int"),
        ("floating", float, "float"),
        ("str_", str, "str"),
        ("bytes_", bytes, "bytes"),
        ("generic", Any, "int or float"),
    ),
}


def plain_type(kind: Any) -> Any:
    """Return the type as which values of a class of pandas or NumPy cross, `None` for any other class."""
    return _row_of(kind)[0]


def instead_of(kind: Any) -> str:
    """Return what a parameter can be annotated with instead of a class of pandas or NumPy, "" for any other class."""
    return _row_of(kind)[1]


def _row_of(kind: Any) -> tuple[Any, str]:
    # A class of a module can exist only if that module is imported, so no module is imported here.
    for module, rows in _CLASSES.items():
        for name, plain, instead in rows:
            known = getattr(sys.modules.get(module), name, None)
            if isinstance(known, type) and isinstance(kind, type) and issubclass(kind, known):
                return plain, instead
    return None, ""
