"""A claim about a file lowers its label only if a verifier or a person grants it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actbox import Artifact
from actbox.capabilities import PUBLIC, Label, Verification, Verifier, grant

PII = Label("pii.email")
CHART = Artifact("chart.png", b"\x89PNG", label=PII, claimed=PUBLIC)


class NoAddresses:
    async def verify(self, value: Any, claimed: Label) -> Verification:
        found = b"@" in value.data
        return Verification(not found, "it has an address" if found else f"nothing above {claimed}")


class Answers:
    """A verifier that gives this answer, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def verify(self, value: Any, claimed: Label) -> Verification:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


async def test_a_verifier_grants_a_claim_and_the_file_has_the_lower_label() -> None:
    assert isinstance(NoAddresses(), Verifier)
    granted, answer = await grant(CHART, NoAddresses())
    assert (granted.label, granted.claimed, granted.data) == (PUBLIC, None, CHART.data)
    assert answer == Verification(True, "nothing above public", "NoAddresses")


async def test_a_claim_that_is_not_granted_changes_nothing() -> None:
    file = replace(CHART, data=b"ann@example.org")
    assert await grant(file, NoAddresses()) == (file, Verification(False, "it has an address", "NoAddresses"))


async def test_a_person_grants_a_claim_by_name() -> None:
    granted, answer = await grant(CHART, "ann", "I have looked at it")
    assert (granted.label, answer) == (PUBLIC, Verification(True, "I have looked at it", "ann"))
    assert (await grant(CHART, ""))[0] == CHART


@pytest.mark.parametrize("answer", [RuntimeError("down"), True, None, Verification("yes")])  # type: ignore[arg-type]
async def test_a_verifier_that_fails_or_answers_anything_else_grants_nothing(answer: Any) -> None:
    kept, said = await grant(CHART, Answers(answer))
    assert kept == CHART
    assert not said.granted
    assert said.reason.startswith("the verifier failed (")


async def test_without_a_lower_claim_nobody_is_asked() -> None:
    refuses = Answers(RuntimeError("asked"))
    for file, granted in ((replace(CHART, claimed=None), False), (replace(CHART, claimed=Label("secret")), True)):
        kept, said = await grant(file, refuses)
        assert (kept, said.granted) == (file, granted)
