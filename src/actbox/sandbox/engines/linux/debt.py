"""What the runs of a sandbox have taken of the processors, so that one that computes again and again weighs little.

Within a run pid 1 sees to it (`nursery/share_of_time.py`), and begins with what those before have left.
"""

from __future__ import annotations

import threading
import time

from actbox.sandbox.ending import Ending
from actbox.sandbox.nursery.share_of_time import FORGIVEN_A_SECOND, MOST_OWED_SECONDS


class Debt:
    """Seconds of processor time that a sandbox owes; it is forgiven some while none of its runs goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owed = self._idle_since = 0.0
        self._runs = 0

    def begin(self) -> float:
        """Return what is owed as a run begins."""
        with self._lock:
            if self._runs == 0:
                forgiven = FORGIVEN_A_SECOND * (time.monotonic() - self._idle_since)
                self._owed = max(self._owed - forgiven, 0.0)
            self._runs += 1
            return self._owed

    def look(self) -> float:
        """Return what is owed now, where no run begins."""
        with self._lock:
            return self._owed

    def end(self, ending: Ending, dismissed_ms: float | None = None) -> None:
        """Take in what a run has used: what its guest said when it was dismissed, or what pid 1 says of its end.

        Of one that was killed, or met a limit, nobody can say what all its processes used: it owes the most.
        """
        if dismissed_ms is not None:
            used = dismissed_ms / 1000
        elif ending.limit or ending.signal is not None:
            used = MOST_OWED_SECONDS
        else:
            used = ending.cpu_ms / 1000
        with self._lock:
            self._owed = min(self._owed + used, MOST_OWED_SECONDS)
            self._runs -= 1
            self._idle_since = time.monotonic()
