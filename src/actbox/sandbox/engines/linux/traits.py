"""What the `linux` engine does on this machine, said honestly."""

from __future__ import annotations

from actbox.sandbox.traits import Traits

from .cgroups import Support


def linux_traits(groups: Support | None) -> Traits:
    """Return the engine's traits, given where control groups can be made."""
    memory = groups.enforcer("memory") if groups else ""
    pids = groups.enforcer("pids") if groups else ""
    return Traits(
        engine="linux",
        isolation="user, pid, mount, net, ipc, uts and cgroup namespaces; seccomp allow-list; no capabilities",
        isolated=True,
        enforced={
            "wall_seconds": "host timer, the whole process tree",
            "cpu_seconds": "rlimit for each process, pid 1 for the tree",
            "memory_mib": f"{memory} for the tree, rlimit for each process"
            if memory
            else "rlimit for each process, pid 1 for the tree",
            "processes": f"{pids} and rlimit" if pids else "rlimit, counted by sandbox",
            "open_files": "rlimit",
            "file_mib": "rlimit",
            "workspace_mib": "tmpfs size",
            "output_bytes": "host",
            "tool_calls": "host",
            "message_bytes": "host",
            "artifacts": "host",
            "artifact_mib": "host",
        },
        network="loopback of its own only",
        mounts=("ro", "rw", "overlay"),
        sessions=True,
        fork=True,
        notes=() if memory else ("without a memory cgroup, what sockets and pipes hold is not counted as memory",),
    )
