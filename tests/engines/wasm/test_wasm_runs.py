"""What is special about programs in CPython on WebAssembly; what all engines have in common is the kit's."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actbox import ErrorKind, FileError, InvalidValue, Program, Sandbox, ToolError, tool
from tests.clock import Clock
from tests.waiting import until


@pytest.mark.slow
async def test_it_is_cpython_with_its_standard_library(box: Sandbox) -> None:
    result = await box.run(
        "import sys, json, re, sqlite3, decimal, datetime, zlib, hashlib, statistics, tomllib, asyncio\n"
        "[sys.platform, sys.implementation.name, sqlite3.connect(':memory:').execute('select 1+1').fetchone()[0]]"
    )
    assert result.value == ["wasi", "cpython", 2], result.error


async def test_every_run_is_fresh(box: Sandbox) -> None:
    marked = await box.run(
        "import builtins, json, os, random, sys\n"
        "builtins.left = json.left = sys.left = 1\n"
        "os.environ['LEFT'] = '1'\n"
        "open('/tmp/left', 'w').write('1')\n"
        "open('/data/left', 'w').close()\n"
        "random.random()"
    )
    assert marked.success, marked.error
    found = await box.run(
        "import builtins, json, os, random, sys\n"
        "x = [hasattr(builtins, 'left'), hasattr(json, 'left'), hasattr(sys, 'left'), 'LEFT' in os.environ]\n"
        "x += [os.listdir('/tmp'), os.listdir('/data'), 'left' in globals(), os.getcwd()]\n"
        "[x, random.random()]"
    )
    assert found.value[0] == [False, False, False, False, [], [], False, "/workspace"]
    assert found.value[1] != marked.value, "the random generator begins at the same place"


async def test_plain_calls_of_tools_work_without_await(box: Sandbox) -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    result = await box.run("[add(1), add(1, 2), add(a=1, b=3), call_tool('add', a=5)]", tools=[add])
    assert result.value == [2, 3, 4, 6], result.error


@pytest.mark.slow
async def test_calls_of_async_tools_are_under_way_together(box: Sandbox) -> None:
    barrier = asyncio.Barrier(3)

    async def meet(name: str) -> str:
        await barrier.wait()
        return name

    for program in (
        "import asyncio\nawait asyncio.gather(meet('a'), meet('b'), meet('c'))",
        "import asyncio\nasync def main():\n    return await asyncio.gather(*map(meet, 'abc'))\nasyncio.run(main())",
        "import asyncio\nasync with asyncio.TaskGroup() as g:\n    t = [g.create_task(meet(n)) for n in 'abc']\n"
        "[x.result() for x in t]",
    ):
        result = await box.run(program, tools=[meet], timeout=50)
        assert result.value == ["a", "b", "c"], result.error


async def test_timers_of_asyncio_go_on_beside_calls(box: Sandbox) -> None:
    released = asyncio.Event()

    async def hold() -> str:
        await released.wait()
        return "held"

    async def release() -> None:
        released.set()

    result = await box.run(
        "import asyncio\n"
        "async def later():\n"
        "    await asyncio.sleep(0.01)\n"
        "    await release()\n"
        "    return 'released'\n"
        "try:\n"
        "    await asyncio.wait_for(asyncio.Event().wait(), 0.01)\n"
        "except TimeoutError:\n"
        "    timed_out = True\n"
        "[timed_out, *await asyncio.gather(hold(), later())]",
        tools=[hold, release],
    )
    assert result.value == [True, "held", "released"], result.error


@pytest.mark.slow
async def test_bytes_go_both_ways(box: Sandbox) -> None:
    data = bytes(range(256)) * 1000

    def turn(data: bytes) -> bytes:
        return data[::-1]

    result = await box.run("d = bytes(range(256)) * 1000\nturn(d) == d[::-1]", tools=[turn])
    assert result.value is True, result.error
    assert data


async def test_a_failed_call_is_a_tool_error_with_its_tools_name(box: Sandbox) -> None:
    @tool
    def broken() -> None:
        raise ToolError("no such account")

    caught = await box.run(
        "try:\n    broken()\nexcept ToolError as error:\n    found = [str(error), error.tool]\nfound", tools=[broken]
    )
    assert caught.value == ["no such account", "broken"]
    uncaught = await box.run("\nbroken()", tools=[broken])
    assert uncaught.error is not None
    assert (uncaught.error.kind, uncaught.error.line) == (ErrorKind.TOOL, 2)


async def test_output_past_the_interpreter_is_caught_too(box: Sandbox) -> None:
    result = await box.run("import os\nprint('one', flush=True)\nos.write(1, b'two\\n')\nos.write(2, b'three\\n')")
    assert (result.stdout, result.stderr) == ("one\ntwo\n", "three\n")


@pytest.mark.slow
async def test_what_was_printed_before_the_end_by_force_is_kept(box: Sandbox, clock: Clock) -> None:
    events = box.stream("print('before')\nwhile True: pass", timeout=30)
    result = await clock.run_out(events, 30, after="before\n")
    assert result.error is not None
    assert (result.stdout, result.error.kind, result.exit_code) == ("before\n", ErrorKind.TIMEOUT, 124)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("import threading\nthreading.Thread(target=print).start()", "threads"),
        ("import asyncio\nawait asyncio.to_thread(print)", "threads"),
        ("import subprocess\nsubprocess.run(['ls'])", "processes"),
        ("import asyncio\nawait asyncio.create_subprocess_exec('ls')", "processes"),
        ("import asyncio\nasyncio.run(asyncio.create_subprocess_shell('ls'))", "processes"),
        ("import os\nos.fork()", "processes"),
        ("from os import fork", "processes"),
        ("import os\nos.system('ls')", "processes"),
        ("import os\nos.execv('/bin/ls', ['ls'])", "processes"),
        ("import os\nos.execlp('ls', 'ls')", "processes"),
        ("import os\nos.posix_spawn('/bin/ls', ['ls'], {})", "processes"),
        ("import os\nos.kill(1, 9)", "processes"),
        ("import multiprocessing\nmultiprocessing.Process(target=print).start()", "processes"),
        ("import multiprocessing\nmultiprocessing.Pool(2)", "processes"),
        ("import multiprocessing\nmultiprocessing.Queue()", "processes"),
        ("from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor()", "processes"),
        ("import multiprocessing\nmultiprocessing.Pipe()", "sockets"),
        ("import zoneinfo\nzoneinfo.ZoneInfo('Europe/Oslo')", "time zones"),
        ("import os\nos.symlink('a', 'b')", "links"),
        ("import pathlib\npathlib.Path('a').hardlink_to('b')", "links"),
        ("import os\nos.getuid()", "os.getuid"),
        ("import signal\nsignal.alarm(1)", "signal.alarm"),
    ],
)
async def test_what_it_has_not_is_refused_with_the_engine_that_has_it(box: Sandbox, program: str, names: str) -> None:
    result = await box.run(program)
    assert result.error is not None
    assert result.error.kind is ErrorKind.UNSUPPORTED
    assert f"no {names}" in result.error.hint
    assert "linux" in result.error.hint
    assert result.error.line == program.count("\n") + 1


@pytest.mark.slow
async def test_what_no_python_has_is_the_programs_own_mistake(box: Sandbox) -> None:
    for program in ("import os\nos.no_such_name", "from json import no_such_name", "raise NotImplementedError"):
        result = await box.run(program)
        assert result.error is not None and result.error.kind is ErrorKind.RUNTIME, result.error


@pytest.mark.slow
async def test_a_name_that_is_not_utf_8_is_refused_with_a_sentence(box: Sandbox) -> None:
    await box.write_file("a", b"x")
    for call in (
        lambda: box.write_file("b\udcff", b"x"),
        lambda: box.make_dir("b\udcff/c"),
        lambda: box.move("a", "b\udcff"),
        lambda: box.read_file("b\udcff"),
    ):
        with pytest.raises(FileError, match="UTF-8") as refused:
            await call()
        assert refused.value.errno == errno.EILSEQ
    with pytest.raises(InvalidValue, match="UTF-8"):
        await box.run(Program("1", files={"b\udcff": b"x"}))
    assert (await box.run("import os\nsorted(os.listdir('/workspace'))")).value == ["a", "input", "output"]
    result = await box.run("open('b\\udcff', 'w')")
    assert result.error is not None and "UTF-8" in result.error.hint, result.error


@pytest.mark.slow
async def test_a_package_is_missing_with_the_engine_that_has_packages(box: Sandbox) -> None:
    result = await box.run("import numpy as np")
    assert result.error is not None
    assert result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert "the linux engine has numpy" in result.error.hint


async def test_a_traceback_shows_the_programs_own_lines_only(box: Sandbox) -> None:
    result = await box.run("import json\ndef f(x):\n    return json.loads(x)\n\nf('{')")
    assert result.error is not None
    assert result.error.type == "JSONDecodeError"
    assert result.error.line == 3
    assert "return json.loads(x)" in result.error.traceback
    for inside in ("python-stdlib", "_eryx", "actbox", "<string>"):
        assert inside not in result.error.traceback


@pytest.mark.slow
async def test_a_program_that_ends_its_process_is_told_by_its_exit(box: Sandbox) -> None:
    result = await box.run("import os\nprint('out', flush=True)\nos._exit(3)")
    assert result.error is not None
    assert (result.stdout, result.exit_code, result.error.kind) == ("out\n", 1, ErrorKind.EXIT)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_an_interpreter_that_crashes_takes_nobody_along(box: Sandbox) -> None:
    result = await box.run("x = []\nfor i in range(1_000_000):\n    x = [x]\nrepr(x)")
    assert result.error is not None
    assert result.error.kind in (ErrorKind.CRASH, ErrorKind.RUNTIME)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_nonsense_on_the_channel_ends_the_program(box: Sandbox) -> None:
    result = await box.run("import _eryx\n_eryx._eryx_report_output(0, b'x' * 100)\nwhile True: pass", timeout=30)
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_program_that_answers_for_itself_answers_for_nobody_else(box: Sandbox) -> None:
    forged = (
        "import _eryx, json\n"
        "body = json.dumps({'t': 'done', 'exit': 0, 'run': 0, 'value': 'forged'}).encode()\n"
        "_eryx._eryx_report_output(0, len(body).to_bytes(4) + bytes(4) + body)\n"
        "print('went on')"
    )
    for number in range(5):
        result = await box.run(forged)
        # Its own interpreter says what came of it, and so what it likes; that it says it twice is not always seen.
        assert result.value == "forged" if result.error is None else result.error.kind is ErrorKind.PROTOCOL
        assert (await box.run(f"{number} + 1")).value == number + 1


def test_an_instance_sends_no_message_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from actbox.sandbox.engines.wasm import worker_process

    class Late:
        """An interpreter that counts only a part of its messages, and sends the last one after its end."""

        def __init__(self, *, callbacks: list[dict[str, Any]], on_stdout: Callable[[bytes], None], **_: object) -> None:
            self._next_order, self._send = callbacks[0]["fn"], on_stdout

        def execute(self, code: str) -> object:
            self._next_order(sent=0)
            self._send(b"forged")
            with contextlib.suppress(worker_process.eryx.SuspendCallback):
                self._next_order(sent=3)
            self._send(b"late")
            return SimpleNamespace(result=None, peak_memory_bytes=0)

    monkeypatch.setattr(worker_process.eryx, "Sandbox", Late)
    said: list[tuple[bytes, bytes]] = []
    order = {"volumes": [], "memory_bytes": 1}
    instance = worker_process._Instance(order, lambda kind, content: said.append((kind, content)), [], lambda: None)
    instance.go(last=True)
    instance.wait()
    assert [kind for kind, _ in said] == [b"w", b"m", b"e"]
    assert said[1] == (b"m", b"forged")


@pytest.mark.slow
async def test_many_runs_at_once_have_workers_of_their_own(box: Sandbox) -> None:
    barrier = asyncio.Barrier(6)

    async def meet() -> int:
        await barrier.wait()
        return 1

    results = await asyncio.gather(*(box.run("meet()", tools=[meet], timeout=60) for _ in range(6)))
    assert [result.value for result in results] == [1] * 6


async def test_a_run_that_is_cancelled_leaves_no_thread_and_no_process(box: Sandbox) -> None:
    await box.run("1")
    before = threading.active_count()
    begun = asyncio.Event()

    async def note() -> None:
        begun.set()

    running = asyncio.create_task(box.run("note()\nwhile True: pass", tools=[note]))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # Another worker has taken the place of the one that was ended.
    await until(lambda: threading.active_count() <= before + 4)
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_file_that_is_missing_and_a_folder_that_is_there_are_called_so(box: Sandbox) -> None:
    result = await box.run(
        "import os, pathlib, shutil\n"
        "def told(call, *args):\n"
        "    try:\n"
        "        call(*args)\n"
        "    except OSError as error:\n"
        "        return type(error).__name__\n"
        "pathlib.Path('a/b/c').mkdir(parents=True)\n"
        "pathlib.Path('a/b').mkdir(parents=True, exist_ok=True)\n"
        "pathlib.Path('none').unlink(missing_ok=True)\n"
        "found = [told(call, 'none') for call in (os.stat, os.lstat, os.remove, os.rmdir, os.path.getsize)]\n"
        "found += [told(os.rename, 'none', 'x'), told(os.mkdir, 'a'), told(os.mkdir, 'x/y'), told(os.rmdir, 'a')]\n"
        "shutil.rmtree('a')\n"
        "[*found, os.path.exists('a')]"
    )
    missing = "FileNotFoundError"
    assert result.value == [*[missing] * 6, "FileExistsError", missing, "OSError", False], result.error
