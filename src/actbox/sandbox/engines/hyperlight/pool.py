"""The machines of a sandbox: some wait for a program, each runs one at a time, and no more than so many run at once."""

from __future__ import annotations

import os
import threading
from typing import Final

from actbox.sandbox.slots import Slots

from .machine import Machine
from .options import GuestOptions

MOST_AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""Machines that run at once unless told: each keeps a processor busy, and some hundred MiB of memory."""


class Pool:
    """Hands out machines for one run each. A sandbox and its siblings share one, which the last of them closes."""

    def __init__(self, options: GuestOptions, most: int) -> None:
        self.options = options
        self.most = most
        self._slots = Slots(most)
        self._lock = threading.Lock()
        self._waiting: list[Machine] = []
        self._users = 0

    async def open(self) -> None:
        """Have a machine ready. Raises `SandboxUnavailable`."""
        with self._lock:
            self._users += 1
            is_warm = bool(self._waiting) or self._users > 1
        if not is_warm:
            try:
                machine = await Machine.start(self.options)
            except BaseException:
                await self.close()
                raise
            await self._keep(machine)

    async def close(self) -> None:
        """End the machines that wait, where nobody else uses them."""
        with self._lock:
            self._users -= 1
            unused = [] if self._users else self._waiting
            if unused:
                self._waiting = []
        for machine in unused:
            await machine.end()

    async def take(self) -> Machine:
        """Return a machine in which nothing has run, in its turn; `give_back` it. Raises `SandboxUnavailable`."""
        await self._slots.acquire()
        try:
            return await self.new()
        except BaseException:
            self._slots.release()
            raise

    async def give_back(self, machine: Machine) -> None:
        """Take a machine back, whatever has become of it."""
        try:
            await self._keep(machine)
        finally:
            self._slots.release()

    async def take_back(self, machine: Machine) -> None:
        """Take back the machine of a session that is over, as `new` gave it."""
        await machine.refresh()
        await self._keep(machine)

    async def new(self) -> Machine:
        """Return a machine in which nothing has run, for as long as the caller likes. Raises `SandboxUnavailable`."""
        while True:
            with self._lock:
                machine = self._waiting.pop() if self._waiting else None
            if machine is None:
                return await Machine.start(self.options)
            try:
                is_fresh = await machine.be_fresh()
            except BaseException:
                await machine.end()
                raise
            if is_fresh:
                return machine
            await machine.end()

    async def _keep(self, machine: Machine) -> None:
        with self._lock:
            is_kept = machine.alive and self._users > 0 and len(self._waiting) < self.most
            if is_kept:
                self._waiting.append(machine)
        if not is_kept:
            await machine.end()
