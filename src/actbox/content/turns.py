"""Messages as a person follows them: turns, in which what a call came to stands beside the call.

Pages and terminals both show this, so that they show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    TextContent,
    UsageContent,
)
from .media import bare_media_type
from .messages import Message

Call: TypeAlias = CodeInterpreterCall | FunctionCall
Result: TypeAlias = CodeInterpreterResult | FunctionResult


@dataclass(slots=True)
class Step:
    """A call of code or of a tool, what it came to, and the calls that the code made itself.

    There is no call where a result came without one, and there are several results where several came.
    """

    call: Call | None = None
    results: list[Result] = field(default_factory=list)
    inner: list[Step] = field(default_factory=list)
    measured_ms: float | None = None

    @property
    def success(self) -> bool | None:
        """Whether it succeeded; `None` where there is no result, or it does not say."""
        if not self.results:
            return None
        result = self.results[-1]
        return result.success if isinstance(result, CodeInterpreterResult) else not result.is_error

    @property
    def wall_ms(self) -> float | None:
        """How long it took, in milliseconds, where somebody measured it."""
        for result in self.results:
            wall = result.provider_data.get("actbox", {}).get("wall_ms")
            if isinstance(wall, int | float):
                return float(wall)
        return self.measured_ms

    @property
    def error_line(self) -> int | None:
        """The line of the program on which it failed, where that is known."""
        outputs = (output for result in self.results for output in result.outputs)
        return next((line for output in outputs if (line := line_of(output)) is not None), None)


@dataclass(frozen=True, slots=True)
class Forms:
    """One value in several forms, the richest first, as a notebook has them."""

    items: tuple[TextContent | DataContent, ...]


Part: TypeAlias = Content | Step | Forms


@dataclass(slots=True)
class Turn:
    """One message: its parts in their order, and its usage apart. `number` counts from 1."""

    number: int
    message: Message
    parts: list[Part] = field(default_factory=list)
    usage: list[UsageContent] = field(default_factory=list)


def turns_of(messages: Iterable[Message]) -> list[Turn]:
    """Return the turns. A message that only has results of calls in turns before it is no turn of its own."""
    steps = _Steps()
    turns: list[Turn] = []
    for message in messages:
        turn = Turn(len(turns) + 1, message)
        taken = False
        for part in parts_of(message.contents):
            if isinstance(part, UsageContent):
                turn.usage.append(part)
            elif isinstance(part, CodeInterpreterCall | FunctionCall):
                step = steps.called(part)
                if step is not None:
                    turn.parts.append(step)
                else:
                    taken = True
            elif isinstance(part, CodeInterpreterResult | FunctionResult):
                step = steps.returned(part)
                if step is not None:
                    turn.parts.append(step)
                else:
                    taken = True
            else:
                turn.parts.append(part)
        _note_duration(turn, steps)
        if turn.parts or turn.usage or not taken:
            turns.append(turn)
    return turns


def _note_duration(turn: Turn, steps: _Steps) -> None:
    """Say how long a program took where the usage of its message is of nothing else, as it is in results of ours."""
    results = [item for item in turn.message.contents if isinstance(item, CodeInterpreterResult)]
    walls = [usage.counts["wall_ms"] for usage in turn.usage if usage.counts.get("wall_ms")]
    if len(results) == len(walls) == 1:
        steps.of(results[0]).measured_ms = float(walls[0])


class _Steps:
    """Finds the step that a call or a result belongs to."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[bool, str], Step] = {}

    def called(self, call: Call) -> Step | None:
        """Return the new step; `None` where it is part of another one already."""
        step = Step(call)
        self._by_id[isinstance(call, CodeInterpreterCall), call.call_id] = step
        if isinstance(call, FunctionCall) and call.called_by is not None:
            caller = self._by_id.get((True, call.called_by))
            if caller is not None:
                caller.inner.append(step)
                return None
        return step

    def of(self, result: Result) -> Step:
        """Return the step of a result that was taken."""
        return self._by_id[isinstance(result, CodeInterpreterResult), result.call_id]

    def returned(self, result: Result) -> Step | None:
        """Return a new step for a result without a call; `None` where it is part of that of its call."""
        key = (isinstance(result, CodeInterpreterResult), result.call_id)
        step = self._by_id.get(key)
        if step is not None:
            step.results.append(result)
            return None
        step = self._by_id[key] = Step(results=[result])
        return step


def parts_of(items: Sequence[Content]) -> Iterator[Content | Forms]:
    """Yield items, those that are forms of one value together."""
    place = 0
    while place < len(items):
        forms = _forms_at(items, place)
        if len(forms) > 1:
            yield Forms(tuple(sorted(forms, key=_richness)))
            place += len(forms)
        else:
            yield items[place]
            place += 1


def _forms_at(items: Sequence[Content], place: int) -> list[TextContent | DataContent]:
    """Return the forms of one value that begin at a place. Results of ours and notebooks mark them."""
    found: list[TextContent | DataContent] = []
    for item in items[place:]:
        if not isinstance(item, TextContent | DataContent):
            break
        ours = item.provider_data.get("actbox", {}).get("part") == "value"
        # The first form of a notebook's value has the bundle's own fields, each other one its place.
        jupyter = item.provider_data.get("jupyter", {})
        if not (ours or ("bundle" in jupyter and not found) or ("form" in jupyter and found)):
            break
        found.append(item)
    return found


def _richness(item: TextContent | DataContent) -> int:
    if isinstance(item, TextContent):
        return 9
    bare = bare_media_type(item.media_type)
    if bare.startswith("image/"):
        return 0
    order = ("text/html", "text/markdown", "text/latex", "application/json")
    return 1 + order.index(bare) if bare in order else 8 if bare == "text/plain" else 7


def line_of(item: Content) -> int | None:
    """Return the line of the program that an error names; `None` where it names none."""
    if not isinstance(item, ErrorContent):
        return None
    ours = item.provider_data.get("actbox", {}).get("error")
    line = ours.get("line") if isinstance(ours, dict) else None
    return line if isinstance(line, int) and not isinstance(line, bool) else None


def hint_of(item: ErrorContent) -> str:
    """Return what an error of ours says to do about it, "" where it says nothing."""
    ours = item.provider_data.get("actbox", {}).get("error")
    hint = ours.get("hint") if isinstance(ours, dict) else None
    return hint if isinstance(hint, str) else ""


# Numbers, as people read them


def duration(milliseconds: float) -> str:
    """Return a duration with its unit."""
    if milliseconds < 1:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def size(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def usage_in_words(usage: UsageContent) -> list[str]:
    """Return what was used, a few words each; what is zero is left out."""
    words = []
    for count, name in ((usage.input_tokens, "tokens in"), (usage.output_tokens, "tokens out")):
        if count:
            words.append(f"{count:,} {name}")
    if usage.total_tokens and not words:
        words.append(f"{usage.total_tokens:,} tokens")
    for name, value in usage.counts.items():
        if not value:
            continue
        if name.endswith("_ms"):
            words.append(f"{name.removesuffix('_ms').replace('_', ' ')} {duration(value)}")
        elif name.endswith("_bytes"):
            words.append(f"{name.removesuffix('_bytes').replace('_', ' ')} {size(value)}")
        else:
            words.append(f"{value:,} {name.replace('_', ' ')}")
    return words


def outcome_in_words(step: Step) -> str:
    """Return how a step ended: `ok`, `failed`, `exit code 2`, `timeout`, or what a provider calls it."""
    if not step.results:
        return step.call.status if isinstance(step.call, CodeInterpreterCall) and step.call.status else "no result"
    result = step.results[-1]
    if isinstance(result, FunctionResult):
        return "failed" if result.is_error else "ok"
    if result.success:
        return "ok"
    if result.outcome not in (None, "ok", "failed"):
        return str(result.outcome)
    if result.exit_code:
        return f"exit code {result.exit_code}"
    return "failed"
