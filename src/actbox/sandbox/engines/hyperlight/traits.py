"""The traits of the `hyperlight` engine."""

from __future__ import annotations

from actbox.sandbox.traits import NO_MODULES, NOTHING_AHEAD, Traits

from .options import GuestOptions

_MIB = 2**20


def hyperlight_traits(options: GuestOptions | None = None) -> Traits:
    """Return the engine's traits with these options, by default the usual ones."""
    is_python = options is None or options.language == "python"
    memory = "" if options is None else f" ({options.memory_bytes // _MIB} MiB each)"
    return Traits(
        engine="hyperlight",
        isolation=f"a virtual machine without an operating system{memory}, in a worker process of its own",
        isolated=True,
        walls="run",
        languages=("python",) if is_python else ("javascript",),
        python="core" if is_python else "none",
        packages="none, and of the standard library some 57 modules" if is_python else "none",
        platforms=("linux",),
        enforced={
            "wall_seconds": "host timer",
            "cpu_seconds": "host timer",
            "cpus": "hypervisor",
            "memory_mib": "hypervisor",
            "processes": "hypervisor",
            "open_files": "host",
            "file_mib": "host",
            "workspace_mib": "host",
            "disk_mib": "host",
            "output_bytes": "host",
            "tool_calls": "host",
            "tool_bytes": "host",
            "message_bytes": "host",
            "artifacts": "host",
            "artifact_mib": "host",
        },
        network="allowed domains by http_request(), through a proxy; else none",
        domains=True,
        mounts=("ro", "rw"),
        commands=False,
        await_tools=not is_python,
        parallel_tools=False,
        tools_by="callbacks",
        sessions=is_python,
        notes=(
            "a machine has the memory of heap_size and stack_size, not what Limits.memory_mib allows beyond that",
            "links in a mounted directory are not followed",
            NOTHING_AHEAD if is_python else NO_MODULES,
        ),
    )
