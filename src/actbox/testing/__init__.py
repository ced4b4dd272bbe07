"""The kit that proves a sandbox: the contract as a test class, an escape corpus, and a benchmark.

    from actbox.testing import SandboxContract

    class TestMySandbox(SandboxContract):
        async def open(self, policy):
            return MySandbox(policy)

Needs `pip install 'actbox[testing]'`. From the command line: `python -m actbox.testing my.module:open_box`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .cases.case import Cases, case
    from .contract import SandboxContract
    from .escape import EscapeAttempt, Prey, escape_attempts
    from .escape.suite import SandboxEscape

__all__ = ["Cases", "EscapeAttempt", "Prey", "SandboxContract", "SandboxEscape", "case", "escape_attempts"]

# Imported when they are asked for, so that the plugin, which every run of pytest loads, costs next to nothing.
_WHERE: Final = {
    "Cases": "cases.case",
    "EscapeAttempt": "escape",
    "Prey": "escape",
    "SandboxContract": "contract",
    "SandboxEscape": "escape.suite",
    "case": "cases.case",
    "escape_attempts": "escape",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import pytest
    except ImportError:
        raise ImportError("actbox.testing needs pytest: pip install 'actbox[testing]'") from None
    pytest.register_assert_rewrite(f"{__name__}.cases")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
