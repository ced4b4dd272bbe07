from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

import actbox
from actbox import Sandbox
from tests.engines.ssh.ssh_server import WITHOUT_SSHD, SshServer, find_sshd, ssh_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """A real sshd on loopback."""
    if find_sshd() is None:
        pytest.skip(WITHOUT_SSHD)
    with ssh_server(tmp_path_factory.mktemp("sshd")) as started:
        yield started


@pytest_asyncio.fixture
async def box(server: SshServer) -> AsyncIterator[Sandbox]:
    """A sandbox on that machine, with the Python of the tests."""
    async with actbox.open_sandbox("ssh", allow_unisolated=True, python=sys.executable, **server.options) as opened:
        yield opened
