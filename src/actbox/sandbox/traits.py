"""What an engine really does, so that nobody has to guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

NOTHING_AHEAD: Final = "nothing is imported ahead: what Policy.preload names is imported when a program says so"
"""The note of an engine of Python for which `Policy.preload` changes nothing."""
NO_MODULES: Final = "Policy.preload names modules of Python, and changes nothing here"
"""The note of an engine of another language."""

Walls = Literal["run", "sandbox"]
"""What an engine's walls stand around.

`run`: each run has users, processes, mounts, a network and a `/tmp` of its own, and meets neither another run of its
sandbox nor what started it. `sandbox`: runs that go on at once in one sandbox are in the same place, and what starts
them is in it too: they see each other's processes, ports and `/tmp`, share what the kernel counts by user, and may end
each other. Two sandboxes are always apart.
"""

Python = Literal["full", "standard library", "core", "subset", "none"]
"""How much of Python an engine runs.

`full`: CPython with any package, processes and threads. `standard library`: CPython with its standard library, and
neither processes nor packages with compiled parts. `core`: CPython's language with a part of the standard library.
`subset`: a part of the language. `none`: another language.
"""


ToolsBy = Literal["channel", "callbacks", "files", "http", ""]
"""How tool calls of a program reach the host.

`channel`: by a socket or a pipe. `callbacks`: the interpreter is in this process or one of its own, and calls it.
`files`: by files in the sandbox, which the host looks for and answers in. `http`: the program's side reaches the tool
proxy of the host. Nothing: there are no tools.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What one engine really does on this machine.

    `isolation` is a short phrase for people; `isolated` is whether a hostile program is kept away from the host.
    `enforced` maps each field of `Limits` that holds here to what enforces it: `cgroup v2`, `cgroup v1`, `rlimit`,
    `pid 1` (the sandbox's own first process), `agent` (a process of ours there, which starts runs, and sees what
    processes have, not what the kernel holds for them), `tmpfs`, `host timer`, `host`, or two of these with `and`
    between; for a language of its own `evaluator`, or `language` where that has nothing of the kind. A limit that is
    not in it does not hold, and one `for each process` not for a tree of them. `network` says what a program can
    reach, and `domains` whether `Policy.domains` opens more of it, through the egress proxy. `walls` says whether
    runs of one sandbox are kept from each other too; `sandbox` claims less, and is what is assumed of an engine that
    does not say. `mounts` are the modes in which a `FileMount` can be had; where `overlay` is one of them, a folder
    can be mounted at `/input` itself too. `packages` is a short phrase on what can be imported beside the standard
    library. Where there are sessions they run `session_languages`, which are all `languages` unless told.

    What is false is refused: `files` (the file methods, `Program.files`, artifacts) and `commands` (`execute`) with
    `Unsupported` when they are asked for, likewise `tools`, `sessions` and `fork`; a program that uses `await` where
    there is no `await_tools` with a failed result that says so. `parallel_tools` is whether `asyncio.gather` has
    several calls under way at once, and `tools_by` how calls travel, of which a program sees nothing; `partial_output`
    whether what a program printed before it was ended is kept, and comes as it goes; `tracebacks` whether an error says
    the line of the program, and shows it. `platforms` are those that the engine is for, as `sys.platform` has them.
    """

    engine: str
    isolation: str
    isolated: bool
    walls: Walls = "sandbox"
    languages: tuple[str, ...] = ("python",)
    python: Python = "full"
    packages: str = "none"
    platforms: tuple[str, ...] = ("linux", "darwin", "win32")
    enforced: Mapping[str, str] = field(default_factory=dict)
    network: str = "none"
    domains: bool = False
    mounts: tuple[str, ...] = ()
    files: bool = True
    commands: bool = True
    tools: bool = True
    await_tools: bool = True
    parallel_tools: bool = True
    tools_by: ToolsBy = "channel"
    partial_output: bool = True
    tracebacks: bool = True
    sessions: bool = False
    fork: bool = False
    session_languages: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tools:
            object.__setattr__(self, "tools_by", "")

    def has_sessions_of(self, language: str) -> bool:
        """Whether there are sessions whose programs are in a language."""
        languages = self.languages if self.session_languages is None else self.session_languages
        return self.sessions and language in languages

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "engine": self.engine,
            "isolation": self.isolation,
            "isolated": self.isolated,
            "walls": self.walls,
            "languages": list(self.languages),
            "python": self.python,
            "packages": self.packages,
            "platforms": list(self.platforms),
            "enforced": dict(self.enforced),
            "network": self.network,
            "domains": self.domains,
            "mounts": list(self.mounts),
            "files": self.files,
            "commands": self.commands,
            "tools": self.tools,
            "await_tools": self.await_tools,
            "parallel_tools": self.parallel_tools,
            "tools_by": self.tools_by,
            "partial_output": self.partial_output,
            "tracebacks": self.tracebacks,
            "sessions": self.sessions,
            "fork": self.fork,
            "session_languages": list(filter(self.has_sessions_of, self.languages)),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCheck:
    """Whether an engine works on this machine; `reason` why not, `advice` what to do about it.

    `found` are phrases on what the engine uses of this machine, such as a client and its runtimes.
    """

    engine: str
    works: bool
    reason: str = ""
    advice: str = ""
    traits: Traits | None = None
    found: tuple[str, ...] = ()
