"""From `--sandbox`, `--option` and `--allow-unisolated` to a sandbox, with sentences that name these options."""

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

from .exits import NoSandbox, UsageError
from .flags import in_flags


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
            meant = engine_meant(self.engine)
            raise UsageError(
                f"--sandbox {self.engine}: there is no such engine; there are: auto, {', '.join(ENGINES)}",
                in_flags(meant) if meant else "actbox doctor says which of them work here",
            )
        if self.engine in TABLE and not (TABLE[self.engine].isolates or self.allow_unisolated):
            raise SandboxUnavailable(
                f"the {self.engine} engine isolates nothing: programs may do what their account may; if that is"
                " meant, say --allow-unisolated too"
            )
        try:
            return open_sandbox(self.engine, policy=policy, allow_unisolated=self.allow_unisolated, **self.options)
        except InvalidValue as error:
            taken = TABLE[self.engine].options() if self.engine in TABLE else []
            if not taken and not self.options:
                raise
            raise UsageError(f"--option: {in_flags(str(error), taken)}", self._options_hint(taken)) from None

    def _options_hint(self, taken: Sequence[str]) -> str:
        if self.engine not in TABLE:
            return f"such as --sandbox container --option image=python:3.13-slim; engines: {', '.join(ENGINES)}"
        if not taken:
            return f"leave out --option: the {self.engine} engine has nothing to be told"
        return f"options of the {self.engine} engine, each said as --option NAME=VALUE: {', '.join(taken)}"

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `NoSandbox`, with what to do about it, for a `SandboxUnavailable` in the block."""
        try:
            yield
        except SandboxUnavailable as error:
            raise NoSandbox(in_flags(str(error)), self.advice(str(error))) from error

    def advice(self, failure: str) -> str:
        """Return what to do about a failure; nothing where the engine works here, as then it is about another thing."""
        if self.engine in TABLE:
            # An engine that isolates nothing is not tried: whether ssh works is a matter of the machine that was named.
            found = TABLE[self.engine].check() if TABLE[self.engine].isolates else None
            if found is None or found.works:
                return ""
            if found.advice and found.advice not in failure:
                return found.advice
        return "actbox doctor says what works here"


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
