"""What can be read of a request that is refused for how it is written: for the record, and nothing goes by it.

All of it is text of the guest's. A host is taken in its normal form only; a method and a path, where they are visible
characters.
"""

from __future__ import annotations

import contextlib
import re

from .head import Malformed, parse_authority
from .record import Record

_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(rb"[\x21-\x7e]+")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_HOST = re.compile(rb"host:[ \t]*([^ \t]*)[ \t]*", re.IGNORECASE)
_HTTP = 80


def note_head(record: Record, head: bytes, *, to_proxy: bool) -> None:
    """Note the method and where the request was to go, from as much of a head as has come."""
    first, *lines = _LINE_END.split(head)
    method, *rest = first.split(b" ")
    if not _METHOD.fullmatch(method):
        return
    record.method = method.decode("ascii")
    if len(rest) not in (1, 2) or not _VISIBLE.fullmatch(rest[0]):
        return
    if not to_proxy and not record.host:
        hosts = {found[1] for line in lines if (found := _HOST.fullmatch(line))}
        if len(hosts) == 1:
            with contextlib.suppress(Malformed):
                record.host = parse_authority(hosts.pop().decode("latin-1")).host
    note_target(record, rest[0].decode("ascii"), to_proxy=to_proxy)


def note_target(record: Record, target: str, *, to_proxy: bool) -> None:
    """Note the path, and from a target that a proxy was sent the host and port, where it names them plainly."""
    target = target.partition("#")[0]
    if not to_proxy or target.startswith("/"):
        record.target = target
        return
    scheme, separator, rest = target.partition("://")
    if not separator:  # of a CONNECT
        rest = target
    end = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
    try:
        authority = parse_authority(rest[:end])
    except Malformed:
        return
    record.host = authority.host
    record.port = authority.port or (_HTTP if scheme.lower() == "http" and separator else 0)
    record.target = rest[end:]
