"""How much of everything: what an entry bounds, and what one sandbox may take of the proxy."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl

import pytest

from actbox import AllowedDomain, NetworkRequest
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, Host, response


def get(host: Host, path: str = "/") -> bytes:
    return f"GET {host.url}{path} HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode()


def post(host: Host, body: bytes, framing: str) -> bytes:
    return f"POST {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\n{framing}\r\n\r\n".encode() + body


async def test_requests_a_minute_are_counted_over_all_hosts_of_an_entry(net: Net):
    one, two = await net.host("a.example"), await net.host("b.example")
    net.names["b.example"] = ["127.0.0.1"]
    entries = [AllowedDomain(f"*.example:{host.port}", private=True, requests_per_minute=2) for host in (one, two)]
    door = await net.proxy(*entries)
    assert (await door.send(get(one))).startswith(b"HTTP/1.1 200 ")
    assert (await door.send(get(one))).startswith(b"HTTP/1.1 200 ")
    answer = await door.send(get(one))
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert f"*.example:{one.port} allows 2 requests a minute".encode() in answer
    assert (await door.send(get(two))).startswith(b"HTTP/1.1 200 ")
    assert len(one.asked) == 2
    assert (await net.all_reported(4))[2].decision == "refused"


async def test_each_tunnel_that_is_passed_through_counts_as_a_request(net: Net):
    host = await net.host("a.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, private=True, requests_per_minute=1))
    _, writer, head = await door.tunnel(host.place)
    assert head.startswith(b"HTTP/1.1 200 ")
    writer.close()
    _, writer, head = await door.tunnel(host.place)
    assert head.startswith(b"HTTP/1.1 429 ")
    writer.close()


@pytest.mark.parametrize("framing", ["Content-Length: 101", "Transfer-Encoding: chunked"])
async def test_a_request_that_is_too_large_is_a_413(net: Net, framing: str):
    host = await net.host("a.example")
    door = await net.proxy(AllowedDomain(host.place, private=True, request_bytes=100))
    body = b"x" * 101 if "Length" in framing else b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n"
    answer = await door.send(post(host, body, framing))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert f"larger than the 100 bytes that {host.place} allows".encode() in answer
    assert not host.asked
    assert (await net.all_reported(1))[0].decision == "refused"
    assert (await door.send(post(host, b"x" * 100, "Connection: close\r\nContent-Length: 100"))).startswith(
        b"HTTP/1.1 200 "
    )


async def test_a_response_that_is_too_large_is_refused_or_cut_off(net: Net):
    def answer(asked: Asked) -> bytes:
        whole = response(b"x" * 101)
        return whole if asked.target == "/length" else b"HTTP/1.1 200 OK\r\n\r\n" + whole.partition(b"\r\n\r\n")[2]

    host = await net.host("a.example", answer=answer)
    door = await net.proxy(AllowedDomain(host.place, private=True, response_bytes=100))
    refused = await door.send(get(host, "/length"))
    assert refused.startswith(b"HTTP/1.1 502 ")
    assert b"larger than the 100 bytes" in refused
    cut = await door.send(get(host, "/unknown"))
    assert not cut.endswith(b"0\r\n\r\n")  # the last chunk is missing, by which a client knows
    first, second = await net.all_reported(2)
    assert first.decision == second.decision == "refused"
    assert "larger than the 100 bytes" in second.reason


@pytest.mark.parametrize("bound", ["request_bytes", "response_bytes"])
async def test_a_tunnel_is_cut_where_its_entry_says(net: Net, bound: str):
    host = await net.host("a.example", tls=True, answer=lambda asked: response(b"x" * 50_000))
    door = await net.proxy(AllowedDomain(host.place, private=True, **{bound: 20_000}))
    reader, writer, _ = await door.tunnel(host.place)
    await writer.start_tls(ssl.create_default_context(cadata=net.authority.pem.decode()), server_hostname="a.example")
    writer.write(f"POST / HTTP/1.1\r\nHost: {host.place}\r\nContent-Length: 50000\r\n\r\n".encode() + b"x" * 50_000)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        answer = await reader.read()
        assert len(answer) < 50_000
        raise ConnectionError  # it ended without TLS's own end, which not every version of Python says
    writer.transport.abort()
    (told,) = await net.all_reported(1)
    assert told.decision == "refused"
    assert f"larger than the 20000 bytes that {host.place} allows" in told.reason


async def never(asked: Asked) -> bytes:
    await asyncio.Event().wait()
    return b""


async def test_an_exchange_that_takes_too_long_is_a_504(net: Net):
    host = await net.host("a.example", answer=never)
    door = await net.proxy(AllowedDomain(host.place, private=True, seconds=0.3))
    answer = await door.send(get(host))
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"took longer than" in answer


async def test_a_tunnel_that_lasts_too_long_is_cut(net: Net):
    host = await net.host("a.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, private=True, seconds=0.3))
    reader, writer, _ = await door.tunnel(host.place)
    async with asyncio.timeout(30):
        assert await reader.read() == b"\x15\x03\x03\x00\x02\x02\x31"
    writer.close()
    assert "lasted longer" in (await net.all_reported(1))[0].reason


async def test_connections_beyond_the_bound_wait_for_one_to_end(net: Net):
    host = await net.host("a.example")
    door = await net.proxy(AllowedDomain(host.place, private=True), connections=1)
    first = await asyncio.open_connection("127.0.0.1", door.port)
    first[1].write(f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\n\r\n".encode())
    assert (await first[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    waiting = asyncio.create_task(door.send(get(host)))
    await first[0].readexactly(20)
    assert not waiting.done()
    first[1].close()
    assert (await waiting).startswith(b"HTTP/1.1 200 ")


async def test_a_guest_that_takes_all_its_connections_leaves_others_theirs(net: Net):
    host = await net.host("a.example")
    door = await net.proxy(AllowedDomain(host.place, private=True), guest_connections=1)
    other = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(door.egress.serve(other, "proxy", door.egress.new_quota(net.reported.append)))
    _, holding = await asyncio.open_connection("127.0.0.1", door.port)
    waiting = asyncio.create_task(door.send(get(host)))
    reader, writer = await asyncio.open_connection(*other.getsockname())
    writer.write(get(host))
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    assert not waiting.done()
    holding.close()
    assert (await waiting).startswith(b"HTTP/1.1 200 ")
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class FailsSecond(socket.socket):
    """A listener whose second call of accept() fails."""

    calls = 0
    error = errno.EINVAL

    def accept(self) -> tuple[socket.socket, object]:
        self.calls += 1
        if self.calls == 2:
            raise OSError(self.error, os.strerror(self.error))
        return super().accept()


async def test_a_connection_is_closed_whose_listener_fails_before_it_is_served(net: Net):
    door = await net.proxy(AllowedDomain("a.example"))
    listener = FailsSecond(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    with socket.create_connection(listener.getsockname()) as client:
        client.setblocking(False)
        with pytest.raises(OSError, match="Invalid argument") as failure:
            await door.egress.serve(listener, "proxy", door.egress.new_quota(net.reported.append))
        assert client.recv(1) == b""
        assert failure.traceback  # which has the connection, so that no collector closes it


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EPROTO], ids=os.strerror)
async def test_a_listener_that_fails_for_a_while_answers_later_requests(net: Net, error: int):
    door = await net.proxy(AllowedDomain("a.example"))
    listener = FailsSecond(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    listener.error = error
    serving = asyncio.create_task(door.egress.serve(listener, "proxy", door.egress.new_quota(net.reported.append)))
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(REFUSED)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 403 ")
        writer.close()
    assert listener.calls > 2
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


REFUSED = b"GET http://no.example/ HTTP/1.1\r\nHost: no.example\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "connections", "told"), [(REFUSED * 20, 1, 5), (b"nonsense\n\r\n", 20, 6)], ids=["refused", "malformed"]
)
async def test_what_is_asked_in_vain_goes_on_at_a_rate(net: Net, sent: bytes, connections: int, told: int):
    entry = AllowedDomain("a.example", requests_per_minute=1)
    door = await net.proxy(entry, asked_at_once=6, asked_per_second=0.001)
    asking = [asyncio.create_task(door.send(sent)) for _ in range(connections)]
    await net.all_reported(told)
    await asyncio.sleep(0.2)  # in which all the others would be told as well
    assert [event.decision for event in net.reported] == ["refused"] * told
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_refusals_beyond_a_number_are_told_together_and_what_is_allowed_one_by_one(net: Net):
    host = await net.host("a.example")
    door = await net.proxy(AllowedDomain(host.place, private=True), refusals_reported=3)
    for _ in range(8):
        assert (await door.send(get(host))).startswith(b"HTTP/1.1 200 ")
        request = b"GET http://no.example/ HTTP/1.1\r\nHost: no.example\r\nConnection: close\r\n\r\n"
        assert (await door.send(request)).startswith(b"HTTP/1.1 403 ")
    await door.stop()
    assert sum(event.decision == "allowed" for event in net.reported) == 8
    refused = [event.reason for event in net.reported if event.decision == "refused"]
    assert len(refused) == 5
    assert not any("So were" in reason for reason in refused[:3])
    assert refused[3].endswith("So were 2 other requests before this one.")
    assert refused[4].endswith("So were 1 other requests before this one.")


async def test_a_handshake_that_fails_counts_as_a_request(net: Net):
    door = await net.proxy(AllowedDomain("a.example", ["GET"], requests_per_minute=1))
    distrustful = ssl.create_default_context(cadata=net.authority.pem.decode())
    for count, decision in ((1, "allowed"), (2, "refused")):
        _, writer, _ = await door.tunnel("a.example:443")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await writer.start_tls(distrustful, server_hostname="a.example")
        writer.transport.abort()
        assert (await net.all_reported(count))[-1].decision == decision


async def test_cancelling_closes_every_connection_and_the_listener_and_tells_what_was_under_way(net: Net):
    host = await net.host("a.example", answer=never)
    door = await net.proxy(AllowedDomain(host.place, private=True))
    waiting = asyncio.create_task(door.send(get(host)))
    async with asyncio.timeout(30):
        while not host.asked:
            await asyncio.sleep(0.005)
    await door.stop()
    assert await waiting == b""
    assert net.reported == [
        NetworkRequest(host="a.example", port=host.port, method="GET", path="/", decision="allowed")
    ]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", door.port)


async def test_a_connection_that_comes_as_the_proxy_ends_is_refused_and_troubles_nobody(net: Net):
    door = await net.proxy(AllowedDomain("a.example"))
    loop, troubles = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: troubles.append(context))
    assert (await door.send(REFUSED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).startswith(
        b"HTTP/1.1 403 "
    )
    with socket.create_connection(("127.0.0.1", door.port)):
        await asyncio.create_task(door.stop())  # begins in the loop's turn that finds the connection
    assert troubles == []


async def test_the_most_specific_entry_alone_decides(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(
        AllowedDomain(f"*.example:{host.port}", private=True),
        AllowedDomain(f"https://api.example:{host.port}", ["GET"], private=True),
    )
    head = f"/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode()
    assert (await door.inside(host.place, b"GET " + head)).startswith(b"HTTP/1.1 200 ")
    assert (await door.inside(host.place, b"POST " + head)).startswith(b"HTTP/1.1 403 ")
