"""What a sandbox needs to know about the packages of a program. `actbox.packages` finds and installs them.

This room holds the protocol only: the provider stands above it, and is found by its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from actbox.core.errors import ErrorInfo
from actbox.core.events import Event
from actbox.core.packages import CLEAN, HOST, Distribution, Distributions
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Approver

from .traits import Traits
from .visible_packages import package_folders, visible_versions

PACKAGES = "/opt/packages"
"""Where programs see the packages that they asked for: `site` to import from, `bin` with scripts."""
_PROVIDER = "actbox.packages.provider"
_IMPORT_NAMES = "actbox.packages.import_names"
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


class Layer(NamedTuple):
    """The files of a named environment, which nothing removes while this process lives."""

    folder: str
    """The directory on the host, which programs see at the same path: `site` to import from, `bin` with scripts."""
    python: str
    """The path of the interpreter, "" for the one underneath this process."""
    version: str
    """The version of the interpreter, as in `3.12`."""
    distributions: tuple[Distribution, ...]
    warm_pool_size: int = 1
    """How many guests wait for runs while a sandbox is open."""


class Provider(Protocol):
    """The resolver and installer of packages."""

    def package_of(self, module: str, policy: Policy, may_ask: bool) -> str:
        """Return the package that brings a module, "" if the policy does not admit it."""

    async def layer(self, policy: Policy) -> Layer:
        """Return the files of a policy's named environment; build them first if need be.

        Raises `SandboxUnavailable` if there is no such environment, or it cannot be built, and `InvalidValue`.
        """

    async def provide(
        self,
        program: Program,
        policy: Policy,
        engine: str,
        layer: Layer | None,
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


async def provide_packages(
    program: Program,
    policy: Policy,
    traits: Traits,
    layer: Layer | None,
    approver: Approver | None,
    tell: Callable[[Event], None],
) -> Provided:
    """Return the packages of a program; see `Provider`. Raises `NotProvided`."""
    if not asks_for_packages(program):
        return environs(policy, traits, layer)
    return await _provider().provide(program, policy, traits.engine, layer, approver, tell)


def environs(policy: Policy, traits: Traits, layer: Layer | None) -> Provided:
    """Return what a program has that asks for nothing."""
    if not traits.dependencies:
        return NOTHING
    return Environs(policy.environment_name, Distributions((), partial(of_environment, policy, layer)))


def package_of(module: str, policy: Policy, may_ask: bool) -> str:
    """Return the package to install for a module that a program misses, "" if the policy admits none.

    With `may_ask` somebody can be asked about it.
    """
    return _provider().package_of(module, policy, may_ask)


async def layer_of(policy: Policy) -> Layer | None:
    """Return the files of a policy's environment if it is a named one. Raises `SandboxUnavailable`."""
    return None if policy.environment in (HOST, CLEAN) else await _provider().layer(policy)


def of_environment(policy: Policy, layer: Layer | None) -> tuple[Distribution, ...]:
    """Return the packages of a policy's environment, of which `layer` has the files if it is a named one."""
    if layer is not None:
        return layer.distributions
    rules = policy.packages.python if policy.packages is not None else None
    versions = {} if policy.environment == CLEAN else visible_versions(rules)
    return tuple(Distribution(name, version) for name, version in versions.items())


def blocked_imports(policy: Policy, layer: Layer | None) -> dict[str, object]:
    """Return the part of a guest's first message that has it refuse copies of packages that the policy blocks."""
    rules = policy.packages.python.blocked if policy.packages is not None else ()
    if not rules:
        return {}
    modules_of = importlib.import_module(_IMPORT_NAMES).modules_of
    modules = {module: rule.name for rule in rules for module in modules_of(rule.name)}
    own = [f"{layer.folder}/site"] if layer is not None else package_folders() if policy.environment == HOST else []
    return {"blocked": {"modules": modules, "folders": [f"{PACKAGES}/site", *own]}}


def with_folders(variables: Mapping[str, str], folders: Sequence[str]) -> dict[str, str]:
    """Return a guest's variables with directories to import from after those that the caller has named."""
    own = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": ":".join([own, *folders] if own else folders)}


def _provider() -> Provider:
    provider: Provider = importlib.import_module(_PROVIDER).provider()
    return provider
