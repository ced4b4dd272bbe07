"""The page of a task: its goal, all attempts with their programs, results and checks, and the answer, as HTML."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from actbox.content.items import CodeInterpreterCall, Content, TextContent, code_content
from actbox.content.messages import Message
from actbox.content.page import html_page
from actbox.content.results import content_from_result
from actbox.core.counted import counted
from actbox.core.result import ExecutionResult

from .acceptance import Acceptance, CheckOutcome

_MOST_DIFF_LINES: Final = 200
_MOST_COMPARED: Final = 10_000
"""The lines of two programs above which they are not compared: that takes a time that grows with their square."""
_MOST_TITLE: Final = 80


class ShownAttempt(Protocol):
    """The parts of an attempt that the page shows. `result` and `checks` are `None` for what did not happen."""

    @property
    def number(self) -> int:
        """The number of the attempt, from 1 in each candidate."""
        ...

    @property
    def candidate(self) -> int:
        """The number of the candidate, from 1."""
        ...

    @property
    def code(self) -> str:
        """The program, "" if the model sent none."""
        ...

    @property
    def language(self) -> str:
        """The program's language."""
        ...

    @property
    def explanation(self) -> str:
        """The model's words about the program."""
        ...

    @property
    def result(self) -> ExecutionResult | None:
        """The result of the run."""
        ...

    @property
    def error_class(self) -> object | None:
        """The class of the error, `None` for success."""
        ...

    @property
    def checks(self) -> Acceptance | None:
        """The verdict of the checks."""
        ...

    @property
    def cost(self) -> float:
        """The cost of the model's reply, in US dollars; 0 if nobody knows it."""
        ...


def attempts_page(
    goal: str, attempts: Sequence[ShownAttempt], *, solved: bool, stopped: str, answer: Any = None, model: str = ""
) -> str:
    """Return one self-contained HTML page of a task. `stopped` is why the agent stopped."""
    return html_page(
        attempts_messages(goal, attempts, solved=solved, stopped=stopped, answer=answer, model=model),
        title=page_title(goal),
    )


def attempts_messages(
    goal: str, attempts: Sequence[ShownAttempt], *, solved: bool, stopped: str, answer: Any = None, model: str = ""
) -> list[Message]:
    """Return a task as messages: the goal, a turn for each attempt, and the end."""
    messages = [Message(role="user", contents=(TextContent(text=goal),))]
    before: dict[int, ShownAttempt] = {}
    several = any(attempt.candidate != 1 for attempt in attempts)
    for place, attempt in enumerate(attempts, 1):
        contents = tuple(_contents(attempt, before.get(attempt.candidate), f"attempt-{place}"))
        author = f"candidate {attempt.candidate} · {_about(attempt)}" if several else _about(attempt)
        messages.append(Message(role="assistant", contents=contents, author=author, model=model or None))
        if attempt.code:
            before[attempt.candidate] = attempt
    cost = sum(attempt.cost for attempt in attempts)
    words = [f"{'Solved' if solved else 'Not solved'} after {counted(len(attempts), 'attempt')}"]
    words += [f"stopped by {stopped}"] if stopped and not solved else []
    words += [f"${cost:.4f}"] if cost else []
    end: list[Content] = [TextContent(text=", ".join(words) + ".")]
    if answer is not None:
        end.append(TextContent(text=_fenced(answer if isinstance(answer, str) else repr(answer))))
    messages.append(Message(role="assistant", contents=tuple(end), author="the outcome"))
    return messages


def _about(attempt: ShownAttempt) -> str:
    words = [f"attempt {attempt.number}"]
    if attempt.error_class is not None:
        words.append(str(getattr(attempt.error_class, "value", attempt.error_class)).replace("_", " "))
    words += [f"${attempt.cost:.4f}"] if attempt.cost else []
    return " · ".join(words)


def _contents(attempt: ShownAttempt, before: ShownAttempt | None, call_id: str) -> Iterator[Content]:
    if attempt.explanation:
        yield TextContent(text=attempt.explanation)
    if before is not None and attempt.code:
        lines = list(changes(before.code, attempt.code))
        yield TextContent(text=_fenced("\n".join(lines), "diff") if lines else "The same program once more:")
    if attempt.code:
        yield CodeInterpreterCall(call_id=call_id, inputs=(code_content(attempt.code, attempt.language),))
    if attempt.result is not None:
        yield from content_from_result(attempt.result, call_id=call_id)
    if attempt.checks is not None and attempt.checks.outcomes:
        yield TextContent(text=_fenced("\n".join(map(_line, attempt.checks.outcomes))))


def changes(before: str, after: str) -> Iterator[str]:
    """Yield the lines of a unified diff of two programs, without its head; there are none for the same program."""
    old, new = before.splitlines(), after.splitlines()
    if old != new and len(old) + len(new) > _MOST_COMPARED:
        yield f"… ({len(old):,} lines before and {len(new):,} now are too many to compare)"
        return
    lines = difflib.unified_diff(old, new, n=2, lineterm="")
    for count, line in enumerate(islice(lines, 2, None)):
        if count == _MOST_DIFF_LINES:
            yield "…"
            return
        yield line


def _line(outcome: CheckOutcome) -> str:
    mark = "✓" if outcome.passed else "✗"
    weight = "" if outcome.weight == 1 else f" (weight {outcome.weight:g})"
    return f"{mark} {outcome}{weight}"


def page_title(goal: str) -> str:
    """Return the title of a task's page: its goal on one short line."""
    line = " ".join(goal.split())
    return line if len(line) <= _MOST_TITLE else f"{line[: _MOST_TITLE - 2]} …"


def _fenced(text: str, language: str = "") -> str:
    """Return text as a Markdown block, with a fence that the text does not have."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"
