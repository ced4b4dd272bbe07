"""One request to a host and its response, streamed both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import h11

from actbox.core.domains import AllowedDomain
from actbox.core.secrets import Secret

from .bounds import Bounds
from .charset import is_like_ascii
from .events import Events
from .headers import Headers, end_to_end, to_be_readable, with_secrets, without_measures
from .incoming import ClientGone, IncomingRequest
from .pace import Pace
from .record import Record
from .redaction import Redactor, Spellings
from .refusal import Denied, request_too_large, response_too_large
from .streams import ByteStream

_READ_BYTES = 64 * 1024


class Broken(Exception):
    """The exchange failed after its response had begun: all that is left is to let the client see the break."""

    def __init__(self, denied: Denied) -> None:
        super().__init__(denied.sentence)
        self.denied = denied


class Exchange:
    """Sends a request on and its response back.

    `secrets` are those that the request carries; `spellings` what the response may not contain, if there is any.
    """

    def __init__(
        self,
        request: IncomingRequest,
        client: ByteStream,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        entry: AllowedDomain,
        secrets: Sequence[Secret],
        spellings: Spellings | None,
        record: Record,
        bounds: Bounds,
        pace: Pace,
    ) -> None:
        self._request = request
        self._client = client
        reader, self._writer = upstream
        self._entry = entry
        self._secrets = secrets
        self._record = record
        self._bounds = bounds
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=bounds.head_bytes)
        self._events = Events(self._http, lambda: reader.read(_READ_BYTES), pace.share())
        self._spellings = spellings
        self._begun = False

    async def run(self, authority: str) -> bool:
        """Do it; return whether the client may send another request on its connection.

        Raises `Denied` while nothing of a response has been sent, `Broken` afterwards, `ClientGone` where the client
        went away.
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
            # No word of the error itself: it may quote a header, and that may carry a secret.
            failure = Denied(502, f"{self._record.host} broke off or answered nonsense.", by_policy=False)
            raise (Broken(failure) if self._begun else failure) from None
        finally:
            self._writer.transport.abort()

    @property
    def begun(self) -> bool:
        """Whether anything of a response has been sent to the client."""
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
        download = asyncio.ensure_future(self._download())
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
            # Said here, once the request may go out, and not asked of the host, which need not know.
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

    async def _download(self) -> None:
        response = await self._response()
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
        """Return the headers for the client, or raise `Denied` for a response that may not pass."""
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
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _try_to_send(self, event: h11.Event) -> bool:
        """Send a part of the body; a host that takes no more has perhaps said why, which the response will tell."""
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
