"""Modules that are imported ahead: what keeps one from being so is a note and a warning, and never a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import Policy
from actbox.sandbox.engines.linux import interpreter, nursery, stock
from tests.conftest import engine_check
from tests.waiting import until


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the nursery imports from as it does from installed packages."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(interpreter, "package_folders", lambda: [str(tmp_path)])
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise ValueError('not today')", "ValueError: not today"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import os\nos._exit(3)", "exit code 3"),
        ("import os\nos.abort()", "ended the process"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()", "threads"),
        ("import time\ntime.sleep(99)", "more than 60 seconds"),
    ],
)
async def test_a_module_that_cannot_be_preloaded_is_named_and_left_out(
    modules: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    if "seconds" in told:
        hear = nursery.Nursery._hear

        def hear_and_hurry(process: nursery.Nursery, op: str) -> tuple[dict[str, Any], list[int]]:
            answer, kept = hear(process, op)
            if answer.get("importing") == "bad_module":  # only what is not to come is waited for less long
                process._control.settimeout(0.5)
            return answer, kept

        monkeypatch.setattr(nursery.Nursery, "_hear", hear_and_hurry)
    (modules / "bad_module.py").write_text(source)
    (modules / "good_module.py").write_text("answer = 42")
    policy = Policy(preload=("bad_module", "good_module"))
    try:
        async with actbox.open_sandbox("linux", policy=policy) as box:
            (note,) = [note for note in box.traits.notes if "preload" in note]
            assert "bad_module" in note and told in note
            result = await box.run("import sys\n['good_module' in sys.modules, sys.modules['good_module'].answer]")
            assert result.value == [True, 42]
            assert result.warnings == (note,)
    finally:
        stock.close_all()


async def test_a_preloaded_module_changes_neither_signals_nor_streams(modules: Path) -> None:
    (modules / "changes_much.py").write_text(
        "import io, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *args: None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "sys.stdin = sys.stdout = sys.stderr = io.StringIO()\n"
    )
    program = (
        "import signal, sys\n"
        "print('printed', sys.stdout.seekable(), sys.stdin.read(), file=sys.stderr)\n"
        "[signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM),"
        " [*signal.pthread_sigmask(signal.SIG_BLOCK, [])]]"
    )
    try:
        async with actbox.open_sandbox("linux", policy=Policy(preload=("changes_much",))) as box:
            for result in (await box.run(program), await box.run(program)):  # of a new sandbox, and of a lane
                assert (result.stderr, result.value) == ("printed False \n", [True, 0, []])
    finally:
        stock.close_all()


async def test_every_program_is_told_of_a_module_that_is_not_there_and_no_command() -> None:
    try:
        async with actbox.open_sandbox("linux", policy=Policy(preload=("no_such_module",))) as box:
            results = [await box.run("1"), await box.run_alone("1")]
            results += [result async for result in box.map(["1", "2"])]
            async with box.session(forkable=True) as session:
                results.append(await session.run("1"))
                async with await session.fork() as copy:
                    results.append(await copy.run("1"))
            for result in results:
                assert result.success
                (warning,) = result.warnings
                assert (
                    warning == "preloading no_such_module failed: ModuleNotFoundError: No module named 'no_such_module'"
                )
            assert (await box.execute("true")).warnings == ()
    finally:
        stock.close_all()


async def test_a_sandbox_whose_modules_are_there_warns_of_nothing() -> None:
    async with actbox.open_sandbox("linux", policy=Policy(preload=("json",))) as box:
        assert (await box.run("1")).warnings == ()


async def test_after_the_first_pause_programs_that_await_find_asyncio_imported() -> None:
    async with actbox.open_sandbox("linux") as box:

        async def has_asyncio() -> bool:
            return (await box.run("import sys\n'asyncio' in sys.modules")).value is True

        await until(has_asyncio)


def test_asyncio_is_imported_from_the_standard_library_alone(tmp_path: Path) -> None:
    (tmp_path / "asyncio.py").write_text("raise SystemExit('a package was imported')")
    (tmp_path / "_ssl.py").write_text("raise SystemExit('a package was imported')")
    program = (
        "import sys\nfrom actbox.sandbox.nursery import server\nassert 'asyncio' not in sys.modules\n"
        "path = list(sys.path)\nsys.path.insert(0, sys.argv[1])\nsys.modules.pop('_ssl', None)\n"
        "server._import_asyncio(path)\nprint(sys.modules['asyncio'].run.__name__, sys.path[0] == sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "run True\n", done.stderr
