"""What compiled code belongs to while it runs: the global values that it reads, and the meter that it is paid from."""

from __future__ import annotations

import threading

from .budget import Meter
from .values import Value


class Environment:
    """Shared by an interpreter and its forks, whose functions are the same code: one of them runs at a time."""

    __slots__ = ("globals", "meter", "turn")

    def __init__(self, globals_: dict[str, Value], meter: Meter) -> None:
        self.globals = globals_
        self.meter = meter
        self.turn = threading.Lock()
        """Held by the interpreter that runs, which sets the other two first."""
