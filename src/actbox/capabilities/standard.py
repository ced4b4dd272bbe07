"""The standard registry: the specification's capabilities, governed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from actbox.background_loop import call
from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from actbox.core.packages import HOST, PackagePolicy
from actbox.core.policy import Policy
from actbox.core.secrets import Secret
from actbox.review import Rules
from actbox.sandbox.registry import TABLE
from actbox.tools import Approver

from .approvals import Approvals
from .budgets import Account, Budget
from .capability import Capability
from .chat_transforms import redact_message, verify_redaction
from .delegation import CodingHandler, delegate_coding_agent, refined_execute
from .execution import OUTPUT_TYPES, SPEC_RULES, STANDARD, Execution, Sandboxes
from .files import Folder, workspace_files
from .input_roots import InputLabels, InputRoot
from .journal import Journal
from .metering import Metrics
from .network_request import http_request
from .outcome import Outcome
from .prices import Prices
from .registry import Registry


class StandardRegistry(Registry):
    """A registry whose capabilities run code. Close it with `close()`, or use it with `async with`."""

    def __init__(self, settings: Execution, more: Iterable[Capability], **governance: Any) -> None:
        """Use `standard_registry`."""
        self._boxes, self._settings = Sandboxes(settings), settings
        made = [*(make(settings, self._boxes) for make in STANDARD), *more]
        super().__init__(made, sandboxes=self._boxes, **governance)
        self._of_sessions: dict[tuple[str, ...], Account] = {}

    async def invoke(
        self, id: str, input: Mapping[str, Any], *, budget: Budget | Account | None = None, **more: Any
    ) -> Outcome:
        """Use a capability; see `Registry.invoke`. The calls of one session share the budget that its first one had."""
        session = input.get("session") if isinstance(input, Mapping) and self._has_sessions(id) else None
        if not isinstance(session, str) or not session or isinstance(budget, Account):
            return await super().invoke(id, input, budget=budget, **more)
        key = (*(str(more.get(name, "")) for name in ("caller", "user", "run")), session)
        if (shared := self._of_sessions.get(key)) is None:
            shared = self._of_sessions[key] = self._account(budget)
        elif budget is not None:
            left = shared.left.amounts()
            lower = {name: min(amount, left.get(name, amount)) for name, amount in budget.amounts().items()}
            shared = Account(Budget(**lower), shared, on_limit=shared.on_limit)  # type: ignore[arg-type]
        return await super().invoke(id, input, budget=shared, **more)

    def _has_sessions(self, id: str) -> bool:
        return self._settings.sessions and id in ("execute.python", "ccos.execute.python")

    async def close(self) -> None:
        """Close the sessions and sandboxes. The journal and the approvals belong to whoever has opened them."""
        await self._boxes.close()

    def close_sync(self) -> None:
        """Close as `close` does, without an event loop. Blocks."""
        call(self.close())

    async def __aenter__(self) -> StandardRegistry:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def standard_registry(
    *,
    policy: Policy | None = None,
    domains: Iterable[AllowedDomain] = (),
    secrets: Iterable[Secret] = (),
    workspace: Folder | str | os.PathLike[str] | None = None,
    coding_agent: CodingHandler | None = None,
    refining_agent: CodingHandler | None = None,
    packages: PackagePolicy | None = None,
    environment: str = HOST,
    javascript_environment: str = "nodejs-tools",
    engine: str = "",
    allow_unisolated: bool = False,
    input_roots: InputLabels | Iterable[str | os.PathLike[str]] = (),
    rules: Rules | None = SPEC_RULES,
    output_types: Iterable[str] = OUTPUT_TYPES,
    sessions: bool = False,
    declared: str | Iterable[Capability] = (),
    approvals: Approvals | None = None,
    approver: Approver | None = None,
    journal: Journal | None = None,
    budget: Budget | None = None,
    granted: Iterable[str] = (),
    egress_max: Label | str | None = None,
    on_journal_failure: Literal["stop", "warn"] = "stop",
    on_limit: Literal["stop", "ask"] = "stop",
    prices: Prices | None = None,
    metrics: Metrics | None = None,
) -> StandardRegistry:
    """Return a registry with the specification's capabilities, which run code, have it written, send HTTP requests, use
    files and redact messages.

    `policy` is that of all programs, by default `Policy.strict()`; its `egress_max` and that of the registry are each
    the other's default. `packages` says which packages they may ask for, and
    `environment` is that of programs that name no `image`; `javascript_environment` is that of JavaScript. `engine` is
    the one for the runtime `container`, by default the first of `linux` and `container` that works here. `input_roots`
    are the directories below which `input_files` may lie, with the labels of what is in them. `rules` are those of the
    review before a program runs, by default `Rules.preset("spec")`; `None` for no review. JavaScript is read with the
    extra `actbox[review]`. With `sessions` the calls of one caller, for one user, in one run, that name the
    same `session` share its variables, files, labels and budget.

    `domains` and `secrets` are those of `network.http_request` alone, as `policy` has the programs'. `workspace` is the
    directory of `files.read`, `files.write` and `files.list`. `coding_agent` carries out `delegate.coding_agent`, and
    `refining_agent` carries out `code.refined_execute`. Without its setting a capability is there, and its invocations
    say that nothing carries it out.

    `declared` are capabilities, or their RTFS forms, that take the place of how the standard ones are declared: their
    schemas, runtimes, resources and approvals. The other parameters are those of `Registry`.

    Raises `InvalidValue`, also for an `engine` without isolation unless `allow_unisolated` is given, and for a declared
    capability that is no standard one.
    """
    roots = InputRoot.all_of(input_roots)
    policy = policy or Policy.strict()
    if egress_max is None:
        egress_max = policy.egress_max
    elif policy.egress_max is None:
        policy = replace(policy, egress_max=egress_max)
    settings = Execution(
        policy=policy,
        packages=packages,
        environment=environment,
        javascript_environment=javascript_environment,
        engine=engine,
        allow_unisolated=allow_unisolated,
        input_roots=roots,
        rules=rules,
        output_types=_extensions(output_types),
        sessions=sessions,
    )
    if engine and engine in TABLE and not TABLE[engine].isolates and not allow_unisolated:
        raise InvalidValue(TABLE[engine].isolates_nothing())
    if packages is not None and packages.approver is None and (approvals or approver) is not None:
        settings = replace(settings, packages=replace(packages, approver=approvals or approver))
    if journal is not None:
        journal.hide([*settings.policy.secrets, *secrets])
    folder = workspace if isinstance(workspace, Folder) or workspace is None else Folder(workspace)
    more = (
        delegate_coding_agent(coding_agent),
        refined_execute(refining_agent),
        http_request(tuple(domains), tuple(secrets)),
        *workspace_files(folder),
        redact_message(),
        verify_redaction(),
    )
    registry = StandardRegistry(
        settings,
        more,
        approvals=approvals,
        approver=approver,
        journal=journal,
        budget=budget,
        granted=granted,
        egress_max=egress_max,
        on_journal_failure=on_journal_failure,
        on_limit=on_limit,
        prices=prices,
        metrics=metrics,
    )
    for one in Capability.all_from_rtfs(declared) if isinstance(declared, str) else declared:
        registry.declare(one)
    return registry


def _extensions(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidValue(f"output_types is a list such as ['png'], not {given!r}")
    return tuple(one.lower().removeprefix(".") for one in given)
