"""What is made ahead of runs: how much of it there is, who shares it, and when it goes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

import actbox
from actbox import Policy, SandboxUnavailable
from actbox.sandbox.engines.linux import engine, family, nursery, pool, stock
from actbox.sandbox.engines.linux.interpreter import Base, base_of
from actbox.sandbox.engines.linux.pool import MOST_READY, Pool
from actbox.sandbox.nursery import server
from tests.conftest import engine_check
from tests.contract.left_behind import parent, processes, processes_named
from tests.waiting import until, wait_until


class Item:
    """One thing of a pool's."""

    def __init__(self) -> None:
        self.stale = False
        self.discarded = False

    def discard(self) -> None:
        self.discarded = True

    def leave_to_parent(self) -> None:
        raise AssertionError("nobody has forked")


def fill(made: Pool[Item]) -> None:
    while made.fill():
        pass


@pytest.fixture
def items() -> Pool[Item]:
    return Pool(Item, lambda: None)


def test_a_pool_that_nobody_asks_has_nothing(items: Pool[Item]) -> None:
    fill(items)
    assert items.ready == 0


async def test_a_pool_that_is_found_empty_makes_twice_as_many_up_to_a_bound(items: Pool[Item]) -> None:
    ready = []
    for _ in range(6):
        while items.take_ready() is not None:
            pass
        waiting = asyncio.create_task(items.take())
        await asyncio.sleep(0)
        fill(items)
        await waiting
        fill(items)
        ready.append(items.ready)
    assert ready == [1, 4, *[MOST_READY] * 4]


def test_in_quiet_times_a_pool_lets_go_one_by_one(items: Pool[Item], monkeypatch: pytest.MonkeyPatch) -> None:
    items.expect(4)
    fill(items)
    items.relax(1)
    assert items.ready == 4, "the time is not quiet yet"
    monkeypatch.setattr(pool, "_QUIET_SECONDS", 0)
    for left in (3, 2, 1, 1):
        items.relax(1)
        assert items.ready == left


def test_what_went_stale_while_it_waited_is_not_given(items: Pool[Item]) -> None:
    items.expect(2)
    fill(items)
    stale = items._ready[0]
    stale.stale = True
    taken = items.take_ready()
    assert taken is not None and not taken.stale
    assert stale.discarded


# The real one


@pytest.fixture
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


async def test_sandboxes_share_one_nursery(linux_works: None) -> None:
    stock.close_all()
    async with actbox.open_sandbox("linux") as one, actbox.open_sandbox("linux") as other:
        await asyncio.gather(one.run("1"), other.run("1"))
        nurseries = processes_named("actbox-nursery")  # one that it has just forked is called the same for a moment
        assert len([nursery for nursery in nurseries if parent(nursery) == os.getpid()]) == 1


@pytest.mark.slow
async def test_a_sandbox_that_waits_for_the_trial_of_another_tries_anew_where_that_fails(
    linux_works: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock.close_all()
    tries = 0
    fails = asyncio.Event()
    why_not_born = engine.why_not_born

    async def first_fails(base: Base) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            await fails.wait()
            raise OSError("no descriptors")
        return await why_not_born(base)

    async def open_one() -> object:
        async with actbox.open_sandbox("linux") as box:
            return (await box.run("1")).value

    monkeypatch.setattr(engine, "why_not_born", first_fails)
    first = asyncio.create_task(open_one())
    await until(lambda: tries)
    second = asyncio.create_task(open_one())
    await asyncio.sleep(0.1)  # it waits for the first's
    fails.set()
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(one, SandboxUnavailable)
    assert (other, tries) == (1, 2)


@pytest.mark.slow
async def test_a_stock_that_is_not_used_is_closed_and_the_next_sandbox_has_another(
    linux_works: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock.close_all()
    monkeypatch.setattr(stock, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(stock, "_LOOK_SECONDS", 0.05)
    before = processes()
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await asyncio.sleep(0.5)
        assert stock.is_open(), "it is used"
    await until(lambda: not stock.is_open() and not processes() - before)
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("1")).value == 1


async def test_a_nursery_begins_with_open_sandbox_and_is_the_one_that_the_sandbox_uses(linux_works: None) -> None:
    policy = actbox.Policy(preload=("colorsys",))
    box = actbox.open_sandbox("linux", policy=policy)
    begun = nursery.start_nursery(base_of(policy))
    process = begun.pid
    assert begun.alive and not begun.is_open
    async with box:
        assert (await box.run("1")).value == 1
        assert (begun.pid, begun.starts, begun.is_open) == (process, 1, True)
        assert nursery.start_nursery(base_of(policy)) is begun


def test_a_nursery_that_no_sandbox_opens_ends_with_the_sandboxes_that_were_to_use_it(linux_works: None) -> None:
    policy = actbox.Policy(preload=("stringprep",))
    boxes = [actbox.open_sandbox("linux", policy=policy) for _ in range(2)]
    process = nursery.start_nursery(base_of(policy)).pid
    assert process in processes()
    boxes.clear()
    gc.collect()
    assert process not in processes()


async def test_a_nursery_that_ended_before_its_sandbox_started_is_started_again(linux_works: None) -> None:
    policy = actbox.Policy(preload=("nturl2path",))
    box = actbox.open_sandbox("linux", policy=policy)
    os.kill(nursery.start_nursery(base_of(policy)).pid, signal.SIGKILL)
    async with box:
        assert (await box.run("1")).value == 1


@pytest.mark.slow
def test_a_forked_process_holds_no_socket_of_a_nursery_that_its_parent_has_not_opened(linux_works: None) -> None:
    code = (
        "import os, actbox\nfrom actbox.sandbox.engines.linux.interpreter import Base\n"
        "from actbox.sandbox.engines.linux.nursery import start_nursery\n"
        "box = actbox.open_sandbox('linux')\nbegun = start_nursery(Base())\n"
        "held = f'/proc/self/fd/{begun._control.fileno()}'\nassert os.path.exists(held)\n"
        "child = os.fork()\n"
        "if not child: os._exit(os.path.exists(held) or begun.alive)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), begun.alive)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "True"], done.stderr


async def test_until_the_first_answer_nothing_is_made_for_later_runs(
    linux_works: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = actbox.Policy(preload=("sched",))
    asked: list[str] = []
    ask, prepare_next = nursery.Nursery.ask, engine.LinuxSandbox._prepare_next

    def note(of: nursery.Nursery, op: str, *arguments: Any, **request: Any) -> Any:
        if of.base == base_of(policy):
            asked.append(op)
        return ask(of, op, *arguments, **request)

    def note_next(box: engine.LinuxSandbox) -> None:
        if box._tries_birth:  # else it is the trial
            asked.append("the first run is over")
        prepare_next(box)

    monkeypatch.setattr(nursery.Nursery, "ask", note)
    monkeypatch.setattr(engine.LinuxSandbox, "_prepare_next", note_next)
    async with actbox.open_sandbox("linux", policy=policy) as box:
        assert (await box.run("1")).value == 1
    before = asked[: asked.index("the first run is over")]
    # One of each for the trial, and one for the run. An ordinary user's guests have a pool, which keeps two more ready.
    guests = 2 if os.geteuid() == 0 else 4
    assert [before.count(op) for op in ("open_workspace", "mounts")] == [2, 2], before
    assert before.count("spawn") <= guests, before


def test_no_short_pause_of_a_busy_host_has_the_nursery_share_its_memory_before_the_first_answer() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        one = server._Nursery(theirs)
        pauses = []
        for births, ends, shares in ((0, 0, False), (2, 0, False), (3, 1, False), (3, 2, False), (4, 2, True)):
            one._births, one._ends, one._shares_memory = births, ends, shares
            pauses.append(one._pause_ms())
    short, long = server._PAUSE_MS, server._LONG_PAUSE_MS
    assert pauses == [None, long, long, short, None] and short < long


async def test_work_that_fails_ends_neither_the_thread_nor_what_others_wait_for(
    linux_works: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        one = stock._stocks[stock._HOST]
        one.later(lambda: [][0])
        await until(lambda: "goes on" in caplog.text)
        one.drain()
        assert (await box.run("2")).value == 2


@pytest.mark.slow
def test_a_host_that_ends_leaves_no_nursery(linux_works: None) -> None:
    code = (
        "import actbox\nfrom actbox.sandbox.engines.linux import stock\nbox = actbox.sync.open_sandbox('linux')\n"
        "box.start()\nbox.run('1')\n(one,) = stock._stocks.values()\nprint(one.nursery.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    nursery = int(done.stdout)
    wait_until(lambda: not os.path.exists(f"/proc/{nursery}"))  # whoever inherits it has to reap it


@pytest.mark.slow
async def test_a_copy_is_ended_from_a_thread_while_the_event_loop_is_blocked_and_nobody_hears(
    linux_works: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(op: str, *args: object, **request: object) -> None:
        raise SandboxUnavailable(f"the sandbox could not be told ({op})")

    monkeypatch.setattr(family, "_END_SECONDS", 0.1)
    async with actbox.open_sandbox("linux") as box, box.session(forkable=True) as session:
        await session.run("x = 1")
        async with await session.fork() as copy:
            member = copy._guest.process
            monkeypatch.setattr(member._family._child, "tell", fail)
            buried = threading.Event()
            member._family._child.when_buried(lambda ending: buried.set())
            threading.Thread(target=member.kill_from_thread).start()
            assert buried.wait(60)  # without the event loop


@pytest.mark.parametrize("namespaces", ["lane", "run"])
async def test_runs_follow_after_the_directory_of_inputs_was_removed(linux_works: None, namespaces: Any) -> None:
    async with actbox.open_sandbox("linux", policy=Policy(namespaces=namespaces)) as box:
        for _ in range(4):
            assert (await box.run("import os\nos.listdir('/input')")).value == []
            await box.remove_file("/workspace/input", recursive=True)
        await box.write_file("/input/again", b"x")
        assert (await box.run("open('/input/again').read()")).value == "x"


@pytest.mark.skipif(sys.version_info[:2] not in ((3, 12), (3, 13)), reason="no immortal objects before CPython 3.12")
async def test_what_guests_only_look_at_stays_shared(linux_works: None) -> None:
    async with actbox.open_sandbox("linux") as box:
        counts = "[gc.get_freeze_count() > 10_000, sys.getrefcount(os.__dict__), sys.getrefcount(object())]"
        runs = [(await box.run(f"import gc, os, sys\n{counts}")).value for _ in range(30)]
    # The collector, which writes to each object that it visits, visits none of the nursery's.
    assert all(frozen for frozen, _, _ in runs)
    assert all(of_its_own < 2**30 for _, _, of_its_own in runs)
    # The nursery makes its objects immortal after its first sandboxes.
    assert all(references > 2**30 for _, references, _ in runs[-5:])
