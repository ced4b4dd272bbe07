"""`open_sandbox`: from an engine's name to a sandbox, and what each engine says of this machine."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.policy import Policy

from .contract import Sandbox
from .languages import FULL_CPYTHON
from .registry import TABLE, no_such_engine
from .traits import EngineCheck

if TYPE_CHECKING:
    from .egress.upstream import Upstream

_log = logging.getLogger("actbox")
_found_working: set[str] = set()
"""Engines that `auto` has tried in this process: what worked once is not tried again."""

ENGINES: tuple[str, ...] = tuple(TABLE)
"""Every engine: first those of full CPython, strongest first, in the order in which `open_sandbox("auto")` tries them.

The others, of other languages or of less than full CPython, are opened by name only.
"""


def check(engine: str) -> EngineCheck:
    """Try an engine on this machine, without running a program. Takes up to a second."""
    if engine not in TABLE:
        raise no_such_engine(engine)
    return TABLE[engine].check()


def open_sandbox(
    engine: str = "auto",
    *,
    policy: Policy | None = None,
    env: Mapping[str, str] | None = None,
    allow_unisolated: bool = False,
    upstream: Upstream | None = None,
    **options: Any,
) -> Sandbox:
    """Return a sandbox, which starts with `async with` (or `start()`).

    `engine` is one of `ENGINES`, or `auto`: the strongest that works here and runs full CPython; which and why goes to
    the logger `actbox`, and `traits` says what it does. `env` are environment variables of every run, on top of the
    policy's. `upstream` is how the proxy reaches the policy's domains, where the system's resolver and the authorities
    that it trusts will not do. `options` are the named engine's own, such as a container's `image`; `auto` takes none.
    The `process` and `ssh` engines isolate nothing, and are opened only when `allow_unisolated` is true, also by name.

    Raises `SandboxUnavailable` where none works, with the reason, and `Unsupported` where the engine cannot keep the
    policy.
    """
    policy = Policy() if policy is None else policy
    if not isinstance(policy, Policy):
        raise InvalidValue(f"policy must be a Policy(…), not {policy!r}")
    if env:
        policy = dataclasses.replace(policy, variables={**policy.variables, **env})
    if engine not in ("auto", *ENGINES):
        raise no_such_engine(engine, ("auto", *ENGINES))
    if engine == "auto":
        if options:
            raise InvalidValue(f"options such as {min(options)!r} are one engine's own; name the engine beside them")
        engine = _strongest(allow_unisolated)
    elif not (TABLE[engine].isolates or allow_unisolated):
        raise SandboxUnavailable(
            f"the {engine} engine isolates nothing: programs may do what their account may. Say allow_unisolated=True"
            " if that is meant"
        )
    return TABLE[engine].open(policy, upstream, options)


def _strongest(allow_unisolated: bool) -> str:
    """Return the strongest engine of full CPython that works here; where none does, the strongest, which will say why.

    An engine that isolates nothing counts only where that is allowed.
    """
    considered = [name for name in FULL_CPYTHON if TABLE[name].isolates or allow_unisolated]
    not_working = []
    for chosen in considered:
        found = None if chosen in _found_working else TABLE[chosen].check()
        if found is None or found.works:
            break
        not_working.append(f"{chosen}: {found.reason}")
    else:
        return considered[0]
    _found_working.add(chosen)
    why = "; ".join([f"the first of {', '.join(considered)} that works here", *not_working])
    if TABLE[chosen].isolates:
        _log.info("auto: the %s engine, %s", chosen, why)
    else:
        _log.warning("auto: the %s engine, WITHOUT ANY ISOLATION, %s", chosen, why)
    return chosen
