"""The packages of the tests' index, and programs that ask for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import actbox
from actbox import ExecutionResult, Policy, Program
from actbox.core.packages import PackagePolicy, PackageRules
from actbox.tools import Approver

from .index_server import IndexServer
from .wheel_factory import make_wheel

USE_SOURCE = "import kit_source\nkit_source.facts"
"""A program that has what a build of `make_source` has found out."""


def make_kits(wheels: Path) -> None:
    """Make a greeting that needs words, something forbidden, and something that brings that."""
    make_wheel(wheels, "kit_words", files={"kit_words.py": b"word = 'hello'\n"}, metadata="License: BSD\n")
    greets = b"import kit_words\ngreeting = kit_words.word\n"
    make_wheel(wheels, "kit_greeting", files={"kit_greeting/__init__.py": greets}, requires=("kit-words>=1",))
    make_wheel(wheels, "kit_forbidden", files={"kit_forbidden.py": b""})
    make_wheel(wheels, "kit_trojan", files={"kit_trojan.py": b""}, requires=("kit-forbidden",))


def policy_of(index: IndexServer, approver: Approver | None = None, **rules: Any) -> Policy:
    """Return a policy that approves the greeting and blocks what is forbidden, unless rules say otherwise."""
    rules = {"auto_approved": ["kit-greeting", "kit_trojan"], "blocked": ["kit-forbidden"], **rules}
    packages = PackagePolicy(python=PackageRules(**rules), index=index.address, approver=approver)
    return Policy(environment="clean", packages=packages)


def building(index: IndexServer, approver: Approver | None = None, *, offline: bool = False, **rules: Any) -> Policy:
    """Return a policy that approves what `make_source` makes, and builds it, unless rules say otherwise."""
    policy = policy_of(index, approver, **{"auto_approved": ["kit-source"], **rules})
    assert policy.packages is not None
    return replace(policy, packages=replace(policy.packages, source_builds=True, offline=offline))


async def run(policy: Policy, code: str, *dependencies: str) -> ExecutionResult:
    """Run a program with dependencies in a sandbox of its own."""
    async with actbox.open_sandbox("linux", policy=policy) as box:
        return await box.run(Program(code, dependencies=dependencies))
