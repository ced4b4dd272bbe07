"""The traits of the `container` engine, for each way to have a container."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set

from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.sandbox.traits import BY_AGENT, BY_HOST, COUNTED_BY_AGENT, Traits

from .control_groups import ALL

_NOTES = (
    "runs that go on at once in one sandbox are the same user's in the same container: they see each other's processes "
    "and may signal them, and share /tmp, which is emptied before a run when no other goes on",
    "memory and the number of processes are limited for each run, and once more, with room for what the sandbox itself "
    "needs, for the container as a whole",
)
_LOST = {"memory": "memory", "cpu": "the share of the processors", "pids": "the number of processes"}


def packages_said(image: str | None, policy: Policy, added: Sequence[str]) -> str:
    """Return the phrase on what programs can import; `added` are the operator's own packages."""
    rules, name = policy.packages, policy.environment_name
    if image is not None and policy.environment == HOST:
        said = f"those of the image {image}"
    elif policy.environment == HOST:
        said = "those of the host's environment"
        said += " that the policy approves" if rules is not None else ""
    elif policy.environment == CLEAN:
        said = "none of the host's"
    else:
        said = f"those of the environment {name}" + (f", in the image {image}" if image is not None else "")
    return f"{said}, and {', '.join(added)}" if added else said


def managed_traits(*, runtime: str, packages: str, held: Set[str] = ALL, bounds_files: bool, one_disk: bool) -> Traits:
    """Return the traits of containers that the engine makes itself.

    `held` are the controllers of control groups that enforce limits; `bounds_files` is true if the file systems of the
    workspace and of `/tmp` limit the number of files; `one_disk` if these can be one file system.
    """
    groups = "" if runtime == "runsc" else _groups()
    kernel = {
        "runsc": "a kernel of its own in user space (gVisor)",
        "kata": "a virtual machine of its own (Kata)",
    }.get(runtime, "the runtime's seccomp filter, and on this machine's kernel the linux engine's allow-list as well")
    enforced = {**BY_HOST, **BY_AGENT, "workspace_mib": "tmpfs"}
    if one_disk:
        enforced["disk_mib"] = "tmpfs"
    if groups and "cpu" in held:
        enforced["cpus"] = groups
    if groups and "pids" in held:
        enforced["processes"] = f"{groups} and rlimit"
    notes = [*_NOTES, *COUNTED_BY_AGENT]
    if groups and held != ALL:
        lost = ", ".join(_LOST[name] for name in sorted(ALL - held))
        notes.append(f"control groups do not limit here, for the container as a whole: {lost}")
    if not groups:
        notes.append(
            f"the {runtime} runtime is run without control groups: the share of the processors and the number of "
            "processes are not limited"
        )
    if not bounds_files:
        notes.append(
            "the number of files and directories in the workspace has no limit of its own; what they take beside their "
            + ("content counts as memory" if groups and "memory" in held else "content is the memory of this machine")
        )
    return Traits(
        engine="container",
        isolation=f"a container: namespaces, no capabilities, a user of its own, a read-only root; {kernel}",
        isolated=True,
        walls="sandbox",
        least_memory_mib=16,
        enforced=enforced,
        packages=packages,
        dependencies=True,
        session_packages=True,
        platforms=("linux", "darwin"),
        network="loopback of its own only",
        labels="egress",
        mounts=("ro", "rw"),
        cwd=True,
        sessions=True,
        notes=tuple(notes),
    )


def brought_traits(*, name: str, lowered: tuple[str, ...], network: str) -> Traits:
    """Return the traits of an existing container; `lowered` says which isolation it was made without."""
    without = f", without its usual walls: {'; '.join(lowered)}" if lowered else ""
    return Traits(
        engine="container",
        isolation=f"the container {name}, as it was made{without}",
        isolated=not lowered,
        walls="sandbox",
        least_memory_mib=16,
        enforced={**BY_HOST, **BY_AGENT},
        packages="those in the container",
        platforms=("linux", "darwin"),
        network="loopback of its own only" if network == "none" else "whatever the container reaches",
        labels="results",
        cwd=True,
        sessions=True,
        notes=(
            _NOTES[0],
            *COUNTED_BY_AGENT,
            "the container is yours: its user, its capabilities, its root and its network are as you made them, and "
            "the number of processes, the share of the processors and the size of the workspace are what it allows",
            "/workspace, /input and /output do not exist: the workspace lies below /tmp, so use relative paths",
        ),
    )


def _groups() -> str:
    return "cgroup v2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "cgroup v1"
