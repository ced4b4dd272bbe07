"""The process engine ends what a program has started, wherever that has gone."""

from __future__ import annotations

import pytest

import actbox
from actbox import Policy, Unsupported
from actbox.sandbox.engines import process


def test_a_bound_on_all_files_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"the process engine .*Limits\.disk_mib .* the linux engine can"):
        actbox.open_sandbox("process", policy=Policy.strict(), allow_unisolated=True)


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
