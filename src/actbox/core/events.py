"""The events that a run emits while it goes on; the last one is always `Completed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from .lazy_dataclass import dataclass
from .packages import PackageFacts
from .result import Artifact, ExecutionResult


@dataclass(frozen=True, slots=True)
class Output:
    """Text that the program printed, sent as soon as it was printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The program called a tool. `call_id` counts from 1 within the run.

    `arguments` are the program's, or those that the approver put in their place, before conversion. A call that needs
    approval starts when it is approved; a refused one never starts. A call with invalid arguments needs no approval: it
    starts, and finishes with the error.
    """

    call_id: int
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended: with a value, or with the error text that the program got as `ToolError`.

    A call that was started but never finished was cut off by the end of its run.
    """

    call_id: int
    tool: str
    value: Any = None
    error: str | None = None
    wall_ms: float = 0.0

    @property
    def success(self) -> bool:
        """True if the tool returned a value, False if the call failed."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """An approver was asked whether a program may run, make a tool call or have a package; the program waits for the
    answer.

    `request_id` is that of the `ApprovalRequest`. For a call, `call_id` is that of the later `ToolStarted`, `arguments`
    are a copy of the request's (complete, converted, as JSON data), and `line` is the line of the call in the program,
    as the guest reports it. For a run, `tools` are the tools that require the approval. For an
    installation, `packages` are those of the request.
    """

    request_id: str
    what: Literal["run", "call", "install"]
    reason: str
    call_id: int = 0
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None
    tools: tuple[str, ...] = ()
    packages: tuple[PackageFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """The outcome of an `ApprovalRequested`, after a wait of `waited_ms` milliseconds.

    `withdrawn` is true if the run ended before a decision. `cause` is the reason for a refusal: somebody `decided`,
    nobody did in time (`timeout`), the approver `failed`, or it was `unavailable`. `by` names the person who decided,
    if the approver says so.
    """

    request_id: str
    what: Literal["run", "call", "install"]
    decision: Literal["approved", "refused", "withdrawn"]
    call_id: int = 0
    tool: str = ""
    reason: str = ""
    by: str = ""
    cause: Literal["decided", "timeout", "failed", "unavailable"] = "decided"
    waited_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """The program made a network request, and its policy allowed or refused it; the event comes when the exchange is
    over.

    For an encrypted connection that was passed through unread, or ended before any request, `method` is `CONNECT` and
    `path` is empty. `path` has no query. For a malformed request both have the part that could be read. `status` is
    that of the program's response, 0 if it got none; `reason` is a sentence if the request was refused or the host
    could not be reached. Bytes count bodies, or everything that was passed through unread.

    Every allowed request is reported. Of the refusals in one sandboxed process the first 1000 are reported one by one;
    then one event stands for up to 1000, and its `reason` has the number of the others.
    """

    host: str
    port: int
    method: str
    path: str
    decision: Literal["allowed", "refused"]
    reason: str = ""
    status: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ArtifactCreated:
    """A file below `/output` that the run created or changed."""

    artifact: Artifact = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunRestarted:
    """The program missed a package that its policy approves, and begins again with it; nothing of it had any effect."""

    package: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The run is over; no event follows."""

    result: ExecutionResult


Event = (
    Output
    | ToolStarted
    | ToolFinished
    | ApprovalRequested
    | ApprovalDecided
    | NetworkRequest
    | ArtifactCreated
    | RunRestarted
    | Completed
)
