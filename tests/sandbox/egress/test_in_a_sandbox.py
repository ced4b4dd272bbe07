"""Programs in a sandbox, with the clients that people use, and real servers outside of it."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shutil
import socket
import ssl
import sys
import threading
import zipfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

import actbox
from actbox import AllowedDomain, ErrorKind, ExecutionResult, Limits, NetworkRequest, Policy, Sandbox, Secret
from actbox.sandbox.contract import closing
from actbox.sandbox.egress.upstream import Upstream
from tests.conftest import engine_check
from tests.contract.left_behind import nothing_left_behind
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, Host, response

VALUE = "s3cr3t-of-the-host-41"


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


def allowed(host: Host, methods: Sequence[str] | None = None, **caps: float) -> AllowedDomain:
    return AllowedDomain(host.url, methods, private=True, **caps)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def opened(
    net: Net, *domains: AllowedDomain, secrets: Sequence[Secret] = (), **more: object
) -> AsyncIterator[Sandbox]:
    """Open a sandbox whose proxy knows the names of the little internet, and whose programs trust its authority."""
    trusted = ssl.create_default_context(cadata=net.authority.pem.decode())
    policy = Policy(domains=domains, secrets=tuple(secrets), **more)  # type: ignore[arg-type]
    async with actbox.open_sandbox("linux", policy=policy, upstream=Upstream(resolve=net._resolve, tls=trusted)) as box:
        yield box


async def run(box: Sandbox, code: str) -> tuple[ExecutionResult, list[NetworkRequest]]:
    """Run a program; return its result and what it asked for on the network."""
    events = [event async for event in box.stream(code, timeout=50)]
    done = events[-1]
    assert isinstance(done, actbox.Completed)
    return done.result, [event for event in events if isinstance(event, NetworkRequest)]


# Each asks for URL and prints the body, or what it was told instead.
CLIENTS = {
    "urllib": """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen(URL).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
""",
    "requests": """
import requests
answer = requests.get(URL)
print(answer.text if answer.ok else f"{answer.status_code} {answer.text}")
""",
    "httpx": """
import httpx
answer = httpx.get(URL)
print(answer.text if answer.is_success else f"{answer.status_code} {answer.text}")
""",
    "aiohttp": """
import aiohttp
async with aiohttp.ClientSession() as session, session.get(URL) as answer:
    print(await answer.text() if answer.ok else f"{answer.status} {await answer.text()}")
""",
    "curl": """
import subprocess
done = subprocess.run(["curl", "-s", "-w", "%{http_code}", URL], capture_output=True, text=True)
print(done.stdout.removesuffix("200") if done.stdout.endswith("200") else f"{done.stdout[-3:]} {done.stdout[:-3]}")
""",
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "curl" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    return CLIENTS[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "tls", [pytest.param(False, id="http", marks=pytest.mark.long), pytest.param(True, id="https")]
)
async def test_clients_work_unchanged_and_are_told_plainly_what_is_refused(net: Net, client: str, tls: bool) -> None:
    host = await net.host("api.example", tls=tls)
    async with opened(net, allowed(host, ["GET"])) as box:
        result, requests = await run(box, f"URL = {host.url + '/a?b=c'!r}\n{client}")
        assert result.stdout == "hello from api.example\n", result
        (request,) = requests
        assert (request.host, request.port, request.method, request.path) == ("api.example", host.port, "GET", "/a")
        assert (request.decision, request.status, request.received_bytes) == ("allowed", 200, 22)
        assert [asked.target for asked in host.asked] == ["/a?b=c"]
    async with opened(net, allowed(host, ["POST"])) as box:
        result, requests = await run(box, f"URL = {host.url + '/a?b=c'!r}\n{client}")
        assert result.stdout.startswith("403 "), result
        assert "GET is not allowed for api.example" in result.stdout and "POST" in result.stdout
        assert [request.decision for request in requests] == ["refused"]
    assert len(host.asked) == 1


async def test_a_host_that_is_not_allowed_is_refused_by_name_and_the_error_says_so(net: Net) -> None:
    host, other = await net.host("api.example"), await net.host("other.example", tls=True)
    async with opened(net, allowed(host)) as box:
        result, requests = await run(box, f"import requests\nrequests.get({other.url!r})")
    assert result.error is not None
    assert result.error.kind is ErrorKind.NETWORK
    assert "other.example" in result.error.hint and "api.example" in result.error.hint
    assert [(request.host, request.method, request.decision) for request in requests] == [
        ("other.example", "CONNECT", "refused")
    ]
    assert other.connections == 0
    assert net.lookups == [], "a name that is not allowed was looked up"


@pytest.mark.slow
@pytest.mark.parametrize("client", ["urllib", "requests", "httpx"])
async def test_a_tunnel_that_is_refused_says_why_in_the_clients_own_error(net: Net, client: str) -> None:
    host, other = await net.host("api.example"), await net.host("other.example", tls=True)
    async with opened(net, allowed(host)) as box:
        result, _ = await run(box, f"URL = {other.url!r}\n{CLIENTS[client]}")
    assert result.error is not None
    assert "Refused by the network policy" in result.error.message and "other.example" in result.error.message


@pytest.mark.slow
async def test_a_command_whose_tunnel_is_refused_is_explained(net: Net) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    host = await net.host("api.example")
    async with opened(net, allowed(host)) as box:
        shown = await box.execute(["curl", "-sSi", "https://other.example/"])
        silent = await box.execute(["curl", "-sS", "https://other.example/"])
        fine = await box.execute(["curl", "-sS", "http://other.example/"])
    assert shown.stdout.startswith("HTTP/1.1 403 Refused by the network policy: https://other.example is not allowed.")
    assert silent.error is not None
    assert silent.error.kind is ErrorKind.EXIT
    assert "Refused by the network policy: https://other.example is not allowed." in silent.error.hint
    assert fine.error is None


@pytest.mark.slow
async def test_a_host_that_cannot_be_reached_is_named_in_the_error(net: Net) -> None:
    domain = AllowedDomain("https://gone.example", private=True)
    async with opened(net, domain) as box:
        result, _ = await run(box, "import urllib.request\nurllib.request.urlopen('https://gone.example/')")
    assert result.error is not None
    assert result.error.kind is ErrorKind.NETWORK
    assert "gone.example" in result.error.hint


# Each asks for URL without heeding the variables that name the proxy, and prints what it was told.
BY_NAME = {
    "aiohttp": """
import aiohttp, asyncio
async def ask():
    async with aiohttp.ClientSession() as session, session.get(URL) as answer:
        print(answer.status, await answer.text())
asyncio.run(ask())
""",
    "urllib3": """
import urllib3
answer = urllib3.PoolManager().request("GET", URL)
print(answer.status, answer.data.decode())
""",
    "curl": """
import subprocess
done = subprocess.run(
    ["curl", "-sS", "--noproxy", "*", "-w", "%{http_code}", URL], capture_output=True, text=True, check=True
)
print(done.stdout[-3:], done.stdout[:-3])
""",
}


@pytest.fixture(params=BY_NAME)
def client_by_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "curl" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    return BY_NAME[name]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_clients_that_heed_no_variables_are_told_plainly_what_is_refused(
    net: Net, client_by_name: str, scheme: str
) -> None:
    url = f"{scheme}://other.example"
    async with opened(net, AllowedDomain("https://api.example", ["GET"])) as box:
        result, requests = await run(box, f"URL = '{url}/path?query'\n{client_by_name}")
    assert result.stdout.startswith(f"403 Refused by the network policy: {url} is not allowed. Allowed: "), result
    (request,) = requests
    assert (request.host, request.port) == ("other.example", {"http": 80, "https": 443}[scheme])
    assert (request.method, request.path, request.decision, request.status) == ("GET", "/path", "refused", 403)
    assert net.lookups == []


@pytest.mark.slow
async def test_where_nothing_is_read_a_refused_name_is_told_of_and_named_in_the_error(net: Net) -> None:
    async with opened(net, AllowedDomain("api.example")) as box:
        result, requests = await run(box, f"URL = 'https://other.example/'\n{BY_NAME['aiohttp']}")
    assert result.error is not None
    assert result.error.kind is ErrorKind.NETWORK
    assert "https://other.example is not allowed" in result.error.hint
    assert [(request.host, request.method, request.decision) for request in requests] == [
        ("other.example", "CONNECT", "refused")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("methods", [None, ["GET"]])
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_names_under_a_wildcard_are_reached_without_variables(
    net: Net, client_by_name: str, tls: bool, methods: list[str] | None
) -> None:
    host = await net.host("deep.api.example", tls=tls)
    wildcard = AllowedDomain(host.url.replace("deep.api", "*"), methods, private=True)
    trust = dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), "/workspace/ca.pem")
    async with opened(net, wildcard, variables=trust if not methods else {}) as box:
        await box.write_text("ca.pem", net.authority.pem.decode())
        result, requests = await run(box, f"URL = {host.url!r}\n{client_by_name}")
    assert result.stdout == "200 hello from deep.api.example\n", result
    assert [(request.host, request.port, request.decision) for request in requests] == [
        ("deep.api.example", host.port, "allowed")
    ]


async def test_a_name_leads_nowhere_but_to_the_ports_of_the_policy(net: Net) -> None:
    async with opened(net, AllowedDomain("http://api.example:8080"), AllowedDomain("*.any.example:9090")) as box:
        for port in (25, 9090):  # of an entry without a scheme nobody could say what is spoken on its port
            result, requests = await run(box, f"import socket\nsocket.create_connection(('a.any.example', {port}), 5)")
            assert result.error is not None and result.error.type == "ConnectionRefusedError"
            assert result.error.kind is ErrorKind.NETWORK
            assert "only hosts that the policy allows" in result.error.hint
            assert requests == []
        result, requests = await run(
            box, "import urllib3\nprint(urllib3.PoolManager().request('GET', 'http://other.example:8080/').status)"
        )
        assert result.stdout == "403\n"
        assert [(request.host, request.port) for request in requests] == [("other.example", 8080)]


@pytest.mark.slow
async def test_every_way_of_running_programs_has_names(net: Net) -> None:
    host = await net.host("deep.example")
    wildcard = AllowedDomain(f"http://*.example:{host.port}", private=True)
    get = f"import urllib3\nurllib3.PoolManager().request('GET', {host.url!r}).data.decode()"
    hello = "hello from deep.example"
    async with opened(net, wildcard) as box:
        assert (await box.run(get)).value == hello
        assert [result.value async for result in box.map([get] * 3)] == [hello] * 3
        command = await box.execute([sys.executable, "-c", f"import urllib3\nprint({get.splitlines()[1]})"])
        assert command.stdout == hello + "\n", command
        async with box.session(forkable=True) as session:
            assert (await session.run(get)).value == hello
            async with await session.fork() as copy:
                assert (await copy.run(get)).value == hello
            assert (await session.run(get)).value == hello


@pytest.mark.long  # five seconds; tests/escape asks such questions in every run
async def test_questions_about_names_go_nowhere_and_a_flood_of_them_stops_nobody(net: Net) -> None:
    host = await net.host("deep.example")
    flood = f"""
import random, socket, struct, threading, urllib3
header = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0)
question = b"\\6secret\\7example\\0" + struct.pack("!HH", 1, 1)
def ask():
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.setblocking(False)
    for number in range(5000):
        try:
            asking.sendto(header + question if number % 2 else random.randbytes(number % 1400), ("127.0.0.1", 53))
        except OSError:
            pass
threads = [threading.Thread(target=ask) for _ in range(4)]
[thread.start() for thread in threads]
over_tcp = [socket.create_connection(("127.0.0.1", 53)) for _ in range(20)]
[way.sendall((struct.pack("!H", 33) + header + question) * 50) for way in over_tcp]
[thread.join() for thread in threads]
print(urllib3.PoolManager().request("GET", {host.url!r}).data.decode())
"""
    async with opened(net, AllowedDomain(f"http://*.example:{host.port}", private=True)) as box:
        result, requests = await run(box, flood)
    assert result.stdout == "hello from deep.example\n", result
    assert [request.host for request in requests] == ["deep.example"]
    assert net.lookups == ["deep.example"]


@pytest.mark.slow
async def test_a_program_cannot_answer_in_the_name_servers_place(net: Net) -> None:
    async with opened(net, AllowedDomain("api.example")) as box:
        for kind in ("SOCK_DGRAM", "SOCK_STREAM"):
            for address in ("127.0.0.1", "127.0.0.53", "0.0.0.0"):
                result, _ = await run(
                    box,
                    f"import socket\ns = socket.socket(socket.AF_INET, socket.{kind})\n"
                    f"s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\ns.bind(({address!r}, 53))",
                )
                assert result.error is not None and result.error.type in ("PermissionError", "OSError"), result
        for path in ("/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts"):
            result, _ = await run(box, f"open({path!r}, 'a')")
            assert result.error is not None and result.error.type in ("PermissionError", "OSError"), result


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_there_is_no_other_way_out(net: Net, tls: bool) -> None:
    host = await net.host("api.example", tls=tls)
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with opened(net, allowed(host)) as box:
            for place in (f"('127.0.0.1', {server.getsockname()[1]})", "('192.0.2.1', 80)", "('2001:db8::1', 443)"):
                result, _ = await run(box, f"import socket\nsocket.create_connection({place}, 2)")
                assert result.error is not None and result.error.type in ("ConnectionRefusedError", "OSError"), result
            result, _ = await run(
                box, "import socket\nsorted({entry[4][0] for entry in socket.getaddrinfo('other.example', 80)})"
            )
            assert result.value == ["127.0.0.1"]
            datagram = (
                "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('192.0.2.1', 53))"
            )
            result, _ = await run(box, datagram)
            assert result.error is not None and result.error.kind is ErrorKind.NETWORK
    assert host.connections == 0


async def test_without_domains_nothing_listens_and_no_variable_is_set(net: Net) -> None:
    async with opened(net) as box:
        result = await box.run(
            "import os, socket\n"
            "refused = []\n"
            "for port in (53, 80, 443, 3128):\n"
            "    try: socket.create_connection(('127.0.0.1', port), 1)\n"
            "    except ConnectionRefusedError: refused.append(port)\n"
            "asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "asking.connect(('127.0.0.1', 53))\n"
            "asking.send(b'x')\n"
            "try: asking.recv(1)\n"
            "except ConnectionRefusedError: refused.append('datagrams')\n"
            "try: socket.getaddrinfo('api.example', 80)\n"
            "except socket.gaierror as error: refused.append(error.errno == socket.EAI_NONAME)\n"
            "[refused, [name for name in os.environ if 'proxy' in name.lower()], os.listdir('/etc/actbox'),"
            " open('/etc/resolv.conf').read()]"
        )
        assert box.traits.network == "loopback of its own only"
    assert result.value == [[53, 80, 443, 3128, "datagrams", True], [], [], ""]


async def test_encrypted_connections_without_rules_inside_pass_through_unread(net: Net) -> None:
    host = await net.host("api.example", tls=True)
    pem = net.authority.pem.decode()
    async with opened(net, allowed(host), variables={"SSL_CERT_FILE": "/workspace/ca.pem"}) as box:
        await box.write_text("ca.pem", pem)
        result, requests = await run(box, f"URL = {host.url + '/path'!r}\n{CLIENTS['urllib']}")
        assert result.stdout == "hello from api.example\n", result
        (request,) = requests
        assert (request.method, request.path, request.decision) == ("CONNECT", "", "allowed")
        assert request.received_bytes > 22 and request.sent_bytes > 0
        usage = result.usage
        assert (usage.sent_bytes, usage.received_bytes) == (request.sent_bytes, request.received_bytes)


INSTALLERS = {
    "pip": "[sys.executable, '-m', 'pip', 'install', '--no-cache-dir', '--target', TARGET]",
    "uv": "['uv', 'pip', 'install', '--no-cache', '--python', sys.executable, '--target', TARGET]",
}


@pytest.mark.slow
@pytest.mark.parametrize("installer", INSTALLERS)
async def test_packages_are_installed_from_an_index_that_is_allowed(net: Net, installer: str) -> None:
    if installer == "uv" and not os.access(Path(sys.executable).parent / "uv", os.X_OK):
        pytest.skip("uv is not installed beside this Python")
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_thing.py", "answer = 42\n")
        archive.writestr("tiny_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        archive.writestr(
            "tiny_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_thing-1.0.dist-info/RECORD", "")
    name = "tiny_thing-1.0-py3-none-any.whl"

    def answer(asked: Asked) -> bytes:
        if asked.target == "/simple/tiny-thing/":
            page = f"<!DOCTYPE html><html><body><a href='/files/{name}'>{name}</a></body></html>".encode()
            return response(page, headers="Content-Type: text/html\r\n")
        if asked.target == f"/files/{name}":
            return response(wheel.getvalue())
        return response(status="404 Not Found")

    index = await net.host("index.example", tls=True, answer=answer)
    code = (
        f"import subprocess, sys\nTARGET = '/workspace/target'\n"
        f"done = subprocess.run([*{INSTALLERS[installer]}, '--index-url', '{index.url}/simple', 'tiny-thing'], "
        "capture_output=True, text=True)\nprint(done.stdout, done.stderr)\n"
        "sys.path.insert(0, TARGET)\nimport tiny_thing\ntiny_thing.answer"
    )
    async with opened(net, allowed(index, ["GET", "HEAD"])) as box:
        result, requests = await run(box, code)
    assert result.value == 42, (result.stdout, result.error)
    assert {request.decision for request in requests} == {"allowed"}


@pytest.mark.slow
async def test_node_trusts_the_sandboxs_authority(net: Net) -> None:
    if not os.access("/usr/bin/node", os.X_OK):
        pytest.skip("there is no node in /usr/bin, where guests would see it")
    host = await net.host("api.example", tls=True)
    fetch = f"fetch('{host.url}/').then(answer => answer.text()).then(text => console.log(text))"
    async with opened(net, allowed(host, ["GET"]), limits=Limits(memory_mib=4096)) as box:
        result = await box.execute(["/usr/bin/node", "-e", fetch])
    assert result.stdout == "hello from api.example\n", result


@pytest.mark.slow
async def test_the_hosts_own_loopback_can_be_named(net: Net) -> None:
    host = await net.host("unused.example")
    for place in (f"127.0.0.1:{host.port}", f"localhost:{host.port}"):
        async with opened(net, AllowedDomain(place, private=True)) as box:
            net.names["localhost"] = ["127.0.0.1"]
            for client in ("urllib", "requests", "httpx"):
                result, _ = await run(box, f"URL = 'http://{place}/'\n{CLIENTS[client]}")
                assert result.stdout == "hello from unused.example\n", (place, client, result)


@pytest.mark.slow
async def test_an_authority_that_this_process_was_given_is_trusted_inside_too(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    (net.folder / "own.pem").write_bytes(net.authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(net.folder / "own.pem"))
    host = await net.host("api.example", tls=True)
    async with opened(net, allowed(host)) as box:  # which is passed through
        result, _ = await run(box, f"URL = {host.url!r}\n{CLIENTS['httpx']}")
    assert result.stdout == "hello from api.example\n", result


# Sessions, copies and maps


@pytest.mark.slow
async def test_sessions_and_their_copies_share_the_way_out(net: Net) -> None:
    host = await net.host("api.example")
    get = f"import urllib.request\nurllib.request.urlopen({host.url!r}).read().decode()"
    async with opened(net, allowed(host)) as box, box.session(forkable=True) as session:
        assert (await session.run(get)).value == "hello from api.example"
        async with await session.fork() as copy:
            events = [event async for event in copy.stream(get)]
            assert [event.host for event in events if isinstance(event, NetworkRequest)] == ["api.example"]
        await session.run(
            "import os, threading, time\n"
            "def until_there_is(name):\n    while not os.path.exists(name): time.sleep(0.01)\n"
            f"def ask():\n    until_there_is('go')\n    urllib.request.urlopen({host.url + '/later'!r}).read()\n"
            "threading.Thread(target=ask).start()"
        )
        asked = []
        async for event in session.stream("open('go', 'w').close()\nuntil_there_is('told')"):
            if isinstance(event, NetworkRequest):
                asked.append(event.path)
                await box.write_text("told", "")
        assert asked == ["/later"]


@pytest.mark.slow
async def test_programs_of_a_map_share_what_an_entry_lets_through(net: Net) -> None:
    host = await net.host("api.example")
    get = f"import urllib.request\nurllib.request.urlopen({host.url!r}).status"
    async with opened(net, allowed(host, requests_per_minute=3)) as box:
        results = [result async for result in box.map([get] * 5)]
    assert sorted(result.success for result in results) == [False, False, True, True, True]
    assert len(host.asked) == 3


@pytest.mark.slow
async def test_nothing_is_left_of_a_way_out(net: Net) -> None:
    host = await net.host("api.example")
    slow = await net.host("slow.example", answer=lambda asked: None)
    get = f"import urllib.request\nurllib.request.urlopen({host.url!r}).read()"
    async with opened(net, allowed(host), allowed(slow)) as box:
        await run(box, get)
        async with nothing_left_behind():
            for _ in range(3):
                await run(box, get)
            result = await box.run(f"import urllib.request\nurllib.request.urlopen({slow.url!r})", timeout=0.5)
            assert result.error is not None
            events = box.stream(f"import urllib.request\nprint(1, flush=True)\nurllib.request.urlopen({slow.url!r})")
            async with closing(events):
                await anext(events)


@pytest.mark.slow
def test_a_plain_script_has_it_too() -> None:
    policy = Policy(domains=(AllowedDomain("http://nowhere.invalid:8080"),))
    with actbox.sync.open_sandbox("linux", policy=policy) as box:
        result = box.run("import urllib.request\nurllib.request.urlopen('http://nowhere.invalid:8080/')")
    assert result.error is not None
    assert "502" in result.error.message


# Secrets


async def test_a_secret_is_in_the_request_and_nowhere_else(
    net: Net, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All that a program, a caller and a log reader can get hold of is searched for the value, in its usual forms."""
    seen: list[str] = []

    def answer(asked: Asked) -> bytes:
        (given,) = asked.values("authorization")
        seen.append(given)
        return response(f"you sent {given}".encode(), headers=f"X-Echo: {given}\r\n")

    host = await net.host("api.example", tls=True, answer=answer)
    secret = Secret("github", VALUE, [host.url])
    # The program's own memory, as text and as bytes, its variables and all files that it can read.
    search = f"""
import base64, os, requests, sys
answer = requests.get({host.url!r}, headers={{"Authorization": "Bearer placeholder"}})
print(answer.text, dict(answer.headers))
first, second = {VALUE[:10].encode()!r}, {VALUE[10:].encode()!r}  # never in one piece, or the search would find itself
found = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for region in [line.split() for line in maps]:
        start, end = (int(part, 16) for part in region[0].split("-"))
        if "r" not in region[1]:
            continue
        try:
            memory.seek(start)
            content = memory.read(end - start)
        except (OSError, ValueError, OverflowError):  # the kernel's own pages
            continue
        place = content.find(first)
        while place >= 0:
            found += content[place + len(first) :].startswith(second)
            place = content.find(first, place + 1)
print("in memory:", found)
print("in variables:", [name for name in os.environ if first.decode() in os.environ[name]])
raise ValueError("the end: " + answer.text)
"""
    async with opened(net, allowed(host, ["GET"]), secrets=[secret]) as box:
        events = [event async for event in box.stream(search, timeout=50)]
        session_events = []
        async with box.session() as session:
            session_events = [
                event async for event in session.stream(f"import requests\nrequests.get({host.url!r}).text")
            ]
    assert seen == [f"Bearer {VALUE}"] * 2
    done = events[-1]
    assert isinstance(done, actbox.Completed)
    assert "you sent Bearer [secret github]" in done.result.stdout
    assert "in memory: 0" in done.result.stdout
    assert "in variables: []" in done.result.stdout
    told = f"{events!r} {done.result.to_dict()} {session_events!r} {caplog.text} {secret!r} {box!r} {box.policy!r}"  # type: ignore[attr-defined]
    for form in (
        VALUE,
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(f"Bearer {VALUE}".encode()).decode(),
    ):
        assert form not in told


async def test_a_secret_is_a_file_only_where_that_is_asked_for(net: Net) -> None:
    host = await net.host("api.example")
    look = (
        "import os, stat\n"
        "[sorted(os.listdir('/run/secrets')), [open(f'/run/secrets/{n}').read() for n in os.listdir('/run/secrets')],"
        " [oct(os.stat(f'/run/secrets/{n}').st_mode & 0o777) for n in os.listdir('/run/secrets')]]"
    )
    async with opened(net, secrets=[Secret("database", VALUE, as_file=True)]) as box:
        assert (await box.run(look)).value == [["database"], [VALUE], ["0o400"]]
        changed = await box.run("import os\nos.chmod('/run/secrets/database', 0o777)")
        assert changed.error is not None and changed.error.kind is ErrorKind.POLICY
        assert VALUE not in repr(box.policy)  # type: ignore[attr-defined]
    async with opened(net, allowed(host), secrets=[Secret("github", VALUE, [host.url])]) as box:
        assert (await box.run(look)).value == [[], [], []]


@pytest.mark.slow
async def test_many_sandboxes_ask_at_once(net: Net) -> None:
    host = await net.host("api.example", tls=True)
    get = f"import urllib.request\nurllib.request.urlopen({host.url!r}).read().decode()"
    others = set(threading.enumerate())  # of tests before this one
    async with opened(net, allowed(host, ["GET"])) as box:
        results = [result async for result in box.map([get] * 12, concurrency=6)]
    assert {result.value for result in results} == {"hello from api.example"}, results
    assert len(set(threading.enumerate()) - others) < 20
