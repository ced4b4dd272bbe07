"""`http_request` of engines without sockets: every request goes through the sandbox's proxy, by the policy's rules."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import actbox
from actbox import AllowedDomain, ErrorKind, Limits, NetworkRequest, Policy, Sandbox, Secret
from actbox.sandbox.egress.upstream import Upstream
from tests.clock import Clock
from tests.conftest import engine_check
from tests.sandbox.egress.conftest import Net, net, no_proxy_of_this_machine, public_authority  # noqa: F401
from tests.sandbox.egress.hosts import Asked, response


@pytest.fixture(params=["monty", "wasm"], autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine on which a test runs; skipped with the reason where it does not work."""
    found = engine_check(request.param)
    if not found.works:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason} {found.advice}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "ENGINE", request.param)
        yield request.param


ENGINE = ""


@asynccontextmanager
async def opened(
    net: Net,  # noqa: F811
    *domains: AllowedDomain,
    secrets: Sequence[Secret] = (),
    **options: Any,
) -> AsyncIterator[Sandbox]:
    trusted = ssl.create_default_context(cadata=net.authority.pem.decode())
    policy = Policy(domains=domains, secrets=tuple(secrets), limits=options.pop("limits", Limits()))
    upstream = Upstream(resolve=net._resolve, tls=trusted)
    async with actbox.open_sandbox(ENGINE, policy=policy, upstream=upstream, **options) as box:
        yield box


def allowed(host: Any, **given: Any) -> AllowedDomain:
    return AllowedDomain(host.place, private=True, **given)


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True])
async def test_a_request_reaches_an_allowed_host(net: Net, tls: bool) -> None:  # noqa: F811
    def answer(asked: Asked) -> bytes:
        return response(
            asked.body[::-1], headers="X-Own: é\r\nX-Own: b\r\nContent-Type: text/plain; charset=latin-1\r\n"
        )

    host = await net.host("api.example", tls=tls, answer=answer)
    async with opened(net, allowed(host)) as box:
        code = f"http_request('{host.url}/a?b=c', method='post', headers={{'X-Mine': '1'}}, body='\\xe9x')"
        events = [event async for event in box.stream(code)]
    result = events[-1].result  # type: ignore[union-attr]
    assert result.success, result.error
    (asked,) = host.asked
    assert (asked.method, asked.target, asked.values("x-mine"), asked.body) == ("POST", "/a?b=c", ["1"], "éx".encode())
    assert asked.values("host") == [host.place]
    assert "'status': 200" in result.value_text and "'x-own'" in result.value_text
    (told,) = [event for event in events if isinstance(event, NetworkRequest)]
    assert (result.usage.sent_bytes, result.usage.received_bytes) == (told.sent_bytes, told.received_bytes)
    assert (told.host, told.port, told.method, told.path, told.decision, told.status) == (
        "api.example",
        host.port,
        "POST",
        "/a",
        "allowed",
        200,
    )


async def test_requests_go_on_at_once_in_a_program_that_awaits(net: Net) -> None:  # noqa: F811
    together = asyncio.Barrier(3)

    async def answer(asked: Asked) -> bytes:
        await together.wait()
        return response(asked.target.encode())

    host = await net.host("api.example", answer=answer)
    code = f"""\
import asyncio
answers = await asyncio.gather(*[http_request('{host.url}/' + str(n)) for n in range(3)])
[answer['text'] for answer in answers]
"""
    async with opened(net, allowed(host)) as box, asyncio.timeout(60):
        assert (await box.run(code)).value == ["/0", "/1", "/2"]


@pytest.mark.slow
async def test_what_the_policy_does_not_allow_is_refused_and_told(net: Net) -> None:  # noqa: F811
    host = await net.host("api.example", tls=True)
    other = await net.host("other.example")
    async with opened(net, AllowedDomain(host.url, ["GET"], private=True)) as box:
        for code, said in (
            (f"http_request('{other.url}')", "other.example"),
            (f"http_request('{host.url}', 'DELETE')", "DELETE is not allowed"),
            (f"http_request('http://{host.place}')", "http://api.example"),
            (f"http_request('{host.url}', 'CONNECT')", ""),
            ("http_request('http://169.254.169.254/latest')", "169.254.169.254"),
        ):
            events = [event async for event in box.stream(code)]
            error = events[-1].result.error  # type: ignore[union-attr]
            assert error is not None and error.kind is ErrorKind.NETWORK, error
            assert said in error.message and error.type == "PermissionError"
            (told,) = [event for event in events if isinstance(event, NetworkRequest)]
            assert told.decision == "refused"
        code = f"try:\n    http_request('{other.url}')\nexcept PermissionError as error:\n    print('caught')"
        assert (await box.run(code)).stdout == "caught\n"
    assert not host.asked and not other.asked


@pytest.mark.slow
async def test_private_addresses_are_refused_by_name_and_unreachable_hosts_told(net: Net) -> None:  # noqa: F811
    host = await net.host("api.example")
    net.names["gone.example"] = ["127.0.0.1"]
    async with opened(
        net, AllowedDomain(host.place), AllowedDomain("gone.example:9", private=True), AllowedDomain("none.example")
    ) as box:
        error = (await box.run(f"http_request('{host.url}')")).error
        assert error is not None and (error.kind, error.type) == (ErrorKind.NETWORK, "PermissionError")
        assert "private" in error.message
        for url, said in (("http://gone.example:9/", "could not be reached"), ("http://none.example/", "resolved")):
            error = (await box.run(f"http_request({url!r})")).error
            assert error is not None and (error.kind, error.type) == (ErrorKind.NETWORK, "OSError")
            assert said in error.message
    assert not host.asked


@pytest.mark.parametrize("tls", [False, True])
async def test_a_secret_is_put_in_by_the_host_and_never_seen(net: Net, tls: bool) -> None:  # noqa: F811
    def answer(asked: Asked) -> bytes:
        return response(b"echo " + ", ".join(asked.values("authorization")).encode())

    host = await net.host("api.example", tls=tls, answer=answer)
    secret = Secret("key", "s3cret-value-1234", [f"{'https' if tls else 'http'}://{host.place}"])
    async with opened(net, allowed(host), secrets=[secret]) as box:
        result = await box.run(f"http_request('{host.url}', headers={{'Authorization': 'mine'}})['text']")
    assert result.success, result.error
    assert any("s3cret-value-1234" in value for value in host.asked[0].values("authorization"))
    assert "s3cret-value-1234" not in str(result)


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("http_request()", "TypeError"),
        ("http_request(1)", "TypeError"),
        ("http_request('http://a', 'GET', {}, b'', 5)", "TypeError"),
        ("http_request('http://a', timeout=5)", "TypeError"),
        ("http_request('http://a', headers=['a'])", "TypeError"),
        ("http_request('http://a', headers={'a': 1})", "TypeError"),
        ("http_request('http://a', body={})", "TypeError"),
        ("http_request('file:///etc/passwd')", "ValueError"),
        ("http_request('http://user:word@a/')", "ValueError"),
        ("http_request('http://[')", "ValueError"),
        ("http_request('http://a:x')", "ValueError"),
        ("http_request('http://a', headers={'a\\r\\nb': 'c'})", "ValueError"),
        ("http_request('http://a', headers={'a': 'b\\r\\nc: d'})", "ValueError"),
        ("http_request('http://a/b c')", "ValueError"),
        ("http_request('http://a', 'GET /x HTTP/1.1\\r\\nb: c\\r\\n\\r\\n')", "ValueError"),
    ],
)
async def test_arguments_that_make_no_sense_raise_before_anything_is_sent(
    net: Net,  # noqa: F811
    call: str,
    type_: str,
) -> None:
    async with opened(net, AllowedDomain("a", private=True)) as box:
        events = [event async for event in box.stream(call)]
    error = events[-1].result.error  # type: ignore[union-attr]
    assert error is not None and error.type == type_, error
    assert not any(isinstance(event, NetworkRequest) for event in events)


async def test_an_answer_that_is_too_long_or_breaks_off_is_an_error(net: Net) -> None:  # noqa: F811
    long = await net.host("long.example", answer=lambda asked: response(b"x" * 200_000))
    cut = await net.host("cut.example", answer=lambda asked: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
    async with opened(net, allowed(long), allowed(cut), limits=Limits(message_bytes=100_000)) as box:
        for host, said in ((long, "100,000 bytes"), (cut, "")):
            error = (await box.run(f"http_request('{host.url}')")).error
            assert error is not None and error.type == "OSError", error
            assert said in error.message


async def test_a_request_ends_with_its_program(net: Net, clock: Clock) -> None:  # noqa: F811
    waiting = asyncio.Event()

    async def hang(asked: Asked) -> bytes:
        waiting.set()
        await asyncio.Event().wait()
        return b""

    host = await net.host("api.example", answer=hang)
    async with opened(net, allowed(host)) as box:
        running = asyncio.create_task(box.run(f"http_request('{host.url}')", timeout=30))
        async with asyncio.timeout(60):
            await waiting.wait()
        clock.turn(30)
        result = await running
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "actbox-http-request"]


async def test_without_domains_there_is_no_such_function() -> None:
    async with actbox.open_sandbox(ENGINE) as box:
        error = (await box.run("http_request('http://example.com')")).error
    assert error is not None and (error.kind, error.type) == (ErrorKind.NETWORK, "NameError")


async def test_where_there_is_no_proxy_domains_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(actbox.Unsupported, match=f"the {ENGINE} engine .* on Linux only"):
        actbox.open_sandbox(ENGINE, policy=Policy(domains=[AllowedDomain("api.example")]))


async def test_a_secret_as_a_file_is_refused() -> None:
    secret = Secret("key", "s3cret-value-1234", ["https://api.example"], as_file=True)
    with pytest.raises(actbox.Unsupported, match="as a file; linux can"):
        actbox.open_sandbox(ENGINE, policy=Policy(domains=[AllowedDomain("api.example")], secrets=[secret]))
