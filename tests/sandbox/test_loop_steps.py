"""No step between two turns of the host's event loop handles more than a bounded part of what a guest gives.

Each test has a real guest give much, by one of the ways to the host. Every place where the host works on it is watched:
how many bytes and values pass there in one callback of the event loop, or in one call of C code in another thread,
which holds the interpreter as long.
"""

from __future__ import annotations

import ast
import json
import os
import threading
from asyncio.events import Handle
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import h11
import numpy as np
import pytest

import actbox
from actbox.codeact import CallbackApprover
from actbox.codeact.review_decision import advice_on
from actbox.core.errors import ErrorKind
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.values import Packed
from actbox.review import Rules
from actbox.sandbox import reading, storage
from actbox.sandbox.channel import mailbox
from actbox.sandbox.engines.monty import evaluating
from actbox.sandbox.guest import tagged, wire
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.shell import files as shell_files
from actbox.sandbox.shell import guest, responses
from actbox.sandbox.workspace import OutputFolder, Workspace
from actbox.tools import (
    ApprovalDecision,
    ApprovalRequest,
    Tool,
    Toolset,
    definition,
    json_form,
    results,
    schema_arguments,
)
from actbox.tools.argument_schema import AnnotatedArguments
from actbox.tools.large_values import FEW_BYTES, FEW_VALUES, is_large
from actbox.tools.schema_arguments import SchemaArguments
from tests.conftest import engine_check, with_marks
from tests.engines.hyperlight.conftest import stand_in  # noqa: F401
from tests.engines.shell.local_shell import LocalShell, PlainShell
from tests.sandbox.remote.remote_box import RemoteBox

MANY = 300_000
MOST_VALUES = 250_000
"""A call of as many values as may be shown is shown twice in one step; fewer than `MANY`."""
MOST_BYTES = 3 * 16 * 2**20
"""A message of the greatest length, which is shown twice and read once more."""


@dataclass
class Steps:
    """Largest number of values and bytes in one step, and what was called in the event loop's thread and in others."""

    values: int = 0
    size: int = 0
    most_values: int = 0
    most_size: int = 0
    in_loop: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.values = self.size = 0

    def add(self, values: int, size: int) -> None:
        self.values += values
        self.size += size
        self.most_values = max(self.most_values, self.values)
        self.most_size = max(self.most_size, self.size)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Count what passes the host's doors for data of a guest."""
    counted, loop_thread = Steps(), threading.get_ident()
    run_handle = Handle._run

    def run(handle: Handle) -> None:
        if threading.get_ident() == loop_thread:
            counted.begin()
        run_handle(handle)

    def watch(owner: Any, name: str, size_of: Callable[..., tuple[int, int]], *, by_result: bool = False) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            returned = original(*args, **options)
            values, size = size_of(returned if by_result else args[-1])
            if threading.get_ident() == loop_thread:
                counted.add(values, size)
                counted.in_loop.append(f"{owner.__name__}.{name}")
            else:
                counted.most_values = max(counted.most_values, values)
                counted.most_size = max(counted.most_size, size)
                counted.aside.append(f"{owner.__name__}.{name}")
            return returned

        monkeypatch.setattr(owner, name, watched)

    monkeypatch.setattr(Handle, "_run", run)
    for module, read, write in (
        (json, "loads", "dumps"),
        (results, "_decode", "_encode"),
        (json_form, "_decode", "_encode"),
    ):
        watch(module, read, _of_text)
        watch(module, write, _of_text, by_result=True)
    # It goes over a text several times, once with a regular expression.
    watch(wire, "check_text", lambda text: (0, 3 * len(text)))
    for module in (os, reading):
        watch(module, "read", lambda data: (0, len(data)), by_result=True)
    watch(ast, "parse", lambda tree: (sum(1 for _ in ast.walk(tree)), 0), by_result=True)
    for owner, name in (
        *((OutputFolder, "collect"), (Workspace, "list"), (Workspace, "read"), (storage, "_decoded")),
        *((guest.ArtifactCollector, "result"), (shell_files, "_listed"), (RemoteWorkspace, "list")),
    ):
        watch(owner, name, lambda _: (0, 0))
    watch(mailbox.Carrier, "pass_on", lambda data: (0, len(data)))
    watch(mailbox.Carrier, "_next_piece", lambda piece: (0, len(piece)), by_result=True)
    watch(h11.Connection, "receive_data", lambda data: (0, len(data)))
    watch(h11.Connection, "send", lambda said: (0, len(said or b"")), by_result=True)
    feed = responses.ResponseParser.feed

    def fed(self: responses.ResponseParser, text: str) -> Iterator[tuple[str, bytes]]:
        counted.add(0, len(text))
        return feed(self, text)

    monkeypatch.setattr(responses.ResponseParser, "feed", fed)

    # In another thread pydantic gives the interpreter back between any two entries (`watched_schema`).
    for kind in (AnnotatedArguments, SchemaArguments):
        bind = kind.bind

        def bound(self: Any, arguments: Any, bind: Callable[..., Any] = bind) -> Any:
            if threading.get_ident() == loop_thread:
                counted.add(_values(arguments), 0)
            return bind(self, arguments)

        monkeypatch.setattr(kind, "bind", bound)

    # Python functions give the interpreter back by themselves in another thread.
    def watch_in_loop(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def watched(value: Any, *args: Any, **options: Any) -> Any:
            if threading.get_ident() == loop_thread:
                counted.add(_values(value), 0)
            return original(value, *args, **options)

        monkeypatch.setattr(owner, name, watched)

    def opened_in_steps(holder: Any, open_in_steps: Callable[[Any], Iterator[None]] = tagged.open_in_steps) -> Any:
        for _ in open_in_steps(holder):
            if threading.get_ident() == loop_thread:
                counted.add(tagged._STEP_VALUES, 0)
            yield

    monkeypatch.setattr(tagged, "open_in_steps", opened_in_steps)  # also of `unpack` and `opened`
    for owner in (tagged, results, definition, schema_arguments):  # also of `wire.put_value`
        watch_in_loop(owner, "pack")
    for owner in (json_form, schema_arguments):
        watch_in_loop(owner, "spelled_out")
    for name in ("is_bounded", "for_interpreter", "transferred"):
        watch_in_loop(evaluating, name)
    yield counted
    assert counted.most_values <= MOST_VALUES
    assert counted.most_size <= MOST_BYTES


def _of_text(text: str | bytes) -> tuple[int, int]:
    return (text.count(",") if isinstance(text, str) else text.count(b",")), len(text)


def _values(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.size
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return 1 + sum(map(_values, inner))


async def total(a: list[int]) -> int:
    return sum(a)


async def mixed(a: dict[str, int | float | bool | None]) -> int:
    return len(a)


async def named(**more: int) -> int:
    return len(more)


async def numbers(count: int) -> list[int]:
    return list(range(count))


async def records(count: int) -> list[dict[str, Any]]:
    return [{"number": number, "name": "x", "parts": [1.5]} for number in range(count // 4)]


async def array(count: int) -> Any:
    return np.arange(count)


async def row(count: int) -> tuple[int, ...]:
    return tuple(range(count))


async def text(count: int) -> str:
    return "7 " * (count // 2)


def numbers_of_a_thread(count: int) -> list[int]:
    return list(range(count))


SCHEMA = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"]}


def from_schema() -> Tool:
    return Tool.from_schema("total", "", SCHEMA, lambda a: len(a))


GOOD, BAD = "1", "refused"
CALLS: dict[str, tuple[str, Any, str]] = {
    "wrong items": (f"total(a=['x'] * {MANY})", total, BAD),
    "right items": (f"total(a=[1] * {MANY})", total, GOOD),
    "a positional argument": (f"total(['x'] * {MANY})", total, BAD),
    "wrong entries": (f"mixed(a={{f'k{{n}}': 'x' for n in range({MANY})}})", mixed, BAD),
    "right entries": (f"mixed(a={{f'k{{n}}': 1.5 for n in range({MANY})}})", mixed, GOOD),
    "wrong further arguments": (f"named(**{{f'k{{n}}': 'x' for n in range({MANY})}})", named, BAD),
    "unknown names": (f"call_tool('total', a=[], **{{f'k{{n}}': 1 for n in range({MANY})}})", total, BAD),
    "wrong items by a schema": (f"total(a=['x'] * {MANY})", from_schema, BAD),
    "right items by a schema": (f"total(a=[1] * {MANY})", from_schema, GOOD),
    "unknown names by a schema": (
        f"call_tool('total', a=[], **{{f'k{{n}}': 1 for n in range({MANY})}})",
        from_schema,
        BAD,
    ),
    "a result of numbers": (f"numbers({MANY})", numbers, GOOD),
    "a result of a thread": (f"numbers_of_a_thread({MANY})", numbers_of_a_thread, GOOD),
    "a result of records": (f"records({MANY})", records, GOOD),
    "a result of an array": (f"array({MANY})", array, GOOD),
    "a result of a tuple": (f"row({MANY})", row, GOOD),
    "a result of text": ("text(16_700_000)", text, GOOD),
}


def trying(code: str) -> str:
    return f"try:\n    {code}\n    said = {GOOD!r}\nexcept ToolError as error:\n    said = {BAD!r}\nprint(said)"


@pytest.mark.slow
@pytest.mark.parametrize("kind", CALLS)
async def test_a_large_call_or_answer_is_worked_off_in_small_steps(kind: str, steps: Steps) -> None:
    code, function, expected = CALLS[kind]
    async with actbox.open_sandbox("linux") as box:
        result = await box.run(trying(code), tools=[from_schema() if function is from_schema else function])
    assert (result.stdout, result.error) == (expected + "\n", None)
    assert steps.most_size > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("total([1] * 90_000)", 1),
        (f"total([1] * {MANY})", 0),
        ("save('x' * 16_000_000)", 1),
    ],
    ids=["values", "too many values", "bytes"],
)
async def test_a_large_call_is_shown_in_small_steps(code: str, expected: int, steps: Steps) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(True)

    async def save(content: str) -> int:
        return len(content)

    tools = [Tool.from_function(each, approval="always_require") for each in (total, save)]
    async with actbox.open_sandbox("linux") as box:
        await box.run(code, tools=Toolset.of(tools).asking(CallbackApprover(approve)))
    assert len(asked) == expected
    assert steps.most_size > 0


@pytest.mark.slow
async def test_long_integers_are_compared_and_shown_in_small_pieces(steps: Steps) -> None:
    async def count(a: list[int]) -> int:
        return len(a)

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(True, edited=request.arguments)

    tools = Toolset.of([Tool.from_function(count, approval="always_require")]).asking(CallbackApprover(approve))
    async with actbox.open_sandbox("linux") as box:
        result = await box.run("count([10 ** 4299 + n for n in range(3_000)])", tools=tools)
    assert (result.value, result.error) == (3_000, None)
    assert 0 < steps.most_size <= FEW_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["linux", "rtfs"])
async def test_an_edited_call_is_prepared_beside_the_event_loop(engine: str, steps: Steps) -> None:
    async def edit(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(True, edited={"a": [1] * 90_000})

    threads: list[int] = []
    made = Tool.from_function(total, approval="always_require")
    bind = made._bind

    def bound(arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return bind(arguments)

    object.__setattr__(made, "_bind", bound)
    code = "total([1])" if engine == "linux" else "(call :total [1])"
    async with actbox.open_sandbox(engine) as box:
        result = await box.run(code, tools=Toolset.of([made]).asking(CallbackApprover(edit)))
    assert result.error is None
    assert threads[0] == threading.get_ident() != threads[1]


async def test_a_large_result_is_opened_beside_the_event_loop(steps: Steps) -> None:
    assert len(await Tool.from_function(row).call({"count": MANY})) == MANY


async def test_arrays_and_tables_are_large_by_their_size() -> None:
    import pandas as pd

    assert is_large(np.zeros(FEW_VALUES + 1))
    assert is_large(np.zeros((2, FEW_VALUES)))
    assert is_large([pd.DataFrame({"a": range(FEW_VALUES), "b": 1})])
    assert is_large(Packed([1] * (FEW_VALUES + 1)))
    assert is_large(deque([[1] * (FEW_VALUES + 1)]))
    assert not is_large([np.zeros(5), pd.DataFrame({"a": range(5)})])


OUTPUTS: dict[str, tuple[str, ErrorKind | None]] = {
    "a value of numbers": (f"[1] * {MANY}", None),
    "a value of text": ("'x' * 4_000_000", None),
    "a value of empty lists": ("[[] for _ in range(100_000)]", None),
    "printed bytes that are no text": (r"import os; [os.write(1, b'\xff' * 100_000) for _ in range(99)]", None),
    "an error with a long message": ("raise ValueError('x' * 10_000_000)", ErrorKind.RUNTIME),
    "an error with a long trace": ("def f(n):\n    return f(n + 1)\nf(0)", ErrorKind.RUNTIME),
    "files": ("for n in range(100): open(f'/output/{n}', 'wb').write(bytes(1_000_000))", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OUTPUTS)
async def test_what_a_program_came_to_is_taken_in_by_small_steps(kind: str, steps: Steps) -> None:
    code, failure = OUTPUTS[kind]
    async with actbox.open_sandbox("linux") as box:
        result = await box.run(code)
    assert (result.error and result.error.kind) == failure
    assert "OutputFolder.collect" not in steps.in_loop
    assert ("OutputFolder.collect" in steps.aside) == (kind == "files")


@pytest.mark.slow
async def test_files_are_listed_and_read_beside_the_event_loop(steps: Steps) -> None:
    code = "for n in range(5_000): open(f'{n}', 'w').close()\nopen('big', 'w').write('é' * 10_000_000)"
    async with actbox.open_sandbox("linux") as box:
        await box.run(code)
        assert len(await box.list_files()) > 5_000
        assert len(await box.read_text("big")) == 10_000_000
    assert {"Workspace.list", "Workspace.read", "actbox.sandbox.storage._decoded"} <= set(steps.aside)
    assert not {"Workspace.list", "Workspace.read", "actbox.sandbox.storage._decoded"} & set(steps.in_loop)


@pytest.fixture(params=["local shell", "plain shell", "agent", *with_marks(["container", "ssh"])])
def elsewhere(request: pytest.FixtureRequest) -> actbox.Sandbox:
    """A sandbox whose guests are reached by a shell, which tells what comes as it comes or all at once, or an agent."""
    match request.param:
        case "local shell":
            return LocalShell()
        case "plain shell":
            return PlainShell()
        case "agent":
            return RemoteBox()
        case "ssh":
            request.getfixturevalue("ssh_on_a_machine")
    if not (found := engine_check(request.param)).works:
        pytest.skip(f"{request.param}: {found.reason}")
    return actbox.open_sandbox(request.param, allow_unisolated=True)


ELSEWHERE = {
    **{kind: CALLS[kind] for kind in ("right items", "a result of numbers")},
    **{
        kind: (OUTPUTS[kind][0], None, "") for kind in ("a value of numbers", "printed bytes that are no text", "files")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_what_a_guest_elsewhere_says_is_worked_off_in_small_steps(
    kind: str, elsewhere: actbox.Sandbox, steps: Steps
) -> None:
    code, function, expected = ELSEWHERE[kind]
    if function is not None:
        code = trying(code)
        expected += "\n"
    async with elsewhere as box:
        result = await box.run(code.replace("'/output", "'output"), tools=[function] if function else ())
    assert result.error is None
    assert function is None or result.stdout == expected
    assert len(result.artifacts) == (100 if kind == "files" else 0)
    assert steps.most_size > 0
    assert "ArtifactCollector.result" not in steps.in_loop


@pytest.mark.parametrize("kind", ["right items", "a result of numbers"])
async def test_a_call_over_http_is_carried_beside_the_event_loop(kind: str, steps: Steps) -> None:
    code, function, expected = CALLS[kind]
    async with LocalShell(tool_address=("127.0.0.1", 0)) as box:
        result = await box.run(trying(code), tools=[function])
    assert (result.stdout, result.error) == (expected + "\n", None)
    carried = {"Connection.receive_data", "Connection.send"}
    assert carried <= set(steps.aside)
    assert not carried & set(steps.in_loop)


@pytest.mark.slow
async def test_files_elsewhere_are_listed_beside_the_event_loop(elsewhere: actbox.Sandbox, steps: Steps) -> None:
    async with elsewhere as box:
        await box.run("import os\nfor n in range(3_000): os.mknod(f'{n}')")
        assert len(await box.list_files()) >= 3_000
    listed = {"actbox.sandbox.shell.files._listed", "RemoteWorkspace.list"}
    assert listed & set(steps.aside)
    assert not listed & set(steps.in_loop)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["wasm", "monty", "hyperlight"])
@pytest.mark.parametrize(
    ("code", "tools"),
    [(f"total([1] * {MANY})", [total]), (f"len(numbers({MANY}))", [numbers]), (f"[1] * {MANY}", [])],
    ids=["a call", "a result", "a value"],
)
async def test_what_crosses_into_an_interpreter_is_checked_beside_the_event_loop(
    engine: str, code: str, tools: list[Any], steps: Steps, request: pytest.FixtureRequest
) -> None:
    if engine == "hyperlight":
        request.getfixturevalue("stand_in")
    elif not (found := engine_check(engine)).works:
        pytest.skip(f"the {engine} engine does not work here: {found.reason}")
    async with actbox.open_sandbox(engine, policy=Policy()) as box:
        result = await box.run(code, tools=tools)
    assert result.error is None, result
    assert result.value == (MANY if tools else [1] * MANY)
    assert steps.most_values >= 1_000 or steps.aside


@pytest.mark.slow
async def test_an_agent_reviews_a_long_program_beside_the_event_loop(steps: Steps) -> None:
    read = await advice_on(Program("eval('1')\n" * 5_000), Rules(), Toolset.of([]))
    assert "code" in str(read)
    assert steps.most_values > 5_000
    too_long = await advice_on(Program("eval('1')\n" * 50_000), Rules(), Toolset.of([]))
    assert "at most 64,000 are read" in str(too_long)
    assert too_long.error is None
    blocked = await advice_on(Program("x = 1\n" * 50_000), Rules({"process": "block"}), Toolset.of([]))
    assert blocked.error is not None
    for rules in (Rules({"process": "block", "not-read": "allow"}), Rules(otherwise="allow")):
        assert (await advice_on(Program("x = 1\n" * 50_000), rules, Toolset.of([]))).error is None
    assert "ast.parse" not in steps.in_loop
