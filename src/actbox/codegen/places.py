"""`Places`: the sandboxes of a coding agent by language, some of which are opened only when they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from actbox.core.domains import AllowedDomain
from actbox.core.errors import ActboxError
from actbox.core.events import NetworkRequest
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import open_sandbox, opened_under
from actbox.sandbox.registry import TABLE

from .effects import SAFE_METHODS
from .toolchains import is_built

_BOUNDS: Final = (
    *("requests_per_minute", "request_bytes", "response_bytes", "seconds", "private", "label", "cleared"),
)
"""The fields of an `AllowedDomain` beside its target and methods."""
_ENGINES: Final = {"javascript": "node", "typescript": "node", "rtfs": "rtfs"}
"""The engines that are opened for other languages than those of the agent's own sandbox."""


class Places:
    """The sandboxes for one task: the agent's own, those that it was given by language, and those it opens itself.

    What is opened here belongs to `stack`. Another engine is opened only if it isolates, and under the same policy.
    """

    def __init__(
        self, box: Sandbox, given: Mapping[str, Sandbox], checks: Sandbox | None, stack: AsyncExitStack
    ) -> None:
        self._box = box
        self._given = given
        self._checks = checks
        self._stack = stack
        self._opened: dict[str, Sandbox] = {}
        self._turn = asyncio.Lock()
        policy = getattr(box, "policy", None)
        self._policy = policy if isinstance(policy, Policy) else Policy()

    async def languages(self, wanted: str = "") -> tuple[str, ...]:
        """Return the languages that can run here; only those at hand if `wanted` is one of them."""
        given = [one for one, box in self._given.items() if one in box.traits.languages or is_built(one, box)]
        at_hand = (*self._box.traits.languages, *given)
        if wanted in at_hand:
            return at_hand
        engines = dict.fromkeys(_ENGINES.values())
        works = [name for name in engines if (await run_blocking(TABLE[name].check)).works]
        return tuple(dict.fromkeys([*at_hand, *(one for one, engine in _ENGINES.items() if engine in works)]))

    async def of(self, language: str) -> Sandbox | None:
        """Return the sandbox for programs in a language, `None` if there is none. It is started."""
        if language in self._given:
            return self._given[language]
        if language in self._box.traits.languages:
            return self._box
        if language == "python":
            return await self._open("auto", Policy.strict())
        if language not in _ENGINES:
            return None
        policy = self._policy
        if language == "rtfs":
            policy = Policy(limits=replace(policy.limits, disk_mib=None))  # there are no files
        try:
            return await self._open(_ENGINES[language], policy)
        except ActboxError:
            return None  # `languages` did not name it, or its policy cannot be kept there

    @property
    def own(self) -> Sandbox:
        """The agent's own sandbox."""
        return self._box

    def cannot_hold_back(self, *, in_session: bool) -> str:
        """Return what candidates can change outside before one is chosen, in words; "" for nothing."""
        policy = self._policy
        requests = "requests to the network" if in_session and _sends(policy) else ""
        files = "files of mounts" if any(mount.mode == "rw" for mount in policy.mounts) else ""
        return " and ".join(filter(None, (requests, files)))

    async def for_checks(self) -> Sandbox:
        """Return the sandbox for tests: one that runs Python and, where that can be chosen, has no network.

        Raises `ActboxError` if there is none.
        """
        if self._checks is not None:
            return self._checks
        if "python" not in self._box.traits.languages:
            return await self._open("auto", Policy.strict())
        if not self._policy.domains:
            return self._box
        return await self._opened_once(
            "checks", lambda: opened_under(replace(self._policy, domains=(), secrets=()), self._box)
        )

    async def holding_back(self, box: Sandbox) -> Sandbox:
        """Return a sandbox for a program that may send nothing yet: `box`, or one like it with fewer methods."""
        policy = getattr(box, "policy", None)
        if not isinstance(policy, Policy) or not _sends(policy):
            return box
        return await self._opened_once(
            f"held back {box.traits.engine}", lambda: opened_under(_only_reading(policy), box)
        )

    async def _open(self, engine: str, policy: Policy) -> Sandbox:
        return await self._opened_once(engine, lambda: open_sandbox(engine, policy=policy))

    async def _opened_once(self, name: str, make: Callable[[], Sandbox]) -> Sandbox:
        async with self._turn:  # candidates come at once
            if name not in self._opened:
                self._opened[name] = await self._stack.enter_async_context(make())
        return self._opened[name]


def allows(box: Sandbox, request: NetworkRequest) -> bool:
    """Return True if the policy of a sandbox allows a request."""
    policy = getattr(box, "policy", None)
    if not isinstance(policy, Policy):
        return False
    host, port = request.host, request.port
    allowed = (one for one in policy.domains if one.methods is None or request.method in one.methods)
    return any(one.matches("http", host, port) or one.matches("https", host, port) for one in allowed)


def _sends(policy: Policy) -> bool:
    """Return True if a policy allows requests that may change something."""
    return any(one.methods is None or not SAFE_METHODS.issuperset(one.methods) for one in policy.domains)


def _only_reading(policy: Policy) -> Policy:
    """Return a policy that allows of each domain only the methods that change nothing."""
    kept = [
        AllowedDomain(
            one.target,
            [method for method in one.methods or sorted(SAFE_METHODS - {"TRACE"}) if method in SAFE_METHODS],
            **{name: getattr(one, name) for name in _BOUNDS},
        )
        for one in policy.domains
        if one.methods is None or not SAFE_METHODS.isdisjoint(one.methods)
    ]
    secrets = [one for one in policy.secrets if all(any(each.overlaps(to) for each in kept) for to in one.places())]
    return replace(policy, domains=tuple(kept), secrets=tuple(secrets))
