"""The two languages that have packages: each one's requirements, index, rules, and the packages of a module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actbox.core.errors import InvalidValue
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from actbox.sandbox.dependencies import Target

from .environments import platform_of
from .import_names import distributions_of
from .index import Index, find_index
from .interpreters import FoundPython, find_python
from .npm_lock import npm_platform
from .npm_requirements import parse_npm_requirement, read_npm_requirements
from .npm_resolving import find_registry
from .requirements import Requirement, markers_of, parse_requirement, read_requirements
from .rules import PackageJudge

JAVASCRIPT = "javascript"


def language_of(program: str) -> str:
    """Return the language whose packages programs in a language have: `python` or `javascript`."""
    return JAVASCRIPT if program in (JAVASCRIPT, "typescript") else "python"


def requirements_of(texts: Iterable[str], language: str, python: str = "") -> tuple[Requirement, ...]:
    """Read requirements; return those that apply to a version of Python, "" for this one. Raises `InvalidValue`."""
    if language == JAVASCRIPT:
        return read_npm_requirements(texts)
    return read_requirements(texts, markers=markers_of(python))


def index_of(rules: PackagePolicy, language: str) -> Index:
    """Return where packages come from. Raises `InvalidValue`."""
    return find_registry(rules.npm_registry) if language == JAVASCRIPT else find_index(rules.index)


def rules_of(rules: PackagePolicy, language: str) -> PackageRules:
    """Return the rules for a language's packages."""
    return rules.nodejs if language == JAVASCRIPT else rules.python


def judge_of(rules: PackagePolicy, language: str, installed: Mapping[str, str] | None = None) -> PackageJudge:
    """Return the judge of packages; `installed` are those of a named environment, by name."""
    if language == JAVASCRIPT:
        return PackageJudge(rules.nodejs, language=language, installed=installed)
    return PackageJudge(rules.python)


def interpreter_of(definition: Environment, target: Target | None) -> tuple[FoundPython, str]:
    """Return the Python of an environment, and the platform that its packages are chosen for. May block."""
    if definition.language == JAVASCRIPT:
        return FoundPython("", ""), npm_platform()
    python = find_python(definition.python) if target is None else FoundPython("", target.version)
    return python, platform_of(target, python.version)


def packages_of(module: str, language: str) -> list[Requirement]:
    """Return the packages that may bring a module, such as `cv2`, or `@scope/name/file` in JavaScript."""
    if language == "python":
        return [parse_requirement(name) for name in distributions_of(module, {})]
    try:
        return [parse_npm_requirement("/".join(module.split("/")[: 2 if module.startswith("@") else 1]))]
    except InvalidValue:
        return []
