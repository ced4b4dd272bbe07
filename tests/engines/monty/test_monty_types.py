"""The check of types before a program begins."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from typing_extensions import TypedDict

import actbox
from actbox import AllowedDomain, ErrorKind, Policy, Program, Sandbox
from actbox.sandbox.egress.upstream import Upstream
from actbox.sandbox.engines.monty.declarations import awaits
from tests.sandbox.egress.conftest import Net, net, no_proxy_of_this_machine, public_authority  # noqa: F401


class Row(TypedDict):
    name: str
    price: float


def rows(most: int = 3) -> list[Row]:
    """Return rows."""
    return [{"name": "a", "price": 1.5}][:most]


async def later(text: str) -> str:
    """Return a text, later."""
    return text


@pytest_asyncio.fixture
async def checked() -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("monty", type_check=True) as opened:
        yield opened


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("open('output/a', 'w')\nrows('x')", 2, "`rows`"),
        ("open('output/a', 'w')\nfor row in rows():\n    row['prise']", 3, "prise"),
        ("open('output/a', 'w')\nx: int = 'a'", 2, "not assignable"),
        ("open('output/a', 'w')\n(await later('a')).foo()", 2, "foo"),
        ("open('output/a', 'w')\nundefined", 2, "undefined"),
        ("open('output/a', 'w')\nnumber.upper()", 2, "upper"),
        ("open('output/a', 'w')\nextra(1)", 2, "extra"),
    ],
)
async def test_a_finding_ends_a_program_before_it_has_done_anything(code: str, line: int, said: str) -> None:
    stubs = "def extra(text: str) -> str: ..."
    async with actbox.open_sandbox("monty", type_check=True, type_check_stubs=stubs) as box:
        result = await box.run(Program(code, inputs={"number": 1}), tools=[rows, later])
    assert result.error is not None
    assert (result.error.kind, result.error.line) == (ErrorKind.TYPE, line), result.error
    assert said in result.error.message and f"line {line}" in result.error.message
    assert result.artifacts == ()


async def test_several_findings_are_all_told(checked: Sandbox) -> None:
    error = (await checked.run("x: int = 'a'\ny: str = 1")).error
    assert error is not None and "line 1" in error.message and "line 2" in error.message


async def test_what_is_no_program_is_a_syntax_error(checked: Sandbox) -> None:
    error = (await checked.run("x = 1\ny = = 2")).error
    assert error is not None and (error.kind, error.line) == (ErrorKind.SYNTAX, 2)


@pytest.mark.parametrize(
    "code",
    [
        "sum([row['price'] for row in rows(most=1)])",
        "[row['price'] for row in await rows()][0]",
        "try:\n    rows()\nexcept ToolError as error:\n    print(error)\n1.5",
        "open('output/a', 'w').write('x')\nlist(map(str, filter(bool, [1])))\nhasattr('a', 'b')\n1.5",
        "call_tool('rows', most=1)[0]['price']",
        "price",
    ],
)
async def test_a_good_program_passes(checked: Sandbox, code: str) -> None:
    result = await checked.run(Program(code, inputs={"price": 1.5}), tools=[rows])
    assert result.success, result.error
    assert result.value == 1.5


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"type_check": 1}, {"type_check_stubs": None}, {"heap": "1"}):
        with pytest.raises(actbox.InvalidValue):
            actbox.open_sandbox("monty", **options)
    with pytest.raises(actbox.InvalidValue, match="give type_check=True as well"):
        actbox.open_sandbox("monty", type_check_stubs="x: int")
    with pytest.raises(actbox.InvalidValue, match="no Python: line 2"):
        actbox.open_sandbox("monty", type_check=True, type_check_stubs="x: int\ndef (")


@pytest.mark.parametrize(
    ("stubs", "said"),
    [
        ("x: int\ndef f(a: Nope) -> int: ...", "line 2: Name `Nope`"),
        ("import numpy as np\nx: np.ndarray", "line 1: .*`numpy`"),
    ],
)
async def test_stubs_that_name_what_the_check_does_not_know_are_refused(stubs: str, said: str) -> None:
    with pytest.raises(actbox.InvalidValue, match=said):
        await actbox.open_sandbox("monty", type_check=True, type_check_stubs=stubs).start()


async def test_stubs_are_declarations_without_bodies() -> None:
    stubs = "from typing import Protocol\nclass P(Protocol):\n    def n(self) -> int: ...\nrow: P\nfailed: ToolError"
    async with actbox.open_sandbox("monty", type_check=True, type_check_stubs=stubs) as box:
        error = (await box.run("row.m()")).error
        assert error is not None and "`P`" in error.message, error


async def test_the_check_knows_every_builtin_name_that_the_interpreter_has(checked: Sandbox) -> None:
    names = [name for name in dir(builtins) if name.isidentifier() and not name.startswith("_") and name != "None"]
    trial = "".join(f"try:\n    {name}\n    found.append('{name}')\nexcept NameError:\n    pass\n" for name in names)
    async with actbox.open_sandbox("monty") as box:
        found = (await box.run(f"found = []\n{trial}found")).value
    assert {"abs", "IsADirectoryError"} < set(found)
    result = await checked.run("\n".join([*found, "1"]))
    assert result.success, result.error


@pytest.mark.parametrize(
    ("source", "so"),
    [
        ("await f()", True),
        ("async def f():\n    async for x in y: pass", True),
        ("[x async for x in y]", True),
        ("'await' # await", False),
        ("async def f(): pass", False),
        ("await = = 1", False),
        ("(" * 5000 + "await", False),
    ],
)
def test_whether_a_program_awaits(source: str, so: bool) -> None:
    assert awaits(source) is so


@pytest.mark.slow
async def test_the_request_is_known_to_the_check_of_types(net: Net) -> None:  # noqa: F811
    host = await net.host("api.example")
    policy = Policy(domains=[AllowedDomain(host.place, private=True)])
    upstream = Upstream(resolve=net._resolve)
    async with actbox.open_sandbox("monty", policy=policy, upstream=upstream, type_check=True) as box:
        assert (await box.run(f"http_request('{host.url}')['text'].upper()")).value == "HELLO FROM API.EXAMPLE"
        assert (await box.run(f"(await http_request('{host.url}'))['status'] + 1")).value == 201
        error = (await box.run("http_request(1)")).error
        assert error is not None and error.kind is ErrorKind.TYPE
