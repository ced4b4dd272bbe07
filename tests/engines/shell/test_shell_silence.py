"""A shell that says nothing any more once a run was ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, Output
from tests.clock import Clock
from tests.engines.shell.local_shell import LocalShell


class Silent(LocalShell):
    """Takes commands and has nothing done, when told to."""

    is_silent = False

    async def open_process(self, arguments: Sequence[str]) -> Any:
        if not self.is_silent:
            return await super().open_process(arguments)
        return await asyncio.create_subprocess_exec("sleep", "600", stdin=-1, stdout=-1, stderr=-1)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_what_is_left_of_a_run_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(LocalShell, "cleanup_seconds", 0.5)
    async with Silent(python=sys.executable) as box:
        async for event in box.stream("print('begun', flush=True)\nimport time\ntime.sleep(600)", timeout=30):
            if isinstance(event, Output):
                box.is_silent = True
                clock.turn(30)
        box.is_silent = False
        assert isinstance(event, actbox.Completed) and event.result.error is not None
        assert event.result.error.kind is ErrorKind.TIMEOUT
        assert "has not said within" in event.result.warnings[0]
        assert (await box.run("1 + 1")).value == 2
