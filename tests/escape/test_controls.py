"""Each attempt of which it is said which weakness lets it through does get through there, and so could succeed."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actbox.sandbox.nursery.attach import OWN
from tests.conftest import engine_check
from tests.escape.attempt import Bare, Outcome
from tests.escape.controls import ENGINE, prove
from tests.escape.host_things import host_things
from tests.escape.planted import changed_nursery
from tests.escape.proofs import PROVEN_BY
from tests.escape.registry import ATTEMPTS, GROUPS
from tests.escape.suite import number_proven
from tests.escape.weaknesses import WEAKNESSES, Weakness


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with host_things(tmp_path_factory.mktemp("host")) as made:
        yield made


@pytest.mark.parametrize(
    "weakness",
    # `make escape` runs these too, and so the short run leaves them out.
    [pytest.param(w, id=w.name, marks=pytest.mark.long) for w in WEAKNESSES],
)
async def test_attempts_get_through_where_a_weakness_is_planted(weakness: Weakness, things: dict[str, Any]) -> None:
    found = engine_check(ENGINE)
    if not found.works:
        pytest.skip(f"the {ENGINE} engine does not work here: {found.reason}. {found.advice}")
    if weakness.only_root and os.geteuid() != 0:
        pytest.skip("an ordinary user has no privilege that this weakness could leave to a guest")
    if weakness.name == "root not sealed" and sys.prefix.startswith(tuple(place.rstrip("/") + "/" for place in OWN)):
        pytest.skip(f"{sys.prefix} lies where a sandbox has a folder of its own, and is mounted there another way")
    findings = await prove(weakness, [a for a in ATTEMPTS if a.proven_by == weakness.name], things)
    assert findings
    missing = Outcome.NOT_APPLICABLE, "this machine has no"
    bad = [
        (finding.attempt.name, finding.verdict)
        for finding in findings
        if finding.verdict.outcome is not Outcome.ESCAPED
        and not (finding.verdict.outcome is missing[0] and finding.verdict.why.startswith(missing[1]))
    ]
    assert bad == []


@pytest.mark.parametrize("weakness", [w for w in WEAKNESSES if w.changes], ids=lambda weakness: weakness.name)
def test_a_weakness_finds_the_lines_that_it_changes(weakness: Weakness) -> None:
    with changed_nursery(weakness.changes):
        pass


def test_each_proof_is_of_an_attempt_that_there_is_and_that_nothing_else_proves() -> None:
    known = {(attempt.group, attempt.what): attempt for attempt in ATTEMPTS}
    named = [(group, what) for groups in PROVEN_BY.values() for group, names in groups.items() for what in names]
    assert [name for name in named if name not in known] == []
    assert [name for name, count in Counter(named).items() if count > 1] == []
    assert [name for name in named if known[name].bare in (Bare.GETS_THROUGH, Bare.GETS_THROUGH_AS_ROOT)] == []
    assert sorted(PROVEN_BY) == sorted(weakness.name for weakness in WEAKNESSES)


def test_the_page_on_security_says_how_many_are_proven() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    for group in GROUPS:
        assert f"| {group.name} | {len(group.attempts)} | {number_proven(group.name)} |" in page
    by_word = Counter(attempt.proven_by for attempt in ATTEMPTS)
    said = re.sub(r"\s+", " ", page)
    proven, attempts = number_proven(""), len(ATTEMPTS)
    assert f"For {proven} of {attempts} attempts it is so" in said
    assert (
        f"makes {attempts} attempts to break out on your machine, as root or as an ordinary user. {proven} of" in said
    )
    assert f"({attempts} attempts, also in forked sessions; {proven} of them" in said
    assert f"The other {attempts - proven} attempts" in said
    readme = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "README.md").read_text())
    assert f"makes {attempts} attempts to break out, of which {proven} are shown" in readme
    assert f"For {by_word['filter answers as done']}, most of them system calls" in said
    assert f"For {by_word['breaches forgiven']} of the channel's" in said


def test_most_attempts_are_proven_and_some_in_every_group() -> None:
    for group in GROUPS:
        assert number_proven(group.name) >= 10, group.name
    assert number_proven("") >= 0.7 * len(ATTEMPTS)
