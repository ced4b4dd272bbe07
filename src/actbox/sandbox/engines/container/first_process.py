"""The id that a container's first process has on this machine, where the container is one of this machine's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .client import Client


def process_of(client: Client, inspected: dict[str, Any]) -> int:
    """Return the id, of what the client says of a container that it inspected; 0 where it is not known.

    Podman's containers are children of this machine's kernel where the client is local. Docker's daemon may be far: of
    its word it is believed what this kernel says too, which is that a process in this container's control group has
    that id.
    """
    process = int(inspected["State"].get("Pid") or 0)
    return process if process > 0 and (client.is_local or _is_in_group(process, str(inspected["Id"]))) else 0


def _is_in_group(process: int, container: str) -> bool:
    try:
        return len(container) == 64 and container in Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return False
