"""Modules that are imported ahead: what keeps one from being so is a note, and never a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import actbox
from actbox import Policy
from actbox.sandbox.engines.linux import nursery, stock
from tests.conftest import engine_check


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the nursery imports from as it does from installed packages."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(nursery, "package_folders", lambda: [str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise ValueError('not today')", "ValueError: not today"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import os\nos._exit(3)", "exit code 3"),
        ("import os\nos.abort()", "ended the process"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()", "threads"),
        ("import time\ntime.sleep(99)", "more than 2 seconds"),
    ],
)
async def test_a_module_that_cannot_be_preloaded_is_named_and_left_out(
    modules: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    monkeypatch.setattr(nursery, "PRELOAD_SECONDS", 2.0)
    (modules / "bad_module.py").write_text(source)
    (modules / "good_module.py").write_text("answer = 42")
    policy = Policy(preload=("bad_module", "good_module"))
    try:
        async with actbox.open_sandbox("linux", policy=policy) as box:
            (note,) = [note for note in box.traits.notes if "preload" in note]
            assert "bad_module" in note and told in note
            result = await box.run("import sys\n['good_module' in sys.modules, sys.modules['good_module'].answer]")
            assert result.value == [True, 42]
    finally:
        stock.close_all()
