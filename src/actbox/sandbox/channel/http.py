"""The tool proxy: an HTTP server in this process, through which programs call tools from sandboxes without a pipe.

It carries only the channel's bytes. The `Link` and `ToolCalls` of the run that a request's token belongs to read and
answer them. Each run gets a new token, which is invalid when the run is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import secrets
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from actbox.core.after_fork import Owner
from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported
from actbox.sandbox.blocking import run_blocking

from .http_requests import Callers, serve
from .mailbox import PIECE_BYTES, Mailbox
from .run_mail import RunIsOver, RunMail

T = TypeVar("T")

_TOKEN_BYTES = 32
_HANDSHAKE_SECONDS = 10.0
# How often, at the end, connections that began meanwhile are closed.
_LAST_SECONDS = 0.01
_READ_BYTES = 64 * 1024
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAddress:
    """The address at which a sandbox's tool proxy listens, and the URL by which programs reach it.

    `host` and `port` are bound on this machine; the defaults are the loopback address and any free port. `url` is the
    programs' URL if it differs, such as a public name or the end of a tunnel; it is required if `host` stands for all
    addresses. `tls` turns TLS on: true for a certificate made for the sandbox, or a server's `ssl.SSLContext`. `ca` is,
    as PEM, what programs trust instead of the system's authorities; a certificate made here is known already. Raises
    `InvalidValue` for invalid values.
    """

    host: str = "127.0.0.1"
    port: int = 0
    url: str = ""
    tls: bool | ssl.SSLContext = False
    ca: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for name in ("host", "url", "ca"):
            if not isinstance(getattr(self, name), str):
                raise InvalidValue(f"ToolAddress.{name} must be text, not {getattr(self, name)!r}")
        if not isinstance(self.port, int) or isinstance(self.port, bool) or not 0 <= self.port <= _MOST_PORT:
            raise InvalidValue(f"ToolAddress.port must be a whole number from 0 to {_MOST_PORT}, not {self.port!r}")
        if not isinstance(self.tls, (bool, ssl.SSLContext)):
            raise InvalidValue(f"ToolAddress.tls must be True, False or an ssl.SSLContext, not {self.tls!r}")
        if not self.host or (not self.url and _is_any(self.host)):
            raise InvalidValue(
                f"programs cannot connect to {self.host!r}: say with url= under which name they reach this machine"
            )
        if self.url and (urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname):
            raise InvalidValue(f"ToolAddress.url must be one such as 'https://tools.example.com', not {self.url!r}")


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _address_of(address: Any) -> ToolAddress:
    match address:
        case None:
            return ToolAddress()
        case ToolAddress():
            return address
        case (host, port, *_):  # for IPv6 a socket's address has four items
            return ToolAddress(host=host, port=port)
    raise InvalidValue(f"tool_address is a ToolAddress(…) or a pair such as ('127.0.0.1', 8000), not {address!r}")


class ToolProxy:
    """Serves the runs of one sandbox, in a thread with its own event loop; the runs may use any other loops.

    It listens from the first run with tools until `close`.
    """

    def __init__(self, address: ToolAddress | tuple[str, int] | None = None) -> None:
        """Raise `InvalidValue` for an invalid address."""
        self.address = _address_of(address)
        self.callers = Callers()
        self._owner = Owner()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._ending: asyncio.Event
        """Belongs to the thread's event loop; set to end the thread."""
        self._url = ""
        self._ca = self.address.ca

    async def open_mailbox(self, message_bytes: int) -> HttpMailbox:
        """Return the mailbox of a new run, with its own token; its messages have at most `message_bytes` bytes.

        Raises `SandboxUnavailable` if the address cannot be bound.
        """
        self._owner.check()
        await run_blocking(self._start)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        settings = {"by": "http", "url": self._url, "token": token, "ca": self._ca}
        mail, number = await self.do(self._enter(token, min(message_bytes, PIECE_BYTES)))
        return HttpMailbox(self, mail, number, settings, min(message_bytes, PIECE_BYTES))

    async def close(self) -> None:
        """Stop listening, and end requests under way; the proxy may be opened again."""
        if self._owner.is_here:
            await run_blocking(self._stop)

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the proxy's event loop. Raises `RunIsOver` if the loop has ended."""
        loop = self._loop
        if loop is None:
            work.close()
            raise RunIsOver
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    async def _enter(self, token: str, piece_bytes: int) -> tuple[RunMail, int]:
        mail = RunMail()
        return mail, self.callers.enter(hashlib.sha256(token.encode()).digest(), mail, piece_bytes)

    def _start(self) -> None:
        with self._starting:
            if self._loop is not None:
                return
            started: Future[asyncio.AbstractEventLoop] = Future()
            thread = threading.Thread(
                target=lambda: asyncio.run(self._live(started)), name="actbox-tool-proxy", daemon=True
            )
            thread.start()
            try:
                self._loop, self._thread = started.result(), thread
            except OSError as error:
                where = f"{self.address.host} port {self.address.port}"
                raise SandboxUnavailable(f"the tool proxy cannot listen on {where}: {error}") from error

    def _stop(self) -> None:
        with self._starting:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
            if loop is not None and thread is not None:
                loop.call_soon_threadsafe(self._ending.set)
                thread.join()

    async def _live(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        self._ending = asyncio.Event()
        try:
            self._server = await self._listen()
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(asyncio.get_running_loop())
        await self._ending.wait()
        # No connection is accepted from now on. One accepted at the last moment may have tasks that have not started,
        # and would never be closed if its server was closed before them.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await self.callers.end_all()
            await asyncio.wait(others, timeout=_LAST_SECONDS)
        self._server.close()

    async def _listen(self) -> asyncio.Server:
        address = self.address
        server = await asyncio.start_server(
            self._serve,
            address.host,
            address.port,
            limit=_READ_BYTES,
            ssl=self._tls(),
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if address.tls else None,
        )
        port = server.sockets[0].getsockname()[1]
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._url = address.url or f"{'https' if address.tls else 'http'}://{host}:{port}"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer, self.callers)

    def _tls(self) -> ssl.SSLContext | None:
        if isinstance(self.address.tls, ssl.SSLContext):
            return self.address.tls
        if not self.address.tls:
            return None
        if not hasattr(os, "memfd_create"):
            raise Unsupported("a certificate can be made on Linux only; give ToolAddress.tls an ssl.SSLContext")
        from actbox.sandbox.egress.authority import Authority

        host = (urlsplit(self.address.url).hostname if self.address.url else None) or self.address.host
        authority = Authority([host])
        self._ca = self.address.ca or authority.pem.decode("ascii")
        return authority.context(host)


class HttpMailbox(Mailbox):
    """The mailbox of one run at the tool proxy."""

    def __init__(
        self, proxy: ToolProxy, mail: RunMail, number: int, settings: dict[str, Any], piece_bytes: int
    ) -> None:
        self.piece_bytes = piece_bytes
        self._proxy = proxy
        self._mail = mail
        self._number = number
        self._settings = settings

    @property
    def settings(self) -> dict[str, Any]:
        """The proxy's URL, and the run's token."""
        return self._settings

    async def wait(self, number: int) -> bytes | None:
        """Return the piece once it was posted."""
        return await self._proxy.do(self._mail.take(number))

    async def put(self, number: int, piece: bytes) -> None:
        """Make a piece of the answers ready for the program's next request, once the piece before it was received."""
        with contextlib.suppress(RunIsOver):
            await self._proxy.do(self._mail.leave(number, piece))

    async def close(self) -> None:
        """Invalidate the token."""
        with contextlib.suppress(RunIsOver):
            await self._proxy.do(self._proxy.callers.leave(self._number))
