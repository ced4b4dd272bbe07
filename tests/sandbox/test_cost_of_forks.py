"""The work that a fork of a session takes: processes, messages and page faults, counted."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import Sandbox, Session
from actbox.sandbox.channel.link import Link
from actbox.sandbox.engines.linux import child, family
from actbox.sandbox.engines.linux.stock import Stock
from tests.conftest import engine_check
from tests.waiting import until

# Some 370 to its answer, measured; each is a page that the copy has written to, or that it has read from a file.
# Counted on CPython 3.13 and 3.11, with a tenth more; where objects are not immortal, each that is read is written to.
_FAULTS_OF_A_COPY = 450 if (3, 12) <= sys.version_info[:2] <= (3, 13) else 700
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    async with actbox.open_sandbox("linux") as box:
        yield box


@pytest_asyncio.fixture
async def origin(box: Sandbox) -> AsyncIterator[Session]:
    async with box.session(forkable=True) as session:
        await session.run("import os, resource")
        yield session


async def test_a_copy_takes_one_new_process_which_is_no_child_of_its_original(origin: Session) -> None:
    ids = []
    for _ in range(3):
        async with await origin.fork() as copy:
            ids.append((await copy.run("[os.getpid(), os.getppid()]")).value)
    first = ids[0][0]
    assert ids == [[first + number, 1] for number in range(3)]
    waited = await origin.run("os.wait()")
    assert waited.error is not None and waited.error.type == "ChildProcessError"


async def test_the_c_library_of_a_copy_knows_its_thread(origin: Session) -> None:
    look = (
        "import ctypes, threading\nplace = ctypes.c_ulong()\nctypes.CDLL(None).prctl(40, ctypes.byref(place))\n"
        "[ctypes.c_int.from_address(place.value).value, threading.get_native_id()]"
    )
    known, own = (await origin.run(look)).value
    if known != own:
        pytest.skip("this C library keeps its thread id elsewhere")
    async with await origin.fork() as copy, await copy.fork() as again:
        for session in (copy, again):
            known, own = (await session.run(look)).value
            assert known == own


async def test_a_session_forks_twice_where_its_c_library_hides_its_thread_id(origin: Session) -> None:
    await origin.run(
        "import sys\nfork, = [module for name, module in sys.modules.items() if name.endswith('guest.fork')]\n"
        "fork._clone_sibling = lambda: None\nx = 1"
    )
    async with await origin.fork() as copy:
        assert (await copy.run("[x, os.getppid()]")).value == [1, 1]
    waited = await origin.run("os.wait()")
    assert waited.error is not None and waited.error.type == "ChildProcessError"


async def test_a_fork_finds_its_tree_made_and_takes_five_messages(
    origin: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def note(owner: Any, name: str, what: Any) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def noting(*given: Any, **named: Any) -> Any:
            told.append(what(*given))
            return function(*given, **named)

        monkeypatch.setattr(owner, name, noting)

    await (await origin.fork()).close()
    note(child.Child, "tell", lambda _, op, *rest: f"pid 1: {op}")
    note(Stock, "ask", lambda _, op, *rest: f"nursery: {op}")
    note(Link, "send", lambda _, frame: f"guest: {_kind(frame)}")
    note(Link, "send_with", lambda _, frame, given: f"guest: {_kind(frame)}")
    copy = await origin.fork()
    sent = [what for what in told if not what.startswith("nursery")]
    assert sent[0] == "guest: fork"  # before the next tree is ordered
    needed = [what for what in sent if what != "pid 1: make_tree"]
    assert needed == ["guest: fork", "pid 1: adopt", "guest: release", "guest: release"]

    async def next_tree_is_ordered() -> bool:
        return told.count("pid 1: make_tree") == 1

    await until(next_tree_is_ordered)
    await copy.close()


async def test_a_copy_writes_to_few_pages(origin: Session) -> None:
    faults = []
    for _ in range(3):
        async with await origin.fork() as copy:
            faults.append((await copy.run("resource.getrusage(resource.RUSAGE_SELF).ru_minflt")).value)
    assert min(faults) <= _FAULTS_OF_A_COPY, faults


async def test_the_original_pauses_until_its_files_are_copied(origin: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    tick = (
        "import asyncio\nasync def tick():\n    global ticks\n    while True:\n        await asyncio.sleep(0)\n"
        "        open('log', 'ab').write(b'x')\n        ticks += 1\n"
        "ticks = 0\ntask = asyncio.create_task(tick())\nawait asyncio.sleep(0.01)"
    )
    assert (await origin.run(tick)).success
    ask = family.Family._ask

    async def ask_late(whole: family.Family, op: str, number: int, **request: Any) -> None:
        await asyncio.sleep(0.05)  # time for many ticks
        await ask(whole, op, number, **request)

    monkeypatch.setattr(family.Family, "_ask", ask_late)
    for _ in range(2):
        async with await origin.fork() as copy:
            assert (await copy.run("ticks - os.path.getsize('log')")).value == 0
            assert (await copy.run("ticks")).value > 0
    assert (await origin.run("ticks - os.path.getsize('log')")).value == 0


def test_what_making_objects_immortal_needed_is_given_back() -> None:
    program = (
        "import gc, json, sys\nfrom actbox.sandbox.nursery.share import share_memory\n"
        "share_memory()\ngc.unfreeze()\n"
        "print(json.dumps([len(held) for held in gc.get_objects() if type(held) is set and len(held) > 10_000]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_memory_that_all_forks_share_lies_in_huge_pages() -> None:
    program = (
        "import re\nfrom pathlib import Path\nfrom actbox.sandbox.nursery.share import share_memory\n"
        "kept = [[number] for number in range(400_000)]\nshare_memory()\n"
        "print(re.search(r'AnonHugePages: +([0-9]+)', Path('/proc/self/smaps_rollup').read_text())[1])"
    )
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 1) or not os.path.exists(_HUGE_PAGES):
        pytest.skip("this kernel does not make huge pages on request")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 2 * 1024


def _kind(frame: bytes) -> str:
    return next(kind for kind in ("fork", "release", "run") if f'"t":"{kind}"'.encode() in bytes(frame))
