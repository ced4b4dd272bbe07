"""The limits that a container's control groups enforce, as the client reports them.

Without root Podman or Docker may have none: then they ignore such limits, or refuse them. Control groups also count the
processes killed for lack of memory; programs and the agent cannot see them, so the host reads the count.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from actbox.sandbox.nursery.identity import has_privilege

from .client import Client, places

ALL: Final = frozenset({"memory", "cpu", "pids"})
_OF_DOCKER = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "pids": "PidsLimit"}
_MOUNTED = Path("/sys/fs/cgroup")
_COUNT = "oom_kill"


def controllers(client: Client) -> frozenset[str]:
    """Return the controllers of `ALL` that are enforced. Blocks; cached for each place of containers.

    Raises `CommandFailed`.
    """
    if client.is_local and has_privilege():
        return ALL
    return _asked(client, *places())


@functools.cache
def _asked(client: Client, *_places: str) -> frozenset[str]:
    if client.is_podman:
        return ALL & set(client.json("info", "--format", "{{json .Host.CgroupControllers}}") or ())
    found = client.json("info", "--format", "{{json .}}")
    return frozenset(name for name, key in _OF_DOCKER.items() if found.get(key) is True)


class MemoryGroup:
    """The memory control group of a process of this machine, of version 2 or 1."""

    def __init__(self, process: int) -> None:
        """`process` is its id here. If it has no such group, or has ended, the count stays 0."""
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
        """Return the number of processes killed so far for lack of memory."""
        if self._file is None:
            return 0
        try:
            counted = dict(line.split() for line in self._file.read_text().splitlines())
            return int(counted.get(_COUNT, "0"))
        except (OSError, ValueError):  # the group was removed with its container
            return 0
