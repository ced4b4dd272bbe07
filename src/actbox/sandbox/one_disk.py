"""`Limits.disk_mib` on the engines whose places for files are file systems in memory: one such system for all."""

from __future__ import annotations

from typing import Final

from actbox.core.errors import Unsupported
from actbox.core.policy import Policy

SHARED_MEMORY_MIB: Final = 64
"""The size of `/dev/shm` if it has a file system of its own: for semaphores and small arrays between processes."""
OWN_PLACES: Final = ("/tmp", "/dev/shm")
"""The places for files beside the workspace."""


def one_disk_mib(policy: Policy, engine: str) -> int | None:
    """Return the size of the one file system of a sandbox, `None` if each place for files has its own.

    Each has its own without `disk_mib`, and if their sizes together come to no more. Raises `Unsupported` for a policy
    of which one file system could not keep every limit.
    """
    limits = policy.limits
    overlays = sum(mount.mode == "overlay" for mount in policy.mounts)
    apart = (2 + overlays) * limits.workspace_mib + SHARED_MEMORY_MIB
    if limits.disk_mib is None or limits.disk_mib >= apart:
        return None
    if overlays:
        raise Unsupported(
            f"the {engine} engine keeps what programs write to an overlay apart, where Limits.disk_mib does not count"
            f" it: mount the directory 'ro', or allow a disk_mib of {apart}, which is what all places together can hold"
        )
    if limits.workspace_mib < limits.disk_mib:
        raise Unsupported(
            f"the {engine} engine has one file system for Limits.disk_mib, in which /workspace alone cannot be"
            f" smaller: raise workspace_mib from {limits.workspace_mib} to {limits.disk_mib}, or lower disk_mib to it"
        )
    return limits.disk_mib
