"""What an exception is about where it is otherwise than in other guests: what this machine lacks, and its network."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ....guest import failure
from .http import NAME as HTTP_REQUEST
from .http import is_of_network

_ONLY_ALLOWED = "only hosts that the policy allows can be reached, and as it allows"
_NO_WAY = "this sandbox has no network; use the tools or the files that it was given"
_ELSEWHERE = "this engine has a part of the standard library; the linux engine has all of it, and packages"
# What a program may import that the machine does not have; any other missing module is a package.
_KEPT_ASIDE = frozenset(sys.stdlib_module_names)


def describe_exception(error: BaseException, program_name: str, tool_names: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a result says of an exception that the program did not catch; see `guest/failure.py`."""
    return failure.describe_exception(error, program_name, tool_names, _classified)


def _classified(error: BaseException, program_name: str, tool_names: Iterable[str]) -> tuple[str, str, str]:
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name == "socket":
            return "NETWORK", "", _NO_WAY
        if name in _KEPT_ASIDE:
            return "MISSING_DEPENDENCY", "", _ELSEWHERE
        if name not in sys.modules:
            return "MISSING_DEPENDENCY", "", "%s is not there: %s" % (name, _ELSEWHERE)
    if is_of_network(error):
        return "NETWORK", "", _ONLY_ALLOWED
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "PROCESSES", "processes", "this engine has no threads; the linux engine has"
    if isinstance(error, NameError):
        if getattr(error, "name", None) == HTTP_REQUEST:
            return "NETWORK", "", _NO_WAY
        return "RUNTIME", "", _name_hint(error, tool_names)
    return failure.classified(error, program_name, tool_names)


def _name_hint(error: NameError, tool_names: Iterable[str]) -> str:
    """Return which tool was meant, in an interpreter that has no `difflib`."""
    name = (getattr(error, "name", None) or "").lower()
    close = [tool for tool in tool_names if name and (name in tool.lower() or tool.lower() in name)]
    return "there is a tool named %s" % close[0] if close else ""
