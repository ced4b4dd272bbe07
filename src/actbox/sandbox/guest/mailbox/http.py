"""Transports pieces over HTTP: posts them to the tool proxy, and gets others by long polling, over two connections.

A request that may have been lost is repeated: the proxy recognizes a piece by its number.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time

from .transport import Transport, TransportFailed

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Optional
    from urllib.parse import SplitResult

# Longer than the proxy holds a request.
_ANSWER_SECONDS = 60.0
# Seconds of retrying a host that was reached before, seconds of retrying one that never was, and the pause between.
_TRY_SECONDS, _FIRST_TRY_SECONDS, _PAUSE_SECONDS = 15.0, 4.0, 0.25
_OK, _NOT_YET, _TAKEN, _UNAUTHORIZED, _BUSY = 200, 202, 204, 401, 503


class HttpTransport(Transport):
    """The sandbox's end of a tool proxy at `url`. `ca` is a certificate to trust instead of the system's, as PEM."""

    def __init__(self, url: str, token: str, piece_bytes: int, ca: str) -> None:
        from urllib.parse import urlsplit

        self.piece_bytes = piece_bytes
        self._token = token
        self._place = urlsplit(url)
        self._tls = ssl.create_default_context(cadata=ca or None) if self._place.scheme == "https" else None
        self._reached = False
        self._out = _Connection(self._place, self._tls)
        self._in = _Connection(self._place, self._tls)

    def send(self, number: int, piece: bytes) -> None:
        """Post the piece, and wait until it is taken."""
        while self._ask(self._out, "/calls", number, piece)[0] == _NOT_YET:
            piece = b""  # the proxy has it by now

    def receive(self, number: int) -> Optional[bytes]:
        """Poll until the piece is there; an unknown token means that the run is over."""
        while True:
            status, piece = self._ask(self._in, "/answers", number, b"")
            if status == _UNAUTHORIZED:  # the run is over
                return None
            if status == _OK:
                return piece

    def _ask(self, line: _Connection, path: str, number: int, body: bytes) -> "tuple[int, bytes]":
        headers = {"Authorization": "Bearer " + self._token, "Actbox-Piece": str(number)}
        failed_at = 0.0
        while True:
            was_open = line.is_open
            try:
                status, answer = line.ask(path, body, headers, self.piece_bytes)
            except (OSError, http.client.HTTPException) as error:
                line.close()
                failed_at = failed_at or time.monotonic()
                is_hopeless = isinstance(error, ssl.SSLCertVerificationError)
                if is_hopeless or time.monotonic() - failed_at > (
                    _TRY_SECONDS if self._reached else _FIRST_TRY_SECONDS
                ):
                    raise TransportFailed("tools cannot be reached at %s: %s" % (self._place.netloc, error)) from None
                if not was_open:  # else the proxy had closed it, as it may
                    time.sleep(_PAUSE_SECONDS)
                continue
            self._reached = True
            if status == _BUSY:  # the proxy is busy with a request whose connection was lost
                time.sleep(_PAUSE_SECONDS)
            elif status in (_OK, _NOT_YET, _TAKEN, _UNAUTHORIZED):
                return status, answer
            else:
                raise TransportFailed(
                    "the tool proxy answered %d: %s" % (status, answer[:200].decode("utf-8", "replace"))
                )


class _Connection:
    """One connection, made when it is needed."""

    def __init__(self, place: SplitResult, tls: Optional[ssl.SSLContext]) -> None:
        self._place = place
        self._tls = tls
        self._connection: Optional[http.client.HTTPConnection] = None

    @property
    def is_open(self) -> bool:
        """True if there is a connection, as far as is known."""
        return self._connection is not None

    def ask(self, path: str, body: bytes, headers: "dict[str, str]", most: int) -> "tuple[int, bytes]":
        connection = self._connection
        if connection is None:
            host, port = self._place.hostname or "", self._place.port
            if self._tls is None:
                connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
            else:
                connection = http.client.HTTPSConnection(host, port, timeout=_ANSWER_SECONDS, context=self._tls)
            self._connection = connection
        connection.request("POST", self._place.path.rstrip("/") + path, body=body, headers=headers)
        response = connection.getresponse()
        answer = response.read(most + 1)
        if len(answer) > most:
            raise http.client.HTTPException("an answer of more than %d bytes" % most)
        if response.will_close:
            self.close()
        return response.status, answer

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()
