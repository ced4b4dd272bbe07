"""How much of the processors a tree gets: less weight for one that computes for long, and no more than its share.

Where the sandbox has a control group for that, the kernel keeps the share and pid 1 sets the weight. Elsewhere pid 1
keeps the share itself: it stops the tree whenever that is ahead of it.
"""

from __future__ import annotations

import os

# A tree that has used so much without a pause computes, and does not answer somebody who waits.
_COMPUTES_SECONDS = 0.05
# For each file of a group that sets a weight: the usual one, and a tenth of it, as much as a process of nice 10 has.
# So one that answers at once has its turn before those that compute, and where nobody else wants the processors a
# weight changes nothing. Not less: what is ended has to run once more to end. `benchmarks/bombs.py` shows the effect.
_WEIGHTS = {"cpu_shares": (b"1024", b"102"), "cpu_weight": (b"100", b"10")}


class Weight:
    """The weight of a sandbox's control group."""

    def __init__(self, groups: dict[str, int]) -> None:
        """`groups` are the files of its control groups, by name; there may be none that sets a weight."""
        self._file, self._usual, self._low = -1, b"", b""
        for name, (usual, low) in _WEIGHTS.items():
            if name in groups:
                self._file, self._usual, self._low = groups[name], usual, low
        self._is_low = False
        self._idle_at = 0.0

    def note(self, used: float, before: float) -> None:
        """Take in that the tree has used so many seconds of processor time, at the last look so many."""
        if used == before:
            self._idle_at = used
        self._set(used - self._idle_at > _COMPUTES_SECONDS)

    def restore(self) -> None:
        """Weigh as usual again, so that what is killed now ends soon."""
        self._set(False)

    def _set(self, is_low: bool) -> None:
        if self._file >= 0 and is_low != self._is_low:
            self._is_low = is_low
            os.pwrite(self._file, self._low if is_low else self._usual, 0)


class Share:
    """Keeps a tree to so many processors' time by letting it stand still."""

    # What a tree may save up while it does nothing, in seconds of wall time.
    _SAVED_SECONDS = 0.1

    def __init__(self, cpus: float, used: float, now: float) -> None:
        self._cpus = cpus
        self._used = used
        self._at = now
        self._left = cpus * self._SAVED_SECONDS

    def still_seconds(self, used: float, now: float) -> float:
        """Return for how long the tree, which has used so many seconds in all, must stand still; 0 if it need not."""
        self._left += self._cpus * (now - self._at) - (used - self._used)
        self._left = min(self._left, self._cpus * self._SAVED_SECONDS)
        self._used, self._at = used, now
        return max(-self._left / self._cpus, 0.0)
