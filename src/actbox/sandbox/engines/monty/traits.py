"""The traits of the `monty` engine."""

from __future__ import annotations

from typing import Final

from actbox.sandbox.traits import NOTHING_AHEAD, Traits

TRAITS: Final = Traits(
    engine="monty",
    isolation="an interpreter without system calls, in worker processes with an empty environment",
    isolated=True,
    walls="run",
    python="subset",
    packages="none; a part of the standard library is built in",
    tools_by="callbacks",
    enforced={
        "wall_seconds": "host timer",
        "cpu_seconds": "evaluator",
        "cpus": "language",
        "memory_mib": "evaluator",
        "processes": "language",
        "open_files": "language",
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
    platforms=("linux", "darwin"),
    network="allowed domains by http_request(), through a proxy; else none",
    domains=True,
    mounts=("ro", "rw", "overlay"),
    commands=False,
    sessions=True,
    fork=True,
    notes=(
        "a part of Python: no inheritance, generators, `del`, star imports or sys.exit; what is missing is named",
        "ToolError is Exception, since there are no classes that derive from two exceptions",
        "a coroutine of a tool begins when it is made, not when it is awaited",
        "a program without a value and one whose value is None look the same",
        "a program has one thread, so no more than one processor; a share of one is refused",
        "a second of processor time is one in which the interpreter runs, on a busy machine too",
        "what a program changed in overlays is not kept where the host ended it",
        "a program that is ended by force takes its session with it; so does one that runs out of processor time",
        NOTHING_AHEAD,
    ),
)
