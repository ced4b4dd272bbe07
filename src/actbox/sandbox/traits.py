"""The traits of an engine: a description of what it really does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.labels import PUBLIC
from actbox.core.lazy_dataclass import dataclass
from actbox.core.packages import HOST

if TYPE_CHECKING:
    from actbox.core.domains import AllowedDomain
    from actbox.core.mounts import FileMount
    from actbox.core.policy import Policy
    from actbox.tools import Toolset

NOTHING_AHEAD: Final = "nothing is imported ahead: what Policy.preload names is imported when a program says so"
"""The note of a Python engine for which `Policy.preload` changes nothing."""
NO_MODULES: Final = "Policy.preload names modules of Python, and changes nothing here"
"""The note of an engine of another language."""

_WITH_LABELS: Final = "the linux and container engines enforce them"

WITH_PACKAGES: Final = "the linux, container and wasm engines"
"""The engines that install packages for programs, for the sentences of the others."""

Walls = Literal["run", "sandbox"]
"""The unit that an engine isolates.

`run`: each run has its own users, processes, mounts, network and `/tmp`, and reaches neither another run of its sandbox
nor the process that started it. `sandbox`: simultaneous runs of one sandbox share one place with the process that
starts them: they see each other's processes, ports and `/tmp`, share what the kernel counts by user, and may end each
other. Two sandboxes are always isolated from each other.
"""

Python = Literal["full", "standard library", "core", "subset", "none"]
"""The extent of Python that an engine runs.

`full`: CPython with any package, processes and threads. `standard library`: CPython with its standard library, but
neither processes nor packages with compiled parts. `core`: CPython's language with a part of the standard library.
`subset`: a part of the language. `none`: another language.
"""


Labels = Literal["", "results", "egress"]
"""How far an engine enforces labels.

`egress`: results carry the label of what the program could have read, and nothing leaves that is not cleared for it.
`results`: results carry the label, but programs reach the network by themselves. Empty: labels are refused.
"""

ToolsBy = Literal["channel", "callbacks", "files", "http", ""]
"""The way by which a program's tool calls reach the host.

`channel`: through a socket or a pipe. `callbacks`: the interpreter is in this process or a worker process, and calls
it. `files`: through files in the sandbox, which the host reads and answers. `http`: the program's side sends requests
to the host's tool proxy. Empty: there are no tools.
"""
BY_HOST: Final = {
    "wall_seconds": "host timer",
    "output_bytes": "host",
    "tool_calls": "host",
    "tool_bytes": "host",
    "message_bytes": "host",
    "artifacts": "host",
    "artifact_mib": "host",
}
"""The limits that the host enforces itself, wherever a program runs."""

BY_RLIMIT: Final = {
    "cpu_seconds": "rlimit for each process",
    "memory_mib": "rlimit for each process",
    "open_files": "rlimit",
    "file_mib": "rlimit",
}
"""The limits that a kernel enforces on a guest that nothing else watches."""

BY_AGENT: Final = {
    "cpu_seconds": "agent and rlimit",
    "memory_mib": "agent and rlimit",
    "open_files": "rlimit",
    "file_mib": "rlimit",
}
"""The limits enforced if our agent also counts the resources of all processes of a run."""

COUNTED_BY_AGENT: Final = (
    "the agent, which counts memory and processor time, looks now and then: a program may have more for a moment",
    "Limits.cpu_seconds misses short processes whose parent ignores their ends (SIGCHLD)",
)
"""The notes on how exact the agent's counts are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The description of what one engine really does on this machine.

    `isolation` is a short phrase for people; `isolated` is true if a hostile program is kept away from the host.
    `enforced` maps each field of `Limits` that is enforced here to its enforcer: `cgroup v2`, `cgroup v1`, `rlimit`,
    `pid 1` (the sandbox's own first process), `agent` (our process there, which starts runs, and counts the processes'
    resources, but not the kernel's memory for them), `tmpfs`, `host timer`, `host`, or two of these joined by `and`;
    for a language of its own `evaluator`, or `language` if the language has nothing to limit. A missing limit is not
    enforced, and one `for each process` is not enforced for a tree of them. `network` says what a program can reach,
    and `domains` whether `Policy.domains` opens more, through the egress proxy. `labels` says how far labels are
    enforced. `walls` says whether runs of one sandbox are also isolated from each other; the default `sandbox` claims
    less. `mounts` are the supported modes of a
    `FileMount`; with `overlay` a directory can also be mounted at `/input` itself. `packages` is a short phrase on what
    can be imported beside the standard library, and `dependencies` says whether a program may ask for more,
    `session_packages` whether also a session gets these while it lives. Sessions run `session_languages`, by default
    all `languages`.

    Missing features are refused: `files` (the file methods, `Program.files`, artifacts), `commands` (`execute`),
    `tools`, `sessions` and `fork` with `Unsupported` when they are requested; a program that uses `await` without
    `await_tools` with a failed result that says so. `parallel_tools` is true if `asyncio.gather` can have several calls
    under way at once; `tools_by` is how calls travel, invisible to programs; `partial_output` is true if the output of
    an ended program is kept, and arrives during the run; `tracebacks` if an error gives the program's line and shows
    it; `cwd` if a `Program` may have its own `cwd` and `env`; `lanes` if an open sandbox may keep the namespaces of a
    run that left nothing behind for its next run, unless `Policy.namespaces` is `"run"`. `platforms` are those the
    engine supports, as in `sys.platform`. Not even an empty program runs with less than `least_memory_mib`: a policy
    with less is `Unsupported`.
    """

    engine: str
    isolation: str
    isolated: bool
    walls: Walls = "sandbox"
    languages: tuple[str, ...] = ("python",)
    python: Python = "full"
    packages: str = "none"
    dependencies: bool = False
    session_packages: bool = False
    platforms: tuple[str, ...] = ("linux", "darwin", "win32")
    enforced: Mapping[str, str] = field(default_factory=dict)
    least_memory_mib: int = 1
    network: str = "none"
    domains: bool = False
    labels: Labels = ""
    mounts: tuple[str, ...] = ()
    files: bool = True
    commands: bool = True
    tools: bool = True
    await_tools: bool = True
    parallel_tools: bool = True
    tools_by: ToolsBy = "channel"
    partial_output: bool = True
    tracebacks: bool = True
    cwd: bool = False
    sessions: bool = False
    fork: bool = False
    lanes: bool = False
    session_languages: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tools:
            object.__setattr__(self, "tools_by", "")

    def has_sessions_of(self, language: str) -> bool:
        """Return whether the engine has sessions for programs in a language."""
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
            "least_memory_mib": self.least_memory_mib,
            "network": self.network,
            "domains": self.domains,
            "labels": self.labels,
            "mounts": list(self.mounts),
            "files": self.files,
            "commands": self.commands,
            "tools": self.tools,
            "await_tools": self.await_tools,
            "parallel_tools": self.parallel_tools,
            "tools_by": self.tools_by,
            "partial_output": self.partial_output,
            "tracebacks": self.tracebacks,
            "cwd": self.cwd,
            "sessions": self.sessions,
            "fork": self.fork,
            "lanes": self.lanes,
            "session_languages": list(filter(self.has_sessions_of, self.languages)),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCheck:
    """The result of checking an engine on this machine; `reason` says why it does not work, `advice` what to do.

    A working engine may lack a part, such as a language: `reason` and `advice` are then about that part. `found` are
    phrases on what the engine uses of this machine, such as a client and its runtimes.
    """

    engine: str
    works: bool
    reason: str = ""
    advice: str = ""
    traits: Traits | None = None
    found: tuple[str, ...] = ()


class NotInstalled(SandboxUnavailable):
    """Raised when an engine lacks something that can be installed: `reason` says what, `advice` how."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}: {advice}")
        self.reason = reason
        self.advice = advice


def check_failed(engine: str, error: SandboxUnavailable, advice: str) -> EngineCheck:
    """Return the check's result for an error; `advice` is used if the error has none."""
    if isinstance(error, NotInstalled):
        return EngineCheck(engine=engine, works=False, reason=error.reason, advice=error.advice)
    return EngineCheck(engine=engine, works=False, reason=str(error), advice=advice)


def check_policy(policy: Policy, engine: str, *lacking: str) -> None:
    """Raise `Unsupported` if a policy sets a field named in `lacking`, or what the engine shows of packages."""
    check_lacking(policy, engine, *lacking)
    check_packages(policy, engine)


def check_lacking(policy: Policy, engine: str, *lacking: str) -> None:
    """Raise `Unsupported` if a policy sets one of the fields named in `lacking`, which the engine does not support."""
    for name in lacking:
        if getattr(policy, name):
            raise Unsupported(f"the {engine} engine does not support Policy.{name}; the linux engine does")


def check_labels(policy: Policy, traits: Traits) -> None:
    """Raise `Unsupported` for a policy whose labels, or limits on them, an engine cannot enforce."""
    if traits.labels == "egress" or not policy.has_labels:
        return
    if not traits.labels:
        raise Unsupported(f"programs of the {traits.engine} engine carry no labels; {_WITH_LABELS}")
    exits: tuple[FileMount | AllowedDomain, ...] = (*policy.mounts, *policy.domains)
    if policy.egress_max is not None or any(one.cleared is not None for one in exits):
        raise Unsupported(
            f"the {traits.engine} engine cannot hold back what programs send over the network: leave out"
            f" Policy.egress_max and cleared=; {_WITH_LABELS}"
        )


def check_tool_labels(toolset: Toolset, traits: Traits) -> None:
    """Raise `Unsupported` for a tool with a label or a clearance on an engine whose programs carry no labels."""
    if traits.labels:
        return
    for tool in toolset:
        if tool.label != PUBLIC or tool.cleared is not None:
            raise Unsupported(
                f"programs of the {traits.engine} engine carry no labels, and the tool {tool.name!r} has one;"
                f" {_WITH_LABELS}"
            )


def check_packages(policy: Policy, engine: str) -> None:
    """Raise `Unsupported` for a policy with an environment or rules for packages, if the engine has neither."""
    if policy.environment != HOST:
        raise Unsupported(f"the {engine} engine has no environment {policy.environment_name!r}; {WITH_PACKAGES} do")
    if policy.packages is not None:
        raise Unsupported(f"the {engine} engine does not support Policy.packages; {WITH_PACKAGES} do")
