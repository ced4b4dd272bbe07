"""The trials tell an engine that keeps a limit from one that does not."""

from __future__ import annotations

import dataclasses

import pytest

from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.opening import check, open_sandbox
from actbox.sandbox.trial import TrialReport, try_isolation, try_limits


def opener(engine: str):
    return lambda policy: open_sandbox(engine, policy=policy, allow_unisolated=True)


def opener_without_limits(engine: str):
    """Opens sandboxes with generous limits, whatever is asked: an engine that forgets them."""
    forgetful = Limits(wall_seconds=20, processes=400)
    return lambda policy: open_sandbox(engine, policy=Policy(limits=forgetful), allow_unisolated=True)


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_every_limit_that_an_engine_claims_holds_by_whom_it_names(engine):
    reports = await try_limits(opener(engine))
    assert {report.limit for report in reports} == set(Limits().to_dict())
    traits = check(engine).traits
    assert traits is not None
    # `for each process` says that a tree of processes may go beyond.
    broken = [r for r in reports if r.verdict != "holds" and r.by and "for each process" not in r.by]
    broken += [r for r in reports if r.verdict != "holds" and traits.isolated]
    assert broken == []
    for report in reports:
        if report.verdict == "holds":
            assert report.enforced == f"enforced by {traits.enforced[report.limit]}"


@pytest.mark.long  # each limit is waited for in vain
@pytest.mark.one_engine_first
async def test_an_engine_that_forgets_its_limits_is_found_out(engine):
    reports = await try_limits(opener_without_limits(engine))
    assert {report.verdict for report in reports} == {"does not hold"}, reports


@pytest.mark.slow
async def test_isolation_holds_exactly_where_an_engine_claims_it(engine):
    reports = {report.limit: report for report in await try_isolation(opener(engine))}
    traits = check(engine).traits
    assert traits is not None
    if traits.isolated:
        assert {report.verdict for report in reports.values()} == {"holds"}
    else:
        seen = {"host files", "host network", "host processes"}
        assert {reports[name].verdict for name in seen} == {"does not hold"}


@pytest.mark.slow
async def test_a_program_that_fails_for_another_reason_proves_nothing(engine):
    class Broken:
        """A sandbox whose programs all fail before they try anything."""

        def __init__(self, box):
            self._box = box
            self.traits = box.traits

        async def __aenter__(self):
            await self._box.start()
            return self

        async def __aexit__(self, *exc_info):
            await self._box.stop()

        async def run(self, program, **options):
            return await self._box.run(Program("import no_such_package"), **options)

    open_box = opener(engine)
    reports = await try_isolation(lambda policy: Broken(open_box(policy)))
    assert {report.verdict for report in reports} == {"unknown"}
    assert all("MISSING_DEPENDENCY" in report.detail for report in reports)


def test_a_report_is_plain_data():
    report = TrialReport(limit="processes", what="tried", verdict="holds", seconds=0.12345)
    assert report.to_dict() == {**dataclasses.asdict(report), "seconds": 0.123, "enforced": "holds"}


def test_who_enforces_a_limit_is_said_only_where_the_trial_saw_it_hold():
    said = {
        verdict: TrialReport(limit="processes", what="tried", verdict=verdict, by="cgroup v2").enforced
        for verdict in ("holds", "does not hold", "unknown")
    }
    assert said == {"holds": "enforced by cgroup v2", "does not hold": "not enforced", "unknown": "unknown"}
