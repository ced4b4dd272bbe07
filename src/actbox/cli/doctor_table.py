"""The findings of `actbox doctor`, as tables for a person."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actbox._version import __version__

from .finding import Finding

_COLOURS = {"holds": "green", "does not hold": "red", "unknown": "yellow"}


def print_findings(findings: Sequence[Finding]) -> None:
    """Print a table for each engine that works, the reason and advice for each that does not."""
    console = Console(highlight=False)
    console.print(f"actbox {__version__}, Python {platform.python_version()}, {escape(platform.platform())}\n")
    for finding in findings:
        _print_finding(console, finding)


def print_conclusion(findings: Sequence[Finding], strongest: str | None) -> None:
    """Print which engine `auto` takes, from the findings of every engine."""
    console = Console(highlight=False)
    if strongest:
        console.print(f"[green]actbox uses the {strongest} engine here.[/]", soft_wrap=True)
        return
    by_name = [finding.check.engine for finding in findings if finding.isolates]
    sentence = (
        "No engine of full CPython isolates programs from this machine here; actbox takes none by itself unless told"
        f" --allow-unisolated. {'By name there is ' + ' or '.join(by_name) + '.' if by_name else ''}"
    )
    console.print(f"[red]{sentence.strip()}[/]", soft_wrap=True)


def _print_finding(console: Console, finding: Finding) -> None:
    found = finding.check
    if not found.works:
        console.print(f"[bold]{found.engine}[/]: [red]does not work here[/]: {escape(found.reason)}", soft_wrap=True)
        _print_found(console, finding)
        if found.advice:
            console.print(f"  what to do: {escape(found.advice)}", soft_wrap=True)
        console.print()
        return
    state = "[green]works[/]" if finding.isolates else "[yellow]works, and does not isolate[/]"
    isolation = f" — {escape(found.traits.isolation)}" if found.traits else ""
    console.print(f"[bold]{found.engine}[/]: {state}{isolation}", soft_wrap=True)
    _print_found(console, finding)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("limit", "tried"):
        table.add_column(title, header_style="dim", no_wrap=True)
    table.add_column("found", header_style="dim", overflow="fold")
    for report in (*finding.limits, *finding.isolation):
        # Why it is unknown is news; that a program which was not held back went beyond is not.
        words = f"unknown: {report.detail}" if report.verdict == "unknown" else report.enforced
        colour = _COLOURS[report.verdict]
        table.add_row(report.limit, escape(report.what), f"[{colour}]{escape(words)}[/]")
    console.print(table)
    for note in found.traits.notes if found.traits else ():
        console.print(f"  note: {escape(note)}", soft_wrap=True)
    console.print()


def _print_found(console: Console, finding: Finding) -> None:
    for phrase in finding.check.found:
        console.print(f"  {escape(phrase)}", soft_wrap=True)
