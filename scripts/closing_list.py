"""A pytest plugin: ends a test run with a list of what could not run here, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest


# The outermost wrapper, so that the list comes after the failures and is the last thing one reads.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Print each reason once, with how many tests it kept from running."""
    yield
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    terminalreporter.section("could not run here")
    if not reasons:
        terminalreporter.write_line("nothing: every test ran")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:4} {'test ' if count == 1 else 'tests'}  {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # pytest keeps a skip as (file, line, "Skipped: reason").
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").strip() or "no reason given"
