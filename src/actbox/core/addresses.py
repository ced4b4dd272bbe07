"""A classification of IP addresses: which of them an allowed host name may resolve to.

The networks are those of IANA's special-purpose registries (RFC 6890 and its updates), written out here because what
`ipaddress` calls private has changed from one release of Python to the next.
"""

from __future__ import annotations

import ipaddress
from typing import Literal

Reach = Literal["public", "private", "special"]
"""How far an address reaches. `private`: allowed only by an entry that says `private`. `special`: never allowed through
a name.
"""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def reach_of(text: str) -> Reach:
    """Return the reach of an IP address given as text; text that is no address is `special`.

    An IPv6 address that embeds an IPv4 one (mapped, compatible, 6to4, NAT64, Teredo) reaches no farther than that one.
    """
    try:
        address: _Address = ipaddress.ip_address(text)
    except ValueError:
        return "special"
    found: list[Reach] = [_own_reach(address)]
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return "special"
        found += [_own_reach(inner) for inner in _embedded(address)]
    return "special" if "special" in found else "private" if "private" in found else "public"


def _own_reach(address: _Address) -> Reach:
    if any(address in network for network in _SPECIAL[address.version]):
        return "special"
    if any(address in network for network in _PRIVATE[address.version]):
        return "private"
    if address.version == 6 and not any(address in network for network in _PUBLIC_V6):
        return "special"
    return "public"


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    number = int(address)
    if address in _MAPPED or address in _NAT64 or (address in _COMPATIBLE and number > 1):  # not :: and ::1
        return [ipaddress.IPv4Address(number & 0xFFFFFFFF)]
    if address in _SIX_TO_FOUR:
        return [ipaddress.IPv4Address(number >> 80 & 0xFFFFFFFF)]
    if address in _TEREDO:
        return [ipaddress.IPv4Address(number >> 64 & 0xFFFFFFFF), ipaddress.IPv4Address(~number & 0xFFFFFFFF)]
    return []


_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_TEREDO = ipaddress.IPv6Network("2001::/32")
_PUBLIC_V6 = (ipaddress.IPv6Network("2000::/3"), _MAPPED, _NAT64)

_PRIVATE: dict[int, tuple[_Network, ...]] = {
    4: tuple(
        map(
            ipaddress.IPv4Network,
            ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10"),
        )
    ),
    6: tuple(map(ipaddress.IPv6Network, ("::1/128", "fc00::/7"))),
}
_SPECIAL: dict[int, tuple[_Network, ...]] = {
    4: tuple(
        map(
            ipaddress.IPv4Network,
            (
                "0.0.0.0/8",  # this network; 0.0.0.0 itself reaches the host
                "169.254.0.0/16",  # link-local, with most clouds' metadata services
                "100.100.100.200/32",  # Alibaba Cloud's metadata
                "168.63.129.16/32",  # Azure's platform services, on a public address
                "192.0.0.0/24",  # protocol assignments, with Oracle's metadata
                "192.0.2.0/24",  # documentation
                "192.88.99.0/24",  # 6to4 relays
                "198.18.0.0/15",  # benchmarks
                "198.51.100.0/24",  # documentation
                "203.0.113.0/24",  # documentation
                "224.0.0.0/4",  # multicast
                "240.0.0.0/4",  # reserved, and broadcast
            ),
        )
    ),
    6: tuple(
        map(
            ipaddress.IPv6Network,
            (
                "::/128",  # unspecified
                "64:ff9b:1::/48",  # NAT64 of a network of its own: any address may be behind it
                "100::/64",  # discard
                "2001::/23",  # protocol assignments, with Teredo
                "2001:db8::/32",  # documentation
                "2002::/16",  # 6to4
                "3fff::/20",  # documentation
                "fd00:ec2::/32",  # Amazon's metadata and name service
                "fd20:ce::254/128",  # Google's metadata
                "fe80::/10",  # link-local
                "fec0::/10",  # site-local, given up
                "ff00::/8",  # multicast
            ),
        )
    ),
}
