"""Messages on a terminal, printed by `rich`: the same turns as on a page. Their text cannot control the terminal."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from .ansi import Look, runs_of
from .items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    arguments_to_json,
)
from .media import bare_media_type
from .messages import Message
from .render import cut
from .safe_text import visible, without_turns
from .terminal_pictures import Picture, pictures_here
from .turns import (
    Forms,
    Part,
    Step,
    Turn,
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
    size,
    title_of_results,
    turns_of,
    usage_in_words,
    words_of_error,
)

MAX_CHARS = 20_000
"""The length above which only a text's beginning and end are shown."""

_ROLES = {"user": "blue", "assistant": "green", "tool": "magenta"}
_INDENT = (0, 0, 0, 2)
_UNKNOWN_CHARS = 1_000
"""The characters shown of the JSON of an unknown item."""


class TranscriptView:
    """Messages as a renderable for a `rich` console.

    `environment` describes the terminal (default: the process's own), and so whether it shows pictures; otherwise
    pictures are only named.
    """

    def __init__(self, messages: Iterable[Message], *, environment: Mapping[str, str] | None = None) -> None:
        self._turns = turns_of(messages)
        self._pictures = pictures_here(environment)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view = _View(self._pictures if console.is_terminal else None)
        for turn in self._turns:
            yield from view.turn(turn)


class _View:
    def __init__(self, pictures: str | None) -> None:
        self._pictures = pictures

    def turn(self, turn: Turn) -> Iterator[RenderableType]:
        message = turn.message
        words = [str(turn.number), turn.heading, message.author, message.model]
        title = Text(_safe(" · ".join(word for word in words if word)), style=_ROLES.get(message.role, "dim"))
        yield Rule(title, align="left", style="dim")
        for part in turn.parts:
            yield from self.part(part, said=True)
        if not turn.parts and not turn.usage:
            yield Text("(empty)", style="dim")
        used = [word for usage in turn.usage for word in usage_in_words(usage)]
        if used:
            yield Text(_safe(" · ".join(used)), style="dim")

    def part(self, part: Part, *, said: bool = False, failed: bool = False) -> Iterator[RenderableType]:
        match part:
            case Step():
                yield from self._step(part)
            case Forms():
                yield from self._forms(part)
            case TextContent() if said and part.stream is None:
                # Links show both words and address, since a terminal would hide where the words lead.
                yield Markdown(_safe(cut(part.text, MAX_CHARS)), hyperlinks=False, code_theme="ansi_dark")
                yield from _sources(part)
            case TextContent():
                if part.text:
                    yield printed(part.text, style=("red" if failed else "yellow") if part.stream == "stderr" else "")
                yield from _sources(part)
            case ReasoningContent():
                kept = "(its provider keeps it to itself)"
                yield Text.assemble(("reasoning: ", "dim"), (_safe(cut(part.text, MAX_CHARS)) or kept, "dim italic"))
            case ErrorContent():
                yield from _error(part)
            case DataContent():
                yield from self._data(part)
            case CodeInterpreterCall() | FunctionCall():
                yield from self._step(Step(laid_out(part)))
            case CodeInterpreterResult() | FunctionResult():
                yield from self._step(Step(results=[part]))
            case UnknownContent():
                yield _named(part)
                yield Padding(Text(_safe(cut(as_json(part.raw), _UNKNOWN_CHARS)), style="dim"), _INDENT)
            case _:
                yield _named(part)

    def _step(self, step: Step) -> Iterator[RenderableType]:
        colour = {True: "green", False: "red", None: "yellow"}[step.success]
        took = "" if step.wall_ms is None else f" · {duration(step.wall_ms)}"
        yield Text.assemble(
            ("● ", colour), (_safe(_title(step)), "bold"), "  ", (_safe(outcome_in_words(step)), colour), (took, "dim")
        )
        inner = [*_inputs(step)]
        for child in step.inner:
            inner += self._step(child)
        for result in step.results:
            for part in parts_of(outputs_of(result)):
                inner += self.part(part, failed=step.success is False)
        if inner:
            yield Padding(Group(*inner), _INDENT)

    def _forms(self, forms: Forms) -> Iterator[RenderableType]:
        """Yield the value's picture if the terminal can show it, else the picture's name and the plainest form."""
        best, plain = forms.items[0], forms.items[-1]
        if isinstance(best, DataContent) and best.media_type.startswith("image/"):
            yield from self._data(best)
            if self._pictures is not None:
                return
        shown = printed(plain.text if _is_readable(plain) else _size_of(plain))
        yield Text.assemble(("value\n" if "\n" in shown.plain else "value ", "dim"), shown)

    def _data(self, item: DataContent) -> Iterator[RenderableType]:
        bare = bare_media_type(item.media_type)
        if bare.startswith("image/"):
            picture = Picture.of(item, self._pictures)
            hint = "" if picture is not None else "  (--html writes a page that shows it)"
            yield Text.assemble(("picture ", "dim"), _safe(item.name or ""), (f" {_size_of(item)}{hint}", "dim"))
            if picture is not None:
                yield picture
            return
        if item.name is not None:
            yield Text.assemble(("file ", "dim"), _safe(item.name), (f"  {_size_of(item)}", "dim"))
        elif not item.is_text:
            yield Text(f"data {_size_of(item)}", style="dim")
        if item.is_text and item.name is None:
            yield _source(item.text, item.language) if item.language else printed(item.text)


def _title(step: Step) -> str:
    call = step.call
    if isinstance(call, CodeInterpreterCall):
        return f"{call.name or 'code'} ({call.language})"
    if call is not None:
        return call.name or "tool"
    return " ".join(filter(None, title_of_results(step)))


def _inputs(step: Step) -> Iterator[RenderableType]:
    call = step.call
    if isinstance(call, CodeInterpreterCall):
        if call.code:
            yield _source(call.code, call.language, marked=step.error_line)
        for item in call.inputs:
            if not isinstance(item, TextContent) and not (isinstance(item, DataContent) and item.is_text):
                yield _named(item)
    elif isinstance(call, FunctionCall):
        yield from _arguments(call)


def _arguments(call: FunctionCall) -> Iterator[RenderableType]:
    if isinstance(call.arguments, str) or not call.arguments:
        if call.arguments:
            yield printed(call.arguments if isinstance(call.arguments, str) else arguments_to_json(call.arguments))
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in call.arguments.items():
        lines = value if isinstance(value, str) and "\n" in value else None
        language = None if lines is None else language_of_argument(name, call.arguments)
        written = json.dumps(value, ensure_ascii=False) if lines is None else lines
        shown = Text(_safe(cut(written, MAX_CHARS))) if language is None else _source(written, language)
        table.add_row(Text(_safe(name)), shown)
    yield table


def _source(code: str, language: str, *, marked: int | None = None) -> Syntax:
    return Syntax(
        _safe(cut(code, MAX_CHARS)).rstrip("\n"),
        language or "text",
        line_numbers=True,
        word_wrap=True,
        theme="ansi_dark",
        background_color="default",
        highlight_lines={marked} if marked is not None else None,
    )


def printed(text: str, *, style: str = "") -> Text:
    """Return a program's printed output with its colors; any other terminal control is made visible."""
    shown = Text(style=style)
    for piece, look in runs_of(cut(text, MAX_CHARS).rstrip("\n")):
        shown.append(without_turns(piece), _style(look))
    return shown


def _style(look: Look) -> Style:
    colour, background = (f"color({c})" if isinstance(c, int) else c for c in (look.colour, look.background))
    return Style(
        color=colour,
        bgcolor=background,
        bold=look.bold or None,
        dim=look.dim or None,
        italic=look.italic or None,
        underline=look.underline or None,
    )


def _error(item: ErrorContent) -> Iterator[RenderableType]:
    line = line_of(item)
    where = "" if line is None else f" in line {line}"
    code, message = words_of_error(item)
    if details_of(item):
        yield printed(textwrap.dedent(details_of(item)), style="red")
    # A traceback ends with the message, so the message is not repeated.
    said = "" if ends_with_message(item) else f": {cut(message, MAX_CHARS)}"
    yield Text(_safe(" ".join(filter(None, ("error", code))) + where + said), style="bold red")
    if hint_of(item):
        yield Text(_safe(f"hint: {hint_of(item)}"), style="yellow")


def _sources(item: TextContent) -> Iterator[RenderableType]:
    for note in dict.fromkeys((note.title or note.file_name or note.file_id, note.url) for note in item.annotations):
        title, url = note
        words = " ".join(word for word in (title, url) if word)
        if words:
            yield Text.assemble(("source ", "dim"), _linked(words, url))


def _linked(words: str, url: str | None) -> Text:
    """Return words linked to a URL, if the terminal can link and the URL is a plain web address."""
    style = Style(link=url) if url is not None and _is_plain_web_url(url) else Style()
    return Text(_safe(words), style=style)


def _is_plain_web_url(url: str) -> bool:
    return url.startswith(("http://", "https://")) and url.isprintable() and url.isascii() and len(url) < 2000


def _named(item: Content) -> Text:
    match item:
        case HostedFileContent():
            words = [
                item.name,
                item.file_id,
                item.media_type,
                None if item.size_bytes is None else size(item.size_bytes),
            ]
            return Text.assemble(("file ", "dim"), _safe("  ".join(word for word in words if word)))
        case HostedVectorStoreContent():
            return Text.assemble(("vector store ", "dim"), _safe(item.vector_store_id))
        case UriContent():
            uri = cut(item.uri, 200)
            words = [item.name, uri, item.media_type]
            named = _safe("  ".join(word for word in words if word))
            return Text.assemble(("at ", "dim"), _linked(named, item.uri))
        case DataContent():
            return Text.assemble(("file ", "dim"), _safe(item.name or ""), (f"  {_size_of(item)}", "dim"))
        case UsageContent():
            return Text(_safe(" · ".join(usage_in_words(item))), style="dim")
        case UnknownContent():
            kind = item.raw.get("type") if isinstance(item.raw, dict) else None
            return Text(_safe(f"(an item of {item.format} that is not known here: {kind})"), style="dim")
        case _:
            return Text(_safe(f"(an item that is not known here: {item.type})"), style="dim")


def _is_readable(item: TextContent | DataContent) -> bool:
    return isinstance(item, TextContent) or item.is_text


def _size_of(item: TextContent | DataContent) -> str:
    return f"{_safe(item.media_type)}, {size(len(item.data))}" if isinstance(item, DataContent) else ""


def _safe(text: str) -> str:
    return without_turns(visible(text))
