"""The certificate authorities of one sandbox: they sign certificates for hosts whose connections end at the proxy.

Their keys are made here, stay in this process's memory, and disappear with the sandbox.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections import OrderedDict
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actbox.core.domains import is_address

_VALID = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(days=1)
_CONTEXTS_KEPT = 256
_ALL_ADDRESSES = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class Authority:
    """Makes a certificate for each host on demand. Valid for 30 days, so no sandbox may live longer.

    `hosts` are those it may sign for, including wildcards such as `*.example.com`; its own certificate says so (RFC
    5280, name constraints), so that a guest's trust in it reaches no further.
    """

    _common_name = "actbox egress"

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = sorted(set(hosts))
        now = datetime.datetime.now(datetime.UTC)
        self._not_before = now - _CLOCK_SKEW
        self._not_after = now + _VALID
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._make_own()
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    @property
    def pem(self) -> bytes:
        """The authority's certificate as PEM, which guests trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def vouches_for(self, host: str) -> bool:
        """Return whether a guest would accept this authority's certificate for the host."""
        return self._is_among_hosts(host)

    def context(self, host: str) -> ssl.SSLContext:
        """Return a TLS server context for the host; HTTP/1.1 is the only protocol offered."""
        context = self._contexts.get(host)
        if context is None:
            context = self._make_context(host)
            self._contexts[host] = context
            if len(self._contexts) > _CONTEXTS_KEPT:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(host)
        return context

    def _make_context(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.set_alpn_protocols(["http/1.1"])
        pem = self._make_leaf(host).public_bytes(serialization.Encoding.PEM) + self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = os.memfd_create("actbox-leaf", os.MFD_CLOEXEC)  # ssl reads keys from files only; this file has no name
        try:
            os.write(file, pem)
            context.load_cert_chain(f"/proc/self/fd/{file}")
        finally:
            os.close(file)
        return context

    def _is_among_hosts(self, host: str) -> bool:
        """Return whether a host is one of `hosts`, or below one; name constraints have no other form."""
        names = [given.removeprefix("*.") for given in self._hosts]
        return host in names or (not is_address(host) and host.endswith(tuple("." + name for name in names)))

    def _constraints(self) -> x509.NameConstraints:
        return x509.NameConstraints([_constraint(host) for host in self._hosts], excluded_subtrees=None)

    def _make_own(self) -> x509.Certificate:
        public = self._key.public_key()
        return (
            self._builder(self._common_name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(self._constraints(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _make_leaf(self, host: str) -> x509.Certificate:
        issuer = self._key.public_key()
        public = self._leaf_key.public_key()
        return (
            self._builder("actbox egress host", public)
            .add_extension(x509.SubjectAlternativeName([_alternative_name(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(self._common_name))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._not_before)
            .not_valid_after(self._not_after)
        )


class Refusals(Authority):
    """Signs for names that no policy allows, so that the proxy can tell a program that they are refused.

    `hosts` are all hosts that the policy allows: its own certificate excludes them, the names below them, and all
    addresses. So a client that trusts it can be told only that a host is refused.
    """

    _common_name = "actbox egress refusals"

    def vouches_for(self, host: str) -> bool:
        """Return whether a guest would accept this authority's certificate for the host."""
        return not is_address(host) and not self._is_among_hosts(host)

    def _constraints(self) -> x509.NameConstraints:
        names = [_constraint(host) for host in self._hosts if not is_address(host)]
        return x509.NameConstraints(None, [*names, *map(x509.IPAddress, _ALL_ADDRESSES)])


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _constraint(host: str) -> x509.GeneralName:
    if is_address(host):
        return x509.IPAddress(ipaddress.ip_network(host))
    return x509.DNSName(host.removeprefix("*."))


def _alternative_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if is_address(host) else x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
