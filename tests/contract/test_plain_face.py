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

import pytest

import actbox
from actbox import Output
from tests.contract.left_behind import FAMILY, alive_with


def in_plain_code(engine: str, check: Callable[[actbox.sync.SyncSandbox], None]) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        check(box)


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


async def test_a_plain_sandbox_works_inside_a_running_loop_and_from_several_threads(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        assert box.run("1 + 1").value == 2
        results = await asyncio.gather(*(asyncio.to_thread(box.run, f"{n}") for n in range(4)))
    assert [result.value for result in results] == [0, 1, 2, 3]


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
        _, said = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    deadline = time.monotonic() + 3
    while alive_with(f"sleep\0{seconds}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
