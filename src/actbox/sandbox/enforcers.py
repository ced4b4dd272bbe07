"""What enforces limits on several engines, in the words of `Traits.enforced`."""

from __future__ import annotations

from typing import Final

BY_HOST: Final = {
    "wall_seconds": "host timer",
    "output_bytes": "host",
    "tool_calls": "host",
    "tool_bytes": "host",
    "message_bytes": "host",
    "artifacts": "host",
    "artifact_mib": "host",
}
"""What the host counts by itself, wherever a program runs."""

BY_RLIMIT: Final = {
    "cpu_seconds": "rlimit for each process",
    "memory_mib": "rlimit for each process",
    "open_files": "rlimit",
    "file_mib": "rlimit",
}
"""What a kernel enforces of a guest that nobody looks after."""

BY_AGENT: Final = {
    "cpu_seconds": "agent and rlimit",
    "memory_mib": "agent and rlimit",
    "open_files": "rlimit",
    "file_mib": "rlimit",
}
"""The same where an agent of ours counts what all processes of a run have."""
