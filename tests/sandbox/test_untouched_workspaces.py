"""Single programs may get a workspace that another had: only where nothing can be seen of that one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from actbox import Sandbox, open_sandbox
from tests.waiting import until

LOOK = """
import os
seen = {}
for folder in (".", "input", "output"):
    status = os.stat(folder)
    seen[folder] = [sorted(os.listdir(folder)), oct(status.st_mode), status.st_mtime > 10**9]
seen
"""
FRESH = {
    ".": [["input", "output"], "0o40755", True],
    "input": [[], "0o40755", True],
    "output": [[], "0o40755", True],
}
# The descriptor keeps a device number from being used again while it is looked at.
WHERE = "import os\nos.stat('.').st_dev"

TRACES = {
    "a file": "open('left', 'w').write('x')",
    "a file that was removed again": "import os\nopen('output/a', 'w').close()\nos.remove('output/a')",
    "a folder": "import os\nos.mkdir('output/d')",
    "a link": "import os\nos.symlink('/etc', 'l')",
    "a mode": "import os\nos.chmod('output', 0o700)",
    "a mode that was set back": "import os\nos.chmod('.', 0o700)\nos.chmod('.', 0o755)",
    "a time": "import os\nos.utime('.', (1, 1))",
    "a child that goes on": (
        "import os, time\nif os.fork() == 0:\n    for _ in range(50):\n"
        "        time.sleep(0.01)\n        open(f'output/{_}', 'w').close()\n    os._exit(0)"
    ),
    "a failure after a file": "open('left', 'w').write('x')\n1 / 0",
}


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with open_sandbox("linux") as box:
        await asyncio.sleep(0.05)
        yield box


@pytest.mark.slow
@pytest.mark.parametrize("mischief", TRACES.values(), ids=TRACES)
async def test_a_single_program_sees_nothing_of_what_another_did(box: Sandbox, mischief: str) -> None:
    await box.run_alone("1")
    await box.run_alone(mischief)
    looks = [(await box.run_alone(LOOK)).value for _ in range(3)]
    assert looks == [FRESH] * 3


async def test_a_workspace_in_which_nothing_was_done_is_used_again(box: Sandbox) -> None:
    await box.run_alone("1")
    places = []

    async def one_was_used_again() -> bool:
        await asyncio.sleep(0.05)  # what a program had is given to the next only once all its processes have ended
        places.append((await box.run_alone(WHERE)).value)
        return len(set(places)) < len(places)

    await until(one_was_used_again)


async def test_files_that_were_given_to_a_single_program_are_not_there_for_the_next(box: Sandbox) -> None:
    from actbox import Program

    for number in range(3):
        await asyncio.sleep(0.03)
        given = Program("open('input/a').read()", files={"a": str(number)})
        assert (await box.run_alone(given)).value == str(number)
        assert (await box.run_alone(LOOK)).value == FRESH


@pytest.mark.slow
async def test_programs_that_run_alone_at_once_never_share_a_workspace(box: Sandbox) -> None:
    for _ in range(3):
        values = await asyncio.gather(
            *(
                box.run_alone(f"import time\nopen('a', 'x').write('{n}')\ntime.sleep(0.02)\nopen('a').read()")
                for n in range(5)
            )
        )
        assert [each.value for each in values] == [str(n) for n in range(5)]


@pytest.mark.slow
async def test_a_stream_of_one_that_is_closed_early_leaves_nothing_behind(box: Sandbox) -> None:
    for _ in range(3):
        async for _event in box.stream_alone("print(1, flush=True)\nimport time\ntime.sleep(0.1)\nopen('a', 'w')"):
            break
        assert (await box.run_alone(LOOK)).value == FRESH
