"""What a run says as it goes. The last event of every run is `Completed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .result import Artifact, ExecutionResult


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what the program printed, as soon as it was printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The program called a tool. `call_id` counts from 1 within the run.

    `arguments` are what the program sent. A call that needs approval is started when it is approved; one that is
    refused never is. One whose arguments do not fit is not asked about: it is started, and finishes with the error.
    """

    call_id: int
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended: with a value, or with the error text that the program got as `ToolError`.

    A call that was started and is missing here was cut off by the end of its run.
    """

    call_id: int
    tool: str
    value: Any = None
    error: str | None = None
    wall_ms: float = 0.0

    @property
    def success(self) -> bool:
        """Whether the tool returned."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """Somebody is asked whether a program may run, or whether a call of it may be made; until then it waits.

    `request_id` is that of the `ApprovalRequest`. For a call, `call_id` is the one that `ToolStarted` will have,
    `arguments` are a copy of those in the request (converted and whole, as JSON data), and `line` is the line of the
    program that makes it, by the guest's own word. For a run, `tools` are those because of which it is asked.
    """

    request_id: str
    what: Literal["run", "call"]
    reason: str
    call_id: int = 0
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """What came of an `ApprovalRequested`, after `waited_ms` milliseconds.

    `withdrawn` means that the run ended before anybody had decided. `cause` says how a refusal came about: somebody
    `decided`, nobody did in time (`timeout`), the approver `failed`, or it was `unavailable`. `by` names who decided,
    where the approver says so.
    """

    request_id: str
    what: Literal["run", "call"]
    decision: Literal["approved", "refused", "withdrawn"]
    call_id: int = 0
    tool: str = ""
    reason: str = ""
    by: str = ""
    cause: Literal["decided", "timeout", "failed", "unavailable"] = "decided"
    waited_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """The program asked for something on the network, and its policy decided; said when the exchange is over.

    `method` is `CONNECT` and `path` empty where an encrypted connection was passed through unread, or ended before
    anything was asked in it. `path` has no query. Of a malformed request they are what could be read of it.
    `status` is that of the response the program got, 0 where it got none; `reason` is a sentence where it was refused,
    and where the host could not be reached. Bytes are those of bodies, or all that went through unread.

    Everything that was allowed is told. Of refusals in one sandboxed process the first 1000 are told one by one; after
    them one event stands for up to 1000, and its `reason` says for how many others.
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
class Completed:
    """The run is over; nothing follows."""

    result: ExecutionResult


Event = (
    Output
    | ToolStarted
    | ToolFinished
    | ApprovalRequested
    | ApprovalDecided
    | NetworkRequest
    | ArtifactCreated
    | Completed
)
