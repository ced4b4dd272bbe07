"""A program whose network cannot be opened runs without one, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from types import SimpleNamespace
from typing import Any

import pytest

import actbox
from actbox import AllowedDomain, Policy
from actbox.sandbox.egress import gate
from tests.conftest import engine_check
from tests.waiting import until


async def test_no_descriptor_is_left_of_a_network_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
    async with actbox.open_sandbox("linux", policy=Policy(domains=[AllowedDomain("allowed.example")])) as box:
        assert (await box.run("1")).value == 1

        def fail(*given: Any, **more: Any) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        closed: list[int] = []
        close = gate._close

        async def wait() -> None:
            """Return once the network's descriptors are closed."""
            await until(lambda: closed)

        monkeypatch.setattr(gate, "_close", lambda descriptors: (closed.extend(descriptors), close(descriptors)))
        monkeypatch.setattr(gate, "socket", SimpleNamespace(socket=fail))
        with caplog.at_level(logging.ERROR, "actbox"):
            result = await box.run("wait()\nprint('ran')", tools=[wait])
        monkeypatch.undo()
    assert (result.stdout, result.error) == ("ran\n", None)
    assert "a program gets no network: [Errno 24] Too many open files" in caplog.text
    assert unhandled == []
