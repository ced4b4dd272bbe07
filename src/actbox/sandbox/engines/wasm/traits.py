"""The traits of the `wasm` engine on this machine."""

from __future__ import annotations

import os
from typing import Final

from actbox.sandbox.traits import NOTHING_AHEAD, Traits

_IS_POSIX: Final = os.name == "posix"

TRAITS: Final = Traits(
    engine="wasm",
    isolation="WebAssembly: CPython in an instance of its own (wasmtime), in a worker process",
    isolated=True,
    walls="run",
    python="standard library",
    packages="none; the standard library lacks threads, processes, ctypes, bz2 and lzma",
    dependencies=True,
    network="allowed domains by http_request(), through a proxy; else none",
    domains=True,
    mounts=("ro", "rw"),
    commands=False,
    tools_by="callbacks",
    least_memory_mib=16,
    enforced={
        "wall_seconds": "host timer",
        "cpu_seconds": "host timer",
        "memory_mib": "evaluator",
        "processes": "language",
        "workspace_mib": "host timer",
        "disk_mib": "host timer",
        **({"cpus": "host timer", "open_files": "rlimit", "file_mib": "rlimit"} if _IS_POSIX else {}),
        "output_bytes": "host",
        "tool_calls": "host",
        "tool_bytes": "host",
        "message_bytes": "host",
        "artifacts": "host",
        "artifact_mib": "host",
    },
    cwd=True,
    sessions=True,
    notes=(
        "a session's program that is ended while it computes takes the session's state with it",
        "sessions cannot be forked",
        "packages with compiled parts cannot be installed",
        "single files are mounted 'ro' below /input only, as they are when the sandbox starts",
        NOTHING_AHEAD,
    ),
)
