"""Every attempt there is: one table of them all, made of one table a group."""

from __future__ import annotations

from tests.escape import (
    artifacts,
    channel,
    dependencies,
    egress,
    files,
    forks,
    injection,
    kernel,
    leaks,
    namespaces,
    paths,
    privileges,
    processes,
    resources,
    terminals,
)
from tests.escape.attempt import Attempt, Group

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
)
ATTEMPTS: tuple[Attempt, ...] = tuple(attempt for group in GROUPS for attempt in group.attempts)
