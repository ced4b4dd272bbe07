"""The locks in requirements/ hold all that pyproject.toml asks for, for each supported Python."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def environment(python: str) -> dict[str, str]:
    """Return what a marker sees on 64-bit Linux."""
    system = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"}
    interpreter = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return {"python_version": python, "python_full_version": f"{python}.0", "extra": "", **system, **interpreter}


def pins(lock: str, python: str) -> dict[str, str]:
    """Return the version that a lock has of each package for a Python."""
    text = re.sub(r"\\\n\s+--hash=\S+ ?", "", (ROOT / "requirements" / f"{lock}.txt").read_text())
    found = [Requirement(line.strip(" \\")) for line in text.splitlines() if line and not line.startswith("#")]
    return {
        canonicalize_name(each.name): next(iter(each.specifier)).version
        for each in found
        if each.marker is None or each.marker.evaluate(environment(python))
    }


def asked_for(lock: str) -> Iterator[Requirement]:
    """Yield what a lock is made from, with the extras of this project opened up."""
    if lock == "setup":
        yield from map(Requirement, PROJECT["dependency-groups"]["setup"])
        return
    yield from map(Requirement, PROJECT["project"]["dependencies"])
    extras, seen = [lock], set()
    while extras:
        seen.add(extra := extras.pop())
        for requirement in map(Requirement, PROJECT["project"]["optional-dependencies"][extra]):
            if requirement.name == "actbox":
                extras += requirement.extras - seen
            else:
                yield requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", ["dev", "demo", "setup"])
def test_a_lock_has_a_version_that_fits_each_requirement(lock: str, python: str) -> None:
    locked = pins(lock, python)
    for requirement in asked_for(lock):
        if requirement.marker is None or requirement.marker.evaluate(environment(python)):
            version = locked.get(canonicalize_name(requirement.name))
            fits = version is not None and requirement.specifier.contains(version, prereleases=True)
            assert fits, f"{requirement} is locked as {version}: run `make lock`"


@pytest.mark.parametrize("lock", ["demo", "setup"])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_smaller_locks_have_the_versions_of_development(lock: str, python: str) -> None:
    small, whole = pins(lock, python), pins("dev", python)
    assert {name: whole[name] for name in small if name in whole} == {n: v for n, v in small.items() if n in whole}
    assert lock != "demo" or small.keys() <= whole.keys()


@pytest.mark.parametrize("lock", ["dev", "demo", "setup"])
def test_each_pin_has_its_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert "://" not in text
    for pin in re.split(r"\n(?=[a-z])", text)[1:]:
        assert "--hash=sha256:" in pin, pin
