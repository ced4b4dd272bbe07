"""Data and files as HTML: pictures and tables are shown, text is readable, and the rest has a download
link or a name.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re

from actbox.content.items import DataContent, HostedFileContent, HostedVectorStoreContent, UriContent
from actbox.content.media import bare_media_type
from actbox.content.render import cut
from actbox.content.turns import size

from .embedded import embedded
from .links import link
from .markup import EMPTY, Markup, element, folded, joined, text
from .preformatted import SHOWN_CHARS, code_block, output_block
from .prose import prose

LINKED_BYTES = 1_000_000
"""Larger files are only named: browsers do not save links of more than 2 MB."""
PICTURE_BYTES = 20_000_000
"""Larger pictures are only named."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"})
_TABLE_ROWS, _TABLE_COLUMNS = 50, 30
_FOLDED_LINES = 12
_JSON_CHARS = 20_000
_JSON_LINE = 100


def data_block(item: DataContent) -> Markup:
    """Return data as HTML by its media type. Nothing of it can run: pictures are in `<img>`, HTML in a closed frame."""
    bare = bare_media_type(item.media_type)
    if bare in _PICTURES and 0 < len(item.data) <= PICTURE_BYTES:
        return _picture(item, bare)
    if bare == "text/html" and item.name is None and len(item.data) <= SHOWN_CHARS:
        return embedded(item.text, name="HTML")
    if item.name is None:
        return _unnamed(item, bare)
    body = _contents(item, bare)
    return element("div", _named(item), body, class_="file")


def as_text(item: DataContent) -> Markup:
    """Return text data as source code, whatever its type."""
    return code_block(cut(item.text, SHOWN_CHARS), item.language or _lexer_for(item), numbered=False)


def _picture(item: DataContent, bare: str) -> Markup:
    name = item.name or "picture"
    encoded = base64.b64encode(item.data).decode("ascii")
    # In <img>, a vector picture (SVG) runs no script and fetches nothing.
    picture = element("img", src=f"data:{bare};base64,{encoded}", alt=name)
    caption = f"{name} · {bare.partition('/')[2].partition('+')[0].upper()} · {size(len(item.data))}"
    return element("figure", picture, element("figcaption", text(caption)))


def _unnamed(item: DataContent, bare: str) -> Markup:
    if not item.is_text:
        return element("p", text(f"{item.media_type or 'data'} · {size(len(item.data))}"), _saved(item), class_="named")
    if bare == "text/plain":
        return output_block(item.text)
    if bare in ("text/markdown", "text/latex"):
        return prose(item.text)
    if bare in ("text/csv", "text/tab-separated-values"):
        return _table(item, bare) or as_text(item)
    if bare == "application/json":
        return json_block(item.text)
    return as_text(item)


def _contents(item: DataContent, bare: str) -> Markup:
    """Return the content of a named text file, folded if it is long; empty for other files."""
    if not item.is_text or not item.data:
        return EMPTY
    if bare in ("text/csv", "text/tab-separated-values"):
        return _table(item, bare)
    lines = item.data.count(b"\n") + 1
    return folded(text(f"{lines:,} lines"), as_text(item), opened=lines <= _FOLDED_LINES)


def _named(item: DataContent) -> Markup:
    words = f" · {item.media_type} · {size(len(item.data))} "
    return element("p", element("strong", text(item.name or "data")), text(words), _saved(item), class_="named")


def _saved(item: DataContent) -> Markup:
    if len(item.data) > LINKED_BYTES:
        return text("(too large to be in this page)")
    # Always as bytes: a browser must not show an untrusted file as a page.
    uri = "data:application/octet-stream;base64," + base64.b64encode(item.data).decode("ascii")
    name = re.sub(r"[^\w.() -]", "_", (item.name or "data").rpartition("/")[2]) or "data"
    return element("a", text("save"), href=uri, download=name, aria_label=f"save {item.name or 'data'}")


def _table(item: DataContent, bare: str) -> Markup:
    lines = io.StringIO(_head_of(item.text))
    try:
        rows = list(csv.reader(lines, delimiter="," if bare == "text/csv" else "\t"))
    except csv.Error:
        return EMPTY
    rows = [row for row in rows if row]
    if not rows:
        return EMPTY
    head, *body = rows
    numbers = [_is_number(cell) for cell in (body or [[]])[0]]
    header = element("tr", *(_cell("th", cell, place, numbers) for place, cell in enumerate(head[:_TABLE_COLUMNS])))
    shown = [
        element("tr", *(_cell("td", cell, place, numbers) for place, cell in enumerate(row[:_TABLE_COLUMNS])))
        for row in body[:_TABLE_ROWS]
    ]
    table = element("table", element("thead", header), element("tbody", *shown))
    total = item.data.rstrip(b"\n").count(b"\n")
    note = EMPTY
    if total > _TABLE_ROWS:
        note = element("p", text(f"{_TABLE_ROWS} of {total:,} rows"), class_="note")
    scrolled = element("div", table, class_="wide", tabindex="0", role="region", aria_label=item.name or "table")
    return joined(scrolled, note)


def _cell(tag: str, cell: str, place: int, numbers: list[bool]) -> Markup:
    is_number = place < len(numbers) and numbers[place]
    return element(tag, text(cell), class_="number" if is_number else None, scope="col" if tag == "th" else None)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _head_of(value: str) -> str:
    """Return the beginning of a text, as much as a table shows."""
    return "".join(value.splitlines(keepends=True)[: _TABLE_ROWS + 1])[:SHOWN_CHARS]


def json_block(source: str) -> Markup:
    """Return JSON as HTML, indented unless it is short or very long; invalid JSON as printed output."""
    if len(source) <= _JSON_CHARS:
        try:
            value = json.loads(source)
            source = source if len(source) <= _JSON_LINE else json.dumps(value, indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):  # such as the `repr` of a dict
            return output_block(source)
    return code_block(cut(source, SHOWN_CHARS), "json", numbered=False)


def _lexer_for(item: DataContent) -> str:
    bare = bare_media_type(item.media_type)
    return {"application/json": "json", "text/html": "html", "image/svg+xml": "xml", "text/css": "css"}.get(bare, "")


def hosted_block(item: HostedFileContent) -> Markup:
    """Return the name and details of a hosted file."""
    said = [item.media_type, None if item.size_bytes is None else size(item.size_bytes), item.purpose]
    said.append(f"in container {item.container_id}" if item.container_id else None)
    words = "".join(f" · {word}" for word in said if word)
    name = element("strong", text(item.name or item.file_id))
    identity = element("code", text(item.file_id)) if item.name else EMPTY
    return element("p", text("file "), name, text(" " if item.name else ""), identity, text(words), class_="named")


def vector_store_block(item: HostedVectorStoreContent) -> Markup:
    """Return the id of a vector store as HTML."""
    return element("p", text("vector store "), element("code", text(item.vector_store_id)), class_="named")


def uri_block(item: UriContent) -> Markup:
    """Return the name of a resource, as a link if its URI is safe; nothing is fetched."""
    kind = f" · {item.media_type}" if item.media_type else ""
    # A `data:` URI may contain a whole file, so cut it.
    return element("p", link(cut(item.uri, 2_000), item.name or cut(item.uri, 200)), text(kind), class_="named")
