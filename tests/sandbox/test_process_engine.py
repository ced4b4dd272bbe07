"""The process engine ends what a program has started, wherever that has gone."""

from __future__ import annotations

import pytest

import actbox
from actbox.sandbox.engines import process


async def test_processes_are_looked_for_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    marked, found = process._marked_processes, []

    def watched(mark: bytes) -> list[int]:
        found.append(marked(mark))
        return found[-1]

    monkeypatch.setattr(process, "_marked_processes", watched)
    code = "import subprocess\nfor _ in range(20): subprocess.Popen(['setsid', 'sleep', '600'])"
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        assert (await box.run(code)).success
    assert found[0]  # those that had left the program's group, which is killed at once
    assert found[-2:] == [[], []]
