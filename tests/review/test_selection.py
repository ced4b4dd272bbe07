"""Of very many findings a thousand are listed, and what is decided is what would be decided on all of them."""

from __future__ import annotations

import random

import pytest

from actbox.codeact.review_decision import decide
from actbox.review import RULES, Review, Rules, Severity, Verdict, review, tool_calls
from actbox.review import rules as review_rules
from actbox.review.source import Lines

LINES = (
    "import m{n}",
    "import os",
    "eval('{n}')",
    "open('/etc/f{n}')",
    "open('/etc/passwd', 'w')",
    "call_tool('t{n}')",
    "call_tool(input())",
    "x.__globals__",
    "import pickle; pickle.loads(b)",
    "import socket; socket.socket()",
)


def unbounded(source: str, rules: Rules, monkeypatch: pytest.MonkeyPatch) -> Review:
    with monkeypatch.context() as patched:
        patched.setattr(review_rules, "MAX_FINDINGS", 10**9)
        return review(source, rules)


@pytest.mark.slow
def test_a_thousand_findings_are_listed_and_one_says_how_many_more_there_are() -> None:
    found = review("import os\nx = [\n" + "eval('1'),\n" * 20_000 + "]\n" + "os.system('x')\n" * 3)
    assert len(found.findings) == review_rules.MAX_FINDINGS + 1 == 1001
    *listed, others = found.findings
    assert [finding.line for finding in listed] == sorted(finding.line for finding in listed)
    assert {finding.rule for finding in listed} == {"import", "code", "process"}
    assert others.message == ("19,004 more findings are not listed, of which this is one: code 19,002, process 2")
    assert (others.rule, others.subject, others.severity) == ("code", "builtins.eval", Severity.HIGH)
    assert others.to_dict()["source"] == "eval('1'),"
    assert others.stands_for == others.to_dict()["stands_for"] == 19_004


def test_as_many_as_are_listed_need_no_other() -> None:
    found = review("eval('1')\n" * review_rules.MAX_FINDINGS)
    assert len(found.findings) == review_rules.MAX_FINDINGS
    assert all("not listed" not in finding.message for finding in found.findings)


@pytest.mark.slow
def test_one_that_a_rule_is_about_is_listed_among_very_many() -> None:
    source = "".join(f"import m{n}\n" for n in range(5000))
    found = review(source, Rules({"import:m4567": "block", "import:m4568": "ask"}))
    assert found.verdict is Verdict.BLOCK
    judged = {finding.subject: found.verdict_on(finding) for finding in found.findings[:-1]}
    assert (judged["m4567"], judged["m4568"]) == (Verdict.BLOCK, Verdict.ASK)
    assert found.verdict_on(found.findings[-1]) is Verdict.ALLOW


@pytest.mark.slow
def test_what_stands_for_others_is_judged_as_they_are() -> None:
    source = "".join(f"import m{n}\n" for n in range(3000))
    assert review(source, Rules({"import": "allow"}, otherwise="block")).verdict is Verdict.ALLOW


def test_each_severity_is_listed_whatever_the_verdicts() -> None:
    source = "".join(f"import m{n}\n" for n in range(3000)) + "eval('1')\n"
    found = review(source, Rules({"import": "block", "code": "allow"}))
    assert ("code", Severity.HIGH) in {(finding.rule, finding.severity) for finding in found.findings[:-1]}


@pytest.mark.parametrize("seed", range(60))
def test_what_is_decided_is_the_same_with_and_without_the_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    lines = rng.sample(LINES, rng.randint(1, len(LINES)))
    source = "\n".join(rng.choice(lines).format(n=rng.randint(0, 40)) for _ in range(120))
    verdicts = {rule: rng.choice(list(Verdict)) for rule in rng.sample(sorted(RULES), rng.randint(0, 6))}
    verdicts |= {f"import:m{rng.randint(0, 40)}": rng.choice(list(Verdict)) for _ in range(3)}
    rules = Rules(verdicts, rng.choice([None, "allow", "block"]))
    whole = unbounded(source, rules, monkeypatch)
    monkeypatch.setattr(review_rules, "MAX_FINDINGS", 30)
    cut = review(source, rules)
    assert len(cut.findings) <= 34 < len(whole.findings)
    for verdict in Verdict:
        assert sum(f.stands_for for f in cut.findings if cut.verdict_on(f) is verdict) == sum(
            whole.verdict_on(finding) is verdict for finding in whole.findings
        )
    assert cut.verdict is whole.verdict
    assert {finding.rule for finding in cut.findings} == {finding.rule for finding in whole.findings}
    assert {finding.severity for finding in cut.findings} == {finding.severity for finding in whole.findings}
    assert {
        finding for finding in cut.findings if finding.stands_for == 1 and "not listed" not in finding.message
    } < set(whole.findings)
    short, long = decide(cut), decide(whole)
    assert (short.error is None) == (long.error is None)
    assert bool(short.question) == bool(long.question)
    assert bool(short.warnings) == bool(long.warnings)


@pytest.mark.slow
def test_calls_of_tools_are_all_told() -> None:
    calls = tool_calls("call_tool('search')\n" * 3000, ["search"])
    assert len(calls) == 3000


def test_a_line_is_looked_at_once_however_often_it_is_shown() -> None:
    lines = Lines("  " + "eval('é'); " * 1000 + "\nshort")
    assert lines.shown(1) is lines.shown(1)
    assert len(lines.shown(1)) == 200 and lines.shown(2) == "short"
    assert lines.shown(0) == lines.shown(3) == ""


@pytest.mark.parametrize("text", ["", "abc", "é = 'ü'; x", "日本 x 🎉 y\ufe0f", "\u00e9" * 50])
def test_a_column_counts_characters(text: str) -> None:
    lines = Lines(text)
    for column in range(len(text) + 1):
        assert lines.column(1, len(text[:column].encode())) == column + 1
