"""The outcome of an invocation, the events on the way to it, and the errors that name the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from actbox.core.labels import PUBLIC, Label

Step = Literal["validate_input", "label", "budget", "approval", "run", "validate_output", "journal"]
"""The steps of an invocation that can fail, in their order; the journal is written before and after the run."""

Kind = Literal["invalid", "refused", "exceeded", "failed", "timeout", "cancelled", "revoked", "unavailable"]
"""Why an invocation failed: input or output is `invalid`; a label or an approver `refused`; a budget is `exceeded`; the
handler `failed`, took too long (`timeout`) or was `cancelled`; its approval was `revoked`; or something that it needs
is `unavailable`: a handler, an engine, an approver or the journal."""


@dataclass(frozen=True, slots=True)
class InvocationError:
    """Why an invocation failed, in which step, and what to do."""

    kind: Kind
    step: Step
    message: str
    hint: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the error as plain JSON data."""
        return {"kind": self.kind, "step": self.step, "message": self.message, "hint": self.hint}


class StepFailed(Exception):
    """Raised inside the pipeline where a step fails."""

    def __init__(self, kind: Kind, step: Step, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.error = InvocationError(kind, step, message, hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an invocation, also of one that has failed.

    `usage` is what was charged, by the dimensions of `Budget`. `entry` is the number of its last entry in the journal,
    0 without a journal. `engine` and `environment` say where it ran, "" for a handler in this process. `approval` is
    the identity of the approval that it ran by. With `repeated` it is the outcome of an earlier invocation with the
    same idempotency key.
    """

    id: str
    capability: str
    version: str
    output: Any = None
    error: InvocationError | None = None
    labels: Label = PUBLIC
    usage: Mapping[str, float] = field(default_factory=dict)
    entry: int = 0
    engine: str = ""
    environment: str = ""
    approval: str = ""
    warnings: tuple[str, ...] = ()
    repeated: bool = False

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return self.error is None

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON data."""
        said = {name: getattr(self, name) for name in self.__slots__ if name != "repeated"}
        said |= {"labels": str(self.labels), "usage": dict(self.usage), "warnings": list(self.warnings)}
        return {**said, "error": self.error.to_dict() if self.error is not None else None}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Outcome:
        """Return the outcome that `to_dict` has written."""
        error = InvocationError(**said["error"]) if said["error"] is not None else None
        return cls(
            **{**said, "error": error, "labels": Label.parse(said["labels"]), "warnings": tuple(said["warnings"])}
        )


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An event of an invocation: a step begins or ends, or says something, such as a warning of a budget.

    `what` is `begun`, `done`, `failed` or `note`.
    """

    id: str
    capability: str
    step: str
    what: Literal["begun", "done", "failed", "note"]
    message: str = ""
