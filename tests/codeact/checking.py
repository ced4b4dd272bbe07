"""How the tests of the static check have a program checked."""

from __future__ import annotations

from typing import Any

from actbox.codeact.static_check import Checker, check_types
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.tools import Toolset
from tests.codeact.programs_to_check import TOOLS

LONG = 120.0


async def found(program: str, checker: Checker = "ty", toolset: Toolset = TOOLS, **more: Any) -> ErrorInfo:
    error = await check_types(program, toolset, checker=checker, timeout=LONG, **more)
    assert error is not None
    assert error.kind is ErrorKind.TYPE, error
    return error
