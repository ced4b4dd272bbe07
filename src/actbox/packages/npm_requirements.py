"""Requirements of JavaScript programs: npm's `name`, `@scope/name`, `name@range` and `name@git+https://…#commit`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from actbox.core.errors import InvalidValue
from actbox.core.packages import NPM_NAME

from .addresses import check_address
from .requirements import Requirement, check_length_of_name, checked_list, checked_text, quoted

_REQUIREMENT: Final = re.compile(rf"(?P<name>{NPM_NAME})(?:@(?P<wanted>.*))?")
_VERSION: Final = r"v?(?:[0-9]+|[xX*])(?:\.(?:[0-9]+|[xX*])){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
_BOUND: Final = re.compile(rf"\s*(?P<operator>\^|~>?|[<>]=?|=)?\s*(?P<version>{_VERSION})(?=[\s<>=^~]|$)")
_SPAN: Final = re.compile(rf"\s*({_VERSION})\s+-\s+({_VERSION})\s*")
_FORBIDDEN: Final = ("node_modules", "favicon.ico")
_MOST_BOUNDS: Final = 30


def parse_npm_requirement(text: str) -> Requirement:
    """Read one requirement in npm's form: a name with or without scope, and a range of versions or a Git address.

    Raises `InvalidValue` for paths, other addresses, aliases (`npm:`), options, and tags other than `latest`.
    """
    text = checked_text(text)
    if text.startswith("-"):
        raise InvalidValue(f"{quoted(text)} is an option, not a package: leave it out")
    found = _REQUIREMENT.fullmatch(text)
    if not found or found["name"] in _FORBIDDEN:
        raise InvalidValue(
            f"{quoted(text)} does not begin with the name of a package: write 'lodash', '@scope/name', 'lodash@^4.17' "
            "or 'name@git+https://…#commit'"
        )
    name, wanted = found["name"], (found["wanted"] or "").strip()
    check_length_of_name(text, name)
    address = ""
    if wanted.startswith("git+"):
        check_address(text, name, wanted)
        address, wanted = wanted, ""
    elif ":" in wanted or "/" in wanted:
        raise InvalidValue(
            f"{quoted(text)} has an alias, a path or an address in place of versions: write 'name@^1.2', or "
            "'name@git+https://…#commit'"
        )
    return Requirement(
        text=f"{name}@{address or wanted}" if address or wanted else name,
        name=name,
        normalized=name,
        language="javascript",
        versions=_versions(text, wanted),
        address=address,
    )


def read_npm_requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    """Read a list of requirements in npm's form; return each once, in their order.

    Raises `InvalidValue` for a bad requirement, too many, and two different ones of one package.
    """
    by_name: dict[str, Requirement] = {}
    for requirement in map(parse_npm_requirement, checked_list(texts)):
        other = by_name.setdefault(requirement.normalized, requirement)
        if other != requirement:
            raise InvalidValue(f"{quoted(other.text)} and {quoted(requirement.text)} name one package; keep one")
    return tuple(by_name.values())


def _versions(text: str, wanted: str) -> tuple[SpecifierSet, ...]:
    """Return the specifiers of which a version must meet one, from a range as npm's `semver` reads it."""
    if wanted == "latest":
        wanted = ""
    found: list[SpecifierSet] = []
    for part in wanted.split("||"):
        if span := _SPAN.fullmatch(part):
            part = f">={span[1]} <={span[2]}"
        bounds: list[str] = []
        part, position = part.strip(), 0
        while position < len(part):
            bound = _BOUND.match(part, position)
            if not bound or len(bounds) + len(found) >= _MOST_BOUNDS:
                raise InvalidValue(f"{quoted(text)} has versions that cannot be read: write a range such as '^4.17'")
            bounds += _bounds(bound["operator"] or "=", bound["version"].lstrip("v"))
            position = bound.end()
        try:
            found.append(SpecifierSet(",".join(bounds)))
        except InvalidSpecifier:  # pre-releases that PEP 440 has no name for
            found.append(SpecifierSet(f"==={wanted.lstrip('=v')}" if " " not in wanted else "===none"))
    return tuple(found)


def _bounds(operator: str, version: str) -> list[str]:
    """Return one bound of npm's as bounds of PEP 440."""
    release, _, pre = version.partition("+")[0].partition("-")
    numbers = []
    for each in release.split("."):
        if not each.isdigit():
            break
        numbers.append(int(each))
    if not numbers:
        return []
    low = ".".join(map(str, (*numbers, 0, 0)[:3])) + (f"-{pre}" if pre else "")

    def after(place: int) -> str:
        return ".".join(map(str, (*numbers[:place], numbers[place] + 1)))

    last = len(numbers) - 1
    match operator:
        case "^":
            return [f">={low}", f"<{after(next((i for i, number in enumerate(numbers) if number), last))}"]
        case "~" | "~>":
            return [f">={low}", f"<{after(min(1, last))}"]
        case "=" if last < 2:
            return [f">={low}", f"<{after(last)}"]
        case ">" if last < 2:
            return [f">={after(last)}"]
        case "<=" if last < 2:
            return [f"<{after(last)}"]
        case "=":
            return [f"=={low}"]
        case _:
            return [f"{operator}{low}"]
