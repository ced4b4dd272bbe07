"""From `--sandbox`, `--option` and `--allow-unisolated` to a sandbox, with sentences that name these options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox
from actbox.sandbox.registry import TABLE

from .exits import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Which sandbox a command line asks for."""

    engine: str
    allow_unisolated: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's own."""

    def open(self, policy: Policy | None = None) -> Sandbox:
        """Return what `open_sandbox` does. Raises `UsageError` for an engine that there is not."""
        if self.engine not in ("auto", *ENGINES):
            raise UsageError(
                f"--sandbox {self.engine}: there is no such engine; there are: auto, {', '.join(ENGINES)}",
                "actbox doctor says which of them work here",
            )
        if self.engine in TABLE and not (TABLE[self.engine].isolates or self.allow_unisolated):
            raise SandboxUnavailable(
                f"the {self.engine} engine isolates nothing: programs may do what their account may; if that is"
                " meant, say --allow-unisolated too"
            )
        try:
            return open_sandbox(self.engine, policy=policy, allow_unisolated=self.allow_unisolated, **self.options)
        except InvalidValue as error:
            if not self.options:
                raise
            raise UsageError(f"--option: {error}", "docs/engines.md says which options an engine has") from None


def options_from(given: Sequence[str], flag: str = "--option") -> dict[str, Any]:
    """Return an engine's options by name, from `NAME=VALUE` each; a VALUE that is JSON counts as that.

    `flag` is what the command line calls them. Raises `UsageError`.
    """
    options = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"{flag} takes NAME=VALUE, not {text!r}", f"such as {flag} image=python:3.13-slim")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
