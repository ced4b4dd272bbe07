"""Every attempt there is: one table of them all, made of one table a group."""

from __future__ import annotations

from tests.escape import channel, files, kernel, leaks, namespaces, network, privileges, processes, resources
from tests.escape.attempt import Attempt, Group

GROUPS: tuple[Group, ...] = (
    files.GROUP,
    processes.GROUP,
    namespaces.GROUP,
    privileges.GROUP,
    kernel.GROUP,
    network.GROUP,
    channel.GROUP,
    resources.GROUP,
    leaks.GROUP,
)
ATTEMPTS: tuple[Attempt, ...] = tuple(attempt for group in GROUPS for attempt in group.attempts)
