from __future__ import annotations

from collections.abc import Iterable

import pytest

import actbox
from actbox import ErrorInfo, ErrorKind, ExecutionResult, Limits, Policy, Sandbox
from actbox.sandbox.trial import TrialReport
from actbox.sandbox.trial_rtfs import try_rtfs_isolation, try_rtfs_limits


def open_box(policy: Policy) -> Sandbox:
    return actbox.open_sandbox("rtfs", policy=policy)


def without_limits(policy: Policy) -> Sandbox:
    return actbox.open_sandbox("rtfs", policy=Policy(limits=Limits(wall_seconds=2)))


async def test_every_limit_is_tried_and_holds() -> None:
    reports = await try_rtfs_limits(open_box)
    assert [report.limit for report in reports] == list(Limits().to_dict())
    for report in reports:
        assert report.verdict == "holds", report
        assert report.by


@pytest.mark.long  # each limit is waited for in vain
async def test_a_limit_that_is_not_kept_is_not_said_to_hold() -> None:
    reports = {report.limit: report for report in await try_rtfs_limits(without_limits)}
    for limit in ("memory_mib", "tool_calls", "tool_bytes", "message_bytes"):
        assert reports[limit].verdict == "does not hold", reports[limit]
    assert reports["cpu_seconds"].verdict == "unknown"


async def test_there_is_nothing_of_the_host_to_reach() -> None:
    assert _verdicts(await try_rtfs_isolation(open_box)) == {"holds"}


async def test_an_engine_that_lets_a_program_do_what_it_wants_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: Sandbox, *arguments: object, **given: object) -> ExecutionResult:
        return ExecutionResult(value=1)

    monkeypatch.setattr(type(open_box(Policy())), "run", run)
    assert _verdicts(await try_rtfs_isolation(open_box)) == {"does not hold"}


async def test_what_fails_for_another_reason_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: Sandbox, *arguments: object, **given: object) -> ExecutionResult:
        return ExecutionResult(exit_code=125, error=ErrorInfo(kind=ErrorKind.SANDBOX, message="no"))

    monkeypatch.setattr(type(open_box(Policy())), "run", run)
    assert _verdicts(await try_rtfs_limits(open_box)) == {"unknown"}


def _verdicts(reports: Iterable[TrialReport]) -> set[str]:
    return {report.verdict for report in reports}
