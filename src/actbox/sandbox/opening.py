"""`open_sandbox` and `check`: open a sandbox by its engine's name, or check an engine on this machine.

Functions import what they need: what an engine starts for a sandbox (`Engine.begin`) gets ready meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported

from .registry import TABLE, no_such_engine

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from actbox.core.policy import Policy
    from actbox.core.program import Program

    from .contract import Sandbox
    from .egress.upstream import Upstream
    from .traits import EngineCheck

_found_working: set[str] = set()
"""Engines that `auto` found working in this process; they are not checked again."""

ENGINES: tuple[str, ...] = tuple(TABLE)
"""The names of all engines, those of full CPython first.

The full CPython engines come strongest first, in the order in which `open_sandbox("auto")` tries them. The others, of
other languages or of less than full CPython, are opened by name only.
"""


def check(engine: str) -> EngineCheck:
    """Check whether an engine works on this machine, without running a program. Takes up to a second."""
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

    `engine` is one of `ENGINES`, or `auto`: the strongest engine that works here and runs full CPython. `auto` logs its
    choice and the reason to the logger `actbox`; the sandbox's `traits` describe the engine. `env` are environment
    variables of every run, added to the policy's. `upstream` is how the proxy reaches the policy's domains; set it if
    the system's resolver or its trusted certificate authorities are not the right ones. `options` are the named
    engine's own, such as a container's `image`; `auto` takes none. The `process` and `ssh` engines isolate nothing:
    they open only with `allow_unisolated=True`, also by name.

    Raises `SandboxUnavailable` with the reason if no engine works, and `Unsupported` if the engine cannot enforce the
    policy.
    """
    begun = begin(engine, policy)
    import dataclasses
    import logging
    from functools import partial

    from actbox.core.packages import AUTO
    from actbox.core.policy import Policy

    from .traits import check_labels

    policy = Policy() if policy is None else policy
    if not isinstance(policy, Policy):
        raise InvalidValue(f"policy must be a Policy(…), not {policy!r}")
    if policy.environment == AUTO:
        raise InvalidValue(
            "Policy(environment='auto') chooses for one program, which actbox.run() is given: name the environment of a"
            " sandbox, such as 'host', 'clean', or one that `actbox environment list` shows"
        )
    if env:
        policy = dataclasses.replace(policy, variables={**policy.variables, **env})
    if engine not in ("auto", *ENGINES):
        raise no_such_engine(engine, ("auto", *ENGINES))
    if engine == "auto":
        if options:
            raise InvalidValue(f"options such as {min(options)!r} belong to one engine; name the engine too")
        engine, why = _strongest(allow_unisolated)
        log = logging.getLogger("actbox")
        if why and TABLE[engine].isolates:
            log.info("auto: the %s engine, %s", engine, why)
        elif why:
            log.warning("auto: the %s engine, WITHOUT ANY ISOLATION, %s", engine, why)
    elif not (TABLE[engine].isolates or allow_unisolated):
        raise SandboxUnavailable(TABLE[engine].isolates_nothing())
    box = TABLE[engine].open(policy, upstream, options)
    del begun  # the sandbox has it
    check_labels(policy, box.traits)
    least, allowed = box.traits.least_memory_mib, policy.limits.memory_mib
    if allowed < least:
        raise Unsupported(
            f"the {engine} engine needs {least} MiB of memory for any program, but Limits.memory_mib allows {allowed}: "
            f"raise it to at least {least}"
        )
    if policy.limits.disk_mib is not None and "disk_mib" not in box.traits.enforced:
        raise Unsupported(
            f"the {engine} engine cannot keep all that programs write, wherever they write it, to Limits.disk_mib here;"
            " the linux engine can"
        )
    if policy.namespaces == "run" and not box.traits.lanes:
        raise Unsupported(
            f"the {engine} engine has no lanes that Policy.namespaces could rule out; leave it at 'lane', or take the"
            " linux engine"
        )
    box._opener = partial(
        _open_again, engine=engine, allow_unisolated=allow_unisolated, upstream=upstream, options=dict(options)
    )
    return box


def begin(engine: str, policy: Any) -> object:
    """Call `Engine.begin`, for `auto` that of the engine that it tries first; do nothing for invalid arguments."""
    if policy is not None:
        from actbox.core.policy import Policy

        if not isinstance(policy, Policy):
            return None
    first = next(iter(TABLE)) if engine == "auto" else engine
    return TABLE[first].begin(policy) if first in TABLE else None


def opened_under(policy: Policy, box: Sandbox) -> Sandbox:
    """Return another sandbox of a sandbox's engine, with the same options, under another policy. It is not started.

    Raises `Unsupported` if the engine cannot enforce the policy, and for a sandbox not from `open_sandbox`.
    """
    if box._opener is None:
        raise Unsupported("only a sandbox that open_sandbox() made can be opened once more under another policy")
    return box._opener(policy)


def _open_again(
    policy: Policy, *, engine: str, allow_unisolated: bool, upstream: Upstream | None, options: Mapping[str, Any]
) -> Sandbox:
    return open_sandbox(engine, policy=policy, allow_unisolated=allow_unisolated, upstream=upstream, **options)


def with_environment(
    policy: Policy, program: Program, engine: str, *, allow_unisolated: bool = False, options: Collection[str] = ()
) -> Policy:
    """Return a policy with an environment that is chosen for a program, if it has `"auto"`. Blocks.

    `options` are the names of the engine's own that it is opened with. On engines that have no environments of this
    machine the choice is `"host"`. Raises `InvalidValue` for a requirement that cannot be read.
    """
    import dataclasses

    from actbox.core.packages import AUTO, HOST

    from .dependencies import asks_for_packages, choose

    if policy.environment != AUTO:
        return policy
    name = HOST
    if asks_for_packages(program):
        found = TABLE.get(_strongest(allow_unisolated)[0] if engine == "auto" else engine)
        if found is not None and found.has_environments and not (found.runs_images and options):
            name = choose(program, policy, not found.runs_images)
    return dataclasses.replace(policy, environment=name)


def _strongest(allow_unisolated: bool) -> tuple[str, str]:
    """Return the strongest full CPython engine that works here, and why; if none works, the strongest and "".

    An engine that isolates nothing counts only with `allow_unisolated`.
    """
    from .languages import FULL_CPYTHON

    considered = [name for name in FULL_CPYTHON if TABLE[name].isolates or allow_unisolated]
    not_working = []
    for chosen in considered:
        found = None if chosen in _found_working else TABLE[chosen].check()
        if found is None or found.works:
            break
        not_working.append(f"{chosen}: {found.reason}")
    else:
        return considered[0], ""
    _found_working.add(chosen)
    return chosen, "; ".join([f"the first of {', '.join(considered)} that works here", *not_working])
