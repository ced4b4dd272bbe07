"""What a container has been given for the mounts of its policy, looked at from inside before any program runs in it.

Where root has no hand in it, Podman and Docker are told a path, and mount whatever lies there when they come to it. A
program of another run that may change the folder around it could put a link there just then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from actbox.core.errors import SandboxUnavailable
from actbox.core.mounts import FileMount

from .client import Client, CommandFailed
from .orphans import boot

_LOOK = """
import json, os, sys
try: boot = open('/proc/sys/kernel/random/boot_id').read().strip()
except OSError: boot = ''
found = [os.stat(path) for path in sys.argv[1:]]
print(json.dumps([boot, [[status.st_dev, status.st_ino] for status in found]]))
"""


def check_seen(
    client: Client, name: str, python: str, mounts: Sequence[tuple[FileMount, str]], *, one_kernel: bool
) -> None:
    """See to it that a container was given what its policy means. Blocks. Raises `SandboxUnavailable`.

    `python` is an interpreter there; `mounts` come with where each lies there. `one_kernel` is whether the container's
    kernel is known to be this process's.
    """
    try:
        boot_there, found = json.loads(
            client.run("exec", name, python, "-I", "-S", "-c", _LOOK, *(path for _, path in mounts))
        )
        seen = [(int(device), int(inode)) for device, inode in found]
    except CommandFailed as error:
        raise SandboxUnavailable(f"what was mounted cannot be seen: {error}") from error
    except (ValueError, TypeError) as error:
        raise SandboxUnavailable(
            "what was mounted cannot be seen: the container's Python said no such thing"
        ) from error
    if not one_kernel and (not boot_there or boot_there != boot()):
        _refuse_what_can_change(client, mounts)  # another kernel numbers files in its own way
        return
    for (mount, _), identity in zip(mounts, seen, strict=True):
        if identity != mount.identity:
            raise SandboxUnavailable(
                f"{mount.host_path} cannot be mounted, since something else came to lie there just when it was"
            )


def _refuse_what_can_change(client: Client, mounts: Sequence[tuple[FileMount, str]]) -> None:
    """Refuse mounts that programs of this policy can put something else in the place of."""
    for mount, _ in mounts:
        for other, _ in mounts:
            if other.mode == "rw" and other.host_path in mount.host_path.parents:
                raise SandboxUnavailable(
                    f"{mount.host_path} cannot be mounted beside {other.host_path}, which programs may change: they "
                    f"could put a link in its place, and {client.name} would follow that; mount a folder elsewhere"
                )
