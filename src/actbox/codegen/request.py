"""The request to a coding agent as a model, in both shapes of the specification: flat (4.2) and nested (7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, NonNegativeInt, PositiveInt, ValidationError

from actbox.core.errors import InvalidValue

MOST_GOAL_CHARS: Final = 100_000
"""The most characters of a task's text."""
_MOST_LISTED: Final = 1_000

_Given = TypeVar("_Given")


class _Strict(BaseModel):
    """A part of a request; fields that the protocol does not have are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class InputFileForm(_Strict):
    """An input file as a request names it, without its content."""

    name: str = Field(min_length=1)
    schema_: str = Field(default="", alias="schema")
    """The file's columns in words, such as `region,amount,date`."""


class ConstraintsForm(_Strict):
    """The bounds on a program."""

    language: str | None = None
    dependencies_allowed: bool = True
    max_lines: PositiveInt | None = None
    max_dependencies: NonNegativeInt | None = None
    timeout_ms: PositiveInt | None = None


class ExampleForm(_Strict):
    """An input and the output that a program must have for it."""

    input: JsonValue
    expected_output: JsonValue


class ContextForm(_Strict):
    """The circumstances of a task, in the nested shape."""

    input_files: tuple[InputFileForm, ...] = Field(default=(), max_length=_MOST_LISTED)
    output_requirements: tuple[str, ...] = Field(default=(), max_length=_MOST_LISTED)
    constraints: ConstraintsForm = ConstraintsForm()
    background: str = ""
    """Further words on the task. The specification has no such field."""


class CodingRequest(_Strict):
    """A request to a coding agent. The two shapes may be mixed, as long as they do not contradict each other.

    flat: `{"task", "inputs": ["sales.csv"], "outputs": ["chart.png"], "language", "constraints"}`.
    nested: `{"task", "context": {"input_files", "output_requirements", "constraints"}, "examples"}`.
    """

    task: str = Field(min_length=1, max_length=MOST_GOAL_CHARS)
    language: str | None = None
    inputs: tuple[str, ...] = Field(default=(), max_length=_MOST_LISTED)
    outputs: tuple[str, ...] = Field(default=(), max_length=_MOST_LISTED)
    constraints: ConstraintsForm = ConstraintsForm()
    context: ContextForm = ContextForm()
    examples: tuple[ExampleForm, ...] = Field(default=(), max_length=_MOST_LISTED)
    profile: str = ""
    """The name of the profile of the model that is to write the code, "" for the one of the language."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the request that a mapping is. Raises `InvalidValue` naming the field that is wrong."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "it"
            raise InvalidValue(f"the request is invalid: {place}: {first['msg']}") from None

    @property
    def chosen_language(self) -> str:
        """The language, from whichever place names it; "" if none does. Raises `InvalidValue` if places differ."""
        return self._one("language", self.language, self.constraints.language, self.context.constraints.language) or ""

    @property
    def joined_constraints(self) -> ConstraintsForm:
        """The constraints of both shapes. Raises `InvalidValue` if they contradict each other."""
        flat, nested = self.constraints, self.context.constraints
        return ConstraintsForm(
            language=self.chosen_language or None,
            dependencies_allowed=flat.dependencies_allowed and nested.dependencies_allowed,
            max_lines=self._one("max_lines", flat.max_lines, nested.max_lines),
            max_dependencies=self._one("max_dependencies", flat.max_dependencies, nested.max_dependencies),
            timeout_ms=self._one("timeout_ms", flat.timeout_ms, nested.timeout_ms),
        )

    @property
    def files(self) -> dict[str, str]:
        """The schema of each input file as the request states it, "" where it states none."""
        return {**dict.fromkeys(self.inputs, ""), **{one.name: one.schema_ for one in self.context.input_files}}

    def flat(self) -> dict[str, Any]:
        """Return the request in the flat shape. File schemas, requirements and examples have no place in it."""
        constraints = self.joined_constraints.model_dump(exclude_defaults=True, exclude={"language"})
        return _without_empty(
            {
                "task": self.task,
                "inputs": list(self.files),
                "outputs": list(self.outputs),
                "language": self.chosen_language,
                "constraints": constraints,
            }
        )

    def nested(self) -> dict[str, Any]:
        """Return the request in the nested shape. Output files become requirements."""
        written = [f"the file {name}" for name in self.outputs]
        context = _without_empty(
            {
                "input_files": [_without_empty({"name": name, "schema": text}) for name, text in self.files.items()],
                "output_requirements": [*written, *self.context.output_requirements],
                "constraints": self.joined_constraints.model_dump(exclude_defaults=True),
                "background": self.context.background,
            }
        )
        examples = [one.model_dump() for one in self.examples]
        return _without_empty({"task": self.task, "context": context, "examples": examples})

    def _one(self, name: str, *given: _Given | None) -> _Given | None:
        """Return the one value that is given, `None` for none. Raises `InvalidValue` for several."""
        found = list(dict.fromkeys(one for one in given if one is not None))
        if len(found) > 1:
            raise InvalidValue(f"the request says {name} twice: {' and '.join(map(repr, found))}; give it once")
        return found[0] if found else None


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", [], {})}
