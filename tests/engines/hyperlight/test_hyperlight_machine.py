"""What only a machine does, in real ones: `tests/vm/test-hyperlight` runs this where a hypervisor is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import AllowedDomain, ErrorKind, Limits, Policy, Sandbox
from actbox.sandbox.egress.upstream import Upstream
from actbox.sandbox.engines.hyperlight.options import LEAST_HEAP, LEAST_STACK
from tests.clock import Clock
from tests.sandbox.egress.conftest import Net, net, no_proxy_of_this_machine, public_authority  # noqa: F401

pytestmark = pytest.mark.hyperlight


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("hyperlight", machines=1) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def script() -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("hyperlight", backend="javascript", machines=1) as opened:
        yield opened


in_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
@in_one_loop
async def test_the_guest_is_cpython_without_an_operating_system(box: Sandbox) -> None:
    code = "import sys, os; [sys.platform, sys.version_info[:2] >= (3, 14), dict(os.environ), os.listdir('/')]"
    assert (await box.run(code)).value == ["wasi", True, {}, ["input", "output", "tmp", "workspace"]]


@in_one_loop
@pytest.mark.parametrize(
    "code, kind",
    [
        ("x = []\nwhile True: x.append('a' * 100_000)", ErrorKind.MEMORY),
        ("import sys; sys.setrecursionlimit(10**6)\ndef deeper(): deeper()\ndeeper()", ErrorKind.MEMORY),
        ("x = [0] * 10**9", ErrorKind.MEMORY),
        ("eval('(' * 2000 + ')' * 2000)", None),
        ("raise KeyboardInterrupt", ErrorKind.RUNTIME),
        ("import os; os._exit(3)", ErrorKind.EXIT),
        ("import os; os.abort()", ErrorKind.CRASH),
        ("input()", ErrorKind.RUNTIME),
        ("import _thread; _thread.start_new_thread(print, ())", ErrorKind.PROCESSES),
        ("import socket", ErrorKind.NETWORK),
        ("import _socket; _socket.socket()", ErrorKind.RUNTIME),
    ],
)
async def test_what_breaks_a_machine_is_told_and_the_next_run_is_fresh(
    box: Sandbox, code: str, kind: ErrorKind | None
) -> None:
    result = await box.run(code)
    assert result.error is not None
    assert kind is None or result.error.kind is kind, result.error
    assert (await box.run("1 + 1")).value == 2


@in_one_loop
async def test_no_two_runs_have_the_same_randomness(box: Sandbox) -> None:
    code = "import random, os; [random.random(), os.urandom(8).hex()]"
    first, second = [(await box.run(code)).value for _ in range(2)]
    assert first[0] != second[0] and first[1] != second[1]


@in_one_loop
async def test_a_program_may_sleep_and_sees_clocks_that_go(box: Sandbox) -> None:
    code = "import time\nbegun = time.monotonic(), time.perf_counter()\ntime.sleep(0.2)\n"
    code += "[time.monotonic() - begun[0] >= 0.19, time.perf_counter() - begun[1] >= 0.19]"
    assert (await box.run(code)).value == [True, True]


@in_one_loop
async def test_tools_files_and_output_are_the_hosts(box: Sandbox) -> None:
    code = """
import os, sys
def attempt(do):
    try: do()
    except Exception as error: return f"{type(error).__name__}: {error}"
os.makedirs("deep/er", exist_ok=True)
with open("deep/er/a.bin", "wb") as file:
    for n in range(20): file.write(bytes([n]) * 10_000)
with open("/output/b.txt", "w") as file: print("ü", file=file)
print("out"); print("err", file=sys.stderr); os.write(1, bytes([255, 10]))
[add(1, b=2), call_tool("add", a=3, b=4), attempt(boom), attempt(lambda: add(c=1))[:9],
 os.path.getsize("deep/er/a.bin"), open("deep/er/a.bin", "rb").read()[-1], open("/input/in.txt").read(),
 attempt(lambda: open("/input/in.txt", "w"))[:7], sorted(os.listdir("/workspace")), os.path.exists("/etc")]
"""
    result = await box.run(actbox.Program(code, files={"in.txt": b"given"}), tools=[add, boom])
    assert result.value == [
        3,
        7,
        "ToolError: ValueError: bad ü",
        "ToolError",
        200_000,
        19,
        "given",
        "OSError",
        ["deep", "input", "output"],
        False,
    ], result.error
    assert (result.stdout, result.stderr) == ("out\n\ufffd\n", "err\n")
    assert [(artifact.name, artifact.data) for artifact in result.artifacts] == [("b.txt", "ü\n".encode())]
    await box.remove_file("deep", recursive=True)
    await box.remove_file("output/b.txt")


@in_one_loop
async def test_texts_of_any_size_go_in_and_out(box: Sandbox) -> None:
    async def echo(text: str) -> str:
        return text

    code = "text = given + 'ü\\ud800'[:1]\nprint(text * 2)\nlen(echo(text)), echo(text) == text"
    result = await box.run(actbox.Program(code, inputs={"given": "a\n\x00😀" * 30_000}), tools=[echo])
    assert result.value == (120_001, True), result.error
    assert len(result.stdout) == 240_003


@in_one_loop
async def test_programs_have_names_of_the_librarys_that_reach_nothing(box: Sandbox) -> None:
    result = await box.run("import sandbox_executor\nsandbox_executor.http_get('http://127.0.0.1:1/')")
    assert result.error is not None
    assert "Denied" in result.error.message


@in_one_loop
async def test_a_session_keeps_its_variables_until_it_is_lost(box: Sandbox) -> None:
    async with box.session() as session:
        assert (await session.run("x = 1\ndef more(): return x + 1")).state_kept
        assert (await session.run("more()")).value == 2
        failed = await session.run("1 / 0")
        assert failed.error is not None and 'File "program-3.py", line 1' in failed.error.traceback
        assert not (await session.run("import os; os.abort()")).state_kept
        assert not session.alive


@pytest.mark.parametrize(
    "backend, asking, refused",
    [
        ("wasm", "http_request('{url}')['text']", "http_request('http://other.example/')"),
        ("javascript", "(await http_request('{url}')).text", "await http_request('http://other.example/')"),
    ],
)
async def test_a_request_reaches_what_the_policy_allows_and_nothing_else(
    net: Net,  # noqa: F811
    backend: str,
    asking: str,
    refused: str,
) -> None:
    host = await net.host("api.example")
    policy = Policy(domains=[AllowedDomain(host.place, ["GET"], private=True)])
    upstream = Upstream(resolve=net._resolve)
    async with actbox.open_sandbox("hyperlight", policy=policy, upstream=upstream, backend=backend, machines=1) as box:
        shown = f"print({asking})" if backend == "wasm" else f"console.log({asking})"
        result = await box.run(shown.format(url=host.url))
        assert result.stdout.strip() == "hello from api.example", result.error
        result = await box.run(refused)
    assert result.error is not None
    assert (result.error.kind, result.error.type, result.error.line) == (ErrorKind.NETWORK, "PermissionError", 1)


async def test_processor_time_ends_the_machine() -> None:
    async with actbox.open_sandbox("hyperlight", policy=Policy(limits=Limits(cpu_seconds=2))) as box:
        result = await box.run("while True: pass")
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.TIMEOUT, "cpu_seconds")


async def test_a_machine_has_the_memory_that_it_is_given() -> None:
    code = "len(bytes(60 << 20))"
    async with actbox.open_sandbox("hyperlight", heap_size=LEAST_HEAP, stack_size=LEAST_STACK) as small:
        assert not (await small.run(code)).success
    async with actbox.open_sandbox("hyperlight", stack_size=120 * 2**20) as large:
        assert (await large.run(code)).value == 60 << 20


# JavaScript


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def boom() -> None:
    """Fail."""
    raise ValueError("bad ü")


@in_one_loop
@pytest.mark.parametrize(
    "code, expected",
    [
        ("1 + 1", 2),
        ("await add(1, 2) + await add({ a: 3, b: 4 })", None),
        ("const all = await Promise.all([add(1, 2), add(3, 4)]);\nconsole.log(all.join())", "3,7\n"),
        ("console.log({ a: [1, 'x'] }, new Map([[1, 2]]), 'ü')", "{ a: [ 1, 'x' ] } Map(1) { 1 => 2 } ü\n"),
        (
            "try { await boom() } catch (e) { console.log(e instanceof ToolError, e.message) }",
            "true ValueError: bad ü\n",
        ),
        ("files.write('a.txt', 'ü'); console.log(files.read('/workspace/a.txt'), files.list('/'))", None),
        ("await new Promise((done) => setTimeout(done, 50)); console.log('later')", "later\n"),
    ],
)
async def test_javascript_runs(script: Sandbox, code: str, expected: Any) -> None:
    result = await script.run(code, tools=[add, boom])
    assert result.success, result.error
    if expected is not None:
        assert expected == (result.stdout if isinstance(expected, str) else result.value)


@in_one_loop
@pytest.mark.parametrize(
    "code, kind, line",
    [
        ("let x = 1;\nlet y = ;", ErrorKind.SYNTAX, 2),
        ("const z = 1;\nawait null;\nnope()", ErrorKind.RUNTIME, 3),
        ("function f() {\n  throw new TypeError('x')\n}\nf()", ErrorKind.RUNTIME, 2),
        ("\nawait boom()", ErrorKind.TOOL, 2),
        ("const a = []; while (true) a.push(new Array(100000).fill(1.5))", ErrorKind.MEMORY, None),
        ("await new Promise(() => {})", ErrorKind.RUNTIME, None),
        ("process.exit(3)", ErrorKind.EXIT, None),
        ("files.write('/input/a', '')", ErrorKind.POLICY, 1),
    ],
)
async def test_javascript_fails_with_its_own_lines(
    script: Sandbox, code: str, kind: ErrorKind, line: int | None
) -> None:
    result = await script.run(code, tools=[add, boom])
    assert result.error is not None
    assert (result.error.kind, result.error.line) == (kind, line), result.error


@in_one_loop
async def test_javascript_that_does_not_end_is_ended_and_randomness_is_fresh(script: Sandbox) -> None:
    events = script.stream("console.log(1);\nwhile (true);", timeout=30)
    result = await Clock(asyncio.get_running_loop()).run_out(events, 30, after="1\n")
    assert result.error is not None
    assert (result.error.kind, result.stdout) == (ErrorKind.TIMEOUT, "1\n")
    first, second = [(await script.run("Math.random()")).value for _ in range(2)]
    assert first != second


# The Agent Framework's classes


async def test_the_agent_frameworks_provider_runs_programs_here() -> None:
    pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")
    from actbox.integrations.agent_framework import HyperlightExecuteCodeTool

    async with HyperlightExecuteCodeTool(tools=[add], stack_size="96Mi") as execute_code:
        result = await asyncio.wait_for(execute_code.invoke(arguments={"code": "print(add(1, 2))"}), 200)
        assert "3" in str(result[0].text if isinstance(result, list) else result)
        assert "CPython" not in execute_code.description
