"""The page about the agentcore engine: its example runs, over the wire of the service."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.code_blocks import blocks_of, check_python
from tests.engines.agentcore.code_service import CodeService

PAGE = Path(__file__).parents[3] / "docs" / "engines" / "agentcore.md"


@pytest.mark.slow
def test_its_example_runs(service: CodeService, tmp_path: Path) -> None:
    (block,) = [block for block in blocks_of(PAGE) if block.language == "python"]
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"
    check_python(dataclasses.replace(block, code=quiet + block.code), tmp_path)
