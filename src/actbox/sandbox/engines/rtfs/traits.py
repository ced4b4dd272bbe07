"""The traits of the `rtfs` engine, and the budget that it makes of limits."""

from __future__ import annotations

from typing import Final

from actbox.core.limits import Limits
from actbox.rtfs.budget import Budget
from actbox.sandbox.traits import NO_MODULES, Traits

STEPS_PER_SECOND: Final = 1_000_000
"""The steps for each second of `Limits.cpu_seconds`. Steps end a program in the same place on every machine."""

# The evaluator needs no clock of its own: the run's clock, which can be paused, ends the program.
_NO_WALL_SECONDS: Final = 1e9

TRAITS = Traits(
    engine="rtfs",
    isolation="language: nothing in it can name a file, a process, the network or a clock",
    isolated=True,
    languages=("rtfs",),
    python="none",
    files=False,
    commands=False,
    await_tools=False,
    parallel_tools=False,
    tools_by="callbacks",
    enforced={
        "wall_seconds": "host timer",
        "cpu_seconds": "evaluator",
        "cpus": "language",
        "memory_mib": "evaluator",
        "processes": "language",
        "open_files": "language",
        "file_mib": "language",
        "workspace_mib": "language",
        "disk_mib": "language",
        "output_bytes": "language",
        "tool_calls": "host",
        "tool_bytes": "host",
        "message_bytes": "evaluator",
        "artifacts": "language",
        "artifact_mib": "language",
    },
    sessions=True,
    fork=True,
    notes=(
        "deterministic: the same program, inputs and answers of tools come to the same value, or the same error",
        f"a second of processor time is {STEPS_PER_SECOND:,} steps; no value may be larger than message_bytes",
        "memory is counted by the evaluator, from the sizes of the values that are alive",
        "there are no files, no commands and no output: what a program comes to is its value",
        "what takes a program more than some milliseconds is done in a thread beside the host's event loop",
        "in a session each program has the whole of cpu_seconds, and each copy the whole of memory_mib",
        "tool calls are made one after the other, and wait for their answers",
        NO_MODULES,
    ),
)


def budget_of(limits: Limits) -> Budget:
    """Return the evaluator's budget for these limits."""
    memory = limits.memory_mib * 2**20
    return Budget(
        steps=max(1, int(limits.cpu_seconds * STEPS_PER_SECOND)),
        wall_seconds=_NO_WALL_SECONDS,
        value_bytes=min(limits.message_bytes, memory),
        memory_bytes=memory,
    )
