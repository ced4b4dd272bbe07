"""The HTML page, or a fragment for another page, with all turns."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from importlib.resources import files

from actbox.content.items import CodeInterpreterCall, UsageContent
from actbox.content.messages import Message
from actbox.content.streaming import coalesce
from actbox.content.turns import Turn, instant, steps_of, turns_of, usage_in_words

from .markup import EMPTY, NOTHING_FETCHED, Markup, element, folded, joined, text
from .parts import parts_block

_FOLDED_CHARS = 1_500
_QUIET = frozenset({None, "stop", "tool_calls"})


def html_page(messages: Iterable[Message], *, title: str) -> str:
    """Return one self-contained page that shows the messages.

    A browser runs and fetches nothing for it, whatever the messages contain. The page follows the reader's choice of
    light or dark, and can be printed.
    """
    turns = turns_of(messages)
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        NOTHING_FETCHED,
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        # Without an icon, browsers request one.
        Markup('<link rel="icon" href="data:,">'),
        element("title", text(title)),
        _style("page.css"),
        _style("turns.css"),
    )
    top = element("header", element("h1", text(title)), element("p", _summary(turns), class_="note"))
    body = element("body", element("main", top, *map(_turn, turns), class_="actbox"))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode("utf-8", "replace").decode()


def html_fragment(messages: Iterable[Message]) -> str:
    """Return the turns as a part of another page, such as a notebook; its styles do not affect that page."""
    turns = turns_of(messages)
    shown = _body(turns[0]) if len(turns) == 1 else joined(*map(_turn, turns))
    whole = element("div", _style("turns.css"), shown, class_="actbox")
    return whole.encode("utf-8", "replace").decode()


@functools.cache
def _style(name: str) -> Markup:
    return Markup(f"<style>{(files(__package__) / name).read_text('utf-8')}</style>")


def _summary(turns: Sequence[Turn]) -> Markup:
    steps = [step for turn in turns for step in steps_of(turn.parts)]
    runs = sum(isinstance(step.call, CodeInterpreterCall) for step in steps)
    failed = [step for step in steps if step.success is False]
    for number, step in enumerate(failed, 1):
        step.anchor = f"failure-{number}"
    models = dict.fromkeys(turn.message.model for turn in turns if turn.message.model)
    are_results = bool(turns) and all(turn.is_result for turn in turns)
    words = [text(_counted(len(turns), "result" if are_results else "turn"))]
    words += [text(_counted(runs, "program"))] if runs else []
    words += [text(_counted(len(steps) - runs, "tool call"))] if len(steps) > runs else []
    words += [element("a", text(f"{len(failed)} failed"), href="#failure-1")] if failed else []
    words += [text(", ".join(models))] if models else []
    whole = coalesce(item.model_copy(update={"provider_data": {}}) for turn in turns for item in turn.usage)
    if len(turns) > 1:
        words += [text(word) for item in whole if isinstance(item, UsageContent) for word in usage_in_words(item)[:2]]
    return Markup(" · ".join(words))


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}" + ("" if count == 1 else "s")


def _turn(turn: Turn) -> Markup:
    message = turn.message
    count = element("span", text(f"{turn.number} "), class_="count")
    role = element("h2", element("a", count, text(turn.heading), href=f"#turn-{turn.number}"))
    said = [message.author, message.model]
    said.append(None if message.finish_reason in _QUIET else f"ended by {message.finish_reason}")
    notes = [text(" · ".join(word for word in said if word))]
    if message.created_at is not None:
        exact = message.created_at.isoformat(" ", "seconds")
        notes.append(element("span", text(instant(message.created_at)), class_="when", title=exact))
    note = Markup(" ".join(filter(None, notes)))
    head = element("header", role, element("p", note, class_="note") if note else EMPTY)
    kind = message.role if message.role in ("user", "assistant", "system", "developer", "tool") else "other"
    body = element("div", _body(turn), class_="body")
    return element("article", head, body, class_=kind, id=f"turn-{turn.number}")


def _body(turn: Turn) -> Markup:
    shown = parts_block(turn.parts)
    long = turn.message.role in ("system", "developer") and len(turn.message.text) > _FOLDED_CHARS
    if long:
        shown = folded(text(f"{len(turn.message.text):,} characters"), shown)
    if not turn.parts and not turn.usage:
        shown = element("p", text("(empty)"), class_="note")
    words = [word for item in turn.usage for word in usage_in_words(item)]
    usage = element("p", text(" · ".join(words)), class_="note usage") if words else EMPTY
    return joined(shown, usage)
