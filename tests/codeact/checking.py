"""A helper that runs the static check on a program for the tests."""

from __future__ import annotations

from typing import Any

from actbox.codeact.static_check import check_types
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.tools import Toolset
from tests.codeact.programs_to_check import TOOLS

LONG = 120.0


async def found(program: str, toolset: Toolset = TOOLS, **more: Any) -> ErrorInfo:
    error = await check_types(program, toolset, timeout=LONG, **more)
    assert error is not None
    assert error.kind is ErrorKind.TYPE, error
    return error
