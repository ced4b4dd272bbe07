"""Messages as a person follows them: turns, in which what a call came to stands beside the call.

Pages and terminals both show this, so that they show the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pygments.lexers import find_lexer_class_for_filename

from .items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    arguments_from_json,
)
from .media import bare_media_type
from .messages import Message

_OWN_RUN = re.compile(r"run(?:-(\d+))?")
"""The ids of calls of results of ours that were made of no call."""

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
    anchor: str | None = None
    """What a page calls the place of a step that failed, so that something may lead there."""

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

    @property
    def heading(self) -> str:
        """The role; of a notebook's cell `text`, or `In [n]` with the count that it has."""
        contents = self.message.contents
        cell = contents[0] if contents else None
        if isinstance(cell, TextContent) and "jupyter" in cell.provider_data and self.message.role == "user":
            return "text"
        if isinstance(cell, CodeInterpreterCall) and "jupyter" in cell.provider_data:
            count = cell.provider_data["jupyter"].get("execution_count")
            return f"In [{count if isinstance(count, int) else ' '}]"
        return self.message.role or "?"


def turns_of(messages: Iterable[Message]) -> list[Turn]:
    """Return the turns. A message that only has results of calls in turns before it is no turn of its own."""
    steps = _Steps()
    turns: list[Turn] = []
    for message in messages:
        turn = Turn(len(turns) + 1, message)
        taken = False
        for part in parts_of(_with_known_tools(message.contents)):
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


def steps_of(parts: Iterable[Part]) -> Iterator[Step]:
    """Yield the steps among some parts, each before those that it made itself."""
    for part in parts:
        if isinstance(part, Step):
            yield part
            yield from steps_of(part.inner)


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
        step = Step(laid_out(call))
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


# Calls and results, as they are shown


def laid_out(call: Call) -> Call:
    """Return a call whose program is one object of JSON, as of an editor, as the call of a tool that it is."""
    if not isinstance(call, CodeInterpreterCall) or call.language != "json":
        return call
    if not all(
        isinstance(item, TextContent) or (isinstance(item, DataContent) and item.is_text) for item in call.inputs
    ):
        return call
    made = _function_call(call.call_id, call.name or "json", call.code)
    return call if isinstance(made.arguments, str) else made


def _function_call(call_id: str, name: str, arguments: str) -> FunctionCall:
    """Return a call with the arguments that a text is as JSON, or the text where it is none or nested too deeply."""
    try:
        return FunctionCall(call_id=call_id, name=name, arguments=arguments_from_json(arguments))
    except (ValueError, RecursionError):
        return FunctionCall(call_id=call_id, name=name, arguments=arguments)


_CODE = ("code", "source", "program", "script")
_FILE_TEXT = ("file_text", "old_str", "new_str", "insert_text", "content", "contents")


def language_of_argument(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return in which language an argument is written, "" where that is not known; `None` where it is no code."""
    if name in _CODE:
        language = arguments.get("language")
        return language if isinstance(language, str) else "python"
    path = arguments.get("path", arguments.get("file_path"))
    if name not in _FILE_TEXT or not isinstance(path, str):
        return None
    lexer = find_lexer_class_for_filename(path.rpartition("/")[2])
    return "" if lexer is None or not lexer.aliases else str(lexer.aliases[0])


def outputs_of(result: Result) -> tuple[Content, ...]:
    """Return what a result came to; the structured content of an MCP result too, unless a text of it says the same."""
    structured = result.provider_data.get("mcp", {}).get("structuredContent")
    if structured is None or any(_says(item, structured) for item in result.outputs):
        return result.outputs
    return (*result.outputs, TextContent(text=as_json(structured)))


def _says(item: Content, value: Any) -> bool:
    if not isinstance(item, TextContent):
        return False
    # A server wraps what is no object as `result`.
    bare = value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value
    try:
        return item.text == bare or json.loads(item.text) in (value, bare)
    except (ValueError, RecursionError):
        return False


def _with_known_tools(items: Iterable[Content]) -> list[Content]:
    """Return the items, those of tools that a provider runs itself as calls and results, as far as they can be told."""
    return [known for item in items for known in (_tool_items(item) if isinstance(item, UnknownContent) else [item])]


def _tool_items(item: UnknownContent) -> list[Content]:
    raw = item.raw
    kind = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(kind, str):
        return [item]
    name, call_id, caller = raw.get("name"), raw.get("id"), raw.get("tool_use_id")
    if kind.endswith("tool_use") and isinstance(name, str) and isinstance(call_id, str):
        given = raw.get("input")
        return [FunctionCall(call_id=call_id, name=name, arguments=given if isinstance(given, dict) else {})]
    if kind.endswith("_tool_result") and isinstance(caller, str):
        outputs = tuple(_tool_outputs(raw.get("content")))
        failed = raw.get("is_error") is True or any(isinstance(output, ErrorContent) for output in outputs)
        tool = kind.removesuffix("_tool_result")
        return [FunctionResult(call_id=caller, name=tool, outputs=outputs, is_error=failed)]
    if kind.endswith("_call") and isinstance(call_id, str):
        return _whole_call(raw, name if isinstance(name, str) else kind.removesuffix("_call"), call_id)
    return [item]


_NO_ARGUMENTS = frozenset({"type", "id", "name", "status", "results", "result", "output", "error"})


def _whole_call(raw: Mapping[str, Any], name: str, call_id: str) -> list[Content]:
    """Return a call that has its result in itself, as those of OpenAI's own tools."""
    action = raw.get("action")
    given = action if isinstance(action, dict) else {key: raw[key] for key in raw if key not in _NO_ARGUMENTS}
    call = FunctionCall(call_id=call_id, name=name, arguments=given)
    if isinstance(raw.get("arguments"), str):
        call = _function_call(call_id, name, raw["arguments"])
    outputs: list[Content] = []
    for came in ("results", "result", "output"):
        outputs += _tool_outputs(raw.get(came))
    error = raw.get("error")
    if error:
        outputs.append(ErrorContent(message=error if isinstance(error, str) else as_json(error)))
    failed = bool(error) or raw.get("status") in ("failed", "incomplete")
    if not outputs and not failed and raw.get("status") not in (None, "completed"):
        return [call]
    return [call, FunctionResult(call_id=call_id, outputs=tuple(outputs), is_error=failed)]


def _tool_outputs(content: Any) -> Iterator[Content]:
    for entry in content if isinstance(content, list) else [content]:
        fields = entry if isinstance(entry, dict) else {}
        kind, url, title = fields.get("type"), fields.get("url"), fields.get("title")
        if entry in (None, "", [], {}):
            continue
        if isinstance(entry, str):
            yield TextContent(text=entry)
        elif isinstance(kind, str) and kind.endswith("_error"):
            yield ErrorContent(message=str(fields.get("error_code") or as_json(entry)))
        elif kind == "text" and isinstance(fields.get("text"), str):
            yield TextContent(text=fields["text"])
        elif isinstance(url, str) and "content" not in fields:
            yield UriContent(uri=url, name=title if isinstance(title, str) else None)
        else:
            yield TextContent(text=as_json(entry))


def as_json(value: Any) -> str:
    """Return a value as indented JSON; a few words where it is nested too deeply for that."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


# Errors


def words_of_error(item: ErrorContent) -> tuple[str, str]:
    """Return the code and the message of an error, neither of which repeats the other."""
    code = item.code or ""
    return (
        ("", item.message)
        if not code or item.message == code or item.message.startswith(f"{code}:")
        else (code, item.message)
    )


def details_of(item: ErrorContent) -> str:
    """Return the details of an error, "" where they are no more than its message."""
    return item.details if item.details and item.details.strip() != item.message.strip() else ""


def ends_with_message(item: ErrorContent) -> bool:
    """Return whether the details end with the message, as a traceback does."""
    return bool(item.message.strip()) and details_of(item).rstrip().endswith(item.message.strip())


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


def instant(when: datetime) -> str:
    """Return date and time to the minute, in UTC where the zone is known."""
    return f"{when:%Y-%m-%d %H:%M}" if when.tzinfo is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


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
            words.append(f"{value:,} {_name_of_count(name)}")
    return words


def _name_of_count(name: str) -> str:
    """Return `output_tokens_details.reasoning_tokens` as `reasoning tokens out`."""
    group, _, own = name.rpartition(".")
    side = {"input": " in", "prompt": " in", "output": " out", "completion": " out"}
    if group.endswith("_details"):
        return own.replace("_", " ") + side.get(group.partition("_")[0], "")
    return name.replace(".", " ").replace("_", " ")


def title_of_results(step: Step) -> tuple[str, str]:
    """Return what to call a result that came without its call, and its name; no name where it is a run of ours."""
    result = step.results[-1]
    found = None if result.name else _OWN_RUN.fullmatch(result.call_id)
    if found is not None:
        return f"result {found[1] or ''}".rstrip(), ""
    kind = "code" if isinstance(result, CodeInterpreterResult) else "tool"
    return f"result of {kind}", result.name or result.call_id


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
