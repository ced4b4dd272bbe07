"""A child, the nursery or the host is killed at any moment: callers are told, nothing is left, the next run works."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, Program, Sandbox
from tests.conftest import engine_check
from tests.contract.left_behind import as_many_as_before, groups
from tests.sandbox.killing import (
    GUEST,
    HANG_SECONDS,
    NURSERY,
    PID_1,
    alive_and_marked,
    kill_one,
    lost_processes,
    marked,
    new_mark,
    randomness,
    result_of,
)
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture(autouse=True)
def own_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside this one make folders too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture(params=[2, pytest.param(50, marks=pytest.mark.long)])
def times(request: pytest.FixtureRequest) -> int:
    """How often a test kills."""
    number: int = request.param
    return number


# The longest that a run is left alone before something is killed; most runs are over by then.
_LONGEST_WAIT_SECONDS = 0.08

_PROGRAM = """
import time
print(n, flush=True)
time.sleep(n % 5 / 100)
double(n)
"""


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def run_some(box: Sandbox) -> list[ExecutionResult]:
    """Run several programs at once, some of them in a workspace of their own; the one of number n gives 2 n."""
    runs = []
    for number in range(4):
        run = box.run_alone if number % 2 else box.run
        runs.append(run(Program(_PROGRAM, inputs={"n": number}), tools=[double]))
    return await asyncio.gather(*runs)


def assert_right(results: list[ExecutionResult]) -> None:
    """Those that succeeded are each the result of the program in their place."""
    for number, result in enumerate(results):
        if result.success:
            assert (result.value, result.stdout) == (2 * number, f"{number}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "told"),
    [
        # A guest that dies before its program has begun is no crash of the program.
        pytest.param(GUEST, {(ErrorKind.CRASH, 137), (ErrorKind.SANDBOX, 125)}, marks=pytest.mark.long),
        (PID_1, {(ErrorKind.CRASH, 137)}),
        (NURSERY, {(ErrorKind.SANDBOX, 125)}),
    ],
)
async def test_one_that_is_killed_at_any_moment_is_told_of_and_the_next_run_works(
    victim: str, told: set[tuple[ErrorKind, int]], times: int
) -> None:
    with randomness() as chosen, marked() as mark:
        async with actbox.open_sandbox("linux") as box:
            await box.write_text("kept", "before")
            await replace_the_nursery(box, chosen)
            async with as_many_as_before():
                for _ in range(times):
                    runs = asyncio.create_task(run_some(box))
                    await asyncio.sleep(chosen.uniform(0, _LONGEST_WAIT_SECONDS))
                    await kill_one(victim, chosen)
                    results = await result_of(runs, mark)
                    failed = [result for result in results if not result.success]
                    assert len(failed) <= (1 if victim != NURSERY else len(results))
                    for result in failed:
                        assert result.error is not None
                        assert (result.error.kind, result.exit_code) in told, result.to_dict()
                    assert_right(results)
                    after = await box.run("open('kept').read()")
                    assert after.value == "before", after.to_dict()
            assert lost_processes(mark) == set()


async def replace_the_nursery(box: Sandbox, chosen: random.Random) -> None:
    """Begin with a nursery that has taken over from another, as all later ones will: it holds what was handed to it."""
    await box.run("1")
    await kill_one(NURSERY, chosen)
    await box.run("1")
    await run_some(box)


# The host

_HOST = """
import asyncio, resource, sys
import actbox

resource.setrlimit(resource.RLIMIT_RSS, ({mark}, {mark}))

async def work(box):
    while True:
        await box.run("import subprocess\\nsubprocess.run(['sleep', '0.02'])")
        await box.run_alone("import time\\ntime.sleep(0.01)")

async def main():
    print("begun", flush=True)
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        print("running", flush=True)
        await asyncio.gather(*(work(box) for _ in range(3)))

asyncio.run(main())
"""
# Half of the hosts are killed in their first moments, while there is no nursery yet or only half a one.
_MOMENTS = ("running", "begun")
# Long enough, from such a moment on, that several runs begin and end.
_LONGEST_HOST_SECONDS = 0.4


@pytest.mark.slow
def test_a_host_that_is_killed_at_any_moment_leaves_no_process_and_the_next_host_removes_its_groups(
    times: int, tmp_path: Path
) -> None:
    with randomness() as chosen:
        killed = []
        for moment in itertools.islice(itertools.cycle(_MOMENTS), times):
            mark = new_mark()
            host = _start_host(mark, moment)
            if moment == "running":
                assert len(alive_and_marked(mark)) > 1, "the mark does not show what is below a host"
            time.sleep(chosen.uniform(0, _LONGEST_HOST_SECONDS))
            host.kill()
            host.wait()
            killed.append(host.pid)
            wait_until(lambda mark=mark: not alive_and_marked(mark))
            assert [path.name for path in tmp_path.iterdir() if path.name.startswith("actbox")] == []
        _run_in_another_host()
        assert [group for host in killed for group in groups(host)] == []


def _start_host(mark: int, moment: str) -> subprocess.Popen[str]:
    """Start a host and return it when it says that it has come so far."""
    host = subprocess.Popen([sys.executable, "-c", _HOST.format(mark=mark)], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        assert f"{moment}\n" in iter(host.stdout.readline, "")
    return host


def _run_in_another_host() -> None:
    code = "import actbox\nwith actbox.sync.open_sandbox('linux') as box: print(box.run('1 + 1').value)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.stdout == "2\n", done.stderr
