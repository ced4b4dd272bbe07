"""The reader of host functions: name, parameters, resolved annotations and docstring."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Final

from actbox.core.errors import InvalidValue
from actbox.core.lazy_dataclass import dataclass

COLLECTED: Final = (collections.abc.Iterator, range)
"""The classes of results whose items are collected into a list."""
_ITERATED = (
    *(collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator),
    *(collections.abc.AsyncIterator, collections.abc.AsyncIterable, collections.abc.AsyncGenerator),
)

EMPTY: Final[Any] = inspect.Parameter.empty
"""The marker for a missing annotation or default."""


@dataclass(frozen=True, slots=True)
class HostParameter:
    """A parameter that a program may set; `default` is `EMPTY` if there is none."""

    name: str
    annotation: Any
    default: Any
    kind: Any

    @property
    def positional(self) -> bool:
        """True if a positional argument can bind to this parameter."""
        return self.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A host function's name, docstring, parameters and annotations; `extra` is the annotation of `**kwargs`, else
    `None`.
    """

    function: Callable[..., Any]
    name: str
    doc: str
    is_async: bool
    parameters: tuple[HostParameter, ...] = ()
    extra: Any = None
    returns: Any = EMPTY
    unbound: bool = False

    @property
    def positional(self) -> tuple[str, ...]:
        """The names that positional arguments bind to, in order."""
        return tuple(p.name for p in self.parameters if p.positional)

    @property
    def collects(self) -> str:
        """The name of `*args`, which takes the further positional arguments as a list; empty if the function has
        none.
        """
        return next((p.name for p in self.parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "")


def read(function: Callable[..., Any], name: str | None, *, reads_parameters: bool = True) -> HostFunction:
    """Read a callable and return its description; `name` replaces its own name. Raises `InvalidValue` for one that
    cannot be a tool.

    Without `reads_parameters` only the name, docstring and kind are looked at: the schema comes from elsewhere.
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    if isinstance(function, classmethod):
        raise InvalidValue(
            f"{function.__func__.__qualname__} is not bound to its class yet;"
            " make the tool from Class.method afterwards"
        )
    if not callable(function) or inspect.isclass(function):
        raise InvalidValue(f"a tool is made from a function, not from {function!r}")
    inner = _innermost(function)
    title = _name_of(function, inner) if name is None else name
    called: Any = function
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        called = type(function).__call__
    is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
    host = HostFunction(function, title, _doc_of(function, inner), is_async)
    if not reads_parameters:
        return host
    try:
        signature = inspect.signature(function)
    except NameError as error:  # annotations are evaluated here from Python 3.14 on
        raise InvalidValue(f"tool {title!r}: an annotation names {error.name!r}, which cannot be found") from None
    except (TypeError, ValueError):
        raise InvalidValue(f"tool {title!r} has no readable signature; wrap it in a function") from None
    scope = _Scope(title, inner)
    parameters: list[HostParameter] = []
    extra: Any = None
    for parameter in _open_parameters(function, signature):
        label = f"parameter {parameter.name!r}"
        annotation = scope.resolve(parameter.annotation, label)
        if parameter.kind is parameter.VAR_POSITIONAL:
            items = types.GenericAlias(list, (Any if annotation is EMPTY else annotation,))
            parameters.append(HostParameter(parameter.name, items, (), parameter.kind))
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            if typing.get_origin(annotation) is typing.Unpack:
                raise InvalidValue(f"tool {title!r}: write the keys of **{parameter.name} as parameters, not Unpack")
            extra = Any if annotation is EMPTY else annotation
        else:
            parameters.append(HostParameter(parameter.name, annotation, parameter.default, parameter.kind))
    returns = _collected(scope.resolve(signature.return_annotation, "the return annotation"))
    return HostFunction(
        function, title, host.doc, is_async, tuple(parameters), extra, returns, _is_unbound(function, signature)
    )


def _innermost(function: Any) -> Any:
    """Return the function that holds the code, beneath partials, bound methods, decorators and `__call__`."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isroutine(function):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is None:
                return function
            function = wrapped
        elif not inspect.isclass(function) and inspect.isfunction(type(function).__call__):
            return type(function).__call__
        else:
            return function


def _name_of(function: Any, inner: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if name is None and not inspect.isroutine(function):
        name = type(function).__name__
    if not isinstance(name, str) or name == "<lambda>":
        raise InvalidValue(f"a lambda has no name; give one: Tool.from_function({inner.__name__}, name='search')")
    return name


def _doc_of(function: Any, inner: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    return inspect.getdoc(inner) or inspect.getdoc(type(function)) or ""


def _is_unbound(function: Any, signature: inspect.Signature) -> bool:
    """Return True for a method taken from its class: programs would have to pass `self`."""
    owner, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    first = next(iter(signature.parameters), "")
    return inspect.isfunction(function) and bool(owner) and not owner.endswith("<locals>") and first == "self"


def _open_parameters(function: Any, signature: inspect.Signature) -> list[inspect.Parameter]:
    """Return the parameters that programs may set: without those that a partial binds by keyword, which programs must
    not see.
    """
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return [parameter for name, parameter in signature.parameters.items() if name not in bound]


def _collected(annotation: Any) -> Any:
    """Return a return annotation with an iterated type (an iterator, a generator or a range) replaced by a list, as
    which its items are sent.
    """
    kind, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind is typing.Annotated:
        return typing.Annotated[(_collected(arguments[0]), *annotation.__metadata__)]
    if kind in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(_collected, arguments))]  # noqa: UP007 - the members are known at run time
    if kind in _ITERATED:
        return types.GenericAlias(list, arguments[:1] or (Any,))
    if isinstance(kind, type) and issubclass(kind, COLLECTED):
        return types.GenericAlias(list, (_item_of(kind, arguments),))
    return annotation


def _item_of(kind: type, arguments: tuple[Any, ...]) -> Any:
    """Return the type of the items of a class of iterators, `Any` if it is not known."""
    if kind is range:
        return int
    if kind is enumerate:
        return types.GenericAlias(tuple, (int, *(arguments or (Any,))))
    # The type argument of a class of the user's own may mean anything.
    return arguments[0] if arguments and kind.__module__ in ("builtins", "itertools") else Any


class _Scope:
    """The names that a function's annotations may use."""

    def __init__(self, title: str, inner: Any) -> None:
        self._title = title
        self._code: types.CodeType | None = getattr(inner, "__code__", None)
        self._globals: dict[str, Any] = getattr(inner, "__globals__", {})
        # An annotation may name a type that is local to the enclosing function, which is among the callers.
        is_nested = "<locals>" in getattr(inner, "__qualname__", "")
        self._locals = _enclosing_locals(self._code) if is_nested else {}
        self._locals |= {p.__name__: p for p in getattr(inner, "__type_params__", ())}
        for cell_name, cell in zip(
            self._code.co_freevars if self._code else (),
            getattr(inner, "__closure__", None) or (),
            strict=False,
        ):
            try:
                self._locals[cell_name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue

    def resolve(self, annotation: Any, label: str) -> Any:
        """Return the annotation with quoted or postponed names resolved."""
        if annotation is EMPTY:
            return EMPTY

        def holder() -> None: ...

        holder.__annotations__ = {"value": annotation}
        try:
            return typing.get_type_hints(holder, self._globals, self._locals, include_extras=True)["value"]
        except NameError as error:
            reason = f"names {error.name!r}, which cannot be found"
        except Exception as error:
            # Evaluating an annotation runs code of the host: whatever it raises, the annotation cannot be used.
            reason = f"cannot be read: {error}"
        raise InvalidValue(f"tool {self._title!r}: {label} ({annotation}) {reason}")


def _enclosing_locals(code: types.CodeType | None) -> dict[str, Any]:
    """Return the local variables of the running functions that lexically enclose `code`, the innermost winning.

    Only those can be meant: a caller that merely has a variable of the same name is not in the lexical scope.
    """
    names: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)
    while code is not None and frame is not None:
        between = _path(frame.f_code, code)
        if between is not None:
            # The variables of an enclosing function that has returned shadow outer ones, and their values are gone.
            hidden = {name for inner in between for name in inner.co_varnames + inner.co_cellvars}
            names = {**{k: v for k, v in frame.f_locals.items() if k not in hidden}, **names}
        frame = frame.f_back
    return names


def _path(outer: types.CodeType, code: types.CodeType) -> list[types.CodeType] | None:
    """Return the code objects between a function and one nested in it; `None` if `code` is not in `outer`."""
    for constant in outer.co_consts:
        if constant is code:
            return []
        if isinstance(constant, types.CodeType) and (deeper := _path(constant, code)) is not None:
            return [constant, *deeper]
    return None
