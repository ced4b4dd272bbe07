"""Checks whether the `container` engine works here, by running a program in a container."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from actbox.core.errors import ActboxError
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .client import Client, CommandFailed, find_client
from .engine import ContainerSandbox, Options

_SEE_PODMAN: Final = "See what `podman info` says."
RUNTIMES: Final = {"crun": "crun", "runc": "runc", "runsc": "runsc", "kata": "kata-runtime"}
"""The runtimes that this engine knows: the name for `runtime=`, and its program."""
_SECONDS: Final = 10.0
_PODMAN: Final = "{{.Version.Version}} {{.Host.OCIRuntime.Name}}"
_DOCKER: Final = "{{.ServerVersion}} {{.DefaultRuntime}}{{range $name, $_ := .Runtimes}} {{$name}}{{end}}"


def check() -> EngineCheck:
    """Run an empty program in a container. Takes about a second."""
    try:
        client = find_client()
    except CommandFailed as error:
        return _no(f"podman does not answer: {error}", _lacking_for_user() or _SEE_PODMAN)
    except ActboxError as error:
        return _no(str(error), "Install Podman, which needs no daemon (`apt-get install podman`), or Docker.")
    try:
        found = client_and_runtimes(client)
    except CommandFailed as error:
        advice = (_lacking_for_user() or _SEE_PODMAN) if client.is_podman else "Start Docker, or install Podman."
        return _no(f"{client.name} does not answer: {error}", advice, (f"client: {client.name} at {client.path}",))
    sandbox = ContainerSandbox(Policy(), Options())

    async def try_it() -> str:
        async with sandbox:
            result = await sandbox.run("")
        return "" if result.success else f"an empty program failed: {result.error}"

    try:
        # In a new thread, where no event loop can be running.
        with ThreadPoolExecutor(1) as thread:
            reason = thread.submit(asyncio.run, try_it()).result()
    except ActboxError as error:
        reason = str(error)
    if reason:
        lacking = _lacking_for_user() if client.is_local else ""
        see = f"See whether `{client.name} run --rm IMAGE true` works; docs/engines/container.md says more."
        return _no(reason, lacking or see, found)
    return EngineCheck(engine="container", works=True, traits=sandbox.traits, found=found)


def _lacking_for_user() -> str:
    """Return advice on what Podman lacks for an ordinary user on Linux, or ""."""
    if sys.platform != "linux" or os.geteuid() == 0:
        return ""
    lacking = []
    if not all(map(shutil.which, ("newuidmap", "newgidmap"))):
        lacking.append("newuidmap: `apt-get install uidmap` (Debian, Ubuntu) or `dnf install shadow-utils` (Fedora)")
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        name = str(os.geteuid())
    if not all(_has_range(file, name) for file in ("/etc/subuid", "/etc/subgid")):
        add = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}"
        lacking.append(f"a range of user and group ids of {name}'s own: `{add}`, then `podman system migrate`")
    return f"Podman needs, for a user who is not root, {'; and '.join(lacking)}." if lacking else ""


def _has_range(file: str, name: str) -> bool:
    try:
        owners = {line.partition(":")[0] for line in Path(file).read_text().splitlines()}
    except OSError:
        return False
    return bool(owners & {name, str(os.geteuid())})


def _no(reason: str, advice: str, found: tuple[str, ...] = ()) -> EngineCheck:
    return EngineCheck(engine="container", works=False, reason=reason, advice=advice, found=found)


def client_and_runtimes(client: Client) -> tuple[str, ...]:
    """Return a phrase on the client and one on its runtimes. Raises `CommandFailed` if it reports neither."""
    answer = client.run("info", "--format", _PODMAN if client.is_podman else _DOCKER, seconds=_SECONDS)
    try:
        version, usual, *named = answer.split()
    except ValueError:
        raise CommandFailed(f"`{client.name} info` answered {answer.strip()!r}") from None
    usual = os.path.basename(usual)
    if client.is_podman and not client.is_local:
        return f"client: {client.name} {version} at {client.path}", f"runtimes: {usual}, at the other end"
    if client.is_podman:
        named = [name for name, program in RUNTIMES.items() if shutil.which(name) or shutil.which(program)]
    # Docker also lists runc under the name of its shim.
    named = sorted({usual, *named} - {"io.containerd.runc.v2"})
    missing = [name for name in ("runsc", "kata") if name not in named]
    there = ", ".join(f"{name} (default)" if name == usual else name for name in named)
    return (
        f"client: {client.name} {version} at {client.path}",
        f"runtimes: {there}" + (f"; not here: {' and '.join(missing)}" if missing else ""),
    )
