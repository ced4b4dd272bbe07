"""The shared part of the kit's test classes for real virtual machines, which start slowly on an emulated processor."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.sandbox.engines.hyperlight.engine import HyperlightSandbox
from actbox.sandbox.engines.hyperlight.options import GuestOptions
from actbox.sandbox.engines.hyperlight.pool import Pool
from actbox.testing import SandboxContract, case
from actbox.testing.cases.ground import Cases
from actbox.testing.cases.needs import word
from tests.conftest import EMULATED

# Cases about what a sandbox starts and leaves; all others may have the machines of those before.
_LIVES = ("LifecycleCases", "NothingLeftCases")


class InMachines(Cases):
    """Sandboxes with machines that are alike have the same ones, as siblings have, but for cases about their lives."""

    share_box = True
    seconds_for_a_case = 280.0
    backend: ClassVar[str] = "wasm"
    _pools: ClassVar[dict[GuestOptions, Pool]]

    @classmethod
    def setup_class(cls) -> None:
        super().setup_class()
        cls._pools = {}

    @classmethod
    def teardown_class(cls) -> None:
        for pool in cls._pools.values():
            cls._ground.run(pool.close())
        super().teardown_class()

    @pytest.fixture(autouse=True)
    def _about(self, request: Any) -> None:
        self._is_about_lives = request.function.__qualname__.startswith(_LIVES)

    async def open(self, policy: Policy) -> Sandbox:
        box = actbox.open_sandbox("hyperlight", policy=policy, backend=self.backend)
        assert isinstance(box, HyperlightSandbox)
        if not self._is_about_lives:
            options = box._pool.options
            if options not in self._pools:
                await box._pool.open()
                self._pools[options] = box._pool
            box._pool = self._pools[options]
        return box


class ContractInMachines(InMachines, SandboxContract):
    """The contract, with fewer lines of output where the processor is emulated: each takes ten milliseconds there."""

    @case(word("repeat"))
    async def test_two_megabytes_of_output(self, box: Sandbox) -> None:
        """In many lines."""
        lines = 1_000 if EMULATED else 20_000
        result = await box.run(self.program(self.words.repeat(lines, self.words.say("x" * 99))))
        assert (result.success, len(result.stdout)) == (True, 100 * lines)
