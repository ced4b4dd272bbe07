"""The worker threads of sync tools."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from actbox.tools.threads import ThreadPool, run_in_thread
from tests.waiting import until


class Gate(threading.Event):
    """An event that calls wait for; `inside` has the arguments of the calls that have begun, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[int] = []

    def pass_through(self, n: int = 0) -> int:
        self.inside.append(n)
        self.wait()
        return n


async def begun_in(pool: ThreadPool, gate: Gate, n: int = 0) -> asyncio.Task[int]:
    """Make a call that waits at the gate, and return when a thread is inside it."""
    call = asyncio.create_task(pool.run(gate.pass_through, n))
    await until(lambda: n in gate.inside)
    return call


async def test_returns_what_the_function_returns_and_raises_what_it_raises():
    assert await run_in_thread(divmod, 7, 2) == (3, 1)
    assert await run_in_thread(int, "ff", base=16) == 255
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(divmod, 7, 0)


async def test_stop_iteration_does_not_hang_the_caller():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_in_thread(next, iter([]))


async def test_an_idle_thread_is_used_again():
    pool = ThreadPool()
    first = await pool.run(threading.get_ident)
    for _ in range(20):
        await until(lambda: pool._free == 1)  # the thread says that it is idle just after it has answered
        assert await pool.run(threading.get_ident) == first
    assert pool.threads == 1


async def test_calls_run_at_once_up_to_the_limit_and_then_in_the_order_in_which_they_came():
    pool = ThreadPool(limit=2)
    gates = [threading.Event() for _ in range(6)]
    begun: list[int] = []
    ended: list[int] = []
    at_once: list[int] = []

    def work(n: int) -> int:
        begun.append(n)
        at_once.append(len(begun) - len(ended))
        gates[n].wait()
        ended.append(n)
        return n

    tasks = []
    for n in range(6):
        tasks.append(asyncio.create_task(pool.run(work, n)))
        await asyncio.sleep(0)
    for n, gate in enumerate(gates):
        await until(lambda n=n: len(begun) == min(n + 2, 6))
        assert pool.threads == 2
        gate.set()
    assert await asyncio.gather(*tasks) == list(range(6))
    assert sorted(begun[:2]) == [0, 1] and begun[2:] == [2, 3, 4, 5] and max(at_once) == 2


async def test_a_dropped_call_that_never_returns_gives_its_place_to_the_next():
    pool = ThreadPool(limit=1)
    gate = Gate()
    try:
        for n in range(3):
            call = await begun_in(pool, gate, n)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call, 0.02)
        assert await asyncio.wait_for(pool.run(abs, -1), 60) == 1
        assert pool.threads == 1
    finally:
        gate.set()


async def test_a_call_that_waits_gets_the_place_of_a_dropped_one_at_once():
    pool = ThreadPool(limit=1)
    gate = Gate()
    try:
        stuck = await begun_in(pool, gate)
        waiting = asyncio.create_task(pool.run(abs, -1))
        await asyncio.sleep(0)
        assert not waiting.done() and pool.threads == 1
        stuck.cancel()
        assert await asyncio.wait_for(waiting, 60) == 1
    finally:
        gate.set()


async def test_dropped_calls_cannot_pile_up_without_bound():
    pool = ThreadPool(limit=1, dropped_limit=2)
    gate = Gate()
    for n in range(3):
        call = await begun_in(pool, gate, n)
        call.cancel()
    for n in range(3, 6):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.run(gate.pass_through, n), 0.05)
    assert gate.inside == [0, 1, 2]  # two were dropped, the third keeps the place that the others wait for
    gate.set()
    assert await asyncio.wait_for(pool.run(abs, -1), 60) == 1


async def test_a_cancelled_call_that_has_not_begun_never_begins():
    pool = ThreadPool(limit=1)
    gate = Gate()
    begun: list[int] = []
    first = await begun_in(pool, gate)
    second = asyncio.create_task(pool.run(begun.append, 1))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()
    await first
    assert await pool.run(abs, -2) == 2 and begun == []


async def test_idle_threads_end():
    pool = ThreadPool(idle_seconds=0.05)
    gate = Gate()
    calls = [await begun_in(pool, gate, n) for n in range(4)]
    assert pool.threads == 4
    gate.set()
    await asyncio.gather(*calls)
    await until(lambda: pool.threads == 0)
    assert await pool.run(abs, -1) == 1


@pytest.mark.slow
async def test_an_idle_thread_keeps_nothing_of_the_last_call_alive():
    class Big:
        pass

    pool = ThreadPool()
    argument = Big()
    gone = weakref.ref(argument)
    result = await pool.run(lambda thing: [thing], argument)
    assert result == [argument]
    del argument, result
    gc.collect()
    await until(lambda: gone() is None)


def test_a_loop_that_ended_while_a_call_ran_leaves_the_pool_usable():
    pool = ThreadPool(limit=1)
    gate = Gate()
    asyncio.run(begun_in(pool, gate))
    gate.set()
    assert asyncio.run(pool.run(abs, -1)) == 1


@pytest.mark.slow
async def test_ten_thousand_calls_all_return():
    pool = ThreadPool(limit=8)
    assert await asyncio.gather(*(pool.run(abs, -n) for n in range(10_000))) == list(range(10_000))
    assert pool.threads <= 8


@pytest.mark.slow
def test_a_call_that_never_returns_does_not_keep_the_interpreter_from_ending():
    program = (
        "import asyncio, threading\n"
        "from actbox.tools.threads import run_in_thread\n"
        "begun = threading.Event()\n"
        "async def main():\n"
        "    call = asyncio.create_task(run_in_thread(lambda: begun.set() or threading.Event().wait()))\n"
        "    await asyncio.to_thread(begun.wait)\n"
        "    try: await asyncio.wait_for(call, 0.05)\n"
        "    except TimeoutError: print('dropped')\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("dropped\n", "", 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_starts_threads_of_its_own():
    program = (
        "import asyncio, os\n"
        "from actbox.tools.threads import run_in_thread\n"
        "print(asyncio.run(run_in_thread(abs, -1)), flush=True)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print(asyncio.run(run_in_thread(abs, -2)), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\n2\n", done.stderr


@pytest.mark.slow
def test_importing_the_room_does_not_import_pydantic():
    program = "import sys, actbox.tools; print('pydantic' in sys.modules, 'pydantic_core' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False False\n", done.stderr
