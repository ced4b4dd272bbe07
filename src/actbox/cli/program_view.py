"""Programs on the terminal for `actbox demo` and `actbox solve`: their source, events, results, and answers.

All text of models and programs is made harmless here before `rich` prints it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from actbox.content.render import cut
from actbox.content.safe_text import TerminalText, visible, without_turns
from actbox.core.errors import ErrorInfo
from actbox.core.events import Event, Output, ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult

_MOST_CHARS: Final = 20_000
"""The characters above which only the beginning and the end of a program are shown."""


def show_source(console: Console, source: str, language: str) -> None:
    """Print a program, or with the language `diff` the change of one."""
    text = without_turns(visible(cut(source.strip("\n"), _MOST_CHARS)))
    numbers = language != "diff"
    console.print(Syntax(text, language, line_numbers=numbers, word_wrap=True, theme="ansi_dark"))


def show_run(console: Console, event: Event) -> None:
    """Print an event of a running program."""
    match event:
        case Output(stream=stream, text=text):
            console.print(shown(text, "red" if stream == "stderr" else ""), end="")
        case ToolStarted(tool=tool, arguments=arguments):
            console.print(shown(f"  → {tool}({_brief(arguments)})", "magenta"))
        case ToolFinished(tool=tool, error=error, wall_ms=wall_ms):
            outcome = f"failed: {error}" if error is not None else "returned"
            console.print(shown(f"  ← {tool} {outcome} after {wall_ms:.1f} ms", "magenta"))


def show_result(console: Console, result: ExecutionResult) -> None:
    """Print how a program ended."""
    if result.error is not None:
        console.print(shown(result.error.traceback.rstrip() or result.error.message, "red"))
        console.print(shown(in_one_line(result.error, result.error.kind.value), "bold red"))
        if result.error.hint:
            console.print(shown(f"hint: {result.error.hint}", "yellow"))
    outcome = "ended well" if result.success else f"failed with exit code {result.exit_code}"
    console.print(Text(f"the program {outcome} after {result.usage.wall_ms / 1000:.2f} s", style="dim"))


def show_answer(console: Console, answer: Any) -> None:
    """Print an answer, a dict as a table."""
    if not isinstance(answer, dict):
        console.print(shown(cut(str(answer), _MOST_CHARS)))
        return
    table = Table(show_header=False)
    for key, value in answer.items():
        table.add_row(shown(str(key)), shown(str(value)))
    console.print(table)


def in_one_line(error: ErrorInfo, kind: str) -> str:
    """Return an error with the name of its kind, its line and its message."""
    line = f" in line {error.line}" if error.line else ""
    return f"{kind}{line}: {error.type}: {error.message}" if error.type else f"{kind}{line}: {error.message}"


def shown(text: str, style: str = "") -> Text:
    """Return text of a model or a program with all terminal control made harmless."""
    safe = TerminalText()
    return Text(safe.feed(text) + safe.end(), style=style)


def _brief(arguments: Any) -> str:
    text = ", ".join(
        f"{name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in arguments.items()
    )
    return text if len(text) <= 100 else text[:97] + "…"
