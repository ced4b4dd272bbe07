"""Locks of npm: what is read of one, and what is refused."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from actbox.packages.npm_lock import npm_lock, read_npm_lock
from actbox.packages.resolving import CannotResolve

REGISTRY = "https://packages.example/npm/"
INTEGRITY = "sha512-" + b64encode(bytes(64)).decode()


def entry(**more: Any) -> dict[str, Any]:
    return {
        "version": "1.0.0",
        "resolved": "https://packages.example/npm/a/-/a-1.0.0.tgz",
        "integrity": INTEGRITY,
        **more,
    }


def lock_of(**entries: Any) -> str:
    return json.dumps({"packages": {"": {}, **entries}})


def test_a_lock_is_read_with_outer_packages_first_and_written_again() -> None:
    inner = entry(resolved="https://registry.npmjs.org/b/-/b-2.0.0.tgz", version="2.0.0", license="MIT")
    text = lock_of(**{"node_modules/a/node_modules/b": inner, "node_modules/a": entry(dependencies={"b": "2"})})
    outer, nested = read_npm_lock(text, REGISTRY)
    assert (outer.name, outer.version, outer.requires, outer.sha512) == ("a", "1.0.0", ("b",), "00" * 64)
    assert (nested.name, nested.place, nested.licence) == ("b", "node_modules/a/node_modules/b", "MIT")
    assert nested.url == "https://packages.example/npm/b/-/b-2.0.0.tgz"
    written = npm_lock(["a@^1", "@c/d"], [outer, nested])
    assert written["packages"].pop("") == {"dependencies": {"a": "^1", "@c/d": "*"}}
    assert read_npm_lock(json.dumps(written), REGISTRY) == (outer, nested)


@pytest.mark.parametrize(
    ("place", "wrong", "why"),
    [
        ("node_modules/a", {"integrity": "sha1-AAAA"}, "no SHA-512 for a 1.0.0"),
        ("node_modules/a", {"integrity": "sha512-AAAA"}, "no SHA-512 for a 1.0.0"),
        ("node_modules/a", {"integrity": "sha512-!"}, "lock cannot be read"),
        ("node_modules/a", {"resolved": "git+ssh://git@h.example/a.git#abc"}, "a 1.0.0 is no package of the registry"),
        ("node_modules/a", {"resolved": "file:../a"}, "is no package of the registry"),
        (
            "node_modules/a",
            {"dependencies": {"b": "https://packages.example/npm/b/-/b-1.0.0.tgz?t=S3C"}},
            "a 1.0.0 requires a package from the address https://packages.example/npm/b/-/b-1.0.0.tgz;",
        ),
        ("node_modules/a", {"optionalDependencies": {"b": "someone/b"}}, "from the address someone/b"),
        ("node_modules/a", {"link": True}, "is no package of the registry"),
        ("node_modules/a", {"inBundle": True}, "a 1.0.0 lies within the archive of another package"),
        ("node_modules/a", {"version": "../1"}, "is no package of the registry"),
        ("node_modules/a", {"name": "../a"}, "is no package of the registry"),
        ("node_modules/../a", {}, "is no package of the registry"),
        ("packages/a", {}, "is no package of the registry"),
        ("node_modules/a", {"os": ["aix"]}, "is for other machines than node linux-"),
    ],
)
def test_what_is_no_checked_package_of_the_registry_is_refused(place: str, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotResolve, match=why):
        read_npm_lock(lock_of(**{place: entry(**wrong)}), REGISTRY)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"packages": 1}', '{"packages": {"node_modules/a": 1}}', "[" * 10**5]
)
def test_a_text_that_is_no_lock_is_refused(text: str) -> None:
    with pytest.raises(CannotResolve, match="npm's lock cannot be read"):
        read_npm_lock(text, REGISTRY)


@pytest.mark.parametrize(
    ("machine", "is_needed"),
    [({"os": ["!linux"]}, False), ({"os": ["linux"]}, True), ({"cpu": "any"}, True), ({"libc": ["none"]}, False)],
)
def test_optional_packages_are_taken_if_they_fit_this_machine(machine: dict[str, Any], is_needed: bool) -> None:
    found = read_npm_lock(lock_of(**{"node_modules/a": entry(optional=True, **machine)}), REGISTRY)
    assert bool(found) is is_needed
