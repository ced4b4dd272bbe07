"""The `linux` engine: namespaces, a filter of system calls and limits around a guest forked from a nursery.

`engine.py` is the sandbox, `nursery.py` the host's handle on the process that guests are forked from, `cgroups.py` the
limits that hold for a whole tree.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from actbox.core.environment_names import CLEAN, HOST
from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from actbox.core.policy import Policy
    from actbox.sandbox.egress.upstream import Upstream
    from actbox.sandbox.traits import EngineCheck

    from .engine import LinuxSandbox
    from .nursery import Nursery

__all__ = ["LinuxSandbox", "begin", "check", "open_engine"]


def begin(policy: Policy | None) -> Nursery | None:
    """Return the nursery of a policy's sandboxes, which starts while their modules are imported.

    It is `None` where none can start yet: a named environment may have to be built first.
    """
    if sys.platform != "linux" or (policy is not None and policy.environment not in (HOST, CLEAN)):
        return None
    from .interpreter import Base, base_of
    from .nursery import start_nursery

    return start_nursery(Base() if policy is None else base_of(policy))


def open_engine(policy: Policy, upstream: Upstream | None) -> LinuxSandbox:
    """Return a sandbox; with a proxy to the policy's domains if it names any."""
    nursery = begin(policy)
    from .engine import LinuxSandbox

    if not (policy.domains or policy.secrets):
        return LinuxSandbox(policy, nursery=nursery)
    from .network import Network  # its dependencies take long to import

    return LinuxSandbox(policy, Network(policy, upstream), nursery=nursery)


def check() -> EngineCheck:
    """Run an empty program in a sandbox, to see whether the engine works here. Takes some tenths of a second."""
    from actbox.core.errors import ActboxError
    from actbox.core.policy import Policy
    from actbox.sandbox.traits import EngineCheck

    if sys.platform != "linux":
        return EngineCheck(
            engine="linux",
            works=False,
            reason=f"it needs Linux, and this is {sys.platform}",
            advice="Run actbox in a Linux virtual machine or container.",
        )
    import asyncio
    from concurrent.futures import Future, ThreadPoolExecutor

    from . import stock
    from .advice import why_not
    from .engine import LinuxSandbox, why_not_born
    from .interpreter import Base

    try:
        opened = stock.acquire()  # here, so that an error of its start is the reported reason
        try:
            # In a new thread, where no event loop can be running.
            with ThreadPoolExecutor(1) as thread:
                reason = thread.submit(asyncio.run, why_not_born(Base())).result()
            if not reason and opened.birth is None:  # the next sandbox need not try again
                opened.birth = Future()
                opened.birth.set_result("")
        finally:
            stock.release(opened)
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
