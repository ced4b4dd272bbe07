"""The proxy of one sandbox: it accepts on sockets inside, and lets out what the policy allows."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import traceback
from collections.abc import Callable, Sequence
from typing import Literal

from actbox.core.domains import AllowedDomain
from actbox.core.events import NetworkRequest
from actbox.core.secrets import Secret

from .allotment import Allotment
from .authority import Authority
from .bounds import Bounds
from .conversation import Conversation, Enforcement
from .rules import Rules
from .streams import TcpStream
from .upstream import Dialer, Upstream

_log = logging.getLogger("actbox.egress")

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RETRY_SECONDS = 0.1


class EgressProxy:
    """Lets a sandbox reach the hosts of its policy, and puts secrets into its requests.

    `upstream` is the way to the hosts; `bounds` what the sandbox may take of this process. Use from one event loop.
    """

    def __init__(
        self,
        domains: Sequence[AllowedDomain],
        secrets: Sequence[Secret],
        upstream: Upstream = Upstream(),  # noqa: B008 (frozen)
        *,
        bounds: Bounds = Bounds(),  # noqa: B008 (frozen)
    ) -> None:
        rules = Rules(domains, secrets)
        read = rules.terminated
        authority = Authority(entry.host for entry in read) if read else None
        self._enforcement = Enforcement(rules, Dialer(upstream, bounds.connect), authority, bounds)
        self._bounds = bounds
        self._slots = asyncio.Semaphore(bounds.connections)
        self.authority_pem: bytes | None = authority.pem if authority else None
        """The certificate that guests must trust, where some entry has methods or a secret to enforce on https."""

    def allot(self, tell: Callable[[NetworkRequest], None]) -> Allotment:
        """Return a new guest's part of the proxy. `tell` gets each request when it is over; it must not raise."""
        return Allotment(self._bounds, tell, self._enforcement.rules.requests_per_second)

    async def serve(
        self,
        listener: socket.socket,
        kind: Literal["proxy", "http", "https"],
        allotment: Allotment,
        port: int | None = None,
    ) -> None:
        """Accept connections until cancelled, when all of them are closed, and the listener with them.

        `kind` says what clients take the listener for: a forward proxy for HTTP/1.1; or, for clients that were led here
        by a name's address, port 80 (`http`) or 443 (`https`) of whichever host they name, unless `port` is given.
        All listeners of a guest share its allotment.
        """
        listener.setblocking(False)
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                sock = await self._accept(listener)
                try:
                    await self._admit(allotment)
                except BaseException:
                    sock.close()
                    raise
                task = asyncio.create_task(self._converse(sock, kind, allotment, port))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                task.add_done_callback(lambda _: self._dismiss(allotment))
        finally:
            listener.close()
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _admit(self, allotment: Allotment) -> None:
        await allotment.ask()
        await allotment.connections.acquire()
        try:
            await self._slots.acquire()
        except BaseException:
            allotment.connections.release()
            raise

    def _dismiss(self, allotment: Allotment) -> None:
        self._slots.release()
        allotment.connections.release()

    async def _accept(self, listener: socket.socket) -> socket.socket:
        while True:
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                await _readable(listener)
            except ConnectionAbortedError:  # it was closed while it waited
                continue
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return sock

    async def _converse(
        self,
        sock: socket.socket,
        kind: Literal["proxy", "http", "https"],
        allotment: Allotment,
        port: int | None,
    ) -> None:
        stream = None
        try:
            with contextlib.suppress(OSError):  # a socket that is not TCP sends at once anyway
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = await TcpStream.of(sock)
            await Conversation(self._enforcement, stream, allotment).run(kind, port)
            await stream.close()
        except Exception as error:
            # A fault of ours ends this connection only. Where it arose is logged, not what it says: that may quote a
            # request.
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("a connection ended by %s at:\n%s", type(error).__name__, where)
        finally:
            if stream is not None:
                stream.abort()
            sock.close()


async def _readable(listener: socket.socket) -> None:
    """Wait until there is something to accept.

    Nothing is accepted by a callback of the loop, as `sock_accept` does, which can come after the task was cancelled:
    the connection would be lost, and the loop's handler of exceptions told of a state that is not ours.
    """
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listener)
