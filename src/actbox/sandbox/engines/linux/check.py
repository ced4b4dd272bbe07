"""Whether the `linux` engine works here: by making a sandbox and seeing its guest start and end."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from actbox.core.errors import ActboxError
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .advice import why_not


def check() -> EngineCheck:
    """Run an empty program in a sandbox. Takes some tenths of a second."""
    if sys.platform != "linux":
        return EngineCheck(
            engine="linux",
            works=False,
            reason=f"it needs Linux, and this is {sys.platform}",
            advice="Run actbox in a Linux virtual machine or container.",
        )
    from . import stock
    from .engine import LinuxSandbox

    sandbox = LinuxSandbox(Policy())

    async def try_it() -> str:
        async with sandbox:
            result = await sandbox.run("")
        return "" if result.success else f"an empty program failed: {result.error}"

    try:
        stock.release(stock.acquire())  # so that what keeps it from starting is the reason, in its own words
        # In a thread of its own, where no event loop can be running already.
        with ThreadPoolExecutor(1) as thread:
            reason = thread.submit(asyncio.run, try_it()).result()
    except ActboxError as error:
        reason = str(error)
    return EngineCheck(
        engine="linux",
        works=not reason,
        reason=reason,
        advice=why_not() if reason else "",
        traits=sandbox.traits,
    )
