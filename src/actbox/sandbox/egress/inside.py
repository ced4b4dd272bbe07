"""What a sandbox needs inside for its programs to reach the proxy: ports, names, variables and certificates.

Clients that heed proxy variables, which most do, speak to a forward proxy on the sandbox's own loopback. For those that
do not, all names lead to the same loopback, where the proxy answers in the place of the real host, or says that it is
refused: the exact names that the policy allows by the sandbox's `/etc/hosts`, all others by a name server of its own.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actbox.core.domains import AllowedDomain, is_address

from .names import LOOPBACK

Kind = Literal["proxy", "http", "https", "names"]
"""What clients take a port for: a forward proxy, a host that speaks HTTP or HTTPS, or a name server."""

PROXY_PORT = 3128
_NAMES_PORT = 53
_USUAL_KINDS: dict[int, Kind] = {80: "http", 443: "https"}

FOLDER = "/etc/actbox"
"""Where the files below lie in a sandbox."""

_BUNDLE, _AUTHORITY = f"{FOLDER}/ca-bundle.pem", f"{FOLDER}/ca.pem"
_HOSTS, _NAME_SERVER, _NAME_SOURCES = f"{FOLDER}/hosts", f"{FOLDER}/resolv.conf", f"{FOLDER}/nsswitch.conf"
_PROXY = f"http://{LOOPBACK}:{PROXY_PORT}"
# For what replaces the usual authorities by this file, and for what adds it to them.
_BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")
_AUTHORITY_VARIABLES = ("NODE_EXTRA_CA_CERTS",)
# By which whoever runs this process names authorities of their own.
_OWN_BUNDLE = ssl.get_default_verify_paths().openssl_cafile_env
# Where systems that say nothing else keep the authorities that they trust.
_SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


@dataclass(frozen=True, slots=True)
class Way:
    """A port on the sandbox's loopback, and how the proxy is spoken to there: by datagrams or over connections."""

    port: int
    kind: Kind
    datagrams: bool = False


def ways(domains: Sequence[AllowedDomain]) -> tuple[Way, ...]:
    """Return the ports that a sandbox with this allow-list listens on.

    On each the proxy takes clients for what the first entry with that port means; 80 and 443 are there in any case, so
    that what is refused can be told so.
    """
    kinds: dict[int, Kind] = {PROXY_PORT: "proxy", _NAMES_PORT: "names"}
    for domain in domains:
        for port in sorted(domain.ports):
            kind = domain.scheme or _USUAL_KINDS.get(port)
            if kind is not None and not is_address(domain.host):
                kinds.setdefault(port, kind)
    kinds = {**_USUAL_KINDS, **kinds}
    return (*(Way(port, kind) for port, kind in kinds.items()), Way(_NAMES_PORT, "names", datagrams=True))


def variables(domains: Sequence[AllowedDomain], authority_pem: bytes | None) -> Mapping[str, str]:
    """Return the environment variables by which clients find the proxy and trust it."""
    found = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _PROXY)
    # What the policy names is the host's own loopback, and not the sandbox's.
    own = [name for name in ("localhost", "127.0.0.1", "::1") if name not in {domain.host for domain in domains}]
    found |= dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(own))
    if _needs_bundle(authority_pem):
        found |= dict.fromkeys(_BUNDLE_VARIABLES, _BUNDLE)
    if authority_pem is not None:
        found |= dict.fromkeys(_AUTHORITY_VARIABLES, _AUTHORITY)
    return found


def files(domains: Sequence[AllowedDomain], authority_pem: bytes | None) -> dict[str, bytes]:
    """Return what is to lie in `FOLDER`, by path: where names lead, and what to trust where that is not the usual."""
    names = sorted({domain.host for domain in domains if _exact_name(domain)})
    lines = [f"{LOOPBACK} localhost actbox", "::1 localhost", *(f"{LOOPBACK} {name}" for name in names)]
    found = {
        _HOSTS: "\n".join([*lines, ""]).encode(),
        _NAME_SERVER: f"nameserver {LOOPBACK}\n".encode(),
        _NAME_SOURCES: b"passwd: files\ngroup: files\nhosts: files dns\nservices: files\n",
    }
    if _needs_bundle(authority_pem):
        found[_BUNDLE] = (authority_pem or b"") + _system_authorities()
    if authority_pem is not None:
        found[_AUTHORITY] = authority_pem
    return found


def _needs_bundle(authority_pem: bytes | None) -> bool:
    """Whether the authorities that guests see of this machine are not those to trust."""
    return authority_pem is not None or _OWN_BUNDLE in os.environ


def _exact_name(domain: AllowedDomain) -> bool:
    return not domain.host.startswith("*.") and not is_address(domain.host)


def _system_authorities() -> bytes:
    """The authorities that this process trusts: connections that are passed through are the program's own to check."""
    paths = ssl.get_default_verify_paths()
    for path in (os.environ.get(paths.openssl_cafile_env), paths.openssl_cafile, *_SYSTEM_BUNDLES):
        if path and os.path.isfile(path):
            return b"\n" + Path(path).read_bytes()
    return b""
