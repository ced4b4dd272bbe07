"""The findings of `actbox doctor`, and their text for a person: a line for each engine, or tables of all trials."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actbox._version import __version__
from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.traits import EngineCheck
from actbox.sandbox.trial import TrialReport

_COLOURS = {"holds": "green", "does not hold": "red", "unknown": "yellow"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The check of one engine and its trials; no trials if it does not work."""

    check: EngineCheck
    limits: tuple[TrialReport, ...] = ()
    isolation: tuple[TrialReport, ...] = ()

    @property
    def isolates(self) -> bool:
        """True if the engine works, claims to isolate, and isolated in every trial."""
        traits = self.check.traits
        kept = all(report.verdict == "holds" for report in self.isolation)
        return self.check.works and traits is not None and traits.isolated and bool(self.isolation) and kept

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "engine": self.check.engine,
            "works": self.check.works,
            "isolates": self.isolates,
            "reason": self.check.reason,
            "advice": self.check.advice,
            "found": list(self.check.found),
            "traits": self.check.traits.to_dict() if self.check.traits and self.check.works else None,
            "limits": [report.to_dict() for report in self.limits],
            "isolation": [report.to_dict() for report in self.isolation],
        }


def strongest_of(findings: Sequence[Finding]) -> str | None:
    """Return the engine that `auto` takes among those tried so far, or `None`."""
    isolating = {finding.check.engine for finding in findings if finding.isolates}
    return next((engine for engine in FULL_CPYTHON if engine in isolating), None)


def print_as_found(findings: Iterable[Finding], *, full: bool, with_verdict: bool) -> list[Finding]:
    """Print each finding as soon as it is known, as a line or with `full` as a table, and return all findings.

    `with_verdict` is for the findings of every engine: which engine `auto` takes stands before the first of them.
    """
    console = Console(highlight=False)
    known: list[Finding] = []
    waiting: list[Finding] = []  # held until the verdict is known
    has_begun = False

    def print_waiting() -> None:
        nonlocal has_begun
        if with_verdict and not has_begun:
            _print_verdict(console, strongest_of(known))
        if full and not has_begun:
            console.print(f"actbox {__version__}, Python {platform.python_version()}, {escape(platform.platform())}\n")
        has_begun = True
        for finding in waiting:
            (_print_finding if full else _print_line)(console, finding)
        waiting.clear()

    for finding in findings:
        known.append(finding)
        waiting.append(finding)
        # Engines that `auto` may choose are tried first, strongest first.
        if has_begun or not with_verdict or strongest_of(known) or finding.check.engine == FULL_CPYTHON[-1]:
            print_waiting()
    print_waiting()
    by_name = [finding.check.engine for finding in known if finding.isolates]
    if with_verdict and by_name and not strongest_of(known):
        console.print(f"[red]By name there is {' or '.join(by_name)}.[/]", soft_wrap=True)
    if not full:
        console.print("[dim]`actbox doctor --full` shows the trial of each limit and wall.[/]", soft_wrap=True)
    return known


def _print_verdict(console: Console, strongest: str | None) -> None:
    if strongest:
        console.print(f"[green]actbox uses the {strongest} engine here.[/]\n", soft_wrap=True)
        return
    sentence = (
        "No engine of full CPython isolates programs from this machine; actbox uses one that does not isolate only with"
        " --allow-unisolated."
    )
    console.print(f"[red]{sentence}[/]\n", soft_wrap=True)


def _print_line(console: Console, finding: Finding) -> None:
    """Print whether an engine works, how it isolates, which limits failed, what it lacks, and how to fix that."""
    found = finding.check
    beyond = dict.fromkeys(report.limit for report in finding.limits if report.verdict == "does not hold")
    left = f"; not enforced: {', '.join(beyond)}" if beyond else ""
    lacking = f"; lacking: {escape(found.reason)}" if found.works and found.reason else ""
    advice = f". What to do: {escape(found.advice)}" if found.advice else ""
    console.print(" ".join(f"{_state(finding).rstrip('.')}{left}{lacking}{advice}".split()), soft_wrap=True)


def _state(finding: Finding) -> str:
    found = finding.check
    if not found.works:
        return f"[bold]{found.engine}[/]: [red]does not work here[/]: {escape(found.reason)}"
    state = "[green]works[/]" if finding.isolates else "[yellow]works, and does not isolate[/]"
    # The traits of an engine without isolation say "none: why", and "does not isolate" is printed already.
    isolation = f" — {escape(found.traits.isolation.removeprefix('none: '))}" if found.traits else ""
    return f"[bold]{found.engine}[/]: {state}{isolation}"


def _print_finding(console: Console, finding: Finding) -> None:
    found = finding.check
    console.print(_state(finding), soft_wrap=True)
    for phrase in found.found:
        console.print(f"  {escape(phrase)}", soft_wrap=True)
    if found.works and found.reason:
        console.print(f"  lacking: {escape(found.reason)}", soft_wrap=True)
    if found.advice:
        console.print(f"  what to do: {escape(found.advice)}", soft_wrap=True)
    if not found.works:
        console.print()
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("limit", "tried"):
        table.add_column(title, header_style="dim", no_wrap=True)
    table.add_column("found", header_style="dim", overflow="fold")
    for report in (*finding.limits, *finding.isolation):
        # Only an unknown verdict needs its detail; for the others it says no more than the verdict.
        words = f"unknown: {report.detail}" if report.verdict == "unknown" else report.enforced
        colour = _COLOURS[report.verdict]
        table.add_row(report.limit, escape(report.what), f"[{colour}]{escape(words)}[/]")
    console.print(table)
    for note in found.traits.notes if found.traits else ():
        console.print(f"  note: {escape(note)}", soft_wrap=True)
    console.print()
