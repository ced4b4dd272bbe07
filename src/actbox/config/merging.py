"""`Merged`: the values of several configuration files, which may repeat but not contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from actbox.core.errors import InvalidValue
from actbox.core.packages import Environment, PackagePolicy, PackageRule, PackageRules, normalized_name


class Merged:
    """The values of the files read so far. Each method raises `InvalidValue` for a contradiction."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        """Fields of `Config`."""
        self.environments: dict[str, Environment] = {}
        self._rules: dict[str, dict[str, tuple[str, PackageRule]]] = {}
        """The list and the rule of each package, by language and normalized name."""
        self._origins: dict[str, tuple[object, str]] = {}

    def set(self, key: str, fields: dict[str, Any], file: str) -> None:
        """Set the fields of `Config` that a key stands for."""
        self._compare(key, fields, file)
        self.settings.update(fields)

    def add_environment(self, environment: Environment, file: str) -> None:
        """Add an environment. Two files may define it, if they agree."""
        self._compare(f"the image {environment.name!r}", environment, file)
        self.environments[environment.name] = environment

    def add_language(self, language: str) -> None:
        """Record that a file has lists for a language, even if these are empty."""
        self._rules.setdefault(language, {})

    def add_rule(self, language: str, place: str, rule: PackageRule, file: str) -> None:
        """Add a package to one of the lists of `PackageRules`. The first reason that a file gives stays."""
        name = normalized_name(rule.name)
        self._compare(f"the list of the {language} package {name!r}", place, file)
        rules = self._rules[language]
        if name not in rules or not rules[name][1].reason:
            rules[name] = (place, rule)

    def policy(self) -> PackagePolicy | None:
        """Return the lists of all languages, or `None` if no file has any."""
        lists: dict[str, dict[str, list[PackageRule]]] = {}
        for language, rules in self._rules.items():
            lists[language] = {}
            for place, rule in rules.values():
                lists[language].setdefault(place, []).append(rule)
        return policy_of(lists) if lists else None

    def _compare(self, what: str, value: object, file: str) -> None:
        known, origin = self._origins.setdefault(what, (value, file))
        if known != value:
            where = f"{file} contradicts itself" if origin == file else f"{origin} and {file} contradict each other"
            raise InvalidValue(f"{where} about {what}; keep one of the two values")


def policy_of(lists: Mapping[str, Mapping[str, Iterable[PackageRule]]]) -> PackagePolicy:
    """Return the policy of lists by language and by name. Raises `InvalidValue` for a name that a language lacks."""
    rules: dict[str, Any] = {
        language: PackageRules(**{place: tuple(listed) for place, listed in places.items()})
        for language, places in lists.items()
    }
    return PackagePolicy(**rules)
