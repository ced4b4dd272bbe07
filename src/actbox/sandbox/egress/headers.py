"""Which headers go on, and which were meant for one connection only (RFC 9110, section 7.6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from actbox.core.secrets import Secret

Headers = list[tuple[bytes, bytes]]

_FOR_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"}
    | {b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
# `Repr-Digest`, `Content-MD5`, `X-Amz-Checksum-Sha256`, `X-Goog-Stored-Content-Length` and their like.
_MEASURES_THE_ANSWER = re.compile(
    rb"(?:^|-)(?:content-length|content-range|etag|digest|checksum|hash|md5|sha-?[0-9]+|crc-?[0-9]+[a-z]*)(?:-|$)"
)
_SHAPE_THE_ANSWER = frozenset({b"accept-encoding", b"accept-charset", b"range", b"if-range"})
_NEVER_NAMED_IN_CONNECTION = frozenset({b"host", b"content-length"})  # they frame and address the message


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers without those of one connection and those that `Connection` names."""
    headers = [(name.lower(), value) for name, value in headers]
    named = {option.strip().lower() for name, value in headers if name == b"connection" for option in value.split(b",")}
    left_out = _FOR_ONE_CONNECTION | (named - _NEVER_NAMED_IN_CONNECTION)
    return [(name, value) for name, value in headers if name not in left_out]


def with_secrets(headers: Headers, secrets: Sequence[Secret]) -> Headers:
    """Return the headers of a request with each secret's own in place of what the program sent."""
    carried = {}
    for secret in secrets:
        name, _, value = secret.header.partition(": ")
        carried[name.lower().encode("ascii")] = value.replace("{}", secret.value).encode()
    return [*((name, value) for name, value in headers if name not in carried), *carried.items()]


def to_be_readable(headers: Headers) -> Headers:
    """Return the headers of a request whose answer must be readable and whole, so that an echo in it is found.

    No encoding, then, no charset of the program's choice, and no ranges.
    """
    left = [(name, value) for name, value in headers if name not in _SHAPE_THE_ANSWER]
    return [*left, (b"accept-encoding", b"identity")]


def without_measures(headers: Headers) -> Headers:
    """Return the headers of a response without those that tell how long its body is, or a hash of it.

    What is replaced in the body would come out of them: the length of a value, or whether a guess at it is right.
    """
    return [(name, value) for name, value in headers if not _MEASURES_THE_ANSWER.search(name)]
