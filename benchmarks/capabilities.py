"""What governing costs: the steps around a program's run, and how many invocations a second go through all of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from effort import Effort
from figures import Figure, Row, Target, figure
from stopwatch import PAUSE_SECONDS, in_pairs
from throughput import AT_ONCE, sustain

import actbox
from actbox.capabilities import Approvals, Budget, Capability, Journal, Registry, standard_registry

CODE = "print(1+1)"
_OVER_A_RUN = Target(p50=1)
_A_SECOND = Target(p50=300)


def echo(text: str) -> str:
    """Return a text."""
    return text


class Governed:
    """Registries with everything on: journal, approvals, budget, labels."""

    def __init__(self, folder: Path) -> None:
        address = f"sqlite:///{folder}/store.db"
        self.journal = Journal.open(address, key=folder / "key.pem")
        self.approvals = Approvals.open(address)
        more = {"journal": self.journal, "approvals": self.approvals, "granted": ["compute"]}
        budget = Budget(steps=10**9, usd=1e9)
        self.programs = standard_registry(**more, budget=budget)
        self.functions = Registry(
            [Capability.from_function(echo, "kit.echo", effects=["compute"])], **more, budget=budget
        )

    async def program(self) -> None:
        """Run a program through all steps."""
        done = await self.programs.invoke("execute.python", {"code": CODE}, caller="bench", labels="internal")
        if not done.ok or done.output["stdout"] != "2\n":
            raise RuntimeError(f"an invocation failed: {done}")

    async def function(self) -> None:
        """Call a function of the host through all steps."""
        done = await self.functions.invoke("kit.echo", {"text": "x"}, caller="bench", labels="internal")
        if done.output != "x":
            raise RuntimeError(f"an invocation failed: {done}")

    async def close(self) -> None:
        """Close all of it."""
        await self.programs.close()
        self.approvals.close()
        self.journal.close()


async def measure(effort: Effort) -> list[Row]:
    """Compare a governed program with a bare one, and take the rate of invocations."""
    with tempfile.TemporaryDirectory() as folder:
        governed = Governed(Path(folder))
        try:
            async with actbox.open_sandbox("linux") as box:

                async def bare() -> None:
                    result = await box.run_alone(CODE)
                    if result.stdout != "2\n":
                        raise RuntimeError(f"a program failed: {result}")

                pairs = await in_pairs(bare, governed.program, effort.fast, pause=PAUSE_SECONDS)
            functions = await sustain(governed.function, effort.seconds)
            programs = await sustain(governed.program, effort.seconds)
        finally:
            await governed.close()
    beside: dict[str, Figure] = {"bare run": figure(one for one, _ in pairs)}
    paced = f"paced, {PAUSE_SECONDS * 1000:.0f} ms between"
    at_once = f"{AT_ONCE} at once"
    return [
        Row(f"governed `execute.python` over a bare run, {paced}", "ms", figure(b - a for a, b in pairs), _OVER_A_RUN),
        Row(f"governed `execute.python`, {paced}", "ms", figure(b for _, b in pairs), peers=beside),
        Row(f"governed host function, {at_once}", "a second", functions.rate, _A_SECOND, more_is_better=True),
        Row(f"governed `execute.python`, {at_once}", "a second", programs.rate, more_is_better=True),
    ]
