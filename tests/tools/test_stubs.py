"""A toolset written as Python for a model."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from actbox import open_sandbox
from actbox.tools import Tool, Toolset, stubs, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Author(BaseModel):
    name: str = Field(description="As printed\non the cover")


class Hit(BaseModel):
    """One book that was found."""

    title: str
    author: Author
    score: float = 0.5
    colour: Colour = Colour.RED


class Node(BaseModel):
    value: int
    children: list[Node] = []
    other: Twig | None = None


class Twig(BaseModel):
    node: Node


@dataclass
class Point:
    x: float
    y: float = 0.0


@tool
def search(
    query: Annotated[str, "What to find"],
    limit: Annotated[int, Field(ge=1, le=99)] = 10,
    order: Literal["asc", "desc"] = "asc",
) -> list[Hit]:
    """Search the shelf.

    Titles only.
    """
    return []


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "stubs", "exec", dont_inherit=True), names)
    return names


def made(name: str, schema: dict[str, Any], description: str = "", output: dict[str, Any] | None = None) -> Tool:
    return Tool.from_schema(name, description, schema, lambda **arguments: None, output_schema=output)


def test_a_stub_has_signature_docstring_and_the_types_above():
    assert (
        stubs(Toolset.of([search]), awaitable=False)
        == '''\
from typing import Literal, NotRequired, TypedDict

class Author(TypedDict):
    name: str  # As printed on the cover

Colour = Literal['red', 'blue']

class Hit(TypedDict):
    """One book that was found."""
    title: str
    author: Author
    score: NotRequired[float]
    colour: NotRequired[Colour]

def search(query: str, limit: int = 10, order: Literal['asc', 'desc'] = 'asc') -> list[Hit]:
    """Search the shelf.

    Titles only.

    query: What to find
    limit: (>= 1, <= 99)
    """
'''
    )


def test_the_text_says_how_tools_are_called():
    toolset = Toolset.of([search])
    assert "async def search(" in stubs(toolset, awaitable=True)
    assert "\ndef search(" in stubs(toolset, awaitable=False)
    assert "await" in stubs(toolset) and "\ndef search(" in stubs(toolset)


def test_no_tools_no_text():
    assert stubs(Toolset.of(None)) == ""


def test_only_some_tools_are_written_under_the_names_that_they_have_in_the_toolset():
    toolset = Toolset([made("read-file", {"type": "object"}), made("read_file", {"type": "object"}), search])
    text = stubs(toolset, only=["read-file"])
    assert "def read_file_2(" in text and "def read_file(" not in text and "search" not in text and "Hit" not in text
    assert stubs(toolset, only=["search"], awaitable=False) == stubs(Toolset.of([search]), awaitable=False)
    assert stubs(toolset, only=[]) == ""


def test_types_that_contain_themselves_or_each_other_are_written():
    def grow(node: Node) -> Node:
        """Grow."""
        return node

    source = stubs(Toolset.of([grow]))
    names = run(source)
    assert names["Node"].__required_keys__ == {"value"}
    assert "children: NotRequired['list[Node]']" in source


def test_a_type_that_two_tools_use_is_written_once():
    def move(a: Point) -> None:
        """Move."""

    def turn(b: list[Point]) -> Point:
        """Turn."""
        return b[0]

    assert stubs(Toolset.of([move, turn])).count("class Point") == 1


def test_two_types_of_one_name_are_told_apart():
    def with_local() -> Tool:
        class Point(BaseModel):
            n: str

        def name(p: Point) -> str:
            """Name."""
            return p.n

        return Tool.from_function(name)

    def move(p: Point) -> None:
        """Move."""

    source = stubs(Toolset.of([move, with_local()]))
    assert "def move(p: Point) -> None" in source and "def name(p: Point_2) -> str" in source
    assert set(run(source)["Point_2"].__annotations__) == {"n"}


def test_a_type_does_not_take_a_tools_name():
    def Hit() -> list[Point]: ...

    def Point_(p: Point) -> None: ...

    source = stubs(Toolset.of([Tool.from_function(Point_, name="Point"), Hit]))
    assert "def Point(p: Point_2)" in source and "class Point_2(TypedDict)" in source


NAMES = ["print", "sum", "Exception", "list", "class", "None", "__builtins__", "__name__", "ToolError", "call_tool"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_type_does_not_take_the_name_of_what_each_program_has(name: str) -> None:
    fields = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    schema = {"type": "object", "properties": {"of": {"$ref": f"#/$defs/{name}"}}, "$defs": {name: fields}}
    tools = Toolset.of([made("find", schema, "Find it.")])
    assert f"of: {name}_" in stubs(tools) and f"class {name}_(TypedDict)" in stubs(tools)
    program = f"print(sum([1, 2]), isinstance(ValueError(), Exception), list(), __name__)\n{name}_(id=1)"
    async with open_sandbox("process", allow_unisolated=True) as box:
        result = await box.run(program, tools=tools)
    assert (result.error, result.stdout, result.value) == (None, "3 True [] __main__\n", {"id": 1})


def test_a_schema_from_elsewhere_gets_a_signature_and_its_objects_get_names():
    schema = {
        "type": "object",
        "properties": {
            "page": {"type": "integer", "default": 1},
            "query": {"type": "string"},
            "where": {"type": "object", "properties": {"room": {"type": "string"}, "in": {"type": "integer"}}},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "mode": {"const": "fast"},
            "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
        "required": ["query"],
    }
    output = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}}
    source = stubs(Toolset.of([made("find-it", schema, "Find it.", output)]))
    assert (
        "def find_it(query: str, page: int = 1, where: FindItWhere = ..., pair: tuple[str, int] = ...,"
        " mode: Literal['fast'] = ..., flags: dict[str, bool] = ...) -> list[FindItResultItem]:"
    ) in source
    assert "FindItWhere = TypedDict(\"FindItWhere\", {'room': NotRequired[str], 'in': NotRequired[int]})" in source
    assert "call_tool('find-it', …)" in source
    run(source)


def test_an_argument_whose_name_is_no_identifier_can_still_be_seen():
    schema = {"type": "object", "properties": {"page-size": {"type": "integer", "description": "Rows"}, "if": {}}}
    source = stubs(Toolset.of([made("list", schema)]))
    assert "def list(**arguments: Any) -> Any:" in source and "'page-size': Rows" in source


HOSTILE = [
    '"""\nimport os\n"""',
    'ends with a quote"',
    '"""',
    'and with four""""',
    'with a bell behind it"\x07',
    'escaped already \\"',
    "back\\slash \\u00zz \\",
    "nul \0 and \x1b[31m",
    "\ud800",
    "'''",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_tool_breaks_out_of_its_place(text: str):
    schema = {
        "type": "object",
        "title": text,
        "properties": {
            "a": {"type": "string", "description": text, "default": text},
            "b": {"enum": [text]},
            "c": {"type": "object", "title": text, "description": text, "properties": {text: {"description": text}}},
            "d": {"type": "object", "properties": {"k": {"description": text, "pattern": text}}},
        },
    }
    names = run(stubs(Toolset.of([made("f", schema, text)])))
    assert callable(names["f"]) and "os" not in names


def test_a_parameter_whose_name_is_no_python_is_said_and_leaves_no_position_to_count_wrong():
    schema = {
        "type": "object",
        "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
        "required": ["from"],
    }
    source = stubs(Toolset.of([made("move", schema)]))
    assert "def move(*, to: str = ..., **arguments: Any) -> Any:" in source
    assert "Also takes 'from' (str), given in a dict: move(**{'from': …})." in source
    run(source)


def test_a_required_argument_after_an_optional_one_is_written_by_name():
    def odd(a: Annotated[int, Field(default=1)], b: int) -> None:
        """Odd."""

    source = stubs(Toolset.of([odd]))
    assert "def odd(a: int = 1, *, b: int) -> None:" in source
    run(source)


def test_an_object_without_properties_has_no_parameters_where_it_lists_none() -> None:
    def source_of(schema: dict[str, Any]) -> str:
        return Tool.from_schema("who", "Say who.", schema, lambda **arguments: None).signature

    assert source_of({"type": "object", "properties": {}}) == "() -> Any"
    assert source_of({"type": "object"}) == "(**arguments: Any) -> Any"


class Sort(enum.Enum):
    SMALL = "small"


class Parcel(BaseModel):
    sent: datetime.datetime
    size: tuple[str, int]
    labels: set[str]
    sort: Sort


def test_types_are_written_as_values_cross():
    def track(day: datetime.date) -> dict[int, Parcel]: ...

    def weigh(parcel: Parcel, /) -> tuple[decimal.Decimal, datetime.timedelta, uuid.UUID]: ...

    def mark(flags: dict[bool, int], spans: dict[tuple[int, int], str]) -> dict[bytes, int]: ...

    source = stubs(Toolset.of([track, weigh, mark]))
    assert source.startswith("import datetime\nimport decimal\nimport uuid\nfrom typing import Literal, TypedDict\n")
    for part in (
        "    sent: datetime.datetime",
        "    size: tuple[str, int]",
        "    labels: set[str]",
        "Sort = Literal['small']",
        "def track(day: datetime.date) -> dict[int, Parcel]:",
        "-> tuple[decimal.Decimal, datetime.timedelta, uuid.UUID]:",
        "def mark(flags: dict[bool, int], spans: dict[tuple, str]) -> dict[bytes, int]:",
    ):
        assert part in source
    names, code = Toolset.of([track, weigh]).type_code()
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert set(names) == {"Parcel", "Sort"}
    assert scope["Parcel"](sent=1) == {"sent": 1}


def test_only_a_program_that_names_a_type_is_given_the_types():
    def track(parcel: Parcel) -> None: ...

    tools = Toolset.of([track])
    assert tools.types_for("track({})") is None
    assert tools.types_for("x: Parcel = {}") is not None
    assert Toolset.of([len]).types_for("Parcel") is None
