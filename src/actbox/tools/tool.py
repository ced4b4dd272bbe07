"""A tool: a host function with a name, a description and schemas, which a program may call."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, overload

from actbox.core.errors import InvalidValue, ToolError

from .arguments import Arguments, SchemaArguments, SignatureArguments
from .docstrings import read_docstring
from .results import Results
from .threads import run_in_thread

Approval = Literal["always_require", "never_require"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")


class Tool:
    """A host function that a program may call by name. Immutable.

    `input_schema` and `output_schema` are JSON schemas (the latter `None` where nothing is known); `parameters` are the
    names that positional arguments bind to. `approval` says whether a run that has this tool needs someone's consent.
    Calling the tool itself calls the function, so that a decorated function stays what it was.
    """

    __slots__ = (
        "__wrapped__",
        "_arguments",
        "_results",
        "approval",
        "description",
        "is_async",
        "name",
    )

    def __init__(
        self,
        *,
        name: str,
        description: str,
        function: Callable[..., Any],
        arguments: Arguments,
        results: Results,
        approval: Approval = "never_require",
    ) -> None:
        """Use `from_function` or `from_schema`. Raises `InvalidValue`."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidValue(f"{name!r} cannot be the name of a tool; give one with name=, such as 'search'")
        if approval not in get_args(Approval):
            raise InvalidValue(f"tool {name}: approval must be 'always_require' or 'never_require', not {approval!r}")
        for attribute, value in (
            ("name", name),
            ("description", description),
            ("approval", approval),
            ("is_async", _is_async(function)),
            ("__wrapped__", function),
            ("_arguments", arguments),
            ("_results", results),
        ):
            object.__setattr__(self, attribute, value)

    name: str
    description: str
    approval: Approval
    is_async: bool
    __wrapped__: Callable[..., Any]
    _arguments: Arguments
    _results: Results

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval = "never_require",
    ) -> Tool:
        """Make a tool of a function: schema from its annotations, descriptions from `Annotated` and its docstring.

        Takes sync and async functions, bound methods, `functools.partial` and callable objects. Raises `InvalidValue`
        for `*args`, for annotations that cannot be resolved or described as JSON, and for a function without a name.
        """
        return cls._from(function, name, description, approval, _locals_of_caller())

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
    ) -> Tool:
        """Make a tool whose schema comes from elsewhere; `function` is called with keyword arguments."""
        results = Results(name, inspect.Signature.empty)
        results.schema = dict(output_schema) if output_schema is not None else None
        return cls(
            name=name,
            description=description,
            function=function,
            arguments=SchemaArguments(name, input_schema),
            results=results,
            approval=approval,
        )

    @classmethod
    def _from(
        cls,
        function: Callable[..., Any],
        name: str | None,
        description: str | None,
        approval: Approval,
        local_names: Mapping[str, Any],
    ) -> Tool:
        if isinstance(function, Tool):
            raise InvalidValue(f"{function.name} is a tool already")
        if not callable(function):
            raise InvalidValue(f"a tool is made of a function, not of {function!r}")
        if isinstance(function, (staticmethod, classmethod)):
            raise InvalidValue("make the tool of the method as it is called: Tool.from_function(SomeClass.method)")
        plain = _innermost(function)
        name = str(name or getattr(plain, "__name__", type(plain).__name__))
        if not _NAME.fullmatch(name):
            raise InvalidValue(f"a tool needs a name, and {name} is none; give one with name=, such as 'search'")
        try:
            signature = inspect.signature(function, eval_str=True, locals=local_names)
        except (NameError, SyntaxError, TypeError, AttributeError) as error:
            raise InvalidValue(f"tool {name}: an annotation cannot be resolved: {error}") from error
        about, parameters = read_docstring(plain if inspect.isroutine(plain) else type(plain).__call__)
        return cls(
            name=name,
            description=description if description is not None else about,
            function=function,
            arguments=SignatureArguments(name, signature, parameters),
            results=Results(name, signature.return_annotation),
            approval=approval,
        )

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments: an object with one property each."""
        return self._arguments.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the result, where it is known."""
        return self._results.schema

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names that positional arguments bind to, in order."""
        return self._arguments.names

    @property
    def variadic(self) -> bool:
        """Whether names beyond the schema's are taken too (`**kwargs`)."""
        return self._arguments.variadic

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Check the arguments, call the function, and return plain JSON data or bytes.

        An async function is awaited, a sync one called in a thread with this task's context variables. Raises
        `ToolError`, fit for a model to read: for wrong arguments it names each; for an exception of the function it
        has the exception's type and message (the exception itself is its `__cause__`); for a result that is not JSON
        the place and the type. A `ToolError` raised by the function keeps its message.
        """
        positional, named = self._arguments.bind(self.name, arguments)
        try:
            if self.is_async:
                value = await self.__wrapped__(*positional, **named)
            else:
                value = await run_in_thread(self.__wrapped__, *positional, **named)
                if inspect.isawaitable(value):  # a plain function that hands on a coroutine
                    value = await value
        except ToolError as error:
            raise ToolError(str(error), tool=self.name) from error
        except Exception as error:
            text = str(error)
            raise ToolError(type(error).__name__ + (f": {text}" if text else ""), tool=self.name) from error
        return self._results.plain(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unchecked, as the host did before it was a tool."""
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Tool:
        """Bind to an instance, so that `@tool` works on methods: `thing.method` is a tool without `self`."""
        if instance is None:
            return self
        bound = functools.partial(self.__wrapped__, instance)
        return Tool._from(bound, self.name, self.description, self.approval, {})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a tool cannot be changed; make another one instead of setting {name!r}")

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, approval: Approval = "never_require"
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = "never_require",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of the function below: `@tool`, or `@tool(name=…, description=…, approval=…)`.

    As `Tool.from_function`, with the same errors.
    """
    local_names = _locals_of_caller()

    def make(function: Callable[..., Any]) -> Tool:
        return Tool._from(function, name, description, approval, local_names)

    return make if function is None else make(function)


def _locals_of_caller() -> dict[str, Any]:
    """Return the names where a tool is being made, for annotations that are text and name something local."""
    frame = sys._getframe(2)
    return dict(frame.f_locals) if frame.f_locals is not frame.f_globals else {}


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function)


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function)
