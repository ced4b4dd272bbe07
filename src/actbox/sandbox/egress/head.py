"""Strict parsing of a request's head.

Anything that two HTTP parsers might read differently is refused here, before a lenient parser sees it, because request
smuggling relies on it (RFC 9112, sections 2.2, 3.2, 5 and 6.3). Pure: bytes in, a value or `Malformed` out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from actbox.core.domains import host_name

from .bounds import Bounds
from .refusal_responses import Denied

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) (HTTP/1\.[01])")
_HEADER = re.compile(
    rb"(" + _TOKEN + rb"):[ \t]*(|[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff\t]*[\x21-\x7e\x80-\xff])?)[ \t]*"
)
_LONE_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::([0-9]{1,5}))?")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class Malformed(Denied):
    """Raised for a request that is not plain HTTP/1.1."""

    def __init__(self, why: str) -> None:
        super().__init__(400, f"The request is malformed: {why}.")


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in its normal form, and the port if one was given."""

    host: str
    port: int | None


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request line and headers, with lower-case names. `host` is the value of the Host header."""

    method: str
    target: str
    version: str
    headers: tuple[tuple[bytes, bytes], ...]
    host: Authority | None
    has_body: bool

    def values(self, name: bytes) -> list[bytes]:
        """Return all values of a header."""
        return [value for key, value in self.headers if key == name]


def parse_head(raw: bytes, bounds: Bounds) -> RequestHead:
    """Parse a head, including its empty line; raises `Malformed`."""
    check_line_ends(raw)
    first, *lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if any(len(line) > bounds.line_bytes for line in (first, *lines)):
        raise Malformed(f"a line is longer than {bounds.line_bytes} bytes")
    if len(lines) > bounds.headers:
        raise Malformed(f"it has more than {bounds.headers} headers")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise Malformed("its first line is not a method, a target and HTTP/1.1, one space apart")
    method, target, version = (part.decode("ascii") for part in request.groups())
    headers = []
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            if line[:1] in b" \t":
                raise Malformed("a header goes on in a second line")
            raise Malformed("a header is not a name, a colon and a value without control characters")
        headers.append((header[1].lower(), header[2]))
    host = _host(headers, version)
    return RequestHead(method, target, version, tuple(headers), host, _has_body(headers, version))


def check_line_ends(raw: bytes) -> None:
    """Raise `Malformed` for a line that ends in anything but CR LF."""
    if _LONE_LINE_END.search(raw.removesuffix(b"\r")):  # the LF of a last CR may still arrive
        raise Malformed("a line ends in a lone CR or LF")


def parse_authority(text: str) -> Authority:
    """Parse `host`, `host:port` or `[address]:port`; raises `Malformed`."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise Malformed("it does not name one host and port")
    try:
        host = host_name(found[1] or found[2])
    except ValueError:
        raise Malformed("what it names is neither a host name nor an address in its usual form") from None
    if bool(found[1]) != (":" in host):
        raise Malformed("an IPv6 address stands in brackets, and nothing else does")
    port = int(found[3]) if found[3] else None
    if port is not None and not 0 < port < 65536:
        raise Malformed("a port is a number from 1 to 65535")
    return Authority(host, port)


def split_absolute(target: str, method: str) -> tuple[Authority, str]:
    """Split an absolute target `http://host:port/path?query` into its authority, and path with query."""
    if "#" in target:
        raise Malformed("its target has a fragment")
    scheme, separator, rest = target.partition("://")
    if not separator:
        raise Malformed("a request to a proxy has a whole URL as its target")
    if scheme.lower() != "http":
        raise Malformed("a proxy is asked for http URLs as they are, and for https URLs by CONNECT")
    end = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
    if "@" in rest[:end]:
        raise Malformed("its URL carries user info")
    path = rest[end:]
    if not path.startswith("/"):
        path = "*" if method == "OPTIONS" and not path else "/" + path
    return parse_authority(rest[:end]), path


def _host(headers: list[tuple[bytes, bytes]], version: str) -> Authority | None:
    values = [value for name, value in headers if name == b"host"]
    if len(values) > 1:
        raise Malformed("it has several Host headers")
    if not values:
        if version == "HTTP/1.1":
            raise Malformed("it has no Host header")
        return None
    return parse_authority(values[0].decode("latin-1"))


def _has_body(headers: list[tuple[bytes, bytes]], version: str) -> bool:
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if lengths and codings:
        raise Malformed("it has both Content-Length and Transfer-Encoding")
    if len(lengths) > 1 or not all(_LENGTH.fullmatch(value) for value in lengths):
        raise Malformed("its Content-Length is not one plain number")
    if codings and (version != "HTTP/1.1" or len(codings) > 1 or codings[0].lower() != b"chunked"):
        raise Malformed("its Transfer-Encoding is not chunked, or not HTTP/1.1")
    return bool(codings) or any(int(value) for value in lengths)
