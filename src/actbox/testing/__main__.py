"""`python -m actbox.testing SANDBOX`: tests a sandbox against the contract and the escape corpus."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from importlib.metadata import entry_points

from actbox.cli.engine import options_from
from actbox.cli.errors import UsageError
from actbox.core.errors import InvalidValue

from .target import add_option, opener

PLUGIN = "actbox.testing.plugin"


def main(arguments: list[str] | None = None) -> int:
    """Run the suite in a separate pytest process, and return its exit code; 2 if the sandbox cannot be found."""
    parser = argparse.ArgumentParser(
        prog="python -m actbox.testing",
        description="Try a sandbox by the contract of actbox. What follows SANDBOX goes to pytest: -k files, -x, -n 2.",
    )
    parser.add_argument("sandbox", metavar="SANDBOX", help="an engine's name, or MODULE:FUNCTION")
    add_option(parser)
    given, for_pytest = parser.parse_known_args(arguments)
    if importlib.util.find_spec("pytest") is None:
        parser.error("the kit needs pytest: pip install 'actbox[testing]'")
    sys.path.insert(0, os.getcwd())
    try:
        opener(given.sandbox, options_from(given.option))
    except (InvalidValue, UsageError) as error:
        parser.error(str(error))
    # In another process: pytest cannot rewrite the assertions of modules that are already imported, as these are.
    command = [sys.executable, "-m", "pytest", *with_plugin(), "--pyargs", "actbox.testing.suite"]
    options = [f"--actbox-option={text}" for text in given.option]
    return subprocess.run([*command, f"--actbox-sandbox={given.sandbox}", *options, *for_pytest]).returncode


def with_plugin() -> list[str]:
    """Return the arguments that make pytest load the plugin; none if it is installed as one, since loading it twice is
    an error.
    """
    known = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
    return [] if known else ["-p", PLUGIN]


if __name__ == "__main__":
    raise SystemExit(main())
