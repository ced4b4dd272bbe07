"""A sandbox of the engine, where its library is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import actbox


@pytest.fixture(autouse=True, scope="session")
def monty_is_there() -> None:
    found = actbox.check("monty") if hasattr(actbox, "check") else None
    if found is not None and not found.works:
        pytest.skip(f"{found.reason}: {found.advice}")


@pytest_asyncio.fixture
async def box() -> AsyncIterator[actbox.Sandbox]:
    async with actbox.open_sandbox("monty") as opened:
        yield opened
