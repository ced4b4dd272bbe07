"""Killing our own processes at random moments, so that a failure can be repeated by its seed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tests.contract.left_behind import parent, processes, processes_named

SEED = "ACTBOX_TEST_SEED"
"""The environment variable that repeats what was random."""

HANG_SECONDS = 60
"""Nothing here takes as long; what does hangs."""

T = TypeVar("T")

GUEST, PID_1, NURSERY = "actbox-guest", "actbox-init", "actbox-nursery"


@contextlib.contextmanager
def randomness() -> Iterator[random.Random]:
    """Give a source of randomness; what fails in the block says by which seed it can be had again."""
    seed = int(os.environ.get(SEED) or random.randrange(2**32))
    try:
        yield random.Random(seed)
    except BaseException as error:
        error.add_note(f"the random moments can be had again with {SEED}={seed}")
        raise


async def kill_one(name: str, chosen: random.Random) -> None:
    """Kill a process below this one that has this name, as soon as there is one, and wait until it is dead.

    A guest takes its sandbox along: that is waited for too. Whatever a nursery has just forked bears its name for a
    moment, and may be somebody's sandbox when the signal comes; the nursery is the one that this process has started.
    """
    while not (found := [one for one in processes_named(name) if name != NURSERY or parent(one) == os.getpid()]):
        await asyncio.sleep(0)
    process = chosen.choice(found)
    gone = {process, parent(process)} if name == GUEST else {process}
    # It may have ended meanwhile, which is one of the moments too.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    while gone & {*processes_named(name), *processes_named(PID_1)}:  # a run that begins now may go along
        await asyncio.sleep(0)


async def result_of(task: asyncio.Task[T], mark: int) -> T:
    """Await a task that must not hang. If it does, end what it may be waiting for, so that the test can end too."""
    done, _ = await asyncio.wait({task}, timeout=HANG_SECONDS)
    if not done:
        lost = lost_processes(mark)
        for process in lost:
            os.kill(process, signal.SIGKILL)
        raise AssertionError(f"what was to be told of the killing hangs; lost processes: {sorted(lost)}")
    return task.result()


@contextlib.contextmanager
def marked() -> Iterator[int]:
    """Mark what is started in the block, and whatever comes from that, and give the mark."""
    mark = new_mark()
    soft, hard = resource.getrlimit(resource.RLIMIT_RSS)
    resource.setrlimit(resource.RLIMIT_RSS, (mark, hard))
    try:
        yield mark
    finally:
        resource.setrlimit(resource.RLIMIT_RSS, (soft, hard))


def new_mark() -> int:
    """A value for `RLIMIT_RSS`, which Linux ignores, and which every process passes on to its children."""
    return 2**50 + os.getpid() * 2**20 + random.randrange(2**20)


def alive_and_marked(mark: int) -> set[int]:
    """Processes with this mark, wherever they hang. One that only waits for init to reap it is init's."""
    found = set()
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):  # it has ended
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            limits = Path(f"/proc/{process}/limits").read_text()
            if state not in "ZX" and f" {mark} " in limits:
                found.add(process)
    return found


def lost_processes(mark: int) -> set[int]:
    """Processes with this mark that are not below this one any more: whoever should have ended them has died."""
    return alive_and_marked(mark) - {os.getpid(), *processes()}
