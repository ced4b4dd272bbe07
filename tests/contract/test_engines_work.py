"""An engine that breaks must not hide behind tests that are skipped where it does not work."""

from __future__ import annotations

import pytest

import actbox
from tests.conftest import engine_check, why_no_namespaces


def test_the_linux_engine_works_where_a_process_may_make_namespaces() -> None:
    if why := why_no_namespaces():
        pytest.skip(f"a process may make no namespaces here: {why}")
    found = engine_check("linux")
    assert found.works, f"{found.reason}. {found.advice}"


def test_the_process_engine_works_everywhere() -> None:
    assert engine_check("process").works


@pytest.mark.parametrize("engine", actbox.ENGINES)
def test_an_engine_that_does_not_work_says_why_and_what_to_do(engine: str) -> None:
    found = engine_check(engine)
    if found.works:
        assert found.traits is not None
        assert found.traits.engine == engine
        assert (found.reason, found.advice) == ("", "")
    else:
        assert found.reason
        assert found.advice


@pytest.mark.parametrize("engine", actbox.ENGINES)
def test_what_traits_say_is_enforced_are_limits_that_there_are(engine: str) -> None:
    traits = engine_check(engine).traits
    if traits is None:
        pytest.skip(f"{engine} does not work here and so has no traits")
    assert set(traits.enforced) <= set(actbox.Limits().to_dict())
    assert all(traits.enforced.values())
    if traits.isolated and engine != "agentcore":  # what is not limited there is used up of a machine of AWS's
        refused = {"disk_mib"}  # by an engine that lacks it, so that no run goes on without it
        assert set(traits.enforced) | refused == set(actbox.Limits().to_dict())


@pytest.mark.parametrize("engine", actbox.ENGINES)
def test_an_engine_that_imports_nothing_ahead_has_a_note_of_that(engine: str) -> None:
    traits = engine_check(engine).traits
    if traits is None:
        pytest.skip(f"{engine} does not work here and so has no traits")
    heeds = engine in ("linux", "container", "ssh")
    assert any("Policy.preload" in note for note in traits.notes) != heeds
