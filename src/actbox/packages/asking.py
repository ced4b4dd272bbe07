"""Questions about packages: what an approver is asked before one is installed, and which answers still hold later."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.events import ApprovalDecided, ApprovalRequested, Event
from actbox.core.packages import PackageFacts, PackagePolicy, PackageRules, TrustLevel
from actbox.core.program import Program
from actbox.tools import ApprovalDecision, ApprovalRequest, Approver
from actbox.tools.approval import decision_of

from .locked_files import Locked
from .rules import Judgement

Tell = Callable[[Event], None]

_LIST_IT = "Whoever writes the policy can list it in PackageRules(auto_approved=…), or give"
_NEEDED = {
    TrustLevel.REQUIRES_APPROVAL: "the policy requires approval for it",
    TrustLevel.REGISTRY: "no list of the policy has it",
    TrustLevel.GIT: "it comes from an address for which no index vouches",
}


class NotAllowed(Exception):
    """Raised for a package that the policy blocks, or that nobody has approved; `error` is that of the run."""

    def __init__(self, type_: Literal["PackageBlocked", "PackageNotApproved"], message: str, hint: str) -> None:
        super().__init__(message)
        self.error = ErrorInfo(kind=ErrorKind.POLICY, type=type_, message=message, hint=hint)


class PackageApprovals:
    """The approvals of this process: asks about packages, and keeps the answers that hold for later programs."""

    def __init__(self) -> None:
        # By the identity of the approver, which is kept so that no other object gets its identity.
        self._standing: dict[int, tuple[Approver, set[tuple[PackageRules, PackageRules, str, frozenset[str]]]]] = {}
        self._lock = threading.Lock()

    async def ask(
        self,
        judgements: Sequence[Judgement],
        locked: Mapping[str, Sequence[Locked]],
        policy: PackagePolicy,
        approver: Approver | None,
        program: Program,
        tell: Tell,
        answered: set[tuple[str, ...]],
    ) -> frozenset[str]:
        """Ask about each package that needs it, one after the other, and return the names of those approved.

        `locked` are all packages that would be installed, by name; of npm there may be several versions of one.
        `answered` are those approved for this program before, each with what it brings; more are added.
        Raises `NotAllowed` at the first refusal.
        """
        approved = set()
        for judgement in judgements:
            if judgement.demand.asks and not judgement.covered and judgement.name not in approved:
                brought = _brought(judgement, judgements)
                files = [(one, file) for one in (judgement, *brought) for file in locked.get(one.name, (None,))]
                key = tuple(_approved_as(one, file) for one, file in files)
                if key not in answered:
                    await self._ask(judgement, files, policy, approver, program, tell)
                answered.add(key)
                approved.add(judgement.name)
        return frozenset(approved)

    async def _ask(
        self,
        judgement: Judgement,
        files: Sequence[tuple[Judgement, Locked | None]],
        policy: PackagePolicy,
        approver: Approver | None,
        program: Program,
        tell: Tell,
    ) -> None:
        if approver is None:
            raise not_approved(judgement)
        facts = tuple(_facts(one, file) for one, file in files)
        builds = [_build(file) for _, file in files if file and (file.is_source or file.source)]
        demand = judgement.demand
        key = (policy.python, policy.nodejs, judgement.name, frozenset(one.sha256 for one in facts))
        with self._lock:
            if key in self._standing.get(id(approver), (approver, ()))[1]:
                return
        request = ApprovalRequest(
            id=secrets.token_hex(8),
            what="install",
            program=program.code,
            reason="; ".join([_reason(judgement), *builds]),
            packages=facts,
            elevated=demand.elevated,
        )
        tell(ApprovalRequested(request_id=request.id, what="install", reason=request.reason, packages=facts))
        asked_at = time.perf_counter()

        def decided(decision: Literal["approved", "refused", "withdrawn"], answer: ApprovalDecision) -> None:
            tell(
                ApprovalDecided(
                    request_id=request.id,
                    what="install",
                    decision=decision,
                    reason=answer.reason,
                    by=answer.by,
                    cause=answer.cause,
                    waited_ms=(time.perf_counter() - asked_at) * 1000,
                )
            )

        try:
            answer = await decision_of(approver, request)
        except BaseException:
            decided("withdrawn", ApprovalDecision(False, "the run ended before", cause="unavailable"))
            raise
        if answer.approved and demand.elevated and not answer.elevated:
            answer = ApprovalDecision(False, "only an approver with the elevated role may approve it", answer.by)
        decided("approved" if answer.approved else "refused", answer)
        if not answer.approved:
            raise not_approved(judgement, answer)
        if answer.standing and demand.standing:
            with self._lock:
                self._standing.setdefault(id(approver), (approver, set()))[1].add(key)


def blocked(judgement: Judgement) -> NotAllowed:
    """Return the error for a package that is blocked."""
    return NotAllowed(
        "PackageBlocked",
        f"{_subject(judgement)} is blocked by the policy{_why(judgement)}",
        "do without it; another spelling or address of it is blocked too. Whoever writes the policy can take it out of"
        " PackageRules(blocked=…)",
    )


def not_approved(judgement: Judgement, answer: ApprovalDecision | None = None) -> NotAllowed:
    """Return the error for a package that nobody has approved, or that an approver's answer refuses."""
    hint = "do without it, or ask for a package that is approved"
    if answer is None:
        message = f"needs an approval that nobody has given: {_NEEDED[judgement.trust]}{_why(judgement)}"
        by_list = judgement.trust is not TrustLevel.GIT
        hint += f". {_LIST_IT if by_list else 'Whoever writes the policy can give'} PackagePolicy(approver=…)"
    else:
        how = "was not approved in time" if answer.cause == "timeout" else "was refused"
        message = how + (f": {answer.reason}" if answer.reason else "")
    return NotAllowed("PackageNotApproved", f"{_subject(judgement)} {message}", hint)


def missed(module: str, judgements: Sequence[Judgement]) -> ErrorInfo:
    """Return the error of a program that misses a module whose packages are not admitted, by their judgements."""
    listed = [one for one in judgements if one.trust is not TrustLevel.REGISTRY]
    if listed:
        return (blocked if listed[0].demand.refused else not_approved)(listed[0]).error
    hint = (
        f"the policy has no rule for {judgements[0].name}, so programs do not have it: use the standard library, or a"
        f" package that the policy lists. {_LIST_IT} PackagePolicy(approver=…)"
    )
    return ErrorInfo(kind=ErrorKind.MISSING_DEPENDENCY, message=f"{module} is missing", hint=hint)


def refuse(judgements: Iterable[Judgement], *, nobody_answers: bool = False) -> tuple[str, ...]:
    """Return the warnings of judgements. Raises `NotAllowed` for a package that is blocked or that nobody approves."""
    judgements = tuple(judgements)
    for judgement in judgements:
        if judgement.demand.refused:
            raise blocked(judgement)
    for judgement in judgements:
        if nobody_answers and judgement.demand.asks and not judgement.covered:
            raise not_approved(judgement)
    return tuple(warning for judgement in judgements for warning in judgement.warnings)


def checked_approver(given: object) -> Approver | None:
    """Return the approver of a policy. Raises `InvalidValue` for an object that is none."""
    if given is None or (isinstance(given, Approver) and not isinstance(given, type)):
        return given
    raise InvalidValue(
        f"PackagePolicy.approver must be an approver, not {given!r}; CallbackApprover makes one of a function"
    )


def _brought(judgement: Judgement, judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return what a package brings that is judged by it."""
    return [one for one in judgements if one.covered and judgement.name in one.path]


def _approved_as(judgement: Judgement, file: Locked | None) -> str:
    """Return what an answer covers: what is at an address, or the content of a file."""
    return judgement.requirement if judgement.trust is TrustLevel.GIT else f"{judgement.name} {file and file.origin}"


def _build(file: Locked) -> str:
    origin = file.source or file.filename
    return f"{origin} is built first, in a sandbox" if file.is_source else f"{file.filename} is from {origin}"


def _facts(judgement: Judgement, locked: Locked | None) -> PackageFacts:
    return PackageFacts(
        name=judgement.name,
        version=(locked.version if locked else "") or "unknown",
        requirement=judgement.requirement,
        trust=judgement.trust,
        reason=judgement.reason,
        brought_by=judgement.path,
        sha256=locked.sha256 if locked else "",
        size=locked.size if locked and locked.size >= 0 else None,
        licence=(locked.licence if locked else "") or "unknown",
        released=(locked.released if locked else "") or "unknown",
    )


def _reason(judgement: Judgement) -> str:
    """Return why somebody is asked: a sentence without its full stop."""
    why = _NEEDED[judgement.trust]
    return "; ".join([f"{_subject(judgement)} is to be installed: {why}{_why(judgement)}", *judgement.warnings])


def _subject(judgement: Judgement) -> str:
    brought = f", which {judgement.path[-1]} brings," if judgement.path else ""
    return f"{judgement.requirement}{brought}"


def _why(judgement: Judgement) -> str:
    return f": {judgement.reason}" if judgement.reason else ""
