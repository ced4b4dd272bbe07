"""Which limits of a container its control groups keep, by what the client says of itself.

Where it is not root that runs Podman or Docker, there may be none: then both ignore such limits, or refuse them.
"""

from __future__ import annotations

import functools
from typing import Final

from actbox.sandbox.nursery.identity import has_privilege

from .client import Client, places

ALL: Final = frozenset({"memory", "cpu", "pids"})
_OF_DOCKER = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "pids": "PidsLimit"}


def controllers(client: Client) -> frozenset[str]:
    """Return which of `ALL` hold. Asks the client once in this process for each place that it is told to use. Blocks.

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
