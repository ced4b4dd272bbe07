"""The command line: `actbox run`, `actbox map`, `actbox doctor`, `actbox demo`."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line with the process's own arguments, and end the process with its exit code."""
    # Imported here, so that whoever imports this room for a piece of it does not pay for typer.
    from .app import run_app

    raise SystemExit(run_app())
