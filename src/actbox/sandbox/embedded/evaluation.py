"""What an embedded interpreter is given to evaluate, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from actbox.core.changes import FileChange
from actbox.core.errors import ErrorInfo, Unsupported
from actbox.core.limits import Limits
from actbox.core.program import Program
from actbox.sandbox.storage import Storage
from actbox.tools import Toolset

from .calls import HostCalls

Say = Callable[[Literal["stdout", "stderr"], str], None]
"""Tells what a program has printed, from any thread. What is beyond the limit is dropped, and the run is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One program to evaluate.

    The hook that is given it runs in a task that is cancelled when the program must end: its time is up, it printed too
    much, its caller has gone. The hook then ends the program, and returns or raises when nothing of it runs any more.
    """

    program: Program
    toolset: Toolset
    """Frozen; what the program may call, by `calls`."""
    calls: HostCalls
    say: Say
    workspace: Storage
    folder: str
    """Where the workspace lies on the host, with `input` and `output` in it."""
    input_folder: str
    """Where `input` lies on the host: in `folder`, or beside it where the engine wants that."""
    variables: Mapping[str, str]
    """The policy's environment variables."""
    limits: Limits
    seconds: float
    """How much wall time the program has; the run's own clock ends it, which stands still while somebody is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a program came to by itself. `value`, `value_text` and `value_forms` are as in `ExecutionResult`."""

    value: Any = None
    value_text: str | None = None
    value_forms: Mapping[str, str | bytes] = field(default_factory=dict)
    error: ErrorInfo | None = None
    exit_code: int = 0
    """Not zero exactly where there is an error."""
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    warnings: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()


class State(ABC):
    """What lasts of an interpreter from program to program of a session."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether a program could be evaluated in it now: not closed, and not lost with a program that was ended."""

    @abstractmethod
    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        """Evaluate a program in this state. What `Evaluation` says of cancelling holds; the state may then be lost."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of it. A second call does nothing."""

    async def copy(self) -> State:
        """Return a copy, which goes its own way. Raises `CannotFork` where this one cannot be copied."""
        raise Unsupported("this engine cannot fork its sessions")
