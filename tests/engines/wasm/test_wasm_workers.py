"""Worker processes: none outlives its host, and those that wait are used again."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, Sandbox
from actbox.sandbox.engines.wasm.pool import worker_pool
from actbox.sandbox.engines.wasm.tree_removal import remove_tree
from actbox.sandbox.engines.wasm.worker import Worker
from tests.waiting import wait_until

_CHECK = import_module("actbox.sandbox.engines.wasm")  # the package has a function of that name
_HOST = """
import asyncio, actbox, sys
from actbox.sandbox.engines.wasm.runtime import runtime
from actbox.sandbox.engines.wasm.pool import worker_pool
async def main():
    async with actbox.open_sandbox("wasm") as box:
        await box.run("1")
        async def note():
            print(runtime().folder, flush=True)
        await box.run("note()\\nwhile True: pass", tools=[note])
asyncio.run(main())
"""


_BUSY = """
import asyncio, actbox, sys
from actbox.sandbox.engines.wasm.runtime import runtime
NEST = "os.mkdir(f'/tmp/{n}'); os.rename('/tmp/t', f'/tmp/{n}/d'); os.rename(f'/tmp/{n}', '/tmp/t')"
DEEP = f"for n in range(1500): {NEST}"
MORE = "n = 0\\nwhile True: n += 1; os.makedirs(f'/tmp/{n % 50}/{n}'); open(f'/tmp/{n}', 'w')"
FILL = f"import os\\nos.mkdir('/tmp/t')\\n{DEEP}\\nnote()\\n{MORE}"
LONG = actbox.Policy(limits=actbox.Limits(wall_seconds=600, cpu_seconds=600))
async def main():
    async with actbox.open_sandbox("wasm", policy=LONG) as box:
        began = []
        async def note():
            began.append(1)
            if len(began) == 2:
                print(runtime().folder, flush=True)
        await asyncio.gather(box.run(FILL, tools=[note]), box.run(FILL, tools=[note]))
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("program", [_HOST, _BUSY], ids=["that compute", "that make files, however deep"])
def test_a_host_that_is_killed_takes_workers_along_and_files_of_programs(program: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        said = host.stdout.readline().strip()
        folder = Path(said)
        assert said and folder.is_dir()
        os.kill(host.pid, signal.SIGKILL)
        host.wait()
    # What lies thousands of folders deep takes a worker many seconds.
    wait_until(lambda: not folder.exists(), 240)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on open files")
def test_a_folder_is_removed_however_deep_it_is_and_no_link_in_it_is_followed(tmp_path: Path) -> None:
    import resource

    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("x")
    deep = tmp_path / "deep"
    deep.mkdir()
    folder = os.open(deep, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        os.symlink(tmp_path / "kept", "link", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], 512), limits[1]))
    try:
        remove_tree(str(deep))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept/file").exists()


@pytest.mark.slow
def test_a_host_that_ends_leaves_nothing() -> None:
    program = _HOST.replace("\\nwhile True: pass", "")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert told.stderr == ""
    folder = Path(told.stdout.strip())
    wait_until(lambda: not folder.exists())


@pytest.mark.slow
def test_no_worker_that_waits_lives_when_a_host_that_ends_removes_their_files() -> None:
    program = """
import asyncio, actbox
from actbox.sandbox.engines.wasm import runtime
from actbox.sandbox.engines.wasm.pool import worker_pool
async def main():
    async with actbox.open_sandbox("wasm") as box:
        await box.run("1")
        return list(worker_pool()._idle)
waiting = asyncio.run(main())
remove = runtime.remove_tree
def watched(folder):
    print(len(waiting), any(worker.alive for worker in waiting))
    remove(folder)
runtime.remove_tree = watched
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    waiting, is_any_alive = told.stdout.split()
    assert (int(waiting) > 0, is_any_alive, told.stderr) == (True, "False", "")


@pytest.mark.slow
async def test_a_worker_that_waits_is_taken_by_the_next_run(box: Sandbox) -> None:
    await box.run("1")
    processes = {worker._process.pid for worker in worker_pool()._idle}
    for _ in range(3):
        await box.run("1")
    assert processes & {worker._process.pid for worker in worker_pool()._idle}


@pytest.mark.slow
async def test_a_worker_that_dies_while_it_waits_is_not_used(box: Sandbox) -> None:
    await box.run("1")
    for worker in list(worker_pool()._idle):
        worker._process.kill()
        worker._process.wait()
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_worker_that_was_dead_before_a_program_began_is_not_the_programs_fault(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await box.run("1")
    dead = list(worker_pool()._idle)
    for worker in dead:
        worker._process.kill()
        worker._thread.join()
    monkeypatch.setattr(Worker, "alive", True)  # as it seems, where it dies a moment later
    assert (await box.run("1 + 1", timeout=60)).value == 2
    assert not set(dead) & set(worker_pool()._idle)


@pytest.mark.slow
async def test_where_every_worker_is_dead_before_a_program_begins_that_is_said(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Worker.begin

    def too_late(worker: Worker, *args: object, **kwargs: object) -> None:
        worker._process.kill()
        begin(worker, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "begin", too_late)
    for place in (box, box.session()):
        result = await place.run("1 + 1", timeout=60)
        assert result.error is not None
        assert result.error.kind is ErrorKind.SANDBOX, result.error


@pytest.mark.slow
async def test_a_worker_that_dies_with_a_program_is_told(box: Sandbox) -> None:
    async def end_it() -> None:
        # Whoever has a program, wherever it came from: more workers are made beside it.
        for worker in [each for each in gc.get_objects() if isinstance(each, Worker)]:
            if worker._listener is not None:
                worker._process.kill()

    result = await box.run("end_it()\nwhile True: pass", tools=[end_it], timeout=60)
    assert result.error is not None
    assert result.error.kind is ErrorKind.CRASH
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_sandbox_can_be_used_from_one_event_loop_after_the_other() -> None:
    box = actbox.open_sandbox("wasm")

    def in_a_loop_of_its_own() -> object:
        async def run() -> object:
            async with box:
                return (await box.run("2 * 21")).value

        return asyncio.run(run())

    assert [await asyncio.to_thread(in_a_loop_of_its_own) for _ in range(2)] == [42, 42]


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_CHECK, "version", lambda name: "0.12.1")
    found = actbox.check("wasm")
    assert not found.works
    assert "0.11, not 0.12.1" in found.reason
    with pytest.raises(actbox.SandboxUnavailable, match=r"0\.11"):
        actbox.open_sandbox("wasm")


def test_an_older_python_is_told_which_one_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_CHECK.sys, "version_info", (3, 11, 9))
    found = actbox.check("wasm")
    assert not found.works
    assert "3.12" in found.reason and "this is 3.11" in found.reason and "Python 3.12 or later" in found.advice


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_CHECK, "find_spec", lambda name: None)
    with pytest.raises(actbox.SandboxUnavailable, match=r"pip install 'actbox\[wasm\]'"):
        actbox.open_sandbox("wasm")
    found = actbox.check("wasm")
    assert found.advice == "pip install 'actbox[wasm]'" and "pip install" not in found.reason


def test_output_that_looks_like_the_beginning_of_the_mark_is_sent_without_waiting_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker_process = pytest.importorskip("actbox.sandbox.engines.wasm.worker_process", exc_type=ImportError)
    monkeypatch.setattr(worker_process.secrets, "token_bytes", lambda size: b"\n" + bytes(size - 1))
    descriptor = os.dup(1)
    sent: queue.Queue[tuple[bytes, bytes]] = queue.Queue()
    try:
        printed = worker_process._Printed(descriptor, lambda kind, data: sent.put((kind, data)))
        os.write(descriptor, b"begun\n")
        assert sent.get(timeout=60) == (b"%d" % descriptor, b"begun\n")
        os.write(descriptor, b"more\n")
        worker_process._Printed.flush([printed])
        assert b"".join(sent.get_nowait()[1] for _ in range(sent.qsize())) == b"more\n"
    finally:
        os.close(descriptor)
