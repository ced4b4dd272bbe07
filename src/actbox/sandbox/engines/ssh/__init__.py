"""The `ssh` engine: runs programs under an account of another machine, through the OpenSSH client."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.sandbox.traits import EngineCheck

from .engine import TRAITS, SshSandbox
from .target import SshTarget

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["TRAITS", "SshSandbox", "SshTarget", "check", "open_engine"]


def check() -> EngineCheck:
    """Return why the engine cannot be checked: it depends on a machine that is not named here."""
    if shutil.which("ssh") is None:
        return EngineCheck(
            engine="ssh",
            works=False,
            reason="there is no ssh command",
            advice="install the OpenSSH client (Debian: openssh-client), and name a machine: host='user@host'",
            traits=TRAITS,
        )
    return EngineCheck(
        engine="ssh",
        works=False,
        reason="it runs programs on another machine, which has to be named",
        advice="open_sandbox('ssh', host='user@host', allow_unisolated=True), where `ssh user@host` asks for nothing",
        traits=TRAITS,
    )


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    host: str = "",
    port: int | None = None,
    key: str | Path | None = None,
    known_hosts: str | Path | None = None,
    config: str | Path | None = None,
    python: str = "python3",
    folder: str | None = None,
    connect_seconds: int = 15,
) -> SshSandbox:
    """Return a sandbox on another machine; see `SshTarget` for the options. Programs reach whatever that machine does.

    Raises `InvalidValue` for a file that does not exist, and `Unsupported` for restrictions of the policy.
    """
    target = SshTarget(
        host=host,
        port=port,
        key=None if key is None else str(key),
        known_hosts=None if known_hosts is None else str(known_hosts),
        config=None if config is None else str(config),
        python=python,
        folder=folder,
        connect_seconds=connect_seconds,
    )
    # For a missing file ssh itself would only report that access was denied.
    if target.key and not any(os.path.exists(os.path.expanduser(target.key + end)) for end in ("", ".pub")):
        raise InvalidValue(f"there is no file with a key at {target.key}")
    if target.known_hosts and not os.path.exists(os.path.expanduser(target.known_hosts)):
        raise InvalidValue(f"there is no file with the keys of hosts at {target.known_hosts}")
    return SshSandbox(policy, target)
