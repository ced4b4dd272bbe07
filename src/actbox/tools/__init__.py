"""Host functions that a sandboxed program may call: `@tool`, their schemas, the set that one run has, typed stubs."""

from .stubs import stubs
from .tool import Approval, Tool, tool
from .toolset import Toolset

__all__ = ["Approval", "Tool", "Toolset", "stubs", "tool"]
