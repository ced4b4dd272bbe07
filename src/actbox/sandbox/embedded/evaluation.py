"""The interface between a run and an embedded interpreter: the program to evaluate, and the kept state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from actbox.core.errors import Unsupported
from actbox.core.limits import Limits
from actbox.core.program import Program
from actbox.sandbox.storage import Storage
from actbox.tools import Toolset

from .calls import HostCalls
from .running import Outcome

Say = Callable[[Literal["stdout", "stderr"], str], None]
"""Reports printed text, from any thread. Text beyond the limit is dropped, and the run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One program to evaluate.

    The engine's hook gets it in a task that is cancelled when the program must end: its time is up, it printed too
    much, or its caller has gone. The hook then ends the program, and returns or raises when nothing of it runs any
    more.
    """

    program: Program
    toolset: Toolset
    """The frozen tools that the program may call, through `calls`."""
    calls: HostCalls
    say: Say
    workspace: Storage
    folder: str
    """The workspace's directory on the host, with `input` and `output` in it."""
    input_folder: str
    """The path of `input` on the host: in `folder`, or beside it if the engine wants that."""
    variables: Mapping[str, str]
    """The policy's environment variables."""
    limits: Limits
    seconds: float
    """The program's wall time; the run's clock, which is paused during approvals, ends it."""
    packages: Path | None = None
    """The directory on the host with the packages that the program asked for, if the environment lacks any."""


class Kept(ABC):
    """The state of an interpreter that lasts from program to program of a session."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """True if a program could be evaluated now: the state is neither closed, nor lost with an ended program."""

    @abstractmethod
    async def close(self) -> None:
        """Release the state. A second call does nothing."""

    async def copy(self) -> Self:
        """Return an independent copy of the state. Raises `CannotFork` if it cannot be copied."""
        raise Unsupported("this engine cannot fork its sessions")


class State(Kept):
    """The kept state of an interpreter that evaluates an `Evaluation` for each program."""

    @abstractmethod
    async def evaluate(self, evaluation: Evaluation) -> Outcome:
        """Evaluate a program in this state. Cancelling works as in `Evaluation`; the state may then be lost."""
