"""Fixtures for the tests of CodeAct."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.codeact import CodeActRunner
from tests.codeact.runners import Opener, opens
from tests.codeact.tills import Till


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, CodeActRunner]]:
    """Runners by engine, used in the event loops of many tests, one after the other."""
    runners: dict[str, CodeActRunner] = {}
    yield runners
    for runner in runners.values():
        asyncio.run(runner.close())


@pytest.fixture
def runner(isolated_engine: str, shared: dict[str, CodeActRunner]) -> CodeActRunner:
    if isolated_engine not in shared:
        shared[isolated_engine] = CodeActRunner(opens(isolated_engine))
    return shared[isolated_engine]


@pytest.fixture
def opener(isolated_engine: str) -> Opener:
    return Opener(isolated_engine)


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a few files in it."""
    for path in ("data/report.csv", "data/users.json", "fixtures/users.json"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
