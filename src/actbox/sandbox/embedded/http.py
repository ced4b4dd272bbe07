"""`http_request`: requests of an embedded interpreter's programs to the policy's domains.

Every request goes through the sandbox's egress proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import h11

from actbox.core.events import NetworkRequest
from actbox.core.policy import Policy
from actbox.sandbox.egress.connection import Destination
from actbox.sandbox.egress.domain_rules import DEFAULT_PORTS, Scheme
from actbox.sandbox.egress.guest_quota import GuestQuota
from actbox.sandbox.egress.proxy import EgressProxy
from actbox.sandbox.egress.upstream import Upstream
from actbox.sandbox.taint import Taint

from .http_request import NAME, PARAMETERS, charset_of

_READ_BYTES = 64 * 1024

_reported: ContextVar[list[NetworkRequest]] = ContextVar("actbox_reported")
"""The proxy's reports on the request made in this context."""


class Requests:
    """The HTTP requests of one program. `report` gets every request, when it is over.

    `taint` is the label of what the program has read, without one `public`.
    """

    def __init__(
        self,
        proxy: EgressProxy,
        report: Callable[[NetworkRequest], None],
        most_bytes: int,
        taint: Taint | None = None,
    ) -> None:
        self._report = report
        self._proxy = proxy
        self._most_bytes = most_bytes
        self._quota: GuestQuota = proxy.new_quota(self._heard, taint)

    async def request(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Make a request with the arguments of `http_request`; return `status`, `headers`, `text` and `content`.

        Redirects are returned like any other response. Raises `TypeError` and `ValueError` for invalid arguments,
        `PermissionError` with a sentence for a request that the policy refuses, and `OSError` if the host cannot be
        reached or its response exceeds `Limits.message_bytes`.
        """
        url, method, headers, body = _arguments(args, kwargs)
        scheme, host, port, target = parts_of_url(url)
        given = [(name, value) for name, value in headers.items() if name.lower() not in ("host", "content-length")]
        literal = f"[{host}]" if ":" in host else host
        given.append(("Host", literal if port == DEFAULT_PORTS[scheme] else f"{literal}:{port}"))
        if body or method in ("POST", "PUT", "PATCH"):
            given.append(("Content-Length", str(len(body))))
        try:
            request = h11.Request(method=method, target=target, headers=[*given, ("Connection", "close")])
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            raise ValueError(f"the request cannot be sent: {error}") from None
        reported: list[NetworkRequest] = []
        mark = _reported.set(reported)
        ours, theirs = socket.socketpair()
        try:
            serving = asyncio.create_task(
                self._proxy.serve_own(theirs, Destination(scheme, host, port), self._quota), name="actbox-http-request"
            )
        finally:
            _reported.reset(mark)
        try:
            response = await self._exchange(ours, request, body)
            await serving  # it reports the request last
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([serving])
        _refuse(reported)
        if response is None:
            raise OSError(f"{host}:{port} closed the connection in the middle of its answer")
        return response

    def close(self) -> None:
        """Report the requests that have not been reported."""
        self._quota.report_rest()

    async def _exchange(self, sock: socket.socket, request: h11.Request, body: bytes) -> dict[str, Any] | None:
        http = h11.Connection(h11.CLIENT)
        reader, writer = await asyncio.open_connection(sock=sock)
        try:
            # A host that refuses a request may answer before it has read the whole body.
            with contextlib.suppress(ConnectionError):
                writer.write(b"".join(filter(None, (http.send(request), body and http.send(h11.Data(data=body))))))
                writer.write(http.send(h11.EndOfMessage()) or b"")
                await writer.drain()
            return await self._response(http, reader)
        except (ConnectionError, h11.RemoteProtocolError):
            return None
        finally:
            writer.transport.abort()

    async def _response(self, http: h11.Connection, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        response: h11.Response | None = None
        content = bytearray()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                content += event.data
                if len(content) > self._most_bytes:
                    raise OSError(f"the answer has more than {self._most_bytes:,} bytes, which a message may have")
            elif isinstance(event, h11.EndOfMessage):
                return None if response is None else _shown(response, bytes(content))
            elif isinstance(event, h11.ConnectionClosed):
                return None

    def _heard(self, event: NetworkRequest) -> None:
        _reported.get([]).append(event)
        self._report(event)


def make_proxy(policy: Policy, upstream: Upstream | None) -> EgressProxy:
    """Return the proxy of a sandbox with this policy."""
    return EgressProxy(policy.domains, policy.secrets, upstream or Upstream())


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str, dict[str, str], bytes]:
    if len(args) > len(PARAMETERS):
        raise TypeError(f"{NAME}() takes at most {len(PARAMETERS)} arguments, not {len(args)}")
    given = dict(zip(PARAMETERS, args, strict=False))
    for name, value in kwargs.items():
        if name not in PARAMETERS or name in given:
            what = "got two values for" if name in given else "has no argument"
            raise TypeError(f"{NAME}() {what} {name!r}; it takes {', '.join(PARAMETERS)}")
        given[name] = value
    url, method, headers, body = (given.get(name) for name in PARAMETERS)
    if not isinstance(url, str):
        raise TypeError(f"{NAME}() takes a URL first, as text")
    if not isinstance(method, (str, type(None))) or not isinstance(body, (str, bytes, type(None))):
        raise TypeError(f"{NAME}() takes the method as text, and the body as text or bytes")
    if not isinstance(headers, (dict, type(None))):
        raise TypeError(f"{NAME}() takes headers as a dict of texts")
    if not all(isinstance(text, str) for header in (headers or {}).items() for text in header):
        raise TypeError(f"{NAME}() takes headers as a dict of texts")
    content = body.encode("utf-8") if isinstance(body, str) else body or b""
    return url, (method or "GET").upper(), dict(headers or {}), content


def parts_of_url(url: str) -> tuple[Scheme, str, int, str]:
    """Return scheme, host, port and target of a URL. Raises `ValueError`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"{url!r} is no URL such as 'https://example.com/path'")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL with a user name or a password is not sent; give what is needed as a header")
    scheme: Scheme = "https" if parts.scheme == "https" else "http"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ValueError(f"{url!r} is no URL: {error}") from None
    return scheme, name, DEFAULT_PORTS[scheme] if port is None else port, target


def _refuse(reported: list[NetworkRequest]) -> None:
    """Raise if the proxy reported that the request was refused, or that the host cannot be reached."""
    for event in reported:
        if event.decision == "refused":
            raise PermissionError(event.reason)
        if event.reason:
            raise OSError(event.reason)


def _shown(response: h11.Response, content: bytes) -> dict[str, Any]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    try:
        text = content.decode(charset_of(headers), "replace")
    except (LookupError, ValueError):  # an encoding that Python does not know
        text = content.decode("utf-8", "replace")
    return {"status": response.status_code, "headers": headers, "text": text, "content": content}
