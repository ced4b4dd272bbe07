"""The mounts of each run of a sandbox whose policy has overlays: what a run writes to an overlay is for no other one.

A lane stays, and changes its mounts between two runs, with the workspace's own mount among them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from actbox.core.policy import Policy
from actbox.sandbox.overlays import Overlay, OverlayChanges

from .descriptors import close_all

if TYPE_CHECKING:
    from .lanes import Lane
    from .stored import StoredWorkspace


class NextMounts:
    """Gives each run its overlays, and a lane those of its next run."""

    def __init__(self, policy: Policy) -> None:
        self._mounts = policy.mounts
        self._limits = policy.limits
        self._keeps_changes = any(mount.keep_changes for mount in policy.mounts)

    def part(self, made: list[int], before: int = 0) -> tuple[list[int], OverlayChanges | None]:
        """Split the result of `make_mounts` into the descriptors that a run attaches and the overlays that it reports.

        `before` is the number of mounts that stand before those of the policy.

        A mount whose changes are kept has three descriptors: the mount, the file system for its changes, and a
        directory of that. A run attaches the workspace, the inputs, all mounts, and then those file systems.
        """
        if not self._keeps_changes:
            return made, None
        descriptors = iter(made)
        attached = [next(descriptors) for _ in range(2 + before)]
        uppers, overlays = [], []
        for mount in self._mounts:
            attached.append(next(descriptors))
            if mount.keep_changes:
                uppers.append(next(descriptors))
                path, identity = str(mount.mount_path), mount.identity
                upper = next(descriptors)
                overlays.append(Overlay(mount=path, host_path=mount.host_path, identity=identity, upper=upper))
        return [*attached, *uppers], OverlayChanges(overlays, self._limits)

    def renew(self, later: Callable[[Callable[[], None]], None], stored: StoredWorkspace, lane: Lane) -> None:
        """Have a lane, whose run is over, go on in new mounts: now if some were made ahead, else `later`.

        The lane ends if none can be made.
        """
        made = stored.take_mounts()
        if made is None:
            later(partial(self._make, stored, lane))
        else:
            self._go_on(lane, made)

    def _make(self, stored: StoredWorkspace, lane: Lane) -> None:
        try:
            made = stored.make_mounts()
        except BaseException:
            lane.child.kill()
            raise
        self._go_on(lane, made)

    def _go_on(self, lane: Lane, made: list[int]) -> None:
        mounts, overlays = self.part(made)
        try:
            lane.go_on(mounts, overlays)
        finally:
            close_all(mounts)
