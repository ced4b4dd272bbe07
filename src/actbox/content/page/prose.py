"""What people and models write: Markdown, without anything in it that could be markup, or be fetched."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from actbox.content.items import Annotation
from actbox.content.safe_text import visible, without_turns

from .code import code_block
from .markup import PICTURE_URI, Markup, element, text

MARKDOWN_CHARS = 50_000
"""Longer text is shown as it is: to read some texts, such as very many brackets, takes the square of their length."""

_SANDBOX = "sandbox:"
"""The scheme by which models link files of the container that their code runs in."""

_TITLE_LEVELS = 3
"""A heading of a message's lies below the page's title and its turn's."""


def prose(source: str, notes: Sequence[Annotation] = ()) -> Markup:
    """Return Markdown as HTML. A heading ranks below those of the page; a picture by URL becomes a link.

    A link to a file in a provider's sandbox leads to the annotation among `notes` that speaks of the file.
    """
    if len(source) > MARKDOWN_CHARS:
        return element("div", text(source), class_="prose plain")
    return element(
        "div",
        Markup(_MARKDOWN.render(without_turns(visible(source)), {"files": _files(source, notes)})),
        class_="prose",
    )


def is_web_link(url: str) -> bool:
    """Return whether a URL may be a link: one on the web, so that following it runs nothing and reads no file."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.netloc) and url.isprintable()


def link(url: str, words: str) -> Markup:
    """Return a link where the URL may be one, else the words and the URL as text."""
    if is_web_link(url):
        return element("a", text(words), href=url, rel="noopener noreferrer nofollow")
    return text(words if words == url else f"{words} ({url})")


def anchor_of(note: Annotation) -> str:
    """Return what a page calls the place where it names what an annotation speaks of."""
    said = json.dumps([note.kind, note.url, note.file_id, note.file_name, note.title, note.start, note.end])
    return f"source-{zlib.crc32(said.encode()):08x}"


def _files(source: str, notes: Sequence[Annotation]) -> dict[str, str]:
    """Return for each file that annotations speak of, by its name, the place where it is named."""
    found: dict[str, str] = {}
    for note in notes:
        words = "" if note.start is None or note.end is None else source[note.start : note.end]
        linked = words[words.index(_SANDBOX) :].rstrip(")") if _SANDBOX in words else ""
        for name in filter(None, (note.file_name, linked)):
            found.setdefault(_file_name(name), anchor_of(note))
    return found


def _file_name(path: str) -> str:
    return unquote(path).rpartition("/")[2]


def _heading(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    level = min(6, int(tokens[place].tag[1:]) + _TITLE_LEVELS - 1)
    return f"<{'/' if tokens[place].nesting < 0 else ''}h{level}>"


def _fence(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    words = tokens[place].info.split()
    return code_block(tokens[place].content, words[0] if words else "", numbered=False)


def _image(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    url = str(token.attrGet("src") or "")
    named = token.content or "picture"
    if PICTURE_URI.fullmatch(url):
        return element("img", src=url, alt=named)
    return text(f"[{named}]") if url.startswith("data:") else link(url, f"[{named}]")


def _link_open(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    url = str(tokens[place].attrGet("href") or "")
    if not is_web_link(url):
        # To a file of the sandbox, or to data, which only pictures may have.
        anchor = env["files"].get(_file_name(url)) if url.startswith(_SANDBOX) else None
        return "<a>" if anchor is None else f'<a href="#{anchor}">'
    tokens[place].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, place, options, env))


def _made() -> MarkdownIt:
    made = MarkdownIt("js-default", {"html": False, "linkify": False, "typographer": False})
    made.validateLink = lambda url: is_web_link(url) or url.startswith(("data:image/", _SANDBOX))  # type: ignore[method-assign]
    for name, rule in (
        ("heading_open", _heading),
        ("heading_close", _heading),
        ("fence", _fence),
        ("code_block", _fence),
        ("image", _image),
        ("link_open", _link_open),
    ):
        made.add_render_rule(name, rule)
    return made


_MARKDOWN = _made()
