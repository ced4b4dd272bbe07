"""How much of the processors a tree gets: less weight for one that computes for long, and no more than its share.

Where the sandbox has a control group for that, the kernel keeps the share and pid 1 sets the weight. Elsewhere pid 1
keeps the share itself: it stops the tree whenever that is ahead of it.
"""

from __future__ import annotations

import os

# A tree that owes so many seconds of processor time computes, and does not answer somebody who waits.
_COMPUTES_SECONDS = 0.02
# While nothing in a tree wants a processor it is forgiven so much a second, and it never owes more than so much.
FORGIVEN_A_SECOND = 0.2
MOST_OWED_SECONDS = 0.2
# The weights of a tree that answers, of one that computes, and of one that is killed: it has to run once more to end.
# So one that answers has its turn before those that compute, and where nobody else wants the processors a weight
# changes nothing. `benchmarks/bombs.py` shows the effect.
_WEIGHTS = {"cpu_shares": (b"4096", b"205", b"1024"), "cpu_weight": (b"400", b"20", b"100")}


class Weight:
    """The weight of a sandbox's control group: less for a tree that has used much of the processors and goes on."""

    def __init__(self, groups: dict[str, int]) -> None:
        """`groups` are the files of its control groups, by name; there may be none that sets a weight."""
        name = next((name for name in _WEIGHTS if name in groups), "")
        self._file = groups.get(name, -1)
        self._answers, self._computes, self._ends = _WEIGHTS.get(name, (b"", b"", b""))
        self._set_to = b""
        self._owed = self._used = self._at = 0.0

    def begin(self, now: float, owed: float) -> None:
        """Weigh from now on as one that answers, or computes if those before it in its sandbox still owe so much."""
        self._at, self._owed = now, owed
        self._weigh()

    def note(self, used: float, wants_more: bool, now: float) -> None:
        """Take in how many seconds of processor time the tree has used in all, and whether it wants a processor.

        One that wants them and gets none, since others have them, has not become one that answers.
        """
        self._owed += used - self._used
        if not wants_more:
            self._owed -= FORGIVEN_A_SECOND * (now - self._at)
        self._owed = min(max(self._owed, 0.0), MOST_OWED_SECONDS)
        self._used, self._at = used, now
        self._weigh()

    def let_end(self) -> None:
        """Weigh more again, so that what is killed now ends soon."""
        self._set(self._ends)

    def _weigh(self) -> None:
        self._set(self._computes if self._owed >= _COMPUTES_SECONDS else self._answers)

    def _set(self, weight: bytes) -> None:
        if self._file >= 0 and weight != self._set_to:
            self._set_to = weight
            os.pwrite(self._file, weight, 0)


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
