"""The pytest plugin of the kit: the option for the sandbox under test, and a final report on the features that it
lacks.

It does nothing in a run without one of the kit's test classes.
"""

from __future__ import annotations

from typing import Final

import pytest

SANDBOX: Final = "--actbox-sandbox"
OPTION: Final = "--actbox-option"

# The property names of `cases/needs.py`, repeated so that this module imports none of the kit.
_SECTIONS: Final = {
    "actbox refused": "what this sandbox lacks, and refuses as it should",
    "actbox not tried": "what was not tried, as this sandbox does not claim it or nothing here could tell",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the sandbox under test and its arguments."""
    group = parser.getgroup("actbox", "the kit for sandboxes")
    group.addoption(
        SANDBOX,
        metavar="SANDBOX",
        help="the sandbox that `--pyargs actbox.testing.suite` is about: an engine's name, or MODULE:FUNCTION, where"
        " the function is given a Policy and returns a sandbox that has not started",
    )
    group.addoption(
        OPTION,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=f"what {SANDBOX} takes for itself, such as runtime=runsc for container; may be repeated",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the cases in which only a refusal was checked, or nothing at all, because the engine lacks a feature."""
    lacking: dict[tuple[str, str], dict[str, int]] = {}
    for report in terminalreporter.getreports("passed"):
        for name, what in getattr(report, "user_properties", ()):
            if name in _SECTIONS:
                of = report.nodeid.split("::")[-2]
                counts = lacking.setdefault((of, _SECTIONS[name]), {})
                counts[what] = counts.get(what, 0) + 1
    for (of, section), counts in sorted(lacking.items()):
        terminalreporter.section(f"{of}: {section}")
        for what, count in sorted(counts.items()):
            terminalreporter.write_line(f"{count:4} × {what}")
