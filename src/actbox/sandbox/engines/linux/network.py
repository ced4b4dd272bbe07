"""What a policy's domains and secrets come to for the sandboxes of this engine."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from actbox.core.errors import SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.egress import inside
from actbox.sandbox.egress.gate import Gate
from actbox.sandbox.egress.proxy import EgressProxy
from actbox.sandbox.egress.upstream import Upstream

from .child import Child

_EVERYBODY_READS, _OWNER_READS = 0o444, 0o400
_SECRETS = "/run/secrets"

T = TypeVar("T")


class Network:
    """One proxy, and what guests need to reach it; shared by all guests of a sandbox and of its siblings."""

    trait = "allowed domains by HTTP and HTTPS, through a proxy; else loopback of its own only"

    def __init__(self, policy: Policy, upstream: Upstream | None) -> None:
        upstream = upstream or Upstream()
        self._proxy = EgressProxy(policy.domains, policy.secrets, upstream) if policy.domains else None
        self.ways = inside.ways(policy.domains) if policy.domains else ()
        self.variables: Mapping[str, str] = {}
        """Environment variables that every guest has."""
        contents: dict[str, tuple[int, bytes]] = {}
        if self._proxy is not None:
            authority = self._proxy.authority_pem
            self.variables = inside.variables(policy.domains, authority)
            placed = inside.files(policy.domains, authority)
            contents |= {path: (_EVERYBODY_READS, content) for path, content in placed.items()}
        for secret in policy.secrets:
            if secret.as_file:
                contents[f"{_SECRETS}/{secret.name}"] = (_OWNER_READS, secret.value.encode())
        self.request: dict[str, Any] = {"files": [{"path": path, "mode": mode} for path, (mode, _) in contents.items()]}
        """What is asked of pid 1 when it is taken for a run."""
        if self.ways:
            self.request["listen"] = [{"port": way.port, "datagrams": way.datagrams} for way in self.ways]
        self._contents = [content for _, content in contents.values()]
        self._lock = threading.Lock()
        self._users = 0
        self._files: list[int] = []
        weakref.finalize(self, _close, self._files)  # for a sandbox that nobody stops

    def open_files(self) -> None:
        """Have the contents of the files ready, until `close_files` was called as often as this."""
        with self._lock:
            if not self._users:
                self._files += _each_or_none(_file_with, self._contents)
            self._users += 1

    def close_files(self) -> None:
        """Let go of the contents, which may be secrets, unless another sandbox still has them ready."""
        with self._lock:
            self._users -= 1
            if not self._users:
                _close(self._files)

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the contents, for which nobody has asked there."""
        self._lock = threading.Lock()
        self._users = 0
        _close(self._files)

    def descriptors(self) -> list[int]:
        """Return descriptors of the contents of the files that are asked for; they are the caller's.

        Raises `SandboxUnavailable` where no sandbox has them ready any more.
        """
        with self._lock:
            if not self._users:
                raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
            return _each_or_none(os.dup, self._files)

    def open_gate(self, child: Child) -> None:
        """Have the proxy answer to a guest for as long as it lives."""
        if self._proxy is not None:
            child.open_gate(Gate(self._proxy, self.ways, child.tell_network))


def _file_with(content: bytes) -> int:
    descriptor = os.memfd_create("actbox-file", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _each_or_none(make: Callable[[T], int], things: Iterable[T]) -> list[int]:
    """Return a descriptor for each thing; where one cannot be made, close the others and raise what that raised."""
    made: list[int] = []
    try:
        for thing in things:
            made.append(make(thing))
    except BaseException:
        _close(made)
        raise
    return made


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
