"""The contract of the kit once more, in containers whose kernel is gVisor's."""

from __future__ import annotations

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from tests.engines.container.containers import needs


@pytest.mark.engines
class TestGvisor(SandboxContract):
    share_box = True

    async def open(self, policy: Policy) -> Sandbox:
        needs("runsc")
        return actbox.open_sandbox("container", runtime="runsc", policy=policy)
