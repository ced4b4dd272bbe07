"""Whether the `container` engine works here: by making a container and seeing a program run in it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from actbox.core.errors import ActboxError
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .client import CommandFailed, find_client
from .engine import ContainerSandbox, Options
from .runtimes import client_and_runtimes

_SEE_PODMAN: Final = "See what `podman info` says."


def check() -> EngineCheck:
    """Run an empty program in a container. Takes about a second."""
    try:
        client = find_client()
    except CommandFailed as error:
        return _no(f"podman does not answer: {error}", _SEE_PODMAN)
    except ActboxError as error:
        return _no(str(error), "Install Podman, which needs no daemon (`apt-get install podman`), or Docker.")
    try:
        found = client_and_runtimes(client)
    except CommandFailed as error:
        advice = _SEE_PODMAN if client.is_podman else "Start Docker, or install Podman."
        return _no(f"{client.name} does not answer: {error}", advice, (f"client: {client.name} at {client.path}",))
    sandbox = ContainerSandbox(Policy(), Options())

    async def try_it() -> str:
        async with sandbox:
            result = await sandbox.run("")
        return "" if result.success else f"an empty program failed: {result.error}"

    try:
        # In a thread of its own, where no event loop can be running already.
        with ThreadPoolExecutor(1) as thread:
            reason = thread.submit(asyncio.run, try_it()).result()
    except ActboxError as error:
        reason = str(error)
    if reason:
        advice = f"See whether `{client.name} run --rm IMAGE true` works; docs/engines/container.md says more."
        return _no(reason, advice, found)
    return EngineCheck(engine="container", works=True, traits=sandbox.traits, found=found)


def _no(reason: str, advice: str, found: tuple[str, ...] = ()) -> EngineCheck:
    return EngineCheck(engine="container", works=False, reason=reason, advice=advice, found=found)
