"""The traits of a sandbox over a shell, whatever environment the shell is in."""

from __future__ import annotations

from typing import Any, Final

from actbox.core.errors import InvalidValue
from actbox.sandbox.traits import BY_HOST, BY_RLIMIT, NOTHING_AHEAD, Traits

ENFORCED: Final = {**BY_RLIMIT, **BY_HOST}

NOTES: Final = (
    "the workspace is a temporary directory behind the shell, so /workspace, /input and /output do not exist: use "
    "relative paths",
    "each tool call is answered by a command of its own, which takes as long as the shell needs for one",
    "each program is a command of its own: there are no sessions",
    "the number of processes, the size of the workspace and the share of the processors are not limited",
    NOTHING_AHEAD,
)


def shell_traits(engine: str, isolation: str, *, isolated: bool = False, **more: Any) -> Traits:
    """Return the traits of a sandbox over a shell; `more` overrides other fields of `Traits`.

    `isolation` is a phrase on the shell's environment, and `isolated` is true if it contains a hostile program.
    """
    fields: dict[str, Any] = {
        "packages": "those of the Python behind the shell",
        "enforced": ENFORCED,
        "network": "everything that the machine behind the shell reaches",
        "tools_by": "files",
        "cwd": True,
        **more,
    }
    notes = (*NOTES, *fields.pop("notes", ()))
    return Traits(engine=engine, isolation=isolation, isolated=isolated, notes=notes, **fields)


def check_subclass(sandbox: object, *, has_begun: bool) -> None:
    """Raise `InvalidValue` for what a subclass has forgotten; `has_begun` is true if its `__init__` called ours."""
    name = type(sandbox).__name__
    if not isinstance(getattr(sandbox, "traits", None), Traits):
        raise InvalidValue(f"{name} must say its `traits`: traits = shell_traits('its name', isolation='…')")
    if not has_begun:
        raise InvalidValue(f"{name}.__init__ must call super().__init__(policy)")
