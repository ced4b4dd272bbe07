"""The processor time that a sandbox's runs have used, so that one that computes again and again gets a low weight.

Within a run pid 1 sets the weight (`nursery/share_of_time.py`), starting from the debt of the earlier runs.
"""

from __future__ import annotations

import threading
import time

from actbox.sandbox.nursery.share_of_time import FORGIVEN_A_SECOND, MOST_OWED_SECONDS
from actbox.sandbox.run_end import Ending

# More than a guest needs, even on a slow machine, to take its program in, to tell the result, and to end.
_OWN_MS = 10.0


class Debt:
    """Seconds of processor time that a sandbox owes; the debt shrinks while none of its runs is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owed = self._idle_since = 0.0
        self._runs = 0

    def begin(self) -> float:
        """Start a run: return the debt in seconds."""
        with self._lock:
            if self._runs == 0:
                forgiven = FORGIVEN_A_SECOND * (time.monotonic() - self._idle_since)
                self._owed = max(self._owed - forgiven, 0.0)
            self._runs += 1
            return self._owed

    def look(self) -> float:
        """Return the debt in seconds now, without starting a run."""
        with self._lock:
            return self._owed

    def end(self, ending: Ending, dismissed_ms: float | None = None, counted_ms: float = 0.0) -> None:
        """End a run: add the time it used, as its guest reported at dismissal or as pid 1 reported of its end.

        `counted_ms` is the time of a dismissed run that its control group counted: a guest may report less, and what
        each needs besides its program is free. A run that was killed, or met a limit, is charged the most, because its
        processes' total is unknown.
        """
        if dismissed_ms is not None:
            used = max(dismissed_ms, counted_ms - _OWN_MS) / 1000
        elif ending.limit or ending.signal is not None:
            used = MOST_OWED_SECONDS
        else:
            used = ending.cpu_ms / 1000
        with self._lock:
            self._owed = min(self._owed + used, MOST_OWED_SECONDS)
            self._runs -= 1
            self._idle_since = time.monotonic()

    def correct(self, reported_ms: float, used_ms: float | None) -> None:
        """Charge a dismissed run for the processor time that its guest did not report.

        `used_ms` is the time that pid 1 knows from the kernel; `None` means unknown, which is charged the most. What
        each guest needs besides its program is free.
        """
        missing = MOST_OWED_SECONDS if used_ms is None else max(used_ms - reported_ms - _OWN_MS, 0.0) / 1000
        with self._lock:
            self._owed = min(self._owed + missing, MOST_OWED_SECONDS)
