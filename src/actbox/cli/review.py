"""`actbox review`: reads programs without running them, prints the findings as tables or JSON, and exits with the
verdict's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from actbox.core.program import Program
from actbox.review import Review, ToolCall, Verdict, review, tool_calls

from .arguments import language_of_file, read_program, rules_from
from .errors import BROKEN_PIPE
from .output import print_document

_EXIT_CODES: Final = {Verdict.ALLOW: 0, Verdict.WARN: 0, Verdict.ASK: 3, Verdict.BLOCK: 1}
_COLOURS: Final = {Verdict.ALLOW: "dim", Verdict.WARN: "yellow", Verdict.ASK: "magenta", Verdict.BLOCK: "red"}


@dataclass(frozen=True, slots=True)
class _Reviewed:
    file: str
    review: Review
    calls: tuple[ToolCall, ...]

    def to_dict(self) -> dict[str, Any]:
        calls = [
            {
                "tool": call.tool,
                # A Python literal need not be valid JSON.
                "arguments": {name: repr(value) for name, value in call.arguments.items()},
                "complete": call.complete,
                "line": call.line,
                "column": call.column,
                "dynamic": call.dynamic,
            }
            for call in self.calls
        ]
        return {"file": self.file, **self.review.to_dict(), "tool_calls": calls}


def review_files(files: Sequence[str], verdicts: Sequence[str], tools: Sequence[str], *, as_json: bool) -> int:
    """Read each file, print the findings, and return the exit code of the strictest verdict.

    Raises `UsageError` for a file that cannot be read as text, and for a rule or verdict that there is not.
    """
    rules = rules_from(verdicts)
    languages = [language_of_file(file, None) for file in files]
    programs = [
        (file, language, *read_program(file, language)) for file, language in zip(files, languages, strict=True)
    ]
    reviewed = []
    for file, language, code, name in programs:
        program = Program(code, language, name=name)
        reviewed.append(_Reviewed(file, review(program, rules, tools=tools), tool_calls(program, tools)))
    verdict = max((each.review.verdict for each in reviewed), default=Verdict.ALLOW)
    if as_json:
        if not print_document({"verdict": verdict.value, "programs": [each.to_dict() for each in reviewed]}):
            return BROKEN_PIPE
    else:
        _print(reviewed)
    return _EXIT_CODES[verdict]


def _print(reviewed: Sequence[_Reviewed]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    for each in reviewed:
        verdict = each.review.verdict
        console.print(
            f"[bold]{escape(_visible(each.file))}[/]: [{_COLOURS[verdict]}]{verdict.value}[/]", soft_wrap=True
        )
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("line", "verdict", "severity", "rule"):
            table.add_column(title, header_style="dim", no_wrap=True)
        table.add_column("what", header_style="dim", overflow="fold")
        for finding in each.review.findings:
            judged = each.review.verdict_on(finding)
            table.add_row(
                f"{finding.line}:{finding.column}",
                f"[{_COLOURS[judged]}]{judged.value}[/]",
                finding.severity.value,
                finding.rule,
                escape(_visible(finding.message)),
            )
        if each.review.findings:
            console.print(table)
        else:
            console.print("  nothing found, which does not make it safe", soft_wrap=True)


def _visible(text: str) -> str:
    # No text of a program may act on the terminal, or change the direction of writing.
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
