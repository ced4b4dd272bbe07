"""The `monty` engine: runs a subset of Python in pydantic-monty's interpreter.

`engine.py` is the sandbox and its sessions, `evaluating.py` runs one program step by step (`steps.py`), and
`library.py` is the only file that imports pydantic-monty. `files.py` (with `folders.py`, `overlay_changes.py`) serves
files. `declarations.py` writes the declarations for the type check; `outcome.py` and `values.py` make a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck, check_failed

from . import library
from .declarations import check_syntax
from .engine import MontySandbox
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["MontySandbox", "check", "open_engine"]


def check() -> EngineCheck:
    """Return whether the library is installed and can start its worker."""
    try:
        library.try_worker()
    except SandboxUnavailable as error:
        return check_failed("monty", error, "see what `python -m pip check` says, and try it in a new process")
    return EngineCheck(engine="monty", works=True, traits=TRAITS)


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    type_check: bool = False,
    type_check_stubs: str = "",
    script_name: str = "program.py",
) -> MontySandbox:
    """Return a sandbox.

    With `type_check`, each program is checked before it starts against the types of its tools and inputs and the
    further declarations in `type_check_stubs`. `script_name` is the file name that programs see for themselves.

    Raises `SandboxUnavailable` if the library is missing and `InvalidValue` for stubs that are not Python. The
    sandbox's `start()` raises `InvalidValue` for stubs that use a type or a module unknown to the check.
    """
    if not isinstance(type_check, bool) or not isinstance(type_check_stubs, str):
        raise InvalidValue("type_check is true or false, and type_check_stubs Python text that declares names")
    if not isinstance(script_name, str) or not script_name or any(c in script_name for c in "/\0\n"):
        raise InvalidValue(f"script_name must be a file name such as 'program.py', not {script_name!r}")
    if type_check_stubs and not type_check:
        raise InvalidValue("type_check_stubs say something to the check of types only: give type_check=True as well")
    check_syntax(type_check_stubs)
    library.check_installed()
    return MontySandbox(
        policy, upstream, type_check=type_check, type_check_stubs=type_check_stubs, script_name=script_name
    )
