"""What a tool takes: a JSON schema from a signature, and arguments checked against it before the function is called."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actbox.core.errors import InvalidValue, ToolError

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Arguments(Protocol):
    """Checks a call's arguments and turns them into what the function takes."""

    schema: dict[str, Any]
    names: tuple[str, ...]
    """The parameters that positional arguments bind to, in order."""
    variadic: bool
    """Whether names beyond the schema's are taken too."""

    def bind(self, tool: str, given: Mapping[str, Any]) -> Call:
        """Return positional and keyword arguments. Raises `ToolError` with a sentence for each thing that is wrong."""
        ...


class SignatureArguments:
    """Arguments as a function's signature declares them: pydantic checks and converts."""

    def __init__(self, name: str, signature: inspect.Signature, descriptions: Mapping[str, str]) -> None:
        """Raise `InvalidValue` for a signature that arguments by name cannot meet."""
        # Pydantic costs some 70 ms to import, which `import actbox` should not pay: hence here, and not above.
        from pydantic import BaseModel, ConfigDict, Field, create_model
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
        from pydantic.json_schema import GenerateJsonSchema

        class Schema(GenerateJsonSchema):
            # A default that JSON cannot say is left out of the schema; the function still has it.
            ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 (pydantic's own way)

            def field_title_should_be_set(self, schema: Any) -> bool:
                return False  # a title says nothing that the name does not, and costs a model tokens

        self._parameters: list[tuple[str, str, bool]] = []
        self.variadic = False
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(signature.parameters.values()):
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise InvalidValue(f"tool {name}: *{parameter.name} cannot be called by name; take a list instead")
            if parameter.kind is parameter.VAR_KEYWORD:
                self.variadic = True
                continue
            annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
            default = ... if parameter.default is parameter.empty else parameter.default
            # Fields get names of our own, since a parameter may have one that pydantic keeps for itself.
            about = _said_in(annotation) or descriptions.get(parameter.name)
            more: dict[str, Any] = {"description": about} if about else {}
            fields[f"field_{number}"] = (annotation, Field(default, alias=parameter.name, **more))
            self._parameters.append((f"field_{number}", parameter.name, parameter.kind is parameter.POSITIONAL_ONLY))
        self.names = tuple(
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        )
        config = ConfigDict(extra="allow" if self.variadic else "forbid", arbitrary_types_allowed=False)
        try:
            self._model: type[BaseModel] = create_model(name, __config__=config, **fields)
            self.schema = self._model.model_json_schema(by_alias=True, schema_generator=Schema)
        except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidValue(f"tool {name}: its parameters cannot be described as JSON: {reason}") from error
        for key in ("title", "description"):
            self.schema.pop(key, None)
        self.schema.setdefault("properties", {})

    def bind(self, tool: str, given: Mapping[str, Any]) -> Call:
        """See `Arguments.bind`."""
        from pydantic import ValidationError

        try:
            values = self._model.model_validate(given)
        except ValidationError as error:
            names = [name for _, name, _ in self._parameters]
            raise ToolError("; ".join(_sentence(item, names) for item in error.errors()), tool=tool) from None
        present = values.model_fields_set
        positional: list[Any] = []
        named: dict[str, Any] = dict(values.model_extra or {})
        for field, name, positional_only in self._parameters:
            if positional_only:
                positional.append(getattr(values, field))
            elif field in present:  # an absent one keeps the function's own default, whatever it is
                named[name] = getattr(values, field)
        return tuple(positional), named


def _said_in(annotation: Any) -> str | None:
    """Return the text in `Annotated[int, "text"]` or `Annotated[int, Field(description="text")]`."""
    for item in getattr(annotation, "__metadata__", ()):
        text = item if isinstance(item, str) else getattr(item, "description", None)
        if isinstance(text, str):
            return text
    return None


def _sentence(error: Any, names: list[str]) -> str:
    name = ".".join(str(part) for part in error["loc"]) or "arguments"
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return f"argument {name!r} is missing"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return unknown_argument(name, names)
    given = _shortly(error.get("input"))
    return f"argument {name!r}: {error['msg'][0].lower()}{error['msg'][1:]}, not {given}"


def unknown_argument(name: str, names: list[str]) -> str:
    """Return the sentence for an argument that a tool does not take."""
    close = difflib.get_close_matches(name, names, 1)
    meant = f"; did you mean {close[0]!r}?" if close else f"; it takes {', '.join(names) or 'none'}"
    return f"there is no argument {name!r}{meant}"


def _shortly(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "…"


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


class SchemaArguments:
    """Arguments as a JSON schema from elsewhere declares them.

    Names, required ones, and the JSON type and `enum` of each are checked here; what a schema says beyond that is left
    to whoever gave it, who has to check it anyway.
    """

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        """Raise `InvalidValue` for a schema that is not one of an object."""
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), Mapping):
            raise InvalidValue(f"tool {name}: its input schema must describe an object with properties")
        self.schema = {"type": "object", "properties": {}, **schema}
        self.names = tuple(self.schema["properties"])
        self.variadic = self.schema.get("additionalProperties", False) not in (False, None)

    def bind(self, tool: str, given: Mapping[str, Any]) -> Call:
        """See `Arguments.bind`."""
        wrong = [f"argument {name!r} is missing" for name in self.schema.get("required", ()) if name not in given]
        for name, value in given.items():
            if name not in self.names:
                if not self.variadic:
                    wrong.append(unknown_argument(name, list(self.names)))
                continue
            declared = self.schema["properties"][name]
            declared = declared if isinstance(declared, Mapping) else {}
            types = declared.get("type", [])
            types = [types] if isinstance(types, str) else types
            if types and not any(_TYPES.get(kind, lambda _: True)(value) for kind in types):
                wrong.append(f"argument {name!r}: should be {' or '.join(types)}, not {_shortly(value)}")
            elif "enum" in declared and value not in declared["enum"]:
                wrong.append(f"argument {name!r}: should be one of {declared['enum']}, not {_shortly(value)}")
        if wrong:
            raise ToolError("; ".join(wrong), tool=tool)
        return (), dict(given)
