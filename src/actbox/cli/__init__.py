"""The command line: `actbox run`, `repl`, `map`, `review`, `show`, `doctor` and `demo`.

Your own terminal programs can use `actbox.cli.TerminalApprover`, which asks the person at the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .approver import TerminalApprover

__all__ = ["TerminalApprover", "main"]


def main() -> NoReturn:
    """Run the command line with the process's own arguments, and end the process with its exit code."""
    # Imported here, so that importing another part of this room does not load typer.
    from .app import run_app

    raise SystemExit(run_app())


# Not imported above, so that `actbox --version` does not load the approver.
__getattr__ = lazy_attributes(__name__, {"approver": "TerminalApprover"})
