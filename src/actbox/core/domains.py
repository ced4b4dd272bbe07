"""Allowed domains: the hosts that a program may reach, by which methods and within which bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Literal

from .errors import InvalidValue
from .labels import PUBLIC, Label, clearance_of, label_of
from .lazy_dataclass import dataclass

_HOST_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a last label of this form makes resolvers read a name as an IPv4 address
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Top-level labels below which no registry sells names: RFC 6761, and appendix G of RFC 6762.
_OWN_LAST_LABELS = frozenset(
    {"test", "example", "invalid", "localhost", "local"} | {"intranet", "internal", "private", "corp", "home", "lan"}
)
# IANA's registry of HTTP methods, without those that the proxy cannot use, and with two other widespread ones.
_METHODS = frozenset(
    [
        "ACL",
        "BASELINE-CONTROL",
        "BIND",
        "CHECKIN",
        "CHECKOUT",
        "COPY",
        "DELETE",
        "GET",
        "HEAD",
        "LABEL",
        "LINK",
        "LOCK",
        "MERGE",
        "MKACTIVITY",
        "MKCALENDAR",
        "MKCOL",
        "MKREDIRECTREF",
        "MKWORKSPACE",
        "MOVE",
        "OPTIONS",
        "ORDERPATCH",
        "PATCH",
        "POST",
        "PROPFIND",
        "PROPPATCH",
        "PURGE",
        "PUT",
        "QUERY",
        "REBIND",
        "REPORT",
        "SEARCH",
        "UNBIND",
        "UNCHECKOUT",
        "UNLINK",
        "UNLOCK",
        "UPDATE",
        "UPDATEREDIRECTREF",
        "VERSION-CONTROL",
    ]
)
_NEVER_PASSED = {
    "CONNECT": "clients use it to reach the proxy's own tunnels, which need no entry",
    "TRACE": "it is refused everywhere, since it echoes what it was sent",
}


@dataclass(frozen=True, slots=True)
class AllowedDomain:
    """A host that a program may reach, with the methods and bounds that apply.

    `target` is a host name (`api.example.com`, or `*.example.com` for its subdomains), optionally with a scheme and a
    port, which restrict it further. Without a port only 80 (http) and 443 (https) are allowed. An IP address allows
    that address. A wildcard must stay below one owner's domain: `*.com` is refused, and so is every other single label
    except those of private networks, such as `*.internal`; suffixes such as `co.uk` are not recognized. `methods` are
    HTTP methods, `None` for all. The fields are normalized: `host` is lower-case IDNA, `methods` are upper-case.
    `str()` returns the normalized target.

    If several entries match a request, only the most specific counts: an exact name before a wildcard, a longer
    wildcard before a shorter one, then an entry with a port before one without, then one with a scheme before one
    without, and of equal ones the first.

    The other fields are bounds:

    * `requests_per_minute`: the requests that may begin within any 60 seconds. An encrypted connection that is passed
      through unread counts as one request, here and below.
    * `request_bytes`, `response_bytes`: the bytes of one request's and one response's body. Framing, such as the sizes
      of chunks, and interim responses (1xx) are free up to 64 KiB, and count beyond.
    * `seconds`: the time of one exchange, from its request's head to the last byte of the response.
    * `private`: whether the name may resolve to an address of a private network, a loopback or a shared (carrier's)
      one. A target that is such an address needs no `private`.

    `label` is the label of what the host answers; its encrypted connections end at the proxy, which otherwise could not
    tell where an answer begins. `cleared` is the highest label with which a program may send anything there, by default
    `Policy.egress_max`.

    No entry reaches link-local, multicast and reserved addresses, or those of cloud metadata services: neither by a
    name that resolves to one, nor by the address itself.

    Raises `InvalidValue` for such an address; for a path, query or user info in the target; for an invalid or too wide
    wildcard or method; for an empty list of methods; and for a bound that is not above zero.
    """

    target: str
    methods: tuple[str, ...] | None
    host: str
    scheme: Literal["http", "https"] | None
    port: int | None
    requests_per_minute: int
    request_bytes: int
    response_bytes: int
    seconds: float
    private: bool
    label: Label = field(repr=False)
    cleared: Label | None = field(repr=False)

    def __init__(
        self,
        target: str,
        methods: Iterable[str] | None = None,
        *,
        requests_per_minute: int = 1000,
        request_bytes: int = 256 * 2**20,
        response_bytes: int = 2 * 2**30,
        seconds: float = 600.0,
        private: bool = False,
        label: Label | str = PUBLIC,
        cleared: Label | str | None = None,
    ) -> None:
        host, scheme, port = _parse_target(target)
        object.__setattr__(self, "target", target_text(scheme, host, port))
        object.__setattr__(self, "methods", _parse_methods(target, methods))
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "port", port)
        for name, count in (
            ("requests_per_minute", requests_per_minute),
            ("request_bytes", request_bytes),
            ("response_bytes", response_bytes),
        ):
            if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
                raise InvalidValue(
                    f"AllowedDomain({target!r}): {name} must be a whole number above zero, not {count!r}"
                )
            object.__setattr__(self, name, count)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            raise InvalidValue(f"AllowedDomain({target!r}): seconds must be a number above zero, not {seconds!r}")
        object.__setattr__(self, "seconds", float(seconds))
        if not isinstance(private, bool):
            raise InvalidValue(f"AllowedDomain({target!r}): private is True or False, not {private!r}")
        object.__setattr__(self, "private", private)
        object.__setattr__(self, "label", label_of(label, f"AllowedDomain({target!r}): label"))
        object.__setattr__(self, "cleared", clearance_of(cleared, f"AllowedDomain({target!r}): cleared"))

    def __str__(self) -> str:
        return self.target

    @property
    def ports(self) -> frozenset[int]:
        """The ports that this entry opens."""
        if self.port is not None:
            return frozenset({self.port})
        return {"http": frozenset({80}), "https": frozenset({443})}.get(self.scheme or "", frozenset({80, 443}))

    def matches(self, scheme: Literal["http", "https"], host: str, port: int) -> bool:
        """Return True if the entry covers this scheme, host and port; `host` is as `host_name` returns it."""
        if self.scheme not in (None, scheme):
            return False
        return port == self._port(scheme) and _covers(self.host, host)

    def overlaps(self, other: AllowedDomain) -> bool:
        """Return True if some scheme, host and port are covered by both entries."""
        return self.shares_host(other) and any(
            self._port(scheme) == other._port(scheme)
            for scheme in ("http", "https")
            if self.scheme in (None, scheme) and other.scheme in (None, scheme)
        )

    def shares_host(self, other: AllowedDomain) -> bool:
        """Return True if some host is covered by both entries, whatever their schemes and ports."""
        return self.host == other.host or _covers(self.host, other.host) or _covers(other.host, self.host)

    def _port(self, scheme: str) -> int:
        return self.port if self.port is not None else _DEFAULT_PORTS[scheme]

    @property
    def specificity(self) -> tuple[bool, int, bool, bool]:
        """A sort key for how narrow the entry is: of several entries that match a request, the greatest decides."""
        wildcard = self.host.startswith("*.")
        return not wildcard, len(self.host), self.port is not None, self.scheme is not None


def target_text(scheme: str | None, host: str, port: int | None) -> str:
    """Return a target in the form that `AllowedDomain` takes, from a scheme, a normalized host and a port."""
    literal = f"[{host}]" if ":" in host else host
    return (f"{scheme}://" if scheme else "") + literal + (f":{port}" if port is not None else "")


def host_name(text: str) -> str:
    """Return the normal form of a host name or IP address; raise `ValueError` for any other text.

    Spellings of an IPv4 address other than four decimal numbers (`127.1`, `0x7f000001`) are refused as well, since
    resolvers would take them for addresses.
    """
    import ipaddress  # most policies have no domains

    if ":" in text:
        return str(ipaddress.IPv6Address(text))
    name = text.removesuffix(".").lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError:
            raise ValueError(f"{text!r} is not a host name") from None
    labels = name.split(".")
    if len(name) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{text!r} is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        return str(ipaddress.IPv4Address(name))
    return name


def is_method(word: str) -> bool:
    """Return True if a word, in any case, is an HTTP method that actbox knows."""
    return word.upper() in _METHODS or word.upper() in _NEVER_PASSED


def is_address(host: str) -> bool:
    """Return True if a host, as `host_name` returns it, is an IP address."""
    return ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _covers(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _parse_target(target: str) -> tuple[str, Literal["http", "https"] | None, int | None]:
    def wrong(why: str) -> InvalidValue:
        return InvalidValue(f"AllowedDomain({target!r}): {why}")

    if not isinstance(target, str) or not target.strip():
        raise wrong("give a host name such as 'api.example.com'")
    text = target.strip()
    if any(c.isspace() or ord(c) < 32 for c in text) or "\\" in text:
        raise wrong("a host name has no spaces, control characters or backslashes")
    if _is_ipv6(text):
        raise wrong(f"an IPv6 address stands in brackets: {f'[{text}]'!r}, with a port {f'[{text}]:8080'!r}")
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text if "://" in text else "//" + text)
        port = parts.port
    except ValueError as error:
        raise wrong(str(error)) from None
    scheme = parts.scheme.lower()
    if scheme not in ("", "http", "https"):
        raise wrong(f"the scheme must be http or https, not {scheme!r}")
    if "@" in parts.netloc:
        raise wrong("user info does not belong in an allow-list; use a Secret")
    if parts.path not in ("", "/") or parts.query or parts.fragment or "?" in text or "#" in text:
        raise wrong("entries are for whole hosts; leave out the path, query and fragment")
    if parts.netloc.endswith(":") or port == 0:
        raise wrong("the port must be a number from 1 to 65535")
    host = _normal_host(parts.hostname or "", wrong)
    return host, ("http" if scheme == "http" else "https") if scheme else None, port


def _normal_host(name: str, wrong: Callable[[str], InvalidValue]) -> str:
    import ipaddress

    from .addresses import reach_of

    wildcard = name.startswith("*.")
    bare = name.removeprefix("*.")
    if not bare.strip(".") or "*" in bare:
        raise wrong("give a host name; a '*' may stand only as the whole first label ('*.example.com')")
    try:
        host = host_name(bare)
    except ipaddress.AddressValueError:
        raise wrong(f"{bare!r} is no address; an IPv4 address is four numbers, such as '127.0.0.1'") from None
    except ValueError as error:
        raise wrong(str(error)) from None
    if is_address(host):
        if wildcard:
            raise wrong("an address has no subdomains")
        if reach_of(host) == "special":
            raise wrong(
                f"no program may reach {host}: link-local, multicast and reserved addresses and those of cloud metadata"
                " services are refused whatever an entry says"
            )
    elif wildcard and "." not in host and host not in _OWN_LAST_LABELS:
        raise wrong(f"'*.{host}' is everybody's; name the domain that is meant, such as '*.example.{host}'")
    return ("*." if wildcard else "") + host


def _is_ipv6(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _parse_methods(target: str, methods: Iterable[str] | None) -> tuple[str, ...] | None:
    if methods is None:
        return None
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise InvalidValue(f"AllowedDomain({target!r}): methods is a list such as ['GET'], not {methods!r}")
    names = []
    for method in methods:
        name = method.strip().upper() if isinstance(method, str) else ""
        if name in _NEVER_PASSED:
            raise InvalidValue(f"AllowedDomain({target!r}): leave out the method {name}: {_NEVER_PASSED[name]}")
        if name not in _METHODS:
            from difflib import get_close_matches  # imported only to explain a misspelling

            near = get_close_matches(name, _METHODS, 1)
            meant = f"; {near[0]} perhaps" if near else "; without a list of methods all are allowed"
            raise InvalidValue(f"AllowedDomain({target!r}): {method!r} is not a method of HTTP{meant}")
        if name not in names:
            names.append(name)
    if not names:
        raise InvalidValue(f"AllowedDomain({target!r}): the list of methods is empty; leave it out to allow all")
    return tuple(names)
