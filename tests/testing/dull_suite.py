"""The contract on sandboxes that do nothing; `test_broken_sandboxes.py` runs this module."""

from __future__ import annotations

from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from tests.testing.dull import Grumbling, Mute


class TestMute(SandboxContract):
    seconds_for_a_case = 0.5

    async def open(self, policy: Policy) -> Sandbox:
        return Mute(policy)


class TestGrumbling(SandboxContract):
    seconds_for_a_case = 0.5

    async def open(self, policy: Policy) -> Sandbox:
        return Grumbling(policy)
