from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from actbox.sandbox.opening import ENGINES, check

Completed = subprocess.CompletedProcess[bytes]


@pytest.fixture
def actbox() -> Callable[..., Completed]:
    """Runs the command line for real, as a process of its own."""

    def run(*arguments: str, **options: Any) -> Completed:
        if "stdin" not in options:
            options.setdefault("input", b"")
        return subprocess.run(
            [sys.executable, "-m", "actbox", *arguments], capture_output=True, timeout=60, check=False, **options
        )

    return run


@pytest.fixture(params=ENGINES)
def on_engine(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options that choose an engine, for each engine that works here."""
    found = check(request.param)
    if not found.works or found.traits is None:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason}")
    allow = () if found.traits.isolated else ("--allow-unisolated",)
    return ("--sandbox", request.param, *allow)


@pytest.fixture
def isolated() -> tuple[str, ...]:
    """The options for the strongest engine, where one isolates here."""
    for engine in ENGINES:
        found = check(engine)
        if found.works and found.traits is not None and found.traits.isolated:
            return ("--sandbox", engine)
    pytest.skip("no engine isolates programs here")
