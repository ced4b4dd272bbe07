"""Helpers of the `container` engine's tests: available runtimes, and containers and images."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

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
def somebodys_container(client: Client, labels: Mapping[str, str] | None = None) -> Iterator[str]:
    """Have a container that this engine has not made: with the host's interpreter, as an ordinary user."""
    name = f"somebodys-{secrets.token_hex(4)}"
    root = host_root(client)
    volumes = [part for host, inside in root.mounts for part in ("--volume", f"{host}:{inside}:ro")]
    try:
        client.run(
            *("run", "--detach", "--name", name, "--network", "none", "--user", "4242:4242", "--pull", "never"),
            *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--tmpfs", "/tmp:rw,exec,mode=1777"),
            *volumes,
            *(part for label, value in (labels or {}).items() for part in ("--label", f"{label}={value}")),
            *("--env", f"PATH={root.python.rpartition('/')[0]}:/usr/bin:/bin", root.image, "sleep", "600"),
        )
        yield name
    finally:
        with contextlib.suppress(ActboxError):
            client.run("rm", "--force", name)


@contextlib.contextmanager
def image_with_python(client: Client, folder: Path) -> Iterator[str]:
    """Have an image with nothing but the host's interpreter in it: its standard library and the libraries it needs."""
    name = f"localhost/somebodys-python:{secrets.token_hex(4)}"
    file = folder / "root.tar"
    library = sysconfig.get_path("stdlib")
    left_out = {"test", "site-packages", "dist-packages", "idlelib", "tkinter", "__pycache__"}
    modules = [
        str(path)
        for path in Path(library).rglob("*")
        if not left_out & set(path.relative_to(library).parts) and not path.is_dir()
    ]
    python = os.path.realpath(sys.executable)
    binaries = [python, *(path for path in modules if path.endswith(".so"))]
    found = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    needed = {word for line in found.splitlines() for word in line.split() if word.startswith("/") and word[-1] != ":"}
    with tarfile.open(file, "w", dereference=True) as tar:
        for path in sorted({python, *modules, *needed}):
            if os.path.isfile(path):
                tar.add(path)
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, python
        tar.addfile(link)
    try:
        client.run("import", str(file), name, seconds=300)
        yield name
    finally:
        with contextlib.suppress(ActboxError):
            client.run("rmi", "--force", name)


def names_of(client: Client, process: int | None = None) -> set[str]:
    """Return the containers that the engine has made for a process, this one unless told."""
    names = client.run("ps", "--all", "--filter", "label=io.actbox=sandbox", "--format", "{{.Names}}").split()
    return {name for name in names if name.startswith(f"actbox-{process or os.getpid()}-")}


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the host's in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
