"""`actbox doctor`: which engines work here, what each really keeps, and what to do about the rest."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import partial
from typing import Final

from actbox._version import __version__
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.opening import ENGINES, check, open_sandbox
from actbox.sandbox.registry import engine_meant
from actbox.sandbox.traits import EngineCheck
from actbox.sandbox.trial import try_isolation, try_limits
from actbox.sandbox.trial_javascript import try_javascript_isolation, try_javascript_limits
from actbox.sandbox.trial_rtfs import try_rtfs_isolation, try_rtfs_limits

from .document import print_document
from .exits import BROKEN_PIPE, UsageError
from .finding import Finding
from .interrupt import Interrupted, run_interruptibly

_TRIALS: Final = {
    "python": (try_limits, try_isolation),
    "javascript": (try_javascript_limits, try_javascript_isolation),
    "rtfs": (try_rtfs_limits, try_rtfs_isolation),
}
"""The trials of limits and of isolation, in each language."""


def examine(names: Sequence[str], *, as_json: bool) -> int:
    """Try engines, all where none is named, and print what was found. Return 0 where one isolates programs, else 1.

    Where none is named only those count that `auto` would take, and it is said which that is: the named ones alone do
    not tell.
    """
    if unknown := [name for name in names if name not in ENGINES]:
        sentences = [f"there are: {', '.join(ENGINES)}", engine_meant(unknown[0])]
        raise UsageError(f"there is no engine {unknown[0]}", ". ".join(filter(None, sentences)))
    wanted = [name for name in ENGINES if name in names or not names]
    try:
        findings = _progress(wanted, as_json)
    except Interrupted as error:
        return error.exit_code
    isolating = {finding.check.engine for finding in findings if finding.isolates}
    strongest = next((engine for engine in FULL_CPYTHON if engine in isolating), None)
    if as_json:
        document = {
            "actbox": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **({} if names else {"auto": strongest}),
            "engines": [finding.to_dict() for finding in findings],
        }
        if not print_document(document):
            return BROKEN_PIPE
    else:
        from .doctor_table import print_conclusion, print_findings

        print_findings(findings)
        if not names:
            print_conclusion(findings, strongest)
    return 0 if (isolating if names else strongest) else 1


def _progress(engines: Sequence[str], as_json: bool) -> list[Finding]:
    """Find out about each engine in turn, telling a person at a terminal which one takes the time."""
    if as_json:
        return [_find_out(engine) for engine in engines]
    from rich.console import Console

    findings = []
    # On stderr, and gone when done: what is redirected is the findings only.
    with Console(stderr=True).status("") as status:
        for engine in engines:
            status.update(f"trying the {engine} engine …")
            findings.append(_find_out(engine))
    return findings


def _find_out(engine: str) -> Finding:
    found = check(engine)
    if not found.works:
        return Finding(found)
    return run_interruptibly(partial(_try, found))


async def _try(found: EngineCheck) -> Finding:
    def open_box(policy: Policy) -> Sandbox:
        # The trials are this package's own programs, so they may also run where nothing isolates them.
        return open_sandbox(found.engine, policy=policy, allow_unisolated=True)

    assert found.traits is not None
    of_limits, of_isolation = _TRIALS[found.traits.languages[0]]
    limits = await of_limits(open_box)
    isolation = await of_isolation(open_box)
    return Finding(found, tuple(limits), tuple(isolation))
