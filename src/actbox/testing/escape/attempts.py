"""The escape attempts: a program for each and, for some, an action of the host afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actbox.core.errors import ActboxError
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox
from actbox.tools import ApprovalDecision, ApprovalRequest, Tool, Toolset

from .prey import Prey
from .programs import BOMBS, FILE_METHODS, PROGRAMS

HostPart = Callable[[Sandbox, Prey], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class EscapeAttempt:
    """One attempt to get out of a sandbox.

    Whether it got through is seen on the host (`Prey.reached`), or by what came back that only the host has, never by
    the program's own word. A program that prints `BEYOND` has had more of something than `limits` allow.
    """

    name: str
    code: str
    host: HostPart | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        """The policy of the sandbox that the attempt runs in."""
        return Policy(limits=Limits(**{"wall_seconds": 20.0, **self.limits}))

    async def got_through(self, box: Sandbox, prey: Prey) -> str:
        """Run the attempt in a started sandbox, and return how it succeeded, "" if it did not."""

        def harmless() -> str:
            """Return a word; what else a program can do with this function is what is tried."""
            return "word" if secret else ""

        secret = prey.secret
        harmless.secret = secret  # type: ignore[attr-defined]

        def pay() -> None:
            """Be called, which nobody allows."""
            prey.received.append(b"payment")

        tools = Toolset.of([harmless, Tool.from_function(pay, approval="always_require")]).asking(_Nobody())
        program = Program(self.code, inputs=prey.inputs())
        result = await box.run(program, tools=tools if box.traits.tools else None)
        found = self._seen(result, prey)
        if self.host is not None and box.traits.files and not found:
            try:
                told = await self.host(box, prey)
            except (ActboxError, OSError):
                told = ""
            found = "the host's file was read through a file method" if prey.secret in _text(told) else ""
        return found or prey.reached()

    def _seen(self, result: ExecutionResult, prey: Prey) -> str:
        if any(prey.secret.encode() in artifact.data for artifact in result.artifacts):
            return "an artifact has what is in the host's file"
        if prey.secret in _text(result.to_dict()):
            return "the result has what only the host has"
        if self.limits and "BEYOND" in result.stdout:
            return "the program went beyond its limits"
        return ""


class _Nobody:
    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(False, "nobody allows this")


def escape_attempts() -> tuple[EscapeAttempt, ...]:
    """Return every attempt, in the order in which they are made."""
    return (
        *(EscapeAttempt(name=name, code=code) for name, code in PROGRAMS.items()),
        *(EscapeAttempt(name=name, code=code, host=host) for name, (code, host) in FILE_METHODS.items()),
        *(EscapeAttempt(name=name, code=code, limits=limits) for name, (limits, code) in BOMBS.items()),
    )


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
