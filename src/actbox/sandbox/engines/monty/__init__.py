"""The `monty` engine: a part of Python, in pydantic-monty's interpreter.

`engine.py` is the sandbox and its sessions, `evaluating.py` one program step by step (`steps.py`), `library.py` the
only file that knows the library; `files.py` (with `folders.py`, `mounted.py`, `kept.py`) answers for files;
`declared.py` is what the check of types is told, `stubs.py` what callers add to it, `findings.py` what it found;
`outcome.py` and `values.py` what a result says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.not_installed import check_failed
from actbox.sandbox.traits import EngineCheck

from . import library
from .engine import MontySandbox
from .stubs import check_syntax
from .traits import TRAITS

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["MontySandbox", "check", "open_engine"]


def check() -> EngineCheck:
    """Say whether the library is there, and starts its worker."""
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

    `type_check` has programs checked before they begin, against the types of their tools and inputs and further
    declarations in `type_check_stubs`; `script_name` is what programs find as the name of their file.

    Raises `SandboxUnavailable` where the library is missing, `InvalidValue` for stubs that are no Python, and its
    `start()` for those that name a type or a module which the check does not know.
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
