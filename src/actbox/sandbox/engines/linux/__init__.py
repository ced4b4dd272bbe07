"""The `linux` engine: namespaces, a filter of system calls and limits around a guest forked from a nursery.

`engine.py` is the sandbox, `nursery.py` the host's handle on the process that guests are forked from, `cgroups.py` the
limits that hold for a whole tree, `check.py` whether all of that is to be had on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.policy import Policy

from .check import check
from .engine import LinuxSandbox

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["LinuxSandbox", "check", "open_engine"]


def open_engine(policy: Policy, upstream: Upstream | None) -> LinuxSandbox:
    """Return a sandbox, with a way out to the policy's domains if it has any."""
    if not (policy.domains or policy.secrets):
        return LinuxSandbox(policy)
    from .network import Network  # what it needs takes long to import

    return LinuxSandbox(policy, Network(policy, upstream))
