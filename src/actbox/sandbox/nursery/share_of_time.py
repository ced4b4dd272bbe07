"""A tree's share of processor time: a lower weight for a tree that computes for long, and a limit on its share.

If the sandbox has a control group for that, the kernel keeps the share and pid 1 sets the weight. Otherwise pid 1 keeps
the share itself, by stopping the tree whenever it has used more.
"""

from __future__ import annotations

import os

# A tree with this debt, in seconds of processor time, is computing, not answering a caller who waits.
_COMPUTES_SECONDS = 0.02
# While no process of a tree wants a processor, this much of its debt is forgiven a second; the debt has a maximum.
FORGIVEN_A_SECOND = 0.2
MOST_OWED_SECONDS = 0.2
# The weights of a tree that answers, of one that computes, and of one that is killed, which has to run once more to
# end. So a tree that answers gets its turn before those that compute; while nobody else wants the processors, a weight
# has no effect. `benchmarks/bombs.py` measures it.
_WEIGHTS = {"cpu_shares": (b"4096", b"205", b"1024"), "cpu_weight": (b"400", b"20", b"100")}


class Weight:
    """The weight of a sandbox's control group: lower for a tree that has used much processor time and still runs."""

    def __init__(self, groups: dict[str, int]) -> None:
        """`groups` are the files of the sandbox's control groups, by name; possibly none of them sets a weight."""
        name = next((name for name in _WEIGHTS if name in groups), "")
        self._file = groups.get(name, -1)
        self._answers, self._computes, self._ends = _WEIGHTS.get(name, (b"", b"", b""))
        self._set_to = b""
        self._owed = self._used = self._at = 0.0

    def begin(self, now: float, owed: float) -> None:
        """Start weighing a run; `owed` is the debt of the sandbox's earlier runs, in seconds of processor time."""
        self._at, self._owed = now, owed
        self._weigh()

    def note(self, used: float, wants_more: bool, now: float) -> None:
        """Record the tree's total processor time in seconds, and whether it wants a processor.

        A tree that wants a processor and gets none, because others have them, does not get its debt forgiven.
        """
        self._owed += used - self._used
        if not wants_more:
            self._owed -= FORGIVEN_A_SECOND * (now - self._at)
        self._owed = min(max(self._owed, 0.0), MOST_OWED_SECONDS)
        self._used, self._at = used, now
        self._weigh()

    def let_end(self) -> None:
        """Raise the weight again, so that a tree that is being killed ends soon."""
        self._set(self._ends)

    def _weigh(self) -> None:
        self._set(self._computes if self._owed >= _COMPUTES_SECONDS else self._answers)

    def _set(self, weight: bytes) -> None:
        if self._file >= 0 and weight != self._set_to:
            self._set_to = weight
            os.pwrite(self._file, weight, 0)


class Share:
    """Limits a tree to `cpus` processors' time by having it stopped for a while."""

    # The unused time that a tree may save up, in seconds of wall time.
    _SAVED_SECONDS = 0.1

    def __init__(self, cpus: float, used: float, now: float) -> None:
        self._cpus = cpus
        self._used = used
        self._at = now
        self._left = cpus * self._SAVED_SECONDS

    def still_seconds(self, used: float, now: float) -> float:
        """Return for how many seconds the tree must be stopped, 0 if not at all; `used` is its total processor time."""
        self._left += self._cpus * (now - self._at) - (used - self._used)
        self._left = min(self._left, self._cpus * self._SAVED_SECONDS)
        self._used, self._at = used, now
        return max(-self._left / self._cpus, 0.0)
