"""The proxy's connections to hosts: each name is resolved here, once, and only checked addresses are used."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from actbox.core.addresses import reach_of
from actbox.core.domains import AllowedDomain, is_address

from .refusal_responses import Denied
from .resolver import SystemResolver

_MOST_ADDRESSES = 16
_ANY_PORT = 9  # nothing is sent to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The settings with which the proxy reaches hosts.

    `resolve` takes a name and a port and returns addresses; it raises `OSError` if there are none; `None` means this
    machine's resolver. `tls` is the proxy's TLS context for hosts with which it speaks TLS itself; `None` means the
    certificates that this machine trusts.
    """

    resolve: Callable[[str, int], Awaitable[Sequence[str]]] | None = None
    tls: ssl.SSLContext | None = None


class Dialer:
    """Connects to hosts of allowed entries. `seconds` bounds each step: the resolution, and each address tried."""

    def __init__(self, upstream: Upstream, seconds: float) -> None:
        self._resolve = upstream.resolve or SystemResolver()
        self._seconds = seconds
        self._tls = upstream.tls

    async def connect(self, entry: AllowedDomain, host: str, port: int) -> socket.socket:
        """Return a connected socket to an address of the host that the entry allows, or raise `Denied`.

        It connects to the very address that was checked, so a name server that answers differently a second time gains
        nothing.
        """
        failure: OSError = OSError()
        for address in await self._addresses(entry, host, port):
            try:
                if not (entry.private or is_address(host)) and _is_own(address):
                    raise Denied(
                        403,
                        f"Refused by the network policy: {host} resolves to an address of the machine that the sandbox "
                        "runs on, and the policy means others by that name (an entry with private=True means it too).",
                    )
                return await self._connect_to(address, port)
            except OSError as error:  # TimeoutError is one
                failure = error
        if isinstance(failure, TimeoutError):
            raise Denied(504, f"{host}:{port} did not answer in time.", by_policy=False)
        why = f": {os.strerror(failure.errno)}" if failure.errno else ""
        raise Denied(502, f"{host}:{port} could not be reached{why}.", by_policy=False)

    async def connect_tls(
        self, entry: AllowedDomain, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect with TLS to a server whose certificate is valid for the host, or raise `Denied`."""
        sock = await self.connect(entry, host, port)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.open_connection(sock=sock, ssl=self._context(), server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            sentence = f"The certificate of {host}:{port} could not be verified: {error.verify_message}."
            raise Denied(502, sentence, by_policy=False) from None
        except TimeoutError:
            raise Denied(504, f"{host}:{port} did not answer in time.", by_policy=False) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or "the connection was closed"
            raise Denied(502, f"TLS with {host}:{port} failed: {reason}.", by_policy=False) from None

    async def connect_plain(
        self, entry: AllowedDomain, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect without TLS, or raise `Denied`."""
        return await asyncio.open_connection(sock=await self.connect(entry, host, port))

    async def _addresses(self, entry: AllowedDomain, host: str, port: int) -> Sequence[str]:
        if is_address(host):
            if reach_of(host) == "special":  # no entry can name it
                raise Denied(403, f"Refused by the network policy: {host} is an address that no policy allows.")
            return [host]  # an entry for an address names it; wildcards match no address
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._resolve(host, port)
        except TimeoutError:
            raise Denied(504, f"The name {host} could not be resolved in time.", by_policy=False) from None
        except OSError:
            raise Denied(502, f"The name {host} could not be resolved.", by_policy=False) from None
        meant = ("public", "private") if entry.private else ("public",)
        checked = [address for address in dict.fromkeys(found) if reach_of(address) in meant]
        if found and not checked:
            raise Denied(
                403,
                f"Refused by the network policy: {host} resolves to an address of a private or special network, "
                "and the policy means public addresses by that name (an entry with private=True means "
                "private ones too, and none means special ones).",
            )
        if not checked:
            raise Denied(502, f"The name {host} could not be resolved.", by_policy=False)
        return checked[:_MOST_ADDRESSES]

    async def _connect_to(self, address: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._seconds):
                await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _is_own(address: str) -> bool:
    """Return whether an address is one of this machine's, where services may listen that are not meant for the world.

    A connection to such an address comes from the same address; the kernel tells so for a datagram socket before
    anything is sent. Raises `OSError` if there is no route to the address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect((address, _ANY_PORT))
        return bool(sock.getsockname()[0] == sock.getpeername()[0])
