from __future__ import annotations

import pytest

import actbox
from actbox import ErrorInfo, ErrorKind, ExecutionResult, Limits, Policy, Sandbox
from actbox.sandbox.trial_javascript import try_javascript_isolation, try_javascript_limits
from tests.conftest import engine_check


def open_box(policy: Policy) -> Sandbox:
    return actbox.open_sandbox("node", policy=policy)


def without_limits(policy: Policy) -> Sandbox:
    return actbox.open_sandbox("node", policy=Policy(limits=Limits(wall_seconds=25)))


@pytest.fixture(autouse=True)
def _node_works() -> None:
    found = engine_check("node")
    if not found.works:
        pytest.skip(f"the node engine does not work here: {found.reason}. {found.advice}")


@pytest.mark.engines  # it takes ten seconds; the kit and test_node_limits.py reach each limit too
async def test_every_limit_is_tried_and_holds() -> None:
    reports = await try_javascript_limits(open_box)
    assert list(dict.fromkeys(report.limit for report in reports)) == list(Limits().to_dict())
    for report in reports:
        assert report.verdict == "holds", report
        assert report.by


@pytest.mark.engines  # it takes twenty seconds: each limit is waited for in vain
async def test_a_limit_that_is_not_kept_is_found_out() -> None:
    reports = await try_javascript_limits(without_limits)
    # Three seconds of processor time may take longer than this sandbox has, on a machine that is busy.
    found = {report.what: report.verdict for report in reports if report.limit != "cpu_seconds"}
    assert set(found.values()) == {"does not hold"}, found


async def test_a_program_is_kept_from_the_host() -> None:
    assert {report.verdict for report in await try_javascript_isolation(open_box)} == {"holds"}


async def test_what_fails_for_another_reason_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: Sandbox, *arguments: object, **given: object) -> ExecutionResult:
        return ExecutionResult(exit_code=125, error=ErrorInfo(kind=ErrorKind.SANDBOX, message="no"))

    monkeypatch.setattr(type(open_box(Policy())), "run", run)
    reports = [*await try_javascript_limits(open_box), *await try_javascript_isolation(open_box)]
    assert {report.verdict for report in reports} == {"unknown"}
