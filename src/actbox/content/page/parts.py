"""Each kind of item, and each step of a timeline, as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    arguments_from_json,
)
from actbox.content.media import bare_media_type
from actbox.content.render import cut
from actbox.content.turns import (
    Forms,
    Part,
    Step,
    as_json,
    details_of,
    duration,
    ends_with_message,
    hint_of,
    laid_out,
    language_of_argument,
    line_of,
    outcome_in_words,
    outputs_of,
    parts_of,
    title_of_results,
    usage_in_words,
    words_of_error,
)

from .files import as_text, data_block, hosted_block, json_block, uri_block, vector_store_block
from .links import link, linked
from .markup import EMPTY, Markup, element, folded, joined, text
from .preformatted import SHOWN_CHARS, code_block, output_block
from .prose import anchor_of, prose

_OPEN_LINES = 30
_INLINE_CHARS = 80


def parts_block(parts: Iterable[Part]) -> Markup:
    """Return the parts of a turn as HTML; adjacent steps form one timeline."""
    shown: list[Markup] = []
    steps: list[Step] = []
    for part in [*parts, None]:
        if isinstance(part, Step):
            steps.append(part)
            continue
        if steps:
            shown.append(timeline(steps))
            steps = []
        if part is not None:
            shown.append(part_block(part, said=True))
    return joined(*shown)


def timeline(steps: Iterable[Step]) -> Markup:
    """Return calls in their order, each with its results and duration."""
    return element("ol", *(_step(step) for step in steps), class_="steps")


def _step(step: Step) -> Markup:
    verdict = {True: "good", False: "bad", None: "open"}[step.success]
    took = step.wall_ms
    words = outcome_in_words(step)
    outcome = element("span", text(words), class_=f"outcome {verdict}") if words else EMPTY
    time = EMPTY if took is None else element("span", text(duration(took)), class_="took")
    head = element("p", _title(step), outcome, time, class_="head")
    inner = timeline(step.inner) if step.inner else EMPTY
    return element("li", head, _inputs(step), inner, *_results(step), class_=verdict, id=step.anchor)


def _title(step: Step) -> Markup:
    call = step.call
    if isinstance(call, CodeInterpreterCall):
        lines = call.code.count("\n") + (not call.code.endswith("\n"))
        words = f"{call.language} · {lines:,} {'line' if lines == 1 else 'lines'}"
        tool = text(f" · {call.name}") if call.name else EMPTY
        return element("span", element("strong", text("code")), text(f" {words}"), tool, class_="title")
    if call is not None:
        return element("span", element("strong", text("tool")), text(" "), element("code", text(call.name or "?")))
    title, name = title_of_results(step)
    named = joined(text(" "), element("code", text(name))) if name else EMPTY
    return element("span", element("strong", text(title)), named)


def _inputs(step: Step) -> Markup:
    call = step.call
    if isinstance(call, CodeInterpreterCall):
        code = code_block(cut(call.code, SHOWN_CHARS), call.language, marked=step.error_line) if call.code else EMPTY
        files = [item for item in call.inputs if not (isinstance(item, TextContent) or _is_code(item))]
        return joined(code, *(part_block(item) for item in files))
    return EMPTY if call is None else _arguments(call)


def _is_code(item: Content) -> bool:
    return isinstance(item, DataContent) and item.is_text


def _arguments(call: FunctionCall) -> Markup:
    written = given = call.arguments
    if isinstance(written, str):
        try:
            given = arguments_from_json(written)
        except RecursionError:
            return output_block(written)
    if isinstance(given, str):
        return output_block(given) if given else EMPTY
    if not given:
        return EMPTY
    rows = []
    for name, value in given.items():
        term = element("dt", text(name))
        rows += [term, element("dd", _argument(name, value, given))]
    return element("dl", *rows, class_="arguments")


def _argument(name: str, value: Any, given: JsonObject) -> Markup:
    if isinstance(value, str) and "\n" in value:
        return code_block(cut(value, SHOWN_CHARS), language_of_argument(name, given) or "", numbered=False)
    written = json.dumps(value, ensure_ascii=False)
    return element("code", text(written)) if len(written) <= _INLINE_CHARS else json_block(written)


def _results(step: Step) -> list[Markup]:
    shown = []
    for number, result in enumerate(step.results):
        if number:
            shown.append(element("p", text("another result"), class_="note"))
        parts = [part for part in parts_of(outputs_of(result)) if not isinstance(part, UsageContent)]
        shown += [part_block(part) for part in parts]
    return shown


def part_block(part: Part, *, said: bool = False) -> Markup:
    """Return one part as HTML. With `said`, text is somebody's words in Markdown; otherwise it is printed output."""
    match part:
        case Step():
            return timeline([part])
        case Forms():
            return _forms(part)
        case TextContent() if said and part.stream is None:
            return joined(prose(part.text, part.annotations), _sources(part.annotations))
        case TextContent():
            return joined(_printed_text(part), _sources(part.annotations))
        case ReasoningContent():
            return _reasoning(part)
        case DataContent():
            return data_block(part)
        case ErrorContent():
            return error_block(part)
        case UriContent():
            return uri_block(part)
        case HostedFileContent():
            return hosted_block(part)
        case HostedVectorStoreContent():
            return vector_store_block(part)
        case UsageContent():
            return element("p", text(" · ".join(usage_in_words(part))), class_="note")
        case CodeInterpreterCall() | FunctionCall():
            return timeline([Step(laid_out(part))])
        case CodeInterpreterResult() | FunctionResult():
            return timeline([Step(results=[part])])
        case UnknownContent():
            return _unknown(part.format, part.raw)
        case _:
            return _unknown("a later version", part.to_dict())


def _printed_text(item: TextContent) -> Markup:
    if not item.text:
        return EMPTY
    if item.stream is None and item.text.lstrip()[:1] in ("{", "["):
        return json_block(item.text)
    return output_block(item.text, stream=item.stream)


def _forms(forms: Forms) -> Markup:
    best, *others = forms.items
    shown = part_block(best)
    kinds = [(form, "text" if isinstance(form, TextContent) else _kind_of(form)) for form in others]
    folds = [
        folded(
            text(f"as {kind}"), as_text(form) if isinstance(form, DataContent) and form.is_text else part_block(form)
        )
        for form, kind in kinds
    ]
    return element("div", element("span", text("value"), class_="label"), shown, *folds, class_="labelled value")


def _kind_of(form: DataContent) -> str:
    return "text" if bare_media_type(form.media_type) == "text/plain" else form.media_type


def _reasoning(item: ReasoningContent) -> Markup:
    if not item.text:
        return element("p", text("reasoning that its provider keeps to itself"), class_="note")
    return folded(text("reasoning"), prose(item.text), opened=item.text.count("\n") < _OPEN_LINES, kind="reasoning")


def error_block(item: ErrorContent) -> Markup:
    """Return an error as HTML: code, line, message, details and hint."""
    line = line_of(item)
    where = element("span", text(f" · line {line}"), class_="took") if line is not None else EMPTY
    said, words = words_of_error(item)
    code = element("code", text(said)) if said else EMPTY
    head = element("p", element("strong", text("error ")), code, where, class_="head")
    message = element("p", linked(words), class_="message")
    hint = hint_of(item)
    advice = element("p", linked(f"hint: {hint}"), class_="note") if hint else EMPTY
    details = EMPTY
    if details_of(item):
        opened = details_of(item).count("\n") < _OPEN_LINES
        details = folded(text("details"), output_block(details_of(item)), opened=opened)
        # An open traceback ends with the message, so the message is not repeated.
        message = EMPTY if opened and ends_with_message(item) else message
    return element("div", head, message, details, advice, class_="error", role="group", aria_label="error")


def _sources(annotations: tuple[Annotation, ...]) -> Markup:
    """Return a list of the sources that annotations name, each once."""
    named: dict[Markup, str] = {}
    for note in annotations:
        words = note.title or note.file_name or note.url or note.file_id or note.snippet
        if not words:
            continue
        words = cut(words, 300)
        file = f" ({note.file_id})" if note.file_id and note.file_id != words else ""
        named.setdefault(joined(link(note.url, words) if note.url else text(words), text(file)), anchor_of(note))
    if not named:
        return EMPTY
    return element(
        "ul",
        *(element("li", name, id=anchor) for name, anchor in named.items()),
        class_="sources",
        aria_label="sources",
    )


def _unknown(format: str, raw: Any) -> Markup:
    kind = raw.get("type") if isinstance(raw, dict) else None
    words = f"an item of {format or 'unknown format'} that is not known here" + (f": {kind}" if kind else "")
    return folded(
        text(cut(words, 200)), code_block(cut(as_json(raw), SHOWN_CHARS), "json", numbered=False), kind="unknown"
    )
