"""What a sandbox needs to know about the packages of a program. `actbox.packages` finds and installs them.

This room holds the protocol only: the provider stands above it, and is found by its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from actbox.core.errors import ErrorInfo
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult

from .traits import Traits

PACKAGES = "/opt/packages"
"""Where programs see the packages that they asked for: `site` to import from, `bin` with scripts."""
_PROVIDER = "actbox.packages.provider"


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
        """How long resolving and installing took, in milliseconds."""

    def close(self) -> None:
        """Let others remove the packages. A second call does nothing."""


class Provider(Protocol):
    """The resolver and installer of packages."""

    async def provide(self, program: Program, policy: Policy, engine: str) -> Provided:
        """Return the packages that a program asks for, installed. Raises `NotProvided` and `InvalidValue`."""


@dataclass(frozen=True, slots=True)
class _Nothing:
    folder: Path | None = None
    warnings: tuple[str, ...] = ()
    install_ms: float = 0.0

    def close(self) -> None: ...


NOTHING: Provided = _Nothing()
"""The packages of a program that asks for none."""


def asks_for_packages(program: Program) -> bool:
    """Return whether a program names packages, in `dependencies` or in a script block of its source (PEP 723)."""
    return bool(program.dependencies) or "# /// script" in program.code


async def provide(program: Program, policy: Policy, traits: Traits) -> Provided:
    """Return the packages of a program. Raises `NotProvided`."""
    if not asks_for_packages(program) or not traits.dependencies:
        return NOTHING
    provider: Provider = importlib.import_module(_PROVIDER).provider()
    return await provider.provide(program, policy, traits.engine)


def with_packages(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a guest's variables with the packages after what the caller has named to import from."""
    own = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": f"{own}:{PACKAGES}/site" if own else f"{PACKAGES}/site"}
