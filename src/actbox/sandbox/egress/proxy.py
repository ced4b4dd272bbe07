"""The proxy of one sandbox: accepts connections on the sandbox's sockets, and lets out what the policy allows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import traceback
from collections.abc import Callable, Sequence

from actbox.core.domains import AllowedDomain
from actbox.core.events import NetworkRequest
from actbox.core.secrets import Secret
from actbox.sandbox.readiness import NOT_LISTENING, RETRY_SECONDS, readable
from actbox.sandbox.run_slots import Slots
from actbox.sandbox.taint import Taint

from .authority import Authority, Refusals
from .bounds import Bounds
from .connection import Destination, EgressConnection, Enforcement
from .domain_rules import Rules
from .guest_quota import GuestQuota
from .incoming import ClientGone
from .inside import Kind
from .name_server import answer_connection
from .pace import Pace
from .streams import TcpStream
from .upstream import Dialer, Upstream

_log = logging.getLogger("actbox.egress")


class EgressProxy:
    """Lets a sandbox reach the hosts of its policy, and adds secrets to its requests.

    `upstream` connects to the hosts; `bounds` limits the sandbox's use of this process. Each connection belongs to the
    event loop that serves it; several loops may serve some at once.
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
        self._slots = Slots(bounds.connections, tools_wait=True)
        self.authority_pem: bytes | None = b"".join(authority.pem for authority in authorities) or None
        """The certificates that guests must trust, if an entry has methods or a secret to enforce on https."""

    def new_quota(self, report: Callable[[NetworkRequest], None], taint: Taint | None = None) -> GuestQuota:
        """Return a new guest's share of the proxy. `report` gets each request when it is over; it must not raise.

        `taint` is the label of the guest's workspace.
        """
        return GuestQuota(self._bounds, report, self._enforcement.rules.requests_per_second, taint)

    async def serve(
        self,
        listener: socket.socket,
        kind: Kind,
        quota: GuestQuota,
        port: int | None = None,
    ) -> None:
        """Accept connections until cancelled, then close them and the listener.

        `kind` is the listener's kind of server: a forward proxy for HTTP/1.1; or, for clients that resolved a name to
        this address, port 80 (`http`) or 443 (`https`) of whichever host they name, unless `port` is given; or a name
        server (`names`). All listeners of a guest share its quota.
        """
        listener.setblocking(False)
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                sock = await self._accept(listener)
                try:
                    await self._admit(quota)
                except BaseException:
                    sock.close()
                    raise
                task = asyncio.create_task(self._serve_connection(sock, kind, quota, port))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                task.add_done_callback(functools.partial(self._dismiss, quota, sock))
        finally:
            listener.close()
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def serve_own(self, sock: socket.socket, destination: Destination, quota: GuestQuota) -> None:
        """Serve a connected socket, whose other end is a client in this process, until either side closes it.

        The client speaks HTTP/1.1 without TLS, even if the destination uses TLS: the proxy speaks TLS with the host.
        """
        try:
            await self._admit(quota)
        except BaseException:
            sock.close()
            raise
        try:
            await self._serve_connection(sock, destination, quota)
        finally:
            self._dismiss(quota, sock)

    async def _admit(self, quota: GuestQuota) -> None:
        await quota.acquire_request()
        await quota.connections.acquire()
        try:
            await self._slots.acquire()
        except BaseException:
            quota.connections.release()
            raise

    def _dismiss(self, quota: GuestQuota, sock: socket.socket, _: object = None) -> None:
        sock.close()  # here, because a task that is cancelled before its first step does nothing
        self._slots.release()
        quota.connections.release()

    async def _accept(self, listener: socket.socket) -> socket.socket:
        while True:
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                await readable(listener)
            except ConnectionAbortedError:  # it was closed while it waited
                continue
            except OSError as error:
                if error.errno in NOT_LISTENING:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return sock

    async def _serve_connection(
        self,
        sock: socket.socket,
        kind: Kind | Destination,
        quota: GuestQuota,
        port: int | None = None,
    ) -> None:
        stream = None
        try:
            with contextlib.suppress(OSError):  # a socket other than TCP sends at once anyway
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = await TcpStream.of(sock)
            if isinstance(kind, Destination):
                await EgressConnection(self._enforcement, stream, quota).serve(kind)
            elif kind == "names":
                with contextlib.suppress(ClientGone):
                    await answer_connection(stream, quota, self._bounds)
            else:
                await EgressConnection(self._enforcement, stream, quota).run(kind, port)
            await stream.close()
        except Exception as error:
            # A fault of ours ends this connection only. The log has its place but not its message, which may quote a
            # request.
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("a connection ended by %s at:\n%s", type(error).__name__, where)
        finally:
            if stream is not None:
                stream.abort()
