"""The command line: `actbox run`, `repl`, `map`, `review`, `show`, `doctor` and `demo`.

For programs of one's own that sit at a terminal, `actbox.cli.TerminalApprover` asks whoever is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .approver import TerminalApprover

__all__ = ["TerminalApprover", "main"]


def main() -> NoReturn:
    """Run the command line with the process's own arguments, and end the process with its exit code."""
    # Imported here, so that whoever imports this room for a piece of it does not pay for typer.
    from .app import run_app

    raise SystemExit(run_app())


def __getattr__(name: str) -> Any:
    # Not imported above, so that `actbox --version` does not pay for what asks.
    if name == "TerminalApprover":
        from .approver import TerminalApprover

        return TerminalApprover
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
