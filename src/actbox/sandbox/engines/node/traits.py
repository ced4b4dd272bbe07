"""The traits of the `node` engine on this machine."""

from __future__ import annotations

import dataclasses

from actbox.core.packages import CLEAN, HOST
from actbox.sandbox.traits import NO_MODULES, Traits

from .binary import Node

_NOTES = (
    "Limits.memory_mib counts Node itself, some 45 MiB, and no rlimit holds it: V8 maps more than it uses",
    "Limits.processes does not count Node's own threads",
    "the value of a program is what eval() would give: of the last statement that has one",
    NO_MODULES,
)


def lacking(node: Node) -> str:
    """Return a sentence on what a Node is too old for, or ""."""
    return "" if node.strips_types else f"TypeScript needs Node 22.13 or later, and this is {node.version_text}"


def node_traits(linux: Traits, node: Node, environment: str = HOST) -> Traits:
    """Return the engine's traits, given those of the `linux` engine that isolates it."""
    memory = linux.enforced["memory_mib"].removesuffix(" and rlimit")
    languages = ("javascript", "typescript") if node.strips_types else ("javascript",)
    no_types = filter(None, [lacking(node)])
    return dataclasses.replace(
        linux,
        engine="node",
        languages=languages,
        python="none",
        dependencies=True,
        session_packages=False,
        lanes=False,
        packages="what Node has built in, and "
        + ("files in /workspace" if environment in (HOST, CLEAN) else f"those of the environment {environment}"),
        least_memory_mib=48,
        enforced={**linux.enforced, "memory_mib": memory},
        fork=False,
        notes=(f"Node {node.version_text}", *_NOTES, *no_types, *linux.notes),
    )
