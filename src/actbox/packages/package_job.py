"""A job: packages that are to be had together, and how rules judge them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from actbox.core.packages import PackagePolicy, TrustLevel
from actbox.sandbox.dependencies import Target

from .compiling import cache_tag
from .environments import EnvironmentRecord, platform_of
from .index import Index
from .languages import JAVASCRIPT, requirements_of
from .locked_files import Locked
from .npm_lock import npm_platform
from .requirements import Requirement
from .resolving import STAND_INS, CannotResolve
from .rules import Judgement, PackageJudge, ResolvedPackage
from .store import Artifact

_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class PackageJob:
    """Packages that are to be had together."""

    asked: tuple[Requirement, ...]
    installed: Mapping[str, str]
    """The versions of the packages of the environment, and those that a session has added, by name."""
    rules: PackagePolicy
    index: Index
    judge: PackageJudge
    python: str
    """The version of Python that the packages are for, as in `3.12`."""
    language: str = "python"
    base: EnvironmentRecord | None = None
    """The named environment that the packages are added to, if they are npm's."""
    target: Target | None = None
    """The interpreter, if it is none of this machine's."""
    interpreter: str = ""
    """The path of the interpreter, if it is another one of this machine than that underneath this process."""
    built: tuple[Locked, ...] = ()
    """Wheels that were built from sources for it."""
    spent: float = 0.0
    """The seconds of the time for installing that have passed."""

    @property
    def seconds(self) -> float:
        """The seconds that are left for resolving, building and fetching; above zero."""
        return max(self.rules.install_seconds - self.spent, _LEAST_SECONDS)

    @property
    def key(self) -> str:
        """A digest of everything on which the resolution depends, after that of all but what is asked for."""
        asked = sorted(one.normalized + self._resolvable(one).removeprefix(one.name) for one in self.asked)
        return f"{self.conditions}-" + hashlib.sha256("\n".join(asked).encode()).hexdigest()

    @property
    def conditions(self) -> str:
        """A digest of the platform, the environment and the index."""
        installed = sorted(f"{name}=={version}" for name, version in self.installed.items())
        platform = npm_platform() if self.language == JAVASCRIPT else platform_of(self.target, self.python)
        lock = self.base.lock_sha256 if self.base else ""
        parts = [platform + lock, str(self.index), *installed]
        parts += sorted(one.sha256 for one in self.built)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def cache_tag(self) -> str:
        """The tag of modules that are compiled for the job's interpreter, "" if none are."""
        return cache_tag(self.python, self.target)

    @property
    def requirements(self) -> list[str]:
        """The requirements for the resolver: those asked for, and for npm those of the environment too."""
        names = {one.name for one in self.asked}
        kept = requirements_of(self.base.definition.packages, self.language) if self.base else ()
        return [*(str(one) for one in kept if one.name not in names), *map(self._resolvable, self.asked)]

    @property
    def constraints(self) -> list[str]:
        """The versions of the environment that fit what is asked for, and so stay, as requirements."""
        return [
            f"{name}=={version}"
            for name, version in self.installed.items()
            if all(one.accepts(version) and not one.address for one in self.asked if one.normalized == name)
        ]

    def may_ask(self, locked: Sequence[Locked]) -> bool:
        """Return whether an approver may have to be asked about one of these packages."""
        direct = map(self.judge.judge, self.asked)
        listed = (one for one in self.judged([(one, ()) for one in locked], ()) if one.trust is not TrustLevel.REGISTRY)
        return any(one.demand.asks for one in (*direct, *listed))

    def judged(
        self, found: Iterable[tuple[Artifact | Locked, tuple[str, ...]]], asked: Sequence[Requirement] | None = None
    ) -> tuple[Judgement, ...]:
        """Judge packages with the names of what each requires, and what was asked for."""
        packages = [
            ResolvedPackage(name=one.name, version=one.version, hashes=(f"sha256:{one.sha256}",), requires=requires)
            for one, requires in found
        ]
        if self.language == JAVASCRIPT:
            packages = list(self._once_each(packages))
        return self.judge.judge_resolved(self.asked if asked is None else asked, packages)

    def check_hashes(self, locked: Sequence[Locked]) -> None:
        """Raise `CannotResolve` for a file that has none of the hashes that its requirement demands."""
        found = {one.name: one for one in locked}
        for one in self.asked:
            file = found.get(one.normalized)
            # The builder has checked the archive at an address.
            if file and one.hashes and not one.address and file.origin not in one.hashes:
                raise CannotResolve(f"{one} is to have another hash than {file.filename}, which has {file.origin}")

    def _resolvable(self, one: Requirement) -> str:
        """Return a requirement for the resolver; one with an address names the wheel that stands for what was built."""
        built = next((each for each in self.built if one.address and each.name == one.normalized), None)
        if built is None:
            return str(one)
        extras = f"[{','.join(one.extras)}]" if one.extras else ""
        return f"{one.name}{extras} @ file://{STAND_INS}/{built.stand_in}"

    def _once_each(self, packages: Iterable[ResolvedPackage]) -> Iterable[ResolvedPackage]:
        """Yield one package for all versions of each name: rules hold for names.

        It has the environment's version if there is no other than the environment has.
        """
        kept = {(one.name, one.version) for one in self.base.locked} if self.base else set()
        by_name: dict[str, list[ResolvedPackage]] = {}
        for package in packages:
            by_name.setdefault(package.name, []).append(package)
        for name, same in by_name.items():
            requires = tuple(dict.fromkeys(needed for one in same for needed in one.requires))
            new = next((one for one in same if (name, one.version) not in kept), None)
            version = new.version if new else self.installed.get(name, same[0].version)
            yield replace(new or same[0], version=version, requires=requires)
