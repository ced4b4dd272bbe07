"""The ssh engine keeps the contract."""

from __future__ import annotations

import sys
from typing import ClassVar

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.testing import SandboxContract
from tests.engines.ssh.ssh_server import SshServer


@pytest.mark.engines
class TestSsh(SandboxContract):
    share_box = True
    server: ClassVar[SshServer]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def a_server(cls, server: SshServer) -> None:
        cls.server = server

    async def open(self, policy: Policy) -> Sandbox:
        options = self.server.options
        return actbox.open_sandbox("ssh", policy=policy, allow_unisolated=True, python=sys.executable, **options)
