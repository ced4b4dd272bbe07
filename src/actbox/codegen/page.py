"""The page of a task: its goal, all attempts with their programs, results and checks, and the answer, as HTML."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from actbox.codeact.blocks import fenced
from actbox.content.items import CodeInterpreterCall, Content, TextContent, code_content
from actbox.content.messages import Message
from actbox.content.page import html_page
from actbox.content.results import content_from_result
from actbox.core.counted import counted

from .acceptance import CheckOutcome
from .notebook import Cell
from .outcome import Attempt, Outcome
from .prompts import cut_line

_MOST_DIFF_LINES: Final = 200
_MOST_COMPARED: Final = 10_000
"""The lines of two programs above which they are not compared: that takes a time that grows with their square."""
_MOST_TITLE: Final = 80


def attempts_page(cells: Sequence[Cell]) -> str:
    """Return one self-contained HTML page of goals that were solved one after the other, with the last one's title."""
    messages = [message for cell in cells for message in attempts_messages(cell.goal, cell.outcome)]
    return html_page(messages, title=cut_line(cells[-1].goal, _MOST_TITLE))


def attempts_messages(goal: str, outcome: Outcome) -> list[Message]:
    """Return a task as messages: the goal, a turn for each attempt, and the end."""
    messages = [Message(role="user", contents=(TextContent(text=goal),))]
    before: dict[int, Attempt] = {}
    attempts = outcome.attempts
    several = any(attempt.candidate != 1 for attempt in attempts)
    for place, attempt in enumerate(attempts, 1):
        contents = tuple(_contents(attempt, before.get(attempt.candidate), f"attempt-{place}"))
        author = f"candidate {attempt.candidate} · {_about(attempt)}" if several else _about(attempt)
        messages.append(Message(role="assistant", contents=contents, author=author, model=attempt.model or None))
        if attempt.code:
            before[attempt.candidate] = attempt
    cost = sum(attempt.cost for attempt in attempts)
    words = [f"{'Solved' if outcome.solved else 'Not solved'} after {counted(len(attempts), 'attempt')}"]
    words += [f"stopped by {outcome.stopped}"] if not outcome.solved else []
    words += [f"${cost:.4f}"] if cost else []
    end: list[Content] = [TextContent(text=", ".join(words) + ".")]
    if (answer := outcome.answer) is not None:
        end.append(TextContent(text=fenced(answer if isinstance(answer, str) else repr(answer), "")))
    messages.append(Message(role="assistant", contents=tuple(end), author="the outcome"))
    return messages


def _about(attempt: Attempt) -> str:
    words = [f"attempt {attempt.number}"]
    if attempt.error_class is not None:
        words.append(attempt.error_class.value.replace("_", " "))
    words += [f"${attempt.cost:.4f}"] if attempt.cost else []
    return " · ".join(words)


def _contents(attempt: Attempt, before: Attempt | None, call_id: str) -> Iterator[Content]:
    if attempt.explanation:
        yield TextContent(text=attempt.explanation)
    if before is not None and attempt.code:
        lines = list(changes(before.code, attempt.code))
        yield TextContent(text=fenced("\n".join(lines), "diff") if lines else "The same program once more:")
    if attempt.code:
        yield CodeInterpreterCall(call_id=call_id, inputs=(code_content(attempt.code, attempt.language),))
    if attempt.result is not None:
        yield from content_from_result(attempt.result, call_id=call_id)
    if attempt.checks is not None and attempt.checks.outcomes:
        yield TextContent(text=fenced("\n".join(map(_line, attempt.checks.outcomes)), ""))


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
