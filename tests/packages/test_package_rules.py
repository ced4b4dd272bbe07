"""Packages are judged by their names in every spelling, by where they come from, and by who brings them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from actbox import InvalidValue
from actbox.core.packages import DEMANDS, PackagePolicy, PackageRule, PackageRules, TrustLevel
from actbox.packages import PackageJudge, ResolvedPackage, parse_npm_requirement, parse_requirement

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RULES = PackageRules(
    auto_approved=["pandas", "Foo.Bar_baz", "requests", "openpyxl", "acme-tools"],
    requires_approval={"torch": "large, wants a GPU"},
    blocked={"keyboard": "captures input", "py_auto.gui": ""},
)
INSTALLED = {"NumPy": "1.26.4", "torch": "2.4.0", "Keyboard": "0.13"}


@pytest.mark.parametrize(
    ("given", "trust"),
    [
        ("pandas>=2", TrustLevel.ALLOW_LISTED),
        ("PANDAS", TrustLevel.ALLOW_LISTED),
        ("requests[security]", TrustLevel.ALLOW_LISTED),
        ("foo-bar.BAZ==1", TrustLevel.ALLOW_LISTED),
        ("foo__bar--baz", TrustLevel.ALLOW_LISTED),
        ("torch<3", TrustLevel.PREBAKED),
        ("torch>=2.5", TrustLevel.REQUIRES_APPROVAL),
        ("numpy", TrustLevel.PREBAKED),
        ("numpy>=2", TrustLevel.REGISTRY),
        ("left-pad", TrustLevel.REGISTRY),
        ("keyboard", TrustLevel.BLOCKED),
        ("Keyboard[all]>0", TrustLevel.BLOCKED),
        ("PY-AUTO--GUI", TrustLevel.BLOCKED),
        (f"keyboard @ git+https://h.example/other@{COMMIT}", TrustLevel.BLOCKED),
        (f"pandas @ git+https://h.example/pandas@{COMMIT}", TrustLevel.GIT),
        ("numpy @ https://h.example/numpy-1.26.4-py3-none-any.whl", TrustLevel.GIT),
        (f"pandas @ git+https://h.example/keyboard.git@{COMMIT}", TrustLevel.BLOCKED),
        (f"pandas @ git+https://h.example/KeyBoard@{COMMIT}#egg=pandas", TrustLevel.BLOCKED),
        ("pandas @ git+https://h.example/all#subdirectory=src/py.auto.gui/", TrustLevel.BLOCKED),
        ("pandas @ https://h.example/keyboard-0.13.tar.gz", TrustLevel.BLOCKED),
        ("pandas @ https://h.example/k%65yboard/archive/v1.zip", TrustLevel.BLOCKED),
    ],
)
def test_a_requirement_has_the_trust_of_its_name_and_of_its_source(given: str, trust: TrustLevel) -> None:
    judgement = PackageJudge(RULES, installed=INSTALLED).judge(parse_requirement(given))
    assert judgement.trust is trust
    assert judgement.demand is DEMANDS[trust]
    assert (judgement.path, judgement.covered) == ((), False)


def test_the_reason_of_the_rule_is_that_of_the_judgement() -> None:
    judge = PackageJudge(RULES)
    assert judge.judge(parse_requirement("Torch")).reason == "large, wants a GPU"
    assert judge.judge(parse_requirement("left-pad")).reason == ""
    hidden = judge.judge(parse_requirement("pandas @ git+https://h.example/keyboard"))
    assert hidden.reason == "its address has the name of keyboard, which is blocked: captures input"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("panda", "pandas"),  # a letter missing
        ("pandass", "pandas"),  # too many
        ("pamdas", "pandas"),  # wrong
        ("padnas", "pandas"),  # swapped
        ("acmetools", "acme-tools"),
        ("acme.too1s", "acme-tools"),
        ("tools-acme", "acme-tools"),
        ("acrne-tools", "acme-tools"),
        ("ac-me-to-ols", "acme-tools"),
        ("fo0.barbaz", "foo-bar-baz"),
        ("reqeusts", "requests"),
        ("beautifulsoup", "beautifulsoup4"),
        ("PIL", "pillow"),
        ("cv2", "opencv-python-headless"),
        ("sklearn", "scikit-learn"),
    ],
)
def test_a_name_in_no_list_that_resembles_a_known_one_is_warned_of(given: str, meant: str) -> None:
    judgement = PackageJudge(RULES).judge(parse_requirement(given))
    assert judgement.trust is TrustLevel.REGISTRY
    (warning,) = judgement.warnings
    assert repr(meant) in warning and repr(given) in warning


@pytest.mark.parametrize("given", ["pandas", "Pandas", "pillow", "torch", "pndsa", "keyboards", "zzz", "a", "numpy"])
def test_names_that_are_listed_known_or_far_away_are_not_warned_of(given: str) -> None:
    assert PackageJudge(RULES).judge(parse_requirement(given)).warnings == ()


def test_a_package_of_the_environment_is_not_taken_for_a_slip() -> None:
    assert PackageJudge(RULES, installed={"panda": "1"}).judge(parse_requirement("panda")).warnings == ()


def test_a_listed_name_is_not_taken_for_a_slip() -> None:
    judge = PackageJudge(PackageRules(auto_approved=["pandas"], requires_approval=["panda"]))
    assert judge.judge(parse_requirement("panda")).warnings == ()


@pytest.mark.parametrize(
    ("address", "is_fixed"),
    [
        (f"git+https://h.example/x@{COMMIT}", True),
        (f"git+https://h.example/x@{COMMIT}#subdirectory=a", True),
        ("git+https://h.example/x", False),
        ("git+https://h.example/x@main", False),
        (f"git+https://h.example/x@{COMMIT}0", False),
        ("https://h.example/x.zip", False),
        (f"https://h.example/x.zip#sha256={'0' * 64}", True),
        ("https://h.example/x.zip#sha256=0", False),
    ],
)
def test_an_address_whose_content_may_change_is_warned_of(address: str, is_fixed: bool) -> None:
    judgement = PackageJudge(RULES).judge(parse_requirement(f"zzzx @ {address}"))
    assert [("its content may change" in warning) for warning in judgement.warnings] == [True] * (not is_fixed)


def resolved(name: str, *requires: str, version: str = "1", address: str = "") -> ResolvedPackage:
    return ResolvedPackage(name=name, version=version, requires=requires, address=address)


def test_what_a_package_brings_is_covered_by_the_decision_on_it_unless_a_list_has_it() -> None:
    judged = PackageJudge(RULES).judge_resolved(
        [parse_requirement("openpyxl"), parse_requirement("torch")],
        [
            resolved("openpyxl", "Et_XmlFile"),
            resolved("et-xmlfile", "deep", "KEYBOARD"),
            resolved("deep", "et.xmlfile", "openpyxl"),
            resolved("Keyboard", "below"),
            resolved("torch", "numpy", "requests"),
            resolved("numpy"),
            resolved("requests"),
            resolved("below"),
            resolved("lonely"),
            resolved("secret", address="git+https://h.example/secret"),
        ],
    )
    assert [(each.name, each.trust, each.covered, each.path) for each in judged] == [
        ("openpyxl", TrustLevel.ALLOW_LISTED, False, ()),
        ("torch", TrustLevel.REQUIRES_APPROVAL, False, ()),
        ("et-xmlfile", TrustLevel.ALLOW_LISTED, True, ("openpyxl",)),
        ("numpy", TrustLevel.REQUIRES_APPROVAL, True, ("torch",)),
        ("requests", TrustLevel.ALLOW_LISTED, False, ("torch",)),
        ("deep", TrustLevel.ALLOW_LISTED, True, ("openpyxl", "et-xmlfile")),
        ("keyboard", TrustLevel.BLOCKED, False, ("openpyxl", "et-xmlfile")),
        ("below", TrustLevel.REGISTRY, False, ("openpyxl", "et-xmlfile", "keyboard")),
        ("lonely", TrustLevel.REGISTRY, False, ()),
        ("secret", TrustLevel.GIT, False, ()),
    ]
    assert judged[3].reason == "large, wants a GPU"
    assert judged[2].requirement == "et-xmlfile==1"


def test_an_environment_vouches_for_the_versions_that_it_has_and_for_nothing_newer() -> None:
    judge = PackageJudge(RULES, installed={"base": "1", "old": "1", "kept": "1"})
    judged = judge.judge_resolved(
        [parse_requirement("base[more]"), parse_requirement("old"), parse_requirement("pandas")],
        [
            resolved("base", "extra", "kept", "shared"),
            resolved("extra"),
            resolved("kept"),
            resolved("old", version="2"),
            resolved("pandas", "shared"),
            resolved("shared"),
        ],
    )
    assert {each.name: (each.trust, each.covered) for each in judged} == {
        "base": (TrustLevel.PREBAKED, False),
        "old": (TrustLevel.REGISTRY, False),
        "pandas": (TrustLevel.ALLOW_LISTED, False),
        "extra": (TrustLevel.REGISTRY, False),
        "kept": (TrustLevel.PREBAKED, False),
        "shared": (TrustLevel.ALLOW_LISTED, True),
    }


def test_a_name_that_resolves_to_an_address_is_judged_by_that() -> None:
    (judgement,) = PackageJudge(RULES).judge_resolved(
        [parse_requirement("pandas")], [resolved("pandas", address="git+https://h.example/pandas")]
    )
    assert judgement.trust is TrustLevel.GIT


def test_a_second_package_of_a_name_cannot_hide_behind_the_first() -> None:
    hidden = resolved("Pandas", address="git+https://h.example/pandas")
    with pytest.raises(InvalidValue, match="resolved twice"):
        PackageJudge(RULES).judge_resolved([parse_requirement("pandas")], [resolved("pandas"), hidden])


def test_npm_names_compare_as_they_are() -> None:
    rules = PackageRules(auto_approved=["lodash", "@acme/tools"], blocked=["event-stream"])
    judge = PackageJudge(rules, language="javascript", installed={"axios": "1.7.2"})
    for given, trust in (
        ("lodash@^4.17", TrustLevel.ALLOW_LISTED),
        ("@acme/tools", TrustLevel.ALLOW_LISTED),
        ("@evil/lodash", TrustLevel.REGISTRY),
        ("Lodash", TrustLevel.REGISTRY),
        ("event.stream", TrustLevel.REGISTRY),
        ("event-stream@3.3.6", TrustLevel.BLOCKED),
        ("axios@^1.6", TrustLevel.PREBAKED),
        ("axios@^2", TrustLevel.REGISTRY),
        ("lodash@git+https://h.example/lodash", TrustLevel.GIT),
        ("lodash@git+https://h.example/event-stream.git", TrustLevel.BLOCKED),
    ):
        assert judge.judge(parse_npm_requirement(given)).trust is trust, given
    assert "'lodash'" in judge.judge(parse_npm_requirement("lodahs")).warnings[0]
    assert "'@acme/tools'" in judge.judge(parse_npm_requirement("acme-tools")).warnings[0]
    fixed = parse_npm_requirement(f"zzzx@git+https://h.example/x#{COMMIT}")
    assert judge.judge(fixed).warnings == ()


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ({"auto_approved": ["Foo.Bar"], "blocked": ["foo--bar"]}, "'foo--bar' is in auto_approved and in blocked"),
        ({"requires_approval": ["a"], "auto_approved": ["A"]}, "'a' is in auto_approved and in requires_approval"),
        ({"blocked": ["keyboard>=0"]}, "name of a package alone.*'keyboard>=0'"),
        ({"blocked": ["requests[security]"]}, "alone"),
        ({"blocked": ["keyboard "]}, "alone"),
        ({"blocked": ["\u212aeyboard"]}, r"\\u212aeyboard"),
        ({"blocked": [""]}, "alone"),
        ({"blocked": [None]}, "alone"),
        ({"blocked": {"keyboard": None}}, "reason as text"),
        ({"blocked": "keyboard"}, r"\['pandas'\]"),
        ({"blocked": None}, r"\['pandas'\]"),
    ],
)
def test_rules_that_could_never_hold_are_refused_when_they_are_made(lists: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        PackageRules(**lists)


def test_a_name_may_stand_twice_in_one_list() -> None:
    assert len(PackageRules(blocked=["Foo_bar", PackageRule("foo-bar", "why")]).blocked) == 2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"python": PackageRules(blocked=["@acme/tools"])}, "put it into nodejs"),
        ({"python": ["pandas"]}, r"PackageRules\(…\)"),
        ({"install_seconds": 0}, "install_seconds"),
        ({"install_seconds": None}, "install_seconds"),
        ({"review_days": float("nan")}, "review_days"),
        ({"review_days": True}, "review_days"),
    ],
)
def test_a_package_policy_names_the_field_that_is_wrong(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        PackagePolicy(**fields)
    assert PackagePolicy(nodejs=PackageRules(blocked=["@acme/tools"])).review_days is None


@pytest.mark.slow
def test_many_requirements_are_judged_by_long_lists_in_bounded_time() -> None:
    judge = PackageJudge(PackageRules(auto_approved=[f"package-number-{n:05}" for n in range(20_000)]))
    asked = [parse_requirement(f"packages-numbr-{n}") for n in range(499)] + [parse_requirement("a" * 214)]
    chain = [resolved(f"link-{n}", f"link-{n + 1}") for n in range(2_000)]
    begun = time.process_time()
    judged = judge.judge_resolved([*asked, parse_requirement("link-0")], chain)
    assert len(judged[-1].path) == 1_999
    assert time.process_time() - begun < 10
