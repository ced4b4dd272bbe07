"""A static check of a program against its tools, before it runs: `check_types`.

The type checker ty (extra `actbox[typecheck]`) reads the program in a separate process; nothing of it runs. A finding
counts only if the program would certainly fail there. This is advice that saves side effects, never a security
boundary.
"""

from .check import check_types
from .checker import check_available

__all__ = ["check_available", "check_types"]
