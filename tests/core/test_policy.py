"""Policies are checked when they are made, and the message names what is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from actbox import AllowedDomain, FileMount, InvalidValue, Limits, Policy, Secret


def test_every_limit_has_a_unit_and_a_default() -> None:
    for spec in dataclasses.fields(Limits):
        assert spec.metadata["unit"]
        assert spec.metadata["about"]
        assert spec.default > 0
    assert set(Limits().to_dict()) == {spec.name for spec in dataclasses.fields(Limits)}


@pytest.mark.parametrize("name", [spec.name for spec in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", None, True])
def test_a_limit_that_makes_no_sense_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=f"Limits.{name}"):
        Limits(**{name: value})


def test_times_may_be_fractions_and_counts_may_not() -> None:
    assert Limits(wall_seconds=0.5).wall_seconds == 0.5
    with pytest.raises(InvalidValue, match="whole number"):
        Limits(memory_mib=1.5)  # type: ignore[arg-type]


def test_policies_cannot_be_changed() -> None:
    for thing, name in ((Limits(), "wall_seconds"), (Policy(), "limits"), (AllowedDomain("a.example"), "host")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 1)


def test_a_mount_unpacks_as_a_pair_and_lies_below_input(tmp_path: Path) -> None:
    host, guest = FileMount(tmp_path, "data/sales")
    assert (host, guest) == (str(tmp_path), "/input/data/sales")
    assert FileMount(tmp_path, "x").mode == "ro"
    assert FileMount(str(tmp_path), "/data", "rw").mount_path == PurePosixPath("/data")


def test_one_place_in_the_sandbox_has_one_spelling(tmp_path: Path) -> None:
    for spelling in ("a/b", "/input/a/b", "/workspace/input/a/b", "//input//a/./b"):
        assert FileMount(tmp_path, spelling).mount_path == PurePosixPath("/input/a/b")
    with pytest.raises(InvalidValue, match="two mounts"):
        Policy(mounts=(FileMount(tmp_path, "a"), FileMount(tmp_path, "/workspace/input/a")))


def test_a_missing_host_path_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nope"
    with pytest.raises(InvalidValue, match=str(missing)):
        FileMount(missing, "x")
    with pytest.raises(InvalidValue, match="/nope"):
        FileMount("/nope", "/data")


@pytest.mark.parametrize(
    "mount_path",
    ["/", "/usr", "/etc/x", "/proc", "/dev/x", "/tmp/x", "/workspace", "/input", "/output", "..", "a/../..", "", "a\0"],
)
def test_a_mount_may_not_hide_what_the_sandbox_is_made_of(tmp_path: Path, mount_path: str) -> None:
    with pytest.raises(InvalidValue, match="FileMount"):
        FileMount(tmp_path, mount_path)


def test_a_mode_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="overlay"):
        FileMount(tmp_path, "x", "write")  # type: ignore[arg-type]
    file = tmp_path / "f"
    file.touch()
    with pytest.raises(InvalidValue, match="folder"):
        FileMount(file, "x", "overlay")


@pytest.mark.parametrize(
    ("target", "normal", "ports"),
    [
        ("API.Example.COM", "api.example.com", {80, 443}),
        ("https://example.com", "https://example.com", {443}),
        ("http://example.com/", "http://example.com", {80}),
        ("example.com:8080", "example.com:8080", {8080}),
        ("HTTPS://Example.com:8443", "https://example.com:8443", {8443}),
        ("*.example.com", "*.example.com", {80, 443}),
        ("bücher.example", "xn--bcher-kva.example", {80, 443}),
        ("example.com.", "example.com", {80, 443}),
        ("10.0.0.1:81", "10.0.0.1:81", {81}),
        ("[::1]:81", "[::1]:81", {81}),
        ("localhost", "localhost", {80, 443}),
    ],
)
def test_a_domain_is_normalised_once(target: str, normal: str, ports: set[int]) -> None:
    domain = AllowedDomain(target)
    assert domain.target == str(domain) == normal
    assert domain.ports == ports
    assert AllowedDomain(domain.target) == domain


def test_methods_are_upper_case_and_each_once() -> None:
    assert AllowedDomain("a.example", ["get", "POST", "Get"]).methods == ("GET", "POST")
    assert AllowedDomain("a.example").methods is None


@pytest.mark.parametrize(
    "target",
    [
        "",
        " ",
        "https://a.example/path",
        "a.example/path",
        "a.example?x=1",
        "a.example#x",
        "user@a.example",
        "https://user:pass@a.example",
        "ftp://a.example",
        "a.example:0",
        "a.example:99999",
        "a.example:x",
        "a.example:",
        "*",
        "a.*.example",
        "*a.example",
        "-a.example",
        "a..example",
        "a b.example",
        "a.example\\@b.example",
        "a" * 64 + ".example",
        "https://",
    ],
)
def test_a_target_that_is_no_host_is_refused(target: str) -> None:
    with pytest.raises(InvalidValue, match="AllowedDomain"):
        AllowedDomain(target)


@pytest.mark.parametrize("methods", [[], "GET", ["G ET"], [""], [1]])
def test_methods_that_are_none_are_refused(methods: Any) -> None:
    with pytest.raises(InvalidValue, match="method"):
        AllowedDomain("a.example", methods)


def test_a_secret_shows_its_value_to_nobody() -> None:
    secret = Secret("github", "s3cr3t", domains=["api.github.example"])
    assert "s3cr3t" not in repr(secret)
    assert "s3cr3t" not in repr(Policy(domains=(AllowedDomain("api.github.example"),), secrets=(secret,)))


def test_a_secret_needs_an_allowed_domain_to_go_to() -> None:
    secret = Secret("github", "x", domains=["api.github.example"])
    with pytest.raises(InvalidValue, match=r"api\.github\.example"):
        Policy(secrets=(secret,))


@pytest.mark.parametrize(
    "given",
    [
        {"name": "two words"},
        {"value": ""},
        {"value": "a\nb"},
        {"domains": []},
        {"domains": "a.example"},
        {"header": "no placeholder"},
        {"header": "X: {}\r\nY: {}"},
    ],
)
def test_a_secret_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="Secret"):
        Secret(**{"name": "n", "value": "v", "domains": ["a.example"], **given})


def test_a_policy_takes_lists_and_keeps_them_frozen(tmp_path: Path) -> None:
    mounts = [FileMount(tmp_path, "a")]
    policy = Policy(mounts=mounts, variables={"A": "1"})  # type: ignore[arg-type]
    mounts.append(FileMount(tmp_path, "b"))
    assert len(policy.mounts) == 1
    with pytest.raises(InvalidValue, match="mounts"):
        Policy(mounts=["/data"])  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="variable"):
        Policy(variables={"A=": "1"})
