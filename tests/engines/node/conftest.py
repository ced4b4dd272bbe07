"""Sandboxes of the node engine, for tests that need one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import actbox
from actbox import Sandbox
from tests.conftest import engine_check


@pytest.fixture
def node_works() -> None:
    found = engine_check("node")
    if not found.works:
        pytest.skip(f"the node engine does not work here: {found.reason}. {found.advice}")


@pytest_asyncio.fixture
async def box(node_works: None) -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("node") as opened:
        yield opened
