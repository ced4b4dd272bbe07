"""A static check of a program against its tools, before it runs: `check_types`.

The program is only read, by `ty` or `pyright` (extra `actbox[typecheck]`), in a process of its own. What counts are
findings that are certain: the program would fail there. It is advice that saves side effects, never a wall.
"""

from .check import check_types
from .checkers import Checker, check_available

__all__ = ["Checker", "check_available", "check_types"]
