"""A policy's rules for a place: whether it is allowed, with which methods, and with which secret headers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Literal

from actbox.core.counted import counted
from actbox.core.domains import AllowedDomain
from actbox.core.labels import PUBLIC
from actbox.core.secrets import Secret

from .redaction import Spellings
from .refusal_responses import Denied

Scheme = Literal["http", "https"]

DEFAULT_PORTS = {"http": 80, "https": 443}

_MOST_NAMED = 30
_WINDOW_SECONDS = 60.0


class Rules:
    """Decides about the requests of one sandbox, and counts them, also of several event loops at once."""

    def __init__(self, domains: Sequence[AllowedDomain], secrets: Sequence[Secret]) -> None:
        # sorted() is stable: of equally specific entries the first stays first
        self._entries = sorted(domains, key=lambda entry: entry.specificity, reverse=True)
        self._secrets = tuple(secrets)
        # A host may repeat what another host has learnt: because it was asked to fetch from that one, or was told by
        # it. A secret without domains is sent nowhere, and programs know it anyway.
        sent = [secret for secret in secrets if secret.domains]
        self.spellings = Spellings(sent) if sent else None
        """The spellings that no response may contain, from any host whose responses are read."""
        self._begun: dict[AllowedDomain, deque[float]] = {entry: deque() for entry in self._entries}
        self._lock = threading.Lock()

    @property
    def terminated(self) -> list[AllowedDomain]:
        """The entries for which some encrypted connections must be decrypted."""
        return [entry for entry in self._entries if entry.scheme != "http" and self._may_read(entry)]

    @property
    def requests_per_second(self) -> float:
        """The total rate that all entries allow."""
        return sum(entry.requests_per_minute for entry in self._begun) / 60

    def entry(self, scheme: Scheme, host: str, port: int) -> AllowedDomain:
        """Return the entry that decides about a place, or raise `Denied` with a list of what is allowed."""
        for entry in self._entries:
            if entry.matches(scheme, host, port):
                return entry
        raise Denied(
            403, f"Refused by the network policy: {_place(scheme, host, port)} is not allowed. {self._allowed()}"
        )

    def check_method(self, entry: AllowedDomain, method: str, host: str) -> None:
        """Raise `Denied` for a method that the entry does not allow, and for TRACE, which echoes its request."""
        if method == "TRACE":
            raise Denied(403, "Refused by the network policy: TRACE is not allowed anywhere.")
        if entry.methods is not None and method not in entry.methods:
            raise Denied(
                403,
                f"Refused by the network policy: {method} is not allowed for {host}; "
                f"allowed there: {', '.join(entry.methods)}.",
            )

    def count(self, entry: AllowedDomain) -> None:
        """Count a request that begins, or raise `Denied` if too many began within the last minute."""
        with self._lock:
            begun = self._begun[entry]
            now = time.monotonic()
            while begun and begun[0] <= now - _WINDOW_SECONDS:
                begun.popleft()
            if len(begun) < entry.requests_per_minute:
                begun.append(now)
                return
        raise Denied(
            429,
            f"Refused by the network policy: {entry} allows {counted(entry.requests_per_minute, 'request')} a "
            "minute, and as many have been made.",
        )

    def secrets(self, scheme: Scheme, host: str, port: int) -> list[Secret]:
        """Return the secrets that requests to a place carry."""
        return [secret for secret in self._secrets if secret.goes_to(scheme, host, port)]

    def reads(self, entry: AllowedDomain, host: str, port: int) -> bool:
        """Return whether encrypted connections to a place end at the proxy, because it has rules to enforce there."""
        return _has_rules(entry) or bool(self.secrets("https", host, port))

    def _may_read(self, entry: AllowedDomain) -> bool:
        targets = [AllowedDomain(domain) for secret in self._secrets for domain in secret.domains]
        return _has_rules(entry) or any(entry.overlaps(target) for target in targets)

    def _allowed(self) -> str:
        if not self._entries:
            return "Nothing is."
        named = [
            f"{entry} ({', '.join(entry.methods)})" if entry.methods else str(entry)
            for entry in self._entries[:_MOST_NAMED]
        ]
        more = len(self._entries) - len(named)
        return f"Allowed: {', '.join(named)}{f' and {more} more' if more else ''}."


def _has_rules(entry: AllowedDomain) -> bool:
    """Return True if requests have to be read: for their methods, or because answers have a label."""
    return entry.methods is not None or entry.label != PUBLIC


def _place(scheme: Scheme, host: str, port: int) -> str:
    literal = f"[{host}]" if ":" in host else host
    return f"{scheme}://{literal}" + ("" if port == DEFAULT_PORTS[scheme] else f":{port}")
