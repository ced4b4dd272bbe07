"""The clients that programs use work unchanged, by the usual variables and nothing else."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from actbox import AllowedDomain, Secret
from tests.sandbox.egress import clients
from tests.sandbox.egress.conftest import Door, Net
from tests.sandbox.egress.hosts import Asked, response

CLIENTS = ["urllib", "requests", "httpx", "aiohttp", "curl"]


async def process(*command: str, variables: dict[str, str]) -> str:
    running = await asyncio.create_subprocess_exec(
        *command, env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await running.communicate()
    return out.decode()


def variables(door: Door, authority: Path) -> dict[str, str]:
    """Return the variables that lead clients to the proxy and to the authority that they are to trust."""
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), door.url)
    trust = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
    return proxies | {name: str(authority) for name in trust} | {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


async def ask(client: str, door: Door, url: str, method: str = "GET", authority: Path | None = None) -> dict[str, Any]:
    """Return `status` and `body`, or `error`, as the client sees them."""
    given = variables(door, authority or door.authority_file)
    if client != "curl":
        answer: dict[str, Any] = json.loads(
            await process(sys.executable, clients.__file__, client, url, method, variables=given)
        )
        return answer
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    out = await process("curl", "-sSL", "-X", method, "-w", "\n%{http_code}", url, variables=given)
    body, _, status = out.rpartition("\n")
    return {"status": int(status), "body": body} if status != "000" else {"error": body}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_plain_http(net: Net, client: str):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"http://api.example:{host.port}", private=True))
    assert await ask(client, door, f"{host.url}/x?y=z") == {"status": 200, "body": "hello from api.example"}
    refused = await ask(client, door, "http://evil.example/")
    assert refused["status"] == 403
    assert refused["body"].startswith("Refused by the network policy: http://evil.example is not allowed. Allowed: ")


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_https_passed_through(net: Net, client: str):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    assert await ask(client, door, host.url) == {"status": 200, "body": "hello from api.example"}
    refused = await ask(client, door, "https://evil.example/")
    assert "403" in refused["error"]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_https_read_for_its_methods(net: Net, client: str):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"*.example:{host.port}", ["GET"], private=True))
    assert await ask(client, door, host.url) == {"status": 200, "body": "hello from api.example"}
    refused = await ask(client, door, host.url, "DELETE")
    assert refused["status"] == 403
    assert "DELETE is not allowed for api.example; allowed there: GET." in refused["body"]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_secret_goes_out_and_does_not_come_back(net: Net, client: str):
    host = await net.host("api.example", tls=True, answer=lambda asked: response(repr(asked.headers).encode()))
    place = f"api.example:{host.port}"
    secret = Secret("github", "s3cr3t-t0k3n/+", [place])
    door = await net.proxy(AllowedDomain(place, private=True), secrets=[secret])
    answer = await ask(client, door, host.url)
    assert answer["status"] == 200
    assert host.asked[0].values("authorization") == ["Bearer s3cr3t-t0k3n/+"]
    assert "s3cr3t" not in answer["body"]
    assert "Bearer [secret github]" in answer["body"]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_redirect_to_another_host_is_a_new_request_and_refused(net: Net, client: str):
    where = "http://evil.example/stolen"
    host = await net.host("api.example", answer=lambda asked: response(b"", "302 Found", f"Location: {where}\r\n"))
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    answer = await ask(client, door, host.url)
    assert answer["status"] == 403
    assert "http://evil.example is not allowed" in answer["body"]
    assert [told.host for told in await net.all_reported(2)] == ["api.example", "evil.example"]


@pytest.mark.slow
@pytest.mark.parametrize("methods", [None, ["GET", "HEAD"]])
async def test_pip_installs_from_an_index(net: Net, methods: list[str] | None, tmp_path: Path):
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "answer = 42\n")
        info = "tiny-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    name = "tiny-1.0-py3-none-any.whl"

    def index(asked: Asked) -> bytes:
        if asked.target.endswith(".whl"):
            return response(wheel.getvalue(), headers="Content-Type: application/zip\r\n")
        return response(f'<a href="/{name}">{name}</a>'.encode(), headers="Content-Type: text/html\r\n")

    host = await net.host("pypi.example", tls=True, answer=index)
    door = await net.proxy(AllowedDomain(f"pypi.example:{host.port}", methods, private=True))
    real = tmp_path / "real.pem"
    real.write_bytes(net.authority.pem)
    given = variables(door, door.authority_file if methods else real)
    given |= {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}
    where = ["--dest", str(tmp_path / "got"), "--index-url", f"{host.url}/simple"]
    out = await process(sys.executable, "-m", "pip", "download", "--no-deps", *where, "tiny", variables=given)
    assert (tmp_path / "got" / name).read_bytes() == wheel.getvalue(), out
