"""`actbox doctor`: which engines work here, which promises each keeps in trials, and how to fix the others."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from actbox._version import __version__
from actbox.core.errors import ActboxError
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, check, open_sandbox
from actbox.sandbox.registry import engine_meant
from actbox.sandbox.traits import EngineCheck
from actbox.sandbox.trial import try_isolation, try_limits
from actbox.sandbox.trial_javascript import try_javascript_isolation, try_javascript_limits
from actbox.sandbox.trial_rtfs import try_rtfs_isolation, try_rtfs_limits

from .doctor_report import Finding, print_as_found, strongest_of
from .errors import BROKEN_PIPE, UsageError
from .interrupt import Interrupted, run_interruptibly
from .output import print_document

_TRIALS: Final = {
    "python": (try_limits, try_isolation),
    "javascript": (try_javascript_limits, try_javascript_isolation),
    "rtfs": (try_rtfs_limits, try_rtfs_isolation),
}
"""The trials of limits and of isolation, in each language."""


def examine(names: Sequence[str], *, full: bool, as_json: bool) -> int:
    """Try the named engines (default: all), print the findings, and return 0 if one isolates programs, else 1.

    A person gets a line for each engine as soon as it was tried, or with `full` a table.

    Without names, only the engines count that `auto` may take, and the one that it would take is printed; the results
    of named engines alone do not tell which that is.
    """
    if unknown := [name for name in names if name not in ENGINES]:
        sentences = [f"there are: {', '.join(ENGINES)}", engine_meant(unknown[0])]
        raise UsageError(f"there is no engine {unknown[0]}", ". ".join(filter(None, sentences)))
    wanted = [name for name in ENGINES if name in names or not names]
    try:
        tried = _tried(wanted, quietly=as_json)
        findings = list(tried) if as_json else print_as_found(tried, full=full, with_verdict=not names)
    except Interrupted as error:
        return error.exit_code
    strongest = strongest_of(findings)
    packages = None if names else _packages()
    if packages is not None and not as_json:
        from .environment import lines_of

        print("", *lines_of(packages), sep="\n")
    if as_json:
        document = {
            "actbox": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **({} if names else {"auto": strongest, "packages": packages}),
            "engines": [finding.to_dict() for finding in findings],
        }
        if not print_document(document):
            return BROKEN_PIPE
    isolates = any(finding.isolates for finding in findings) if names else strongest
    return 0 if isolates else 1


def _packages() -> dict[str, Any] | None:
    """Return what the package cache has, `None` without the extra `packages` or a cache that can be used."""
    try:
        from .environment import contents

        return contents()
    except (ActboxError, OSError):
        return None


def _tried(engines: Sequence[str], *, quietly: bool) -> Iterator[Finding]:
    """Yield a finding for each engine in turn, and show on a terminal which engine is being tried."""
    from rich.console import Console

    # On stderr, and removed when done: redirected output holds only the findings.
    console = Console(stderr=True, quiet=quietly)
    for engine in engines:
        with console.status(f"trying the {engine} engine …"):
            finding = _find_out(engine)
        yield finding


def _find_out(engine: str) -> Finding:
    found = check(engine)
    if not found.works:
        return Finding(found)
    return run_interruptibly(partial(_try, found))


async def _try(found: EngineCheck) -> Finding:
    def open_box(policy: Policy) -> Sandbox:
        # The trials are this package's own programs, so they may run without isolation too.
        return open_sandbox(found.engine, policy=policy, allow_unisolated=True)

    assert found.traits is not None
    of_limits, of_isolation = _TRIALS[found.traits.languages[0]]
    limits = await of_limits(open_box)
    isolation = await of_isolation(open_box)
    return Finding(found, tuple(limits), tuple(isolation))
