"""Hosts that a program may reach, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from .errors import InvalidValue

_HOST_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_METHOD = re.compile(r"[A-Z][A-Z-]*")


@dataclass(frozen=True, slots=True)
class AllowedDomain:
    """A host that a program may reach, and how.

    `target` is a host name (`api.example.com`, or `*.example.com` for its subdomains), optionally with a scheme and a
    port, which both restrict; without a port only 80 and 443 are meant. `methods` are HTTP methods, `None` for all.
    Normalised here, once: `host` is lower-case IDNA, `methods` upper-case. `str()` gives the normalised target.

    Raises `InvalidValue` for a path, query or user info in the target, and for an empty list of methods.
    """

    target: str
    methods: tuple[str, ...] | None
    host: str
    scheme: Literal["http", "https"] | None
    port: int | None

    def __init__(self, target: str, methods: Iterable[str] | None = None) -> None:
        host, scheme, port = _parse_target(target)
        literal = f"[{host}]" if ":" in host else host
        text = (f"{scheme}://" if scheme else "") + literal + (f":{port}" if port is not None else "")
        object.__setattr__(self, "target", text)
        object.__setattr__(self, "methods", _parse_methods(target, methods))
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "port", port)

    def __str__(self) -> str:
        return self.target

    @property
    def ports(self) -> frozenset[int]:
        """The ports that this entry opens."""
        if self.port is not None:
            return frozenset({self.port})
        return {"http": frozenset({80}), "https": frozenset({443})}.get(self.scheme or "", frozenset({80, 443}))


def _parse_target(target: str) -> tuple[str, Literal["http", "https"] | None, int | None]:
    def wrong(why: str) -> InvalidValue:
        return InvalidValue(f"AllowedDomain({target!r}): {why}")

    if not isinstance(target, str) or not target.strip():
        raise wrong("give a host name such as 'api.example.com'")
    text = target.strip()
    if any(c.isspace() or ord(c) < 32 for c in text) or "\\" in text:
        raise wrong("a host name has no spaces, control characters or backslashes")
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


def _normal_host(name: str, wrong: Any) -> str:
    if ":" in name:  # an IPv6 literal; urlsplit has taken the brackets off
        import ipaddress

        try:
            return str(ipaddress.IPv6Address(name))
        except ValueError:
            raise wrong(f"{name!r} is not an IPv6 address") from None
    wildcard = name.startswith("*.")
    bare = name.removeprefix("*.").rstrip(".")
    if not bare or "*" in bare:
        raise wrong("give a host name; a '*' may stand only as the whole first label ('*.example.com')")
    try:
        ascii_name = bare.lower().encode("idna").decode("ascii") if not bare.isascii() else bare.lower()
    except UnicodeError:
        raise wrong(f"{bare!r} is not a host name") from None
    if len(ascii_name) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in ascii_name.split(".")):
        raise wrong(f"{bare!r} is not a host name")
    return ("*." if wildcard else "") + ascii_name


def _parse_methods(target: str, methods: Iterable[str] | None) -> tuple[str, ...] | None:
    if methods is None:
        return None
    if isinstance(methods, str):
        raise InvalidValue(f"AllowedDomain({target!r}): methods is a list such as ['GET'], not the text {methods!r}")
    names = []
    for method in methods:
        name = method.strip().upper() if isinstance(method, str) else ""
        if not _METHOD.fullmatch(name):
            raise InvalidValue(f"AllowedDomain({target!r}): {method!r} is not an HTTP method")
        if name not in names:
            names.append(name)
    if not names:
        raise InvalidValue(f"AllowedDomain({target!r}): the list of methods is empty; leave it out to allow all")
    return tuple(names)
