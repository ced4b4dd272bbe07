"""A toolset written as TypeScript."""

from __future__ import annotations

import datetime
import enum
import re
import subprocess
import uuid
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import actbox
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.engines.node.binary import Node, find_node
from actbox.tools import Tool, Toolset, tool, typescript_declarations


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Hit(BaseModel):
    """One page that was found."""

    url: str = Field(description="where it\nlies")
    score: float | None = None
    parts: list[Hit] = []
    colour: Colour = Colour.RED


def search(
    query: str,
    limit: int = 10,
    mode: Literal["all", "any"] = "all",
    *,
    span: tuple[int, str] = (1, "x"),
    counts: dict[str, list[int]] | None = None,
) -> list[Hit]:
    """Search the pages.

    Both words and phrases.
    """
    return []


def written(*tools: Any, **given: Any) -> str:
    return typescript_declarations(Toolset.of(list(tools)), **given)


@pytest.fixture(scope="module")
def node() -> Node:
    try:
        found = find_node()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    if not found.strips_types:
        pytest.skip(f"Node {found.version_text} reads no TypeScript")
    return found


def assert_is_typescript_without_code(node: Node, text: str) -> None:
    """Have Node parse it: declarations are types, of which nothing is left but comments."""
    code = (
        "const text = require('fs').readFileSync(0, 'utf8');"
        "const left = require('module').stripTypeScriptTypes(text).replace(/\\/\\*[^]*?\\*\\//g, '');"
        "process.stdout.write(left.trim().replace(/[;\\s]+/g, ''))"
    )
    command = [node.path, "--no-warnings", "-e", code]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b""), (done.stderr.decode(), done.stdout, text)


@pytest.mark.slow
def test_a_toolset_is_written_with_its_types_and_documentation(node: Node) -> None:
    text = written(search)
    assert text == (
        "/** One page that was found. */\n"
        "interface Hit {\n"
        "  /** where it lies */ url: string;\n"
        "  score?: number | null;\n"
        "  parts?: Array<Hit>;\n"
        "  colour?: Colour;\n"
        "}\n\n"
        'type Colour = "red" | "blue";\n\n'
        "/**\n * Search the pages.\n *\n * Both words and phrases.\n *\n"
        " * span: (at least 2 items, at most 2 items)\n */\n"
        'declare function search(args: { query: string; limit?: number; mode?: "all" | "any"; span?: [number, string];'
        " counts?: Record<string, Array<number>> | null }): Promise<Array<Hit>>;\n"
    )
    assert_is_typescript_without_code(node, text)


def test_bytes_anything_and_nothing(node: Node) -> None:
    def turn(data: bytes, **more: int) -> bytes:
        return data

    def ping() -> None: ...

    def anything(value: Any) -> Any: ...

    text = written(turn, ping, anything)
    assert "declare function turn(args: { data: Uint8Array; [name: string]: any }): Promise<Uint8Array>;" in text
    assert "declare function ping(): Promise<null>;" in text
    assert "declare function anything(args: { value: any }): Promise<any>;" in text
    assert_is_typescript_without_code(node, text)


def test_arguments_that_may_all_be_left_out_are_optional_together() -> None:
    def page(number: int = 1) -> str:
        return ""

    assert "declare function page(args?: { number?: number }): Promise<string>;" in written(page)


@pytest.mark.slow
def test_names_that_are_none_in_javascript(node: Node) -> None:
    @tool(name="delete")
    def remove(path: str) -> None: ...

    @tool(name="get-page")
    def get_page(url: str) -> None: ...

    text = written(remove, get_page)
    assert '/** call_tool("delete", …) calls it too. */\ndeclare function delete_(' in text
    assert "declare function get_page(" in text
    assert_is_typescript_without_code(node, text)


@pytest.mark.slow
def test_one_definition_is_shared_and_two_of_one_name_are_told_apart(node: Node) -> None:
    other = {"type": "object", "properties": {"hit": {"$ref": "#/$defs/Hit"}}, "required": ["hit"]}
    other["$defs"] = {"Hit": {"type": "object", "properties": {"other": {"type": "string"}}}}
    made = Tool.from_schema("take", "", other, lambda **given: None)

    def keep(hit: Hit) -> None: ...

    text = written(search, keep, made)
    assert text.count("interface Hit {") == 1 and "interface Hit_2 {" in text
    assert "keep(args: { hit: Hit })" in text and "take(args: { hit: Hit_2" in text
    assert_is_typescript_without_code(node, text)


SCHEMAS: list[dict[str, Any]] = [
    {"type": ["string", "null"]},
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
    {"allOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
    {"enum": ["a", 1, None, True, {"x": 1}]},
    {"const": 'quo"te\n'},
    {"type": "object", "properties": {"a-b": {"type": "string"}, "1": {}, "": {}, "class": {"type": "null"}}},
    {"$ref": "#/nowhere"},
    {"type": "object", "title": "a title */ with; signs", "properties": {"x": {"type": "string", "format": "binary"}}},
    {"type": "array", "prefixItems": []},
    {"not": {}},
]


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(
    "doc",
    [
        pytest.param("plain", marks=pytest.mark.long),  # the others are harder
        "*/ process.exit() /*",
        pytest.param("// x\n*/\n\\u002a/", marks=pytest.mark.long),
        "\u2028*/\0`${1}`\ud800",
        "**//*/",
    ],
)
def test_whatever_schemas_and_descriptions_say_it_stays_a_declaration(
    node: Node, schema: dict[str, Any], doc: str
) -> None:
    described = {**schema, "description": doc}
    taken = {"type": "object", "properties": {"value": described, "we ird": schema}, "required": ["value"]}
    made = Tool.from_schema("take", doc, taken, lambda **given: None)
    assert_is_typescript_without_code(node, written(made))


def test_tools_are_left_out_on_request_and_none_is_no_text() -> None:
    def other() -> None: ...

    assert "search" not in written(search, other, only={"other"})
    assert written() == "" == written(search, only=())


def test_types_that_json_lacks_are_those_of_javascript(node: Node) -> None:
    def plan(on: datetime.datetime, days: set[int], by: dict[int, str]) -> dict[uuid.UUID, datetime.timedelta]:
        """Plan."""
        return {}

    text = written(plan)
    assert_is_typescript_without_code(node, text)
    assert "args: { on: Date; days: Set<number>; by: Map<number, string> | Record<string, never> })" in text
    assert "): Promise<Map<string, number> | Record<string, never>>;" in text


# The type of a value, as a declaration would have it.
SHOWN = """
const shown = (value) => {
  if (Array.isArray(value)) return "Array<any>";
  if (typeof value !== "object") return typeof value;
  if (value instanceof Set) return "Set<any>";
  if (value instanceof Map) return `Map<${[...value].map((pair) => pair.map(shown).join(", "))[0]}>`;
  if (value.constructor !== Object) return value.constructor.name;
  return `Record<string, ${Object.values(value).map(shown)[0] ?? "never"}>`;
};
shown(await give())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mapping", "value"),
    [
        (dict[str, int], {"a": 1}),
        (dict[uuid.UUID, int], {uuid.UUID(int=5): 1}),
        (dict[datetime.date, int], {datetime.date(2026, 1, 1): 1}),
        (dict[datetime.datetime, int], {datetime.datetime(2026, 1, 1): 1}),
        (dict[datetime.timedelta, int], {datetime.timedelta(1): 1}),
        (dict[int, int], {1: 1}),
        (dict[int, int], {}),
        (dict[float, bool], {0.5: True}),
        (dict[bool, int], {True: 1}),
        (dict[bytes, int], {b"x": 1}),
        (dict[tuple[int, int], str], {(1, 2): "a"}),
        (dict[frozenset[int], int], {frozenset([1]): 1}),
    ],
)
async def test_mappings_arrive_as_they_are_declared(node: Node, mapping: Any, value: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = mapping
    (declared,) = re.findall(r"Promise<(.*)>;", written(give))
    async with actbox.open_sandbox("node") as box:
        result = await box.run(SHOWN, tools=[give])
    assert result.error is None and result.value in declared.split(" | "), (result, declared)
