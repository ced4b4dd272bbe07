"""A test kit for sandboxes: the contract as a test class, an escape corpus, and a benchmark.

    from actbox.testing import SandboxContract

    class TestMySandbox(SandboxContract):
        async def open(self, policy):
            return MySandbox(policy)

Needs `pip install 'actbox[testing]'`. From the command line: `python -m actbox.testing my.module:open_box`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .cases.ground import Cases
    from .cases.needs import case
    from .contract import SandboxContract, SandboxEscape
    from .escape import EscapeAttempt, Prey, escape_attempts

__all__ = ["Cases", "EscapeAttempt", "Prey", "SandboxContract", "SandboxEscape", "case", "escape_attempts"]

# Imported on demand, so that the plugin, which every run of pytest loads, costs next to nothing.
_attribute = lazy_attributes(
    __name__,
    {
        "cases.ground": "Cases",
        "cases.needs": "case",
        "contract": "SandboxContract SandboxEscape",
        "escape": "EscapeAttempt Prey escape_attempts",
    },
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        try:
            import pytest
        except ImportError:
            raise ImportError("actbox.testing needs pytest: pip install 'actbox[testing]'") from None
        pytest.register_assert_rewrite(f"{__name__}.cases")
    return _attribute(name)
