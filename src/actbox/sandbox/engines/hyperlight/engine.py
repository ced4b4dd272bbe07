"""`HyperlightSandbox`: runs programs in virtual machines, made by hyperlight-sandbox in worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.sandbox.embedded import EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.embedded.sandbox import Evaluate

from .check import why_no_hypervisor
from .evaluating import evaluate
from .machine import Machine
from .pool import Pool
from .traits import hyperlight_traits
from .trees import Disk

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy


class HyperlightSandbox(EmbeddedSandbox):
    """A sandbox whose programs each run in a fresh virtual machine, restored from a snapshot after every run."""

    def __init__(self, policy: Policy, pool: Pool, proxy: EgressProxy | None = None) -> None:
        """Raise `Unsupported` for a policy that this engine cannot enforce.

        `proxy` is the way to the policy's domains, if it names any.
        """
        self.traits = hyperlight_traits(pool.options)
        if policy.limits.cpus < 1:
            raise Unsupported("the hyperlight engine cannot keep a program below one processor; the linux engine can")
        self._pool = pool
        self._proxy = proxy
        most = policy.limits.disk_mib
        self._disk = None if most is None else Disk(most * 2**20)
        super().__init__(policy)

    async def _open(self) -> None:
        reason, advice = why_no_hypervisor()
        if reason:
            raise SandboxUnavailable(f"{reason}. {advice}")
        await self._pool.open()

    async def _close(self) -> None:
        await self._pool.close()

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self._pool = Pool(self._pool.options, self._pool.most)

    def _sibling(self) -> Self:
        return type(self)(self.policy, self._pool, self._proxy)

    @asynccontextmanager
    async def _fresh(self) -> AsyncIterator[Evaluate]:
        """Take a machine for one run; if none can be started, the run fails with that error."""
        try:
            machine = await self._pool.take()
        except SandboxUnavailable as error:
            failure = error

            async def fail(_: Evaluation) -> Outcome:
                raise failure

            yield fail
            return
        try:
            yield partial(evaluate, machine, mounts=self.policy.mounts, proxy=self._proxy, disk=self._disk)
        finally:
            await self._pool.give_back(machine)

    async def open_state(self) -> State:
        return _MachineState(self._pool, await self._pool.new(), self.policy, self._proxy, self._disk)


class _MachineState(State):
    """A session's own machine. It cannot be interrupted: ending a program by force ends the machine too."""

    def __init__(
        self, pool: Pool, machine: Machine, policy: Policy, proxy: EgressProxy | None, disk: Disk | None
    ) -> None:
        self._pool = pool
        self._machine = machine
        self._policy = policy
        self._proxy = proxy
        self._disk = disk

    @property
    def alive(self) -> bool:
        return self._machine.alive

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        mounts = self._policy.mounts
        return await evaluate(self._machine, evaluation, mounts, self._proxy, self._disk, session=True)

    async def close(self) -> None:
        await self._pool.take_back(self._machine)


def checked_machines(machines: int | None, usual: int) -> int:
    """Return the validated number of machines that may run at once, by default `usual`. Raises `InvalidValue`."""
    if machines is None:
        return usual
    if not isinstance(machines, int) or isinstance(machines, bool) or machines < 1:
        raise InvalidValue(f"machines is how many may run at once, one or more, not {machines!r}")
    return machines
