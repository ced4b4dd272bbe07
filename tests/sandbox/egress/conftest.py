"""Real servers on loopback under test names, and the proxy before them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actbox import AllowedDomain, NetworkRequest, Secret
from actbox.sandbox.egress.authority import Authority
from actbox.sandbox.egress.bounds import Bounds
from actbox.sandbox.egress.inside import Kind
from actbox.sandbox.egress.proxy import EgressProxy
from actbox.sandbox.egress.upstream import Upstream
from actbox.sandbox.taint import Taint
from tests.sandbox.egress.hosts import Host


@pytest.fixture(scope="session")
def public_authority() -> Authority:
    """What stands for the authorities that the world trusts: the proxy trusts it, for the test names."""
    return Authority(["example", "127.0.0.1"])


@dataclass
class Net:
    """A small internet: names and the addresses that they resolve to, hosts that listen there, and a way to a proxy."""

    authority: Authority
    folder: Path
    names: dict[str, Sequence[str]] = field(default_factory=dict)
    lookups: list[str] = field(default_factory=list)
    reported: list[NetworkRequest] = field(default_factory=list)
    stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def host(self, name: str, *, tls: bool = False, answer: Any = None) -> Host:
        """Start a host that `name` resolves to."""
        self.names[name] = ["127.0.0.1"]
        host = Host(name, self.authority.context(name) if tls else None, answer)
        await host.start()
        self.stack.push_async_callback(host.stop)
        return host

    async def proxy(
        self,
        *domains: AllowedDomain,
        secrets: Sequence[Secret] = (),
        kind: Kind = "proxy",
        port: int | None = None,
        own_trust: bool = False,
        taint: Taint | None = None,
        **bounds: Any,
    ) -> Door:
        """Start a proxy for a policy; with `own_trust` it is not told which authorities to believe.

        `port` is the one that clients of the kinds without a proxy take it for.
        """
        trusted = None if own_trust else ssl.create_default_context(cadata=self.authority.pem.decode())
        egress = EgressProxy(domains, secrets, Upstream(resolve=self._resolve, tls=trusted), bounds=Bounds(**bounds))
        listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        door = Door(listener.getsockname()[1], egress, self.folder / "authority.pem")
        door.authority_file.write_bytes(egress.authority_pem or self.authority.pem)
        quota = egress.new_quota(self.reported.append, taint)
        serving = asyncio.create_task(egress.serve(listener, kind, quota, port))

        async def stop() -> None:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            quota.report_rest()

        door.stop = stop
        self.stack.push_async_callback(stop)
        return door

    async def _resolve(self, name: str, port: int) -> Sequence[str]:
        self.lookups.append(name)
        try:
            return self.names[name]
        except KeyError:
            raise socket.gaierror(socket.EAI_NONAME, "no such name") from None

    async def all_reported(self, count: int) -> list[NetworkRequest]:
        """Return the requests that were reported, once there are so many; what else comes is left in."""
        async with asyncio.timeout(60):
            while len(self.reported) < count:
                await asyncio.sleep(0.005)
        return self.reported


@dataclass
class Door:
    """Where a guest would find the proxy, and the file with the authority that it would trust."""

    port: int
    egress: EgressProxy
    authority_file: Path
    stop: Callable[[], Awaitable[None]] = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def send(self, data: bytes) -> bytes:
        """Send bytes as they are and return all that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(30):
                with contextlib.suppress(ConnectionError):
                    return await reader.read()
                return b""
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def tunnel(self, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Ask for a tunnel; return its ends and the head of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        return reader, writer, await reader.readuntil(b"\r\n\r\n")

    async def inside(self, target: str, data: bytes, *, name: str | None = None) -> bytes:
        """Send bytes through TLS in a tunnel, trusting the sandbox's authority, and return all that comes back."""
        reader, writer, head = await self.tunnel(target)
        assert head.startswith(b"HTTP/1.1 200 "), head
        trusted = ssl.create_default_context(cafile=str(self.authority_file))
        await writer.start_tls(trusted, server_hostname=name or target.rpartition(":")[0].strip("[]"))
        writer.write(data)
        try:
            async with asyncio.timeout(30):
                return await reader.read()
        finally:
            writer.transport.abort()


@pytest.fixture
async def net(public_authority: Authority, tmp_path: Path) -> AsyncIterator[Net]:
    net = Net(public_authority, tmp_path)
    async with net.stack:
        yield net


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Variables of the machine that runs the tests do not lead clients elsewhere."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    yield
