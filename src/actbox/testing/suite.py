"""The kit's test classes for the sandbox that `--actbox-sandbox` names: `pytest --pyargs actbox.testing.suite`."""

from __future__ import annotations

import pytest

from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.testing import SandboxContract, SandboxEscape

from .plugin import OPTION
from .pointed import Open, opener


class _Pointed:
    _opener: Open

    @pytest.fixture(autouse=True)
    def _target(self, request: pytest.FixtureRequest) -> None:
        target = request.config.getoption(OPTION, default=None)
        if not target:
            pytest.fail(f"say which sandbox: {OPTION} linux, or {OPTION} my.module:open_box", pytrace=False)
        self._opener = opener(target)

    async def open(self, policy: Policy) -> Sandbox:
        """Return the sandbox that was named."""
        return await self._opener(policy)


class TestContract(_Pointed, SandboxContract):
    """The contract."""


class TestEscape(_Pointed, SandboxEscape):
    """The attempts to get out."""
