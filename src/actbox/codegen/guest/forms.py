"""Forms: how data is sent between the two sandboxes of a text check, and how it is read again.

The tests' end builds values from forms that the program may have forged, so each is checked, and nothing is unpickled.
"""

from __future__ import annotations

import collections
import importlib
import sys

TYPE_CHECKING = False  # importing typing takes each sandbox longer than all else here
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Message = Any
    Give = Callable[[Any], Message]
    Take = Callable[[Message], Any]

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_TIMES = frozenset({"datetime", "date", "time", "timedelta", "Decimal", "UUID"})
_TIME_MODULES = frozenset({"datetime", "decimal", "uuid"})
_DEEPEST = 50
_ARRAY_KINDS = "biufcmMUS"


class Nonsense(Exception):
    """The other end has sent something that is no message."""


def checked_text(value: Any) -> str:
    """Return a text that the other end has sent."""
    if type(value) is not str:
        raise Nonsense(f"{type(value).__name__} in place of text")
    return value


def is_plain(value: Any, depth: int = 0) -> bool:
    """Return True for data that is its own form."""
    kind = type(value)
    if kind in _SCALARS or (kind.__name__ in _TIMES and kind.__module__ in _TIME_MODULES):
        return True
    if depth > _DEEPEST:
        return False
    if kind is dict:
        return all(is_plain(key, depth + 1) and is_plain(each, depth + 1) for key, each in value.items())
    return kind in (list, tuple, set, frozenset) and all(is_plain(each, depth + 1) for each in value)


def is_deep(value: Any, depth: int = 0) -> bool:
    """Return True for containers that contain themselves, or are nested too deeply to be copied."""
    if depth > _DEEPEST:
        return True
    if isinstance(value, dict):
        return any(is_deep(each, depth + 1) for each in value.values())
    return type(value) in (list, tuple, collections.deque) and any(is_deep(each, depth + 1) for each in value)


def copy_of_form(form: Any) -> Any:
    """Return a copy of a form, in which a change of the value's lists, dicts and sets does not show."""
    if type(form) is dict:
        return {key: copy_of_form(each) for key, each in form.items()}
    return [copy_of_form(each) for each in form] if type(form) is list else set(form) if type(form) is set else form


def replace_content(value: Any, new: Any) -> None:
    """Give a list, dict or set new content."""
    if type(value) is not type(new) or type(value) not in (list, dict, set):
        raise Nonsense("an argument that cannot be changed")
    value.clear()
    value.extend(new) if type(value) is list else value.update(new)


def library_form(value: Any, give: Give) -> Message:
    """Return the form of a value of a library's data type, `None` for others. `give` makes the forms of its parts."""
    return _from_standard(value) or _from_numpy(value) or _from_pandas(value, give)


def library_value(tag: str, content: Any, take: Take) -> Any:
    """Return the value of a form that `library_form` made. `take` makes the values of its parts."""
    if tag == "standard":
        return _to_standard(*content)
    if tag == "array":
        return _to_numpy(*content)
    if tag == "table":
        return _to_pandas(take, *content)
    raise Nonsense(f"{tag!r} is no value")


def _from_standard(value: Any) -> Message:
    kind = type(value)
    if kind is complex:
        parts: Any = [value.real, value.imag]
    elif kind in (range, slice):
        parts = [value.start, value.stop, value.step]
    elif kind is bytearray:
        parts = [bytes(value)]
    elif kind.__name__ == "Fraction" and kind.__module__ == "fractions":
        parts = [value.numerator, value.denominator]
    elif kind.__name__ in ("PosixPath", "PurePosixPath") and kind.__module__.startswith("pathlib"):
        parts = [str(value)]
    else:
        return None
    return {"standard": [kind.__name__, parts]} if all(map(is_plain, parts)) else None


def _to_standard(name: str, parts: Sequence[Any]) -> Any:
    import fractions
    import pathlib

    kinds: list[Callable[..., Any]] = [complex, range, slice, bytearray, fractions.Fraction]
    kinds += [pathlib.PosixPath, pathlib.PurePosixPath]
    return {kind.__name__: kind for kind in kinds}[name](*parts)


# NumPy


def _from_numpy(value: Any) -> Message:
    numpy: Any = sys.modules.get("numpy")
    kinds: Any = (getattr(numpy, "generic", ()), getattr(numpy, "ndarray", ()))
    if not isinstance(value, kinds):
        return None
    if value.dtype.kind not in _ARRAY_KINDS or isinstance(value, numpy.ma.MaskedArray):
        return None
    return {"array": [value.dtype.str, list(value.shape), value.tobytes(), isinstance(value, numpy.ndarray)]}


def _to_numpy(dtype: str, shape: Any, data: bytes, is_array: bool) -> Any:
    import numpy

    kind = numpy.dtype(checked_text(dtype))
    if kind.kind not in _ARRAY_KINDS:
        raise Nonsense(f"an array of {kind}")
    sides = [int(each) for each in shape]
    array = numpy.frombuffer(data, kind).reshape(sides) if data else numpy.empty(sides, kind)
    return array.copy() if is_array else array[()]


# pandas


def _from_pandas(value: Any, give: Give) -> Message:
    pandas = sys.modules.get("pandas")
    if pandas is None or not hasattr(pandas, "DataFrame"):
        return None
    kind = type(value)
    if value is pandas.NaT or value is pandas.NA:
        return {"table": ["NaT" if value is pandas.NaT else "NA", None, "", None, None]}
    if kind in (pandas.Timestamp, pandas.Timedelta):
        return {"table": [kind.__name__, str(value), "", None, None]}
    if kind is pandas.DataFrame:
        columns = [_column(value.iloc[:, place], give) for place in range(value.shape[1])]
        return {"table": ["DataFrame", columns, "", _index(value.columns, give), _index(value.index, give)]}
    if kind is pandas.Series:
        values, dtype = _column(value, give)
        return {"table": ["Series", values, dtype, give(value.name), _index(value.index, give)]}
    return _index(value, give) if isinstance(value, pandas.Index) else None


def _column(values: Any, give: Give) -> list[Any]:
    """Return a column's values and its type."""
    array = _from_numpy(values.to_numpy()) if values.dtype.kind in "biufcmM" else None
    return [array or give(values.tolist()), str(values.dtype)]


def _index(index: Any, give: Give) -> Message:
    pandas: Any = sys.modules["pandas"]
    if type(index) is pandas.RangeIndex:
        steps = [index.start, index.stop, index.step]
        return {"table": ["RangeIndex", steps, "", give(index.name), None]}
    if isinstance(index, pandas.MultiIndex):
        return {"table": ["MultiIndex", give(index.tolist()), "", give(list(index.names)), None]}
    values, dtype = _column(index, give)
    return {"table": ["Index", values, dtype, give(index.name), None]}


def _to_pandas(take: Take, kind: str, content: Any, dtype: str, name: Any, index: Any) -> Any:
    made: Any = importlib.import_module("pandas")
    if kind in ("NaT", "NA"):
        return getattr(made, kind)
    if kind in ("Timestamp", "Timedelta"):
        return getattr(made, kind)(checked_text(content))
    if kind == "RangeIndex":
        return made.RangeIndex(*map(int, content), name=take(name))
    if kind == "MultiIndex":
        return made.MultiIndex.from_tuples(take(content), names=take(name))
    if kind == "Index":
        return made.Index(take(content), dtype=checked_text(dtype), name=take(name))
    if kind == "Series":
        return made.Series(take(content), dtype=checked_text(dtype), name=take(name), index=take(index))
    if kind != "DataFrame":
        raise Nonsense(f"{kind!r} is no table")
    rows = take(index)
    columns = [made.Series(take(each), dtype=checked_text(of), index=rows) for each, of in content]
    table = made.DataFrame(dict(enumerate(columns)), index=rows)
    table.columns = take(name)
    return table
