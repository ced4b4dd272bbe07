"""Judging packages by an environment and a policy's rules: what is asked for, and what that brings with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from actbox.core.errors import InvalidValue
from actbox.core.packages import DEMANDS, Demand, PackageRules, TrustLevel, normalized_name

from .addresses import is_fixed, names_in_address
from .import_names import DISTRIBUTIONS
from .requirements import Requirement
from .similar_names import SimilarNames

POPULAR: Final[Mapping[str, tuple[str, ...]]] = {
    "python": (
        *("aiohttp", "anthropic", "boto3", "click", "cryptography", "django", "fastapi", "flask", "httpx", "jinja2"),
        *(
            "langchain",
            "lxml",
            "matplotlib",
            "networkx",
            "numpy",
            "openai",
            "openpyxl",
            "packaging",
            "pandas",
            "plotly",
        ),
        *("polars", "psutil", "pyarrow", "pydantic", "pytest", "requests", "rich", "scipy", "seaborn", "selenium"),
        *("setuptools", "six", "sqlalchemy", "statsmodels", "sympy", "tensorflow", "torch", "tqdm", "transformers"),
        *("urllib3", "virtualenv", "xlrd", "xlsxwriter", "yfinance", *DISTRIBUTIONS.values()),
    ),
    "javascript": (
        *("axios", "chalk", "cheerio", "commander", "cross-env", "csv-parse", "d3", "date-fns", "dayjs", "debug"),
        *("dotenv", "esbuild", "eslint", "express", "jsdom", "lodash", "mathjs", "moment", "mongoose", "next"),
        *("papaparse", "prettier", "puppeteer", "react", "react-dom", "rxjs", "semver", "typescript", "underscore"),
        *("uuid", "vue", "webpack", "ws", "xlsx", "yaml", "zod"),
    ),
}
"""Packages in wide use, whose names others imitate, by language."""

_BY_IMPORT: Final = {normalized_name(name): known for name, known in DISTRIBUTIONS.items() if "." not in name}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPackage:
    """One package of a lock or of a resolver's answer, as it would be installed.

    `requires` are the names of the packages that it needs. `hashes` are `algorithm:hex`, one for each archive.
    `address` is where it comes from, if not from the index.
    """

    name: str
    version: str = ""
    address: str = ""
    hashes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """How far a package is trusted, and why.

    `requirement` is what was asked for, or `name==version` of what that brings. `reason` is that of the rule that
    decided. `path` are the names from what was asked for down to what brings this package; it is empty for what was
    asked for. `covered` is True if no list has the package, so that the decision on the last of `path` holds for it.
    """

    requirement: str
    name: str
    trust: TrustLevel
    reason: str = ""
    warnings: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    covered: bool = False

    @property
    def demand(self) -> Demand:
        """What the trust level demands before the package is installed."""
        return DEMANDS[self.trust]


class PackageJudge:
    """Judges the packages of one language (`python` or `javascript`) by rules, and by what an environment has already.

    `installed` are the versions that a locked, built environment has, by name: these are pre-baked. Packages of the
    machine's own interpreter are not, so they do not belong into it. Blocked packages are blocked wherever they are.
    """

    def __init__(
        self, rules: PackageRules, *, language: str = "python", installed: Mapping[str, str] | None = None
    ) -> None:
        self._language = language
        self._installed = {self._normalized(name): version for name, version in (installed or {}).items()}
        self._rules = {
            self._normalized(rule.name): (trust, rule)
            for trust, listed in (
                (TrustLevel.ALLOW_LISTED, rules.auto_approved),
                (TrustLevel.REQUIRES_APPROVAL, rules.requires_approval),
                (TrustLevel.BLOCKED, rules.blocked),
            )
            for rule in listed
        }
        self._blocked = {normalized_name(rule.name): rule for rule in rules.blocked}
        self._approved = [self._normalized(rule.name) for rule in rules.auto_approved]
        self._similar: SimilarNames | None = None  # made at the first name that no list has

    def judge(self, requirement: Requirement) -> Judgement:
        """Judge what a program asks for. Whether its marker applies is the caller's question."""
        version = self._installed.get(requirement.normalized)
        return self._judged(requirement, has=version is not None and requirement.accepts(version))

    def judge_resolved(
        self, asked: Iterable[Requirement], resolved: Iterable[ResolvedPackage]
    ) -> tuple[Judgement, ...]:
        """Judge what a program asks for, and after it all else that a resolver adds.

        An added package that no list has is covered by the decision on the package that brings it: whoever approves one
        approves what it needs. Packages in a list, those from addresses, those that only a pre-baked package brings,
        and those that nothing brings are judged for themselves. Raises `InvalidValue` for two packages of one name.
        """
        packages: dict[str, ResolvedPackage] = {}
        for package in resolved:
            if packages.setdefault(self._normalized(package.name), package) != package:
                raise InvalidValue(f"{package.name!r} is resolved twice, to different packages: resolve again")
        direct = [self._asked(requirement, packages.get(requirement.normalized)) for requirement in asked]
        judged = {judgement.name: judgement for judgement in direct}
        # A pre-baked package comes last: its environment was approved without what a newer version of it would bring.
        waiting = deque(sorted(judged, key=lambda name: judged[name].trust is TrustLevel.PREBAKED))
        added: dict[str, Judgement] = {}
        while waiting:
            bringer = waiting.popleft()
            for needed in map(self._normalized, packages[bringer].requires if bringer in packages else ()):
                if needed in packages and needed not in judged:
                    judged[needed] = added[needed] = self._added(packages[needed], judged[bringer])
                    waiting.append(needed)
        lonely = (self._added(package, None) for name, package in packages.items() if name not in judged)
        return (*direct, *added.values(), *lonely)

    def _asked(self, requirement: Requirement, package: ResolvedPackage | None) -> Judgement:
        if package is None:
            return self.judge(requirement)
        requirement = replace(requirement, address=requirement.address or package.address)
        return self._judged(requirement, has=self._has(package))

    def _added(self, package: ResolvedPackage, bringer: Judgement | None) -> Judgement:
        at = f" @ {package.address}" if package.address else f"=={package.version}"
        requirement = Requirement(
            text=package.name + at,
            name=package.name,
            normalized=self._normalized(package.name),
            address=package.address,
            hashes=package.hashes,
        )
        judgement = self._judged(requirement, has=self._has(package))
        if bringer is None:
            return judgement
        judgement = replace(judgement, path=(*bringer.path, bringer.name))
        if judgement.trust is not TrustLevel.REGISTRY or bringer.trust in (TrustLevel.PREBAKED, TrustLevel.BLOCKED):
            return judgement
        return replace(judgement, trust=bringer.trust, reason=bringer.reason, covered=True)

    def _judged(self, requirement: Requirement, *, has: bool) -> Judgement:
        """Judge a requirement, given whether the environment `has` a version that meets it."""
        name, address = requirement.normalized, requirement.address
        trust, rule = self._rules.get(name, (TrustLevel.REGISTRY, None))
        reason, warnings = rule.reason if rule else "", []
        if rule is None and not has:
            warnings += self._resemblances(requirement.name, name)
        if address and not requirement.hashes and not is_fixed(address):
            warnings.append(f"{name!r} comes from an address without a commit or hash: its content may change")
        if trust is not TrustLevel.BLOCKED:
            hidden = sorted(names_in_address(address) & self._blocked.keys()) if address else []
            if hidden:
                trust, blocked = TrustLevel.BLOCKED, self._blocked[hidden[0]]
                reason = f"its address has the name of {blocked.name}, which is blocked"
                reason += f": {blocked.reason}" if blocked.reason else ""
            elif address:
                trust = TrustLevel.GIT
            elif has:
                trust = TrustLevel.PREBAKED
        return Judgement(requirement.text, name, trust, reason, tuple(warnings))

    def _has(self, package: ResolvedPackage) -> bool:
        return bool(package.version) and self._installed.get(self._normalized(package.name)) == package.version

    def _resemblances(self, given: str, name: str) -> list[str]:
        if self._language == "python" and (distribution := _BY_IMPORT.get(name)):
            return [f"{given!r} is what programs import from {distribution!r}: require that if it is meant"]
        if self._similar is None:
            self._similar = SimilarNames([*self._approved, *POPULAR[self._language]])
        if near := self._similar.nearest(name):
            why = "is approved" if near in self._approved else "is in wide use"
            return [f"{given!r} is one slip away from {near!r}, which {why}: make sure which one is meant"]
        return []

    def _normalized(self, name: str) -> str:
        return normalized_name(name) if self._language == "python" else name
