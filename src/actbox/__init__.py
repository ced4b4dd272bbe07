"""actbox runs the code that AI agents write: full CPython in a Linux sandbox, with your Python functions as tools.

    import actbox

    result = actbox.run("sum(range(10))")
    assert result.value == 45

`run` is for one program; `open_sandbox` (asynchronous) and `actbox.sync.open_sandbox` are for several that share files.
`actbox.review` reads a program before it runs. Every name is imported when it is first used.
"""

from __future__ import annotations

from ._version import __version__
from .core import presentation
from .core.lazy import lazy_attributes

TYPE_CHECKING = False  # importing typing takes longer than the rest of `import actbox`
if TYPE_CHECKING:
    from typing import Any

    from . import review, sync
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
        RunRestarted,
        ToolFinished,
        ToolStarted,
    )
    from .core.limits import Limits
    from .core.mounts import FileMount
    from .core.packages import Environment, PackagePolicy, PackageRules
    from .core.policy import Policy
    from .core.program import Program
    from .core.result import Artifact, ExecutionResult, Usage
    from .core.secrets import Secret
    from .sandbox.contract import Branches, Sandbox, Session, Snapshot
    from .sandbox.languages import ENGINES_OF
    from .sandbox.opening import ENGINES, check, open_sandbox
    from .sandbox.shell import ProcessShell, ShellSandbox, ToolAddress, shell_traits
    from .sandbox.storage import FileInfo, Files
    from .sandbox.traits import EngineCheck, Traits
    from .sync import run
    from .tools import ApprovalDecision, ApprovalRequest, Approver, Tool, Toolset, tool

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
    "Environment",
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
    "PackagePolicy",
    "PackageRules",
    "Policy",
    "ProcessShell",
    "Program",
    "RunRestarted",
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


__getattr__ = lazy_attributes(
    __name__,
    {
        "": "review sync",
        "core.changes": "FileChange",
        "core.domains": "AllowedDomain",
        "core.errors": (
            "ActboxError CannotFork ErrorInfo ErrorKind FileError InvalidValue SandboxStopped SandboxUnavailable "
            "ToolError Unsupported"
        ),
        "core.events": (
            "ApprovalDecided ApprovalRequested ArtifactCreated Completed Event NetworkRequest Output RunRestarted "
            "ToolFinished ToolStarted"
        ),
        "core.limits": "Limits",
        "core.mounts": "FileMount",
        "core.packages": "Environment PackagePolicy PackageRules",
        "core.policy": "Policy",
        "core.program": "Program",
        "core.result": "Artifact ExecutionResult Usage",
        "core.secrets": "Secret",
        "sandbox.contract": "Branches Sandbox Session Snapshot",
        "sandbox.languages": "ENGINES_OF",
        "sandbox.opening": "ENGINES check open_sandbox",
        "sandbox.shell": "ProcessShell ShellSandbox ToolAddress shell_traits",
        "sandbox.storage": "FileInfo Files",
        "sandbox.traits": "EngineCheck Traits",
        "sync": "run",
        "tools": "ApprovalDecision ApprovalRequest Approver Tool Toolset tool",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _as_text(result: Any) -> str:
    from .content.render import render

    return render(result)


def _in_notebooks(shown: Any) -> dict[str, str]:
    from .content.notebook import bundle_of

    return bundle_of(shown)


presentation.as_text, presentation.in_notebooks = _as_text, _in_notebooks
