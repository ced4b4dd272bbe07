"""A policy chooses a verdict for each rule, and for subjects within a rule."""

from __future__ import annotations

from typing import Any

import pytest

from actbox import InvalidValue
from actbox.review import RULES, Rules, Verdict


def test_the_longest_subject_that_fits_decides() -> None:
    rules = Rules({"import": "ask", "import:urllib": "block", "import:urllib.parse": "allow"})
    assert rules.verdict("import", "json") is Verdict.ASK
    assert rules.verdict("import", "urllib") is Verdict.BLOCK
    assert rules.verdict("import", "urllib.request") is Verdict.BLOCK
    assert rules.verdict("import", "urllib.parse") is Verdict.ALLOW
    assert rules.verdict("import", "urllib3") is Verdict.ASK


def test_a_rule_that_is_not_named_keeps_its_own_verdict_or_gets_the_other_one() -> None:
    assert all(Rules().verdict(name) is rule.verdict for name, rule in RULES.items())
    assert all(Rules(otherwise="block").verdict(name) is Verdict.BLOCK for name in RULES)


def test_verdicts_are_ordered_from_mild_to_strict() -> None:
    assert sorted([Verdict.BLOCK, Verdict.ASK, Verdict.WARN, Verdict.ALLOW]) == [
        Verdict.ALLOW,
        Verdict.WARN,
        Verdict.ASK,
        Verdict.BLOCK,
    ]


@pytest.mark.parametrize(
    ("verdicts", "named"),
    [({"imports": "ask"}, "imports"), ({"import:": "ask"}, "import:"), ({"import": "deny"}, "deny"), ({1: "ask"}, "1")],
)
def test_a_rule_or_verdict_that_there_is_not_is_named(verdicts: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        Rules(verdicts)


@pytest.mark.parametrize("given", ["block", None, ["process"], {"process"}, 5])
def test_what_is_no_dict_of_verdicts_is_refused(given: Any) -> None:
    with pytest.raises(InvalidValue, match=r"Rules takes a dict such as \{'process': 'block'\}, not "):
        Rules(given)
