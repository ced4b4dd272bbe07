"""It stays true under load; `make soak` does the same for ten minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.conftest import engine_check
from tests.sandbox.soaking import SORTS, soak


@pytest.fixture(autouse=True)
def own_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside this one make folders too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


async def test_under_a_mixed_load_each_result_is_right_and_nothing_is_left_or_grows() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    report = await soak(seconds=9, runs=100_000)
    assert report.problems() == []
    assert report.runs.keys() == {sort.name for sort in SORTS}
