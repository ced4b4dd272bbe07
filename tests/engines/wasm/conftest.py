"""A sandbox of the `wasm` engine, where pyeryx is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import actbox
from actbox import Sandbox
from tests.conftest import engine_check
from tests.packages.conftest import index as index


@pytest.fixture(autouse=True)
def wasm_works() -> None:
    """Skip, with the reason, where the engine does not work."""
    found = engine_check("wasm")
    if not found.works:
        pytest.skip(f"the wasm engine does not work here: {found.reason} {found.advice}")


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    """One sandbox with the default policy."""
    async with actbox.open_sandbox("wasm") as sandbox:
        yield sandbox
