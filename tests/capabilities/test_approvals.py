"""Approvals that last: what an answer covers, who may answer, and what happens at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from actbox.capabilities.approval_questions import as_approved, coverage, fits
from actbox.capabilities.approval_view import parts
from actbox.capabilities.approvals import AlreadyAnswered, Approval, Approvals, Question
from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from actbox.tools import ApprovalRequest
from tests.waiting import until

ASKED = Question(
    capability="files.write", version="1.0.0", arguments={"path": "a.txt", "text": "x"}, run="r1", caller="agent-1"
)


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


def set_clock(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the clock of approvals forward, or back."""
    patch.setattr("actbox.capabilities.approvals._now", lambda: int((time.time() + seconds) * 1_000_000))


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
        replace(ASKED, caller="agent-2"),
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
    set_clock(monkeypatch, 101)
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


async def test_a_question_whose_caller_is_cancelled_while_it_is_written_expires(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = approvals._database.write

    async def write_and_be_cancelled(work: Any) -> None:
        monkeypatch.undo()
        await write(work)
        raise asyncio.CancelledError

    monkeypatch.setattr(approvals._database, "write", write_and_be_cancelled)
    with pytest.raises(asyncio.CancelledError):
        await approvals.require(ASKED)
    assert [one.state for one in await approvals.list()] == ["expired"]


async def test_an_approval_ends_at_its_time_and_no_clock_that_is_set_back_revives_it(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await approved(approvals, ASKED, scope="always", until=time.time() + 50)
    assert await is_covered(approvals, ASKED)
    set_clock(monkeypatch, 51)
    assert not await is_covered(approvals, ASKED)
    assert id in {one.id for one in await approvals.list("expired")}
    set_clock(monkeypatch, -1000)
    assert not await is_covered(approvals, ASKED)
    assert (await approvals.find(id)).state == "expired"


async def test_a_clock_that_is_set_back_makes_no_question_wait_for_longer(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = Approvals.open(address, timeout=0.1)
    set_clock(monkeypatch, -1000)
    given = await approvals.require(ASKED)
    assert (given.approved, given.cause) == (False, "timeout")
    approvals.close()


async def test_a_revoked_approval_covers_nothing_more(approvals: Approvals) -> None:
    id = await approved(approvals, ASKED, scope="always")
    assert await is_covered(approvals, ASKED) and not await approvals.is_revoked(id)
    await approvals.revoke(id, by="ann", reason="mistake")
    assert not await is_covered(approvals, ASKED) and await approvals.is_revoked(id)
    with pytest.raises(AlreadyAnswered, match="revoked already by ann"):
        await approvals.revoke(id, by="bob")


async def test_an_approval_for_more_than_one_call_answers_what_waits_already(approvals: Approvals) -> None:
    first, one = await asked(approvals, ASKED)
    second, other = await asked(approvals, replace(ASKED, arguments={**ASKED.arguments, "path": "b.txt"}))
    third, apart = await asked(approvals, replace(ASKED, caller="somebody else"))
    pattern = {"path": "*.txt"}
    given = as_approved(one, "pattern", pattern)
    assert [each.id for each in await approvals.also_covered(given)] == [other.id]
    await approvals.approve(one.id, by="ann", scope="pattern", pattern=pattern)
    assert [(answer.id, answer.by) for answer in await asyncio.gather(first, second)] == [(one.id, "ann")] * 2
    assert (await approvals.find(other.id)).state == "used" and (await approvals.find(apart.id)).state == "pending"
    await approvals.deny(apart.id, by="ann")
    assert not (await third).approved


async def test_an_unused_yes_for_one_call_is_nobody_elses_and_ends(
    approvals: Approvals, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = Approvals.open(address, timeout=None)  # it asks, and never looks for the answer again
    monkeypatch.setattr(killed, "_answered", lambda question: asyncio.Event().wait())
    answer, waiting = await asked(killed, ASKED)
    await approvals.approve(waiting.id, by="ann")
    assert not await is_covered(approvals, ASKED)
    other, left = await asked(killed, ASKED)
    assert (await approvals.find(waiting.id)).state == "approved"
    set_clock(monkeypatch, 601)
    assert {(await approvals.find(id)).state for id in (waiting.id, left.id)} == {"expired"}
    with pytest.raises(AlreadyAnswered, match="expired"):
        await approvals.approve(left.id, by="ann")
    answer.cancel()
    other.cancel()
    await asyncio.gather(answer, other, return_exceptions=True)
    killed.close()


async def test_a_question_that_waits_for_long_stays_open(approvals: Approvals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.capabilities.approvals._RENEW_EVERY", 0.0)
    answer, waiting = await asked(approvals, ASKED)
    first = waiting.expires

    async def is_renewed() -> bool:
        return (await approvals.find(waiting.id)).expires != first

    await until(is_renewed)
    await approvals.deny(waiting.id, by="ann")
    await answer


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"scope": "often"}, "once, run, always"),
        ({"scope": "pattern"}, "only then has one"),
        ({"scope": "always", "pattern": {"path": "*"}}, "only then has one"),
        ({"scope": "pattern", "pattern": {"nothing": "*"}}, "no argument 'nothing'"),
        ({"scope": "pattern", "pattern": {"path": "*.sh"}}, "path itself does not fit"),
        ({"scope": "pattern", "pattern": {"path": "*" * 2000}}, "at most 1000"),
        ({"scope": "pattern", "pattern": {"path": "?*" * 11}}, "20 wildcards"),
        ({"scope": "always", "until": time.time() - 1}, "a time to come"),
        ({"scope": "always", "until": float("nan")}, "a time to come"),
        ({"until": time.time() + 60}, "ends with it"),
        ({"by": " "}, "by whom"),
        ({"reason": "a\0b"}, "without NUL"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_refused(how: dict[str, Any], why: str, approvals: Approvals) -> None:
    answer, waiting = await asked(approvals, ASKED)
    with pytest.raises(InvalidValue, match=why):
        await approvals.approve(waiting.id, **{"by": "ann", **how})
    with pytest.raises(InvalidValue, match="belongs to no run"):
        as_approved(replace(waiting, run=""), "run")
    with pytest.raises(InvalidValue, match="no approval 'x'"):
        await approvals.deny("x", by="ann")
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)


async def test_new_questions_are_told_and_whoever_cannot_be_told_loses_none(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Approval] = []

    async def fail(question: Approval) -> None:
        raise RuntimeError("no post today")

    approvals = Approvals.open(address, notify=[fail, told.append])
    answer, waiting = await asked(approvals, ASKED)

    async def is_noted() -> bool:
        return "no post today" in (await approvals.find(waiting.id)).trouble

    await until(is_noted)
    await until(lambda: told)
    assert [one.id for one in told] == [waiting.id] and waiting.id in caplog.text
    await approvals.approve(waiting.id, by="ann")
    assert (await answer).approved
    approvals.close()


async def test_what_else_a_question_is_bound_to_is_bound(approvals: Approvals) -> None:
    question = replace(ASKED, bound={"more": {"usd": 1}})
    await approved(approvals, question, scope="always")
    assert await is_covered(approvals, question)
    assert not await is_covered(approvals, replace(ASKED, bound={"more": {"usd": 2}}))
    assert not await is_covered(approvals, ASKED)


@pytest.mark.parametrize("name", ["caller", "run", "capability"])
async def test_a_question_with_a_text_that_no_database_takes_is_refused(name: str, approvals: Approvals) -> None:
    for text in ("a\0b", "\ud800", "x" * 3000):
        with pytest.raises(InvalidValue, match=f"{name} of an approval"):
            await approvals.require(replace(ASKED, **cast(Any, {name: text})))


async def test_it_answers_for_programs_too(approvals: Approvals) -> None:
    request = ApprovalRequest(
        id="1", what="call", program="pay(3)", reason="it costs", tool="pay", arguments={"euros": 3}
    )
    deciding = asyncio.ensure_future(approvals.decide(request))
    while not (waiting := await approvals.list("pending")):
        await asyncio.sleep(0)
    assert (
        waiting[0].capability == "call:pay"
        and waiting[0].labels == Label("pii")
        and waiting[0].shown["program"] == "pay(3)"
    )
    await approvals.approve(waiting[0].id, by="ann", scope="always")
    assert (await deciding).approved
    assert (await approvals.decide(request)).by == "ann"


async def test_only_elevated_approvers_are_asked_about_packages_in_no_list(approvals: Approvals, address: str) -> None:
    request = ApprovalRequest(id="1", what="install", program="import x", reason="it is in no list", elevated=True)
    assert (await approvals.decide(request)).cause == "unavailable"
    elevated = Approvals.open(address, elevated=True)
    deciding = asyncio.ensure_future(elevated.decide(request))
    while not (waiting := await approvals.list("pending")):
        await asyncio.sleep(0)
    await approvals.approve(waiting[0].id, by="ann")
    assert (await deciding).elevated
    elevated.close()


@pytest.mark.parametrize(
    ("text", "pattern", "fitting"),
    [
        ("reports/a.txt", "reports/*", True),
        ("reports/a/b.txt", "reports/*", False),
        ("reports/a/b.txt", "reports/**", True),
        ("reports/../secret", "reports/**", False),
        ("reports/%2e%2e/secret", "reports/**", False),
        ("https://a.example.com/x", "https://*.example.com/*", True),
        ("https://evil.com?.example.com/x", "https://*.example.com/*", False),
        ("https://evil.com:1@a.example.com/x", "https://*.example.com/*", False),
        ("ls a", "ls *", True),
        ("ls a\nrm -r b", "ls *", False),
        ("a.b", "a?b", True),
        ("axb", "a.b", False),
        ("[a]", "[a]", True),
        ("a", "[a]", False),
        ("aab", "*ab", True),
        ("x" * 5000, "**", False),
        ("a" * 4000, "*a" * 20 + "b", False),
        (3, "*", False),
    ],
)
def test_a_pattern_fits_only_what_it_says(text: object, pattern: str, fitting: bool) -> None:
    assert fits(text, pattern) == fitting


def test_the_findings_of_a_review_are_shown_once() -> None:
    shown = {"arguments": {"code": "import os"}, "bound": {}, "reason": "", "risk": "high"}
    asked = Approval(**{**dict.fromkeys(Approval.__slots__, ""), "labels": Label(), "shown": shown})  # type: ignore[arg-type]
    for one in (asked, replace(asked, shown={**shown, "review": ["line 1: imports os (rule import)"]})):
        lines = [line for part in parts(one) for line in part.lines]
        assert [line for line in lines if "imports os" in line] == ["line 1: imports os (rule import)"]


def test_coverage_says_what_an_approval_covers() -> None:
    fields: dict[str, Any] = {
        **dict.fromkeys(Approval.__slots__, ""),
        "labels": Label("pii.email"),
        "run": "r1",
        "capability": "kit.put",
        "shown": {"arguments": {"path": "reports/a", "text": "x"}, "bound": {}},
    }
    asked = Approval(**fields)
    given = as_approved(asked, "pattern", {"path": "reports/*"})
    said = "\n".join(coverage(given, "for 8 hours"))
    for words in (
        "kit.put",
        "in any run",
        "pii.email",
        "any text that fits reports/*",
        'text: exactly "x"',
        "for 8 hours",
    ):
        assert words in said
    assert "in the run r1" in coverage(as_approved(asked, "run"))
