"""Markdown of people and models as HTML, in which nothing becomes markup of its own or is fetched."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from actbox.content.items import Annotation
from actbox.content.safe_text import visible, without_turns

from .links import is_web_link, link, linked
from .markup import PICTURE_URI, Markup, element, text
from .preformatted import code_block

MARKDOWN_CHARS = 50_000
"""Longer text is not parsed as Markdown: some texts, such as very many brackets, take quadratic time."""

_SANDBOX = "sandbox:"
"""The URL scheme by which models link files in the container that runs their code."""

_TITLE_LEVELS = 3
"""The level of a message's top heading, below the page's title and the turn's heading."""


def prose(source: str, notes: Sequence[Annotation] = ()) -> Markup:
    """Return Markdown as HTML. Headings rank below those of the page; a picture by URL becomes a link.

    A link to a file in a provider's sandbox leads to the annotation among `notes` that names the file.
    """
    if len(source) > MARKDOWN_CHARS:
        return element("div", linked(source), class_="prose plain")
    return element(
        "div",
        Markup(_MARKDOWN.render(without_turns(visible(source)), {"files": _files(source, notes), "links_open": 0})),
        class_="prose",
    )


def anchor_of(note: Annotation) -> str:
    """Return the page's anchor for an annotation."""
    said = json.dumps([note.kind, note.url, note.file_id, note.file_name, note.title, note.start, note.end])
    return f"source-{zlib.crc32(said.encode()):08x}"


def _files(source: str, notes: Sequence[Annotation]) -> dict[str, str]:
    """Return the anchor for each file that annotations name, by file name."""
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


def _text(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Return text as HTML in which web addresses are links, except within a link."""
    content = tokens[place].content
    return text(content) if env["links_open"] else linked(content)


def _link_open(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    env["links_open"] += 1
    url = str(tokens[place].attrGet("href") or "")
    if not is_web_link(url):
        # The URL is a file in the sandbox, or data, which only pictures may use.
        anchor = env["files"].get(_file_name(url)) if url.startswith(_SANDBOX) else None
        return "<a>" if anchor is None else f'<a href="#{anchor}">'
    tokens[place].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, place, options, env))


def _link_close(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    env["links_open"] -= 1
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
        ("link_close", _link_close),
        ("text", _text),
    ):
        made.add_render_rule(name, rule)
    return made


_MARKDOWN = _made()
