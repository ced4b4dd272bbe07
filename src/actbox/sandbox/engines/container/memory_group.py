"""How often the kernel ended a process of a container for want of memory, as this machine's control groups tell it.

Programs are shown no control groups, and so neither is the agent, which is one of their user's processes.
"""

from __future__ import annotations

from pathlib import Path

_MOUNTED = Path("/sys/fs/cgroup")
_COUNT = "oom_kill"


class MemoryGroup:
    """The control group of a process of this machine, of version 2 or 1."""

    def __init__(self, process: int) -> None:
        """`process` is its id here. Where it has no such group, or has gone, nothing is ever counted."""
        self._file: Path | None = None
        try:
            lines = Path(f"/proc/{process}/cgroup").read_text().splitlines()
        except OSError:
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                self._file = _MOUNTED / "memory" / path.lstrip("/") / "memory.oom_control"
                return
            if not controllers:
                self._file = _MOUNTED / path.lstrip("/") / "memory.events"

    def ends(self) -> int:
        """Return how many processes were ended so far."""
        if self._file is None:
            return 0
        try:
            counted = dict(line.split() for line in self._file.read_text().splitlines())
            return int(counted.get(_COUNT, "0"))
        except (OSError, ValueError):  # the group has gone with its container
            return 0
