"""Every attempt there is: one table of them all, made of one table a group."""

from __future__ import annotations

import dataclasses

from tests.escape import (
    artifacts,
    channel,
    dependencies,
    egress,
    files,
    forks,
    injection,
    kernel,
    labels,
    lane_commands,
    lane_handles,  # noqa: F401 (its attempts are in the group of `lane_commands`)
    lane_memory,  # noqa: F401 (the same)
    leaks,
    namespaces,
    nursery_memory,  # noqa: F401 (its attempts are in the group of `leaks`)
    paths,
    privileges,
    processes,
    resources,
    terminals,
)
from tests.escape.attempt import Attempt, Group
from tests.escape.proofs import PROVEN_BY

GROUPS: tuple[Group, ...] = (
    files.GROUP,
    processes.GROUP,
    namespaces.GROUP,
    privileges.GROUP,
    kernel.GROUP,
    egress.GROUP,  # with what needs no proxy
    channel.GROUP,
    resources.GROUP,
    leaks.GROUP,
    artifacts.GROUP,
    terminals.GROUP,
    injection.GROUP,
    paths.GROUP,
    forks.GROUP,
    dependencies.GROUP,
    labels.GROUP,
    lane_commands.GROUP,  # with the other attempts against lanes
)
_WEAKNESSES = {
    (group, what): weakness
    for weakness, groups in PROVEN_BY.items()
    for group, names in groups.items()
    for what in names
}
ATTEMPTS: tuple[Attempt, ...] = tuple(
    dataclasses.replace(attempt, proven_by=_WEAKNESSES.get((attempt.group, attempt.what), ""))
    for group in GROUPS
    for attempt in group.attempts
)
