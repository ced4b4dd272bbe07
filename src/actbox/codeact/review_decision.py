"""Decisions on reviewed programs: each runs, runs with warnings, waits for approval, or does not run.

This is advice on top of isolation, never instead of it: a program without findings runs, and is no safer for that. This
module asks nobody and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.program import Program
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult
from actbox.tools import Toolset
from actbox.tools.threads import ThreadPool

from .approvals import MOST_CHARACTERS as MOST_REVIEWED
from .final_answer import FINAL_ANSWER

if TYPE_CHECKING:
    # Imported only for reviews, since the import takes long.
    from actbox.review import Finding, Review, Rules

REVIEWS_AT_ONCE: Final = 2
"""The number of programs that are reviewed at once, over all agents; further programs wait."""

# Reading a large program takes seconds, which the event loop must not spend.
_reviews = ThreadPool(limit=REVIEWS_AT_ONCE)

MOST_FINDINGS: Final = 20
"""The most findings of one verdict in one result or question; further ones are counted."""
MOST_CHARACTERS: Final = 200
"""The most characters of one finding, whose message may contain a name that the program chose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The decision on one program. All of its text is bounded, and each finding is one printable line.

    `error` says why the program must not run, and is `None` if it may. `question` says why approval is needed, as a
    sentence without its full stop, and is empty if it is not. `warnings` are for the result.
    """

    error: ErrorInfo | None = None
    question: str = ""
    warnings: tuple[str, ...] = ()

    def warn(self, result: ExecutionResult) -> ExecutionResult:
        """Return the result with the warnings of the review before its own."""
        return replace(result, warnings=(*self.warnings, *result.warnings)) if self.warnings else result


def checked_rules(rules: Rules, language: str = "python", *, cannot_ask: str = "") -> Rules:
    """Return the rules of the reviews of an agent's programs, in which its `final_answer` counts only by name.

    Raises `InvalidValue`, with `cannot_ask` as the reason if that is given and the rules could ask; and `Unsupported`
    if the reader of the language is not installed.
    """
    from actbox.review import Rules, Verdict, check_readable

    if not isinstance(rules, Rules):
        raise InvalidValue(f"review must be actbox.review.Rules, not {type(rules).__name__}")
    if cannot_ask and rules.can_be(Verdict.ASK):
        raise InvalidValue(f"a rule of review asks, but {cannot_ask}")
    check_readable(language)
    return Rules({f"tool:{FINAL_ANSWER}": Verdict.ALLOW, **rules.verdicts}, rules.otherwise)


async def advice_on(
    program: Program, rules: Rules, tools: Toolset | None = None, *, most_characters: int = MOST_REVIEWED
) -> Advice:
    """Return the decision that follows from the review of a program; `tools` are those of its run."""
    from actbox.review import Rules, Verdict, review

    if len(program.code) > most_characters and "not-read" not in rules.verdicts:
        # A longer program must not get around a rule.
        strictest = max((verdict for verdict in Verdict if rules.can_be(verdict)), default=Verdict.WARN)
        rules = Rules({**rules.verdicts, "not-read": strictest}, rules.otherwise)
    return decide(await _reviews.run(review, program, rules, tools=tools, most_characters=most_characters))


def decide(review: Review) -> Advice:
    """Return the decision that follows from the verdicts on a program's findings. A blocked program leaves nothing to
    ask.
    """
    from actbox.review import Verdict

    findings: dict[Verdict, list[Finding]] = {verdict: [] for verdict in Verdict}
    for finding in review.findings:
        findings[review.verdict_on(finding)].append(finding)
    warnings = tuple(f"review: {text}" for text in _listed(findings[Verdict.WARN]))
    if blocking := findings[Verdict.BLOCK]:
        return Advice(error=_blocked(blocking), warnings=warnings)
    asking = "; ".join(_listed(findings[Verdict.ASK]))
    return Advice(question=f"the review found what must be asked about: {asking}" if asking else "", warnings=warnings)


def blocked(error: ErrorInfo, engine: str) -> ExecutionResult:
    """Return the result of a program that did not run because of its review."""
    return ExecutionResult(exit_code=EXIT_NOT_RUN, error=error, sandbox=engine)


def _blocked(findings: list[Finding]) -> ErrorInfo:
    return ErrorInfo(
        kind=ErrorKind.POLICY,
        type="ReviewBlocked",
        message=f"the program was read and did not run; the rules block: {'; '.join(_listed(findings))}",
        line=findings[0].line,
        hint="write the program without what is named, do it with a tool where there is one, or say that you cannot",
    )


def _listed(findings: list[Finding]) -> Iterable[str]:
    shown = [f"line {finding.line}: {finding.rule}: {_cut(finding.message)}" for finding in findings[:MOST_FINDINGS]]
    more = sum(finding.stands_for for finding in findings[MOST_FINDINGS:])
    return [*shown, f"and {more:,} more"] if more else shown


def _cut(message: str) -> str:
    # A message may contain any text of the program: on one line it cannot pass for another finding.
    cut = message[:MOST_CHARACTERS]
    text = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in cut)
    return text if len(cut) == len(message) else f"{text}…"
