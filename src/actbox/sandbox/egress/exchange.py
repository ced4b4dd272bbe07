"""One request to a host and its response, both streamed."""

from __future__ import annotations

import asyncio
import contextlib
import encodings
import encodings.aliases
import functools
import re
import string
from collections.abc import Callable, Iterable, Sequence

import h11

from actbox.core.domains import AllowedDomain
from actbox.core.secrets import Secret

from .bounds import Bounds
from .clearance import Clearance
from .events import Events
from .incoming import ClientGone, IncomingRequest
from .pace import Pace
from .record import Record
from .redaction import Redactor, Spellings
from .refusal_responses import Denied, request_too_large, response_too_large
from .streams import ByteStream

_READ_BYTES = 64 * 1024
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
_NEVER_NAMED_IN_CONNECTION = frozenset({b"host", b"content-length"})  # these frame and address the message
_CHARSET = re.compile(rb"charset\*?[ \t]*=[^;,]*", re.IGNORECASE)
_NAME = re.compile(rb"charset[ \t]*=[ \t]*(?:\"([^\"\\]*)\"|([^\";, \t]*))[ \t]*", re.IGNORECASE)
_BESIDES = frozenset({"binary", "koi8_u"})  # the first is used for data that is no text


class Broken(Exception):
    """Raised when an exchange failed after its response had begun, so the client can only see a broken response."""

    def __init__(self, denied: Denied) -> None:
        super().__init__(denied.sentence)
        self.denied = denied


class Exchange:
    """Sends a request to the host and its response to the client.

    `secrets` are the ones that the request carries; `spellings` are what the response must not contain, if anything.
    `clearance` is asked before anything is sent, and told before the response is passed on. `on_answered` is called in
    the event loop's step that wrote the last of the response: the client's next act, such as the end of the program,
    must not be reported before the request. It is not called for a failed exchange.
    """

    def __init__(
        self,
        request: IncomingRequest,
        client: ByteStream,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        entry: AllowedDomain,
        clearance: Clearance,
        secrets: Sequence[Secret],
        spellings: Spellings | None,
        record: Record,
        bounds: Bounds,
        pace: Pace,
        on_answered: Callable[[], None],
    ) -> None:
        self._request = request
        self._on_answered = on_answered
        self._client = client
        reader, self._writer = upstream
        self._entry = entry
        self._clearance = clearance
        self._secrets = secrets
        self._record = record
        self._bounds = bounds
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=bounds.head_bytes)
        self._events = Events(self._http, lambda: reader.read(_READ_BYTES), pace.share())
        self._spellings = spellings
        self._begun = False

    async def run(self, authority: str) -> bool:
        """Run the exchange; return whether the client may send another request on its connection.

        Raises `Denied` while nothing of a response has been sent, `Broken` afterwards, and `ClientGone` if the client
        disconnected.
        """
        try:
            await self._send_head(authority)
            return await self._both_ways()
        except Denied as denied:
            if self._begun:
                raise Broken(denied) from None
            raise
        except ClientGone:
            raise
        except (OSError, h11.RemoteProtocolError, h11.LocalProtocolError):
            # Without the error's own message, which may quote a header that carries a secret.
            failure = Denied(502, f"{self._record.host} broke off or answered nonsense.", by_policy=False)
            raise (Broken(failure) if self._begun else failure) from None
        finally:
            self._writer.transport.abort()

    @property
    def begun(self) -> bool:
        """True if anything of a response has been sent to the client."""
        return self._begun

    async def _send_head(self, authority: str) -> None:
        head = self._request.head
        headers = [(name, value) for name, value in end_to_end(head.headers) if name not in (b"host", b"expect")]
        if self._spellings is not None:
            headers = to_be_readable(headers)
        headers = with_secrets(headers, self._secrets)
        headers = [(b"host", authority.encode("ascii")), *headers, (b"connection", b"close")]
        if head.values(b"transfer-encoding"):
            headers.append((b"transfer-encoding", b"chunked"))
        await self._send(h11.Request(method=head.method, target=self._record.target, headers=headers))

    async def _both_ways(self) -> bool:
        upload = asyncio.ensure_future(self._upload())
        download = asyncio.ensure_future(self._download(upload))
        try:
            await asyncio.wait((upload, download), return_when=asyncio.FIRST_COMPLETED)
            if not download.done():
                upload.result()
                await download
            download.result()
            return upload.done() and upload.result() and self._request.may_go_on
        finally:
            for task in (upload, download):
                task.cancel()
            await asyncio.gather(upload, download, return_exceptions=True)

    async def _upload(self) -> bool:
        """Send the request's body; return whether the host took all of it."""
        if self._request.http.they_are_waiting_for_100_continue:
            # Sent by the proxy once the request may go out; the host need not support it.
            go_on = self._request.http.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
            await self._write(go_on or b"")
        async for piece in self._request.body():
            self._record.sent_bytes += len(piece)
            framed = self._request.wire_bytes - self._bounds.framing_bytes
            if max(self._record.sent_bytes, framed) > self._entry.request_bytes:
                raise request_too_large(self._entry)
            if not await self._try_to_send(h11.Data(data=piece)):
                return False
        return await self._try_to_send(h11.EndOfMessage())

    async def _download(self, upload: asyncio.Future[bool]) -> None:
        response = await self._response()
        self._clearance.receive()
        headers = self._checked(response)
        reason = response.reason if self._spellings is None else self._spellings.redact(response.reason)
        await self._answer(h11.Response(status_code=response.status_code, headers=headers, reason=reason))
        self._record.status = response.status_code
        redactor = None if self._spellings is None else Redactor(self._spellings)
        async for piece in self._events.body():
            self._record.received_bytes += len(piece)
            self._check_size()
            passed = piece if redactor is None else redactor.feed(piece)
            if passed:
                await self._answer(h11.Data(data=passed))
        if redactor is not None and (rest := redactor.finish()):
            await self._answer(h11.Data(data=rest))
        await self._answer(h11.EndOfMessage())
        if not upload.done() or upload.exception() is None:
            self._on_answered()

    async def _response(self) -> h11.Response:
        for _ in range(self._bounds.informational + 1):
            event = await self._events.head()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise Denied(502, f"{self._record.host} closed the connection without an answer.", by_policy=False)
            self._check_size()
        raise Denied(502, f"{self._record.host} gave more than {self._bounds.informational} provisional answers.")

    def _check_size(self) -> None:
        framed = self._events.wire_bytes - self._bounds.framing_bytes
        if max(self._record.received_bytes, framed) > self._entry.response_bytes:
            raise response_too_large(self._entry)

    def _checked(self, response: h11.Response) -> Headers:
        """Return the response's headers for the client, or raise `Denied` for a response that must not pass."""
        headers = end_to_end(response.headers)
        lengths = [value for name, value in headers if name == b"content-length"]
        reads_body = self._request.head.method != "HEAD"
        if reads_body and any(int(length) > self._entry.response_bytes for length in lengths):
            raise response_too_large(self._entry)
        chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
        if chunked:
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        if self._spellings is None:
            return headers
        headers = without_measures(headers)
        if response.status_code == 206:
            raise Denied(502, f"{self._record.host} answered with a part (206) where the whole was asked for.")
        codings = {value.strip().lower() for name, value in headers if name == b"content-encoding"}
        if reads_body and codings - {b"", b"identity"}:
            raise Denied(
                502,
                f"{self._record.host} answered in a content encoding, in which an echo of a secret could not be found.",
            )
        if reads_body and not all(is_like_ascii(value) for name, value in headers if name == b"content-type"):
            raise Denied(
                502,
                f"{self._record.host} answered in a charset in which an echo of a secret could not be found.",
            )
        spellings = self._spellings
        return [(name, spellings.redact(value)) for name, value in headers if not spellings.in_a_name(name)]

    async def _send(self, event: h11.Event) -> None:
        self._clearance.check()
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _try_to_send(self, event: h11.Event) -> bool:
        """Send a part of the body; return false if the host takes no more, since its response may explain why.

        Return false also if the response has a label for which the host is not cleared: it is still passed on.
        """
        if self._clearance.only_receives:
            return False
        with contextlib.suppress(OSError):
            await self._send(event)
            return True
        return False

    async def _answer(self, event: h11.Event) -> None:
        data = self._request.http.send(event)
        if data:
            self._begun = True
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        try:
            await self._client.write(data)
        except ConnectionError:
            raise ClientGone from None


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers without those that apply to one connection only, including those that `Connection` names."""
    headers = [(name.lower(), value) for name, value in headers]
    named = {option.strip().lower() for name, value in headers if name == b"connection" for option in value.split(b",")}
    left_out = _FOR_ONE_CONNECTION | (named - _NEVER_NAMED_IN_CONNECTION)
    return [(name, value) for name, value in headers if name not in left_out]


def with_secrets(headers: Headers, secrets: Sequence[Secret]) -> Headers:
    """Return a request's headers with each secret's header in place of the program's."""
    carried = {}
    for secret in secrets:
        name, _, value = secret.header.partition(": ")
        carried[name.lower().encode("ascii")] = value.replace("{}", secret.value).encode()
    return [*((name, value) for name, value in headers if name not in carried), *carried.items()]


def to_be_readable(headers: Headers) -> Headers:
    """Return a request's headers such that its response will be readable and whole, so that echoes can be found.

    That excludes encodings, a charset of the program's choice, and ranges.
    """
    left = [(name, value) for name, value in headers if name not in _SHAPE_THE_ANSWER]
    return [*left, (b"accept-encoding", b"identity")]


def without_measures(headers: Headers) -> Headers:
    """Return a response's headers without those that give its body's length or a hash of it.

    They would reveal what is replaced in the body: the length of a value, or whether a guess at it is right.
    """
    return [(name, value) for name, value in headers if not _MEASURES_THE_ANSWER.search(name)]


def is_like_ascii(content_type: bytes) -> bool:
    """Return whether a Content-Type names an ASCII-compatible charset, or none. An unknown charset counts as not."""
    for said in _CHARSET.findall(content_type):
        named = _NAME.fullmatch(said)
        if named is None or not _is_known(named[1] or named[2] or b""):
            return False
    return True


def _is_known(name: bytes) -> bool:
    return not name or encodings.normalize_encoding(name.decode("latin-1")).lower() in _like_ascii()


@functools.cache
def _like_ascii() -> frozenset[str]:
    """Return the names of Python's ASCII-compatible charsets; only these are looked up, never a host's own names."""
    good = {codec for codec in {"ascii", *encodings.aliases.aliases.values()} if _keeps_ascii(codec)}
    return _BESIDES | good | {alias for alias, codec in encodings.aliases.aliases.items() if codec in good}


def _keeps_ascii(codec: str) -> bool:
    try:
        return string.printable.encode(codec) == string.printable.encode("ascii")
    except (LookupError, UnicodeError, ValueError):  # not a charset, or one without some of these
        return False
