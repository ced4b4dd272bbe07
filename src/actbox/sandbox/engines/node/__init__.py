"""The `node` engine: JavaScript and TypeScript in Node, isolated like the `linux` engine.

`binary.py` finds Node, `engine.py` is the sandbox, `guest/` is the code in Node itself, `boot.py` loads it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actbox.core.errors import ActboxError, SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.engines.linux import check as check_linux
from actbox.sandbox.traits import EngineCheck, Traits, check_failed

from .binary import find_node
from .engine import NodeSandbox
from .traits import lacking

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["NodeSandbox", "check", "open_engine"]
_ANOTHER: Final = "open_sandbox('node', node=…) takes another Node; pip install 'actbox[node]' brings one"


def open_engine(policy: Policy, upstream: Upstream | None, *, node: str | Path | None = None) -> NodeSandbox:
    """Return a sandbox, with a proxy to the policy's domains if it names any.

    `node` is the path of the Node to use, by default that of `actbox[node]`, else the first one on `PATH`. Raises
    `SandboxUnavailable` if there is none, or it is too old, and `InvalidValue` for anything but a path.
    """
    found = find_node(node)
    if not (policy.domains or policy.secrets):
        return NodeSandbox(policy, found)
    from actbox.sandbox.engines.linux.network import Network  # its dependencies take long to import

    return NodeSandbox(policy, found, Network(policy, upstream))


def check() -> EngineCheck:
    """Run an empty program in a sandbox, to check the isolation and Node. Takes some tenths of a second."""
    walls = check_linux()
    if not walls.works:
        return EngineCheck(engine="node", works=False, reason=walls.reason, advice=walls.advice)

    try:
        node = find_node()
        sandbox = NodeSandbox(Policy(), node)
    except SandboxUnavailable as error:
        return check_failed("node", error, _ANOTHER)

    async def try_it() -> tuple[str, Traits]:
        async with sandbox:
            result = await sandbox.run("", timeout=20)
        return "" if result.success else f"an empty program failed: {result.error} {result.stderr}", sandbox.traits

    try:
        # In a new thread, where no event loop can be running.
        with ThreadPoolExecutor(1) as thread:
            reason, traits = thread.submit(asyncio.run, try_it()).result()
    except ActboxError as error:
        reason, traits = str(error), sandbox.traits
    said = reason or lacking(node)
    return EngineCheck(engine="node", works=not reason, reason=said, advice=_ANOTHER if said else "", traits=traits)
