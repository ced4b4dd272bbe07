"""Which runtimes a client has, in words for `actbox doctor`; nothing else asks."""

from __future__ import annotations

import os
import shutil
from typing import Final

from .client import Client, CommandFailed

RUNTIMES: Final = {"crun": "crun", "runc": "runc", "runsc": "runsc", "kata": "kata-runtime"}
"""The runtimes that this engine knows, each by the name that `runtime=` takes, and its program."""
_SECONDS: Final = 10.0
_PODMAN: Final = "{{.Version.Version}} {{.Host.OCIRuntime.Name}}"
_DOCKER: Final = "{{.ServerVersion}} {{.DefaultRuntime}}{{range $name, $_ := .Runtimes}} {{$name}}{{end}}"


def client_and_runtimes(client: Client) -> tuple[str, ...]:
    """Return a phrase on the client and one on its runtimes. Raises `CommandFailed` if it says neither."""
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
    # Docker lists runc under the name of what calls it as well.
    named = sorted({usual, *named} - {"io.containerd.runc.v2"})
    missing = [name for name in ("runsc", "kata") if name not in named]
    there = ", ".join(f"{name} (used unless told)" if name == usual else name for name in named)
    return (
        f"client: {client.name} {version} at {client.path}",
        f"runtimes: {there}" + (f"; not here: {' and '.join(missing)}" if missing else ""),
    )
