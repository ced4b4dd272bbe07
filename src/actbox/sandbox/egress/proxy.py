"""The proxy of one sandbox: it accepts on sockets inside, and lets out what the policy allows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import traceback
from collections.abc import Callable, Sequence

from actbox.core.domains import AllowedDomain
from actbox.core.events import NetworkRequest
from actbox.core.secrets import Secret

from .allotment import Allotment
from .authority import Authority, Refusals
from .bounds import Bounds
from .conversation import Conversation, Enforcement, Place
from .incoming import ClientGone
from .inside import Kind
from .name_server import answer_connection
from .pace import Pace
from .readiness import OUT_OF_RESOURCES, RETRY_SECONDS, readable
from .rules import Rules
from .streams import TcpStream
from .upstream import Dialer, Upstream

_log = logging.getLogger("actbox.egress")


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
        authorities = (
            (Authority(entry.host for entry in read), Refusals(entry.host for entry in domains)) if read else ()
        )
        pace = Pace(bounds.steps_a_turn)
        self._enforcement = Enforcement(rules, Dialer(upstream, bounds.connect), authorities, bounds, pace)
        self._bounds = bounds
        self._slots = asyncio.Semaphore(bounds.connections)
        self.authority_pem: bytes | None = b"".join(authority.pem for authority in authorities) or None
        """The certificates that guests must trust, where some entry has methods or a secret to enforce on https."""

    def allot(self, tell: Callable[[NetworkRequest], None]) -> Allotment:
        """Return a new guest's part of the proxy. `tell` gets each request when it is over; it must not raise."""
        return Allotment(self._bounds, tell, self._enforcement.rules.requests_per_second)

    async def serve(
        self,
        listener: socket.socket,
        kind: Kind,
        allotment: Allotment,
        port: int | None = None,
    ) -> None:
        """Accept connections until cancelled, when all of them are closed, and the listener with them.

        `kind` says what clients take the listener for: a forward proxy for HTTP/1.1; or, for clients that were led here
        by a name's address, port 80 (`http`) or 443 (`https`) of whichever host they name, unless `port` is given;
        or a name server (`names`). All listeners of a guest share its allotment.
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

    async def serve_own(self, sock: socket.socket, place: Place, allotment: Allotment) -> None:
        """Serve a connected socket whose other end a client in this process has, until either closes it.

        The client speaks HTTP/1.1 and no TLS, also where the place does: the proxy does that with the host.
        """
        try:
            await self._admit(allotment)
        except BaseException:
            sock.close()
            raise
        try:
            await self._converse(sock, place, allotment)
        finally:
            self._dismiss(allotment)

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
                await readable(listener)
            except ConnectionAbortedError:  # it was closed while it waited
                continue
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return sock

    async def _converse(
        self,
        sock: socket.socket,
        kind: Kind | Place,
        allotment: Allotment,
        port: int | None = None,
    ) -> None:
        stream = None
        try:
            with contextlib.suppress(OSError):  # a socket that is not TCP sends at once anyway
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = await TcpStream.of(sock)
            if isinstance(kind, Place):
                await Conversation(self._enforcement, stream, allotment).serve(kind)
            elif kind == "names":
                with contextlib.suppress(ClientGone):
                    await answer_connection(stream, allotment, self._bounds)
            else:
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
