"""Records the outcome of one request as it proceeds, also of a request that is refused as malformed."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Literal

from actbox.core.events import NetworkRequest

from .head import Malformed, parse_authority
from .refusal_responses import Denied

_MOST_OF_A_METHOD = 40
_MOST_OF_A_PATH = 2000
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(rb"[\x21-\x7e]+")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_HOST = re.compile(rb"host:[ \t]*([^ \t]*)[ \t]*", re.IGNORECASE)
_HTTP = 80


@dataclass(slots=True, kw_only=True)
class Record:
    """One request and its outcome so far. `target` is a path with its query, which is left out of the event.

    Byte counts are those of bodies; in a tunnel, those of the encrypted connection.
    """

    host: str = ""
    port: int = 0
    method: str = ""
    target: str = ""
    decision: Literal["allowed", "refused"] = "allowed"
    reason: str = ""
    status: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def failed(self, denied: Denied) -> None:
        """Record why the request failed."""
        self.decision = "refused" if denied.by_policy else "allowed"
        self.reason = denied.sentence

    def event(self) -> NetworkRequest:
        """Return the event that reports the request."""
        return NetworkRequest(
            host=self.host,
            port=self.port,
            method=self.method[:_MOST_OF_A_METHOD],
            path=self.target.partition("?")[0][:_MOST_OF_A_PATH],
            decision=self.decision,
            reason=self.reason,
            status=self.status,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
        )


def note_head(record: Record, head: bytes, *, to_proxy: bool) -> None:
    """Record the method and the destination of a refused request, from as much of its head as has arrived.

    No decision depends on them. All of it is the guest's text. A host is recorded in its normal form only; a method and
    a path only if they are visible characters.
    """
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
    """Record the path and, for a target sent to a proxy, the host and port if it names them plainly."""
    target = target.partition("#")[0]
    if not to_proxy or target.startswith("/"):
        record.target = target
        return
    scheme, separator, rest = target.partition("://")
    if not separator:  # the target of a CONNECT
        rest = target
    end = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
    try:
        authority = parse_authority(rest[:end])
    except Malformed:
        return
    record.host = authority.host
    record.port = authority.port or (_HTTP if scheme.lower() == "http" and separator else 0)
    record.target = rest[end:]
