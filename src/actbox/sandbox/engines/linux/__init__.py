"""The `linux` engine: namespaces, a filter of system calls and limits around a guest forked from a nursery.

`engine.py` is the sandbox, `nursery.py` the host's handle on the process that guests are forked from, `cgroups.py` the
limits that hold for a whole tree.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from actbox.core.errors import ActboxError
from actbox.core.lazy import lazy_attributes
from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

    from .engine import LinuxSandbox

__all__ = ["LinuxSandbox", "check", "open_engine"]


def open_engine(policy: Policy, upstream: Upstream | None) -> LinuxSandbox:
    """Return a sandbox; with a proxy to the policy's domains if it names any."""
    nursery = None
    if sys.platform == "linux" and policy.environment in (HOST, CLEAN):  # another one may have to be built first
        from .interpreter import base_of
        from .nursery import start_nursery

        nursery = start_nursery(base_of(policy))  # which begins while the sandbox's modules are imported
    from .engine import LinuxSandbox

    if not (policy.domains or policy.secrets):
        return LinuxSandbox(policy, nursery=nursery)
    from .network import Network  # its dependencies take long to import

    return LinuxSandbox(policy, Network(policy, upstream), nursery=nursery)


def check() -> EngineCheck:
    """Run an empty program in a sandbox, to see whether the engine works here. Takes some tenths of a second."""
    if sys.platform != "linux":
        return EngineCheck(
            engine="linux",
            works=False,
            reason=f"it needs Linux, and this is {sys.platform}",
            advice="Run actbox in a Linux virtual machine or container.",
        )
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from . import stock
    from .advice import why_not
    from .engine import LinuxSandbox, why_not_born
    from .interpreter import Base

    try:
        stock.release(stock.acquire())  # so that an error of its start is the reported reason
        # In a new thread, where no event loop can be running.
        with ThreadPoolExecutor(1) as thread:
            reason = thread.submit(asyncio.run, why_not_born(Base())).result()
    except ActboxError as error:
        reason = str(error)
    return EngineCheck(
        engine="linux",
        works=not reason,
        reason=reason,
        advice=why_not() if reason else "",
        traits=LinuxSandbox(Policy()).traits,
    )


__getattr__ = lazy_attributes(__name__, {"engine": "LinuxSandbox"})
