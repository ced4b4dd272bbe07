"""`map` while its children are killed at random: results in order, none lost, none doubled."""

from __future__ import annotations

import asyncio

import pytest

import actbox
from actbox import ErrorKind, Program
from tests.conftest import engine_check
from tests.sandbox.killing import GUEST, PID_1, kill_one, randomness

_PROGRAMS = 300
_KILLED = 9  # 3 %


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_children_that_are_killed_at_random_lose_and_double_no_result(ordered: bool) -> None:
    programs = [Program("import time\ntime.sleep(0.01)\n[n]", inputs={"n": number}) for number in range(_PROGRAMS)]
    with randomness() as chosen:
        kill_after = chosen.sample(range(_PROGRAMS - 8), _KILLED)
        async with actbox.open_sandbox("linux") as box:
            pairs = []
            async for index, result in box.map_indexed(programs, concurrency=8, ordered=ordered):
                if len(pairs) in kill_after:
                    await asyncio.sleep(chosen.uniform(0, 0.02))
                    await asyncio.wait_for(kill_one(chosen.choice([GUEST, PID_1]), chosen), 60)
                pairs.append((index, result))
        indexes = [index for index, _ in pairs]
        assert (indexes if ordered else sorted(indexes)) == list(range(_PROGRAMS))
        failed = [result for _, result in pairs if result.error is not None]
        assert len(failed) <= _KILLED
        assert {result.error.kind for result in failed if result.error} <= {ErrorKind.CRASH, ErrorKind.SANDBOX}
        assert all(result.value == [index] for index, result in pairs if result.error is None)
