"""The trials, on engines whose Python lacks what a program would reach with: that too keeps it from the host."""

from __future__ import annotations

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.sandbox.trial import try_isolation
from tests.conftest import engine_check


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["wasm", "monty"])
async def test_isolation_holds_where_the_calls_are_missing_to_leave_it(engine: str) -> None:
    if not engine_check(engine).works:
        pytest.skip(f"the {engine} engine does not work here: {engine_check(engine).reason}")

    def open_box(policy: Policy) -> Sandbox:
        return actbox.open_sandbox(engine, policy=policy)

    reports = await try_isolation(open_box)
    assert {report.limit: report.verdict for report in reports} == dict.fromkeys(
        ("host files", "host network", "host processes", "host mounts"), "holds"
    )
