"""`Environment` and `PackagePolicy`: the interpreter and packages of programs, and those that they may request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from types import NoneType
from typing import Any, overload

from .environment_names import AUTO as AUTO
from .environment_names import CLEAN as CLEAN
from .environment_names import HOST as HOST
from .errors import InvalidValue
from .lazy_dataclass import dataclass


class TrustLevel(StrEnum):
    """How far a package is trusted, by where it comes from; the most trusted first."""

    PREBAKED = "pre-baked"
    """Part of the environment: it was locked and built before the program came."""
    ALLOW_LISTED = "allow-listed"
    """In `PackageRules.auto_approved`."""
    REQUIRES_APPROVAL = "requires-approval"
    """In `PackageRules.requires_approval`."""
    REGISTRY = "registry"
    """In no list: any package of the index."""
    GIT = "git"
    """A Git repository, or an archive outside the index, named by its address: the index vouches for neither."""
    BLOCKED = "blocked"
    """In `PackageRules.blocked`."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a trust level demands before a package is installed."""

    asks: bool
    """True if an approver is asked."""
    elevated: bool = False
    """True if the approver must hold the elevated role."""
    standing: bool = True
    """True if one answer may cover later requests."""
    refused: bool = False
    """True if nobody can approve it."""


DEMANDS: Mapping[TrustLevel, Demand] = {
    TrustLevel.PREBAKED: Demand(asks=False),
    TrustLevel.ALLOW_LISTED: Demand(asks=False),
    TrustLevel.REQUIRES_APPROVAL: Demand(asks=True),
    TrustLevel.REGISTRY: Demand(asks=True, elevated=True, standing=False),
    TrustLevel.GIT: Demand(asks=True, standing=False),
    TrustLevel.BLOCKED: Demand(asks=False, refused=True),
}
"""What each trust level demands. The first use of an allow-listed package is recorded; it is not asked about."""


PACKAGE_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""A distribution's name (PEP 508), as a regular expression."""
NPM_NAME = rf"(?:@[a-z0-9~-][a-z0-9._~-]*/)?{PACKAGE_NAME}"
"""A name in npm's registry, with its scope or without. Some older packages have capital letters."""


_ENVIRONMENT_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


def normalized_name(name: str) -> str:
    """Return the form in which names of distributions compare (PEP 503): `Foo.Bar_baz` and `foo-bar-baz` are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class PackageRule:
    """One package of a list, by name, and the reason why it is there, which a question to an approver shows.

    Raises `InvalidValue` for a name with a version, an extra or an address: a rule holds for every version.
    """

    name: str
    reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(NPM_NAME, self.name):
            raise InvalidValue(
                f"PackageRule takes the name of a package alone, such as 'pandas' or '@scope/name', not {self.name!a}"
            )
        if not isinstance(self.reason, str):
            raise InvalidValue(f"PackageRule({self.name!r}) takes a reason as text, not {self.reason!r}")


Listed = Iterable[str | PackageRule] | Mapping[str, str]
"""Packages by name, by `PackageRule`, or by name with the reason of each."""


@dataclass(frozen=True, slots=True, init=False)
class PackageRules:
    """The packages of one language that programs may, may on request, or must not have.

    Each list has names or `PackageRule`s; a mapping gives the reason of each name. Raises `InvalidValue` for anything
    else, and for a name that stands in two lists. Names that differ only in case, `-`, `_` and `.` count as one here:
    PyPI takes them for one, and npm admits no new name that differs from another only so.
    """

    auto_approved: tuple[PackageRule, ...]
    requires_approval: tuple[PackageRule, ...]
    blocked: tuple[PackageRule, ...]

    def __init__(self, *, auto_approved: Listed = (), requires_approval: Listed = (), blocked: Listed = ()) -> None:
        given = {"auto_approved": auto_approved, "requires_approval": requires_approval, "blocked": blocked}
        for name, listed in given.items():
            object.__setattr__(self, name, _rules(name, listed))
        seen: dict[str, str] = {}
        for place in ("auto_approved", "requires_approval", "blocked"):
            for rule in getattr(self, place):
                other = seen.setdefault(normalized_name(rule.name), place)
                if other != place:
                    raise InvalidValue(f"PackageRules: {rule.name!r} is in {other} and in {place}; leave it in one")


@dataclass(frozen=True, slots=True)
class Distribution:
    """A package that a program had: its normalized name, its version, and the SHA-256 of the file it came from.

    `sha256` is "" for what was installed on the host by other means: nothing there says which file it was. `trust` is
    how the program came to have it.
    """

    name: str
    version: str
    sha256: str = ""
    trust: TrustLevel = TrustLevel.PREBAKED

    def to_dict(self) -> dict[str, str]:
        """Return the distribution as plain JSON data."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256, "trust": str(self.trust)}


class Distributions(Sequence[Distribution]):
    """The packages that a program had: those that it asked for, and those of its environment, looked up when read."""

    def __init__(
        self, asked: Iterable[Distribution] = (), of_environment: Callable[[], Iterable[Distribution]] = tuple
    ) -> None:
        self.asked = tuple(asked)
        """What the program asked for beyond its environment, with what that brings."""
        self._of_environment = of_environment
        self._all: tuple[Distribution, ...] | None = None

    def _read(self) -> tuple[Distribution, ...]:
        if self._all is None:
            names = {one.name for one in self.asked}
            others = (one for one in self._of_environment() if one.name not in names)
            self._all = tuple(sorted((*others, *self.asked), key=lambda one: (one.name, one.version)))
        return self._all

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, index: int) -> Distribution: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Distribution]: ...

    def __getitem__(self, index: int | slice) -> Distribution | Sequence[Distribution]:
        return self._read()[index]

    def __repr__(self) -> str:
        asked = [f"{one.name}=={one.version}" for one in self.asked]
        return f"<Distributions: {', '.join(asked) or 'none'} beyond the environment; list() has all>"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFacts:
    """A package that a program would get, as its index describes it, for the approver who is asked about it.

    `requirement` is what asks for it: the program's words, or `name==version` for what another package brings.
    `brought_by` are the names from the program's requirement down to the package that brings this one. `size` is that
    of its file in bytes, `released` the time of its upload (ISO 8601). What the index does not say is `None`, or
    `"unknown"`.
    """

    name: str
    version: str
    requirement: str
    trust: TrustLevel
    reason: str = ""
    brought_by: tuple[str, ...] = ()
    sha256: str = ""
    size: int | None = None
    licence: str = "unknown"
    """The licence that the index gives; nobody has compared it with the files of the package."""
    released: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePolicy:
    """Which packages programs may have beyond their environment, and how these are installed.

    `python` and `nodejs` are the rules of each language. `approver` decides about packages that are not approved yet;
    without one they are refused, unless the program's tools have an approver. `index` is the address of the package
    index; default: the one that this machine's uv and pip settings name, else the one that uv takes by itself.
    `npm_registry` is that of the registry of npm; default: the one that npm's settings name, else the public one.
    `install_seconds` limits resolving and installing, which are no part of a program's time, and all that one run of a
    session waits for packages. `offline` uses the package cache alone. `vulnerabilities` is the path of a file or
    directory in the OSV format: packages that it names, in affected versions, are refused. `review_days` refuses named
    environments whose lock nobody has reviewed in so many days. `cache` is the directory of the package cache, to which
    only this user may write; default: `actbox/wheels` in the user's cache directory. With "" nothing is kept beyond
    this process. `source_builds` admits packages that have
    no wheel, and those of Git: one is built from its sources, in a sandbox without a network.
    """

    python: PackageRules = field(default_factory=PackageRules)
    nodejs: PackageRules = field(default_factory=PackageRules)
    approver: Any = None
    index: str | None = None
    npm_registry: str | None = None
    install_seconds: float = 120.0
    offline: bool = False
    vulnerabilities: str | None = None
    review_days: float | None = None
    cache: str | None = None
    source_builds: bool = False

    def __post_init__(self) -> None:
        for name in ("python", "nodejs"):
            if not isinstance(getattr(self, name), PackageRules):
                raise InvalidValue(f"PackagePolicy.{name} must be PackageRules(…), not {getattr(self, name)!r}")
        for rule in (*self.python.auto_approved, *self.python.requires_approval, *self.python.blocked):
            if not re.fullmatch(PACKAGE_NAME, rule.name):
                raise InvalidValue(f"PackagePolicy.python: {rule.name!r} is a name of npm; put it into nodejs")
        for name in ("index", "npm_registry", "vulnerabilities", "cache"):
            if not isinstance(getattr(self, name), (str, NoneType)):
                raise InvalidValue(f"PackagePolicy.{name} must be text or None, not {getattr(self, name)!r}")
        if not isinstance(self.offline, bool):
            raise InvalidValue(f"PackagePolicy.offline must be True or False, not {self.offline!r}")
        for name in ("install_seconds", "review_days"):
            value = getattr(self, name)
            if value is None and name == "review_days":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise InvalidValue(f"PackagePolicy.{name} must be a number above zero, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An interpreter and a set of packages that programs see. `"host"` and `"clean"` name the two that always exist,
    and `"auto"` has one chosen for a program.

    `python` is the interpreter: a version such as `"3.12"`, `"cpython-3.12"`, a path, or `""` for that of this process.
    `packages` are requirements (PEP 508), or npm's for `language="javascript"`. `image` is the OCI image on engines
    that run one. `warm_pool_size` is how many guests of the linux engine wait for runs while a sandbox is open, at
    most 8.
    """

    name: str
    packages: tuple[str, ...] = ()
    python: str = ""
    image: str = ""
    language: str = "python"
    warm_pool_size: int = 1

    def __post_init__(self) -> None:
        check_environment_name(self.name)
        if self.name in (HOST, CLEAN, AUTO):
            raise InvalidValue(f"Environment: {self.name!r} has a meaning of its own; choose another name")
        listed: object = self.packages
        if isinstance(listed, str) or not isinstance(listed, Iterable):
            raise InvalidValue(f"Environment.packages is a list of requirements, not {listed!r}")
        for name in ("python", "image", "language"):
            if not isinstance(getattr(self, name), str):
                raise InvalidValue(f"Environment.{name} must be text, not {getattr(self, name)!r}")
        if isinstance(self.warm_pool_size, bool) or not isinstance(self.warm_pool_size, int) or self.warm_pool_size < 0:
            raise InvalidValue(f"Environment.warm_pool_size is a number of guests, not {self.warm_pool_size!r}")
        object.__setattr__(self, "packages", tuple(self.packages))
        if not all(isinstance(one, str) for one in self.packages):
            raise InvalidValue(f"Environment.packages has requirements as text, not {self.packages!r}")


def check_environment_name(name: object) -> None:
    """Raise `InvalidValue` unless something can be the name of an environment."""
    if not isinstance(name, str) or not re.fullmatch(_ENVIRONMENT_NAME, name):
        raise InvalidValue(
            f"{name!r} cannot be the name of an environment: use letters, digits, '.', '_' and '-', at most 100"
        )


def _rules(name: str, given: object) -> tuple[PackageRule, ...]:
    if isinstance(given, Mapping):
        return tuple(PackageRule(key, reason) for key, reason in given.items())
    if isinstance(given, (str, bytes, PackageRule)) or not isinstance(given, Iterable):
        raise InvalidValue(f"PackageRules.{name} is a list of names such as ['pandas'], not {given!r}")
    return tuple(item if isinstance(item, PackageRule) else PackageRule(item) for item in given)
