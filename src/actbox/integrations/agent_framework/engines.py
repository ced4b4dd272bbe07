"""Which engine a class is for, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox
from actbox.sandbox.registry import TABLE

_ISOLATING = tuple(engine for engine in ENGINES if engine != "process")

# Whatever memory the engine is told to take: the limits of the programs to come are not known yet.
_ROOMY = Policy(limits=Limits(memory_mib=2**30))


def opener(engine: str, guest: Mapping[str, Any]) -> Callable[[Policy], Sandbox]:
    """Return what opens sandboxes of an engine. `guest` is what a class takes for its engine alone.

    Raises `SandboxUnavailable` for an engine that there is not, or whose library is missing, `Unsupported` where it
    takes no such settings, and `InvalidValue` where one makes no sense.
    """
    if engine not in _ISOLATING:
        raise SandboxUnavailable(
            f"this version of actbox has no engine {engine!r}; it has: {', '.join(_ISOLATING)}. Use"
            " LinuxCodeActProvider or LinuxExecuteCodeTool"
        )
    if unknown := [name for name in guest if name not in TABLE[engine].options()]:
        raise Unsupported(f"the engine {engine!r} takes no {', '.join(unknown)}: leave it out")
    # Which says now, and not to the agent's first program, if that cannot be.
    open_sandbox(engine, policy=_ROOMY, **guest)
    return lambda policy: open_sandbox(engine, policy=policy, **guest)
