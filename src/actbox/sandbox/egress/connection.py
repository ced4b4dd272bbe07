"""One connection of a client to the proxy, from its first byte to its end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from actbox.core.domains import AllowedDomain, is_address
from actbox.core.labels import Label

from .authority import Authority
from .bounds import Bounds
from .clearance import Clearance, label_denied
from .client_hello import ClientHello, NotHello, parse_client_hello
from .domain_rules import DEFAULT_PORTS, Rules, Scheme
from .exchange import Broken, Exchange
from .guest_quota import GuestQuota
from .head import Malformed, RequestHead, parse_authority, split_absolute
from .incoming import ClientGone, IncomingRequest, RequestReader, read
from .inside import Kind
from .pace import Pace
from .record import Record, note_head, note_target
from .refusal_responses import Denied, plain_response, request_too_large
from .streams import ByteStream, TcpStream, TlsServerStream, linger
from .tunnel import pass_through
from .upstream import Dialer

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"  # a TLS alert: fatal, access_denied (RFC 8446, section 6.2)


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The policy objects shared by all connections of one sandbox. `authorities` is set if any entry needs one."""

    rules: Rules
    dialer: Dialer
    authorities: Sequence[Authority]
    bounds: Bounds
    pace: Pace


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a connection's requests, as far as known, for clients that do not address a proxy."""

    scheme: Scheme
    host: str | None
    port: int


class EgressConnection:
    """Serves one connection; each request, and each refused connection, is reported once."""

    def __init__(self, enforcement: Enforcement, stream: TcpStream, quota: GuestQuota) -> None:
        self._rules = enforcement.rules
        self._dialer = enforcement.dialer
        self._authorities = enforcement.authorities
        self._bounds = enforcement.bounds
        self._pace = enforcement.pace
        self._stream = stream
        self._quota = quota
        self._reported = 0
        self.cleared: Label | None = None
        """The highest label that may leave over the connection, once it is used for an entry; `None` is no limit."""
        self._task: asyncio.Task[None] | None = None
        self._cut = ""
        """The reason why the connection was cut, if it was."""

    async def run(self, kind: Kind, port: int | None = None) -> None:
        """Serve until the client or a failure ends the connection; `port` defaults to the usual one of its kind."""
        try:
            if kind == "https":
                await self._transparent_tls(port or DEFAULT_PORTS["https"])
            else:
                destination = Destination("http", None, port or DEFAULT_PORTS["http"]) if kind == "http" else None
                await self._requests(self._stream, destination)
        except ClientGone:
            self._stream.abort()
        finally:
            self._quota.taint.detach(self)

    async def serve(self, destination: Destination) -> None:
        """Serve a client that speaks plain HTTP, whose requests go to a known destination."""
        try:
            await self._requests(self._stream, destination)
        except ClientGone:
            self._stream.abort()
        finally:
            self._quota.taint.detach(self)

    def cut(self, why: str) -> None:
        """Close the connection at once, because of the label of its sandbox."""
        self._cut = why
        self._stream.abort()
        if self._task is not None:
            self._task.cancel()

    def _use(self, entry: AllowedDomain, host: str) -> Clearance:
        """Use the connection for an entry from now on; raise `Denied` if the sandbox may not send anything there."""
        taint = self._quota.taint
        clearance = Clearance(taint, entry, host, self)
        self.cleared = taint.clearance(entry.cleared)
        if self.cleared is not None:
            self._task = asyncio.current_task()
            taint.attach(self)
        clearance.check()
        return clearance

    def _note_cut(self, record: Record) -> None:
        if self._cut:
            record.failed(label_denied(self._cut))

    async def _requests(self, stream: ByteStream, destination: Destination | None) -> None:
        """Serve one request after the other; without a destination each names its own destination, as to a proxy."""
        reader = RequestReader(stream, self._bounds, self._pace)
        while True:
            try:
                request = await reader.next()
            except Malformed as malformed:
                record = _record("", destination)
                note_head(record, reader.head, to_proxy=destination is None)
                record.failed(malformed)
                record.status = malformed.status
                self._report(record)
                await self._say(stream, malformed, close=True)
                break
            if request is None:
                break
            await self._quota.acquire_request()
            if destination is None and request.head.method == "CONNECT":
                await self._connect(request, reader)
                return
            if not await self._request(request, stream, destination):
                break
        await linger(stream)

    # one request

    async def _request(self, request: IncomingRequest, stream: ByteStream, destination: Destination | None) -> bool:
        """Answer a request; return whether another may follow on the connection."""
        record = _record(request.head.method, destination)
        exchange: Exchange | None = None
        limit: AllowedDomain | None = None
        reported = False

        def report_once() -> None:
            nonlocal reported
            if not reported:
                reported = True
                self._report(record)

        try:
            scheme, entry, clearance = self._decide(request.head, destination, record)
            limit = entry
            self._rules.count(entry)
            async with asyncio.timeout(entry.seconds):
                dial = self._dialer.connect_tls if scheme == "https" else self._dialer.connect_plain
                upstream = await dial(entry, record.host, record.port)
                secrets = self._rules.secrets(scheme, record.host, record.port)
                spellings = self._rules.spellings
                exchange = Exchange(
                    request,
                    stream,
                    upstream,
                    entry,
                    clearance,
                    secrets,
                    spellings,
                    record,
                    self._bounds,
                    self._pace,
                    report_once,
                )
                return await exchange.run(_authority(scheme, record.host, record.port))
        except Denied as denied:
            return await self._refuse(request, stream, record, denied)
        except TimeoutError:
            late = Denied(504, f"The exchange with {record.host} took longer than the {limit} entry allows.")
            if exchange is None or not exchange.begun:
                return await self._refuse(request, stream, record, late)
            record.failed(late)
            stream.abort()
            return False
        except Broken as broken:
            record.failed(broken.denied)
            stream.abort()
            return False
        except ClientGone:
            record.reason = "The program closed the connection."
            raise
        except asyncio.CancelledError:
            self._note_cut(record)
            raise
        finally:
            report_once()

    def _decide(
        self, head: RequestHead, destination: Destination | None, record: Record
    ) -> tuple[Scheme, AllowedDomain, Clearance]:
        """Return the request's scheme, the entry that allows it and the entry's clearance, or raise `Denied`.

        Record the destination.
        """
        scheme: Scheme = destination.scheme if destination else "http"
        note_target(record, head.target, to_proxy=destination is None)
        if destination is None:
            authority, target = split_absolute(head.target, head.method)
            host, port = authority.host, authority.port or DEFAULT_PORTS[scheme]
        else:
            target = head.target
            if head.host is None:
                raise Malformed("it has no Host header")
            host, port = destination.host or head.host.host, destination.port
        record.host, record.port, record.target = host, port, target
        if head.host is not None and (head.host.host, head.host.port or DEFAULT_PORTS[scheme]) != (host, port):
            raise Malformed(f"its Host header names another host than {host}:{port}, to which it was sent")
        if "#" in target or not (target.startswith("/") or (target == "*" and head.method == "OPTIONS")):
            raise Malformed("its target is not a path")
        entry = self._rules.entry(scheme, host, port)
        self._rules.check_method(entry, head.method, host)
        if head.method == "CONNECT":
            raise Denied(403, "Refused by the network policy: CONNECT is for a proxy, and not for what it leads to.")
        if head.values(b"upgrade"):
            raise Denied(403, "Refused by the network policy: a change to another protocol (Upgrade) is not allowed.")
        if any(value.lower() != b"100-continue" for value in head.values(b"expect")):
            raise Denied(417, "The only expectation that can be met is 100-continue.")
        if any(int(length) > entry.request_bytes for length in head.values(b"content-length")):
            raise request_too_large(entry)
        return scheme, entry, self._use(entry, host)

    async def _refuse(self, request: IncomingRequest, stream: ByteStream, record: Record, denied: Denied) -> bool:
        head = request.head
        options = b",".join(head.values(b"connection")).lower()
        close = head.has_body or head.version != "HTTP/1.1" or b"close" in options or denied.status == 400
        record.failed(denied)
        record.status = denied.status
        await self._say(stream, denied, close=close, with_body=head.method != "HEAD")
        return not close

    async def _say(self, stream: ByteStream, denied: Denied, *, close: bool, with_body: bool = True) -> None:
        response = plain_response(denied.status, denied.sentence, close=close, with_body=with_body)
        await self._write(stream, response)

    # encrypted connections

    async def _connect(self, request: IncomingRequest, reader: RequestReader) -> None:
        record = Record(method="CONNECT")
        try:
            host, entry, clearance = self._decide_connect(request.head, record)
            reads = self._rules.reads(entry, host, record.port)
            if not reads:
                self._rules.count(entry)
        except Denied as denied:
            await self._end(record, denied, spoken="http")
            return
        if reads:
            await self._terminate_named(entry, host, record, reader.rest())
            return

        async def establish() -> bytes:
            await self._write(self._stream, _ESTABLISHED)
            record.status = 200
            first, hello = await self._hello(reader.rest())
            _check_name(hello, host, read=False)
            return first

        await self._tunnel(entry, clearance, record, establish)

    def _decide_connect(self, head: RequestHead, record: Record) -> tuple[str, AllowedDomain, Clearance]:
        note_target(record, head.target, to_proxy=True)
        named = parse_authority(head.target)
        if named.port is None:
            raise Malformed("CONNECT names a host and a port")
        host, port = record.host, record.port = named.host, named.port
        if head.host is not None and (head.host.host, head.host.port or port) != (host, port):
            raise Malformed("its Host header names another host than its target")
        if head.has_body:
            raise Malformed("a CONNECT has no body")
        entry = self._rules.entry("https", host, port)
        return host, entry, self._use(entry, host)

    async def _terminate_named(self, entry: AllowedDomain, host: str, record: Record, first: bytes) -> None:
        with self._reported_at_least_once(record, entry):
            await self._write(self._stream, _ESTABLISHED)
            record.status = 200
            try:
                raw, hello = await self._hello(first)
                _check_name(hello, host, read=True)
            except Denied as denied:
                await self._end(record, denied, spoken="tls")
                return
            await self._terminate(host, record, raw)

    async def _transparent_tls(self, port: int) -> None:
        record = Record(method="CONNECT", port=port)
        first = await read(self._stream, self._bounds.hello)
        if not first:
            return
        try:
            raw, hello = await self._hello(first)
            if hello.server_name is None:
                raise Denied(403, "Refused by the network policy: the TLS connection names no server.")
            host = record.host = hello.server_name
            try:
                entry = self._rules.entry("https", host, port)
                clearance = self._use(entry, host)
            except Denied as denied:
                if not self._vouching_for(host):
                    raise
                record.failed(denied)
                with self._reported_at_least_once(record):  # requests inside are refused by the same rule
                    await self._terminate(host, record, raw)
                return
            reads = self._rules.reads(entry, host, port)
            _check_name(hello, host, read=reads)
            if not reads:
                self._rules.count(entry)
        except Denied as denied:
            await self._end(record, denied, spoken="tls")
            return
        if reads:
            with self._reported_at_least_once(record, entry):
                await self._terminate(host, record, raw)
            return

        async def heard() -> bytes:
            return raw

        await self._tunnel(entry, clearance, record, heard, spoken="tls")

    async def _hello(self, first: bytes) -> tuple[bytes, ClientHello]:
        """Return the client's data up to the end of its ClientHello, and the parsed ClientHello; or raise `Denied`."""
        data = first
        try:
            async with asyncio.timeout(self._bounds.hello):
                while (hello := parse_client_hello(data, self._bounds.hello_bytes)) is None:
                    more = await self._stream.read()
                    if not more:
                        raise ClientGone
                    data += more
        except NotHello as error:
            raise Denied(403, f"Refused by the network policy: only TLS may pass here, and {error}.") from None
        except (TimeoutError, ConnectionError):
            raise ClientGone from None
        return data, hello

    def _vouching_for(self, host: str) -> list[Authority]:
        return [authority for authority in self._authorities if authority.vouches_for(host)]

    async def _terminate(self, host: str, record: Record, raw: bytes) -> None:
        """Speak TLS with the client in place of the host, and serve the requests inside under the rules."""
        await self._quota.acquire_request()
        tls = TlsServerStream(self._stream, self._vouching_for(host)[0].context(host), raw)
        try:
            async with asyncio.timeout(self._bounds.hello):
                await tls.handshake()
        except (ssl.SSLError, ConnectionError, TimeoutError) as error:
            why = f" ({error.reason})" if isinstance(error, ssl.SSLError) and error.reason else ""
            record.reason = record.reason or (
                f"The program ended the TLS handshake{why}; perhaps it does not trust the sandbox's authority."
            )
            self._stream.abort()
            return
        await self._requests(tls, Destination("https", host, record.port))

    @contextlib.contextmanager
    def _reported_at_least_once(self, record: Record, entry: AllowedDomain | None = None) -> Iterator[None]:
        """At the end of a connection, report it as such, unless something sent over it has been reported.

        It then counts as a request of the entry that allows it; otherwise reports of allowed requests would be
        unlimited.
        """
        reported = self._reported
        try:
            yield
        finally:
            if self._reported == reported:
                record.reason = record.reason or "The connection ended before the program asked for anything."
                if entry is not None:
                    try:
                        self._rules.count(entry)
                    except Denied as denied:
                        record.failed(denied)
                self._report(record)

    async def _tunnel(
        self,
        entry: AllowedDomain,
        clearance: Clearance,
        record: Record,
        hello: Callable[[], Awaitable[bytes]],
        spoken: Literal["http", "tls"] = "http",
    ) -> None:
        """Connect to the record's host, and pass everything through, starting with the bytes that `hello` returns."""
        reported = False
        try:
            async with asyncio.timeout(entry.seconds):
                sock = await self._dialer.connect(entry, record.host, record.port)
                try:
                    first = await hello()
                    spoken = "tls"
                    await pass_through(
                        self._stream, first, sock, entry, clearance, record, self._bounds.tunnel_idle, self._pace
                    )
                finally:
                    sock.close()
        except Denied as denied:
            reported = True
            await self._end(record, denied, spoken="tls" if record.status == 200 else spoken)
        except TimeoutError:
            reported = True
            late = Denied(504, f"The connection to {record.host} lasted longer than the {entry} entry allows.")
            await self._end(record, late, spoken="tls" if record.status == 200 else spoken)
        except ClientGone:
            if record.status != 200:  # an established tunnel was just closed
                record.reason = "The connection broke off."
            raise
        except asyncio.CancelledError:
            self._note_cut(record)
            raise
        finally:
            if not reported:
                self._report(record)

    async def _end(self, record: Record, denied: Denied, spoken: Literal["http", "tls"]) -> None:
        """Report why a connection ends, and tell the client as far as its protocol allows."""
        record.failed(denied)
        if spoken == "http":
            record.status = denied.status
        self._report(record)
        if spoken == "http":
            await self._say(self._stream, denied, close=True)
        else:
            await self._write(self._stream, _ACCESS_DENIED)
        await linger(self._stream)

    def _report(self, record: Record) -> None:
        self._reported += 1
        self._quota.report(record.event())

    async def _write(self, stream: ByteStream, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._bounds.idle):
                await stream.write(data)
        except (ConnectionError, TimeoutError):
            raise ClientGone from None


def _record(method: str, destination: Destination | None) -> Record:
    if destination is None:
        return Record(method=method)
    return Record(method=method, host=destination.host or "", port=destination.port)


def _check_name(hello: ClientHello, host: str, *, read: bool) -> None:
    """Raise `Denied` unless a TLS connection is certain to be for the host."""
    name = hello.server_name
    if name is None and not is_address(host):  # a server name cannot be an address (RFC 6066, section 3)
        raise Denied(403, f"Refused by the network policy: the TLS connection to {host} names no server.")
    if name is not None and name != host:
        raise Denied(403, f"Refused by the network policy: the TLS connection to {host} names the server {name}.")
    if hello.encrypted and not read:
        raise Denied(
            403, f"Refused by the network policy: the TLS connection to {host} hides a name (encrypted ClientHello)."
        )


def _authority(scheme: Scheme, host: str, port: int) -> str:
    literal = f"[{host}]" if ":" in host else host
    return literal if port == DEFAULT_PORTS[scheme] else f"{literal}:{port}"
