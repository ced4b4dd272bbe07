"""The commands about coding agents, `actbox solve` and `actbox profiles`, and their options.

As in `app.py`, each imports its own module when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(profiles, name="profiles")


profiles = typer.Typer(help="Check the profiles of coding agents in agent_config.toml.")


@profiles.command("check")
def profiles_check(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The TOML file that names the models. Default: agent_config.toml here, or in config/.",
            show_default=False,
        ),
    ] = None,
    ping: Annotated[
        bool, typer.Option("--ping", help="Also ask each model a short question, which costs a few tokens.")
    ] = False,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="text or json.")] = "text",
) -> int:
    """Say which profiles would work, and why others do not: a key, a package or an address that is missing.

    The exit code is 1 if the default or the model of a language does not work.
    """
    from .profiles import check_profiles

    return check_profiles(config, ping=ping, form=form)
