"""Python requirements: one (PEP 508), a list of them, and a `requirements.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from packaging import requirements as pep508
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from actbox.core.errors import InvalidValue
from actbox.core.packages import PACKAGE_NAME, normalized_name

from .addresses import check_address
from .import_names import in_standard_library

MOST_REQUIREMENTS: Final = 500
MOST_CHARS: Final = 500  # of one requirement without its hashes: 500 of them take two seconds to parse
_MOST_HASHED_CHARS: Final = 50_000  # with its hashes, of which some packages have a hundred and more
MOST_FILE_CHARS: Final = 1_000_000
_MOST_NAME_CHARS: Final = 214  # npm's limit; PyPI's longest name is shorter
_MOST_BOUNDS: Final = 30  # of one package: intersecting `!=` takes time that grows with the square of their number
_OPTION: Final = re.compile(r"(?<= )(?=-{1,2}[A-Za-z])")
HASH: Final = r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
_HASH_OPTION: Final = re.compile(rf"--hash[= ]({HASH})")
_EXAMPLE: Final = "write it as a name, versions and a marker, such as 'pandas>=2.2'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One package that a program asks for.

    `text` is the requirement in its standard form (PEP 508, or npm's `name@range`), without hashes. `normalized` is the
    form of `name` in which names compare. A version is accepted if one of `versions` contains it. `address` is where
    the package comes from, if not from the index. `hashes` are `algorithm:hex`; one of them is the archive's.
    """

    text: str
    name: str
    normalized: str
    language: str = "python"
    extras: tuple[str, ...] = ()
    versions: tuple[SpecifierSet, ...] = (SpecifierSet(),)
    marker: Marker | None = None
    address: str = ""
    hashes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    def accepts(self, version: str) -> bool:
        """Return True if the requirement is met by a version of its package; pre-releases count."""
        try:
            return any(versions.contains(version, prereleases=True) for versions in self.versions)
        except InvalidVersion:
            return False

    def is_met_by(self, installed: Mapping[str, str]) -> bool:
        """Return True if packages, given by their versions by name, have what the requirement asks for."""
        version = installed.get(self.normalized)
        return version is not None and not self.address and not self.extras and self.accepts(version)

    def applies(self, markers: Mapping[str, str] | None = None) -> bool:
        """Return True if the marker is true, by the variables of PEP 508.

        `markers` are the variables of the interpreter that will import the package; those of this process stand in for
        those that it lacks. Raises `InvalidValue` for a marker that compares what has no order.
        """
        if self.marker is None:
            return True
        try:
            return self.marker.evaluate({**(markers or {})})
        except ValueError as error:
            raise InvalidValue(f"{quoted(self.text)} has a marker without an answer ({error}); correct it") from None


def parse_requirement(text: str) -> Requirement:
    """Read one requirement of PEP 508, with `--hash` options as in a requirements file.

    Raises `InvalidValue` for anything but a name with extras, versions, marker and hashes, or `name @ address` with an
    `https` or `git+https` address.
    """
    text = checked_text(text, _MOST_HASHED_CHARS)
    if text.startswith("-"):
        raise InvalidValue(f"{quoted(text)} is an option, not a requirement: {_instead_of(text)}")
    plain, *options = _OPTION.split(text)
    hashes = []
    for option in options:
        found = _HASH_OPTION.fullmatch(option.strip())
        if not found:
            raise InvalidValue(
                f"{quoted(text)} has the option {quoted(option)}; of options only --hash=sha256:… is read"
            )
        hashes.append(found[1])
    _check_name(checked_text(plain))
    try:
        parsed = pep508.Requirement(plain)
    except pep508.InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        raise InvalidValue(f"{quoted(text)} is not a requirement ({reason}); {_EXAMPLE}") from None
    except RecursionError:
        raise InvalidValue(f"{quoted(text)} has a marker that is nested too deep; simplify it") from None
    if parsed.url:
        check_address(text, parsed.name, parsed.url)
    requirement = Requirement(
        text=str(parsed),
        name=parsed.name,
        normalized=normalized_name(parsed.name),
        extras=tuple(sorted({normalized_name(extra) for extra in parsed.extras})),
        versions=(parsed.specifier,),
        marker=parsed.marker,
        address=parsed.url or "",
        hashes=tuple(dict.fromkeys(hashes)),
    )
    _check_together([requirement])
    return requirement


def read_requirements(texts: Iterable[str], *, markers: Mapping[str, str] | None = None) -> tuple[Requirement, ...]:
    """Read a list of requirements; return those that apply, each once, in their order.

    `markers` are the variables of the interpreter, as in `Requirement.applies`. Raises `InvalidValue` for a bad
    requirement, one that names a module of the standard library, more than `MOST_REQUIREMENTS`, and requirements of one
    package that no version and no archive can meet together.
    """
    parsed = (parse_requirement(text) for text in checked_list(texts))
    found = tuple(dict.fromkeys(requirement for requirement in parsed if requirement.applies(markers)))
    by_name: dict[str, list[Requirement]] = {}
    for requirement in found:
        if in_standard_library(requirement.normalized.replace("-", "_")):
            raise InvalidValue(f"{quoted(requirement.text)} is part of Python's standard library: leave it out")
        by_name.setdefault(requirement.normalized, []).append(requirement)
    for together in by_name.values():
        if len(together) > 1:
            _check_together(together)
    return found


def read_requirements_file(text: str, *, markers: Mapping[str, str] | None = None) -> tuple[Requirement, ...]:
    """Read the text of a `requirements.txt`, as `read_requirements` does; lines with options raise `InvalidValue`."""
    text = checked_file("requirements.txt", text).removeprefix("\ufeff")
    lines = re.sub(r"\\\n", " ", text).replace("\t", " ").split("\n")
    bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
    return read_requirements([line for line in bare if line], markers=markers)


def markers_of(python: str) -> dict[str, str] | None:
    """Return the variables of an interpreter by its version, such as `3.12`; `None` for "", that of this process."""
    return {"python_version": python, "python_full_version": f"{python}.0"} if python else None


def quoted(text: str) -> str:
    """Return a requirement for a message: quoted, in ASCII so that look-alike letters show, and shortened."""
    return ascii(text if len(text) <= 100 else text[:100] + "...")


def checked_text(text: object, most: int = MOST_CHARS) -> str:
    """Return a requirement without spaces around it; raise `InvalidValue` unless it is one printable line.

    `most` is the number of characters that it may have.
    """
    if not isinstance(text, str):
        raise InvalidValue(f"a requirement is text such as 'pandas>=2.2', not {type(text).__name__}")
    text = text.strip(" ")
    if not text:
        raise InvalidValue("a requirement is empty: leave it out, or name a package such as 'pandas'")
    if len(text) > most:
        raise InvalidValue(f"{quoted(text)} is longer than {most:,} characters; shorten it")
    if not text.isprintable():
        raise InvalidValue(f"{quoted(text)} has control characters or invisible ones; remove them")
    return text


def checked_list(texts: Iterable[str]) -> list[str]:
    """Return the requirements of a list; raise `InvalidValue` for anything else and for too many."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise InvalidValue(f"dependencies are a list of requirements such as ['pandas>=2.2'], not {texts!a:.100}")
    found: list[str] = []
    for text in texts:
        if len(found) == MOST_REQUIREMENTS:
            raise InvalidValue(
                f"there are more than {MOST_REQUIREMENTS} requirements; the first too many is "
                f"{quoted(str(text))}: name only those that the program imports"
            )
        found.append(text)
    return found


def checked_file(name: str, text: str, most: int = MOST_FILE_CHARS) -> str:
    """Return the text of a file with `\\n` at the ends of lines; raise `InvalidValue` if it is longer than `most`."""
    if len(text) > most:
        raise InvalidValue(f"{name} has more than {most:,} characters; list the program's own requirements")
    return text.replace("\r\n", "\n")


def check_length_of_name(text: str, name: str) -> None:
    """Raise `InvalidValue` for a name that no index has."""
    if len(name) > _MOST_NAME_CHARS:
        raise InvalidValue(f"{quoted(text)} has a name of more than {_MOST_NAME_CHARS} characters; correct it")


def _check_name(text: str) -> None:
    """Raise `InvalidValue` if a requirement begins with anything but the name of a package."""
    name = re.match(r"[^\s@\[(;<>=!~]*", text)[0]  # type: ignore[index]  # the pattern matches the empty text too
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        raise InvalidValue(f"{quoted(text)} is an address without a name: write 'name @ git+https://…@commit'")
    if text[0] in "./~" or "/" in name or "\\" in name or name.lower().endswith((".whl", ".tar.gz", ".zip", ".egg")):
        raise InvalidValue(f"{quoted(text)} is a path: name a package of the index, such as 'pandas'")
    if not re.fullmatch(PACKAGE_NAME, name):
        raise InvalidValue(
            f"{quoted(text)} does not begin with the name of a package, which has ASCII letters, digits, '.', '-' "
            f"and '_' only; {_EXAMPLE}"
        )
    check_length_of_name(text, name)


def _check_together(requirements: list[Requirement]) -> None:
    """Raise `InvalidValue` for requirements of one package that exclude each other by versions or addresses."""
    texts = " and ".join(quoted(requirement.text) for requirement in requirements[:5])
    bounds = [bound for requirement in requirements for bound in requirement.versions[0]]
    if len(bounds) > _MOST_BOUNDS:
        raise InvalidValue(f"{texts} have more than {_MOST_BOUNDS} bounds of versions; write fewer")
    addresses = {requirement.address for requirement in requirements if requirement.address}
    if len(addresses) > 1 or SpecifierSet(bounds).is_unsatisfiable():
        raise InvalidValue(f"{texts} cannot be met by any one version; keep one, or widen its versions")


def _instead_of(option: str) -> str:
    if re.match(r"-r|-c|--requirement|--constraint", option):
        return "list that file's requirements themselves"
    if re.match(r"-i|--(extra-)?index-url|-f|--find-links|--no-index", option):
        return "PackagePolicy(index=…) names the index"
    if re.match(r"-e|--editable", option):
        return "name a package of the index, or 'name @ git+https://…@commit'"
    if option.startswith("--pre"):
        return "admit pre-releases in the versions, such as 'pandas>=3.0.0rc1'"
    return "leave it out"
