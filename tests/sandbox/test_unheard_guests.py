"""Guests of the linux engine that tell nothing of their run, or were told nothing of it."""

from __future__ import annotations

from unittest import mock

import actbox
from actbox import ErrorKind
from actbox.sandbox import runs
from tests.sandbox.in_lanes import lane_of, lanes_of, linux_works, ready  # noqa: F401 (a fixture for all here)


async def test_a_program_that_poses_as_one_with_a_result_is_not_waited_for() -> None:
    with mock.patch.object(runs, "_GRACE_SECONDS", 1000.0):
        async with actbox.open_sandbox("linux") as box:
            for _ in range(2):  # as the first run of a lane, and as a later one
                ended = await box.run("import os\nos._exit(231)", timeout=20)
                assert (ended.exit_code, ended.error and ended.error.kind) == (231, ErrorKind.EXIT)
                assert not lanes_of(box)._all
                assert (await box.run("1 + 1")).value == 2
                await ready(box)
