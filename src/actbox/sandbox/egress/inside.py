"""The parts inside a sandbox by which its programs reach the proxy: ports, names, variables and certificates.

Clients that use proxy variables, which most do, speak to a forward proxy on the sandbox's own loopback. For the others,
all names resolve to the same loopback, where the proxy answers in place of the real host, or says that the host is
refused: exact names of the policy through the sandbox's `/etc/hosts`, all others through its own name server.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actbox.core.domains import AllowedDomain, is_address

from .dns import LOOPBACK

Kind = Literal["proxy", "http", "https", "names"]
"""The kind of server behind a port: a forward proxy, a host that speaks HTTP or HTTPS, or a name server."""

PROXY_PORT = 3128
_NAMES_PORT = 53
_USUAL_KINDS: dict[int, Kind] = {80: "http", 443: "https"}

FOLDER = "/etc/actbox"
"""The directory of the files below in a sandbox."""

_BUNDLE, _AUTHORITY = f"{FOLDER}/ca-bundle.pem", f"{FOLDER}/ca.pem"
_HOSTS, _NAME_SERVER, _NAME_SOURCES = f"{FOLDER}/hosts", f"{FOLDER}/resolv.conf", f"{FOLDER}/nsswitch.conf"
_PROXY = f"http://{LOOPBACK}:{PROXY_PORT}"
# For programs that replace the usual authorities by this file, and for those that add it to them.
_BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")
_AUTHORITY_VARIABLES = ("NODE_EXTRA_CA_CERTS",)
# The variable by which the user of this process names their own authorities.
_OWN_BUNDLE = ssl.get_default_verify_paths().openssl_cafile_env
# Usual places of the trusted authorities on systems that name none.
_SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


@dataclass(frozen=True, slots=True)
class Way:
    """A port on the sandbox's loopback, and its kind of server, by datagrams or connections."""

    port: int
    kind: Kind
    datagrams: bool = False


def ways(domains: Sequence[AllowedDomain]) -> tuple[Way, ...]:
    """Return the ports on which a sandbox with this allow-list listens.

    Each port's kind is that of the first entry with it; 80 and 443 are always included, so that refusals can be
    explained there.
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
    # These names in the policy mean the host's own loopback, not the sandbox's.
    own = [name for name in ("localhost", "127.0.0.1", "::1") if name not in {domain.host for domain in domains}]
    found |= dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(own))
    if _needs_bundle(authority_pem):
        found |= dict.fromkeys(_BUNDLE_VARIABLES, _BUNDLE)
    if authority_pem is not None:
        found |= dict.fromkeys(_AUTHORITY_VARIABLES, _AUTHORITY)
    return found


def files(domains: Sequence[AllowedDomain], authority_pem: bytes | None) -> dict[str, bytes]:
    """Return the files for `FOLDER`, by path: the hosts file, resolver settings, and trusted certificates if needed."""
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
    """Return whether guests must trust other authorities than those that they see of this machine."""
    return authority_pem is not None or _OWN_BUNDLE in os.environ


def _exact_name(domain: AllowedDomain) -> bool:
    return not domain.host.startswith("*.") and not is_address(domain.host)


def _system_authorities() -> bytes:
    """Return the authorities that this process trusts, with which programs check connections that pass through."""
    paths = ssl.get_default_verify_paths()
    for path in (os.environ.get(paths.openssl_cafile_env), paths.openssl_cafile, *_SYSTEM_BUNDLES):
        if path and os.path.isfile(path):
            return b"\n" + Path(path).read_bytes()
    return b""
