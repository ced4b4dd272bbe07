"""`Environment` and `PackagePolicy`: the interpreter and packages of programs, and those that they may request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .errors import InvalidValue

HOST = "host"
"""The environment of this process: its interpreter and its packages, read-only."""
CLEAN = "clean"
"""The interpreter and its standard library, without any package."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRules:
    """The packages of one language that programs may, may on request, or must not have.

    Each list has names or `PackageRule`s; a mapping gives the reason of each name. Raises `InvalidValue` for anything
    else, and for a name that stands in two lists. Names that differ only in case, `-`, `_` and `.` count as one here:
    PyPI takes them for one, and npm admits no new name that differs from another only so.
    """

    auto_approved: tuple[PackageRule, ...] = ()
    requires_approval: tuple[PackageRule, ...] = ()
    blocked: tuple[PackageRule, ...] = ()

    def __post_init__(self) -> None:
        for name in ("auto_approved", "requires_approval", "blocked"):
            object.__setattr__(self, name, _rules(name, getattr(self, name)))
        seen: dict[str, str] = {}
        for place in ("auto_approved", "requires_approval", "blocked"):
            for rule in getattr(self, place):
                other = seen.setdefault(normalized_name(rule.name), place)
                if other != place:
                    raise InvalidValue(f"PackageRules: {rule.name!r} is in {other} and in {place}; leave it in one")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePolicy:
    """Which packages programs may have beyond their environment, and how these are installed.

    `python` and `nodejs` are the rules of each language. `approver` decides about packages that are not approved yet;
    without one they are refused. `index` is the address of the package index; default: the one that this machine's uv
    and pip settings name. `install_seconds` limits resolving and installing, which are no part of a program's time.
    `source_builds` admits source distributions, whose build is code that runs in a sandbox. `offline` uses the package
    cache alone. `review_days` refuses environments that nobody has reviewed for so many days. `vulnerabilities` is the
    path of a file or directory in the OSV format, against which packages are checked.
    """

    python: PackageRules = field(default_factory=PackageRules)
    nodejs: PackageRules = field(default_factory=PackageRules)
    approver: Any = None
    index: str | None = None
    install_seconds: float = 120.0
    source_builds: bool = False
    offline: bool = False
    review_days: float | None = None
    vulnerabilities: str | None = None

    def __post_init__(self) -> None:
        for name in ("python", "nodejs"):
            if not isinstance(getattr(self, name), PackageRules):
                raise InvalidValue(f"PackagePolicy.{name} must be PackageRules(…), not {getattr(self, name)!r}")
        for rule in (*self.python.auto_approved, *self.python.requires_approval, *self.python.blocked):
            if not re.fullmatch(PACKAGE_NAME, rule.name):
                raise InvalidValue(f"PackagePolicy.python: {rule.name!r} is a name of npm; put it into nodejs")
        for name in ("install_seconds", "review_days"):
            value = getattr(self, name)
            if value is None and name == "review_days":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise InvalidValue(f"PackagePolicy.{name} must be a number above zero, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An interpreter and a set of packages that programs see. `"host"` and `"clean"` name the two that always exist.

    `python` is the interpreter: a version such as `"3.12"`, `"cpython-3.12"`, a path, or `""` for that of this process.
    `packages` are requirements (PEP 508), or npm's for `language="javascript"`. `image` is the OCI image on engines
    that run one. `warm_pool_size` is how many sandboxes are kept ready.
    """

    name: str
    packages: tuple[str, ...] = ()
    python: str = ""
    image: str = ""
    language: str = "python"
    warm_pool_size: int = 1


def _rules(name: str, given: object) -> tuple[PackageRule, ...]:
    if isinstance(given, Mapping):
        return tuple(PackageRule(key, reason) for key, reason in given.items())
    if isinstance(given, (str, bytes, PackageRule)) or not isinstance(given, Iterable):
        raise InvalidValue(f"PackageRules.{name} is a list of names such as ['pandas'], not {given!r}")
    return tuple(item if isinstance(item, PackageRule) else PackageRule(item) for item in given)
