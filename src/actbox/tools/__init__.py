"""Tools: host functions that a program in a sandbox may call.

`Tool` and `@tool` make one from a Python function or a JSON schema, and `Toolset` is the immutable set for one run.
`stubs` describes it as typed Python for a model, `typescript_declarations` as TypeScript. An `Approver` is asked before
calls of tools that require approval. Every name is imported when it is first used: most runs have no tools.
"""

from typing import TYPE_CHECKING

from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .approval import ApprovalDecision, ApprovalRequest, Approver
    from .definition import Approval, Tool, tool
    from .python_stubs import stubs
    from .toolset import Toolset
    from .typescript import typescript_declarations

__all__ = [
    "Approval",
    "ApprovalDecision",
    "ApprovalRequest",
    "Approver",
    "Tool",
    "Toolset",
    "stubs",
    "tool",
    "typescript_declarations",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "approval": "ApprovalDecision ApprovalRequest Approver",
        "definition": "Approval Tool tool",
        "python_stubs": "stubs",
        "toolset": "Toolset",
        "typescript": "typescript_declarations",
    },
)
