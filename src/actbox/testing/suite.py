"""The kit's test classes for the sandbox that `--actbox-sandbox` names: `pytest --pyargs actbox.testing.suite`."""

from __future__ import annotations

import pytest

from actbox.cli.engine import options_from
from actbox.cli.errors import UsageError
from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.testing import SandboxContract, SandboxEscape

from .plugin import OPTION, SANDBOX
from .target import Open, opener


class _NamedSandbox:
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
        """Return the sandbox that the command line names."""
        return await self._opener(policy)


class TestContract(_NamedSandbox, SandboxContract):
    """The contract, for the sandbox under test."""


class TestEscape(_NamedSandbox, SandboxEscape):
    """The escape attempts, for the sandbox under test."""
