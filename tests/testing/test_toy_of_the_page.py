"""The toy of docs/engines/kit.md passes the whole kit, exactly as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.code_blocks import blocks_of

pytestmark = pytest.mark.engines  # a new interpreter for each call of a file method: it takes minutes

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines" / "kit.md"
(_TOY,) = [block for block in blocks_of(_PAGE) if "class TestToy" in block.code]

exec(compile(_TOY.code, str(_PAGE), "exec"))  # its test class is this module's


def test_it_is_no_longer_than_forty_lines() -> None:
    assert len(_TOY.code.splitlines()) <= 40
