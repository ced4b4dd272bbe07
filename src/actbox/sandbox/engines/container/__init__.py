"""The `container` engine: Podman or Docker, with a warm interpreter in each container, from which runs are forked.

`engine.py` is the sandbox, `container.py` one container and its agent, `image.py` the container's root, `cache.py` the
cache of images, `packages.py` programs' packages, `client.py` the Podman or Docker command, `mounts.py` the host's
directories in a container, `control_groups.py` the limits that are enforced, `orphans.py` the containers of ended
processes, `pool.py` the reuse of containers. `sandbox/remote/` runs guests in them.
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

    `image` is an existing image with a Python of version 3.9 or later; without it programs use the host's own
    interpreter and its packages, read-only. `runtime` is the container runtime: `runsc` is gVisor, `kata` a virtual
    machine for each container; the default is the client's. `container` is the name or id of a running container, in
    which nothing is made or removed except programs and a directory below /tmp. `client` is `podman` or `docker`; the
    default is the first of them that exists. `packages` are requirements such as `pandas==2.2.*`, which programs import
    ahead of the image's: they are installed from wheels before the first sandbox with this set starts. Raises
    `InvalidValue` for invalid options, and `Unsupported` if the policy asks for something that containers lack.
    """
    options = Options(image=image, runtime=runtime, container=container, client=client, packages=packages)
    return ContainerSandbox(policy, options)
