"""Run the code that AI agents write: full CPython in a real sandbox, with host tools as plain functions.

    import actbox

    result = actbox.run("sum(range(10))")
    assert result.value == 45

`run` is for one program; `open_sandbox` (asynchronous) and `actbox.sync.open_sandbox` are for several that share files.
`actbox.review` reads a program before it runs; it is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import sync
from ._version import __version__
from .core.changes import FileChange
from .core.domains import AllowedDomain
from .core.errors import (
    ActboxError,
    CannotFork,
    ErrorInfo,
    ErrorKind,
    FileError,
    InvalidValue,
    SandboxStopped,
    SandboxUnavailable,
    ToolError,
    Unsupported,
)
from .core.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArtifactCreated,
    Completed,
    Event,
    NetworkRequest,
    Output,
    ToolFinished,
    ToolStarted,
)
from .core.limits import Limits
from .core.mounts import FileMount
from .core.policy import Policy
from .core.program import Program
from .core.result import Artifact, ExecutionResult, Usage, show_in_notebooks_by
from .core.secrets import Secret
from .sandbox.contract import FileInfo, Files, Sandbox, Session
from .sandbox.forks import Branches, Snapshot
from .sandbox.languages import ENGINES_OF
from .sandbox.opening import ENGINES, check, open_sandbox
from .sandbox.traits import EngineCheck, Traits
from .sync import run
from .tools import ApprovalDecision, ApprovalRequest, Approver, Tool, Toolset, tool

if TYPE_CHECKING:
    from . import review
    from .sandbox.shell import ProcessShell, ShellSandbox, ToolAddress, shell_traits

__all__ = [
    "ENGINES",
    "ENGINES_OF",
    "ActboxError",
    "AllowedDomain",
    "ApprovalDecided",
    "ApprovalDecision",
    "ApprovalRequest",
    "ApprovalRequested",
    "Approver",
    "Artifact",
    "ArtifactCreated",
    "Branches",
    "CannotFork",
    "Completed",
    "EngineCheck",
    "ErrorInfo",
    "ErrorKind",
    "Event",
    "ExecutionResult",
    "FileChange",
    "FileError",
    "FileInfo",
    "FileMount",
    "Files",
    "InvalidValue",
    "Limits",
    "NetworkRequest",
    "Output",
    "Policy",
    "ProcessShell",
    "Program",
    "Sandbox",
    "SandboxStopped",
    "SandboxUnavailable",
    "Secret",
    "Session",
    "ShellSandbox",
    "Snapshot",
    "Tool",
    "ToolAddress",
    "ToolError",
    "ToolFinished",
    "ToolStarted",
    "Toolset",
    "Traits",
    "Unsupported",
    "Usage",
    "__version__",
    "check",
    "open_sandbox",
    "review",
    "run",
    "shell_traits",
    "sync",
    "tool",
]


def _bundle(result: ExecutionResult) -> dict[str, str]:
    # Imported when a notebook asks: it brings in pydantic, which takes longer than all the rest.
    from .content.notebook import bundle_of_result

    return bundle_of_result(result)


show_in_notebooks_by(_bundle)


def __getattr__(name: str) -> Any:
    if name == "review":
        import importlib

        # Not `from . import review`, which would ask this function first.
        return importlib.import_module(".review", __name__)
    if name in ("ProcessShell", "ShellSandbox", "ToolAddress", "shell_traits"):
        from .sandbox import shell  # which is for systems that are like Unix

        return getattr(shell, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
