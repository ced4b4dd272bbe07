"""`Tool`: one host function, with all that a program, a model and an approver need to know about it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from actbox.core.errors import InvalidValue

from .docstrings import compose, parse
from .host_function import EMPTY, read
from .prepared import PreparedCall
from .problems import failure
from .signature_text import signature_text
from .threads import run_in_thread

if TYPE_CHECKING:
    from .schema_arguments import SchemaArguments

Approval = Literal["always_require", "never_require"]

MAX_NAME_LENGTH = 128

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """A host function that programs may call. Make one with `@tool`, `from_function` or `from_schema`.

    `input_schema` and `output_schema` are JSON schemas (treat them as read-only; `output_schema` is `None` where
    nothing is known). `parameters` are the names that positional arguments bind to, in order; `variadic` says whether
    arguments of other names are taken. `signature` is Python as a program sees it: what comes back is JSON data, so a
    model or dataclass is a `TypedDict` there. `approval` is what a person or policy is asked before a call.
    `unbound` marks a method that still wants its object: take the tool from an instance.

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
    unbound: bool = field(default=False, repr=False)
    function: Callable[..., Any] = field(repr=False)
    _bind: Callable[[Mapping[str, Any]], _Arguments] = field(repr=False)
    _settle: Callable[[_Arguments], tuple[_Arguments, dict[str, Any]]] = field(repr=False)
    _to_json: Callable[[Any], Any] = field(repr=False)

    def __post_init__(self) -> None:
        # The host may go on treating the name as the function that it was: help(), inspect.signature(), __doc__.
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(self.function, attribute):
                object.__setattr__(self, attribute, getattr(self.function, attribute))
        object.__setattr__(self, "__wrapped__", self.function)

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval | None = None,
    ) -> Tool:
        """Make a tool from a function, bound method, `functools.partial` or callable object, sync or async.

        Names, types and defaults come from the signature, descriptions from `Annotated[..., Field(...)]`,
        `Annotated[..., "text"]` or the docstring. What a partial binds is the host's secret: programs neither see nor
        set it. Without `approval`, a tool that is made of another one, or of a partial of it, has the approval of that
        one, and any other has `never_require`. Raises `InvalidValue` for what no program could call: `*args`, a lambda
        without a name, an annotation that names an unknown type or one that has no JSON form.
        """
        if approval is None:
            approval = _approval_of(function)
        if isinstance(function, Tool):
            function = function.function
        host = read(function, name)
        _check_name(host.name)
        _check_approval(host.name, approval)
        documented, parameter_docs = parse(host.doc)
        # Imported here because pydantic costs some 70 ms, which `import actbox` must not pay.
        from .annotated import AnnotatedArguments, output_schema
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
            signature=signature_text(host.name, arguments.schema, produces, host.positional),
            unbound=host.unbound,
            function=host.function,
            _bind=arguments.bind,
            _settle=arguments.settle,
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
    ) -> Tool:
        """Make a tool whose JSON schemas come from elsewhere; it is called as `function(**arguments)`.

        Arguments are checked against the schema as far as `SchemaArguments` goes and are not converted; `arguments` is
        one that does so in a way of its own, for a function that comes with checks and conversions. Positional
        arguments bind to the required properties first, then to the others. `returns` is a type that results
        may be of, written as JSON by it, as the return annotation of a function is. Raises `InvalidValue` where the
        input schema is not that of an object.
        """
        _check_name(name)
        _check_approval(name, approval)
        takes = _schema_copy(name, "input_schema", input_schema)
        gives = None if output_schema is None else _schema_copy(name, "output_schema", output_schema)
        host = read(function, name, reads_parameters=False)
        from .results import ResultCheck  # pydantic: see from_function
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
            function=host.function,
            _bind=arguments.bind,
            _settle=arguments.settle,
            _to_json=ResultCheck(name, returns),
        )

    @property
    def documentation(self) -> str:
        """The description and a line for each described argument, as a docstring would have them."""
        return compose(self.description, self.input_schema)

    def __get__(self, instance: Any, owner: type | None = None) -> Tool:
        """Bind a decorated method: `desk.search` is a tool without `self`, `Desk.search` the unbound one."""
        if instance is None or not self.unbound:
            return self
        return Tool.from_function(
            MethodType(self.function, instance),
            name=self.name,
            description=self.description,
            approval=self.approval,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the host function itself."""
        return self.function(*args, **kwargs)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Validate the arguments, call the function, and return its result as plain JSON data or as `bytes`.

        Text is turned into the annotated types where pydantic's lax mode does (`"3"` into 3, an object into a model).
        An async function is awaited here; a sync one runs in a worker thread with this task's context variables.
        Cancelling stops an async function; a sync one runs on and its result is dropped.

        Raises `ToolError`, fit for a model to read: for wrong arguments one line a problem, for an exception of the
        function its type and message (the exception itself is the `__cause__`), and for a result that is not JSON its
        type and place.
        """
        return await self._make(self._bind(arguments))

    def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Validate and convert the arguments, JSON data and bytes, for a call that is shown before it is made.

        `ApprovalRequest` says how they are shown. Later changes to `arguments` reach neither what is shown nor what is
        passed. Of a tool from a schema, a property that is left out and has a `default` that fits is passed as that.

        Raises `ToolError` for wrong arguments, as `call` does, and for those that cannot be shown.
        """
        bound, shown = self._settle(self._bind(_copy(arguments)))
        return PreparedCall(partial(self._make, bound), shown)

    async def _make(self, bound: _Arguments) -> Any:
        args, kwargs = bound
        if not self.is_async:
            return await run_in_thread(self._call_and_convert, args, kwargs)
        try:
            result = await self.function(*args, **kwargs)
        except (Exception, SystemExit) as error:
            raise failure(self.name, error) from error
        return self._to_json(result)

    def _call_and_convert(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            result = self.function(*args, **kwargs)
        except (Exception, SystemExit) as error:
            # A tool that calls sys.exit() has failed; it does not end the host.
            raise failure(self.name, error) from error
        return self._to_json(result)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, approval: Approval | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a host function a tool: `@tool` or `@tool(name=…, approval=…)`; see `Tool.from_function`."""
    if function is None:
        return partial(Tool.from_function, name=name, description=description, approval=approval)
    return Tool.from_function(function, name=name, description=description, approval=approval)


def _approval_of(function: Callable[..., Any]) -> Approval:
    while isinstance(function, partial):
        function = function.func
    return function.approval if isinstance(function, Tool) else "never_require"


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or not name:
        raise InvalidValue(f"a tool's name must be printable text such as 'search', not {name!r}")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidValue(f"a tool's name has at most {MAX_NAME_LENGTH} characters, not {len(name)}: {name[:40]!r}…")


def _check_approval(name: str, approval: str) -> None:
    if approval not in get_args(Approval):
        raise InvalidValue(f"tool {name!r}: approval must be one of {', '.join(get_args(Approval))}, not {approval!r}")


def _copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(arguments)))  # type: ignore[no-any-return]
    except TypeError:  # bytes, which JSON has not
        return copy.deepcopy(dict(arguments))


def _schema_copy(name: str, field_name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        copied = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"tool {name!r}: {field_name} is not a JSON schema: {error}") from None
    assert isinstance(copied, dict)
    return copied
