"""Opening of a sandbox from `--sandbox`, `--option` and `--allow-unisolated`, with errors that name these options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox
from actbox.sandbox.registry import TABLE, engine_meant

from .errors import NoSandbox, UsageError, in_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The sandbox that a command line asks for: an engine and its options."""

    engine: str
    allow_unisolated: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's own options."""

    def open(self, policy: Policy | None = None) -> Sandbox:
        """Return the sandbox from `open_sandbox`. Raises `UsageError` for an unknown engine."""
        if self.engine not in ("auto", *ENGINES):
            meant = engine_meant(self.engine)
            raise UsageError(
                f"--sandbox {self.engine}: there is no such engine; there are: auto, {', '.join(ENGINES)}",
                in_flags(meant) if meant else "actbox doctor says which of them work here",
            )
        try:
            return open_sandbox(self.engine, policy=policy, allow_unisolated=self.allow_unisolated, **self.options)
        except InvalidValue as error:
            names = TABLE[self.engine].options() if self.engine in TABLE else []
            if not names and not self.options:
                raise
            raise UsageError(f"--option: {in_flags(str(error), names)}", self._options_hint(names)) from None

    def _options_hint(self, names: Sequence[str]) -> str:
        if self.engine not in TABLE:
            return f"such as --sandbox container --option image=python:3.13-slim; engines: {', '.join(ENGINES)}"
        if not names:
            return f"leave out --option: the {self.engine} engine has no options"
        return f"options of the {self.engine} engine, each written as --option NAME=VALUE: {', '.join(names)}"

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `NoSandbox`, with advice, in place of a `SandboxUnavailable` from the `with` block."""
        try:
            yield
        except SandboxUnavailable as error:
            raise NoSandbox(in_flags(str(error)), self.advice(str(error))) from error

    def advice(self, failure: str) -> str:
        """Return advice about a failure, "" if the engine itself works here, since the cause then lies elsewhere."""
        if failure.startswith("there is no environment"):
            return "`actbox environment list` shows those that there are"
        if failure.startswith("the environment "):
            return ""
        if self.engine in TABLE:
            # An engine that isolates nothing is not checked: whether ssh works depends on the machine that was named.
            found = TABLE[self.engine].check() if TABLE[self.engine].isolates else None
            if found is None or found.works:
                return ""
            if found.advice and found.advice not in failure:
                return found.advice
        return "actbox doctor says what works here"


def options_from(given: Sequence[str], flag: str = "--option") -> dict[str, Any]:
    """Return an engine's options by name, each from `NAME=VALUE`; a VALUE that is valid JSON is parsed.

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
