"""A public name leads to public addresses only, whatever it resolves to."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actbox import AllowedDomain
from actbox.core.addresses import reach_of
from actbox.sandbox.egress.refusal_responses import Denied
from actbox.sandbox.egress.upstream import Dialer, Upstream
from tests.conftest import engine_check
from tests.sandbox.egress.conftest import Net


@pytest.mark.parametrize(
    ("reach", "addresses"),
    [
        (
            "public",
            "1.1.1.1 93.184.216.34 172.32.0.1 192.169.0.1 100.128.0.1 126.255.255.255 128.0.0.1 223.255.255.255",
        ),
        ("public", "2606:4700:4700::1111 2a00:1450:4001::8a 64:ff9b::1.1.1.1 ::ffff:8.8.8.8"),
        ("private", "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 127.0.0.1 127.255.0.1"),
        ("private", "100.64.0.1 100.127.255.255 ::1 fc00::1 fd12:3456::1"),
        ("private", "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:7f00:1 64:ff9b::10.0.0.1 64:ff9b::7f00:1"),
        ("special", "0.0.0.0 0.1.2.3 169.254.169.254 169.254.170.2 169.254.0.1 255.255.255.255 240.0.0.1"),
        ("special", "224.0.0.1 239.255.255.255 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 192.88.99.1"),
        ("special", "100.100.100.200 168.63.129.16 fd00:ec2::254 fd20:ce::254"),
        ("special", ":: fe80::1 fe80::1%eth0 fec0::1 ff02::1 2001:db8::1 100::1 3fff::1 4000::1 ::2"),
        ("special", "::ffff:169.254.169.254 64:ff9b::169.254.169.254 64:ff9b::a9fe:a9fe ::ffff:0.0.0.0 ::127.0.0.1"),
        ("special", "2002:7f00:1::1 2002:a9fe:a9fe:: 2002:0808:0808::1 2001:0:7f00:1::1 64:ff9b:1::1"),
        ("special", "localhost 127.1 2130706433 0x7f.0.0.1 nonsense"),
    ],
)
def test_addresses_are_told_apart(reach: str, addresses: str):
    assert {address: reach_of(address) for address in addresses.split()} == dict.fromkeys(addresses.split(), reach)


async def ask(net: Net, *domains: AllowedDomain, url: str = "http://api.example") -> bytes:
    door = await net.proxy(*domains)
    place = url.removeprefix("http://")
    return await door.send(f"GET {url}/ HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode())


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "0.0.0.0"]
)
async def test_a_public_name_that_resolves_inward_is_refused_and_says_not_where(net: Net, address: str):
    net.names["api.example"] = [address]
    answer = await ask(net, AllowedDomain("api.example"))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"api.example resolves to an address of a private or special network" in answer
    assert address.encode() not in answer
    (told,) = await net.all_reported(1)
    assert told.decision == "refused"


async def test_a_tunnel_to_a_name_that_resolves_inward_is_refused(net: Net):
    net.names["api.example"] = ["127.0.0.1"]
    door = await net.proxy(AllowedDomain("api.example"))
    answer = await door.send(b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "0.0.0.0", "::ffff:169.254.169.254"])
async def test_an_entry_for_private_addresses_still_means_no_metadata_service(net: Net, address: str):
    net.names["api.example"] = [address]
    assert (await ask(net, AllowedDomain("api.example", private=True))).startswith(b"HTTP/1.1 403 ")


async def test_a_special_address_that_came_past_the_policy_is_not_connected_to():
    entry = AllowedDomain("127.0.0.1", private=True)
    for address in ("169.254.169.254", "fd00:ec2::254", "fe80::1", "0.0.0.0", "::ffff:169.254.169.254"):
        object.__setattr__(entry, "host", address)
        with pytest.raises(Denied, match="an address that no policy allows"):
            await Dialer(Upstream(), 20).connect(entry, address, 80)


async def test_the_refusal_of_a_private_address_says_what_would_allow_it(net: Net):
    net.names["localhost"] = ["127.0.0.1"]
    answer = await ask(net, AllowedDomain("localhost"), url="http://localhost")
    assert b"an entry with private=True means private ones too" in answer


async def test_the_addresses_that_may_be_used_are_tried_in_turn(net: Net):
    host = await net.host("api.example")
    net.names["api.example"] = ["169.254.169.254", "127.0.0.2", "::1", "127.0.0.1"]  # listens on the last only
    answer = await ask(net, AllowedDomain(f"api.example:{host.port}", private=True), url=host.url)
    assert answer.endswith(b"hello from api.example")


async def test_each_request_connects_to_the_address_that_was_checked_for_it(net: Net):
    """A name server that answers differently the second time is asked only once a request."""
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    request = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode()
    assert (await door.send(request)).endswith(b"hello from api.example")
    assert net.lookups == ["api.example"]
    net.names["api.example"] = ["169.254.169.254"]
    assert (await door.send(request)).startswith(b"HTTP/1.1 403 ")
    assert net.lookups == ["api.example", "api.example"]
    assert len(host.asked) == 1


async def test_an_address_in_the_list_is_named_and_its_neighbours_are_not(net: Net):
    host = await net.host("127.0.0.1")
    entry = AllowedDomain(f"127.0.0.1:{host.port}")
    assert (await ask(net, entry, url=host.url)).endswith(b"hello from 127.0.0.1")
    for other in ("127.0.0.2", "[::ffff:7f00:1]", "[::1]", "localhost"):
        assert (await ask(net, entry, url=f"http://{other}:{host.port}")).startswith(b"HTTP/1.1 403 "), other
    assert net.lookups == []


async def test_a_wildcard_means_names_below_and_not_the_name_itself(net: Net):
    host = await net.host("a.b.api.example")
    entry = AllowedDomain(f"*.api.example:{host.port}", private=True)
    assert (await ask(net, entry, url=host.url)).endswith(b"hello from a.b.api.example")
    assert (await ask(net, entry, url=f"http://A.B.API.example.:{host.port}")).endswith(b"hello from a.b.api.example")
    for other in ("api.example", "xapi.example", "api.example.evil.example"):
        assert (await ask(net, entry, url=f"http://{other}:{host.port}")).startswith(b"HTTP/1.1 403 "), other


ON_THIS_MACHINE = """
import asyncio, fcntl, socket, struct, sys
from actbox import AllowedDomain
from actbox.sandbox.egress.refusal_responses import Denied
from actbox.sandbox.egress.upstream import Dialer, Upstream
from actbox.sandbox.nursery import linux

async def resolve(name, port):
    return ["8.8.4.4"]

async def main():
    listener = socket.create_server(("0.0.0.0", 8080))
    listener.setblocking(False)
    for entry, host in (("a.example", "a.example"), ("8.8.4.4", "8.8.4.4"), ("private", "a.example")):
        entry = AllowedDomain("a.example", private=True) if entry == "private" else AllowedDomain(entry)
        try:
            (await Dialer(Upstream(resolve=resolve), 20).connect(entry, host, 8080)).close()
            listener.accept()[0].close()
            print("connected")
        except Denied as denied:
            print(denied.status, denied.sentence)
            try:
                listener.accept()
            except BlockingIOError:
                print("nothing arrived")

linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNET)
linux.bring_loopback_up()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:  # SIOCSIFADDR: one more address, a public one
    address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("8.8.4.4"))
    fcntl.ioctl(control, 0x8916, address)
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(not engine_check("linux").works, reason="namespaces cannot be had here")
def test_a_name_does_not_stand_for_the_machine_itself_by_its_public_address():
    done = subprocess.run([sys.executable, "-c", ON_THIS_MACHINE], capture_output=True, text=True, timeout=60)
    refused, nothing, by_address, private = done.stdout.splitlines() or [done.stderr, "", "", ""]
    assert refused.startswith("403 ")
    assert "an address of the machine that the sandbox runs on" in refused
    assert nothing == "nothing arrived"
    assert by_address == private == "connected"
