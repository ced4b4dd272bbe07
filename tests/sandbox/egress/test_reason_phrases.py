"""The words beside the status of an answer pass through the proxy too, and a host may echo a secret in them."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from actbox import AllowedDomain, Secret
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, response

VALUE = "s3cr3t/value+1234"


@pytest.mark.parametrize("spelling", [VALUE, base64.b64encode(VALUE.encode()).decode(), quote(VALUE, safe="")])
async def test_a_secret_in_the_reason_of_an_answer_is_replaced(net: Net, spelling: str):
    def answer(asked: Asked) -> bytes:
        return response(b"hello", status=f"200 You sent {spelling} to me")

    host = await net.host("api.example", answer=answer)
    secret = Secret("key", VALUE, [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    request = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n"
    heard = await door.send(request.encode())
    assert VALUE in host.asked[0].head.decode()
    assert heard.startswith(b"HTTP/1.1 200 You sent [secret key] to me\r\n")
    assert spelling.encode() not in heard


async def test_a_reason_without_a_secret_in_it_is_passed_on(net: Net):
    host = await net.host("api.example", answer=lambda asked: response(status="404 Nothing Here"))
    secret = Secret("key", VALUE, [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    request = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n"
    assert (await door.send(request.encode())).startswith(b"HTTP/1.1 404 Nothing Here\r\n")
