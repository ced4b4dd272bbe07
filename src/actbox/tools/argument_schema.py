"""The check and conversion of a tool's arguments by the annotations of its host function, with pydantic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from itertools import chain
from types import GenericAlias
from typing import Annotated, Any, Literal, NotRequired, get_args, get_origin

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .annotation_schema import AnnotationSchema, arguments_adapter
from .hidden_parts import HiddenParts
from .host_function import EMPTY, HostFunction, HostParameter
from .json_form import NoJsonForm, json_form
from .large_values import is_large
from .problems import missing, place, refusal, shown, unknown, unshown
from .signature_text import signature_text, type_text
from .step_budget import TooManySteps
from .watched_schema import contains_itself, watched

# The key for the arguments that `**kwargs` takes; no parameter can have this name.
_EXTRA = "**"

_Bound = tuple[tuple[Any, ...], dict[str, Any]]


class AnnotatedArguments:
    """The arguments of one host function: their JSON schema and a validator, both built once.

    Defaults stay the function's own: an argument that a program leaves out is not passed.
    """

    schema: dict[str, Any]

    def __init__(self, host: HostFunction, descriptions: Mapping[str, str]) -> None:
        self._tool = host.name
        self._parameters = host.parameters
        self._names = frozenset(p.name for p in host.parameters)
        self._takes_extra = host.extra is not None
        self._positional_only = tuple(p for p in host.parameters if p.kind is Parameter.POSITIONAL_ONLY)
        self._collects = host.collects
        self._by_name = not (self._positional_only or self._collects)
        fields = {p.name: _field(p, descriptions.get(p.name)) for p in host.parameters}
        if self._takes_extra:
            fields[_EXTRA] = NotRequired[GenericAlias(dict, (str, host.extra))]
        adapter = arguments_adapter(host, fields)
        self._adapter = adapter
        self._validate = adapter.validator.validate_python
        self._dump = adapter.dump_python
        self.schema = self._schema_of(adapter, host)
        self._signature = signature_text(host.name, self.schema, None, host.positional, host.collects).rpartition(
            " -> "
        )[0]

    def bind(self, arguments: Mapping[str, Any]) -> _Bound:
        """Return the validated arguments in the form in which the function is called, or raise `ToolError`."""
        given = dict(arguments)
        return self._bound(given, self._watched if is_large(given) else self._validate)

    def bind_small(self, arguments: Mapping[str, Any]) -> _Bound:
        """Do as `bind` with arguments that are known not to be large."""
        return self._bound(dict(arguments), self._validate)

    def _bound(self, given: dict[str, Any], validate: Callable[[Any], Any]) -> _Bound:
        strangers = [] if given.keys() <= self._names else [name for name in given if name not in self._names]
        if self._takes_extra:
            given[_EXTRA] = {name: given.pop(name) for name in strangers}
            strangers = []
        problems = (unknown(name, self._names) for name in strangers)
        values: dict[str, Any] = {}
        try:
            values = (self._watched if self._is_recursive else validate)(given)
        except TooManySteps as error:
            raise refusal(self._tool, self._signature, [str(error)]) from None
        except ValidationError as error:
            raise refusal(self._tool, self._signature, chain(problems, self._problems(error, given))) from error
        except Exception as error:
            # A validator of the host raised an exception that is not a ValueError.
            raise refusal(self._tool, self._signature, [f"{type(error).__name__}: {error}"]) from error
        if strangers:
            raise refusal(self._tool, self._signature, problems)
        if self._takes_extra:
            extra = values.pop(_EXTRA)
            if not self._names.isdisjoint(extra):  # such as b"path", which validation makes a parameter name
                raise refusal(
                    self._tool, self._signature, (unknown(name, ()) for name in given[_EXTRA] if type(name) is not str)
                )
            values |= extra
        return () if self._by_name else self._by_position(values), values

    @cached_property
    def _watched(self) -> Callable[[Any], Any]:
        return watched(self._adapter.core_schema)

    @cached_property
    def _is_recursive(self) -> bool:
        return contains_itself(self._adapter.core_schema)

    @cached_property
    def _hidden_parts(self) -> HiddenParts:
        return HiddenParts(self._adapter.core_schema)

    def may_hide(self, name: str) -> bool:
        """Return True if the type of an argument may hide a part of it from an approver."""
        return (name if name in self._names else _EXTRA) in self._hidden_parts.hiding

    def settle(self, bound: _Bound) -> tuple[_Bound, dict[str, Any]]:
        """Return the arguments that will be passed, and all of them as JSON data by name, with the function's own
        defaults.

        Iterators are read here, and passed as new iterators. Raises `ToolError` for an item that does not fit, for a
        value without a JSON form, and for a dataclass with an `InitVar`, whose value is lost after validation. Only a
        default without a JSON form, such as a sentinel, is left out.
        """
        args, values = bound
        before = self._before(len(args) > len(self._positional_only))
        passed = {p.name: value for p, value in zip(before, args, strict=False)} | values
        if len(args) > len(before):
            passed[self._collects] = list(args[len(before) :])
        for name, lost in self._hidden_parts.lost.items():
            given = [each for each in passed if each == name or (name == _EXTRA and each not in self._names)]
            if given:
                raise unshown(self._tool, given[0], f"its {lost!r} is an InitVar, of which nothing is kept to be shown")
        # Iterators of pydantic that validate each item when it is read; a default is for the function itself to read.
        own = {p.name: p.default for p in self._parameters}
        once = [name for name, value in passed.items() if isinstance(value, Iterator) and value is not own.get(name)]
        read = {name: self._read(name, passed[name]) for name in once}
        form = self._shown(passed | read)
        passed |= {name: iter(items) for name, items in read.items()}
        return (self._by_position(passed), passed), form

    def _read(self, name: str, items: Iterator[Any]) -> list[Any]:
        try:
            return list(items)
        except ValidationError as error:
            problems = [
                f"{place(name, detail['loc'])} {_expected(detail['msg'])}; got {shown(detail['input'])}"
                for detail in error.errors(include_url=False)
            ]
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]  # raised by a validator of the host, as in `bind`
        raise refusal(self._tool, self._signature, problems)

    def _shown(self, passed: dict[str, Any]) -> dict[str, Any]:
        form: dict[str, Any] = {}
        for parameter in self._parameters:
            name, default = parameter.name, parameter.default
            if name not in passed and default is EMPTY:
                continue
            value = passed.get(name, default)
            try:
                form |= self._form({name: value})
            except NoJsonForm as error:
                if value is not default:
                    raise unshown(self._tool, name, error) from error
        for name in [name for name in passed if name not in self._names]:
            try:
                form |= self._form({_EXTRA: {name: passed[name]}})[_EXTRA]
            except NoJsonForm as error:
                raise unshown(self._tool, name, error) from error
        return form

    def _form(self, values: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._form_by("python", values)
        except NoJsonForm as error:
            if not error.opaque:
                raise
            try:
                return self._form_by("json", values)  # some serializers exist for JSON alone
            except NoJsonForm:
                raise error from None

    def _form_by(self, mode: Literal["python", "json"], values: dict[str, Any]) -> dict[str, Any]:
        try:
            dumped = self._dump(values, mode=mode, by_alias=False, warnings=False)
        except Exception as error:
            # The host's own serializers may raise any exception.
            raise NoJsonForm(f"its serialiser failed ({type(error).__name__})") from error
        form: dict[str, Any] = json_form(dumped)
        return form

    def _by_position(self, values: dict[str, Any]) -> tuple[Any, ...]:
        """Remove the positional-only arguments from `values` and return them in order."""
        args: list[Any] = []
        further = values.pop(self._collects, ()) if self._collects else ()
        for parameter in self._before(bool(further)):
            # Required parameters come first and are present; an argument missing before a later one gets its default.
            args.append(values.pop(parameter.name, parameter.default))
        return (*args, *further)

    def _before(self, collects: bool) -> tuple[HostParameter, ...]:
        """Return the parameters that are passed by position: the positional-only ones, or all that can be if `*args`
        has values.
        """
        return tuple(p for p in self._parameters if p.positional) if collects else self._positional_only

    def _schema_of(self, adapter: TypeAdapter[Any], host: HostFunction) -> dict[str, Any]:
        schema = adapter.json_schema(schema_generator=AnnotationSchema)
        schema.pop("title", None)
        properties = schema.setdefault("properties", {})
        extra = properties.pop(_EXTRA, None)
        schema["additionalProperties"] = extra.get("additionalProperties", True) if extra else False
        for parameter in host.parameters:
            if parameter.kind is Parameter.VAR_POSITIONAL:
                continue
            if parameter.default is not EMPTY and not isinstance(parameter.default, FieldInfo):
                found, default = _json_default(parameter)
                if found:
                    properties[parameter.name]["default"] = default
        return schema

    def _problems(self, error: ValidationError, given: Mapping[str, Any]) -> Iterator[str]:
        by_place: dict[str, tuple[list[str], object]] = {}
        for detail in error.errors(include_url=False):
            argument, steps = _located(detail, given)
            if len(detail["loc"]) == 1 and detail["type"] == "missing":
                yield missing(argument, type_text(self.schema, self.schema["properties"][argument]))
            elif detail["type"] == "missing":
                yield f"{place(argument, steps[:-1])} lacks {steps[-1]!r}"
            elif detail["type"] == "extra_forbidden":
                yield f"{place(argument, steps[:-1])} has no field {steps[-1]!r}"
            else:
                # pydantic reports an error for each type of a union: keep one sentence for each place.
                expected, _ = by_place.setdefault(place(argument, steps), ([], detail["input"]))
                expected.append(_expected(detail["msg"]))
        for where, (expected, value) in by_place.items():
            yield f"{where} {' or '.join(dict.fromkeys(expected))}; got {shown(value)}"


def _field(parameter: HostParameter, documented: str | None) -> Any:
    annotation = Any if parameter.annotation is EMPTY else parameter.annotation
    description = documented
    if get_origin(annotation) is Annotated:
        _, *notes = get_args(annotation)
        texts = [note for note in notes if isinstance(note, str)]
        description = texts[0] if texts else description
        infos = [note for note in notes if isinstance(note, FieldInfo)]
        if any(info.description for info in infos):
            description = None
    default = parameter.default
    if isinstance(default, FieldInfo):  # `limit: int = Field(3, ge=1)`
        annotation = Annotated[annotation, default]
        description = None if default.description else description
    if description:
        annotation = Annotated[annotation, Field(description=description)]
    return NotRequired[annotation] if _is_optional(parameter) else annotation


def _is_optional(parameter: HostParameter) -> bool:
    if isinstance(parameter.default, FieldInfo):
        return not parameter.default.is_required()
    if parameter.default is not EMPTY:
        return True
    notes = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    return any(isinstance(note, FieldInfo) and not note.is_required() for note in notes)


def _json_default(parameter: HostParameter) -> tuple[bool, Any]:
    if parameter.default is None or isinstance(parameter.default, (str, int, float, bool)):
        adapter: TypeAdapter[Any] = TypeAdapter(Any)
    else:
        adapter = TypeAdapter(Any if parameter.annotation is EMPTY else parameter.annotation)
    try:
        return True, adapter.dump_python(parameter.default, mode="json", warnings="error")
    except Exception:
        # For example a sentinel object: only the function needs to know its meaning.
        return False, None


def _located(detail: ErrorDetails, given: Mapping[str, Any]) -> tuple[str, Sequence[str | int]]:
    """Return the argument that a pydantic error is about, and the steps into it, without pydantic's union tags and
    validator names.
    """
    location = list(detail["loc"])
    here: Any = given
    if location[0] == _EXTRA and len(location) > 1:
        location = location[1:]
        here = given[_EXTRA]
    steps: list[str | int] = []
    for at, step in enumerate(location):
        last = at == len(location) - 1
        if _leads_on(here, step):
            here = here[step]
            steps.append(step)
        elif last and detail["type"] == "missing":
            steps.append(step)
    return str(steps[0] if steps else location[0]), steps[1:]


def _leads_on(here: Any, step: str | int) -> bool:
    if isinstance(here, Mapping):
        return step in here
    return isinstance(here, (list, tuple)) and isinstance(step, int) and step < len(here)


def _expected(message: str) -> str:
    if message.startswith("Input should "):
        return "should " + message.removeprefix("Input should ")
    return "is wrong: " + message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
