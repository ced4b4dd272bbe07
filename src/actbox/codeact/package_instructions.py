"""The sentences for models about packages: how to ask for one, and which ones a program may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actbox.core.packages import PackagePolicy, PackageRule
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.tools import Toolset

MOST_APPROVED: Final = 30
MOST_BLOCKED: Final = 10
"""The most approved packages that a model reads the names of, and the most blocked ones; more of these are left out."""

NO_PACKAGES: Final = "A package that is not installed is an ImportError: use another."

_SCRIPT_BLOCK: Final = (
    'the lines `# /// script`, `# dependencies = ["NAME"]` and `# ///` at the top of the program (PEP 723)'
)


def packages_sentence(packages: PackagePolicy, language: str = "python", *, by_argument: bool, may_ask: bool) -> str:
    """Return how a model asks for a package, and which ones it may have. Programs are in `language`.

    With `by_argument` it may send `dependencies` beside its program. `may_ask` is false if nobody approves packages.
    """
    ways = ["name it in `dependencies`"] if by_argument else []
    if language == "python":
        ways.append(f"put {_SCRIPT_BLOCK}")
    how = " or ".join(ways) or "import it"
    rules = packages.python if language == "python" else packages.nodejs
    others = "Others need a person's approval." if may_ask else "Others are refused."
    return " ".join(
        part
        for part in (
            f"To use a package that is not there, {how}.",
            f"Approved packages: {_names(rules.auto_approved)}." if rules.auto_approved else "",
            others,
            f"Blocked: {_names(rules.blocked)}." if 0 < len(rules.blocked) <= MOST_BLOCKED else "",
        )
        if part
    )


def packages_of(sandbox: Sandbox) -> PackagePolicy | None:
    """Return the rules for packages of a sandbox's policy, if it has any."""
    policy = getattr(sandbox, "policy", None)
    return policy.packages if isinstance(policy, Policy) else None


def may_ask(packages: PackagePolicy, toolset: Toolset) -> bool:
    """Return whether there is somebody to ask about packages."""
    return packages.approver is not None or toolset.approver is not None


def _names(rules: Sequence[PackageRule]) -> str:
    named = ", ".join(rule.name for rule in rules[:MOST_APPROVED])
    more = len(rules) - MOST_APPROVED
    return f"{named} and {more} more" if more > 0 else named
