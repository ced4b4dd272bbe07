"""Requirements of JavaScript programs have a name of npm's registry, and versions or a Git address."""

from __future__ import annotations

import pytest

from actbox import InvalidValue
from actbox.packages import parse_npm_requirement, read_npm_requirements


@pytest.mark.parametrize(
    ("given", "name", "accepted", "refused"),
    [
        ("lodash", "lodash", ("4.17.21", "0.0.1", "5.0.0-rc.1", "5.0.0-odd-1"), ()),
        (" @scope/name ", "@scope/name", ("1.0.0",), ()),
        ("lodash@latest", "lodash", ("4.17.21",), ()),
        ("lodash@4.17.21", "lodash", ("4.17.21",), ("4.17.20", "4.17.22")),
        ("@scope/name@^1.2.3", "@scope/name", ("1.2.3", "1.99.0"), ("1.2.2", "2.0.0")),
        ("x@^0.2.3", "x", ("0.2.9",), ("0.3.0", "0.2.2")),
        ("x@^0.0.3", "x", ("0.0.3",), ("0.0.4",)),
        ("x@~1.2.3", "x", ("1.2.9",), ("1.3.0",)),
        ("x@~1", "x", ("1.9.0",), ("2.0.0",)),
        ("x@1.x", "x", ("1.0.0", "1.9.9"), ("2.0.0", "0.9.0")),
        ("x@*", "x", ("9.0.0",), ()),
        ("x@>1", "x", ("2.0.0",), ("1.5.0",)),
        ("x@<=2.3", "x", ("2.3.9",), ("2.4.0",)),
        ("x@>=1.2 <2", "x", ("1.2.0", "1.9.0"), ("1.1.9", "2.0.0")),
        ("x@ 1.0.0 - 2.3 ", "x", ("1.0.0", "2.3.7"), ("0.9.9", "2.4.0")),
        ("x@^1 || 3.0.0", "x", ("1.4.0", "3.0.0"), ("2.0.0", "3.0.1")),
        ("x@19.0.0-rc-abc-1", "x", ("19.0.0-rc-abc-1",), ("19.0.0",)),
    ],
)
def test_versions_are_those_of_npms_ranges(
    given: str, name: str, accepted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    requirement = parse_npm_requirement(given)
    assert (requirement.name, requirement.normalized, requirement.language) == (name, name, "javascript")
    assert [version for version in (*accepted, *refused) if requirement.accepts(version)] == list(accepted)
    assert parse_npm_requirement(requirement.text) == requirement


def test_a_git_address_is_kept_apart_from_versions() -> None:
    requirement = parse_npm_requirement("x@git+https://h.example/a/b.git#main")
    assert requirement.address == "git+https://h.example/a/b.git#main"


@pytest.mark.parametrize(
    "given",
    [
        *("", "-g", "--registry=https://h.example", "./x", "../x", "/x", "~/x", "a/b", "@scope", "@scope/", "@/x"),
        *("github:a/b", "git+https://h.example/x", "https://h.example/x.tgz", "npm:lodash", "x@npm:lodash"),
        *("x@file:../y", "x@link:y", "x@workspace:*", "x@a/b", "x@https://h.example/x.tgz", "x@./y", "x@github:a/b"),
        *("x@git+ssh://git@h.example/x", "x@git+file:///x", "x@git+https://u:p@h.example/x"),
        *("x@git+https://h.example/x#--upload-pack=sh", "x@next", "x@>", "x@1.2.3.4", "x@^", "x@1x", "x@1 - "),
        *("node_modules", "favicon.ico", "_x", ".x", "x y", "l\u043edash", "lodash\n", "lodash\u200b", "x" * 215),
        "x@" + "||".join(["^1"] * 40),
    ],
)
def test_all_else_is_refused_by_name(given: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_npm_requirement(given)
    assert ascii(given.strip(" "))[:5] in str(caught.value) or not given
    assert str(caught.value).isprintable()


def test_an_alias_is_called_an_alias() -> None:
    with pytest.raises(InvalidValue, match="has an alias, a path or an address in place of versions"):
        parse_npm_requirement("react@npm:lodash")


def test_a_list_has_each_package_once() -> None:
    assert [str(each) for each in read_npm_requirements(["lodash", "axios@^1", "lodash"])] == ["lodash", "axios@^1"]
    with pytest.raises(InvalidValue, match=r"'lodash' and 'lodash@\^4' name one package"):
        read_npm_requirements(["lodash", "lodash@^4"])
    with pytest.raises(InvalidValue, match="more than 500"):
        read_npm_requirements(f"p{n}" for n in range(501))
