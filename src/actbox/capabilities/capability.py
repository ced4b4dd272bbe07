"""`Capability`: a named operation, with all that is declared of it before it may be used."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, Protocol, Self, get_args

from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue, ToolError
from actbox.core.labels import PUBLIC, Label
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.taint import Taint, call_taint
from actbox.tools import Tool
from actbox.tools.large_values import aside

from . import rtfs_form
from .budgets import Account, Budget
from .outcome import StepFailed
from .schemas import Schema

Effect = Literal["compute", "llm", "network", "filesystem", "state"]
Risk = Literal["low", "medium", "high", "critical"]
RuntimeType = Literal["host", "container", "wasm", "rtfs", "microvm", "native"]

ENGINES: Mapping[RuntimeType, tuple[str, ...]] = {
    "host": (),
    "container": ("linux", "container"),
    "wasm": ("wasm",),
    "rtfs": ("rtfs",),
    "microvm": ("hyperlight",),
    "native": ("process",),
}
"""The engines that each type of runtime may be, the first that works here before the others."""

_MAX_ID = 128
_ID = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
FUNCTIONS = ("handler", "worst_case", "prepare")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")


class Call(Protocol):
    """One invocation, as a handler sees it."""

    @property
    def input(self) -> Mapping[str, Any]:
        """The input, which fits the capability's schema."""

    @property
    def caller(self) -> str:
        """The name of the agent or user that invokes."""

    @property
    def user(self) -> str:
        """The person for whom the caller acts, or ""."""

    @property
    def labels(self) -> Label:
        """The join of the input's labels."""

    @property
    def account(self) -> Account:
        """The account that is charged. Handlers open children of it for what they invoke themselves."""

    prepared: Any
    """A value that `prepare` keeps for the handler; `None` without one."""

    def charge(self, **amounts: float) -> None:
        """Charge what the handler has used, by the dimensions of `Budget`. Raises if the budget does not cover it."""

    def charge_tokens(self, model: str, *, input: int = 0, output: int = 0, cached: int = 0) -> None:
        """Charge the tokens of a call of a model."""

    def raise_label(self, label: Label | str) -> None:
        """Raise the label of what the invocation has read."""


class Handler(Protocol):
    """The host function behind a capability."""

    async def __call__(self, call: Call, /) -> Any:
        """Return the output as JSON data. An exception fails the invocation, with its message as the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The most that one invocation may have; `None` leaves it to the policy. Raises `InvalidValue` unless above 0."""

    memory_mb: int | None = None
    """MiB of memory."""
    timeout_ms: int | None = None
    """Milliseconds of wall time."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (type(value) is not int or value <= 0):
                raise InvalidValue(f"Resources.{name} is a whole number above 0, or None, not {value!r}")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The place where a capability runs.

    `host` is a handler in this process. `container` is full CPython or Node in isolation: the engine `linux`, else
    `container`. `wasm` and `rtfs` are those engines, and `microvm` is `hyperlight`. `native` has no isolation: it needs
    a registry with `allow_unisolated`. `image` names an environment or an OCI image; empty: the registry's own.
    """

    type: RuntimeType = "host"
    image: str = ""

    def __post_init__(self) -> None:
        rtfs_form.known(self.type, ENGINES, "there is no runtime")
        if not isinstance(self.image, str):
            raise InvalidValue(f"Runtime.image is text, not {self.image!r}")

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that this runtime may be, the preferred one first; empty for `host`."""
        return ENGINES[self.type]


@dataclass(frozen=True, slots=True, init=False)
class Capability:
    """A named operation: what goes in and out, what it touches, what it may cost, and who has to agree.

    `id` is a name with dots (`execute.python`), of lower-case letters, digits, `_` and `-`. The schemas are whatever
    `Schema.of` takes; that of the input is an object. Names in `approvals` are the kinds of approval that an invocation
    needs; one person may give several. `data` is the label that every output has at least. `estimates` is the declared
    worst case of one invocation. `filesystem` are the places, `network` the hosts (targets as in `AllowedDomain`) and
    `secrets` the names of the secrets that it uses. `retry_safe`: a second run after one that failed does no harm.

    `worst_case(capability, input)` is the worst case of one input, instead of `estimates`. `prepare(call)` runs first:
    it may read what belongs to the input, raise its label, and refuse it, and returns what an approver is shown besides
    the input, such as `{"files": {"a.txt": {"before": "…", "after": "…"}}}`. The handler finds what it keeps in
    `call.prepared`.

    Capabilities are equal if all but their functions are. Raises `InvalidValue`.
    """

    id: str
    description: str
    input_schema: Schema
    output_schema: Schema
    effects: tuple[Effect, ...] = ()
    risk: Risk = "low"
    approvals: tuple[str, ...] = ()
    resources: Resources = Resources()
    data: Label = PUBLIC
    runtime: Runtime = Runtime()
    handler: Handler | None = field(default=None, compare=False, repr=False)
    version: str = "1.0.0"
    estimates: Budget = Budget()  # noqa: RUF009 - immutable
    filesystem: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    retry_safe: bool = False
    worst_case: Callable[[Capability, Mapping[str, Any]], Budget] | None = field(
        default=None, compare=False, repr=False
    )
    prepare: Callable[[Call], Awaitable[Mapping[str, Any]]] | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        id: str,
        description: str,
        input_schema: object,
        output_schema: object,
        *,
        effects: Iterable[Effect] = (),
        risk: Risk = "low",
        approvals: Iterable[str] = (),
        resources: Resources = Resources(),
        data: Label | str = PUBLIC,
        runtime: Runtime = Runtime(),
        handler: Handler | None = None,
        version: str = "1.0.0",
        estimates: Budget = Budget(),  # noqa: B008 - immutable
        filesystem: Iterable[str] = (),
        network: Iterable[str] = (),
        secrets: Iterable[str] = (),
        retry_safe: bool = False,
        worst_case: Callable[[Capability, Mapping[str, Any]], Budget] | None = None,
        prepare: Callable[[Call], Awaitable[Mapping[str, Any]]] | None = None,
    ) -> None:
        if not isinstance(id, str) or len(id) > _MAX_ID or not _ID.fullmatch(id):
            raise InvalidValue(
                f"a capability's id is a name such as 'execute.python', of at most {_MAX_ID} lower-case letters,"
                f" digits, '_', '-' and dots between them, not {id if not isinstance(id, str) else id[:_MAX_ID]!r}"
            )
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise InvalidValue(f"the version of {id} is text such as '1.0.0', not {version!r}")
        for name, value, kind in (
            ("description", description, str),
            ("resources", resources, Resources),
            ("runtime", runtime, Runtime),
            ("estimates", estimates, Budget),
            ("retry_safe", retry_safe, bool),
        ):
            if not isinstance(value, kind):
                raise InvalidValue(f"{name} of {id} is a {kind.__name__}, not {value!r}")
        if handler is not None and not callable(handler):
            raise InvalidValue(f"the handler of {id} is an async function of a call, not {handler!r}")
        takes = _schema(id, "input", input_schema).closed()
        if takes.fields is None:
            raise InvalidValue(f"the input of {id} is an object with named fields, and its schema is that of one")
        touched = _texts(id, "effects", effects)
        for effect in touched:
            rtfs_form.known(effect, get_args(Effect), f"{id}: there is no effect")
        rtfs_form.known(risk, get_args(Risk), f"{id}: there is no risk")
        hosts = _texts(id, "network", network)
        for host in hosts:
            AllowedDomain(host)
        kinds = _texts(id, "approvals", approvals)
        for kind_of_approval in kinds:
            if not _ID.fullmatch(kind_of_approval):
                raise InvalidValue(f"{id}: an approval is a name such as 'compute', not {kind_of_approval!r}")
        for name, made in {
            "id": id,
            "description": description,
            "input_schema": takes,
            "output_schema": _schema(id, "output", output_schema),
            "effects": touched,
            "risk": risk,
            "approvals": kinds,
            "resources": resources,
            "data": Label(data),
            "runtime": runtime,
            "handler": handler,
            "version": version,
            "estimates": estimates,
            "filesystem": _texts(id, "filesystem", filesystem),
            "network": hosts,
            "secrets": _texts(id, "secrets", secrets),
            "retry_safe": retry_safe,
            "worst_case": worst_case,
            "prepare": prepare,
        }.items():
            object.__setattr__(self, name, made)

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], id: str | None = None, *, description: str | None = None, **declared: Any
    ) -> Self:
        """Return a capability whose fields are a function's parameters. The function may be sync or async.

        Its schemas come from its annotations, its id from its name, its description from its docstring, all as a tool's
        do. `declared` are the other arguments of `Capability`.
        """
        return cls.from_tool(Tool.from_function(function), id, description=description, **declared)

    @classmethod
    def from_tool(cls, tool: Tool, id: str | None = None, *, description: str | None = None, **declared: Any) -> Self:
        """Return a capability that calls a tool. `declared` are the other arguments of `Capability`.

        A tool whose calls require approval needs the approval `tool` unless `declared` says otherwise. The label of
        the tool is that of every output. A tool that is `cleared` up to a label is given nothing above it.
        """
        declared = {**declared, "data": Label(tool.label, declared.get("data", PUBLIC))}
        return cls(
            tool.name if id is None else id,
            tool.description if description is None else description,
            tool.input_schema,
            True if tool.output_schema is None else Schema.of(tool.output_schema),
            **{
                "approvals": ("tool",) if tool.approval == "always_require" else (),
                "prepare": None if tool.cleared is None else partial(_check_cleared, tool),
                **declared,
            },
            handler=partial(_call_tool, tool),
        )

    @classmethod
    def from_program(
        cls,
        program: Program,
        id: str,
        description: str,
        input_schema: object,
        output_schema: object = True,
        *,
        box: Sandbox | None = None,
        **declared: Any,
    ) -> Self:
        """Return a capability that runs a program, with the input's fields as its variables; its value is the output.

        It runs in a throwaway workspace of `box`, which is open, under the policy of that and for at most
        `resources.timeout_ms`; `runtime` should be that of the box. Without `box` it runs in the sandboxes of the
        registry (see `standard_registry`), on an engine of its runtime, by default `container`. `declared` are the
        other arguments of `Capability`. Raises `InvalidValue` if a field cannot be the name of a variable.
        """
        if box is None:
            declared.setdefault("runtime", Runtime("container"))
        made = cls(id, description, input_schema, output_schema, **declared)
        _with_inputs(program, dict.fromkeys(made.input_schema.fields or ()))
        return replace(made, handler=partial(_run_program, box, program, made.resources.timeout_ms))

    @classmethod
    def from_rtfs(cls, text: str, *, handler: Handler | None = None) -> Self:
        """Return the capability of a `(capability "id" …)` form. Raises `InvalidValue` with the place in the text."""
        found = cls.all_from_rtfs(text)
        if len(found) != 1:
            raise InvalidValue(f"one capability is one form, and this text has {len(found)}")
        return found[0] if handler is None else replace(found[0], handler=handler)

    @classmethod
    def all_from_rtfs(cls, text: str) -> tuple[Self, ...]:
        """Return the capability of each form in a text, without handlers. Raises `InvalidValue`."""
        return tuple(map(cls._from_fields, rtfs_form.read(text)))

    def to_rtfs(self) -> str:
        """Return the `(capability "id" …)` form as text, without what has its default: `from_rtfs` reads it back."""
        said: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default and one.name not in FUNCTIONS:
                said[one.name] = value
        for name in ("resources", "runtime"):
            if name in said:
                said[name] = {key: value for key, value in asdict(said[name]).items() if value not in (None, "")}
        if "estimates" in said:
            said["estimates"] = self.estimates.amounts()
        if "data" in said:
            said["data"] = str(self.data)
        return rtfs_form.write(
            {**said, "input_schema": self.input_schema.form, "output_schema": self.output_schema.form}
        )

    @classmethod
    def _from_fields(cls, said: dict[str, Any]) -> Self:
        try:
            id = said.pop("id")
            for name, kind in (("resources", Resources), ("runtime", Runtime), ("estimates", Budget)):
                if name in said:
                    names = [one.name.replace("_", "-") for one in fields(kind)]
                    for key in said[name]:
                        rtfs_form.known(key.replace("_", "-"), names, f"{name} has no key")
                    said[name] = kind(**said[name])
            if "input_schema" not in said:
                raise InvalidValue("the key :input-schema is missing")
            return cls(id, **{"description": "", "output_schema": True, **said})
        except InvalidValue as error:
            raise InvalidValue(f"capability {id!r}: {error}") from None


async def _check_cleared(tool: Tool, call: Call) -> Mapping[str, Any]:
    if tool.cleared is not None and not call.labels <= Label(tool.cleared):
        why = f"the tool {tool.name!r} is cleared up to {tool.cleared}, and this has the label {call.labels}"
        raise StepFailed("refused", "label", why)
    return {}


async def _call_tool(tool: Tool, call: Call) -> Any:
    from actbox.tools.json_form import spelled_out  # imports pydantic

    taint = Taint(Policy(label=call.labels))  # which a tool may raise for what it returns
    mark = call_taint.set(taint)
    try:
        return await aside(lambda result: _bytes_as_text(spelled_out(result)), await tool.call(call.input))
    finally:
        call_taint.reset(mark)
        call.raise_label(taint.label)


def _bytes_as_text(value: Any) -> Any:
    """Return a value with its bytes in Base64, which schemas call a string."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _bytes_as_text(inner) for key, inner in value.items()}
    return [_bytes_as_text(inner) for inner in value] if isinstance(value, list) else value


async def _run_program(box: Sandbox | None, program: Program, milliseconds: int | None, call: Any) -> Any:
    given = _with_inputs(program, call.input)
    if box is not None:
        if box.traits.labels and (label := Label(given.label, call.labels)) != PUBLIC:
            given = replace(given, label=label)
        result = await box.run_alone(given, timeout=None if milliseconds is None else milliseconds / 1000)
        call.ran(result)
    elif call.sandboxes is not None:
        result = await call.sandboxes.run(call, given)
    else:
        raise ToolError("this registry has no sandboxes: take standard_registry(…), or give the program a box")
    if not result.success:
        error = result.error
        raise ToolError(f"{error.kind.value}: {error.message}" if error else f"exit code {result.exit_code}")
    return result.value


def _with_inputs(program: Program, inputs: Mapping[str, Any]) -> Program:
    return replace(program, inputs={**program.inputs, **inputs})


def _schema(id: str, which: str, given: object) -> Schema:
    try:
        return Schema.of(given, output=which == "output")
    except InvalidValue as error:
        raise InvalidValue(f"the {which} schema of {id}: {error}") from None


def _texts(id: str, name: str, given: object) -> tuple[Any, ...]:
    items = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) else (given,)
    if items == (given,) or not all(isinstance(item, str) and item for item in items):
        raise InvalidValue(f"{name} of {id} is a tuple of texts such as ('a',), not {given!r}")
    return tuple(dict.fromkeys(items))
