"""Approvals that last: what an answer covers, who may answer, and what happens at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from actbox.capabilities.approvals import AlreadyAnswered, Approval, Approvals, Question
from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from actbox.tools import ApprovalRequest

ASKED = Question(capability="files.write", version="1.0.0", arguments={"path": "a.txt", "text": "x"}, run="r1")


@pytest.fixture
def approvals(address: str) -> Iterator[Approvals]:
    opened = Approvals.open(address)
    yield opened
    opened.close()


async def asked(approvals: Approvals, question: Question) -> tuple[asyncio.Future[Any], Approval]:
    """Ask, and return the answer to come and the question that waits."""
    known = {one.id for one in await approvals.list()}
    answer = asyncio.ensure_future(approvals.require(question))
    while not (new := [one for one in await approvals.list("pending") if one.id not in known]):
        assert not answer.done(), answer.result()
        await asyncio.sleep(0)
    return answer, new[0]


async def approved(approvals: Approvals, question: Question, **how: Any) -> str:
    """Ask and approve; return the approval's id."""
    answer, waiting = await asked(approvals, question)
    await approvals.approve(waiting.id, by="ann", **how)
    assert (await answer).approved
    return waiting.id


async def is_covered(approvals: Approvals, question: Question) -> bool:
    """Return whether a question needs no new answer; withdraw it if it does."""
    answer = asyncio.ensure_future(approvals.require(question))
    while not answer.done() and not await approvals.list("pending"):
        await asyncio.sleep(0)
    if answer.done():
        return True
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    return False


async def test_an_answer_says_who_and_why_and_counts_once(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals, ASKED)
    assert waiting.shown["arguments"] == ASKED.arguments
    await approvals.approve(waiting.id, by="ann", reason="fine", source="page")
    given = await answer
    assert (given.approved, given.by, given.reason) == (True, "ann", "fine")
    found = await approvals.find(waiting.id)
    assert (found.state, found.decided_from) == ("used", "page")
    assert not await is_covered(approvals, ASKED)


@pytest.mark.parametrize(
    ("how", "covered"),
    [
        ({"scope": "run"}, {"same": True, "other run": False, "other text": False, "other path": False}),
        ({"scope": "always"}, {"same": True, "other run": True, "other text": False, "other path": False}),
        (
            {"scope": "pattern", "pattern": {"path": "*.txt"}},
            {"same": True, "other run": True, "other text": False, "other path": True, "other kind": False},
        ),
        ({"scope": "once"}, {"same": False}),
    ],
    ids=["run", "always", "pattern", "once"],
)
async def test_an_approval_covers_nothing_that_was_not_shown(
    how: dict[str, Any], covered: dict[str, bool], approvals: Approvals
) -> None:
    await approved(approvals, ASKED, **how)
    others = {
        "same": ASKED,
        "other run": replace(ASKED, run="r2"),
        "other text": replace(ASKED, arguments={"path": "a.txt", "text": "y"}),
        "other path": replace(ASKED, arguments={"path": "b.txt", "text": "x"}),
        "other kind": replace(ASKED, arguments={"path": "b.sh", "text": "x"}),
    }
    assert {name: await is_covered(approvals, others[name]) for name in covered} == covered
    for other in (
        replace(ASKED, version="1.0.1"),
        replace(ASKED, labels=Label("pii.email")),
        replace(ASKED, capability="files.read"),
        replace(ASKED, arguments={**ASKED.arguments, "mode": "x"}),
    ):
        assert not await is_covered(approvals, other)


async def test_of_two_approvers_the_first_counts(approvals: Approvals, address: str) -> None:
    other = Approvals.open(address)
    answer, waiting = await asked(approvals, ASKED)
    results = await asyncio.gather(
        approvals.approve(waiting.id, by="ann"), other.deny(waiting.id, by="bob"), return_exceptions=True
    )
    [lost] = [one for one in results if isinstance(one, AlreadyAnswered)]
    given = await answer
    assert given.by in ("ann", "bob") and given.by in str(lost) and given.approved == (given.by == "ann")
    other.close()


async def test_another_process_answers(approvals: Approvals, address: str) -> None:
    other = Approvals.open(address)
    answer, waiting = await asked(approvals, ASKED)
    await other.deny(waiting.id, by="bob", reason="no")
    given = await answer
    assert (given.approved, given.by, given.reason, given.cause) == (False, "bob", "no", "decided")
    other.close()


async def test_a_question_expires_and_is_withdrawn(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    approvals = Approvals.open(address, timeout=100)
    answer, waiting = await asked(approvals, ASKED)
    later = time.time_ns() + 101 * 10**9
    monkeypatch.setattr(
        "actbox.capabilities.approvals.time", type("clock", (), {"time_ns": staticmethod(lambda: later)})
    )
    given = await answer
    assert (given.approved, given.cause) == (False, "timeout")
    with pytest.raises(AlreadyAnswered, match="expired"):
        await approvals.approve(waiting.id, by="ann")
    monkeypatch.undo()
    answer, waiting = await asked(approvals, replace(ASKED, run="r3"))
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    assert (await approvals.find(waiting.id)).state == "expired"
    approvals.close()


async def test_an_approval_ends_at_its_time_or_when_it_is_revoked(approvals: Approvals) -> None:
    await approved(approvals, ASKED, scope="always", until=time.time() - 1)
    assert not await is_covered(approvals, ASKED)
    id = await approved(approvals, ASKED, scope="always")
    assert await is_covered(approvals, ASKED) and not await approvals.is_revoked(id)
    await approvals.revoke(id, by="ann", reason="mistake")
    assert not await is_covered(approvals, ASKED) and await approvals.is_revoked(id)
    with pytest.raises(AlreadyAnswered, match="revoked already by ann"):
        await approvals.revoke(id, by="bob")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"scope": "often"}, "once, run, always"),
        ({"scope": "pattern"}, "only then has one"),
        ({"scope": "always", "pattern": {"path": "*"}}, "only then has one"),
        ({"scope": "pattern", "pattern": {"nothing": "*"}}, "no argument 'nothing'"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_refused(how: dict[str, Any], why: str, approvals: Approvals) -> None:
    answer, waiting = await asked(approvals, ASKED)
    with pytest.raises(InvalidValue, match=why):
        await approvals.approve(waiting.id, by="ann", **how)
    with pytest.raises(InvalidValue, match="no approval 'x'"):
        await approvals.deny("x", by="ann")
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)


async def test_new_questions_are_told(address: str) -> None:
    told: list[Approval] = []
    approvals = Approvals.open(address, notify=[told.append])
    answer, waiting = await asked(approvals, ASKED)
    assert [one.id for one in told] == [waiting.id]
    await approvals.deny(waiting.id, by="ann")
    assert not (await answer).approved
    approvals.close()


async def test_it_answers_for_programs_too(approvals: Approvals) -> None:
    request = ApprovalRequest(
        id="1", what="call", program="pay(3)", reason="it costs", tool="pay", arguments={"euros": 3}
    )
    deciding = asyncio.ensure_future(approvals.decide(request))
    while not (waiting := await approvals.list("pending")):
        await asyncio.sleep(0)
    assert waiting[0].capability == "call:pay" and waiting[0].shown["program"] == "pay(3)"
    await approvals.approve(waiting[0].id, by="ann", scope="always")
    assert (await deciding).approved
    assert (await approvals.decide(request)).by == "ann"
