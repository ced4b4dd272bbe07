from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest_asyncio

import actbox
from actbox import Sandbox
from tests.engines.ssh.ssh_server import SshServer
from tests.packages.conftest import index as index


@pytest_asyncio.fixture
async def box(server: SshServer) -> AsyncIterator[Sandbox]:
    """A sandbox on that machine, with the Python of the tests."""
    async with actbox.open_sandbox("ssh", allow_unisolated=True, python=sys.executable, **server.options) as opened:
        yield opened
