"""`HyperlightSandbox`: programs in virtual machines, made by hyperlight-sandbox in worker processes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.contract import Tools
from actbox.sandbox.embedded import EmbeddedSandbox, Evaluation, Outcome, State
from actbox.sandbox.embedded.running import EmbeddedRun

from .check import why_no_hypervisor
from .evaluating import evaluate
from .machine import Machine
from .pool import Pool
from .traits import hyperlight_traits

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy


class HyperlightSandbox(EmbeddedSandbox):
    """A sandbox whose programs run in virtual machines, each in a fresh one: restored from a snapshot before."""

    def __init__(self, policy: Policy, pool: Pool, proxy: EgressProxy | None = None) -> None:
        """Raise `Unsupported` for what a policy gives or restricts and this engine does not have.

        `proxy` is the way to the policy's domains, where it names any.
        """
        self.traits = hyperlight_traits(pool.options)
        if policy.limits.cpus < 1:
            raise Unsupported("the hyperlight engine cannot keep a program below one processor; the linux engine can")
        self._pool = pool
        self._proxy = proxy
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

    async def _begun(self, program: Program | str, tools: Tools, timeout: float | None) -> EmbeddedRun:
        lease = _Lease(self._pool, self.policy, self._proxy)
        return await self._begun_in(self._there(), program, tools, timeout, lease.evaluate, None, lambda: lease)

    async def _evaluate(self, evaluation: Evaluation) -> Outcome:
        async with _Lease(self._pool, self.policy, self._proxy) as lease:
            return await lease.evaluate(evaluation)

    async def _open_state(self) -> State:
        return _MachineState(self._pool, await self._pool.new(), self.policy, self._proxy)


class _Lease(AbstractAsyncContextManager["_Lease"]):
    """A machine for one run, had before the run's clock starts."""

    def __init__(self, pool: Pool, policy: Policy, proxy: EgressProxy | None) -> None:
        self._pool = pool
        self._policy = policy
        self._proxy = proxy
        self._machine: Machine | None = None
        self._failure: SandboxUnavailable | None = None

    async def __aenter__(self) -> Self:
        try:
            self._machine = await self._pool.take()
        except SandboxUnavailable as error:  # which is what the run comes to
            self._failure = error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._machine is not None:
            await self._pool.give_back(self._machine)

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        if self._machine is None:
            raise self._failure or AssertionError("evaluated without a machine")
        return await evaluate(self._machine, evaluation, self._policy.mounts, self._proxy)


class _MachineState(State):
    """A machine that a session has to itself. It cannot be interrupted: a program that must end takes it along."""

    def __init__(self, pool: Pool, machine: Machine, policy: Policy, proxy: EgressProxy | None) -> None:
        self._pool = pool
        self._machine = machine
        self._policy = policy
        self._proxy = proxy

    @property
    def alive(self) -> bool:
        return self._machine.alive

    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        return await evaluate(self._machine, evaluation, self._policy.mounts, self._proxy, session=True)

    async def close(self) -> None:
        await self._pool.take_back(self._machine)


def checked_machines(machines: int | None, usual: int) -> int:
    """Return how many machines may run at once. Raises `InvalidValue`."""
    if machines is None:
        return usual
    if not isinstance(machines, int) or isinstance(machines, bool) or machines < 1:
        raise InvalidValue(f"machines is how many may run at once, one or more, not {machines!r}")
    return machines
