"""Makes every attempt of the registry on every engine that claims to isolate, and checks that attempts are worth something.

Attempts share one sandbox of an engine, in which each program has a workspace of its own; see `ground.py`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.registry import TABLE
from tests.conftest import engine_check, with_marks
from tests.escape.attempt import Attempt, Bare, NotApplicable, Outcome
from tests.escape.ground import Fresh, one_box
from tests.escape.host_things import host_things
from tests.escape.promises import PROMISES, why_not_promised
from tests.escape.registry import ATTEMPTS, GROUPS
from tests.escape.suite import attack_bare, attack_forked, attack_fresh, gets_through_bare, ground_of

ISOLATING = [name for name in FULL_CPYTHON if TABLE[name].isolates]
SLOW = {f"{group.name}: {what}" for group in GROUPS for what in group.slow}
BARE = [name for name in FULL_CPYTHON if not TABLE[name].isolates and engine_check(name).works]


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with host_things(tmp_path_factory.mktemp("host")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=with_marks(ISOLATING))
async def attacker(request: pytest.FixtureRequest, things: dict[str, Any]) -> AsyncIterator[Fresh]:
    found = engine_check(request.param)
    if not found.works:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason}. {found.advice}")
    ground = ground_of(request.param, things)
    async with one_box(ground) as box:
        yield Fresh(ground, box)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "attempt", [pytest.param(a, id=a.name, marks=pytest.mark.slow if a.name in SLOW else ()) for a in ATTEMPTS]
)
async def test_a_guest_cannot(attempt: Attempt, attacker: Fresh) -> None:
    verdict = await attacker.attempt(attempt)
    if verdict.outcome is Outcome.NOT_APPLICABLE:
        pytest.skip(verdict.why)
    assert verdict.outcome is Outcome.STOPPED, verdict.why


@pytest.mark.slow
async def test_attempts_on_folders_of_the_host_can_be_made_again_with_the_same_folder(things: dict[str, Any]) -> None:
    """Engines that are tried one after the other share it."""
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    by_source = {inspect.getsource(a.tries): a for a in ATTEMPTS if not isinstance(a.tries, str)}
    chosen = [attempt for source, attempt in by_source.items() if re.search(r"host_folder|ground\.folder\(", source)]
    assert len(chosen) > 15
    for _ in range(2):
        findings = await attack_fresh("linux", chosen, things)
        assert [(f.attempt.what, f.verdict) for f in findings if f.verdict.outcome is not Outcome.STOPPED] == []


# The same attempts once more; `make escape` makes them too.
@pytest.mark.long
@pytest.mark.parametrize("engine", with_marks(ISOLATING))
@pytest.mark.parametrize(
    "group", [group.name for group in GROUPS if any(isinstance(a.tries, str) for a in group.attempts)]
)
async def test_a_forked_guest_cannot_either(group: str, engine: str, things: dict[str, Any]) -> None:
    found = engine_check(engine)
    if not found.works or found.traits is None or not found.traits.fork:
        pytest.skip(f"{engine} cannot fork sessions here")
    findings = await attack_forked(engine, [attempt for attempt in ATTEMPTS if attempt.group == group], things)
    bad = [(f.attempt.what, f.verdict) for f in findings if f.verdict.outcome in (Outcome.ESCAPED, Outcome.UNPROVEN)]
    assert bad == []
    assert any(f.verdict.outcome is Outcome.STOPPED for f in findings)


# Against an engine that isolates nothing these must get through, or they would prove nothing elsewhere either.
@pytest.mark.long  # a control of the attempts themselves
@pytest.mark.parametrize("engine", BARE)
@pytest.mark.parametrize("group", sorted({attempt.group for attempt in ATTEMPTS if gets_through_bare(attempt)}))
async def test_the_attempts_get_through_where_nothing_isolates(group: str, engine: str, things: dict[str, Any]) -> None:
    chosen = [attempt for attempt in ATTEMPTS if attempt.group == group and gets_through_bare(attempt)]
    findings = await attack_bare(engine, chosen, things)
    bad = [(f.attempt.what, f.verdict) for f in findings if f.verdict.outcome in (Outcome.STOPPED, Outcome.UNPROVEN)]
    assert bad == []
    assert any(f.verdict.outcome is Outcome.ESCAPED for f in findings)


# What is said of these is checked: it is not the walls that stop them.
@pytest.mark.long
@pytest.mark.parametrize("engine", BARE)
@pytest.mark.parametrize("group", sorted({attempt.group for attempt in ATTEMPTS if attempt.bare is Bare.HOST_STOPS_IT}))
async def test_what_the_host_stops_is_stopped_where_nothing_isolates(
    group: str, engine: str, things: dict[str, Any]
) -> None:
    chosen = [attempt for attempt in ATTEMPTS if attempt.group == group and attempt.bare is Bare.HOST_STOPS_IT]
    findings = await attack_fresh(engine, chosen, things)
    assert [(f.attempt.what, f.verdict) for f in findings if f.verdict.outcome is not Outcome.STOPPED] == []


def test_what_is_not_tried_where_nothing_isolates_says_why() -> None:
    reasons = Counter(attempt.bare for attempt in ATTEMPTS)
    assert min(reasons[bare] for bare in (Bare.HARMFUL, Bare.NOTHING_THERE, Bare.HOST_STOPS_IT)) > 50
    for bare in set(Bare) - {Bare.GETS_THROUGH}:
        assert bare.value.startswith("not tried: ")
    for group in GROUPS:
        # A name that no attempt has would leave the attempt that was meant without its reason.
        assert group.harmful <= {attempt.what for attempt in group.attempts if attempt.bare is Bare.HARMFUL}
        assert group.slow <= {attempt.what for attempt in group.attempts}


async def test_the_reason_is_told_of_each_attempt_that_is_not_tried(things: dict[str, Any]) -> None:
    chosen = [attempt for attempt in ATTEMPTS if not gets_through_bare(attempt)]
    findings = await attack_bare(BARE[0], chosen, things)
    assert {finding.verdict.outcome for finding in findings} == {Outcome.NOT_APPLICABLE}
    assert [finding.verdict.why for finding in findings] == [attempt.bare.value for attempt in chosen]


def test_there_are_hundreds_of_attempts_and_each_is_told_from_the_others() -> None:
    names = Counter(attempt.name for attempt in ATTEMPTS)
    assert len(names) >= 240
    assert [name for name, count in names.items() if count > 1] == []


def test_what_an_engine_may_leave_unpromised_is_an_attempt_and_linux_leaves_nothing() -> None:
    names = {(attempt.group, attempt.what) for attempt in ATTEMPTS}
    for promise in PROMISES:
        assert {(group, what) for group, many in promise.attempts.items() for what in many} <= names
    linux = engine_check("linux").traits
    assert linux is None or [attempt.name for attempt in ATTEMPTS if why_not_promised(attempt, linux)] == []


def test_every_program_says_what_came_of_it() -> None:
    words = ("verdict(", "refused(", "denied(", "denied_or_ended(")
    for attempt in ATTEMPTS:
        if isinstance(attempt.tries, str):
            assert any(word in attempt.tries for word in words), attempt.name


async def test_an_attempt_that_cannot_begin_is_not_taken_for_one_that_was_stopped(things: dict[str, Any]) -> None:
    async def without_means(ground: Any) -> Any:
        raise NotApplicable("the engine lacks what it needs")

    async def at_fault(ground: Any) -> Any:
        raise KeyError("a mistake in the attempt")

    attempts = {
        "needs what is not there": Attempt("", "", "refused(lambda: os.no_such_call())", Bare.GETS_THROUGH),
        "needs a target that this machine has not": Attempt("", "", "1", Bare.GETS_THROUGH, target="/nowhere/at/all"),
        "says so itself": Attempt("", "", without_means, Bare.GETS_THROUGH),
        "has a mistake": Attempt("", "", at_fault, Bare.GETS_THROUGH),
        "says nothing": Attempt("", "", "1 / 0", Bare.GETS_THROUGH),
    }
    findings = await attack_bare(BARE[0], attempts.values(), things)
    outcomes = dict(zip(attempts, (finding.verdict.outcome for finding in findings), strict=True))
    assert outcomes == {
        "needs what is not there": Outcome.NOT_APPLICABLE,
        "needs a target that this machine has not": Outcome.NOT_APPLICABLE,
        "says so itself": Outcome.NOT_APPLICABLE,
        "has a mistake": Outcome.UNPROVEN,
        "says nothing": Outcome.UNPROVEN,
    }
