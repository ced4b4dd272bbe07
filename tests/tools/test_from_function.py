"""What a tool learns from a host function: name, description, schema, signature."""

from __future__ import annotations

import enum
import functools
import inspect
import itertools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool, Toolset, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Author(BaseModel):
    name: str = Field(description="As printed on the cover")


class Book(BaseModel):
    title: str
    authors: list[Author] = []


@dataclass
class Point:
    x: float
    y: float = 0.0


class Row(TypedDict):
    key: str
    count: int


class Desk:
    def __init__(self, owner: str) -> None:
        self.owner = owner

    def search(self, query: str) -> str:
        """Search this desk."""
        return f"{self.owner}: {query}"

    @tool
    def open(self, drawer: int = 1) -> str:
        """Open a drawer."""
        return f"{self.owner}'s drawer {drawer}"

    @staticmethod
    def count(things: list[str]) -> int:
        return len(things)

    @classmethod
    def built_by(cls, year: int) -> str:
        return f"{cls.__name__} of {year}"

    def __call__(self, text: str) -> str:
        """Write on the desk."""
        return text.upper()


def test_bare_and_with_options_the_decorator_makes_a_tool_that_the_host_still_calls():
    @tool
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    @tool(name="triple", description="Thrice x.", approval="always_require")
    def thrice(x: int) -> int:
        return 3 * x

    assert isinstance(double, Tool) and double(4) == 8 and double(x=4) == 8
    assert (double.name, double.description, double.approval) == ("double", "Twice x.", "never_require")
    assert (thrice.name, thrice.description, thrice.approval) == ("triple", "Thrice x.", "always_require")
    assert thrice(2) == 6


def test_a_tool_looks_to_the_host_like_the_function_that_it_was():
    @tool
    def double(x: int, *, times: int = 1) -> int:
        """Twice x."""
        return 2 * x * times

    assert double.__name__ == "double" and double.__doc__ == "Twice x."
    assert list(inspect.signature(double).parameters) == ["x", "times"]


def test_a_tool_cannot_be_changed():
    made = Tool.from_function(lambda x: x, name="echo")
    with pytest.raises(FrozenInstanceError):
        made.name = "other"


def test_making_a_tool_of_a_tool_starts_from_its_function():
    @tool
    def double(x: int) -> int:
        return 2 * x

    again = Tool.from_function(double, name="twice")
    assert again.name == "twice" and again(3) == 6


def test_a_tool_of_a_tool_requires_the_approval_that_it_required_unless_told():
    @tool(approval="always_require")
    def pay(amount: int, to: str) -> None: ...

    made = (
        Tool.from_function(pay, name="spend"),
        tool(pay),
        tool(name="give")(pay),
        Tool.from_function(functools.partial(functools.partial(pay), to="me")),
        *Toolset.of([functools.partial(pay, to="me")]),
    )
    assert [again.approval for again in made] == ["always_require"] * len(made)
    assert Tool.from_function(pay, approval="never_require").approval == "never_require"


def test_schema_has_types_defaults_and_what_is_required():
    def search(query: str, limit: int = 10, *, exact: bool = False, near: float | None = None) -> list[str]: ...

    made = Tool.from_function(search)
    assert made.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "exact": {"type": "boolean", "default": False},
            "near": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert made.output_schema == {"type": "array", "items": {"type": "string"}}
    assert made.parameters == ("query", "limit")
    assert (
        made.signature
        == "(query: str, limit: int = 10, *, exact: bool = False, near: float | None = None) -> list[str]"
    )


def test_a_parameter_without_annotation_takes_anything_and_without_return_annotation_nothing_is_known():
    made = Tool.from_function(lambda x, y=1: x, name="first")
    assert made.input_schema["properties"] == {"x": {}, "y": {"default": 1}}
    assert made.output_schema is None
    assert made.signature == "(x: Any, y: Any = 1) -> Any"


def test_descriptions_come_from_annotated_before_the_docstring():
    def search(
        query: Annotated[str, Field(description="What to find", min_length=2)],
        limit: Annotated[int, "How many", Field(ge=1)] = 10,
        page: int = Field(default=1, description="Which page", le=99),
        sort: str = "asc",
    ) -> None:
        """Search.

        Args:
            query: not this
            limit: nor this
            page: nor this
            sort: asc or desc
        """

    properties = Tool.from_function(search).input_schema["properties"]
    assert properties["query"] == {"type": "string", "description": "What to find", "minLength": 2}
    assert properties["limit"] == {"type": "integer", "description": "How many", "minimum": 1, "default": 10}
    assert properties["page"] == {"type": "integer", "description": "Which page", "maximum": 99, "default": 1}
    assert properties["sort"]["description"] == "asc or desc"


async def test_a_default_inside_field_is_used_when_the_argument_is_left_out():
    def page(
        number: int = Field(default=7),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
    ) -> list[Any]:
        return [number, tags]

    made = Tool.from_function(page)
    assert "required" not in made.input_schema
    assert await made.call({}) == [7, []]


async def test_an_argument_left_out_keeps_the_functions_own_default_whatever_it_is():
    missing = object()
    made = Tool.from_function(lambda x=missing: x is missing, name="absent")
    assert made.input_schema["properties"] == {"x": {}}
    assert await made.call({}) is True


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Literal["asc", "desc"], {"type": "string", "enum": ["asc", "desc"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"], "title": "Colour"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (bytes, {"type": "string", "format": "binary"}),
    ],
)
def test_types_of_the_standard_library_have_schemas(annotation: Any, schema: dict[str, Any]):
    def use(value):  # annotated below, since the case is a parameter
        return value

    use.__annotations__ = {"value": annotation}
    made = Tool.from_function(use)
    found = made.input_schema["properties"]["value"]
    if "$ref" in found:
        found = made.input_schema["$defs"][found["$ref"].rpartition("/")[2]]
    assert found == schema


async def test_nested_models_dataclasses_typed_dicts_and_enums_reach_the_function_as_such():
    got: list[Any] = []

    def keep(book: Book, at: Point, rows: list[Row], colour: Colour) -> None:
        got.extend([book, at, rows, colour])

    made = Tool.from_function(keep)
    assert set(made.input_schema["$defs"]) == {"Author", "Book", "Colour", "Point", "Row"}
    await made.call(
        {
            "book": {"title": "T", "authors": [{"name": "A"}]},
            "at": {"x": "1.5"},
            "rows": [{"key": "k", "count": 2}],
            "colour": "blue",
        }
    )
    assert got == [
        Book(title="T", authors=[Author(name="A")]),
        Point(1.5),
        [{"key": "k", "count": 2}],
        Colour.BLUE,
    ]


async def test_postponed_annotations_may_name_types_that_are_local_to_the_function_around():
    class Local(BaseModel):
        n: int

    @tool
    def read(value: Local) -> list[Local]:
        return [value]

    def make() -> Tool:  # the definition and the call that makes the tool need not be in one function
        def deeper(value: Local) -> int:
            return value.n

        return Tool.from_function(deeper)

    assert read.signature == "(value: Local) -> list[Local]"
    assert await read.call({"value": {"n": "3"}}) == [{"n": 3}]
    assert await make().call({"value": {"n": 4}}) == 4


def makes_one_with_a_local_type() -> Callable[..., Any]:
    class Ghost(BaseModel):
        n: int

    def read(value: Ghost) -> int:
        return value.n

    return read


def test_a_type_of_the_same_name_elsewhere_does_not_resolve_an_annotation():
    def make() -> Callable[..., Any]:
        class Ghost(BaseModel):
            n: int

        def read(value: Ghost) -> int:
            return value.n

        return read

    class Ghost(BaseModel):
        other: str

    with pytest.raises(InvalidValue, match=r"parameter 'value'.*'Ghost', which cannot be found"):
        Tool.from_function(make())
    with pytest.raises(InvalidValue, match="'Ghost', which cannot be found"):
        Tool.from_function(makes_one_with_a_local_type())


async def test_a_bound_method_has_no_self():
    made = Tool.from_function(Desk("Ada").search)
    assert made.parameters == ("query",) and made.description == "Search this desk."
    assert await made.call({"query": "ink"}) == "Ada: ink"


async def test_a_decorated_method_is_bound_by_taking_it_from_its_object():
    ada, bob = Desk("Ada"), Desk("Bob")
    assert ada.open.parameters == ("drawer",) and ada.open.description == "Open a drawer."
    assert await ada.open.call({"drawer": 2}) == "Ada's drawer 2"
    assert await bob.open.call({}) == "Bob's drawer 1"
    assert ada.open(3) == "Ada's drawer 3"
    assert Desk.open.unbound and not ada.open.unbound


async def test_static_and_class_methods_are_tools():
    assert await Tool.from_function(Desk.count).call({"things": ["a", "b"]}) == 2
    assert await Tool.from_function(Desk.built_by).call({"year": "1900"}) == "Desk of 1900"
    assert await Tool.from_function(Desk.__dict__["count"]).call({"things": []}) == 0


async def test_a_callable_object_is_named_after_its_class():
    made = Tool.from_function(Desk("Ada"))
    assert (made.name, made.description, made.parameters) == ("Desk", "Write on the desk.", ("text",))
    assert await made.call({"text": "x"}) == "X"


async def test_what_a_partial_binds_is_neither_shown_nor_settable():
    def fetch(url: str, *, key: str, depth: int = 1) -> str:
        """Fetch a page."""
        return f"{url} {key} {depth}"

    made = Tool.from_function(functools.partial(functools.partial(fetch, key="s3cret"), depth=2))
    assert made.name == "fetch" and made.description == "Fetch a page."
    assert "s3cret" not in str(made.input_schema) + made.signature + made.documentation
    assert list(made.input_schema["properties"]) == ["url"]
    assert await made.call({"url": "u"}) == "u s3cret 2"
    with pytest.raises(Exception, match="no argument 'key'"):
        await made.call({"url": "u", "key": "mine"})


async def test_a_partial_of_an_async_function_is_async():
    async def fetch(url: str, depth: int) -> str:
        return f"{url} {depth}"

    made = Tool.from_function(functools.partial(fetch, depth=2))
    assert made.is_async and await made.call({"url": "u"}) == "u 2"


async def test_a_wrapping_decorator_keeps_signature_and_documentation():
    def traced(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @traced
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert (add.description, add.signature) == ("Add.", "(a: int, b: int = 2) -> int")
    assert await add.call({"a": "1"}) == 3


async def test_positional_only_parameters_can_be_given_by_name():
    def power(base: int, exponent: int = 2, /, *, plus: int = 0) -> int:
        return base**exponent + plus

    made = Tool.from_function(power)
    assert made.parameters == ("base", "exponent")
    assert await made.call({"base": 3}) == 9
    assert await made.call({"exponent": 3, "base": 2, "plus": 1}) == 9


async def test_keyword_arguments_of_any_name_are_taken_and_typed():
    def tag(name: str, **labels: int) -> dict[str, Any]:
        return {"name": name, **labels}

    made = Tool.from_function(tag)
    assert made.variadic and made.parameters == ("name",)
    assert made.input_schema["additionalProperties"] == {"type": "integer"}
    assert made.signature == "(name: str, **arguments: int) -> dict[str, Any]"
    assert await made.call({"name": "n", "a": "1", "b": 2}) == {"name": "n", "a": 1, "b": 2}
    with pytest.raises(Exception, match="argument 'a' should be a valid integer"):
        await made.call({"name": "n", "a": "one"})


async def test_parameters_may_have_names_that_pydantic_keeps_for_itself():
    def odd(model_config: int, _private: int, schema: int, json: int, copy: int = 5) -> list[int]:
        return [model_config, _private, schema, json, copy]

    made = Tool.from_function(odd)
    assert await made.call({"model_config": 1, "_private": 2, "schema": 3, "json": 4}) == [1, 2, 3, 4, 5]


def unresolvable(value: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 0


def returns_unresolvable(value: int) -> list[Nowhere]:  # type: ignore[name-defined]  # noqa: F821
    return []


def test_an_annotation_that_names_nothing_is_named():
    with pytest.raises(InvalidValue, match=r"'unresolvable'.*parameter 'value'.*'Nowhere', which cannot be found"):
        Tool.from_function(unresolvable)
    with pytest.raises(InvalidValue, match=r"the return annotation.*'Nowhere'"):
        Tool.from_function(returns_unresolvable)


def test_what_no_program_could_call_is_refused():
    def callback(then: Callable[[int], int]) -> None: ...

    def takes(desk: Desk | int) -> None: ...

    def gives(x: int) -> Desk: ...

    for function, sentence in [
        (lambda x: x, "a lambda has no name"),
        (functools.partial(lambda x: x), "a lambda has no name"),
        (
            callback,
            "'callback': the type of parameter 'then' has no JSON form: no argument becomes a function; annotate",
        ),
        (takes, "parameter 'desk' has no JSON form: no argument becomes an instance of Desk; annotate plain data, a"),
        (gives, "the return annotation has no JSON form: an instance of Desk cannot cross; return plain data, a data"),
        (Desk, "made from a function"),
        (7, "made from a function"),
        (Desk.__dict__["built_by"], "not bound to its class"),
    ]:
        with pytest.raises(InvalidValue, match=sentence):
            Tool.from_function(function)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 129, " padded", "nul\0"])
def test_a_name_that_cannot_be_written_down_is_refused(name: str):
    with pytest.raises(InvalidValue, match="tool's name"):
        Tool.from_function(len, name=name)


def test_an_unknown_approval_mode_is_refused():
    with pytest.raises(InvalidValue, match="always_require, never_require, not 'sometimes'"):
        Tool.from_function(lambda: None, name="f", approval="sometimes")


def total(first: int, *numbers: float, scale: float = 1.0) -> list[float]:
    return [first, *numbers, scale]


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ({"first": 1}, [1, 1.0]),
        ({"first": 1, "numbers": [2, "3"], "scale": 2}, [1, 2.0, 3.0, 2.0]),
        ({"first": 1, "numbers": []}, [1, 1.0]),
    ],
)
async def test_further_positional_arguments_are_collected_by_name(arguments: dict[str, Any], passed: list[float]):
    made = Tool.from_function(total)
    assert made.signature == "(first: int, *numbers: float, scale: float = 1.0) -> list[float]"
    assert (made.parameters, made.collects) == (("first",), "numbers")
    assert await made.call(arguments) == passed
    prepared = made.prepare(arguments)
    assert await prepared.make() == passed
    assert prepared.shown()["numbers"] == passed[1:-1]


async def test_a_further_positional_argument_that_does_not_fit_is_named():
    with pytest.raises(ToolError, match=r"argument 'numbers' at \[1\] should be a valid number"):
        await Tool.from_function(total).call({"first": 1, "numbers": [1, "x"]})


async def test_parameters_before_the_further_ones_are_filled_with_their_defaults():
    def gather(a: int, b: int = 7, *rest: str, **more: int) -> Any:
        return [a, b, list(rest), more]

    made = Tool.from_function(gather)
    assert await made.call({"a": 1, "rest": ["x"], "k": 2}) == [1, 7, ["x"], {"k": 2}]
    assert await made.call({"a": 1, "b": 2}) == [1, 2, [], {}]


async def test_what_is_given_one_by_one_is_collected_into_a_list():
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    async def count_async(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    async def iterator(n: int) -> Any:
        return iter(range(n))

    for function in (count, count_async, iterator):
        assert await Tool.from_function(function).call({"n": 3}) == [0, 1, 2]
    for function in (count, count_async):
        made = Tool.from_function(function)
        assert made.output_schema == {"type": "array", "items": {"type": "integer"}}
        with pytest.raises(ToolError, match=f"tool {made.name!r} yielded more than 100,000 items"):
            await made.call({"n": 10**12})


ITERATED: list[tuple[Any, Callable[[], Any], list[Any], str]] = [
    (map, lambda: map(abs, [1, -2]), [1, 2], "list[Any]"),
    (filter, lambda: filter(None, [0, 1]), [1], "list[Any]"),
    (range, lambda: range(2), [0, 1], "list[int]"),
    (None, lambda: range(2), [0, 1], "Any"),
    (enumerate, lambda: enumerate("a"), [(0, "a")], "list[tuple[int, Any]]"),
    (itertools.chain[int], lambda: itertools.chain([1], [2]), [1, 2], "list[int]"),
    (range | None, lambda: range(1), [0], "list[int] | None"),
    (Annotated[map, "numbers"], lambda: map(abs, [1]), [1], "list[Any]"),
]


@pytest.mark.parametrize(("annotation", "result", "items", "written"), ITERATED, ids=[str(row[0]) for row in ITERATED])
async def test_a_class_of_iterators_is_a_list_for_programs(
    annotation: Any, result: Callable[[], Any], items: list[Any], written: str
):
    def give(): return result()  # fmt: skip

    give.__annotations__ = {} if annotation is None else {"return": annotation}
    made = Tool.from_function(give)
    assert await made.call({}) == items
    assert made.signature == f"() -> {written}"


async def test_an_endless_iterator_is_refused_whatever_its_annotation():
    def give() -> itertools.count:  # type: ignore[type-arg]
        return itertools.count()

    with pytest.raises(ToolError, match="yielded more than 100,000 items"):
        await Tool.from_function(give).call({})


async def test_an_iterator_that_fails_halfway_is_a_failed_call():
    def count() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    with pytest.raises(ToolError, match="ValueError: no more") as caught:
        await Tool.from_function(count).call({})
    assert caught.value.builtin == "ValueError"


async def test_built_in_functions_are_tools_or_refused_in_a_sentence_of_ours():
    for function, arguments, value in [
        (math.sqrt, {"x": 4}, 2.0),
        (len, {"obj": [1]}, 1),
        (sorted, {"iterable": [2, 1], "reverse": True}, [2, 1]),
        (divmod, {"x": 7, "y": 2}, (3, 1)),
    ]:
        assert await Tool.from_function(function).call(arguments) == value
    with pytest.raises(InvalidValue, match="tool 'max' has no readable signature; wrap it in a function"):
        Tool.from_function(max)
