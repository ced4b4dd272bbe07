"""What compiled code belongs to while it runs: the global values that it reads, and the meter that it is paid from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .budget import Meter
from .values import Value


class Environment:
    """Shared by an interpreter and its forks, whose functions are the same code: one of them runs at a time."""

    __slots__ = ("_lock", "globals", "meter")

    def __init__(self, globals_: dict[str, Value], meter: Meter) -> None:
        self.globals = globals_
        self.meter = meter
        self._lock = threading.Lock()

    @contextmanager
    def of(self, globals_: dict[str, Value], meter: Meter) -> Iterator[None]:
        """Let code run with these, once no other interpreter of the family runs."""
        with self._lock:
            self.globals, self.meter = globals_, meter
            yield

    @property
    def is_free(self) -> bool:
        """Whether nobody runs, so that `of` would hardly wait; it may be otherwise a moment later."""
        return not self._lock.locked()
