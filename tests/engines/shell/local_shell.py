"""A sandbox over a shell of this machine: the smallest that there is. It isolates nothing."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

from actbox import ProcessShell, shell_traits


class LocalShell(ProcessShell):
    traits = shell_traits("local-shell", isolation="none: programs run as this user on this machine")

    async def open_process(self, arguments: Sequence[str]) -> Process:
        return await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)
