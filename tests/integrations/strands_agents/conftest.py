"""Sandboxes for Strands agents."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from actbox.background_loop import background_loop
from tests.clock import Clock
from tests.conftest import with_marks

if TYPE_CHECKING:  # modules of tests skip themselves where Strands is not installed
    from actbox.integrations.strands import StrandsSandbox

ENGINES = with_marks(["linux", "container"])
"""The engines on which a test runs that is about the sandbox itself, as parameters of a fixture."""


@pytest_asyncio.fixture(params=ENGINES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[StrandsSandbox]:
    """A sandbox of each engine that the main stories are told on."""
    from tests.integrations.strands_agents.places import sandbox_on

    async with sandbox_on(request.param) as opened:
        yield opened


@pytest_asyncio.fixture
async def linux() -> AsyncIterator[StrandsSandbox]:
    """A sandbox for what is not about the engine."""
    from tests.integrations.strands_agents.places import sandbox_on

    async with sandbox_on("linux") as opened:
        yield opened


@pytest.fixture
def turn() -> Callable[[float], None]:
    """A function that lets seconds pass at once in the event loop that the programs of all agents run in."""
    loop = background_loop()
    clock = _clock_of(loop)

    def turn(seconds: float) -> None:
        loop.call_soon_threadsafe(clock.turn, seconds)

    return turn


_clock_of = functools.cache(Clock)
