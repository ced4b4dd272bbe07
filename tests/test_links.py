"""No link of the README or of a page under docs/ is dead, and docs/README.md lists every page."""

from __future__ import annotations

import functools
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]
_ATTRIBUTES = re.compile(r"""\b(?:href|src|srcset)=["']([^"']+)["']""")
_IDS = re.compile(r"""\b(?:id|name)=["']([^"']+)["']""")


@functools.cache
def _tokens(page: Path) -> list[Token]:
    """Return a page's tokens, those inside of paragraphs, headings and cells included."""
    tokens: list[Token] = []
    for token in MarkdownIt().enable("table").parse(page.read_text()):
        tokens += [token, *(token.children or ())]
    return tokens


def _html(page: Path) -> str:
    return "\n".join(token.content for token in _tokens(page) if token.type in ("html_block", "html_inline"))


def links_of(page: Path) -> list[str]:
    """Return what a page's links and images refer to, also in HTML, without addresses on the web."""
    names = {"link_open": "href", "image": "src"}
    found = [str(token.attrGet(names[token.type])) for token in _tokens(page) if token.type in names]
    for value in _ATTRIBUTES.findall(_html(page)):
        found += [candidate.split()[0] for candidate in value.split(", ")]
    return [unquote(target) for target in found if not re.match(r"[a-z]+:", target)]


@functools.cache
def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them, and those that its HTML names."""
    seen: Counter[str] = Counter()
    anchors = set(_IDS.findall(_html(page)))
    for before, token in pairwise(_tokens(page)):
        if before.type == "heading_open":
            parts = [child.content for child in token.children or () if child.type in ("text", "code_inline")]
            slug = re.sub(r"[^\w -]", "", "".join(parts).lower()).replace(" ", "-")
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in links_of(page):
        target, _, anchor = link.partition("#")
        there = page.parent / target if target else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors_of(there.resolve())):
            dead.append(link)
    assert dead == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `name`, twice\n\n## A name twice\n")
    page = tmp_path / "page.md"
    page.write_text('| [a](there.md#a-name-twice) |\n|---|\n| ![b](b.svg) |\n\n<img src="c.svg">\n\n`[d](d.md)`\n')
    assert links_of(page) == ["there.md#a-name-twice", "b.svg", "c.svg"]
    assert anchors_of(tmp_path / "there.md") == {"a-name-twice", "a-name-twice-1"}


def test_the_index_lists_every_page() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(INDEX)}
    decisions = set((DOCS / "decisions").glob("*.md")) - {DOCS / "decisions" / "README.md"}  # which lists them
    assert set(DOCS.rglob("*.md")) - decisions - {INDEX} - listed == set()


def test_the_page_of_decisions_lists_every_decision() -> None:
    page = DOCS / "decisions" / "README.md"
    assert set(page.parent.glob("*.md")) - {page} == {page.parent / link for link in links_of(page)} - {page}
