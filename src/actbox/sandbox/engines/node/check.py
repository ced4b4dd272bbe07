"""Whether the `node` engine works here: the walls of the `linux` engine, and a Node that runs behind them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from actbox.core.errors import ActboxError, SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.engines.linux.check import check as check_linux
from actbox.sandbox.not_installed import check_failed
from actbox.sandbox.traits import EngineCheck, Traits

from .binary import find_node

_ANOTHER: Final = "open_sandbox('node', node=…) takes another Node; pip install 'actbox[node]' brings one"


def check() -> EngineCheck:
    """Run an empty program in a sandbox. Takes some tenths of a second."""
    walls = check_linux()
    if not walls.works:
        return EngineCheck(engine="node", works=False, reason=walls.reason, advice=walls.advice)
    from .engine import NodeSandbox

    try:
        sandbox = NodeSandbox(Policy(), find_node())
    except SandboxUnavailable as error:
        return check_failed("node", error, _ANOTHER)

    async def try_it() -> tuple[str, Traits]:
        async with sandbox:
            result = await sandbox.run("", timeout=20)
        return "" if result.success else f"an empty program failed: {result.error} {result.stderr}", sandbox.traits

    try:
        # In a thread of its own, where no event loop can be running already.
        with ThreadPoolExecutor(1) as thread:
            reason, traits = thread.submit(asyncio.run, try_it()).result()
    except ActboxError as error:
        reason, traits = str(error), sandbox.traits
    return EngineCheck(engine="node", works=not reason, reason=reason, advice=_ANOTHER if reason else "", traits=traits)
