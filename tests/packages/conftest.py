"""An index of wheels on loopback, and a package cache of each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.packages import provider
from actbox.packages.store import PackageStore
from tests.conftest import engine_check

from .index_server import IndexServer, serving_index
from .kits import make_kits


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index with a few wheels, and a package cache of the test's own."""
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    wheels = tmp_path / "wheels"
    make_kits(wheels)
    made = provider.PackageProvider(PackageStore(tmp_path / "cache"))
    monkeypatch.setattr(provider, "provider", lambda cache=None: made)
    with serving_index(wheels) as served:
        yield served
