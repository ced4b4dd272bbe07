"""`dataclass` as the standard library's, except that a method is compiled when it is first used, not with its class.

Compiling the methods of all dataclasses took a third of the time until the first answer of a new process
(`benchmarks/cold_start.py`), and most programs use few of them. The fields, slots and parameters are the standard
library's: `fields`, `replace`, `asdict`, `copy` and `pickle` do what they do for its own dataclasses.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, init=True, repr=True, eq=True, frozen=False, slots=False, kw_only=False):
        """Return the decorator for a class that inherits from no dataclass."""
        return lambda cls: _dataclass_of(cls, init, repr, eq, frozen, slots, kw_only)


def _dataclass_of(cls: type, init: bool, repr: bool, eq: bool, frozen: bool, slots: bool, kw_only: bool) -> type:
    # `__hash__` is `None` in a class with an `__eq__` of its own, which does not ask for that.
    own = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}
    # Asked for none of these three methods, the standard library compiles nothing.
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    parameters: Any = cls.__dict__["__dataclass_params__"]
    parameters.init, parameters.repr, parameters.eq, parameters.frozen = init, repr, eq, frozen
    methods: dict[str, Any] = {}
    if init:
        methods["__init__"] = _Later(cls, "__init__", lambda: _init_of(cls, frozen))
    if repr:
        methods["__repr__"] = _Later(cls, "__repr__", lambda: _compiled(cls, "__repr__", repr=True))
    if eq:
        methods["__eq__"] = _Later(cls, "__eq__", lambda: _compiled(cls, "__eq__", eq=True))
        methods["__hash__"] = None
    if eq and frozen:
        methods["__hash__"] = _Later(cls, "__hash__", lambda: _compiled(cls, "__hash__", eq=True, unsafe_hash=True))
    if frozen:
        methods |= _frozen_methods(cls)
    if frozen and slots:  # `pickle` and `copy` would assign to the fields
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


class _Later:
    """A method that is made, and takes its place in its class, when it is first looked up."""

    def __init__(self, cls: type, name: str, make: Callable[[], Any]) -> None:
        self._cls = cls
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = self._make()
        method.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _init_of(cls: Any, frozen: bool) -> Any:
    """Return `__init__`; its parameters and their defaults are those that the standard library gives it."""
    values: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    parameters, keywords, lines = ["self"], ["*"], []
    for field in dataclasses.fields(cls):
        name = value = field.name
        default = ""
        if field.default_factory is not MISSING:
            values[f"_new_{name}"] = field.default_factory
            value = f"_new_{name}() if {name} is _factory else {name}" if field.init else f"_new_{name}()"
            default = "=_factory"
        elif field.default is not MISSING:
            values[f"_default_{name}"] = field.default
            value = name if field.init else f"_default_{name}"
            default = f"=_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (keywords if field.kw_only else parameters).append(name + default)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    signature = ", ".join(parameters + (keywords if len(keywords) > 1 else []))
    body = "\n  ".join(lines or ["pass"])
    source = f"def make({', '.join(values)}):\n def __init__({signature}):\n  {body}\n return __init__"
    made: dict[str, Any] = {}
    exec(source, vars(sys.modules[cls.__module__]), made)
    init = made["make"](**values)
    types = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
    init.__annotations__ = {**types, "return": None}
    return init


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
"""The default of a parameter for a field with a `default_factory`."""


def _compiled(cls: Any, name: str, **wanted: bool) -> Any:
    """Return a method as the standard library compiles it for a class with the same fields."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    types = {name: field.type for name, field in fields.items()}
    body = {"__annotations__": types, "__doc__": cls.__doc__, "__module__": cls.__module__, **fields}
    flags = {"init": False, "repr": False, "eq": False, "kw_only": True, **wanted}
    return vars(dataclasses.dataclass(**flags)(type(cls.__name__, (), body)))[name]


def _frozen_methods(cls: Any) -> dict[str, Any]:
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=False):
        object.__setattr__(self, field.name, value)
