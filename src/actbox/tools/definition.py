"""`Tool`: one host function, with all that a program, a model and an approver need to know about it."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property, partial
from types import CoroutineType, FunctionType, MethodType, NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, overload

from actbox.core.errors import InvalidValue, ToolError
from actbox.core.labels import PUBLIC, Label, clearance_of, label_of
from actbox.core.lazy_dataclass import dataclass
from actbox.core.values import CannotCross, copy_of, opened, pack, unpack

from .docstrings import compose, parse
from .host_function import COLLECTED, EMPTY, read
from .large_values import aside, in_thread, is_large
from .prepared_call import PreparedCall
from .problems import failure, too_many
from .signature_text import TypeWriter, signature_text
from .threads import run_in_thread

if TYPE_CHECKING:
    from .schema_arguments import SchemaArguments

Approval = Literal["always_require", "never_require"]

MAX_NAME_LENGTH = 128
MAX_ITEMS: Final = 100_000
"""The most items that a tool may yield one by one; they are collected into a list."""
MOST_SHOWN_VALUES = 100_000
"""The most values that a call with required approval may have: nobody could look at more."""

_CACHED: Final = "__actbox_tool__"
"""The attribute of a host function that caches its tool."""

_NEVER_COLLECTED: Final = frozenset({NoneType, bool, bytes, dict, float, int, list, str})

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """A host function that programs may call. Make one with `@tool`, `from_function` or `from_schema`.

    `input_schema` and `output_schema` are JSON schemas (treat them as read-only; `output_schema` is `None` if the
    result is unknown). `parameters` are the names that positional arguments bind to, in order; `variadic` is true if
    arguments with other names are accepted. `signature` is the Python signature for programs: results are JSON data, so
    a model or dataclass is a `TypedDict` there. `approval` says whether a call requires approval. `collects` is the
    parameter for further positional arguments, as a list; empty if there is none. `unbound` marks a method that still
    needs its object: take the tool from an instance. `label` is the label of what the tool answers. `cleared` is the
    highest label with which a program may call it, by default `Policy.egress_max`: its arguments leave the sandbox.
    `retry_safe` says that a call may be made again without harm, since it has no effects, or the same as once.

    Calling the tool object calls the host function itself: no validation, no conversion.
    """

    name: str
    description: str
    input_schema: dict[str, Any] = field(repr=False)
    output_schema: dict[str, Any] | None = field(repr=False)
    approval: Approval
    is_async: bool
    parameters: tuple[str, ...]
    variadic: bool
    signature: str
    collects: str = ""
    unbound: bool = field(default=False, repr=False)
    label: Label = field(default=PUBLIC, repr=False)
    cleared: Label | None = field(default=None, repr=False)
    retry_safe: bool = field(default=False, repr=False)
    function: Callable[..., Any] = field(repr=False)
    _bind: Callable[[Mapping[str, Any]], _Arguments] = field(repr=False)
    _bind_small: Callable[[Mapping[str, Any]], _Arguments] = field(repr=False)
    _settle: Callable[[_Arguments], tuple[_Arguments, dict[str, Any]]] = field(repr=False)
    _may_hide: Callable[[str], bool] = field(repr=False)
    _to_json: Callable[[Any], Any] = field(repr=False)

    def __post_init__(self) -> None:
        # These attributes let the host use the tool like the function: help(), inspect.signature(), __doc__.
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(self.function, attribute):
                object.__setattr__(self, attribute, getattr(self.function, attribute))
        object.__setattr__(self, "__wrapped__", self.function)
        object.__setattr__(self, "label", label_of(self.label, f"the tool {self.name!r}: label"))
        object.__setattr__(self, "cleared", clearance_of(self.cleared, f"the tool {self.name!r}: cleared"))

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval | None = None,
        label: Label | str | None = None,
        cleared: Label | str | None = None,
        retry_safe: bool | None = None,
    ) -> Tool:
        """Return a tool for a function, bound method, `functools.partial` or callable object, sync or async.

        Names, types and defaults come from the signature, descriptions from `Annotated[..., Field(...)]`,
        `Annotated[..., "text"]` or the docstring. Programs neither see nor set the arguments that a partial binds.
        Without `approval`, `label`, `cleared` or `retry_safe`, a tool made from another tool, or from a partial of it,
        has that tool's, and any other has `never_require`, `public`, the policy's clearance and `False`. Raises
        `InvalidValue` for a function that no program could call: a lambda without a name, an annotation with an unknown
        type or one without a JSON form.
        """
        origin = _origin_of(function)
        if approval is None:
            approval = "never_require" if origin is None else origin.approval
        if origin is not None:
            label = origin.label if label is None else label
            cleared = origin.cleared if cleared is None else cleared
            retry_safe = origin.retry_safe if retry_safe is None else retry_safe
        if isinstance(function, Tool):
            function = function.function
        host = read(function, name)
        _check_name(host.name)
        _check_approval(host.name, approval)
        documented, parameter_docs = parse(host.doc)
        # Imported here because pydantic takes some 70 ms to import, which `import actbox` must not cost.
        from .annotation_schema import output_schema
        from .argument_schema import AnnotatedArguments
        from .results import ResultCheck

        arguments = AnnotatedArguments(host, parameter_docs)
        produces = output_schema(host)
        return cls(
            name=host.name,
            description=documented if description is None else description,
            input_schema=arguments.schema,
            output_schema=produces,
            approval=approval,
            is_async=host.is_async,
            parameters=host.positional,
            variadic=host.extra is not None,
            signature=signature_text(host.name, arguments.schema, produces, host.positional, host.collects),
            collects=host.collects,
            unbound=host.unbound,
            label=PUBLIC if label is None else label,  # type: ignore[arg-type]  # checked in __post_init__
            cleared=cleared,  # type: ignore[arg-type]
            retry_safe=bool(retry_safe),
            function=host.function,
            _bind=arguments.bind,
            _bind_small=arguments.bind_small,
            _settle=arguments.settle,
            _may_hide=arguments.may_hide,
            _to_json=ResultCheck(host.name, host.returns),
        )

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        function: Callable[..., Any],
        *,
        output_schema: Mapping[str, Any] | None = None,
        approval: Approval = "never_require",
        returns: Any = EMPTY,
        arguments: SchemaArguments | None = None,
        label: Label | str = PUBLIC,
        cleared: Label | str | None = None,
        retry_safe: bool = False,
    ) -> Tool:
        """Return a tool whose JSON schemas come from elsewhere; it is called as `function(**arguments)`.

        Arguments are checked against the schema as far as `SchemaArguments` goes, and not converted; `arguments`
        replaces that check, for a function with its own checks and conversions. Positional arguments bind to the
        required properties first, then to the others. `returns` is a type for results, which are serialized by it as by
        a function's return annotation. Raises `InvalidValue` if the input schema is not that of an object.
        """
        _check_name(name)
        _check_approval(name, approval)
        takes = _schema_copy(name, "input_schema", input_schema)
        gives = None if output_schema is None else _schema_copy(name, "output_schema", output_schema)
        host = read(function, name, reads_parameters=False)
        from .results import ResultCheck  # imports pydantic: see from_function
        from .schema_arguments import SchemaArguments

        if arguments is None:
            arguments = SchemaArguments(name, takes)
        return cls(
            name=name,
            description=description,
            input_schema=takes,
            output_schema=gives,
            approval=approval,
            is_async=host.is_async,
            parameters=arguments.parameters,
            variadic=arguments.variadic,
            signature=signature_text(name, takes, gives, arguments.parameters),
            label=label,  # type: ignore[arg-type]  # checked in __post_init__
            cleared=cleared,  # type: ignore[arg-type]
            retry_safe=retry_safe,
            function=host.function,
            _bind=arguments.bind,
            _bind_small=arguments.bind,
            _settle=arguments.settle,
            _may_hide=arguments.may_hide,
            _to_json=ResultCheck(name, returns),
        )

    @cached_property
    def names_types(self) -> bool:
        """True if the signature, written for a program, names types that have to be defined."""
        writer = TypeWriter()
        writer.signature(self.name, self.input_schema, self.output_schema, self.parameters, self.collects)
        return bool(writer.definitions)

    @cached_property
    def documentation(self) -> str:
        """The description and a line for each described argument, in the form of a docstring."""
        return compose(self.description, self.input_schema)

    def __get__(self, instance: Any, owner: type | None = None) -> Tool:
        """Bind a decorated method: `desk.search` is a tool without `self`, `Desk.search` the unbound tool."""
        if instance is None or not self.unbound:
            return self
        return Tool.from_function(
            MethodType(self.function, instance),
            name=self.name,
            description=self.description,
            approval=self.approval,
            label=self.label,
            cleared=self.cleared,
            retry_safe=self.retry_safe,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the host function itself."""
        return self.function(*args, **kwargs)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Validate the arguments, call the function, and return a copy of its result.

        The result is JSON data, `bytes`, or has further standard library types of the tagged form; models and
        dataclasses become dicts.

        Text is converted to the annotated types where pydantic's lax mode does (`"3"` into 3, an object into a model).
        An async function is awaited here; a sync one runs in a worker thread with this task's context variables.
        Cancelling stops an async function; a sync one runs on and its result is dropped.

        Raises `ToolError` with a message for the model: for wrong arguments one line for each problem, for an exception
        of the function its type and message (the exception itself is the `__cause__`), and for a result that cannot
        cross its type and place.
        """
        return await aside(opened, await self.answer(arguments))

    async def answer(self, arguments: Mapping[str, Any]) -> Any:
        """Return `call`'s result in the form that is sent: `Packed` unless it is JSON data or `bytes`."""
        return await self._make(await aside(self._bind, arguments))

    def answer_small(self, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Do as `answer` with arguments that are known not to be large; an error in them is raised before the await."""
        return self._make(self._bind_small(arguments))

    @property
    def answers_in_thread(self) -> bool:
        """True if `answer_here` may stand for `answer`."""
        return not self.is_async

    def answer_here(self, arguments: Mapping[str, Any]) -> Any:
        """Return what `answer` returns for small arguments of a sync function, which is called in this thread."""
        args, kwargs = self._bind_small(arguments)
        return self._call_and_convert(args, kwargs)

    def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Validate and convert the arguments, JSON data and bytes, and return a call that an approver can see before it
        is made.

        `ApprovalRequest` says how they are shown. Later changes to `arguments` affect neither the shown nor the passed
        ones. For a tool from a schema, an omitted property with a valid `default` is passed with that.

        Raises `ToolError` for wrong arguments, as `call` does, and for arguments that cannot be shown: because they
        have no JSON form, or more than `MOST_SHOWN_VALUES` values.
        """
        if is_large(arguments, MOST_SHOWN_VALUES, sys.maxsize):
            raise too_many(self.name, MOST_SHOWN_VALUES)
        try:
            copied = _copy(arguments)
        except CannotCross as error:
            raise ToolError(error.within("the call was not made: arguments"), tool=self.name) from None
        except RecursionError:
            raise ToolError("the call was not made: arguments are nested too deeply", tool=self.name) from None
        from .hidden_parts import digest  # imports pydantic: see from_function

        bound, shown = self._settle(self._bind(copied))
        hidden = {name: digest(value) for name, value in arguments.items() if self._may_hide(name)}
        return PreparedCall(partial(self._make, bound), shown, hidden)

    async def _make(self, bound: _Arguments) -> Any:
        args, kwargs = bound
        if not self.is_async:
            return await run_in_thread(self._call_and_convert, args, kwargs)
        try:
            result = self.function(*args, **kwargs)
            if type(result) is CoroutineType or not isinstance(result, AsyncIterator):
                result = await result
                if type(result) not in _NEVER_COLLECTED:
                    result = self._collected(result)
            else:
                result = [item async for item in _bounded_async(self.name, result)]
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # Only in the main thread does a KeyboardInterrupt come from a person's Ctrl-C.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise failure(self.name, error) from error
        return await in_thread(self._to_json, result) if is_large(result) else self._to_json(result)

    def _call_and_convert(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            result = self.function(*args, **kwargs)
            if type(result) not in _NEVER_COLLECTED:
                result = self._collected(result)
        except BaseException as error:
            # A tool that calls sys.exit() or raises KeyboardInterrupt has failed; it must not end the host's thread.
            raise failure(self.name, error) from error
        return self._to_json(result)

    def _collected(self, result: Any) -> Any:
        return [*_bounded(self.name, result)] if isinstance(result, COLLECTED) else result


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval | None = None,
    label: Label | str | None = None,
    cleared: Label | str | None = None,
    retry_safe: bool | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval | None = None,
    label: Label | str | None = None,
    cleared: Label | str | None = None,
    retry_safe: bool | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Turn a host function into a tool: `@tool` or `@tool(name=…, approval=…)`; see `Tool.from_function`."""
    make = partial(
        Tool.from_function,
        name=name,
        description=description,
        approval=approval,
        label=label,
        cleared=cleared,
        retry_safe=retry_safe,
    )
    return make if function is None else make(function)


def tool_of(function: Callable[..., Any]) -> Tool:
    """Return the tool of a host function; the tool is made once and cached on the function itself.

    It is made again if the function's name, docstring or signature has changed, or the meaning of a name in its
    annotations. Raises the errors of `Tool.from_function`.
    """
    if type(function) is not FunctionType:
        return Tool.from_function(function)
    try:
        sources = _sources_of(function)
    except NameError:  # annotations are evaluated here from Python 3.14 on
        return Tool.from_function(function)
    for each in sources:
        if isinstance(each, (list, dict, set, bytearray)):  # a default that may be mutated in place
            return Tool.from_function(function)
    identities = tuple(map(id, sources))
    kept = function.__dict__.get(_CACHED)
    if isinstance(kept, _CachedTool) and kept.identities == identities and kept.tool.function is function:
        return kept.tool
    made = Tool.from_function(function)
    function.__dict__[_CACHED] = _CachedTool(identities, sources, made)
    return made


@dataclass(frozen=True, slots=True)
class _CachedTool:
    """A cached tool with the objects that it was made from. A wrapper copies the cache of the function that it wraps,
    which those objects detect.
    """

    identities: tuple[int, ...]
    sources: list[object]
    tool: Tool

    def __reduce__(self) -> tuple[type, tuple[()]]:
        # Some libraries pickle functions with their attributes; the cached tool is left out.
        return tuple, ()


def _sources_of(function: FunctionType) -> list[object]:
    """Return the objects that determine a function's tool: its name, docstring, code, annotations and defaults."""
    annotations = function.__annotations__
    words = re.findall(r"\w+", " ".join([each for each in annotations.values() if type(each) is str]))
    return [
        *(function.__name__, function.__doc__, function.__code__),
        *annotations,
        *annotations.values(),
        *map(function.__globals__.get, words),
        *map(function.__dict__.get, ("__wrapped__", "__signature__")),
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
    ]


def _bounded(tool: str, items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items that a tool yields. Raises `ToolError` beyond `MAX_ITEMS` items, since there may be no end."""
    for count, item in enumerate(items):
        if count >= MAX_ITEMS:
            raise _too_many(tool)
        yield item


async def _bounded_async(tool: str, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
    count = 0
    async for item in items:
        count += 1
        if count > MAX_ITEMS:
            raise _too_many(tool)
        yield item


def _too_many(tool: str) -> ToolError:
    return ToolError(
        f"tool {tool!r} yielded more than {MAX_ITEMS:,} items, and none of them is returned; ask for fewer"
    )


def _origin_of(function: Callable[..., Any]) -> Tool | None:
    """Return the tool that a function is, or is a partial of."""
    while isinstance(function, partial):
        function = function.func
    return function if isinstance(function, Tool) else None


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or not name:
        raise InvalidValue(f"a tool's name must be printable text such as 'search', not {name!r}")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidValue(f"a tool's name has at most {MAX_NAME_LENGTH} characters, not {len(name)}: {name[:40]!r}…")


def _check_approval(name: str, approval: str) -> None:
    if approval not in get_args(Approval):
        raise InvalidValue(f"tool {name!r}: approval must be one of {', '.join(get_args(Approval))}, not {approval!r}")


def _copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return unpack(copy_of(pack(dict(arguments), keeps_bytes=True)))  # type: ignore[no-any-return]


def _schema_copy(name: str, field_name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        copied = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"tool {name!r}: {field_name} is not a JSON schema: {error}") from None
    assert isinstance(copied, dict)
    return copied
