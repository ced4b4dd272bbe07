"""`open_sandbox`: from an engine's name to a sandbox, and what each engine says of this machine."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.policy import Policy

from .contract import Sandbox
from .languages import ENGINES_OF
from .traits import EngineCheck

if TYPE_CHECKING:
    from .egress.upstream import Upstream

_log = logging.getLogger("actbox")

ENGINES: tuple[str, ...] = ("linux", "process", "rtfs")
"""Every engine: first those of full CPython, strongest first, in the order in which `open_sandbox("auto")` tries them.

The others, each for a language of its own, are opened by name only.
"""


def check(engine: str) -> EngineCheck:
    """Try an engine on this machine, without running a program. Takes up to a second."""
    if engine == "linux":
        from .engines.linux import check as check_linux

        return check_linux()
    if engine == "process":
        from .engines.process import TRAITS

        return EngineCheck(engine=engine, works=True, traits=TRAITS)
    if engine == "rtfs":
        from .engines.rtfs import TRAITS as RTFS_TRAITS

        return EngineCheck(engine=engine, works=True, traits=RTFS_TRAITS)
    raise InvalidValue(f"there is no engine {engine!r}; there are: auto, {', '.join(ENGINES)}")


def open_sandbox(
    engine: str = "auto",
    *,
    policy: Policy | None = None,
    env: Mapping[str, str] | None = None,
    allow_unisolated: bool = False,
    upstream: Upstream | None = None,
) -> Sandbox:
    """Return a sandbox, which starts with `async with` (or `start()`).

    `engine` is one of `ENGINES`, or `auto`: the strongest that works here and runs full CPython; which and why goes to
    the logger `actbox`, and `traits` says what it does. `env` are environment variables of every run, on top of the
    policy's. `upstream` is how the proxy reaches the policy's domains, where the system's resolver and the authorities
    that it trusts will not do. The `process` engine isolates nothing, and is opened only when `allow_unisolated` is
    true, also by name. The `rtfs` engine runs RTFS, a pure language, in this process; it is never what `auto` takes.

    Raises `SandboxUnavailable` where none works, with the reason, and `Unsupported` where the engine cannot keep the
    policy.
    """
    policy = Policy() if policy is None else policy
    if not isinstance(policy, Policy):
        raise InvalidValue(f"policy must be a Policy(…), not {policy!r}")
    if env:
        policy = dataclasses.replace(policy, variables={**policy.variables, **env})
    if engine not in ("auto", *ENGINES):
        raise InvalidValue(f"there is no engine {engine!r}; there are: auto, {', '.join(ENGINES)}")
    if engine == "rtfs":
        from .engines.rtfs import RtfsSandbox

        return RtfsSandbox(policy)
    if engine == "linux" or (engine == "auto" and (not allow_unisolated or check("linux").works)):
        from .engines.linux import LinuxSandbox

        if engine == "auto":
            _log.info(
                "auto: the linux engine, the strongest of %s that runs full CPython", ", ".join(ENGINES_OF["python"])
            )
        if not (policy.domains or policy.secrets):
            return LinuxSandbox(policy)
        from .engines.linux.network import Network  # what it needs takes long to import

        return LinuxSandbox(policy, Network(policy, upstream))
    if not allow_unisolated:
        raise SandboxUnavailable(
            "the process engine isolates nothing: programs run as you. Say allow_unisolated=True if that is meant"
        )
    from .engines.process import ProcessSandbox

    if engine == "auto":
        _log.warning("auto: the process engine, WITHOUT ANY ISOLATION, since the linux engine does not work here")
    return ProcessSandbox(policy)
