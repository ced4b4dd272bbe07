"""Reading a program before it runs: what it imports, which dangerous things it does, which tools it names.

    from actbox import review

    found = review.review("from os import system as s\\ns('ls')")
    assert [finding.subject for finding in found.findings] == ["os", "os.system"]
    assert review.tool_calls("call_tool('search', query='tea')")[0].arguments == {"query": "tea"}

A review is advice on top of isolation, never instead of it. Python can be written so that no reader can tell what it
does; where this one cannot, it says so (the rules `dynamic`, `introspection`, `not-read`), but a review without
findings does not make a program safe to run outside a sandbox. It reads the one program: not the modules that it
imports, not what earlier programs of a session have bound. Nothing of the program is run.
"""

from .findings import Finding, Review, ToolCall
from .reading import review, tool_calls
from .rules import RULES, Rule, Rules, Severity, Verdict

__all__ = ["RULES", "Finding", "Review", "Rule", "Rules", "Severity", "ToolCall", "Verdict", "review", "tool_calls"]
