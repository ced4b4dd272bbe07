"""`http_request` in machines: the host makes each request through the sandbox's proxy, by the policy's rules."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import actbox
from actbox import AllowedDomain, ErrorKind, Limits, NetworkRequest, Policy, Sandbox, Secret
from actbox.sandbox.egress.upstream import Upstream
from tests.clock import Clock
from tests.sandbox.egress.conftest import Net, net, no_proxy_of_this_machine, public_authority  # noqa: F401
from tests.sandbox.egress.hosts import Asked, response

pytestmark = pytest.mark.usefixtures("stand_in")


@asynccontextmanager
async def opened(
    net: Net,  # noqa: F811
    *domains: AllowedDomain,
    secrets: Sequence[Secret] = (),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> AsyncIterator[Sandbox]:
    trusted = ssl.create_default_context(cadata=net.authority.pem.decode())
    policy = Policy(domains=domains, secrets=tuple(secrets), limits=limits)
    async with actbox.open_sandbox(
        "hyperlight", policy=policy, upstream=Upstream(resolve=net._resolve, tls=trusted), machines=1
    ) as box:
        yield box


async def requests_of(box: Sandbox, code: str) -> tuple[actbox.ExecutionResult, list[NetworkRequest]]:
    events = [event async for event in box.stream(code)]
    told = [event for event in events if isinstance(event, NetworkRequest)]
    return events[-1].result, told  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_request_reaches_an_allowed_host_with_its_secret(net: Net) -> None:  # noqa: F811
    def answer(asked: Asked) -> bytes:
        said = ", ".join(asked.values("authorization")).encode() + b"\xff\xe9"
        return response(said + asked.body[::-1], headers="X-Own: a\r\n")

    host = await net.host("api.example", tls=True, answer=answer)
    secret = Secret("key", "s3cret-value-1234", [host.url])
    code = f"""\
answer = http_request('{host.url}/a?b=c', method='post', headers={{'X-Mine': '1'}}, body=b'\\xe9x')
[answer['status'], answer['headers']['x-own'], answer['content'][-4:].hex(), answer['text'][-1:]]
"""
    async with opened(net, AllowedDomain(host.place, ["POST"], private=True), secrets=[secret]) as box:
        result, (told,) = await requests_of(box, code)
    assert result.value == [200, "a", "ffe978e9", "\ufffd"], result.error
    (asked,) = host.asked
    assert (asked.method, asked.target, asked.values("x-mine"), asked.body) == ("POST", "/a?b=c", ["1"], b"\xe9x")
    assert "s3cret-value-1234" in str(asked.values("authorization")) and "s3cret-value-1234" not in str(result)
    assert (told.host, told.method, told.path, told.decision, told.status) == (
        "api.example",
        "POST",
        "/a",
        "allowed",
        200,
    )


@pytest.mark.slow
async def test_what_the_policy_does_not_allow_is_refused_and_told(net: Net) -> None:  # noqa: F811
    host = await net.host("api.example")
    inner = await net.host("inner.example")
    domains = AllowedDomain(host.place, ["GET"], private=True), AllowedDomain(inner.place)
    async with opened(net, *domains) as box:
        for call, said in (
            ("http_request('http://other.example')", "other.example"),
            (f"http_request('{host.url}', 'DELETE')", "DELETE is not allowed"),
            (f"http_request('{inner.url}')", "private"),
            ("http_request('http://169.254.169.254/latest')", "169.254.169.254"),
        ):
            result, (told,) = await requests_of(box, f"\n{call}")
            assert result.error is not None
            assert (result.error.kind, result.error.type, result.error.line) == (
                ErrorKind.NETWORK,
                "PermissionError",
                2,
            )
            assert said in result.error.message and told.decision == "refused"
        code = "try:\n    http_request('http://other.example')\nexcept PermissionError:\n    print('caught')"
        assert (await box.run(code)).stdout == "caught\n"
    assert not host.asked and not inner.asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("http_request()", "TypeError"),
        ("http_request('http://a', headers=['a'])", "TypeError"),
        ("http_request('http://a', body={1, 2})", "TypeError"),
        ("http_request('http://a', body=b'x' * 2_000_000)", "ValueError"),
        ("http_request('file:///etc/passwd')", "ValueError"),
        ("http_request('http://a', headers={'a': 'b\\r\\nc: d'})", "ValueError"),
    ],
)
async def test_arguments_that_make_no_sense_raise_before_anything_is_sent(
    net: Net,  # noqa: F811
    call: str,
    type_: str,
) -> None:
    limits = Limits(message_bytes=1_000_000)
    async with opened(net, AllowedDomain("a", private=True), limits=limits) as box:
        result, told = await requests_of(box, call)
    assert result.error is not None
    assert (result.error.kind, result.error.type, told) == (ErrorKind.RUNTIME, type_, [])


@pytest.mark.slow
async def test_an_answer_is_as_large_as_a_message_may_be_and_no_larger(net: Net) -> None:  # noqa: F811
    host = await net.host("api.example", answer=lambda asked: response(b"\x01" * int(asked.target[1:])))
    async with opened(net, AllowedDomain(host.place, private=True), limits=Limits(message_bytes=100_000)) as box:
        result, _ = await requests_of(box, f"len(http_request('{host.url}/100000')['text'])")
        assert result.value == 100_000, result.error
        result, _ = await requests_of(box, f"http_request('{host.url}/100001')")
        assert result.error is not None
        assert (result.error.kind, result.error.type) == (ErrorKind.NETWORK, "OSError")


async def test_a_request_ends_with_its_program(net: Net, clock: Clock) -> None:  # noqa: F811
    waiting = asyncio.Event()

    async def hang(asked: Asked) -> bytes:
        waiting.set()
        await asyncio.Event().wait()
        return b""

    host = await net.host("api.example", answer=hang)
    async with opened(net, AllowedDomain(host.place, private=True)) as box:
        running = asyncio.create_task(box.run(f"http_request('{host.url}')", timeout=30))
        async with asyncio.timeout(60):
            await waiting.wait()
        clock.turn(30)
        result = await running
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "actbox-http-request"]


@pytest.mark.slow
async def test_without_domains_there_is_no_such_function_and_no_such_question() -> None:
    async with actbox.open_sandbox("hyperlight", machines=1) as box:
        result: Any = await box.run("http_request('http://example.com')")
        assert (result.error.kind, result.error.type) == (ErrorKind.NETWORK, "NameError")
        forged = "import sys\nsys.stdout.buffer.raw._channel.ask({'t': 'request', 'args': [], 'kwargs': {}})"
        result = await box.run(forged)
        assert result.error.kind is ErrorKind.PROTOCOL


async def test_a_session_and_a_tool_of_the_same_name(net: Net) -> None:  # noqa: F811
    host = await net.host("api.example")

    def http_request(url: str) -> str:
        """Answer in the other's stead."""
        return f"the tool, not {url}"

    async with opened(net, AllowedDomain(host.place, private=True)) as box, box.session() as session:
        await session.run(f"def fetch(): return http_request('{host.url}')['status']")
        assert (await session.run("fetch()")).value == 200
        assert (await session.run("http_request('x')", tools=[http_request])).value == "the tool, not x"
