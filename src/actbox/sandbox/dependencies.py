"""What a sandbox needs to know about the packages of a program. `actbox.packages` finds and installs them.

This room holds the protocol only: the provider stands above it, and is found by its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from actbox.core.errors import ErrorInfo
from actbox.core.events import Event
from actbox.core.packages import CLEAN, Distribution, Distributions
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Approver

from .traits import Traits
from .visible_packages import visible_versions

PACKAGES = "/opt/packages"
"""Where programs see the packages that they asked for: `site` to import from, `bin` with scripts."""
_PROVIDER = "actbox.packages.provider"
_SCRIPT_BLOCK = "# /// script"


class NotProvided(Exception):
    """Raised if a program cannot have its packages; `result` is what its run comes to."""

    def __init__(self, error: ErrorInfo, program: Program, engine: str) -> None:
        super().__init__(error.message)
        self.result = ExecutionResult(
            exit_code=125, error=error, sandbox=engine, code=program.code, language=program.language
        )


class Provided(Protocol):
    """The packages of one run, which nothing removes before `close`."""

    @property
    def folder(self) -> Path | None:
        """The directory of the host to mount at `PACKAGES`, or `None` if the environment has all packages."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the result."""

    @property
    def install_ms(self) -> float:
        """How long resolving, approving and installing took, in milliseconds."""

    @property
    def environment(self) -> str:
        """The name of the environment, "" if the engine has no choice."""

    @property
    def distributions(self) -> Distributions:
        """The packages that the program has."""

    def close(self) -> None:
        """Let others remove the packages. A second call does nothing."""


class Provider(Protocol):
    """The resolver and installer of packages."""

    async def provide(
        self,
        program: Program,
        policy: Policy,
        engine: str,
        approver: Approver | None,
        tell: Callable[[Event], None],
    ) -> Provided:
        """Return the packages that a program asks for, installed. Raises `NotProvided` and `InvalidValue`.

        `approver` decides about packages where the policy has no approver of its own. `tell` gets the events.
        """


@dataclass(frozen=True, slots=True)
class Environs:
    """An environment alone, for a program that asks for nothing more."""

    environment: str = ""
    distributions: Distributions = field(default_factory=Distributions)
    folder: Path | None = None
    warnings: tuple[str, ...] = ()
    install_ms: float = 0.0

    def close(self) -> None:
        """Do nothing."""


NOTHING: Provided = Environs()
"""The packages of a program of which nothing is known."""


def asks_for_packages(program: Program | str) -> bool:
    """Return whether a program names packages, in `dependencies` or in a script block of its source (PEP 723)."""
    if isinstance(program, Program):
        return bool(program.dependencies) or _SCRIPT_BLOCK in program.code
    return _SCRIPT_BLOCK in program


async def provide(
    program: Program, policy: Policy, traits: Traits, approver: Approver | None, tell: Callable[[Event], None]
) -> Provided:
    """Return the packages of a program; see `Provider`. Raises `NotProvided`."""
    if not traits.dependencies:
        return NOTHING
    if not asks_for_packages(program):
        return Environs(policy.environment, Distributions((), partial(of_environment, policy)))
    provider: Provider = importlib.import_module(_PROVIDER).provider()
    return await provider.provide(program, policy, traits.engine, approver, tell)


def of_environment(policy: Policy) -> tuple[Distribution, ...]:
    """Return the packages of a policy's environment."""
    rules = policy.packages.python if policy.packages is not None else None
    versions = {} if policy.environment == CLEAN else visible_versions(rules)
    return tuple(Distribution(name, version) for name, version in versions.items())


def with_packages(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a guest's variables with the packages after what the caller has named to import from."""
    own = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": f"{own}:{PACKAGES}/site" if own else f"{PACKAGES}/site"}
