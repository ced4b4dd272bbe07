"""Dependencies that a program's source, a `pyproject.toml` and a `uv.lock` declare."""

from __future__ import annotations

import time
from typing import Any

import pytest

from actbox import InvalidValue
from actbox.packages import read_project, read_script, read_uv_lock
from actbox.packages.project_files import BadScriptBlock

LINUX = {"sys_platform": "linux"}


def texts(declared: Any) -> list[str]:
    return [str(each) for each in declared.requirements]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print(1)\n", []),
        ('# /// script\n# dependencies = ["pandas>=2"]\n# ///\n', ["pandas>=2"]),
        ('#!/usr/bin/python\r\n# /// script\r\n# dependencies = [\r\n#   "a",\r\n#\r\n# ]\r\n# ///\r\n', ["a"]),
        ('# /// script\n# dependencies = ["a"]\n', []),  # no end
        ('# /// script\n# dependencies = ["a"]\n\n# ///\n', []),  # an end outside the block
        ('# /// script\n# dependencies = ["a"]\n#///\n# ///\n', []),  # `#///` ends the comment
        ('  # /// script\n# dependencies = ["a"]\n# ///\n', []),
        ('# /// script\n# dependencies = ["a", """\n# ///\n# """[:0]\n', None),  # TOML that never ends
        ('# /// script\n# dependencies = ["""b\\\n# """]\n# ///\nx = 1\n# ///\n', ["b"]),
        ('# /// other\n# /// script\n# dependencies = ["a"]\n# ///\n', []),  # inside of another block
        ('# /// other\n# x = 1\n# ///\n\n# /// script\n# dependencies = ["a"]\n# ///\n', ["a"]),
        ('# /// script\n# dependencies = ["a; sys_platform == \'win32\'", "b"]\n# ///\n', ["b"]),
    ],
)
def test_a_script_block_is_read_where_pep_723_has_one(source: str, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(InvalidValue, match="the script block is not TOML"):
            read_script(source, markers=LINUX)
    else:
        assert texts(read_script(source, markers=LINUX)) == found


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("dependencies = 'pandas'", "the script block's dependencies must be a list"),
        ("dependencies = [5]", "must be a list"),
        ("dependencies = ['-r x']", "'-r x' is an option"),
        ("requires-python = 3.11", "requires-python is versions"),
        ("requires-python = '>=three'", "requires-python is versions"),
        ("dependencies = ['Foo.Bar']\n[tool.uv.sources]\nfoo-bar = { path = '/srv' }", "'Foo.Bar' has another source"),
        ("x = " + "[" * 5_000, "not TOML"),
        ("x = " + "9" * 5_000, "not TOML"),
        ("a = 1\n# ///\n\n# /// script\n# b = 1", "2 blocks"),
    ],
)
def test_a_bad_script_block_is_refused(block: str, reason: str) -> None:
    lines = "\n".join(line if line.startswith("#") or not line else f"# {line}" for line in block.split("\n"))
    with pytest.raises(InvalidValue, match=reason):
        read_script(f"# /// script\n{lines}\n# ///\n")


@pytest.mark.parametrize("mistake", ["dependencies = [5]", "dependencies = [kit]"])
def test_a_mistake_in_a_script_block_has_its_line_in_the_program(mistake: str) -> None:
    with pytest.raises(BadScriptBlock) as caught:
        read_script(f"x = 1\n# /// script\n# requires-python = '>=3.11'\n# {mistake}\n# ///\n")
    assert caught.value.line == 4


def test_a_script_says_which_python_it_needs() -> None:
    assert read_script('# /// script\n# requires-python = ">=3.12"\n# ///').python.contains("3.13")
    assert read_script("").python.contains("3.9")


@pytest.mark.slow
def test_blocks_without_end_are_read_in_linear_time() -> None:
    begun = time.process_time()
    assert texts(read_script("# /// script\n" * 200_000)) == []
    assert texts(read_script("# /// script\n#\n\n" * 200_000)) == []
    assert time.process_time() - begun < 10


PROJECT = """
[project]
name = "Shop.Front"
requires-python = ">=3.11"
dependencies = ["pandas>=2", "colorama; sys_platform == 'win32'"]
[project.optional-dependencies]
web = ["httpx"]
Xl_Files = ["openpyxl"]
all = ["shop_front[web,xl-files]", "shop-front[all]"]
[dependency-groups]
test = ["pytest", {include-group = "Lint"}]
lint = ["ruff", {include-group = "test"}]
odd = [{path = "."}]
"""


@pytest.mark.parametrize(
    ("extras", "groups", "found"),
    [
        ((), (), ["pandas>=2"]),
        (("WEB",), (), ["pandas>=2", "httpx"]),
        (("all",), (), ["pandas>=2", "httpx", "openpyxl"]),
        ((), ("test",), ["pandas>=2", "pytest", "ruff"]),
    ],
)
def test_a_project_has_its_dependencies_and_on_request_the_others(
    extras: tuple[str, ...], groups: tuple[str, ...], found: list[str]
) -> None:
    declared = read_project(PROJECT, extras=extras, groups=groups, markers=LINUX)
    assert texts(declared) == found
    assert str(declared.python) == ">=3.11"


@pytest.mark.parametrize(
    ("text", "requested", "reason"),
    [
        (PROJECT, {"extras": ["webb"]}, "no extra 'webb'; it has all, web, xl-files"),
        (PROJECT, {"groups": ["web"]}, "no dependency group 'web'; it has lint, odd, test"),
        (PROJECT, {"groups": ["odd"]}, "dependency-groups.odd"),
        ("[project]\ndynamic = ['dependencies']", {}, "dependencies are dynamic"),
        ("[project]\ndynamic = ['optional-dependencies']", {"extras": ["a"]}, "optional-dependencies are dynamic"),
        ("project = 5", {}, "project must be a table"),
        ("[project", {}, "pyproject.toml is not TOML"),
        ("[project]\ndependencies = ['a @ file:///x']", {}, "'file'"),
        ("x = 1\n" * 200_000, {}, "more than 1,000,000 characters"),
    ],
)
def test_a_bad_project_is_refused(text: str, requested: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        read_project(text, **requested)


def test_groups_that_include_each_other_many_times_are_read_once() -> None:
    includes = (f"{{include-group = 'g{n + 1}'}}, " * 9 for n in range(60))
    groups = "".join(f"g{n} = [{include} 'p{n}']\n" for n, include in enumerate(includes))
    text = f"[dependency-groups]\n{groups}g60 = []\n"
    assert len(read_project(text, groups=["g0"]).requirements) == 60


LOCK = f"""
version = 1
[[package]]
name = "shop"
version = "0.1"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "requests", extra = ["socks"] }},
    {{ name = "colorama", marker = "sys_platform == 'win32'" }},
]
[package.optional-dependencies]
xl = [{{ name = "openpyxl" }}]
[package.dev-dependencies]
dev = [{{ name = "fork" }}]
[[package]]
name = "Requests"
version = "2.34"
source = {{ registry = "r" }}
dependencies = [{{ name = "idna" }}]
sdist = {{ url = "u", hash = "sha256:{"a" * 64}" }}
wheels = [{{ url = "u", hash = "sha256:{"b" * 64}" }}]
[package.optional-dependencies]
socks = [{{ name = "pysocks" }}]
other = [{{ name = "colorama" }}]
[[package]]
name = "idna"
version = "3"
source = {{ git = "https://h.example/idna?rev=main#{"c" * 40}" }}
[[package]]
name = "pysocks"
version = "1"
source = {{ registry = "r" }}
dependencies = [{{ name = "requests" }}]
[[package]]
name = "openpyxl"
version = "3"
source = {{ path = "../openpyxl.whl" }}
[[package]]
name = "colorama"
version = "1"
source = {{ registry = "r" }}
[[package]]
name = "fork"
version = "1"
source = {{ registry = "r" }}
resolution-markers = ["sys_platform == 'win32'"]
[[package]]
name = "fork"
version = "2"
source = {{ registry = "r" }}
resolution-markers = ["sys_platform != 'win32'"]
"""


def test_a_lock_has_what_the_project_needs_on_this_platform() -> None:
    found = read_uv_lock(LOCK, groups=["Dev"], markers=LINUX)
    assert [(each.name, each.version, each.requires) for each in found] == [
        ("Requests", "2.34", ("idna", "pysocks")),
        ("fork", "2", ()),
        ("idna", "3", ()),
        ("pysocks", "1", ("requests",)),
    ]
    assert found[0].hashes == ("sha256:" + "b" * 64, "sha256:" + "a" * 64)
    assert found[2].address == f"git+https://h.example/idna@{'c' * 40}"
    elsewhere = read_uv_lock(LOCK, markers={"sys_platform": "win32"})
    assert "colorama" in [each.name for each in elsewhere]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("version = 1\n", "version = 2\n", "format other than version 1"),
        ('name = "idna"\nversion', 'name = "odd"\nversion', "lacks the package 'idna'"),
        ('{ virtual = "." }', '{ registry = "r" }', "has no project"),
        ('{ virtual = "." }', '{ editable = "/srv/shop" }', "has no project"),
        ("https://h.example/idna", "ssh://h.example/idna", r"git\+ssh"),
        ("sha256:bb", "sha256:../", "bad hash of 'Requests'"),
        ('version = "2.34"', 'version = "2; x"', "cannot be read"),
        ('name = "pysocks"', 'name = "py/socks"', "bad name 'py/socks'"),
        ("sys_platform == 'win32'\" },", "colour == 'red'\" },", "cannot be read"),
        ('source = { virtual = "." }', "source = 5", "cannot be read"),
        ("version = 1\n", "version = 1\npackage = 5\n", "uv.lock is not TOML|cannot be read"),
    ],
)
def test_a_bad_lock_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        read_uv_lock(LOCK.replace(old, new), markers=LINUX)


def test_a_path_of_another_machine_is_refused_where_it_is_needed() -> None:
    with pytest.raises(InvalidValue, match="'openpyxl' as a path"):
        read_uv_lock(LOCK, extras=["xl"], markers=LINUX)
