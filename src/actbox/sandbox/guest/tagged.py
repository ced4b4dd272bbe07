"""The tagged form: Python values as JSON, and back. Pure; both ends of the channel and the result's document use it.

JSON data stands for itself. A value that JSON lacks is an object with one key, its tag:

    {"!tuple": [1, 2]}  {"!set": [1]}  {"!frozenset": [1]}  {"!bytes": "AP8="}  {"!float": "nan"}  {"!decimal": "1.10"}
    {"!datetime": "2026-01-02T03:04:05+01:00"}  {"!date": "2026-01-02"}  {"!time": "03:04:05"}
    {"!timedelta": [days, seconds, microseconds]}  {"!uuid": "…"}  {"!map": [[key, value], …]}

`!map` is a mapping with keys other than text, or one that would itself look like a tag. There are no other tags.
`unpack` makes values of the standard library only, whatever it is given, and each of bounded size.

NumPy's scalars and arrays are packed as numbers and lists, a DataFrame as `{"dtypes": …, "records": …}` and a Series as
`{"name": …, "dtype": …, "values": …}`, both with `index` unless it counts from 0, and `index_names` if it has names; a
dataclass as the mapping of its fields, an enum's member as its value.
"""

from __future__ import annotations

import binascii
import json
import re
import sys
from _collections_abc import Mapping
from itertools import chain
from math import isfinite

from .members import Comparisons, Members

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Generator, Iterable, Iterator, List, Optional, Set, Tuple

MARK = "!"
MAX_DEPTH = 200
"""The deepest nesting of values: as deep as a message's JSON, so that a received value can be sent on."""
MAX_VALUES = 2_000_000
"""The most values within one value, the same as in a message."""
MAX_CELLS = 100_000
"""The most cells of a table."""
MAX_ITEMS = 1_000_000
"""The most items of a NumPy array."""
MAX_DIGITS = 4300
"""The most digits of a number, and the largest exponent of a decimal: `int()` of a larger one would take all memory."""
_SOME_BITS = 14_000  # of somewhat fewer digits
_LARGE = 1 << 1024
# After this many values, or members other than text, a stepwise opening yields.
_STEP_VALUES = 20_000
# This many characters of a tag's text count as a value: a decimal of many digits is parsed and formatted again.
_CHARS_OF_VALUE = 20
_STEP_KEYS = 250

_SCALARS = frozenset({str, int, bool, type(None)})
_CONTAINERS = frozenset({list, dict})
_PLAIN = _SCALARS | _CONTAINERS | {float}
_TEXT = frozenset({str})
# The NaN object that `json` makes. NaN equals itself only as one object; two in a set would have the same form.
_FLOATS: Dict[str, float] = {"nan": json.loads("NaN"), "inf": float("inf"), "-inf": float("-inf")}
# Compiled when they are first used: most runs have neither.
_DECIMAL = r"[+-]?(?:[0-9]{1,4300}(?:\.[0-9]{0,4300})?(?:E[+-]?[0-9]{1,5})?|Infinity|s?NaN)"
_DECIMAL_NANS: Dict[str, Any] = {}
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MOST_TIME_CHARS = 40
_MOST_PLACE = 120
_ADVICE = {
    "generator": "give list(…) of it",
    "range": "give list(…) of it",
    "deque": "give list(…) of it",
    "dict_keys": "give list(…) of it",
    "dict_values": "give list(…) of it",
    "dict_items": "give list(…) of it",
    "map": "give list(…) of it",
    "zip": "give list(…) of it",
    "filter": "give list(…) of it",
    "coroutine": "await it, or write what gives it as `async def`",
    "async_generator": "collect it into a list",
    "complex": "give its real and imaginary parts",
    "PosixPath": "give str(…) of it",
}


class Packed:
    """A value in its tagged form, marked to distinguish it from plain JSON data. It may contain bytes."""

    __slots__ = ("form",)

    def __init__(self, form: Any) -> None:
        self.form = form


class CannotCross(ValueError):
    """Raised for a value without a tagged form. `place` is its path, such as `['rows'][0]`; `why` ends the sentence.

    `value` is the value at that place if its type is the reason.
    """

    def __init__(self, why: str, value: Any = None) -> None:
        super().__init__(why)
        self.why = why
        self.value = value
        self.place = ""

    def under(self, step: Any) -> CannotCross:
        """Return the error with its path extended by the container's key or index."""
        place = "[%s]%s" % (repr(step)[:60], self.place)
        if len(place) > _MOST_PLACE:
            place = place[: _MOST_PLACE // 2] + "…" + place[-_MOST_PLACE // 2 :]
        self.place = place
        return self

    def within(self, name: str) -> str:
        """Return the error as a sentence; `name` is a name for the whole value."""
        return "%s%s %s" % (name, self.place, self.why)


def pack(value: Any, keeps_bytes: bool = False, default: Optional[Callable[[Any], Any]] = None) -> Any:
    """Return a value's tagged form, which is the value itself if it is JSON data. Raises `CannotCross`.

    `keeps_bytes` leaves bytes unchanged, for a carrier that supports them. `default` is called with dataclasses and
    with values that have no form here; it returns a form, or `None`.
    """
    kind = type(value)
    if kind in _SCALARS and (kind is not int or value.bit_length() <= _SOME_BITS):
        return value
    if (kind is dict and _is_flat(value)) or ((kind is dict or kind is list) and _is_plain(value)):
        return value
    try:
        return _Packer(keeps_bytes, default).pack(value, 0)
    except RecursionError:
        raise CannotCross("is nested too deeply") from None


def _is_flat(value: Dict[Any, Any]) -> bool:
    """Return whether a mapping is JSON data without containers in it, as arguments mostly are."""
    for key, item in value.items():
        kind = type(item)
        if kind is float and isfinite(item) and type(key) is str:
            continue
        if type(key) is not str or kind not in _SCALARS or (kind is int and not -_LARGE < item < _LARGE):
            return False
    return len(value) != 1 or not _looks_tagged(value)


def _is_plain(value: Any) -> bool:
    """Return whether a container is JSON data with nothing that looks like a tag; checks level by level, in C loops."""
    level = [value]
    for _ in range(MAX_DEPTH):
        lists = [each for each in level if type(each) is list]
        dicts = [each for each in level if type(each) is dict]
        parts = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, dicts))]
        kinds = {*map(type, parts)}
        if not kinds <= _PLAIN or len(parts) > MAX_VALUES:
            return False
        if not _TEXT.issuperset(map(type, chain.from_iterable(dicts))):
            return False
        if 1 in map(len, dicts) and any(map(_looks_tagged, dicts)):
            return False
        if float in kinds and not all(map(isfinite, [each for each in parts if type(each) is float])):
            return False
        if int in kinds:
            numbers = parts if len(kinds) == 1 else [each for each in parts if type(each) is int]
            if max(numbers) >= _LARGE or min(numbers) <= -_LARGE:
                return False
        if not kinds & _CONTAINERS:
            return True
        level = parts if kinds <= _CONTAINERS else [each for each in parts if type(each) in _CONTAINERS]
    return False


class _Packer:
    def __init__(self, keeps_bytes: bool, default: Optional[Callable[[Any], Any]]) -> None:
        self._keeps_bytes = keeps_bytes
        self._default = default
        self._left = MAX_VALUES
        self._comparisons = Comparisons()

    def pack(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            if kind is int and value.bit_length() > _SOME_BITS and abs(value) >= 10**MAX_DIGITS:
                raise CannotCross("is an integer of more than {:,} digits; give it as hex()".format(MAX_DIGITS))
            return value
        self._left -= 1
        if self._left < 0:
            raise CannotCross("is, or is part of, more than %d values" % MAX_VALUES)
        if depth > MAX_DEPTH:
            raise CannotCross("is nested more than %d deep, or contains itself" % MAX_DEPTH)
        if kind is float:
            return _float(value)
        if kind is list:
            return self._items(value, depth)
        if kind is dict:
            return self._mapping(value.items(), depth)
        if kind in (bytes, bytearray, memoryview):
            data = bytes(value)
            return data if self._keeps_bytes else {"!bytes": binascii.b2a_base64(data, newline=False).decode("ascii")}
        return self._other(value, depth)

    def _items(self, items: Iterable[Any], depth: int) -> List[Any]:
        packed = []
        for item in items:
            try:
                packed.append(self.pack(item, depth + 1))
            except CannotCross as error:
                raise error.under(len(packed)) from None
        return packed

    def _mapping(self, items: Iterable[Tuple[Any, Any]], depth: int) -> Dict[str, Any]:
        pairs = []
        for key, item in items:
            try:
                pairs.append([key if type(key) is str else self._member(key, depth), self.pack(item, depth + 1)])
            except CannotCross as error:
                raise error.under(key) from None
        if all(type(key) is str for key, _ in pairs):
            packed = dict(pairs)
            if len(packed) == len(pairs) and not _looks_tagged(packed):
                return packed
        _check_members([key for key, _ in pairs], self._comparisons)
        return {"!map": pairs}

    def _set(self, tag: str, members: Iterable[Any], depth: int) -> Dict[str, Any]:
        packed = [self._member(member, depth) for member in members]
        _check_members(packed, self._comparisons)
        return {tag: packed}

    def _member(self, member: Any, depth: int) -> Any:
        """Return the form of a set's member or a key, which must also be hashable once it is unpacked."""
        packed = self.pack(member, depth + 1)
        if not _is_hashable(packed):
            raise CannotCross("has %s as a key or member, and arrives as what cannot be one" % _named(member))
        return packed

    def _other(self, value: Any, depth: int) -> Any:
        """Return the form of a value that is not exactly a JSON type.

        A value of a module's type can exist only if that module is imported, so no module is imported here.
        """
        modules = sys.modules
        enum = modules.get("enum")
        if enum is not None and isinstance(value, enum.Enum):
            return self.pack(value.value, depth + 1)
        numpy = modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
            return self.pack(_from_numpy(value, numpy), depth + 1)
        pandas = modules.get("pandas")
        if pandas is not None and hasattr(pandas, "Series"):  # else it is just being imported
            if value is pandas.NaT or value is pandas.NA:
                return None
            if isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index)):
                return self.pack(_from_pandas(value, pandas), depth + 1)
        for base, convert in ((str, str.__str__), (int, int), (float, float)):
            if isinstance(value, base):
                return self.pack(convert(value), depth)
        if isinstance(value, list):
            return self._items(value, depth)
        if isinstance(value, tuple):
            return {"!tuple": self._items(value, depth)}
        if isinstance(value, (set, frozenset)):
            return self._set("!set" if isinstance(value, set) else "!frozenset", value, depth)
        if isinstance(value, (bytes, bytearray)):
            return self.pack(bytes(value), depth)
        if isinstance(value, Mapping):
            return self._mapping(value.items(), depth)
        packed = _pack_time(value, modules) or _pack_number(value, modules)
        if packed is None and self._default is not None:
            packed = self._default(value)
        if packed is not None:
            return packed
        dataclasses = modules.get("dataclasses")
        if dataclasses is not None and dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [field.name for field in dataclasses.fields(value)]
            return self._mapping(((name, getattr(value, name)) for name in fields), depth)
        kind = type(value)
        raise CannotCross(
            "is of type %s, which cannot cross; %s"
            % (kind.__name__, _ADVICE.get(kind.__name__, "give it as plain values, such as a dict or text")),
            value,
        )


def _pack_time(value: Any, modules: Any) -> Optional[Dict[str, Any]]:
    datetime = modules.get("datetime")
    if datetime is None:
        return None
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):  # pandas values only
        raise CannotCross("has nanoseconds, which cannot cross; round it to microseconds")
    for kind in (datetime.datetime, datetime.date, datetime.time):
        if isinstance(value, kind):
            text = kind.isoformat(value)
            # Python reads an offset of less than a second as none.
            if getattr(value, "tzinfo", None) is not None and kind.fromisoformat(text).isoformat() != text:
                raise CannotCross("has an offset from UTC that Python cannot read; round it to seconds")
            return {MARK + kind.__name__: text}
    if isinstance(value, datetime.timedelta):
        return {"!timedelta": [value.days, value.seconds, value.microseconds]}
    return None


def _pack_number(value: Any, modules: Any) -> Optional[Dict[str, Any]]:
    decimal, uuid = modules.get("decimal"), modules.get("uuid")
    if decimal is not None and isinstance(value, decimal.Decimal):
        text = decimal.Decimal.__str__(value)
        if not _is_bounded_decimal(text):
            raise CannotCross("is a decimal of more than {:,} digits, or with a greater exponent".format(MAX_DIGITS))
        return {"!decimal": text}
    if uuid is not None and isinstance(value, uuid.UUID):
        return {"!uuid": uuid.UUID.__str__(value)}
    return None


def _float(value: float) -> Any:
    if value == value and value not in (_FLOATS["inf"], _FLOATS["-inf"]):
        return value
    return {"!float": repr(value)}


def _from_numpy(value: Any, numpy: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        if value.size > MAX_ITEMS:
            raise CannotCross(
                "is an array of {:,} items, and one of more than {:,} does not cross; write it to a file".format(
                    value.size, MAX_ITEMS
                )
            )
        if value.dtype.names:
            raise CannotCross("is an array of records, which cannot cross; give its columns")
    if value.dtype.kind in "mM":  # NumPy converts nanoseconds to plain integers
        coarse = value.astype(value.dtype.kind + "8[us]")
        if not ((coarse == value) | numpy.isnat(value)).all():
            raise CannotCross("has nanoseconds, which cannot cross; round it to microseconds")
        years = coarse.astype("M8[Y]").astype(int) + 1970 if value.dtype.kind == "M" else numpy.ones(1)
        if not (((years >= 1) & (years <= 9999)) | numpy.isnat(value)).all():
            raise CannotCross("has a year that no datetime has")
        value = coarse
    plain = value.tolist()
    if isinstance(plain, numpy.generic):
        raise CannotCross("is of type %s, which cannot cross; give it as a float" % type(value).__name__)
    return plain


def _from_pandas(value: Any, pandas: Any) -> Any:
    columns = list(value.columns) if isinstance(value, pandas.DataFrame) else [None]
    if len(value) * max(len(columns), 1) > MAX_CELLS:
        raise CannotCross(
            "is a table of {:,} rows and {:,} columns, and one of more than {:,} cells does not cross; give a part of"
            " it, or write it to a file".format(len(value), len(columns), MAX_CELLS)
        )
    if isinstance(value, pandas.Index):
        return value.tolist()
    index = value.index
    is_counted = isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1
    labels = {} if is_counted else {"index": index.tolist()}
    labels.update(_names_of(index, "index_names"))
    if isinstance(value, pandas.Series):
        return {"name": value.name, "dtype": str(value.dtype), "values": value.tolist(), **labels}
    if len(set(columns)) < len(columns):
        raise CannotCross("is a table with two columns of one name, which cannot cross")
    dtypes = {name: str(value.dtypes.iloc[at]) for at, name in enumerate(columns)}
    labels.update(_names_of(value.columns, "column_names"))
    return {"dtypes": dtypes, "records": value.to_dict("records"), **labels}


def _names_of(index: Any, key: str) -> Dict[str, Any]:
    """Return the names of an index's levels under a key of pandas's own "tight" form; nothing for one without names."""
    names = list(index.names)
    return {} if all(name is None for name in names) else {key: names}


def _looks_tagged(mapping: Dict[str, Any]) -> bool:
    return len(mapping) == 1 and next(iter(mapping)).startswith(MARK)


def _is_hashable(packed: Any) -> bool:
    if type(packed) is dict:
        ((tag, content),) = packed.items() if len(packed) == 1 else ((None, None),)
        if tag in ("!tuple", "!frozenset"):
            return all(_is_hashable(item) for item in content or ())
        return tag in _OPENERS and tag not in ("!set", "!map")
    return type(packed) is not list


def _check_members(packed: List[Any], comparisons: Comparisons) -> None:
    """Raise for members that could not be unpacked: too many, equal, or too many with one hash."""
    opened_members = [copy_of(each) for each in packed]
    for _ in open_in_steps(opened_members):
        pass
    members = Members(comparisons)
    for each in opened_members:
        try:
            members.add(each)
        except TypeError:  # a signalling NaN
            raise CannotCross("has %s as a key or member, which cannot be one" % _named(each)) from None
        except ValueError as error:
            raise CannotCross("%s; give a list" % error) from None
    if len(set(opened_members)) < len(opened_members):
        raise CannotCross("has two keys or members that are the same as plain values")


def copy_of(form: Any) -> Any:
    """Return a copy of JSON data, or of a form, with new lists and objects."""
    if type(form) is dict:
        return {key: copy_of(item) for key, item in form.items()}
    return [copy_of(item) for item in form] if type(form) is list else form


def _named(value: Any) -> str:
    return "a value of type %s" % type(value).__name__


# Opening


def unpack(form: Any) -> Any:
    """Return the value of a tagged form, reusing its lists and objects. Raises `ValueError`."""
    holder = [form]
    for _ in open_in_steps(holder):
        pass
    return holder[0]


def crossed(value: Any) -> Any:
    """Return a value as the other end would receive it; JSON data is returned itself. Raises `CannotCross`."""
    packed = pack(value, keeps_bytes=True)
    return value if packed is value else unpack(packed)


def opened(value: Any) -> Any:
    """Return the value of a `Packed`, reusing its form; anything else unchanged."""
    return unpack(value.form) if isinstance(value, Packed) else value


def open_in_steps(holder: Any) -> Iterator[None]:
    """Replace tagged forms in a list or an object by their values, yielding after each bounded step.

    Raises `ValueError`.
    """
    holders = [holder]
    comparisons = Comparisons()
    work = 0
    for each in holders:  # the list grows meanwhile
        for value in each.values() if type(each) is dict else each:
            work += 1
            if work % _STEP_VALUES == 0:
                yield
            if type(value) is dict or type(value) is list:
                holders.append(value)
    work = 0
    while holders:
        each = holders.pop()  # everything in it was opened before
        for place, value in each.items() if type(each) is dict else enumerate(each):
            work += 1
            if work >= _STEP_VALUES:
                work = 0
                yield
            if type(value) is dict and _looks_tagged(value):
                ((tag, content),) = value.items()
                if type(content) is str:
                    work += len(content) // _CHARS_OF_VALUE
                if tag in _GATHERED:
                    each[place] = yield from _gather(tag, content, comparisons)
                elif tag in _OPENERS:
                    try:
                        each[place] = _OPENERS[tag](content)
                    except ImportError:  # a guest with few modules keeps the text
                        each[place] = _text(content)
                else:
                    raise ValueError("an unknown tag %r" % tag[:40])


def _gather(tag: str, content: Any, comparisons: Comparisons) -> Generator[None, None, Any]:
    """Return a set or a mapping, yielding after each bounded step."""
    if type(content) is not list:
        raise ValueError("a %s without its list" % tag)
    pairs: Dict[Any, Any] = {}
    gathered: Set[Any] = set()
    members = Members(comparisons)
    for at, member in enumerate(content):
        if at % _STEP_VALUES == 0 or (members.count + 1) % _STEP_KEYS == 0:
            yield
        item = None
        if tag == "!map":
            if type(member) is not list or len(member) != 2:
                raise ValueError("a !map with what is no pair")
            member, item = member
        try:
            members.add(member)
        except TypeError:  # a list, a mapping, a signalling NaN
            raise ValueError("a %s with a member that can be none" % tag) from None
        if tag == "!map":
            pairs[member] = item
        else:
            gathered.add(member)
    if len(pairs) + len(gathered) < len(content):
        raise ValueError("a %s with two members that are equal" % tag)
    return pairs if tag == "!map" else gathered if tag == "!set" else frozenset(gathered)


def _tuple(content: Any) -> Any:
    if type(content) is not list:
        raise ValueError("a !tuple without its list")
    return tuple(content)


def _bytes(content: Any) -> bytes:
    text = _text(content)
    data = binascii.a2b_base64(text.encode("ascii"))
    if binascii.b2a_base64(data, newline=False).decode("ascii") != text:
        raise ValueError("bytes that are no base64")
    return data


def _time_of(name: str) -> Callable[[Any], Any]:
    def open_time(content: Any) -> Any:
        import datetime

        text = _text(content)
        value = getattr(datetime, name).fromisoformat(text) if len(text) <= _MOST_TIME_CHARS else None
        if value is None or value.isoformat() != text:
            raise ValueError("no %s as Python writes it" % name)
        return value

    return open_time


def _timedelta(content: Any) -> Any:
    import datetime

    if type(content) is not list or len(content) != 3 or not set(map(type, content)) <= {int}:
        raise ValueError("a !timedelta without its three numbers")
    try:
        return datetime.timedelta(*content)
    except OverflowError:
        raise ValueError("a !timedelta out of bounds") from None


def _is_bounded_decimal(text: str) -> bool:
    if re.fullmatch(_DECIMAL, text) is None:
        return False
    digits, _, exponent = text.partition("E")
    return len(digits) <= MAX_DIGITS and abs(int(exponent or 0)) <= MAX_DIGITS


def _decimal(content: Any) -> Any:
    import decimal

    text = _text(content)
    if not _is_bounded_decimal(text):
        raise ValueError("no decimal, or one out of bounds")
    value = decimal.Decimal(text)
    return _DECIMAL_NANS.setdefault(str(value), value) if value.is_nan() else value


def _uuid(content: Any) -> Any:
    import uuid

    text = _text(content)
    if re.fullmatch(_UUID, text) is None:
        raise ValueError("no UUID")
    return uuid.UUID(text)


def _float_of(content: Any) -> float:
    try:
        return _FLOATS[_text(content)]
    except KeyError:
        raise ValueError("a !float that is a number, or none") from None


def _text(content: Any) -> str:
    if type(content) is not str or not content.isascii():
        raise ValueError("a tag without its text")
    return content


_GATHERED = frozenset({"!set", "!frozenset", "!map"})
_OPENERS: Dict[str, Callable[[Any], Any]] = {
    "!tuple": _tuple,
    "!bytes": _bytes,
    "!float": _float_of,
    "!decimal": _decimal,
    "!datetime": _time_of("datetime"),
    "!date": _time_of("date"),
    "!time": _time_of("time"),
    "!timedelta": _timedelta,
    "!uuid": _uuid,
}
