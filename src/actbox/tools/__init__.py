"""Tools: host functions that a program in a sandbox may call.

`Tool` and `@tool` make one from a Python function or from a JSON schema, `Toolset` is the frozen set that one run
has, and `stubs` writes it down as typed Python for a model to read, `typescript_declarations`
as TypeScript. An `Approver` is asked before a tool runs that
requires it.
"""

from .approval import ApprovalDecision, ApprovalRequest, Approver
from .definition import Approval, Tool, tool
from .stubs import stubs
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
