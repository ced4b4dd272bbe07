"""The machines of a sandbox: a limited number that each run one program at a time."""

from __future__ import annotations

import os
import threading
from typing import Final

from actbox.sandbox.run_slots import Slots

from .machine import Machine
from .options import GuestOptions

MOST_AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""The default number of machines that run at once: each occupies a processor, and some hundred MiB of memory."""


class Pool:
    """Lends machines for one run each. A sandbox and its siblings share a pool; the last `close` ends its machines."""

    def __init__(self, options: GuestOptions, most: int) -> None:
        self.options = options
        self.most = most
        self._slots = Slots(most)
        self._lock = threading.Lock()
        self._waiting: list[Machine] = []
        self._users = 0

    async def open(self) -> None:
        """Count a user, and start a machine if there is none. Raises `SandboxUnavailable`."""
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
        """Count one user less; after the last, end the waiting machines."""
        with self._lock:
            self._users -= 1
            unused = [] if self._users else self._waiting
            if unused:
                self._waiting = []
        for machine in unused:
            await machine.end()

    async def take(self) -> Machine:
        """Wait for a slot and return a fresh machine for one run, to `give_back`. Raises `SandboxUnavailable`."""
        await self._slots.acquire()
        try:
            return await self.new()
        except BaseException:
            self._slots.release()
            raise

    async def give_back(self, machine: Machine) -> None:
        """Take back a machine after its run, whatever its state, and free its slot."""
        try:
            await self._keep(machine)
        finally:
            self._slots.release()

    async def take_back(self, machine: Machine) -> None:
        """Take back a machine that `new` returned, when its session has ended."""
        await machine.refresh()
        await self._keep(machine)

    async def new(self) -> Machine:
        """Return a fresh machine outside the slots, for as long as needed. Raises `SandboxUnavailable`."""
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
