"""Names that this machine's resolver is slow to answer for cost nobody else anything."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actbox.sandbox.egress.resolver import SystemResolver


class SlowNames:
    """Stands in for a name server on the network that answers for `slow` names only when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let = threading.Event()
        self._look_up = socket.getaddrinfo

    def __call__(self, name: str, *rest: Any, **more: Any) -> Any:
        if not name.startswith("slow"):
            return self._look_up(name, *rest, **more)
        self.asked.append(name)
        self.let.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    names = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    yield names
    names.let.set()


async def test_names_are_found_and_those_that_do_not_exist_are_an_error():
    resolve = SystemResolver()
    assert "127.0.0.1" in await resolve("localhost", 80)
    with pytest.raises(OSError):
        await resolve("name with spaces", 80)


async def test_slow_names_of_one_sandbox_take_few_threads_even_when_nobody_waits_for_them_any_more(slow: SlowNames):
    greedy = SystemResolver()
    for wave in range(3):
        asking = [asyncio.create_task(greedy(f"slow{wave}.{number}", 80)) for number in range(20)]
        async with asyncio.timeout(30):
            while len(slow.asked) < 4:
                await asyncio.sleep(0.005)
        assert "127.0.0.1" in await SystemResolver()("localhost", 80)
        assert await asyncio.to_thread(lambda: 1) == 1
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert len(slow.asked) == 4
    slow.let.set()
    assert await greedy("slow.at.last", 80) == ["192.0.2.1"]


def test_look_ups_whose_event_loop_is_closed_leave_their_turns_to_other_loops(slow: SlowNames):
    resolve = SystemResolver()

    async def give_up(number: int) -> None:
        asking = asyncio.create_task(resolve(f"slow.{number}", 80))
        async with asyncio.timeout(30):
            while len(slow.asked) <= number:
                await asyncio.sleep(0.005)
        asking.cancel()

    for number in range(4):
        asyncio.run(give_up(number))
    slow.let.set()
    assert asyncio.run(asyncio.wait_for(resolve("slow.at.last", 80), 30)) == ["192.0.2.1"]


@pytest.mark.slow
def test_a_process_ends_although_a_look_up_is_stuck():
    program = """
import asyncio, socket, threading
from actbox.sandbox.egress.resolver import SystemResolver
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
async def main():
    try:
        async with asyncio.timeout(0.1):
            await SystemResolver()("stuck.example", 80)
    except TimeoutError:
        print("given up")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("given up\n", 0), done.stderr


@pytest.mark.slow
def test_a_fork_of_a_process_that_has_looked_names_up_can_do_so_too():
    program = """
import asyncio, os
from actbox.sandbox.egress.resolver import SystemResolver
async def main():
    async with asyncio.timeout(60):
        print("127.0.0.1" in await SystemResolver()("localhost", 80), flush=True)
asyncio.run(main())
child = os.fork()
if not child:
    asyncio.run(main())
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0), done.stderr
