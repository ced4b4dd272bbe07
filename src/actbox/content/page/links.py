"""Links to the web in untrusted text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

from .markup import Markup, element, joined, text

_ADDRESS = re.compile(r"(?:https?://|(?<![\w./@-])www\.(?=[\w-]+\.\w))[^\s<>\"'`{}|\\^]+")
_TRAILING = ".,;:!?*_"
_BRACKETS = {")": "(", "]": "["}


def is_web_link(url: str) -> bool:
    """Return True if a URL is a web address, so that following it runs nothing and reads no file."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.netloc) and url.isprintable()


def link(url: str, words: str) -> Markup:
    """Return a link if the URL is a web address, else the words and the URL as text."""
    if is_web_link(url):
        return element("a", text(words), href=url, rel="noopener noreferrer nofollow")
    return text(words if words == url else f"{words} ({url})")


def linked(value: str) -> Markup:
    """Return text as HTML in which web addresses are links."""
    if "://" not in value and "www." not in value:
        return text(value)
    return joined(
        *(link(url_of(piece), piece) if is_address else text(piece) for piece, is_address in pieces_of(value))
    )


def url_of(address: str) -> str:
    """Return the URL of an address in text: one that begins with `www.` gets `https://`."""
    return f"https://{address}" if address.startswith("www.") else address


def pieces_of(value: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text, each with whether it is a web address."""
    at = 0
    for found in _ADDRESS.finditer(value):
        address = _without_trailing(found[0])
        if is_web_link(url_of(address)):
            yield value[at : found.start()], False
            yield address, True
            at = found.start() + len(address)
    yield value[at:], False


def _without_trailing(address: str) -> str:
    """Return an address without the punctuation of the sentence around it."""
    counts = Counter(address)
    end = len(address)
    while end and (
        (last := address[end - 1]) in _TRAILING or (last in _BRACKETS and counts[last] > counts[_BRACKETS[last]])
    ):
        counts[last] -= 1
        end -= 1
    return address[:end]
