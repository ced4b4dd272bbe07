"""A package that the policy does not approve by itself is asked about, with what is known of it and what it brings."""

from __future__ import annotations

import pytest

import actbox
from actbox import ErrorKind, Program, Toolset
from actbox.codeact import CallbackApprover
from actbox.core.events import ApprovalDecided, ApprovalRequested
from actbox.core.packages import PackageFacts, TrustLevel
from actbox.tools import ApprovalDecision, ApprovalRequest

from .index_server import IndexServer
from .kits import policy_of, run

pytestmark = pytest.mark.slow

CODE = "import kit_greeting\nkit_greeting.greeting"
ASKS = {"auto_approved": [], "requires_approval": {"kit-greeting": "it greets"}}


class Asked:
    """An approver that keeps the questions, and gives one answer to each."""

    def __init__(self, answer: ApprovalDecision | bool) -> None:
        self.requests: list[ApprovalRequest] = []
        self.approver = CallbackApprover(self.decide)
        self._answer = answer

    def decide(self, request: ApprovalRequest) -> ApprovalDecision | bool:
        self.requests.append(request)
        return self._answer


async def test_a_question_says_what_the_package_is_and_what_it_brings(index: IndexServer) -> None:
    index.is_modern = True
    asked = Asked(True)
    result = await run(policy_of(index, asked.approver, **ASKS), CODE, "kit_greeting>=1")
    assert result.value == "hello", result
    [request] = asked.requests
    assert (request.what, request.program, request.elevated) == ("install", CODE, False)
    assert request.reason == "kit_greeting>=1 is to be installed: the policy requires approval for it: it greets"
    greeting, words = request.packages
    assert (greeting.name, greeting.version, greeting.requirement) == ("kit-greeting", "1.0", "kit_greeting>=1")
    assert (greeting.trust, greeting.licence) == (TrustLevel.REQUIRES_APPROVAL, "unknown")
    size = (index.folder / "kit_words-1.0-py3-none-any.whl").stat().st_size
    assert words == PackageFacts(
        name="kit-words",
        version="1.0",
        requirement="kit-words==1.0",
        trust=TrustLevel.REQUIRES_APPROVAL,
        reason="it greets",
        brought_by=("kit-greeting",),
        sha256=words.sha256,
        size=size,
        licence="BSD",
        released="2026-01-02T03:04:05+00:00",
    )
    assert index.files_fetched() == ["kit_greeting-1.0-py3-none-any.whl", "kit_words-1.0-py3-none-any.whl"]


async def test_an_index_that_says_nothing_of_a_file_leaves_its_facts_unknown(index: IndexServer) -> None:
    asked = Asked(True)
    assert (await run(policy_of(index, asked.approver, **ASKS), CODE, "kit-greeting")).success
    _, words = asked.requests[0].packages
    assert (words.size, words.released, words.licence) == (None, "unknown", "BSD")


async def test_a_refusal_is_the_error_of_the_program_and_nothing_is_installed(index: IndexServer) -> None:
    index.is_modern = True
    asked = Asked(ApprovalDecision(False, "not today", "ann"))
    result = await run(policy_of(index, asked.approver, **ASKS), CODE, "kit-greeting")
    assert result.error is not None
    assert (result.error.kind, result.error.type) == (ErrorKind.POLICY, "PackageNotApproved")
    assert result.error.message == "kit-greeting was refused: not today"
    assert index.files_fetched() == []


@pytest.mark.parametrize(("standing", "questions"), [(False, 2), (True, 1)])
async def test_only_a_standing_answer_holds_for_the_next_program(
    standing: bool, questions: int, index: IndexServer
) -> None:
    asked = Asked(ApprovalDecision(True, standing=standing))
    policy = policy_of(index, asked.approver, **ASKS)
    for _ in range(2):
        assert (await run(policy, CODE, "kit-greeting")).value == "hello"
    assert len(asked.requests) == questions
    other = Asked(False)  # whose standing answers are its own
    assert not (await run(policy_of(index, other.approver, **ASKS), CODE, "kit-greeting")).success


async def test_a_standing_answer_does_not_cover_another_version(index: IndexServer) -> None:
    from .wheel_factory import make_wheel

    asked = Asked(ApprovalDecision(True, standing=True))
    policy = policy_of(index, asked.approver, **ASKS)
    assert (await run(policy, CODE, "kit-greeting")).success
    make_wheel(index.folder, "kit_words", "2.0", files={"kit_words.py": b"word = 'hi'\n"})
    assert (await run(policy, CODE, "kit-greeting>=1")).value == "hi"
    assert [one.version for one in asked.requests[1].packages] == ["1.0", "2.0"]


@pytest.mark.parametrize(
    ("answer", "approved"),
    [(True, False), (ApprovalDecision(True, elevated=True, standing=True), True)],
    ids=["anybody", "elevated"],
)
async def test_a_package_in_no_list_needs_somebody_elevated_each_time(
    answer: ApprovalDecision | bool, approved: bool, index: IndexServer
) -> None:
    asked = Asked(answer)
    policy = policy_of(index, asked.approver, auto_approved=[])
    for count in (1, 2):
        result = await run(policy, CODE, "kit-greeting")
        assert (result.success, len(asked.requests)) == (approved, count)
    assert asked.requests[0].elevated
    if not approved:
        assert result.error is not None
        assert "only an approver with the elevated role may approve it" in result.error.message


async def test_what_an_approved_package_brings_is_asked_about_if_a_list_says_so(index: IndexServer) -> None:
    asked = Asked(True)
    policy = policy_of(index, asked.approver, requires_approval=["kit-words"])
    assert (await run(policy, CODE, "kit-greeting")).value == "hello"
    [request] = asked.requests
    assert [(one.name, one.brought_by) for one in request.packages] == [("kit-words", ("kit-greeting",))]
    assert request.reason.startswith("kit-words==1.0, which kit-greeting brings, is to be installed")
    silent = await run(policy_of(index, requires_approval=["kit-words"]), CODE, "kit-greeting")
    assert silent.error is not None and silent.error.type == "PackageNotApproved"


async def test_the_approver_of_the_tools_is_asked_where_the_policy_has_none_and_events_tell(index: IndexServer) -> None:
    asked = Asked(ApprovalDecision(True, by="ann"))
    tools = Toolset.of([]).asking(asked.approver)
    async with actbox.open_sandbox("linux", policy=policy_of(index, **ASKS)) as box:
        events = [event async for event in box.stream(Program(CODE, dependencies=("kit-greeting",)), tools=tools)]
    requested = [event for event in events if isinstance(event, ApprovalRequested)]
    decided = [event for event in events if isinstance(event, ApprovalDecided)]
    [question], [decision] = requested, decided
    assert (question.what, question.packages) == ("install", asked.requests[0].packages)
    assert (decision.request_id, decision.decision, decision.by) == (question.request_id, "approved", "ann")
