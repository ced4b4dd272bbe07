"""The kit's test classes for the sandbox that `--actbox-sandbox` names: `pytest --pyargs actbox.testing.suite`."""

from __future__ import annotations

import pytest

from actbox.cli.engine import options_from
from actbox.cli.exits import UsageError
from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.testing import SandboxContract, SandboxEscape

from .plugin import OPTION, SANDBOX
from .pointed import Open, opener


class _Pointed:
    _opener: Open

    @pytest.fixture(autouse=True)
    def _target(self, request: pytest.FixtureRequest) -> None:
        target = request.config.getoption(SANDBOX, default=None)
        if not target:
            pytest.fail(f"say which sandbox: {SANDBOX} linux, or {SANDBOX} my.module:open_box", pytrace=False)
        try:
            self._opener = opener(target, options_from(request.config.getoption(OPTION), OPTION))
        except (InvalidValue, UsageError) as error:
            pytest.fail(str(error), pytrace=False)

    async def open(self, policy: Policy) -> Sandbox:
        """Return the sandbox that was named."""
        return await self._opener(policy)


class TestContract(_Pointed, SandboxContract):
    """The contract."""


class TestEscape(_Pointed, SandboxEscape):
    """The attempts to get out."""
