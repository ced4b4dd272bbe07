"""The `node` engine: JavaScript and TypeScript in Node, behind the walls of the `linux` engine.

`binary.py` finds Node, `engine.py` is the sandbox, `guest/` what runs in Node itself, `boot.py` how it gets there,
`check.py` whether all of that is to be had on this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actbox.core.policy import Policy

from .binary import find_node
from .check import check
from .engine import NodeSandbox

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["NodeSandbox", "check", "open_engine"]


def open_engine(policy: Policy, upstream: Upstream | None, *, node: str | Path | None = None) -> NodeSandbox:
    """Return a sandbox, with a way out to the policy's domains if it has any.

    `node` is the path of the Node to use, by default that of `actbox[node]`, else the first one on `PATH`. Raises
    `SandboxUnavailable` where there is none, or one that is too old, and `InvalidValue` for what is no path.
    """
    found = find_node(node)
    if not (policy.domains or policy.secrets):
        return NodeSandbox(policy, found)
    from actbox.sandbox.engines.linux.network import Network  # what it needs takes long to import

    return NodeSandbox(policy, found, Network(policy, upstream))
