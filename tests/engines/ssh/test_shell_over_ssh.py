"""A sandbox over a shell behind a real sshd: tools by files, and by HTTP to this machine."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import pytest

from actbox import ErrorKind, Limits, Policy, ProcessShell, ToolAddress, shell_traits
from actbox.sandbox.engines.ssh import SshTarget
from tests.clock import Clock
from tests.engines.ssh.ssh_server import SshServer

pytestmark = pytest.mark.engines

ADDRESSES = {"files": None, "http": ToolAddress(), "https": ToolAddress(host="localhost", tls=True)}


class SshShell(ProcessShell):
    traits = shell_traits("ssh-shell", isolation="another machine; on it none")
    target: SshTarget

    async def open_process(self, arguments: Sequence[str]) -> Process:
        command = self.target.command(list(arguments))
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)


def shell_on(server: SshServer, way: str) -> SshShell:
    policy = Policy(limits=Limits(wall_seconds=60))
    shell = SshShell(policy, python=sys.executable, tool_address=ADDRESSES[way])
    shell.target = SshTarget(**server.options)
    return shell


@pytest.mark.parametrize("way", list(ADDRESSES))
async def test_programs_there_call_tools_here(server: SshServer, way: str) -> None:
    there = asyncio.Barrier(3)

    async def meet(number: int) -> int:
        await there.wait()
        return number * 2

    async with shell_on(server, way) as box:
        plain = await box.run("[double(n) for n in range(5)]", tools=[double])
        assert plain.value == [0, 2, 4, 6, 8]
        gathered = await box.run("import asyncio\nawait asyncio.gather(meet(1), meet(2), meet(3))", tools=[meet])
        assert gathered.value == [2, 4, 6]


@pytest.mark.parametrize("way", list(ADDRESSES))
async def test_a_program_there_that_runs_out_of_time_in_a_call_is_ended_with_it(
    server: SshServer, way: str, clock: Clock
) -> None:
    called, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        called.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with shell_on(server, way) as box:
        running = asyncio.create_task(box.run("hang()", tools=[hang], timeout=30))
        await called.wait()
        clock.turn(30)
        result = await running
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        await cancelled.wait()
        assert (await box.run("double(3)", tools=[double])).value == 6


def double(n: int) -> int:
    return n * 2
