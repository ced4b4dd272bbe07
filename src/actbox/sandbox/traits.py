"""What an engine really does, so that nobody has to guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What one engine really does on this machine.

    `isolation` is a short phrase for people; `isolated` is whether a hostile program is kept away from the host.
    `enforced` maps each field of `Limits` that holds here to what enforces it: `cgroup v2`, `cgroup v1`, `rlimit`,
    `pid 1` (the sandbox's own first process), `tmpfs`, `host timer`, `host`, or two of these with `and` between; for a
    language of its own `evaluator`, or `language` where that has nothing of the kind. A limit that is not in it does
    not hold, and one `for each process` not for a tree of them. `network` says what a
    program can reach. `mounts` are the modes in which a `FileMount` can be had; where `overlay` is one of them, a
    folder can be mounted at `/input` itself too.
    """

    engine: str
    isolation: str
    isolated: bool
    languages: tuple[str, ...] = ("python",)
    enforced: Mapping[str, str] = field(default_factory=dict)
    network: str = "none"
    mounts: tuple[str, ...] = ()
    tools: bool = True
    await_tools: bool = True
    partial_output: bool = True
    sessions: bool = False
    fork: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "engine": self.engine,
            "isolation": self.isolation,
            "isolated": self.isolated,
            "languages": list(self.languages),
            "enforced": dict(self.enforced),
            "network": self.network,
            "mounts": list(self.mounts),
            "tools": self.tools,
            "await_tools": self.await_tools,
            "partial_output": self.partial_output,
            "sessions": self.sessions,
            "fork": self.fork,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCheck:
    """Whether an engine works on this machine; `reason` why not, `advice` what to do about it."""

    engine: str
    works: bool
    reason: str = ""
    advice: str = ""
    traits: Traits | None = None
