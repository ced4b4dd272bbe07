"""`standard_registry`: the specification's capabilities, governed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from actbox.core.packages import HOST, PackagePolicy
from actbox.core.policy import Policy
from actbox.review import Rules
from actbox.tools import Approver

from .approvals import Approvals
from .budgets import Budget
from .execution import OUTPUT_TYPES, STANDARD, Boxes, Execution, InputRoot
from .journal import Journal
from .registry import Registry


class StandardRegistry(Registry):
    """A registry whose capabilities run code. Close it with `close()`, or use it with `async with`."""

    def __init__(self, settings: Execution, **governance: Any) -> None:
        """Use `standard_registry`."""
        super().__init__(**governance)
        self._boxes = Boxes(settings)
        self.register(*(make(settings, self._boxes) for make in STANDARD))

    async def close(self) -> None:
        """Close the sandboxes. The journal and the approvals belong to whoever has opened them."""
        await self._boxes.close()

    async def __aenter__(self) -> StandardRegistry:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def standard_registry(
    *,
    policy: Policy | None = None,
    packages: PackagePolicy | None = None,
    environment: str = HOST,
    javascript_environment: str = "",
    engine: str = "",
    allow_unisolated: bool = False,
    input_roots: Mapping[str | os.PathLike[str], Label | str] | Iterable[str | os.PathLike[str]] = (),
    rules: Rules | None = None,
    output_types: Iterable[str] = OUTPUT_TYPES,
    approvals: Approvals | None = None,
    approver: Approver | None = None,
    journal: Journal | None = None,
    budget: Budget | None = None,
    granted: Iterable[str] = (),
    egress_max: Label | str | None = None,
    on_journal_failure: Literal["stop", "warn"] = "stop",
) -> StandardRegistry:
    """Return a registry with `execute.python`, `execute.javascript` and `execute.rtfs`.

    `policy` is that of all programs, `packages` says which packages they may ask for, and `environment` is that of
    programs that name no `image`. `engine` is the one for Python, by default the first of `linux` and `container` that
    works here. `input_roots` are the directories below which `input_files` may lie, with the labels of what is in them.
    `rules` are those of the review before a Python program runs. The other parameters are those of `Registry`.

    Raises `InvalidValue`, also for an `engine` without isolation, unless `allow_unisolated` is given.
    """
    given = input_roots if isinstance(input_roots, Mapping) else dict.fromkeys(input_roots, "public")
    roots = tuple(InputRoot(_root(path), Label(label)) for path, label in given.items())
    settings = Execution(
        policy=policy or Policy(),
        packages=packages,
        environment=environment,
        javascript_environment=javascript_environment,
        engine=engine,
        allow_unisolated=allow_unisolated,
        input_roots=roots,
        rules=rules,
        output_types=tuple(output_types),
    )
    if journal is not None:
        journal.hide(settings.policy.secrets)
    return StandardRegistry(
        settings,
        approvals=approvals,
        approver=approver,
        journal=journal,
        budget=budget,
        granted=granted,
        egress_max=egress_max,
        on_journal_failure=on_journal_failure,
    )


def _root(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    if not found.is_dir():
        raise InvalidValue(f"input_roots: {path} is no directory")
    return found
