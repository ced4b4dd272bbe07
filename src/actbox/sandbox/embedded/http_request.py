"""The source of `http_request` as programs see it, for programs without sockets."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Final

NAME: Final = "http_request"
PARAMETERS: Final = ("url", "method", "headers", "body")
STUB: Final = """
class HttpResponse(TypedDict):
    status: int
    headers: dict[str, str]
    text: str
    content: bytes


{define} http_request(
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str | bytes | None = None,
) -> HttpResponse: ...
"""
"""The function's signature and docstring for programs; `{define}` is `def` or `async def`."""


def charset_of(headers: Mapping[str, str]) -> str:
    """Return the character set of a response with these headers, whose names are in lower case."""
    for parameter in headers.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            value = value.strip(" \"'")
            return "utf-8" if _is_no_charset(value) else value
    return "utf-8"


def _is_no_charset(name: str) -> bool:
    """Return True for "", and for the codecs of domain names, which take quadratic time."""
    try:
        return not name or codecs.lookup(name).name in ("punycode", "idna")
    except (LookupError, ValueError):
        return False
