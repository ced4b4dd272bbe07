"""Sandboxes over a shell of this machine: the smallest that there are. They isolate nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from subprocess import CompletedProcess

from actbox import ProcessShell, ShellSandbox, shell_traits
from actbox.core.events import Completed, Event, Output
from actbox.core.result import ExecutionResult
from actbox.sandbox.cancellation import whole
from actbox.sandbox.contract import Command


class LocalShell(ProcessShell):
    traits = shell_traits("local-shell", isolation="none: programs run as this user on this machine")

    async def open_process(self, arguments: Sequence[str]) -> Process:
        return await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)


class PlainShell(ShellSandbox):
    """Nothing but `execute_stream`, as somebody would write it who knows no more than the contract."""

    traits = shell_traits("plain", isolation="none", partial_output=False)

    async def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        arguments = ["sh", "-c", command] if isinstance(command, str) else command
        starting = asyncio.create_subprocess_exec(
            *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd or self.root, env={**os.environ, **(env or {})}
        )
        process = await whole(starting, _end)  # whoever reads the events may go at any time
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(stdin), timeout)
        finally:
            if process.returncode is None:
                await _end(process)
        said, complained = (data.decode("utf-8", "replace") for data in (stdout, stderr))
        yield Output("stdout", said)
        yield Output("stderr", complained)
        assert process.returncode is not None
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        yield Completed(ExecutionResult(stdout=said, stderr=complained, exit_code=code, sandbox="plain"))


class CallShell(ShellSandbox):
    """Over a call that nobody can end before it returns, as many services have it."""

    traits = shell_traits("call", isolation="none", partial_output=False)

    def __init__(self) -> None:
        super().__init__(python=sys.executable)
        self.calls: list[asyncio.Future[CompletedProcess[bytes]]] = []

    def call(self, arguments: Sequence[str], stdin: bytes) -> CompletedProcess[bytes]:
        return subprocess.run(arguments, input=stdin, capture_output=True)

    async def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        arguments = ["sh", "-c", command] if isinstance(command, str) else command
        calling = asyncio.get_running_loop().run_in_executor(None, self.call, arguments, stdin)
        self.calls.append(calling)
        done = await asyncio.shield(calling)
        yield Output("stdout", done.stdout.decode())
        yield Output("stderr", done.stderr.decode())
        yield Completed(ExecutionResult(exit_code=done.returncode, sandbox="call"))


async def _end(process: Process) -> None:
    process.kill()
    await process.communicate()
