"""Static review of a program before it runs: its imports, its dangerous operations, the tools that it names.

    from actbox import review

    found = review.review("from os import system as s\\ns('ls')")
    assert [finding.subject for finding in found.findings] == ["os", "os.system"]
    assert review.tool_calls("call_tool('search', query='tea')")[0].arguments == {"query": "tea"}

A review is advice on top of isolation, never instead of it. No analysis can tell what every Python program does. If
this review cannot tell, it says so (the rules `dynamic`, `introspection`, `not-read`), but a program without findings
is not therefore safe to run outside a sandbox. The review reads only the one program: neither the modules that the
program imports, nor the bindings of earlier programs in a session. It runs nothing of the program.
"""

from .reading import check_readable, review, tool_calls
from .rules import PRESETS, RULES, Finding, Review, Rule, Rules, Severity, ToolCall, Verdict

__all__ = [
    "PRESETS",
    "RULES",
    "Finding",
    "Review",
    "Rule",
    "Rules",
    "Severity",
    "ToolCall",
    "Verdict",
    "check_readable",
    "review",
    "tool_calls",
]
