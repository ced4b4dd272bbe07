"""Messages as turns for a reader, in which each result stands beside its call.

Pages and terminals both render these turns, so that they show the same.
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
"""A pattern of the call ids that results of ours get when they belong to no call."""

Call: TypeAlias = CodeInterpreterCall | FunctionCall
Result: TypeAlias = CodeInterpreterResult | FunctionResult


@dataclass(slots=True)
class Step:
    """A call of code or of a tool, its results, and the calls that the code made itself.

    A result without a call has a step with no call, and a step may have several results.
    """

    call: Call | None = None
    results: list[Result] = field(default_factory=list)
    inner: list[Step] = field(default_factory=list)
    measured_ms: float | None = None
    anchor: str | None = None
    """The page's anchor for a failed step, for links to it."""

    @property
    def success(self) -> bool | None:
        """True if the step succeeded; `None` if there is no result, or the result does not say."""
        if not self.results:
            return None
        result = self.results[-1]
        return result.success if isinstance(result, CodeInterpreterResult) else not result.is_error

    @property
    def wall_ms(self) -> float | None:
        """The duration in milliseconds, if it was measured."""
        for result in self.results:
            wall = result.provider_data.get("actbox", {}).get("wall_ms")
            if isinstance(wall, int | float):
                return float(wall)
        return self.measured_ms

    @property
    def error_line(self) -> int | None:
        """The number of the program line that failed, if known."""
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
    def is_result(self) -> bool:
        """True if this is a result of ours, and not a speaker's message."""
        return "result" in self.message.provider_data.get("actbox", {})

    @property
    def heading(self) -> str:
        """The role; for a notebook's cell `text`, or `In [n]` with its count; for a result, `result` and its id."""
        if self.is_result:
            return f"result {self.message.provider_data['actbox']['result']}".rstrip()
        contents = self.message.contents
        cell = contents[0] if contents else None
        if isinstance(cell, TextContent) and "jupyter" in cell.provider_data and self.message.role == "user":
            return "text"
        if isinstance(cell, CodeInterpreterCall) and "jupyter" in cell.provider_data:
            count = cell.provider_data["jupyter"].get("execution_count")
            return f"In [{count if isinstance(count, int) else ' '}]"
        return self.message.role or "?"


def turns_of(messages: Iterable[Message]) -> list[Turn]:
    """Return the turns; a message that only has results of earlier calls makes no turn."""
    steps = _Steps()
    turns: list[Turn] = []
    for message in messages:
        turn = Turn(len(turns) + 1, message)
        belongs_to_earlier = False
        for part in parts_of(_with_known_tools(message.contents)):
            if isinstance(part, UsageContent):
                turn.usage.append(part)
            elif isinstance(part, CodeInterpreterCall | FunctionCall):
                step = steps.called(part)
                if step is not None:
                    turn.parts.append(step)
                else:
                    belongs_to_earlier = True
            elif isinstance(part, CodeInterpreterResult | FunctionResult):
                step = steps.returned(part)
                if step is not None:
                    turn.parts.append(step)
                else:
                    belongs_to_earlier = True
            else:
                turn.parts.append(part)
        _note_duration(turn, steps)
        if turn.parts or turn.usage or not belongs_to_earlier:
            turns.append(turn)
    return turns


def steps_of(parts: Iterable[Part]) -> Iterator[Step]:
    """Yield the steps among some parts, each before the steps that it made itself."""
    for part in parts:
        if isinstance(part, Step):
            yield part
            yield from steps_of(part.inner)


def _note_duration(turn: Turn, steps: _Steps) -> None:
    """Set a program's duration from its message's usage, if that covers just one program, as in results of ours."""
    results = [item for item in turn.message.contents if isinstance(item, CodeInterpreterResult)]
    walls = [usage.counts["wall_ms"] for usage in turn.usage if usage.counts.get("wall_ms")]
    if len(results) == len(walls) == 1:
        steps.of(results[0]).measured_ms = float(walls[0])


class _Steps:
    """A lookup of the step to which a call or a result belongs."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[bool, str], Step] = {}

    def called(self, call: Call) -> Step | None:
        """Return a new step for a call, or `None` if the call was added to its caller's step."""
        step = Step(laid_out(call))
        self._by_id[isinstance(call, CodeInterpreterCall), call.call_id] = step
        if isinstance(call, FunctionCall) and call.called_by is not None:
            caller = self._by_id.get((True, call.called_by))
            if caller is not None:
                caller.inner.append(step)
                return None
        return step

    def of(self, result: Result) -> Step:
        """Return the step of a result that was already recorded."""
        return self._by_id[isinstance(result, CodeInterpreterResult), result.call_id]

    def returned(self, result: Result) -> Step | None:
        """Return a new step for a result without a call, or `None` if the result was added to its call's step."""
        key = (isinstance(result, CodeInterpreterResult), result.call_id)
        step = self._by_id.get(key)
        if step is not None:
            step.results.append(result)
            return None
        step = self._by_id[key] = Step(results=[result])
        return step


def parts_of(items: Sequence[Content]) -> Iterator[Content | Forms]:
    """Yield items, with the forms of one value grouped."""
    place = 0
    while place < len(items):
        forms = _forms_at(items, place)
        if len(forms) > 1:
            yield Forms(tuple(_without_repeated(sorted(forms, key=_richness))))
            place += len(forms)
        else:
            yield items[place]
            place += 1


def _forms_at(items: Sequence[Content], place: int) -> list[TextContent | DataContent]:
    """Return the forms of one value that begin at an index, as results of ours and notebooks mark them."""
    found: list[TextContent | DataContent] = []
    for item in items[place:]:
        if not isinstance(item, TextContent | DataContent):
            break
        ours = item.provider_data.get("actbox", {}).get("part") == "value"
        # The first form of a notebook's value has the bundle's own fields; the other forms have their position.
        jupyter = item.provider_data.get("jupyter", {})
        if not (ours or ("bundle" in jupyter and not found) or ("form" in jupyter and found)):
            break
        found.append(item)
    return found


def _without_repeated(forms: Iterable[TextContent | DataContent]) -> Iterator[TextContent | DataContent]:
    """Yield forms without repetitions of the same text."""
    seen = set()
    for form in forms:
        same = form.text.strip() if isinstance(form, TextContent) or _is_plain(form) else None
        if same is None or same not in seen:
            yield form
        seen.add(same)


def _is_plain(form: DataContent) -> bool:
    return bare_media_type(form.media_type) == "text/plain"


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
    """Return the call; if its program is one JSON object, as with an editor tool, return it as the tool call that it
    is.
    """
    if not isinstance(call, CodeInterpreterCall) or call.language != "json":
        return call
    if not all(
        isinstance(item, TextContent) or (isinstance(item, DataContent) and item.is_text) for item in call.inputs
    ):
        return call
    made = _function_call(call.call_id, call.name or "json", call.code)
    return call if isinstance(made.arguments, str) else made


def _function_call(call_id: str, name: str, arguments: str) -> FunctionCall:
    """Return a function call; its arguments stay text if they are not JSON or nested too deeply."""
    try:
        return FunctionCall(call_id=call_id, name=name, arguments=arguments_from_json(arguments))
    except (ValueError, RecursionError):
        return FunctionCall(call_id=call_id, name=name, arguments=arguments)


_CODE = ("code", "source", "program", "script")
_FILE_TEXT = ("file_text", "old_str", "new_str", "insert_text", "content", "contents")


def language_of_argument(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the language of an argument that is code, "" if unknown; `None` if it is not code."""
    if name in _CODE:
        language = arguments.get("language")
        return language if isinstance(language, str) else "python"
    path = arguments.get("path", arguments.get("file_path"))
    if name not in _FILE_TEXT or not isinstance(path, str):
        return None
    lexer = find_lexer_class_for_filename(path.rpartition("/")[2])
    return "" if lexer is None or not lexer.aliases else str(lexer.aliases[0])


def outputs_of(result: Result) -> tuple[Content, ...]:
    """Return the outputs of a result, with the structured content of an MCP result unless a text repeats it."""
    structured = result.provider_data.get("mcp", {}).get("structuredContent")
    if structured is None or any(_says(item, structured) for item in result.outputs):
        return result.outputs
    return (*result.outputs, TextContent(text=as_json(structured)))


def _says(item: Content, value: Any) -> bool:
    if not isinstance(item, TextContent):
        return False
    # An MCP server wraps a value that is not an object as `result`.
    bare = value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value
    try:
        return item.text == bare or json.loads(item.text) in (value, bare)
    except (ValueError, RecursionError):
        return False


def _with_known_tools(items: Iterable[Content]) -> list[Content]:
    """Return the items, with recognizable items of provider-run tools replaced by calls and results."""
    return [known for item in items for known in (_tool_items(item) if isinstance(item, UnknownContent) else [item])]


def _tool_items(item: UnknownContent) -> list[Content]:
    raw = item.raw
    kind = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(kind, str):
        return [item]
    name, call_id, caller = raw.get("name"), raw.get("id"), raw.get("tool_use_id")
    returned_to, arguments = raw.get("call_id"), raw.get("arguments")
    if kind.endswith("tool_use") and isinstance(name, str) and isinstance(call_id, str):
        given = raw.get("input")
        return [FunctionCall(call_id=call_id, name=name, arguments=given if isinstance(given, dict) else {})]
    if kind.endswith("_tool_result") and isinstance(caller, str):
        outputs = tuple(_tool_outputs(raw.get("content")))
        failed = raw.get("is_error") is True or any(isinstance(output, ErrorContent) for output in outputs)
        tool = kind.removesuffix("_tool_result")
        return [FunctionResult(call_id=caller, name=tool, outputs=outputs, is_error=failed)]
    if kind.endswith("_result") and isinstance(returned_to, str):
        outputs = tuple(_tool_outputs(raw.get("result")))
        failed = raw.get("is_error") is True
        return [FunctionResult(call_id=returned_to, name=kind[:-7], outputs=outputs, is_error=failed)]
    if kind.endswith("_call") and isinstance(call_id, str) and isinstance(arguments, dict):
        return [FunctionCall(call_id=call_id, name=kind[:-5], arguments=arguments)]
    if kind.endswith("_call") and isinstance(call_id, str):
        return _whole_call(raw, name if isinstance(name, str) else kind.removesuffix("_call"), call_id)
    return [item]


_NO_ARGUMENTS = frozenset({"type", "id", "name", "status", "results", "result", "output", "error"})


def _whole_call(raw: Mapping[str, Any], name: str, call_id: str) -> list[Content]:
    """Return the call and result of an item that holds both, such as those of OpenAI's own tools."""
    action = raw.get("action")
    given = action if isinstance(action, dict) else {key: raw[key] for key in raw if key not in _NO_ARGUMENTS}
    call = FunctionCall(call_id=call_id, name=name, arguments=given)
    if isinstance(raw.get("arguments"), str):
        call = _function_call(call_id, name, raw["arguments"])
    outputs: list[Content] = []
    for key in ("results", "result", "output"):
        outputs += _tool_outputs(raw.get(key))
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
    """Return a value as indented JSON; a short note if it is nested too deeply."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


# Errors


def words_of_error(item: ErrorContent) -> tuple[str, str]:
    """Return the code and the message of an error, without repetition between them."""
    code = item.code or ""
    return (
        ("", item.message)
        if not code or item.message == code or item.message.startswith(f"{code}:")
        else (code, item.message)
    )


def details_of(item: ErrorContent) -> str:
    """Return the details of an error, "" if they only repeat its message."""
    return item.details if item.details and item.details.strip() != item.message.strip() else ""


def ends_with_message(item: ErrorContent) -> bool:
    """Return True if the details end with the message, as a traceback does."""
    return bool(item.message.strip()) and details_of(item).rstrip().endswith(item.message.strip())


def line_of(item: Content) -> int | None:
    """Return the number of the program line that an error names, or `None`."""
    if not isinstance(item, ErrorContent):
        return None
    ours = item.provider_data.get("actbox", {}).get("error")
    line = ours.get("line") if isinstance(ours, dict) else None
    return line if isinstance(line, int) and not isinstance(line, bool) else None


def hint_of(item: ErrorContent) -> str:
    """Return the hint of an error of ours, "" if it has none."""
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
    """Return a date and time to the minute, in UTC if the time zone is known."""
    return f"{when:%Y-%m-%d %H:%M}" if when.tzinfo is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def size(count: float) -> str:
    """Return a number of bytes with its unit."""
    if count == 1:
        return "1 byte"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def usage_in_words(usage: UsageContent) -> list[str]:
    """Return the usage as short phrases, without zero counts."""
    words = []
    for count, name in ((usage.input_tokens, "tokens in"), (usage.output_tokens, "tokens out")):
        if count:
            words.append(f"{count:,} {name}")
    if usage.total_tokens and not words:
        words.append(f"{usage.total_tokens:,} tokens")
    for name, value in usage.counts.items():
        if not value:
            continue
        unit = next((unit for unit in ("_ms", "Ms", "_bytes") if name.endswith(unit)), "")
        if unit:
            shown = size(value) if unit == "_bytes" else duration(value)
            words.append(f"{_name_of_count(name.removesuffix(unit))} {shown}")
        else:
            words.append(f"{value:,} {_name_of_count(name)}")
    return words


_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_COUNTS = {"max_rss": "memory", "thoughtsTokenCount": "thought tokens"}
"""Readable names for counts whose own names say little."""


def _name_of_count(name: str) -> str:
    """Return `output_tokens_details.reasoning_tokens` as `reasoning tokens out`."""
    group, _, own = name.rpartition(".")
    words = _CAPITAL.sub(r"_\1", own).lower().split("_")
    if words[-2:] == ["token", "count"]:
        words[-2:] = ["tokens"]
    elif words[-1] == "count":
        words.pop()
    said = _COUNTS.get(own) or " ".join(words)
    side = {"input": " in", "prompt": " in", "output": " out", "completion": " out"}
    return said + side.get(group.partition("_")[0], "") if group.endswith("_details") else said


def title_of_results(step: Step) -> tuple[str, str]:
    """Return a title for a result without a call, and its name; the name is empty for a run of ours."""
    result = step.results[-1]
    found = None if result.name else _OWN_RUN.fullmatch(result.call_id)
    if found is not None:
        return f"result {found[1] or ''}".rstrip(), ""
    kind = "code" if isinstance(result, CodeInterpreterResult) else "tool"
    return f"result of {kind}", result.name or result.call_id


def outcome_in_words(step: Step) -> str:
    """Return how a step ended: `ok`, `failed`, `exit code 2`, `timeout`, or a provider's own word.

    Return "" for a notebook's cell without output.
    """
    if not step.results:
        if isinstance(step.call, CodeInterpreterCall) and "jupyter" in step.call.provider_data:
            return ""
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
