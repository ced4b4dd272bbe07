"""`CodeActConfig`: file mounts and allowed domains that are added, replaced and removed between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actbox import AllowedDomain, FileMount, InvalidValue, Secret
from actbox.codeact import CodeActConfig
from tests.codeact.configs import places, targets

# File mounts


class NamedMount(NamedTuple):
    """How a framework has it."""

    host_path: str | Path
    mount_path: str


@pytest.mark.parametrize(
    ("given", "host", "inside"),
    [
        ("data/report.csv", "data/report.csv", "/input/data/report.csv"),
        ("./data/report.csv", "data/report.csv", "/input/data/report.csv"),
        (("fixtures/users.json", "data/users.json"), "fixtures/users.json", "/input/data/users.json"),
        ((Path("fixtures/users.json"), "data/users.json"), "fixtures/users.json", "/input/data/users.json"),
        ((Path("fixtures/users.json"), "/data/users.json"), "fixtures/users.json", "/input/data/users.json"),
        ((Path("fixtures/users.json"), "/input/data/users.json"), "fixtures/users.json", "/input/data/users.json"),
        ((Path("fixtures/users.json"), "data\\users.json"), "fixtures/users.json", "/input/data/users.json"),
        (NamedMount("fixtures", "data"), "fixtures", "/input/data"),
    ],
)
def test_a_mount_is_a_path_or_a_pair(folder: Path, given: Any, host: str, inside: str) -> None:
    for config in (CodeActConfig(file_mounts=given), CodeActConfig(file_mounts=[given])):
        (mount,) = config.get_file_mounts()
        assert (mount.host_path, str(mount.mount_path), mount.mode) == (folder / host, inside, "ro")


def test_a_file_mount_stands_as_it_is_wherever_it_goes(folder: Path) -> None:
    mount = FileMount(folder / "data", "/data", "overlay")
    for config in (CodeActConfig(file_mounts=mount), CodeActConfig(file_mounts=[mount])):
        assert config.get_file_mounts() == [mount]
        assert config.freeze().policy.mounts == (mount,)


def test_two_paths_in_a_list_are_two_mounts(folder: Path) -> None:
    assert places(CodeActConfig(file_mounts=["data", "fixtures"])) == ["/input/data", "/input/fixtures"]


def test_a_mount_at_the_same_path_takes_the_place_of_the_first(folder: Path) -> None:
    config = CodeActConfig(file_mounts=[("data", "a"), ("data", "b"), ("data", "c")])
    config.add_file_mounts(("fixtures", "/input/b/"))
    assert places(config) == ["/input/a", "/input/b", "/input/c"]
    assert config.get_file_mounts()[1].host_path == folder / "fixtures"


@pytest.mark.parametrize("spelled", ["b/x", "/b/x", "/input/b/x", "input/b/x", "./b/x", "b//x/", "b\\x", Path("b/x")])
def test_a_mount_is_removed_by_any_spelling_of_its_path(folder: Path, spelled: Any) -> None:
    config = CodeActConfig(file_mounts=[("data", "a"), ("data", "b/x")])
    config.remove_file_mount(spelled)
    assert places(config) == ["/input/a"]


@pytest.mark.parametrize("spelled", ["/data", "/data/", "//data", "/./data"])
def test_a_mount_outside_input_is_removed_by_its_path_too(folder: Path, spelled: str) -> None:
    config = CodeActConfig(file_mounts=[FileMount("data", "/data"), ("data", "b")])
    config.remove_file_mount(spelled)
    assert places(config) == ["/input/b"]


def test_of_two_mounts_that_a_path_may_mean_the_one_that_lies_there_is_removed(folder: Path) -> None:
    config = CodeActConfig(file_mounts=[FileMount("data", "/data"), ("data", "data")])
    config.remove_file_mount("data")
    assert places(config) == ["/data"]


@pytest.mark.parametrize("path", ["z", "../a", "", "/", "/input", "\0", "/output/a"])
def test_removing_a_mount_that_is_not_there_says_what_is(folder: Path, path: str) -> None:
    config = CodeActConfig(file_mounts=[("data", "a"), ("data", "b")])
    with pytest.raises(KeyError, match=r"no file mount at .*; there are: '/input/a', '/input/b'"):
        config.remove_file_mounts("a", path)
    assert places(config) == ["/input/a", "/input/b"]
    config.remove_file_mounts("a", "b")
    assert places(config) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ("data", "../data"),
        ("data", "/input/../etc"),
        ("data", ""),
        ("data", "/"),
        ("data", "/input"),
        ("data", "a\0b"),
        ("missing", "a"),
        "../data",
        "missing",
        ("data", "a", "b"),
        7,
        Path("data"),
        {"data": "a"},
    ],
)
def test_a_mount_that_makes_no_sense_is_refused_and_none_of_its_list_is_added(folder: Path, wrong: Any) -> None:
    config = CodeActConfig(file_mounts=[("data", "kept")])
    with pytest.raises(InvalidValue):
        config.add_file_mounts([("data", "fine"), wrong])
    assert places(config) == ["/input/kept"]


@pytest.mark.parametrize("inside", ["a/b", "a/b/c/d", "a"])
def test_a_mount_in_another_is_refused(folder: Path, inside: str) -> None:
    config = CodeActConfig(file_mounts=[("data", "a/b/c"), ("data", "a-b"), ("data", "ab")])
    with pytest.raises(InvalidValue, match="lies in the one at"):
        config.add_file_mounts([("data", "fine"), ("fixtures", inside)])
    assert places(config) == ["/input/a/b/c", "/input/a-b", "/input/ab"]


def test_a_mount_is_refused_in_another_of_the_same_list(folder: Path) -> None:
    with pytest.raises(InvalidValue, match="/input/a/b lies in the one at /input/a"):
        CodeActConfig(file_mounts=[("data", "a"), ("fixtures", "a/b")])


# Allowed domains


class NamedDomain(NamedTuple):
    """How a framework has it."""

    target: str
    methods: tuple[str, ...] | None = None


@pytest.mark.parametrize(
    ("given", "methods"),
    [
        ("github.com", None),
        (("github.com", "get"), ("GET",)),
        (("github.com", ["GET", "HEAD"]), ("GET", "HEAD")),
        (("github.com", ("GET", "HEAD")), ("GET", "HEAD")),
        (("github.com", None), None),
        (NamedDomain("github.com"), None),
        (NamedDomain("github.com", ("GET", "HEAD")), ("GET", "HEAD")),
        (AllowedDomain("github.com", ("GET", "HEAD")), ("GET", "HEAD")),
    ],
)
def test_a_domain_is_a_target_or_a_pair_or_an_entry(given: Any, methods: tuple[str, ...] | None) -> None:
    for config in (CodeActConfig(allowed_domains=given), CodeActConfig(allowed_domains=[given])):
        (domain,) = config.get_allowed_domains()
        assert (str(domain), domain.methods) == ("github.com", methods)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("a.com", "GET", "HEAD"), r"'GET' is a method and no host: write \('a.com', \['GET', 'HEAD'\]\)"),
        (("a.com", "get", "head"), r"'get' is a method and no host: write \('a.com', \['get', 'head'\]\)"),
        (("a.com", "GET", "b.com", "POST"), r"write \('a.com', \['GET', 'POST'\]\) .* list for several targets"),
        ([("a.com", "GET", "HEAD")], r"write \('a.com', \['GET', 'HEAD'\]\)"),
        (("GET", "a.com"), "'GET' is a method and no host"),
        (["a.com", "GET"], "'GET' is a method and no host"),
        ("TRACE", "'TRACE' is a method and no host"),
    ],
)
def test_methods_in_the_place_of_hosts_are_refused_and_what_to_write_is_said(given: Any, words: str) -> None:
    config = CodeActConfig(allowed_domains=["kept.com"])
    with pytest.raises(InvalidValue, match=words):
        config.add_allowed_domains(given)
    assert targets(config) == ["kept.com"]


def test_hosts_of_a_list_may_be_called_like_methods() -> None:
    assert targets(CodeActConfig(allowed_domains=["search", "report"])) == ["search", "report"]


@pytest.mark.parametrize("several", [["a.example.com", "b.example.com"], ("a.example.com", "b.example.com")])
def test_two_targets_are_two_domains(several: Any) -> None:
    assert targets(CodeActConfig(allowed_domains=several)) == ["a.example.com", "b.example.com"]


def test_a_domain_of_the_same_target_takes_the_place_of_the_first() -> None:
    config = CodeActConfig(allowed_domains=["a.com", "github.com", "c.com"])
    config.add_allowed_domains(("GitHub.COM.", ["GET"]))
    assert targets(config) == ["a.com", "github.com", "c.com"]
    assert config.get_allowed_domains()[1].methods == ("GET",)


@pytest.mark.parametrize(
    ("added", "removed"),
    [
        ("GitHub.com", "github.com"),
        ("github.com", "GITHUB.COM."),
        ("https://api.github.com/", "HTTPS://API.github.com"),
        ("bücher.example", "xn--bcher-kva.EXAMPLE"),
    ],
)
def test_a_domain_is_removed_by_any_spelling_of_its_target(added: str, removed: str) -> None:
    config = CodeActConfig(allowed_domains=["a.com", added])
    config.remove_allowed_domain(removed)
    assert targets(config) == ["a.com"]


@pytest.mark.parametrize("target", ["z.com", "https://a.com", "a.com/path", "", "no host"])
def test_removing_a_domain_that_is_not_there_says_what_is(target: str) -> None:
    config = CodeActConfig(allowed_domains=["a.com", "b.com"])
    with pytest.raises(KeyError, match=r"no allowed domain .*; there are: 'a\.com', 'b\.com'"):
        config.remove_allowed_domains("a.com", target)
    assert targets(config) == ["a.com", "b.com"]
    config.remove_allowed_domains("b.com", "a.com")
    assert targets(config) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "https://github.com/path",
        "https://me@github.com",
        "https://github.com?q=1",
        ("github.com", []),
        ("github.com", ()),
        ("github.com", "FETCH"),
        "",
        7,
    ],
)
def test_a_domain_that_makes_no_sense_is_refused_and_none_of_its_list_is_added(wrong: Any) -> None:
    config = CodeActConfig(allowed_domains=["kept.com"])
    with pytest.raises(InvalidValue):
        config.add_allowed_domains(["fine.com", wrong])
    with pytest.raises(InvalidValue):
        config.add_allowed_domains(wrong)
    assert targets(config) == ["kept.com"]


# Domains that secrets go to

TOKEN = Secret("github", "0123456789", ["api.github.com"])


def test_a_domain_that_a_secret_needs_is_not_removed_and_no_other_with_it() -> None:
    config = CodeActConfig(allowed_domains=["a.com", "api.github.com"], secrets=[TOKEN])
    with pytest.raises(InvalidValue, match=r"the secret 'github' goes to .*api.github.com.* nothing but 'api.github.c"):
        config.remove_allowed_domains("a.com", "API.github.com")
    with pytest.raises(InvalidValue, match="the secret 'github'"):
        config.clear_allowed_domains()
    assert targets(config) == ["a.com", "api.github.com"]
    config.freeze()


def test_a_domain_that_a_secret_needs_is_removed_where_another_allows_the_same() -> None:
    config = CodeActConfig(allowed_domains=["api.github.com"], secrets=[TOKEN])
    config.add_allowed_domains("*.github.com")
    config.remove_allowed_domain("api.github.com")
    assert [str(domain) for domain in config.freeze().policy.domains] == ["*.github.com"]


def test_a_secret_that_could_go_nowhere_before_keeps_no_domain() -> None:
    config = CodeActConfig(allowed_domains=["a.com"], secrets=[TOKEN])
    config.remove_allowed_domain("a.com")
    config.clear_allowed_domains()
    assert targets(config) == []
