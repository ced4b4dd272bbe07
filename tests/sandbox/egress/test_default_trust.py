"""Which servers the proxy believes where nobody has told it: those with a certificate that this machine trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from actbox import AllowedDomain
from tests.sandbox.egress.conftest import Net

GET = b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


@pytest.fixture
def trusted_here(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this machine trust the authority of the test names, as its administrator would."""
    file = tmp_path / "trusted.pem"
    file.write_bytes(net.authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


async def test_a_server_whose_authority_nobody_trusts_here_is_not_believed(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, ["GET"], private=True), own_trust=True)
    answer = await door.inside(host.place, GET % host.place.encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"The certificate of api.example:" in answer
    assert not host.asked


@pytest.mark.usefixtures("trusted_here")
async def test_a_server_with_a_certificate_for_another_name_is_not_believed(net: Net):
    host = await net.host("api.example", tls=True)
    net.names["other.example"] = ["127.0.0.1"]
    place = f"other.example:{host.port}"
    door = await net.proxy(AllowedDomain(place, ["GET"], private=True), own_trust=True)
    answer = await door.inside(place, GET % place.encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"The certificate of other.example:" in answer
    assert not host.asked


@pytest.mark.usefixtures("trusted_here")
async def test_a_server_that_this_machine_trusts_is_believed(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, ["GET"], private=True), own_trust=True)
    answer = await door.inside(host.place, GET % host.place.encode())
    assert answer.endswith(b"hello from api.example")
