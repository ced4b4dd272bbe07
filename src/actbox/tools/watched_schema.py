"""Schemas of pydantic for large arguments: few errors, and no long call of C code.

pydantic collects an error for each wrong entry of a list or an object, and holds the interpreter while it validates a
value: a million wrong entries took many seconds, in which no event loop of the process ran. In a watched schema each
list and object stops at its first wrong entry, and a Python function is called between two entries, where the thread
can switch to the event loop. The same data is accepted, with the same result, with two exceptions. The number and hash
collisions of non-text members of sets, and of such keys, are limited as in `actbox.core.values`. If a type contains
itself, so that unions are tried exponentially often, a check has a `StepBudget`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticCustomError, SchemaValidator, ValidationError
from pydantic_core import core_schema as cs

from actbox.core.values import Comparisons, Members

from .step_budget import StepBudget, TooManySteps
from .threads import is_dropped

# An object that forbids extra fields has an error for each extra one.
_MOST_UNKNOWN = 1_000
# Keys of a schema node whose values are not schemas.
_NO_SCHEMAS = frozenset({"metadata", "serialization", "config", "default", "expected", "members"})
_FIELDS = frozenset({"model-fields", "typed-dict", "dataclass-args"})
_SETS = frozenset({"set", "frozenset"})
_CALLS = frozenset({"named-tuple", "arguments", "arguments-v3"})

_Validate = Callable[[Any], Any]
_Wrap = Callable[[Any, _Validate], Any]
# An equal member is compared once more, which costs little unless many members have its hash.
_FEW_SAME = 8
# Steps for a recursive type: some 0.1 s, the longest that a small call may hold the event loop.
_STEPS = 5_000
# State of the check in each thread: its `budget` and `comparisons`, and the `members` of the set being built.
_check = threading.local()


def watched(schema: Mapping[str, Any]) -> _Validate:
    """Return a validator for a pydantic core schema, changed as this module says, and the models in it.

    It raises `TooManySteps` besides what pydantic raises.
    """
    validator = SchemaValidator(_watched(schema), _use_prebuilt=False)  # else pydantic uses a model's own
    recursive = contains_itself(schema)

    def validate(value: Any) -> Any:
        outer = getattr(_check, "budget", None), getattr(_check, "comparisons", None)
        _check.budget, _check.comparisons = StepBudget(value, _STEPS) if recursive else None, Comparisons()
        try:
            return validator.validate_python(value)
        finally:
            _check.budget, _check.comparisons = outer

    return validate


def contains_itself(schema: Any) -> bool:
    """Return True if a type in a pydantic core schema refers to itself, directly or through others."""
    return any(node.get("type") == "definitions" and _is_circular(node["definitions"]) for node in nodes(schema))


def nodes(schema: Any) -> Iterator[dict[Any, Any]]:
    """Yield each part of a pydantic core schema that is an object, without following references to definitions."""
    parts: list[Any] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            yield part
            is_node = isinstance(part.get("type"), str)  # other dicts map names to fields or choices
            parts += [value for key, value in part.items() if not is_node or key not in _NO_SCHEMAS]
        elif isinstance(part, (list, tuple)):
            parts += part


def _is_circular(definitions: list[Any]) -> bool:
    uses = {each["ref"]: set(_references(each)) for each in definitions}
    while leaves := [name for name, used in uses.items() if not used & uses.keys()]:
        for name in leaves:
            del uses[name]
    return bool(uses)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if part.get("type") == "definition-ref":
            yield part["schema_ref"]
        for key, value in part.items():
            if key not in _NO_SCHEMAS:
                yield from _references(value)
    elif isinstance(part, (list, tuple)):
        for value in part:
            yield from _references(value)


class _Stop(Exception):
    """The signal that an extra field was wrong; not a `ValueError`, which pydantic would collect."""

    def __init__(self, error: ValidationError) -> None:
        super().__init__()
        self.error = error


def _watched(part: Any, forbids: bool = False) -> Any:
    """Return a changed copy of a schema or a part of one; `forbids` is True if its model forbids extra fields."""
    if isinstance(part, (list, tuple)):
        return type(part)(_watched(inner, forbids) for inner in part)
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if not isinstance(kind, str):  # a dict of fields or choices by name
        return {name: _watched(inner, forbids) for name, inner in part.items()}
    extra = part.get("extra_behavior") or part.get("config", {}).get("extra_fields_behavior")
    forbids = forbids if extra is None else extra == "forbid"
    node = {key: value if key in _NO_SCHEMAS else _watched(value, forbids) for key, value in part.items()}
    if kind in _CALLS or (kind in _FIELDS and forbids):
        return _wrapped(_at_most(len(node.get("fields", ())) + _MOST_UNKNOWN), node)
    if "extras_schema" in node:
        node["extras_schema"] = cs.no_info_wrap_validator_function(_stop, node["extras_schema"])
        return _wrapped(_until_stopped, node)
    if "values_schema" in node or "keys_schema" in node:
        return _one_by_one(node)
    if kind == "definitions":  # a type may contain itself without a list between
        node["definitions"] = [
            cs.no_info_before_validator_function(_tick, each, ref=each.pop("ref")) for each in node["definitions"]
        ]
    if kind in _SETS:
        node["items_schema"] = _counted(_ticking(node.get("items_schema", {"type": "any"})))
        node["fail_fast"] = True
        return _wrapped(_with_members, node)
    if "items_schema" in node and kind != "generator":  # a generator is read later, and stops at an error by itself
        items = node["items_schema"]
        node["items_schema"] = [_ticking(item) for item in items] if isinstance(items, list) else _ticking(items)
        node["fail_fast"] = True
    return node


def _wrapped(function: _Wrap, node: Any) -> Any:
    """Return a schema node with a validator function around it, under the same reference name."""
    return cs.no_info_wrap_validator_function(function, node, ref=node.pop("ref", None))


def _ticking(schema: Any) -> Any:
    return schema if schema["type"] == "any" else cs.no_info_before_validator_function(_tick, schema)


def _tick(value: Any) -> Any:
    """Return a value unchanged, and spend a step. The interpreter may switch threads wherever a Python function
    begins.
    """
    if is_dropped():
        raise TooManySteps
    if _check.budget is not None:
        _check.budget.spend()
    return value


class _Members:
    """A counter of the distinct non-text members of a set, or keys of a mapping."""

    def __init__(self) -> None:
        self._members = Members(_check.comparisons)

    def add(self, member: Any) -> Any:
        """Return a member. Raises pydantic's error for too many members, and for too costly ones with equal hashes."""
        if type(member) is str or type(member) is bytes:
            return member
        try:
            same = self._members.like(member)
            if member not in same:
                self._members.add(member)
            elif len(same) > _FEW_SAME:
                self._members.charge(member)
        except TypeError:  # raised for an unhashable member: pydantic reports it
            return member
        except ValueError as error:
            why = "Input should have fewer members or keys: it {why}"
            raise PydanticCustomError("members", why, {"why": str(error)}) from None
        return member


def _counted(schema: Any) -> Any:
    return cs.no_info_after_validator_function(lambda member: _check.members.add(member), schema)


def _with_members(value: Any, validate: _Validate) -> Any:
    outer = getattr(_check, "members", None)
    _check.members = _Members()
    try:
        return validate(value)
    finally:
        _check.members = outer


def _stop(value: Any, validate: _Validate) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        raise _Stop(error) from None


def _until_stopped(value: Any, validate: _Validate) -> Any:
    try:
        return validate(value)
    except _Stop as stop:
        raise stop.error from None


def _at_most(entries: int) -> _Wrap:
    """Return a check that refuses an object with too many fields before pydantic makes an error for each of them."""

    def check(value: Any, validate: _Validate) -> Any:
        if isinstance(value, (dict, list, tuple)) and len(value) > entries:
            raise PydanticCustomError("too_many_fields", "Input should have fewer fields")
        return validate(value)

    return check


def _one_by_one(node: Any) -> Any:
    """Return the schema of a mapping whose entries are checked one after the other, and their number at the end."""
    lengths = {key: node.pop(key) for key in ("min_length", "max_length") if key in node}

    def check(value: Any, validate: _Validate) -> Any:
        if type(value) is not dict:
            return validate(value)
        whole = validate({})
        keys = _Members()
        for key, item in value.items():
            _tick(key)
            for name, checked in validate({key: item}).items():
                whole[keys.add(name)] = checked
        return whole

    ref = node.pop("ref", None)
    steps: list[Any] = [cs.no_info_wrap_validator_function(check, node)]
    if lengths:
        steps.append({"type": node["type"]} | lengths)
    return cs.chain_schema(steps, ref=ref)
