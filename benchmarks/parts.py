"""The parts of `make bench`, each short enough for a quiet ten minutes on two processors, and the subjects in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ENGINES = ("wasm", "monty", "container", "node", "hyperlight")
"""Subjects that are about the engine of their name; the others are about `linux`."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "speed": ("fresh_run", "session_run", "empty_pool", "cold_start", "cancelling", "tool_calls", "forks"),
    "rates": ("throughput", "tool_mail"),
    "streams": ("output", "streaming", "loop_steps"),
    "agents": ("codeact.overhead", "codeact.costs", "strands_calls", "coding_agent", "codegen.machinery"),
    "governed": ("rtfs", "dependencies", "capabilities", "journal"),
    "engines": ENGINES,
    "isolation": ("walls", "bombs"),
    "density": ("memory", "fan_out", "many"),
}
"""Modules of this folder, each with `async def measure(effort) -> list[Row]`. What fills the machine is last."""

SUBJECTS = tuple(subject for subjects in PARTS.values() for subject in subjects)


def chosen(names: Iterable[str]) -> list[str]:
    """Return the subjects of these names, in the order of the parts; a part stands for all its subjects.

    Raises `LookupError`, with what there is, where a name is neither.
    """
    names = list(names)
    if unknown := [name for name in names if name not in PARTS and name not in SUBJECTS]:
        raise LookupError(
            f"there is no part or subject {', '.join(unknown)}; parts are {', '.join(PARTS)}; "
            f"subjects are {', '.join(SUBJECTS)}"
        )
    return [subject for part, subjects in PARTS.items() for subject in subjects if part in names or subject in names]
