"""Static review of a program before it runs: its imports, its dangerous operations, the tools that it names.

    from actbox import review

    found = review.review("from os import system as s\\ns('ls')")
    assert [finding.subject for finding in found.findings] == ["os", "os.system"]
    assert review.tool_calls("call_tool('search', query='tea')")[0].arguments == {"query": "tea"}

A review is advice on top of isolation, never instead of it. Python can be written so that no analysis can tell what it
does. Where this one cannot, it says so (the rules `dynamic`, `introspection`, `not-read`), but a review without
findings does not make a program safe to run outside a sandbox. It reads only the one program: neither the modules that
it imports, nor the bindings of earlier programs in a session. Nothing of the program is run.
"""

from .reading import review, tool_calls
from .rules import RULES, Finding, Review, Rule, Rules, Severity, ToolCall, Verdict

__all__ = ["RULES", "Finding", "Review", "Rule", "Rules", "Severity", "ToolCall", "Verdict", "review", "tool_calls"]
