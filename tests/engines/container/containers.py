"""What tests of the `container` engine share: which runtimes are here, and containers and images that they make."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from actbox.core.errors import ActboxError
from actbox.sandbox.engines.container.client import Client, find_client
from actbox.sandbox.engines.container.image import host_root
from tests.conftest import engine_check

RUNTIMES = ["", "runsc"]


def needs(runtime: str = "") -> Client:
    """Skip the test where there is no such runtime; return the client."""
    found = engine_check("container")
    if not found.works:
        pytest.skip(f"the container engine does not work here: {found.reason}. {found.advice}")
    if runtime and not shutil.which(runtime):
        pytest.skip(f"{runtime} is not installed here")
    try:
        return find_client(runtime)
    except ActboxError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def somebodys_container(client: Client) -> Iterator[str]:
    """Have a container that this engine has not made: with the host's interpreter, as an ordinary user."""
    name = f"somebodys-{secrets.token_hex(4)}"
    root = host_root(client, ())
    volumes = [part for host, inside in root.mounts for part in ("--volume", f"{host}:{inside}:ro")]
    try:
        client.run(
            *("run", "--detach", "--name", name, "--network", "none", "--user", "4242:4242", "--pull", "never"),
            *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--tmpfs", "/tmp:rw,exec,mode=1777"),
            *volumes,
            *("--env", f"PATH={root.python.rpartition('/')[0]}:/usr/bin:/bin", root.image, "sleep", "600"),
        )
        yield name
    finally:
        with contextlib.suppress(ActboxError):
            client.run("rm", "--force", name)


def names_of(client: Client, process: int | None = None) -> set[str]:
    """Return the containers that the engine has made for a process, this one unless told."""
    names = client.run("ps", "--all", "--filter", "label=io.actbox=sandbox", "--format", "{{.Names}}").split()
    return {name for name in names if name.startswith(f"actbox-{process or os.getpid()}-")}


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the host's in a process of its own."""
    import sys

    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
