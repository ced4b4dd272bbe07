"""The network access of the engine's sandboxes: a proxy for the policy's domains, and files for its secrets."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.egress import inside
from actbox.sandbox.egress.gate import Gate
from actbox.sandbox.egress.proxy import EgressProxy
from actbox.sandbox.egress.upstream import Upstream
from actbox.sandbox.taint import Taint

from .child import Child
from .descriptors import close_all, each_or_none
from .lanes import LaneGuest

_EVERYBODY_READS, _OWNER_READS = 0o444, 0o400
_SECRETS = "/run/secrets"


class Network:
    """One proxy and the files that guests need for it; shared by all guests of a sandbox and of its siblings."""

    trait = "allowed domains by HTTP and HTTPS, through a proxy; else loopback of its own only"

    def __init__(self, policy: Policy, upstream: Upstream | None) -> None:
        upstream = upstream or Upstream()
        self._proxy = EgressProxy(policy.domains, policy.secrets, upstream) if policy.domains else None
        self.ways = inside.ways(policy.domains) if policy.domains else ()
        self.variables: Mapping[str, str] = {}
        """Environment variables for every guest."""
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
        """The fields to add to the request with which pid 1 takes a run."""
        if self.ways:
            self.request["listen"] = [{"port": way.port, "datagrams": way.datagrams} for way in self.ways]
        self._contents = [content for _, content in contents.values()]
        self._lock = threading.Lock()
        self._users = 0
        self._files: list[int] = []
        weakref.finalize(self, close_all, self._files)  # for a sandbox that is never stopped

    def open_files(self) -> None:
        """Open the contents of the files; they stay open until `close_files` was called as often as this."""
        with self._lock:
            if not self._users:
                self._files += each_or_none(_file_with, self._contents)
            self._users += 1

    def close_files(self) -> None:
        """Close the contents, which may be secrets, unless another sandbox still has them open."""
        with self._lock:
            self._users -= 1
            if not self._users:
                close_all(self._files)

    def leave_to_parent(self) -> None:
        """In a forked child, close the contents, which no sandbox of the child has opened."""
        self._lock = threading.Lock()
        self._users = 0
        close_all(self._files)

    def descriptors(self) -> list[int]:
        """Return new descriptors of the files' contents, which the caller closes.

        Raises `SandboxUnavailable` if no sandbox has the contents open any more.
        """
        with self._lock:
            if not self._users:
                raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
            return each_or_none(os.dup, self._files)

    def open_gate(self, guest: Child | LaneGuest, taint: Taint) -> None:
        """Have the proxy serve a guest, whose workspace has this label, as long as it lives."""
        if self._proxy is not None:
            guest.open_gate(Gate(self._proxy, self.ways, guest.tell_network, taint))

    def keep_sockets(self, child: Child) -> None:
        """Have a guest's listening sockets kept for its lane, in which each run's gate is opened by `open_gate`."""
        if self._proxy is not None:
            child.keep_sockets()


def _file_with(content: bytes) -> int:
    descriptor = os.memfd_create("actbox-file", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
