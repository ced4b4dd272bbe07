"""The `container` engine: Podman or Docker, with a warm interpreter in each container that runs are forked from.

`engine.py` is the sandbox, `container.py` one container and its agent, `image.py` what its root is made of,
`kept.py` which images stay, `packages.py` what is installed on top of that, `client.py` the command that does it,
`groups.py` which limits it keeps, `orphans.py` what becomes of containers whose process has gone. How guests run in it
is the matter of `sandbox/remote/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actbox.core.policy import Policy

from .check import check
from .engine import ContainerSandbox, Options

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["ContainerSandbox", "check", "open_engine"]


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    image: str | None = None,
    runtime: str = "",
    container: str | None = None,
    client: str = "",
    packages: Sequence[str] = (),
) -> ContainerSandbox:
    """Return a sandbox.

    `image` is an image that is there already, with a Python of version 3.9 or later; without one programs have the
    host's own interpreter and its packages, read-only. `runtime` is the container runtime: `runsc` is gVisor, `kata` a
    virtual machine for each container; else it is the usual one. `container` is the name or id of a container that runs
    already, in which nothing is made or removed but programs and a folder below /tmp. `client` is `podman` or `docker`;
    else it is the first of them that is there. `packages` are requirements such as `pandas==2.2.*`, which programs have
    ahead of what the image has: pip installs them, from wheels, before the first sandbox with this set starts. Raises
    `InvalidValue` for options that make no sense, and `Unsupported` where the policy asks for what containers do not
    have.
    """
    options = Options(image=image, runtime=runtime, container=container, client=client, packages=packages)
    return ContainerSandbox(policy, options)
