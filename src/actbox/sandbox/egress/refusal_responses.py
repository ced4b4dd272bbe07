"""The responses of the proxy to a client that gets no answer from the host it asked for."""

from __future__ import annotations

from http import HTTPStatus

from actbox.core.domains import AllowedDomain

# Some clients reject a very long status line.
_LONGEST_PHRASE = 400


class Denied(Exception):
    """Raised to end a request with a status and one plain sentence, which the client reads as the body.

    `by_policy` is true if the policy or the proxy's own rules decided so, false if the network failed.
    """

    def __init__(self, status: int, sentence: str, *, by_policy: bool = True) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.by_policy = by_policy


def plain_response(status: int, sentence: str, *, close: bool, with_body: bool = True) -> bytes:
    """Return a complete HTTP/1.1 response whose body is the sentence; `with_body` is false for an answer to HEAD.

    The sentence is the reason phrase too, because most clients show only that for a refused tunnel.
    """
    body = (sentence + "\n").encode()
    lines = [
        f"HTTP/1.1 {status} {_phrase(sentence) or HTTPStatus(status).phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
    ]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        lines.append("Retry-After: 60")
    if close:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    return head + body if with_body else head


def _phrase(sentence: str) -> str:
    plain = "".join(c if " " <= c <= "~" else "?" for c in sentence)
    return plain[:_LONGEST_PHRASE].rstrip(" .")


def request_too_large(entry: AllowedDomain) -> Denied:
    """Return the refusal of a body, or of a tunnel's data, larger than the entry allows."""
    return Denied(
        413,
        f"Refused by the network policy: the request is larger than the {entry.request_bytes} bytes that {entry} "
        "allows.",
    )


def response_too_large(entry: AllowedDomain) -> Denied:
    """Return the refusal of a response larger than the entry allows."""
    return Denied(
        502,
        f"Refused by the network policy: the response is larger than the {entry.response_bytes} bytes that {entry} "
        "allows.",
    )
