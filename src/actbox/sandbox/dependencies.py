"""What a sandbox needs to know about the packages of a program. `actbox.packages` finds and installs them.

This room holds the protocol only: the provider stands above it, and is found by its name. The module imports little,
because the process that sandboxes of the `linux` engine are forked from is not started before it.
"""

from __future__ import annotations

import importlib
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.lazy_dataclass import dataclass
from actbox.core.packages import CLEAN, HOST, Distribution, Distributions

from .host_python import package_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from actbox.core.events import Event
    from actbox.core.policy import Policy
    from actbox.core.program import Program
    from actbox.tools import Approver

    from .traits import Traits

PACKAGES = "/opt/packages"
"""Where programs see the packages that they asked for: `site` to import from, `bin` with scripts, `node_modules`."""
BUILD_LOG = "actbox.environments"
"""The logger that says each step while a named environment is built."""
_PROVIDER = "actbox.packages.provider"
_IMPORT_NAMES = "actbox.packages.import_names"
_SCRIPT_BLOCK = "# /// script"


class NotProvided(Exception):
    """Raised if a program cannot have its packages; `result` is what its run comes to."""

    def __init__(self, error: ErrorInfo, program: Program, engine: str) -> None:
        from actbox.core.result import ExecutionResult

        super().__init__(error.message)
        self.result = ExecutionResult(
            exit_code=1 if error.kind is ErrorKind.SYNTAX else 125,
            error=error,
            sandbox=engine,
            code=program.code,
            language=program.language,
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


class Target(NamedTuple):
    """An interpreter that packages are for, if it is none of this machine's."""

    version: str
    """Its version, as in `3.12`."""
    machine: str = ""
    """The architecture, as in `x86_64`; without one only packages without compiled parts fit."""
    libc: str = ""
    """Its C library: `glibc` or `musl`."""
    libc_minor: int = 0
    """The minor version of the C library, such as 36 for glibc 2.36."""

    def __str__(self) -> str:
        return f"cpython-{self.version} {self.machine or 'any'} {self.libc} {self.libc_minor}"


class Layer(NamedTuple):
    """The files of an environment other than `host` and `clean`, which stay while this process lives."""

    folder: str
    """The directory on the host: `site` to import from, `bin` with scripts, `node_modules`.

    Programs see it at the same path, those of JavaScript at `PACKAGES`. "" if the environment has no files of its own.
    """
    python: str
    """The path of the interpreter, "" for the one underneath this process."""
    version: str
    """The version of the interpreter, as in `3.12`."""
    distributions: tuple[Distribution, ...]
    warm_pool_size: int = 1
    """How many guests wait for runs while a sandbox is open."""
    target: Target | None = None
    """The interpreter, if it is none of this machine's."""
    name: str = ""
    """The environment's name, if it is not the policy's."""


class HeldFolder(Protocol):
    """A directory of the package cache that nothing else removes before `close`."""

    @property
    def path(self) -> Path:
        """The directory."""

    def close(self) -> None:
        """Remove the directory. A second call does nothing. Blocks."""


class Provider(Protocol):
    """The resolver and installer of packages."""

    def package_of(self, module: str, policy: Policy, may_ask: bool, language: str) -> str | ErrorInfo:
        """Return the package that brings a module, or the error of a program that misses it if it is not admitted.

        "" stands for a module that no package brings.
        """

    async def layer(self, policy: Policy, target: Target | None, language: str) -> Layer:
        """Return the files of a policy's named environment for a language; build them first if need be.

        They are for the environment's own interpreter, or for `target` if it is given.

        Raises `SandboxUnavailable` if there is no such environment, or it cannot be built, and `InvalidValue`.
        """

    def choose(self, program: Program, policy: Policy, images: bool) -> str:
        """Return the name of the built environment that has most of what a program asks for, else `HOST`. Blocks.

        Without `images` those with an OCI image are left out. Raises `InvalidValue` for a bad requirement.
        """

    def image(self, policy: Policy) -> str:
        """Return the OCI image of a policy's named environment, "" if it names none. Blocks."""

    async def provide(
        self,
        program: Program,
        policy: Policy,
        engine: str,
        layer: Layer | None,
        approver: Approver | None,
        tell: Callable[[Event], None],
        had: tuple[Distribution, ...],
    ) -> Provided:
        """Return the packages that a program asks for, installed. Raises `NotProvided` and `InvalidValue`.

        `approver` decides about packages where the policy has no approver of its own. `tell` gets the events. `had` are
        packages that a session has beyond its environment.
        """

    def new_session_folder(self) -> HeldFolder:
        """Make an empty directory for the packages of a session, on the file system of the package cache. Blocks."""


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


def asks_for_packages(program: object) -> bool:
    """Return whether a program names packages, in `dependencies` or in a script block of its source (PEP 723)."""
    from actbox.core.program import Program

    if isinstance(program, Program):
        return bool(program.dependencies) or (program.language == "python" and _SCRIPT_BLOCK in program.code)
    return isinstance(program, str) and _SCRIPT_BLOCK in program


async def provide_packages(
    program: Program,
    policy: Policy,
    traits: Traits,
    layer: Layer | None,
    approver: Approver | None,
    tell: Callable[[Event], None],
    had: tuple[Distribution, ...] = (),
) -> Provided:
    """Return the packages of a program; see `Provider`. Raises `NotProvided`."""
    if not asks_for_packages(program):
        return environs(policy, traits, layer)
    return await _provider(policy).provide(program, policy, traits.engine, layer, approver, tell, had)


def new_session_folder(policy: Policy) -> HeldFolder:
    """Make an empty directory for the packages of a session. Blocks."""
    return _provider(policy).new_session_folder()


def environs(policy: Policy, traits: Traits, layer: Layer | None) -> Provided:
    """Return what a program has that asks for nothing."""
    if not traits.dependencies:
        return NOTHING
    found = partial(of_environment, policy, layer, traits.languages[0])
    return Environs(name_of(policy, layer), Distributions((), found))


def name_of(policy: Policy, layer: Layer | None) -> str:
    """Return the name of a policy's environment, for which an engine may have one of its own."""
    return layer.name if layer is not None and layer.name else policy.environment_name


def choose(program: Program, policy: Policy, images: bool) -> str:
    """Return the name of the environment to run a program in; see `Provider`. Blocks. Raises `InvalidValue`."""
    return _provider(policy).choose(program, policy, images)


def package_of(module: str, policy: Policy, may_ask: bool, language: str = "python") -> str | ErrorInfo:
    """Return the package to install for a module that a program misses, or the program's error.

    With `may_ask` somebody can be asked about it. The error is of kind `POLICY` if a rule of the policy refuses the
    package; if no rule has it, the kind is `MISSING_DEPENDENCY`, and only the hint is new.
    """
    return _provider(policy).package_of(module, policy, may_ask, language)


async def layer_of(policy: Policy, target: Target | None = None, language: str = "python") -> Layer | None:
    """Return the files of a policy's environment if it is a named one; see `Provider`. Raises `SandboxUnavailable`."""
    return None if policy.environment in (HOST, CLEAN) else await _provider(policy).layer(policy, target, language)


def image_of(policy: Policy) -> str:
    """Return the OCI image that a policy's environment names, or "". Blocks."""
    return "" if policy.environment in (HOST, CLEAN) else _provider(policy).image(policy)


def of_environment(policy: Policy, layer: Layer | None, language: str = "python") -> tuple[Distribution, ...]:
    """Return the packages of a policy's environment, of which `layer` has the files if it is a named one."""
    if layer is not None or language != "python":
        return layer.distributions if layer is not None else ()
    from .visible_packages import visible_versions

    rules = policy.packages.python if policy.packages is not None else None
    versions = {} if policy.environment == CLEAN else visible_versions(rules)
    return tuple(Distribution(name, version) for name, version in versions.items())


def blocked_imports(policy: Policy, layer: Layer | None, place: str = PACKAGES) -> dict[str, object]:
    """Return the part of a guest's first message that has it refuse copies of packages that the policy blocks.

    Guests see the packages that programs ask for below `place`.
    """
    rules = policy.packages.python.blocked if policy.packages is not None else ()
    if not rules:
        return {}
    modules_of = importlib.import_module(_IMPORT_NAMES).modules_of
    modules = {module: rule.name for rule in rules for module in modules_of(rule.name)}
    folders = [place]
    if layer is not None and layer.folder:
        folders.append(f"{layer.folder}/site")
    is_elsewhere = layer is not None and layer.target is not None
    if policy.environment == HOST and not is_elsewhere:
        folders += package_folders()
    return {"blocked": {"modules": modules, "folders": folders, "has_own": is_elsewhere}}


def with_folders(variables: Mapping[str, str], folders: Sequence[str]) -> dict[str, str]:
    """Return a guest's variables with directories to import from after those that the caller has named."""
    own = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": ":".join([own, *folders] if own else folders)}


def _provider(policy: Policy) -> Provider:
    """Return the provider for the package cache that a policy names."""
    cache = policy.packages.cache if policy.packages is not None else None
    provider: Provider = importlib.import_module(_PROVIDER).provider(cache)
    return provider
