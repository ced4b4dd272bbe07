"""Sessions beside the Makefile's targets: `nox -l` lists them, and none runs unless it is named.

Each session gets its environment from `scripts/setup`, as the targets do, so there is one way to make one.
"""

from __future__ import annotations

import os
import subprocess

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = []
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def environment(session: nox.Session, **variables: str) -> dict[str, str]:
    """Return the variables of the environment that scripts/setup makes or finds."""
    made = {**os.environ, **variables}
    venv = subprocess.run(["scripts/setup"], stdout=subprocess.PIPE, text=True, check=True, env=made).stdout.strip()
    return {**variables, "PATH": f"{os.path.abspath(venv)}/bin:{os.environ['PATH']}"}


@nox.session
@nox.parametrize("python", VERSIONS)
def tests(session: nox.Session) -> None:
    """Run `make check test test-slow`, or the targets that are named, on a CPython."""
    found = subprocess.run(["scripts/setup", "--interpreters"], stdout=subprocess.PIPE, text=True, check=True).stdout
    interpreters = dict(line.split(" ", 1) for line in found.splitlines())
    fitting = [path for version, path in interpreters.items() if version.startswith(f"{session.python}.")]
    if not fitting:
        session.skip(f"CPython {session.python} is not here, or cannot make environments")
    variables = {"ACTBOX_VENV": f".venv-{session.python}", "ACTBOX_PYTHON": fitting[-1]}
    session.run("make", *(session.posargs or ["check", "test", "test-slow"]), env=variables, external=True)


@nox.session
def drift(session: nox.Session) -> None:
    """List block and event types of the newest SDKs that our formats do not name; needs an index of packages."""
    folder = session.create_tmp()
    variables = environment(session)
    session.run(
        *("uv", "pip", "install", "--quiet", "--upgrade", "--target", folder),
        *("anthropic", "openai", "google-genai", "mcp"),
        env=variables,
        external=True,
    )
    session.run("python", "-m", "tests.content.wire.drift", env={**variables, "PYTHONPATH": folder}, external=True)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run tests, such as `nox -s coverage -- tests/tools`, and print each room's branch coverage.

    Guests are processes of their own, and are not counted.
    """
    folder = session.create_tmp()
    variables = environment(session, COVERAGE_FILE=os.path.join(folder, "coverage"))
    asked = session.posargs or ["-m", "not long and not engines", "-n", "auto"]
    session.run("coverage", "erase", env=variables, external=True)
    session.run("coverage", "run", "-m", "pytest", "-q", *asked, env=variables, external=True, success_codes=range(6))
    session.run("coverage", "combine", "--quiet", env=variables, external=True)
    session.run("python", "scripts/rooms", "--coverage", env=variables, external=True)


@nox.session
def types(session: nox.Session) -> None:
    """Print how much of the public interface has a type that every type checker reads alike."""
    verify = ("pyright", "--verifytypes", "actbox", "--ignoreexternal", *session.posargs)
    session.run(*verify, env=environment(session), external=True, success_codes=[0, 1])
