"""The same sandboxes in plain code: `actbox.run` and `actbox.sync.open_sandbox`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, Output
from tests.contract.left_behind import FAMILY, alive_with


def in_plain_code(engine: str, check: Callable[[actbox.sync.SyncSandbox], None]) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        check(box)


@pytest.mark.slow
def test_the_plain_face_has_every_method(engine: str) -> None:
    def check(box: actbox.sync.SyncSandbox) -> None:
        box.write_text("a/b.txt", "text")
        assert box.read_text("a/b.txt") == "text"
        assert box.run("open('a/b.txt').read()").value == "text"
        assert box.execute("cat a/b.txt").stdout == "text"
        assert [type(event).__name__ for event in box.stream("print(1)")] == ["Output", "Completed"]
        assert [type(event).__name__ for event in box.execute_stream("echo 1")] == ["Output", "Completed"]
        box.move("a/b.txt", "c.txt")
        box.make_dir("d")
        assert {entry.path for entry in box.list_files()} >= {"a", "c.txt", "d", "input", "output"}
        assert box.stat("c.txt").size == 4
        box.remove_file("a", recursive=True)

    in_plain_code(engine, check)


def test_a_plain_sandbox_that_is_not_running_says_how_it_is_opened(engine: str) -> None:
    box = actbox.sync.open_sandbox(engine, allow_unisolated=True)
    with pytest.raises(actbox.SandboxStopped, match=r"inside its `with` block .*, or call start\(\) first"):
        box.run("1")


@pytest.mark.one_engine_first
def test_a_plain_stream_that_is_left_early_ends_its_program(engine: str) -> None:
    def check(box: actbox.sync.SyncSandbox) -> None:
        for event in box.stream("import time\nprint('x', flush=True)\ntime.sleep(62.25)"):
            assert isinstance(event, Output)
            break
        gc.collect()
        assert box.run("1").value == 1

    in_plain_code(engine, check)


def test_one_call_runs_one_program(engine: str) -> None:
    def double(n: int) -> int:
        return 2 * n

    result = actbox.run(
        "double(n) + int(open('input/m').read())",
        inputs={"n": 20},
        files={"m": "2"},
        tools=[double],
        engine=engine,
        allow_unisolated=True,
    )
    assert result.value == 42


async def test_the_plain_face_works_inside_a_running_loop(engine: str) -> None:
    assert actbox.run("1 + 1", engine=engine, allow_unisolated=True).value == 2


@pytest.mark.slow
async def test_a_plain_sandbox_works_inside_a_running_loop_and_from_several_threads(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        assert box.run("1 + 1").value == 2
        results = await asyncio.gather(*(asyncio.to_thread(box.run, f"{n}") for n in range(4)))
    assert [result.value for result in results] == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.one_engine_first
def test_ctrl_c_ends_a_plain_run_and_all_its_processes(engine: str) -> None:
    seconds = f"63.{os.getpid()}"
    program = (
        "import actbox, sys\n"
        "with actbox.sync.open_sandbox(sys.argv[1], allow_unisolated=True) as box:\n"
        "    for event in box.stream(sys.argv[2]): print('ready', flush=True)\n"
    )
    arguments = [sys.executable, "-c", program, engine, FAMILY.replace("{seconds!r}", repr(seconds))]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    deadline = time.monotonic() + 30
    while alive_with(f"sleep\0{seconds}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Each is run by a process of its own, which would wait for ever if the background thread did.
IN_ITS_OWN_LOOP = {
    "a run": """
async def helper(code):
    return actbox.run(code, engine=engine, allow_unisolated=True).value
result = actbox.run("helper('1 + 1')", tools=[helper], engine=engine, allow_unisolated=True)
print(result.error.kind.value, result.error.message)
""",
    "a stream": """
async def helper(code):
    return [type(event).__name__ for event in box.stream(code)]
with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
    result = box.run("helper('1 + 1')", tools=[helper])
print(result.error.kind.value, result.error.message)
""",
    "a file method of a session": """
async def helper():
    return session.read_text("a")
with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box, box.session() as session:
    result = session.run("helper()", tools=[helper])
print(result.error.kind.value, result.error.message)
""",
}
IN_A_FINALIZER = """
import gc
class Holder:
    def __init__(self):
        self.box = actbox.sync.open_sandbox(engine, allow_unisolated=True)
        self.box.start()
        self.session = self.box.session()
        self.session.start()
        self.events = self.box.stream("import time\\nprint('begun', flush=True)\\ntime.sleep(60)")
        next(self.events)
        boxes.append(self.box)
        self.itself = self
    def __del__(self):
        self.session.close()
        self.box.stop()
boxes = []
async def collect():
    gc.collect()
holders = [Holder()]
gc.disable()
holders.clear()
print(actbox.run("collect()", tools=[collect], engine=engine, allow_unisolated=True).exit_code)
try:
    while True:
        boxes[0].run("1")
except actbox.SandboxStopped:
    boxes[0].stop()  # returns when the stop that is under way is over
    print("stopped")
"""


def in_a_process(engine: str, program: str) -> str:
    source = f"import sys, actbox\nengine = sys.argv[1]\n{program}"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", source, engine], capture_output=True, text=True, timeout=60, check=False
    )
    assert not found.stderr
    return found.stdout


@pytest.mark.slow
@pytest.mark.one_engine_first
@pytest.mark.parametrize("what", IN_ITS_OWN_LOOP)
def test_an_async_tool_that_uses_the_plain_face_is_told_what_to_do(engine: str, what: str) -> None:
    said = in_a_process(engine, IN_ITS_OWN_LOOP[what])
    assert said.startswith("TOOL ")
    assert "Await `actbox.open_sandbox(…)` there, or write the tool as a plain function" in said


@pytest.mark.slow
@pytest.mark.one_engine_first
def test_a_finalizer_in_the_background_thread_closes_a_plain_sandbox(engine: str) -> None:
    assert in_a_process(engine, IN_A_FINALIZER) == "0\nstopped\n"


async def _interrupted() -> None:
    raise KeyboardInterrupt("by itself")


def _interrupted_in_a_thread() -> None:
    raise KeyboardInterrupt("by itself")


@pytest.mark.slow
@pytest.mark.parametrize("tool", [_interrupted, _interrupted_in_a_thread])
def test_a_tool_that_raises_keyboard_interrupt_has_failed_and_the_background_thread_lives_on(
    engine: str, options: dict[str, Any], tool: Callable[..., Any]
) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True, **options) as box:
        result = box.run(f"{tool.__name__}()", tools=[actbox.Tool.from_function(tool, description="Fail.")])
        assert result.error is not None and result.error.kind is ErrorKind.TOOL
        assert "KeyboardInterrupt" in result.error.message
        assert box.run("1").value == 1
