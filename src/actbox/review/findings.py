"""What a review comes to: findings with their places, the tools that a program names, and one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .rules import Rules, Severity, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a program does, and where it says so.

    `subject` is what the finding is about: a module, a function by its full name whatever the program calls it, a path,
    a tool; it is empty where there is no such thing. `line` and `column` count from 1, columns in characters.
    `source` is that line of the program without indentation, cut to 200 characters. `stands_for` is above 1 where there
    are too many findings to list: it is how many this one is there for, of the same verdict.
    """

    rule: str
    severity: Severity
    line: int
    column: int
    message: str
    subject: str = ""
    source: str = ""
    stands_for: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "subject": self.subject,
            "source": self.source,
            "stands_for": self.stands_for,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool that a program may make.

    `tool` is the tool's name, or `None` where the program chooses at run time, also by code that this reader cannot
    follow: then it may be any tool of the run. `arguments` has the arguments that are literals, by the name of the
    parameter, or by position (`"0"`) where that name is not known; `complete` says that there are no others.
    `dynamic` says that the call itself could not be read: its tool is unknown, or the tool's function is handed on as a
    value and called elsewhere with arguments that are not known.
    """

    tool: str | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False
    line: int = 1
    column: int = 1
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """The findings about one program, in the order of its lines, and the rules that judge them.

    Where there are very many the last one, of each verdict, stands for those that are not listed; they were chosen by
    these rules.
    """

    findings: tuple[Finding, ...]
    rules: Rules = field(default_factory=Rules)

    @property
    def verdict(self) -> Verdict:
        """The strictest verdict that any finding gets; `ALLOW` where there are none."""
        return max((self.verdict_on(finding) for finding in self.findings), default=Verdict.ALLOW)

    def verdict_on(self, finding: Finding) -> Verdict:
        """Return what the rules say about one finding."""
        return self.rules.verdict(finding.rule, finding.subject)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: the verdict, and each finding with its own."""
        return {
            "verdict": self.verdict.value,
            "findings": [{**finding.to_dict(), "verdict": self.verdict_on(finding).value} for finding in self.findings],
        }
