"""A sandbox that is made of a shell alone keeps the contract, for as far as a shell goes."""

from __future__ import annotations

import sys

import pytest

from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from tests.engines.shell.local_shell import LocalShell


@pytest.mark.engines  # a new interpreter for each call of a file method: it takes minutes
class TestLocalShell(SandboxContract):
    share_box = True
    seconds_for_a_case = 600.0  # each call of a file method is a Python that starts

    async def open(self, policy: Policy) -> Sandbox:
        return LocalShell(policy, python=sys.executable)
